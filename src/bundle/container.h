/* Shared by the checks of binary formats. */
#ifndef CLADE_BUNDLE_CONTAINER_H
#define CLADE_BUNDLE_CONTAINER_H

#include "base/file.h"
#include "bundle/bundle.h"

/* Copies a string from an array of `bytes`, where it must end, to the arena. */
clade_status clade__container_text(const char *where, const char *what, const unsigned char *data, size_t bytes,
                                   clade__arena *arena, const char **out);
clade_status clade__container_hex(const unsigned char *data, size_t bytes, clade__arena *arena, const char **out);
enum { CLADE__CONTAINER_KERNELS = 64 };
clade_status clade__container_kernel(const char *where, const char *name, clade__arena *arena, clade__facts *facts);
/* Names in the elements <kernel … name="…"> of a text. */
clade_status clade__container_xml_kernels(const char *where, const unsigned char *data, size_t bytes,
                                          clade__arena *arena, clade__facts *facts);
/* CORRUPT unless [offset, offset + bytes) is within [begin, end). */
clade_status clade__container_inside(const char *where, const char *what, uint64_t offset, uint64_t bytes,
                                     uint64_t begin, uint64_t end);

/* Offsets in a poclbin: number of kernels, the directory in PoCL's cache (zero-terminated), the program's files;
 * then each kernel with its files. */
enum { CLADE__POCLBIN_AT_KERNELS = 20, CLADE__POCLBIN_AT_NAME = 36, CLADE__POCLBIN_NAME = 41 };
size_t clade__poclbin_at_files(const unsigned char *data);

#endif
