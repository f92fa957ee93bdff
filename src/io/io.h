/* Formats of files: from bytes to arrays, variables and scalars, and back. Knows no kernels and no devices: variables
 * by the public API only. */
#ifndef CLADE_IO_IO_H
#define CLADE_IO_IO_H

#include <clade/io.h>

#include "base/base.h"
#include "base/file.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "data of files lie in memory as they are: little-endian");

/* ---- arrays (array.c) ---- */
/* Room for a shape that a file states: refused by BAD_SHAPE, OVERFLOW with the path before it. */
clade_status clade__array_new(const char *path, clade_dtype dtype, const clade_shape *shape, clade_array *out);

/* A truth is 0 or 1 to every kernel: other values would be neither. `offset` is for the message. */
clade_status clade__truths_check(const char *path, const unsigned char *data, size_t n, size_t offset);

/* What numbers look like in files that are not Clade's. */
typedef struct clade__number {
  clade__kind kind;
  size_t bytes;
  bool big; /* endian */
} clade__number;
size_t clade__npy_bytes(clade_dtype dtype); /* of an element as NPY has it (npy.c) */
/* The smallest of Clade's types that holds them all; f64 is rounded to f32. NONE: there is none. */
clade_dtype clade__number_dtype(clade__number number);
/* CORRUPT unless a file of so many bytes has exactly these elements from `offset` on. */
clade_status clade__array_fits(const char *path, uint64_t file_bytes, size_t offset, clade__number number,
                               const clade_shape *shape);
/* The array whose elements, which may have to be converted, lie in a file's bytes from `offset` to their end: takes the
 * bytes over, also when it fails. */
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

/* gzip (inflate.c). CORRUPT where `packed` bytes cannot be what so many were compressed to. */
clade_status clade__gzip_fits(const char *path, uint64_t packed, size_t bytes);
/* The first `bytes` of what is compressed, or fewer where it ends before; with `all` it must be
 * exactly as many. UNSUPPORTED in a build without zlib. */
bool clade__is_gzip(const clade__bytes *file);
clade_status clade__inflate(const char *path, const clade__bytes *file, size_t bytes, bool all, clade__bytes *out);

/* ---- safetensors (tensors.c) ---- */
typedef struct clade__tensor {
  const char *name, *type; /* the type as the file calls it */
  clade_dtype dtype;       /* NONE: Clade has no such type */
  clade_shape shape;
  size_t place, bytes; /* where it begins in the file's data; of `data` */
  const unsigned char *data, *stored;
  size_t stored_bytes; /* in the file */
  size_t packed;       /* bytes of an element, where zeros are left out there; else 0 */
  void *unpacked;      /* what `data` is then */
} clade__tensor;
typedef struct clade__tensors {
  clade__bytes file;
  struct json_t *header; /* owns the names */
  clade__tensor *at;     /* as they lie in the file */
  size_t n;
  clade__map by_name;
} clade__tensors;
enum { CLADE__TENSORS_HEADER = 100000000, CLADE__TENSORS_MOST = 131072 };
/* What the header tells, which was checked against the size of the file; the tensors have no data yet. */
clade_status clade__tensors_head(const clade__file *file, clade__tensors *out);
/* The bytes of a file whose header is right, for clade__tensors_parse. */
clade_status clade__tensors_read(const char *path, clade__bytes *out);
/* Takes over the file's bytes, also when it fails. */
clade_status clade__tensors_parse(const char *path, clade__bytes *file, clade__tensors *out);
void clade__tensors_free(clade__tensors *tensors);
const clade__tensor *clade__tensors_find(const clade__tensors *tensors, const char *name); /* NULL: none */
const char *clade__tensors_metadata(const clade__tensors *tensors, const char *key);       /* NULL: none */

