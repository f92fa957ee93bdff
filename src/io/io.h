/* File formats: conversions between bytes and arrays, variables and scalars. Independent of kernels and devices;
 * variables only by the public API. */
#ifndef CLADE_IO_IO_H
#define CLADE_IO_IO_H

#include <clade/io.h>

#include "base/base.h"
#include "base/file.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "data of files lie in memory as they are: little-endian");

/* ---- arrays (array.c) ---- */
/* Allocates an array for a shape read from a file. BAD_SHAPE and OVERFLOW name the path. */
clade_status clade__array_new(const char *path, clade_dtype dtype, const clade_shape *shape, clade_array *out);

/* Checks that booleans are 0 or 1, which kernels rely on. offset: for the message. */
clade_status clade__truths_check(const char *path, const unsigned char *data, size_t n, size_t offset);

/* Number format of another program's file. */
typedef struct clade__number {
  clade__kind kind;
  size_t bytes;
  bool big; /* big-endian */
} clade__number;
size_t clade__npy_bytes(clade_dtype dtype); /* size of an element in NPY (npy.c) */
/* The smallest type of Clade that holds all values; f64 is rounded to f32. NONE: no type. */
clade_dtype clade__number_dtype(clade__number number);
/* CORRUPT unless the file has exactly these elements from `offset` on. */
clade_status clade__array_fits(const char *path, uint64_t file_bytes, size_t offset, clade__number number,
                               const clade_shape *shape);
/* Makes an array of the file's bytes from `offset` to the end, converting elements if necessary. Takes over the
 * bytes, also after a failure. */
clade_status clade__array_convert(const char *path, clade__bytes *file, size_t offset, clade__number number,
                                  const clade_shape *shape, clade_array *out);

/* ---- formats ---- */
/* Each takes over the file's bytes, also after a failure. path: for messages. */
clade_status clade__npy_parse(const char *path, clade__bytes *file, clade_array *out);

/* MNIST's format, plain or compressed by gzip (detected by content). OVERFLOW if the array exceeds `cap` bytes. */
clade_status clade__idx_read(const char *path, uint64_t cap, clade_array *out);
clade_status clade__idx_parse(const char *path, clade__bytes *file, uint64_t cap, clade_array *out);

/* CIFAR's binary files: records of `label_bytes` labels (1: CIFAR-10; 2: CIFAR-100, coarse and fine) and 3x32x32
 * bytes. images: u8 [n, 3, 32, 32]; labels: u8 [n, label_bytes], unchecked. */
clade_status clade__cifar_read(const char *path, int label_bytes, clade_array *images, clade_array *labels);
clade_status clade__cifar_parse(const char *path, clade__bytes *file, int label_bytes, clade_array *images,
                                clade_array *labels);

/* gzip (inflate.c). CORRUPT if `bytes` cannot have been compressed to `packed` bytes. */
clade_status clade__gzip_fits(const char *path, uint64_t packed, size_t bytes);
/* Decompresses the first `bytes`, or fewer if the file ends; with `all` the file must have exactly as many.
 * UNSUPPORTED in a build without zlib. */
bool clade__is_gzip(const clade__bytes *file);
clade_status clade__inflate(const char *path, const clade__bytes *file, size_t bytes, bool all, clade__bytes *out);

/* ---- safetensors (tensors.c) ---- */
typedef struct clade__tensor {
  const char *name, *type; /* type: as the file names it */
  clade_dtype dtype;       /* NONE: not a type of Clade */
  clade_shape shape;
  size_t place, bytes; /* place: offset in the file's data; bytes: of `data` */
  const unsigned char *data, *stored;
  size_t stored_bytes; /* size in the file */
  size_t packed;       /* size of an element if zeros are omitted in the file; else 0 */
  void *unpacked;      /* owns `data` in this case */
} clade__tensor;
typedef struct clade__tensors {
  clade__bytes file;
  struct json_t *header; /* owns the names */
  clade__tensor *at;     /* in the order of the file */
  size_t n;
  clade__map by_name;
} clade__tensors;
enum { CLADE__TENSORS_HEADER = 100000000, CLADE__TENSORS_MOST = 131072 };
/* Reads the header and checks it against the file's size. The tensors have no data. */
clade_status clade__tensors_head(const clade__file *file, clade__tensors *out);
/* Reads a file with a valid header, for clade__tensors_parse. */
clade_status clade__tensors_read(const char *path, clade__bytes *out);
/* Takes over the file's bytes, also after a failure. */
clade_status clade__tensors_parse(const char *path, clade__bytes *file, clade__tensors *out);
void clade__tensors_free(clade__tensors *tensors);
const clade__tensor *clade__tensors_find(const clade__tensors *tensors, const char *name); /* NULL: none */
const char *clade__tensors_metadata(const clade__tensors *tensors, const char *key);       /* NULL: none */

