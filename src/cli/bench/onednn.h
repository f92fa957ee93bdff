/* What is used of oneDNN 2 and of oneDNN 3, declared by hand. Enumerations whose numbers differ have names of their own
 * here; onednn_make.c knows both. */
#ifndef CLADE_CLI_BENCH_ONEDNN_H
#define CLADE_CLI_BENCH_ONEDNN_H

#include "cli/bench/bench.h"

enum { DNN_RANK = 6, DNN_TENSORS = 3 };
/* How a tensor lies: by a tag, or by strides. */
typedef enum dnn_tag {
  DNN_STRIDES,
  DNN_ANY,   /* as the primitive likes best */
  DNN_PLAIN, /* dense, the last axis innermost */
  DNN_ACDB,
  DNN_ABCD16B,
  DNN_ABCD8B
} dnn_tag;
typedef struct dnn_md {
  int rank, type;
  dnn_tag tag;
  int64_t dims[DNN_RANK], strides[DNN_RANK];
} dnn_md;
typedef const void *dnn_own;           /* a memory descriptor of the library's, owned by a primitive's */
typedef struct dnn_object *dnn_object; /* engines, streams, memories, descriptors of primitives, primitives */
typedef struct dnn_arg {
  int arg;
  dnn_object memory;
} dnn_arg;

enum {
  DNN_BF16 = 2,
  DNN_F32 = 3,
  DNN_I32 = 4,
  DNN_I8 = 5,
  DNN_U8 = 6,
  DNN_CPU = 1,
  DNN_DIRECT = 1,
  DNN_AUTO = 3,
  DNN_SRC = 1,
  DNN_DST = 17,
  DNN_WEIGHTS = 33,
  DNN_DIFF_SRC = 129,
  DNN_DIFF_DST = 145,
  DNN_DIFF_WEIGHTS = 161,
  DNN_Q_IMPL = 8,
  DNN_Q_SRC = 129,
  DNN_Q_DIFF_SRC,
  DNN_Q_WEIGHTS,
  DNN_Q_DIFF_WEIGHTS,
  DNN_Q_DST,
  DNN_Q_DIFF_DST,
  DNN_Q_ARG = 255, /* its index: an argument */
  DNN_POOL_MAX = 0x1ff,
  DNN_POOL_MEAN = 0x3ff
};
#define DNN_ALLOCATE ((void *)-1)

/* The functions that are there once bench_dnn_load has given NULL; all but a few return 0 for success. */
typedef struct dnn_functions {
  int (*isa)(void);
  int (*engine_create)(dnn_object *, int kind, size_t index);
  int (*stream_create)(dnn_object *, dnn_object engine, unsigned flags);
  int (*stream_wait)(dnn_object);
  int (*md_equal)(dnn_own, dnn_own);
  int (*memory_create)(dnn_object *, dnn_own, dnn_object engine, void *handle);
  int (*memory_destroy)(dnn_object);
  int (*desc_destroy)(dnn_object);
  dnn_own (*query_md)(dnn_object desc, int what, int index);
  int (*query)(dnn_object desc, int what, int index, void *result);
  int (*reorder_create)(dnn_object *, dnn_own, dnn_object, dnn_own, dnn_object, dnn_object attributes);
  int (*primitive_create)(dnn_object *, dnn_object desc);
  int (*primitive_destroy)(dnn_object);
  int (*execute)(dnn_object primitive, dnn_object stream, int n, const dnn_arg *args);
  size_t (*md_size)(dnn_own);
  int (*memory_data)(dnn_object, void **);
  void (*set_threads)(int);
  int (*threads)(void);
  dnn_object engine, stream;
} dnn_functions;
extern dnn_functions bench_dnn;

/* ---- onednn_make.c ---- */
/* What a primitive computes, and of which tensors: each forward one is followed by its derivatives. */
typedef enum dnn_kind {
  DNN_CONV,         /* x, w, y */
  DNN_CONV_DATA,    /* dx, w, dy */
  DNN_CONV_WEIGHTS, /* x, dw, dy */
  DNN_NORM,         /* x */
  DNN_NORM_GRAD,
  DNN_RELU, /* x */
  DNN_RELU_GRAD,
  DNN_POOL, /* x, y */
  DNN_POOL_GRAD,
  DNN_ADD,     /* x */
  DNN_PRODUCT, /* x, w, y: an inner product, w transposed */
  DNN_MATMUL   /* a, b, c */
} dnn_kind;
typedef struct dnn_work {
  dnn_kind kind;
  bool train; /* the forward pass keeps what its derivative needs */
  int algorithm;
  dnn_md md[DNN_TENSORS];
  int64_t strides[3], more[3], kernel[3], pads[3]; /* more: places that are left out between those of a window */
} dnn_work;
/* A descriptor of its primitive; of a derivative's, beside the forward one. false: refused. */
bool bench_dnn_make(const dnn_work *work, dnn_object *out);
/* The library's descriptor of a tensor while it is open. */
typedef struct dnn_open {
  int64_t room[256]; /* version 2's: 696 bytes in 2.6 */
  dnn_object object; /* version 3's */
  dnn_own md;
} dnn_open;
bool bench_dnn_open(const dnn_md *md, dnn_open *out);
void bench_dnn_close(dnn_open *open);
const char *bench_dnn_load_version(void); /* NULL, or the reason; then bench_dnn is filled */

/* ---- onednn.c ---- */
const char *bench_dnn_load(const bench_job *job);       /* NULL, or the reason */
void bench_dnn_tell(dnn_object desc, bench_side *side); /* kernel, instruction set, threads */
/* The faster of two contestants, each of which may be NULL, or the first; the other one is released. */
void *bench_dnn_faster(void *first, void *second, clade_status (*call)(void *), void (*release)(void *));

/* A tensor in a plain layout, and the same in the one that a primitive wants. */
typedef struct dnn_tensor {
  dnn_object plain, own, in, out; /* own: plain itself where the layout is the same; in, out: reorders, or NULL */
  float *data;                    /* plain's */
  size_t elements;
  const float *from; /* NULL: a result */
} dnn_tensor;
/* `from` is copied now. false: oneDNN or memory failed. */
bool bench_dnn_tensor(dnn_tensor *t, const dnn_md *plain, dnn_own own, size_t elements, const float *from);
bool bench_dnn_move(dnn_object reorder, dnn_object from, dnn_object to); /* waits; NULL reorder: nothing to do */
void bench_dnn_tensor_free(dnn_tensor *t);

#endif
