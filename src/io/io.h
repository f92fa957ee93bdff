/* Files of all formats stand on the same few things: a file read whole, a cursor that never leaves it, and a file that
 * is written beside its place and then renamed. Knows no kernels and no devices: variables by the public API only. */
#ifndef CLADE_IO_IO_H
#define CLADE_IO_IO_H

#include <clade/io.h>

#include "base/base.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "data of files lie in memory as they are: little-endian");

/* ---- files (file.c) ---- */
/* By errno: NOT_FOUND, PERMISSION, DUPLICATE, NO_MEMORY or IO: "cannot <what> <path>: <why>". */
clade_status clade__file_fail(const char *what, const char *path);

typedef struct clade__bytes { /* of one file */
  unsigned char *data;        /* by clade__free */
  size_t n;
} clade__bytes;
/* The whole of a regular file; OVERFLOW when it has more than `cap` bytes. */
clade_status clade__file_read(const char *path, uint64_t cap, clade__bytes *out);

/* Directories on the way as well. That it is there already is fine. */
clade_status clade__directory_make(const char *path);
clade_status clade__directory_sync(const char *path);

/* A file that is not yet in its place (draft.c): it lies beside it, as ".clade-PROCESS-NUMBER.tmp". */
typedef struct clade__draft {
  int fd; /* -1: none */
  char *path, *temporary, *directory;
} clade__draft;
clade_status clade__draft_open(const char *path, clade__draft *out);
clade_status clade__draft_write(clade__draft *draft, const void *data, size_t bytes);
clade_status clade__draft_write_at(clade__draft *draft, uint64_t offset, const void *data, size_t bytes);
clade_status clade__draft_sync(clade__draft *draft); /* on disk; no writing afterwards */
/* Synced, it appears in the same directory under a name more, in place of what had that name: as a link of the same
 * file or, where there are no links, as a copy. */
clade_status clade__draft_link(clade__draft *draft, const char *path);
clade_status clade__draft_place(clade__draft *draft); /* in its place, and the directory on disk */
/* Removes what was not placed. After a failure as well as at the end. */
void clade__draft_close(clade__draft *draft);
bool clade__draft_is_temporary(const char *name);

/* ---- a cursor over bytes (cursor.c) ---- */
typedef struct clade__cursor {
  const char *path; /* for messages */
  const unsigned char *data;
  size_t n, at;
} clade__cursor;
/* The next bytes; CORRUPT when there are less: "<path>: ends in <what>: …". */
clade_status clade__take(clade__cursor *cursor, size_t bytes, const char *what, const unsigned char **out);
/* CORRUPT when something follows. */
clade_status clade__take_end(const clade__cursor *cursor);
uint64_t clade__little(const unsigned char *from, size_t bytes);
uint64_t clade__big(const unsigned char *from, size_t bytes);
void clade__put_little(unsigned char *to, uint64_t value, size_t bytes);
bool clade__is_utf8(const char *text);

/* ---- arrays (array.c) ---- */
/* Room for a shape that a file states: refused by SHAPE, OVERFLOW with the path before it. */
clade_status clade__array_new(const char *path, clade_dtype dtype, const clade_shape *shape, clade_array *out);
/* The array that lies in a file's bytes from `offset` to their end: takes them over, also when it fails. */
clade_status clade__array_over(const char *path, clade__bytes *file, size_t offset, clade_dtype dtype,
                               const clade_shape *shape, clade_array *out);

/* A truth is 0 or 1 to every kernel: other values would be neither. `offset` is for the message. */
clade_status clade__truths_check(const char *path, const unsigned char *data, size_t n, size_t offset);

/* What numbers look like in files that are not Clade's. */
typedef enum clade__number_kind { CLADE__SIGNED, CLADE__UNSIGNED, CLADE__REAL, CLADE__TRUTH } clade__number_kind;
typedef struct clade__number {
  clade__number_kind kind;
  size_t bytes;
  bool big; /* endian */
} clade__number;
/* The smallest of Clade's types that holds them all; f64 is rounded to f32. NONE: there is none. */
clade_dtype clade__number_dtype(clade__number number);
/* As clade__array_over, for elements that may have to be converted. */
clade_status clade__array_convert(const char *path, clade__bytes *file, size_t offset, clade__number number,
                                  const clade_shape *shape, clade_array *out);

/* ---- formats ---- */
/* Each takes over the file's bytes, also when it fails. `path` is for messages. */
clade_status clade__npy_parse(const char *path, clade__bytes *file, clade_array *out);