/* clade__tensors_key: the metadata's text for a tensor, or NULL. clade__tensors_type: parses a text with type and
 * sizes such as "F32 16 6 5 5". */
clade_status clade__tensors_key(const clade__tensors *t, const char *prefix, const char *name, const char **value);
bool clade__tensors_type(const char *text, clade_type *type, const char **name);

/* Tensors without their zeros (tensors_zeros.c): size, and conversion. */
size_t clade__zeros_bytes(const void *data, size_t n, size_t element);
void clade__zeros_pack(const void *data, size_t n, size_t element, unsigned char *out);
/* Sets the tensor's type and shape from the metadata, if zeros are omitted. */
clade_status clade__zeros_entry(const char *path, const clade__tensors *t, clade__tensor *tensor);
clade_status clade__zeros_unpack(const char *path, clade__tensor *tensor);
/* The same for tensors whose elements share blocks (tensors_blocks.c). */
clade_status clade__blocks_entry(const char *path, const clade__tensors *t, clade__tensor *tensor);

/* Keys that Clade writes into __metadata__ (tensors_check.c). CHECK is the checksum of the header, computed with
 * zeros in place of its own digits; each tensor has a checksum of its bytes. */
#define CLADE__META_CHECK  "clade.check"
#define CLADE__META_FORMAT "clade.format"
#define CLADE__META_STEP   "clade.step"
#define CLADE__META_TEXT   "clade.text"
#define CLADE__META_TENSOR "clade.xxh3:"
#define CLADE__META_ZEROS  "clade.zeros:"
#define CLADE__META_BLOCKS "clade.blocks:"
#define CLADE__FORMAT      "1"
enum { CLADE__DIGITS = 32 };
/* Fills in the digits of CHECK. header: without its length. */
void clade__tensors_seal(unsigned char *header, size_t bytes);
/* CORRUPT if a file that Clade wrote has changed. *ours: Clade wrote the file. */
clade_status clade__tensors_verify(const char *path, const clade__tensors *tensors, bool *ours);
/* Verifies only the header. */
clade_status clade__tensors_verify_header(const char *path, const clade__tensors *tensors, bool *ours);

/* ---- variables and files (tensors_write.c, vars.c) ---- */
#define CLADE__OPTIMIZER "optimizer."
/* State that starts anew if a file lacks it or has another: errors and bases of PowerSGD (train/low_rank.h). */
#define CLADE__LOW_RANK CLADE__OPTIMIZER "low_rank."
/* State of loss scaling (train/loss_scale.c), which may start anew. */
#define CLADE__LOSS_SCALE CLADE__OPTIMIZER "loss_scale"
enum { CLADE__NAME_BYTES = 320 };
typedef struct clade__pair {
  const char *key, *value;
} clade__pair;
/* Variables that this rank lacks, or has only in part, to be written as a whole. They are read one at a time. */
typedef struct clade__foreign_var {
  char name[CLADE__NAME_BYTES];
  clade_type type; /* of the whole variable */
  bool parameter;
} clade__foreign_var;
typedef struct clade__foreign {
  int n;
  clade__foreign_var *at;
  clade_status (*read)(void *user, const clade__foreign_var *var, void *data, size_t bytes);
  void *user;
} clade__foreign;
/* Whether a variable is a part of a foreign one. */
bool clade__vars_is_part(const clade_vars *vars, const char *name);
typedef struct clade__vars_written {
  const clade__foreign *foreign; /* NULL: none */
  bool weights_only, pack_zeros;
} clade__vars_written;
clade_status clade__vars_write(const clade_vars *vars, const clade__vars_written *how, clade__draft *draft,
                               size_t n_pairs, const clade__pair *pairs);
/* Sets the variables from a file, which must also fit the foreign ones (NULL: none); these are not changed. */
clade_status clade__vars_apply(const char *path, const clade__tensors *tensors, clade_vars *vars,
                               const clade__foreign *foreign, bool weights_only);
clade_status clade__vars_hash(const clade_vars *vars, const clade__foreign *foreign, char text[65]);

/* ---- logs ---- */
uint32_t clade__crc32c(const void *data, size_t bytes); /* crc32c.c */

/* A file of records that are appended as a whole (record_file.c). */
typedef struct clade__record_file {
  int fd; /* -1: closed */
  char *path;
  uint64_t bytes; /* size of the complete records */
} clade__record_file;
/* anew: creates the file, DUPLICATE if it exists; otherwise appends. */
clade_status clade__records_open(const char *path, bool anew, clade__record_file *out);
/* Appends all of the data or, after a failure, nothing. */
clade_status clade__records_add(clade__record_file *file, const void *data, size_t bytes);
void clade__records_close(clade__record_file *file);

/* The CSV file of scalars (scalars.c). */
clade_status clade__scalars_open(const char *directory, int64_t step, clade__record_file *out);
clade_status clade__scalars_add(clade__record_file *file, double time, int64_t step, const char *tag, double value);

#endif
