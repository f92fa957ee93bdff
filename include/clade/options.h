/* Options: how the calls that have them take them, in C and in C++. docs/c-api.md shows it.
 *
 * An option means what it says: zero is zero. Where an option's default is another number, its struct has a macro that
 * fills the defaults in, named as the struct is: a call by its macro does that itself, clade_adam(.weight_decay = 0);
 * who fills a struct begins with it,
 *     clade_adam_opt o = {CLADE_ADAM_OPT};
 *     o.weight_decay = 0;
 * and one that began otherwise is refused. "Unset" in a comment is zero where zero itself would make no sense: a stride
 * or a batch of 0. In C++ the members have their defaults by themselves. */
#ifndef CLADE_OPTIONS_H
#define CLADE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include <clade/export.h>

#ifdef __cplusplus
#include <initializer_list>

/* Behind a member of an options struct: its default. */
#define CLADE_UNSET        = {}
#define CLADE_DEFAULT(...) = __VA_ARGS__
#define CLADE_FILLED(type, ...)

/* Valid until the end of the call that it is an argument of. */
template <class T> inline const T *clade_opt_address(const T &opt) { return &opt; }
template <class T, size_t n> char (&clade_list_count(const T (&)[n]))[n];

#define CLADE_OPT(type, ...)                clade_opt_address(type{__VA_ARGS__})
#define CLADE_OPT_FROM(type, defaults, ...) clade_opt_address(type{__VA_ARGS__})
#define CLADE_FROM_DEFAULTS(call)           (call)
#define CLADE_LIST(type, ...) \
  (int)sizeof(clade_list_count<type>({__VA_ARGS__})), std::initializer_list<type>{__VA_ARGS__}.begin()
#else
#define CLADE_UNSET
#define CLADE_DEFAULT(...)
/* What a struct's macro of defaults holds. */
#define CLADE_FILLED(type, ...)             .size = sizeof(type), .filled = true, __VA_ARGS__

/* The address of options that the caller's designators set, of a struct without and of one with such a macro. */
#define CLADE_OPT(type, ...)                (&(type){.size = sizeof(type), __VA_ARGS__})
#define CLADE_OPT_FROM(type, defaults, ...) (&(type){defaults, __VA_ARGS__})
/* The caller's designators override the defaults before them, which compilers warn of. */
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
#define CLADE_LIST(type, ...) \
  (int)(sizeof((type[]){__VA_ARGS__}) / sizeof(type)), (type[]) { __VA_ARGS__ }
#endif

#endif
