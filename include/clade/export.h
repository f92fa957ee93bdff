/* Visibility, linkage and compiler attributes of the public headers, for C11 and C++17. */
#ifndef CLADE_EXPORT_H
#define CLADE_EXPORT_H

/* C linkage for the declarations between the two macros, when compiled as C++. */
#ifdef __cplusplus
#define CLADE_BEGIN_DECLS extern "C" {
#define CLADE_END_DECLS   }
#else
#define CLADE_BEGIN_DECLS
#define CLADE_END_DECLS
#endif

#if defined __GNUC__
/* Marks a function that the shared library exports. */
#define CLADE_API __attribute__((visibility("default")))
/* Lets the compiler check a format and its arguments, as for printf. */
#define CLADE_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define CLADE_API
#define CLADE_PRINTF(text, first)
#endif

#endif
