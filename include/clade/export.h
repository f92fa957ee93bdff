/* Visibility, linkage and attributes for the public headers, in C11 and C++17. */
#ifndef CLADE_EXPORT_H
#define CLADE_EXPORT_H

#ifdef __cplusplus
#define CLADE_BEGIN_DECLS extern "C" {
#define CLADE_END_DECLS   }
#else
#define CLADE_BEGIN_DECLS
#define CLADE_END_DECLS
#endif

#if defined __GNUC__
#define CLADE_API                 __attribute__((visibility("default")))
#define CLADE_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define CLADE_API
#define CLADE_PRINTF(text, first)
#endif

#endif