/* The metadata's text for a tensor, or NULL; and one that says type and sizes, as "F32 16 6 5 5". */
clade_status clade__tensors_key(const clade__tensors *t, const char *prefix, const char *name, const char **value);
bool clade__tensors_type(const char *text, clade_type *type, const char **name);

/* Tensors in which zeros are left out (tensors_zeros.c): how many bytes one takes, and those. */
size_t clade__zeros_bytes(const void *data, size_t n, size_t element);
void clade__zeros_pack(const void *data, size_t n, size_t element, unsigned char *out);
/* Gives a tensor the type and shape that the metadata tell, if it is one of them. */
clade_status clade__zeros_entry(const char *path, const clade__tensors *t, clade__tensor *tensor);
clade_status clade__zeros_unpack(const char *path, clade__tensor *tensor);
/* The same of tensors whose elements share blocks (tensors_blocks.c). */
clade_status clade__blocks_entry(const char *path, const clade__tensors *t, clade__tensor *tensor);

/* What Clade writes into __metadata__ (tensors_check.c). The first of them is the checksum of the header, computed with
 * its own digits as zeros; each tensor has one of its bytes. */
#define CLADE__META_CHECK  "clade.check"
#define CLADE__META_FORMAT "clade.format"
#define CLADE__META_STEP   "clade.step"
#define CLADE__META_TEXT   "clade.text"
#define CLADE__META_TENSOR "clade.xxh3:"
#define CLADE__META_ZEROS  "clade.zeros:"
#define CLADE__META_BLOCKS "clade.blocks:"
#define CLADE__FORMAT      "1"
enum { CLADE__DIGITS = 32 };
/* Fills in the digits, which are zeros; `header` is all of it, without its length. */
void clade__tensors_seal(unsigned char *header, size_t bytes);
/* CORRUPT where a file that Clade wrote is not what it was. `ours`: Clade wrote it. */
clade_status clade__tensors_verify(const char *path, const clade__tensors *tensors, bool *ours);
clade_status clade__tensors_verify_header(const char *path, const clade__tensors *tensors, bool *ours); /* alone */

/* Variables to and from files (tensors_write.c, vars.c). */
#define CLADE__OPTIMIZER "optimizer."
/* Of these, what begins anew where a file has none or others: of approximations of gradients (train/low_rank.h). */
#define CLADE__LOW_RANK CLADE__OPTIMIZER "low_rank."
/* And of loss scaling (train/loss_scale.c), which a training may begin with anew. */
#define CLADE__LOSS_SCALE CLADE__OPTIMIZER "loss_scale"
enum { CLADE__NAME_BYTES = 320 };
typedef struct clade__pair {
  const char *key, *value;
} clade__pair;
/* Variables that are not, or not as a whole, in these, to be written as if they were. They are read one after the
 * other.
 */
typedef struct clade__foreign_var {
  char name[CLADE__NAME_BYTES];
  clade_type type; /* of the whole */
  bool parameter;
} clade__foreign_var;
typedef struct clade__foreign {
  int n;
  clade__foreign_var *at;
  clade_status (*read)(void *user, const clade__foreign_var *var, void *data, size_t bytes);
  void *user;
} clade__foreign;
/* Whether a variable is a part, which the foreign ones have the whole of. */
bool clade__vars_is_part(const clade_vars *vars, const char *name);
typedef struct clade__vars_written {
  const clade__foreign *foreign; /* NULL: none */
  bool weights_only, pack_zeros;
} clade__vars_written;
clade_status clade__vars_write(const clade_vars *vars, const clade__vars_written *how, clade__draft *draft,
                               size_t n_pairs, const clade__pair *pairs);
/* The file has to fit the foreign ones (NULL: none) too, which are left as they are. */
clade_status clade__vars_apply(const char *path, const clade__tensors *tensors, clade_vars *vars,
                               const clade__foreign *foreign, bool weights_only);
clade_status clade__vars_hash(const clade_vars *vars, const clade__foreign *foreign, char text[65]);

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
