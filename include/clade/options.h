/* Options of calls, in C and in C++. docs/c-api.md shows both.
 *
 * Zero means zero. If an option has another default, its struct comes with a macro of all defaults, named after the
 * struct. A call through its macro applies the defaults itself: clade_adam(.weight_decay = 0). A program that fills the
 * struct begins with the macro; other structs are refused:
 *
 *     clade_adam_opt o = {CLADE_ADAM_OPT};
 *     o.weight_decay = 0;
 *
 * "Unset" in a comment is zero, for options for which zero makes no sense, such as a stride or a batch of 0. In C++ the
 * members have their defaults by themselves. */
#ifndef CLADE_OPTIONS_H
#define CLADE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include <clade/export.h>

#ifdef __cplusplus
#include <initializer_list>

/* The default of a struct member, in C++. */
#define CLADE_UNSET        = {}
#define CLADE_DEFAULT(...) = __VA_ARGS__
#define CLADE_FILLED(type, ...)

/* The address of a temporary, valid until the end of the call that takes it. */
template <class T> inline const T *clade_opt_address(const T &opt) { return &opt; }
template <class T, size_t n> char (&clade_list_count(const T (&)[n]))[n];

#define CLADE_OPT(type, ...)                clade_opt_address(type{__VA_ARGS__})
#define CLADE_OPT_FROM(type, defaults, ...) clade_opt_address(type{__VA_ARGS__})
#define CLADE_FROM_DEFAULTS(call)           (call)
#define CLADE_LIST(type, ...) \
  (int)sizeof(clade_list_count<type>({__VA_ARGS__})), std::initializer_list<type>{__VA_ARGS__}.begin()
#else
/* Marks the default of a struct member, which only C++ applies: zero, or the given value. */
#define CLADE_UNSET
#define CLADE_DEFAULT(...)
/* The body of a macro of defaults, such as CLADE_ADAM_OPT. */
#define CLADE_FILLED(type, ...)             .size = sizeof(type), .filled = true, __VA_ARGS__

/* The address of an options struct that is initialized by designators, for a struct without and one with a macro of
 * defaults. */
#define CLADE_OPT(type, ...)                (&(type){.size = sizeof(type), __VA_ARGS__})
#define CLADE_OPT_FROM(type, defaults, ...) (&(type){defaults, __VA_ARGS__})
/* Silences the compiler's warning about designators that override defaults. */
#if defined __clang__
#define CLADE_FROM_DEFAULTS(call)                                                                          \
  __extension__({                                                                                          \
    _Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Winitializer-overrides\"") call; \
    _Pragma("clang diagnostic pop")                                                                        \
  })
#elif defined __GNUC__
#define CLADE_FROM_DEFAULTS(call)                                                              \
  __extension__({                                                                              \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Woverride-init\"") call; \
    _Pragma("GCC diagnostic pop")                                                              \
  })
#else
#define CLADE_FROM_DEFAULTS(call) (call)
#endif
/* Two arguments, a count and an array, from a list of values. CLADE_FEEDS and CLADE_DIMS are made with this macro. */
#define CLADE_LIST(type, ...) \
  (int)(sizeof((type[]){__VA_ARGS__}) / sizeof(type)), (type[]) { __VA_ARGS__ }
#endif

#endif
