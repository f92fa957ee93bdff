/* Files: arrays of NPY, variables as safetensors, checkpoints, and what a training tells (event files and CSV). What is
 * read may come from anywhere: every byte is checked, and a refusal names the file and what is wrong in it. Files are
 * written beside their place, synced and renamed: whole or not at all. docs/formats.md states the formats. */
#ifndef CLADE_IO_H
#define CLADE_IO_H

#include <clade/func.h>

CLADE_BEGIN_DECLS

/* ---- arrays on the host ---- */
/* Dense and row-major. All zero is empty; who makes one from memory of his own leaves `owner` NULL. */
typedef struct clade_array {
  clade_dtype dtype;
  clade_shape shape;
  void *data;
  size_t bytes; /* of data */
  void *owner;  /* the allocation that data lies in */
} clade_array;
CLADE_API void clade_array_free(clade_array *array); /* empty afterwards; NULL is fine */

/* NPY, versions 1 to 3. f8 becomes f32; i2 and u2 become i32, u4 becomes i64; what Clade has no type for is
 * CLADE_DTYPE. Fortran order is put into row-major. */
CLADE_API clade_status clade_npy_read(const char *path, clade_array *out);
/* bf16, which NPY does not know, is written as f4. */
CLADE_API clade_status clade_npy_write(const char *path, const clade_array *array);

CLADE_END_DECLS
#endif