/* MNIST's format, plain or compressed by gzip (told by the bytes, not by the name). OVERFLOW when the array has more
 * than `cap` bytes, compressed or not. */
clade_status clade__idx_read(const char *path, uint64_t cap, clade_array *out);
clade_status clade__idx_parse(const char *path, clade__bytes *file, uint64_t cap, clade_array *out);

/* CIFAR's binary files: records of `label_bytes` labels (1: CIFAR-10; 2: CIFAR-100, coarse and fine) and 3x32x32 bytes.
 * images u8 [n, 3, 32, 32]; labels u8 [n, label_bytes], of any value. */
clade_status clade__cifar_read(const char *path, int label_bytes, clade_array *images, clade_array *labels);
clade_status clade__cifar_parse(const char *path, clade__bytes *file, int label_bytes, clade_array *images,
                                clade_array *labels);

/* gzip (inflate.c). The first `bytes` of what is compressed, or fewer where it ends before; with `all` it must be
 * exactly as many. UNSUPPORTED in a build without zlib. */
bool clade__is_gzip(const clade__bytes *file);
clade_status clade__inflate(const char *path, const clade__bytes *file, size_t bytes, bool all, clade__bytes *out);

/* ---- safetensors (tensors.c) ---- */
typedef struct clade__tensor {
  const char *name, *type; /* the type as the file calls it */
  clade_dtype dtype;       /* NONE: Clade has no such type */
  clade_shape shape;
  const unsigned char *data;
  size_t bytes;
} clade__tensor;
typedef struct clade__tensors {
  clade__bytes file;
  struct json_t *header; /* owns the names */
  clade__tensor *at;     /* as they lie in the file */
  size_t n;
  clade__map by_name;
} clade__tensors;
/* Takes over the file's bytes, also when it fails. */
clade_status clade__tensors_parse(const char *path, clade__bytes *file, clade__tensors *out);
void clade__tensors_free(clade__tensors *tensors);
const clade__tensor *clade__tensors_find(const clade__tensors *tensors, const char *name); /* NULL: none */
const char *clade__tensors_metadata(const clade__tensors *tensors, const char *key);       /* NULL: none */

/* What Clade writes into __metadata__ (tensors_check.c). The first of them is the checksum of the header, computed with
 * its own digits as zeros; each tensor has one of its bytes. */
#define CLADE__META_CHECK  "clade.check"
#define CLADE__META_FORMAT "clade.format"
#define CLADE__META_STEP   "clade.step"
#define CLADE__META_TEXT   "clade.text"
#define CLADE__META_TENSOR "clade.xxh3:"
#define CLADE__FORMAT      "1"
enum { CLADE__DIGITS = 32 };
/* Fills in the digits, which are zeros; `header` is all of it, without its length. */
void clade__tensors_seal(unsigned char *header, size_t bytes);
/* CORRUPT where a file that Clade wrote is not what it was. `ours`: Clade wrote it. */
clade_status clade__tensors_verify(const char *path, const clade__tensors *tensors, bool *ours);

/* Variables to and from files (tensors_write.c, vars.c). */
#define CLADE__OPTIMIZER "optimizer."
typedef struct clade__pair {
  const char *key, *value;
} clade__pair;
clade_status clade__vars_write(const clade_vars *vars, clade__draft *draft, bool weights_only, size_t n_pairs,
                               const clade__pair *pairs);
clade_status clade__vars_apply(const char *path, const clade__tensors *tensors, clade_vars *vars, bool weights_only);

/* ---- what a training tells ---- */
uint32_t clade__crc32c(const void *data, size_t bytes); /* crc32c.c */

/* A file that grows by whole records (record_file.c). */
typedef struct clade__record_file {
  int fd; /* -1: none */
  char *path;
  uint64_t bytes; /* that are whole */
} clade__record_file;
/* To be made anew (DUPLICATE: it is there), or to go on with. */
clade_status clade__records_open(const char *path, bool anew, clade__record_file *out);
/* All of it or, if that fails, nothing. */
clade_status clade__records_add(clade__record_file *file, const void *data, size_t bytes);
void clade__records_close(clade__record_file *file);

/* The table of scalars (scalars.c). */
clade_status clade__scalars_open(const char *directory, int64_t step, clade__record_file *out);
clade_status clade__scalars_add(clade__record_file *file, double time, int64_t step, const char *tag, double value);

#endif
