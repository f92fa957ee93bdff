/* The used part of the C API of oneDNN 2 and oneDNN 3, declared here so that the build needs no oneDNN. Enumerations
 * whose numbers differ between the versions have own types; onednn_make.c translates them. */
#ifndef CLADE_CLI_BENCH_ONEDNN_H
#define CLADE_CLI_BENCH_ONEDNN_H

#include "cli/bench/bench.h"

enum { DNN_RANK = 6, DNN_TENSORS = 3 };
/* Layout of a tensor: a tag or strides. */
typedef enum dnn_tag {
  DNN_STRIDES,
  DNN_ANY,   /* chosen by the primitive */
  DNN_PLAIN, /* dense, last axis innermost */
  DNN_ACDB,
  DNN_ABCD16B,
  DNN_ABCD8B
} dnn_tag;
typedef struct dnn_md {
  int rank, type;
  dnn_tag tag;
  int64_t dims[DNN_RANK], strides[DNN_RANK];
} dnn_md;
typedef const void *dnn_own;           /* a memory descriptor of the library, owned by a primitive's descriptor */
typedef struct dnn_object *dnn_object; /* engine, stream, memory, descriptor of a primitive, or primitive */
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
  DNN_Q_ARG = 255, /* the argument is selected by the index */
  DNN_POOL_MAX = 0x1ff,
  DNN_POOL_MEAN = 0x3ff
};
static inline int bench_dnn_type(clade_dtype t) {
  return t == CLADE_F32    ? DNN_F32
         : t == CLADE_BF16 ? DNN_BF16
         : t == CLADE_I32  ? DNN_I32
         : t == CLADE_I8   ? DNN_I8
                           : DNN_U8;
}
#define DNN_ALLOCATE ((void *)-1)

/* Functions of the library, valid after bench_dnn_load. Those that return int return 0 for success, except isa and
 * threads. */
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
/* The operation of a primitive and its tensors. Each forward operation is followed by its derivatives. */
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
  DNN_PRODUCT, /* x, w, y: an inner product with w transposed */
  DNN_MATMUL   /* a, b, c */
} dnn_kind;
typedef struct dnn_work {
  dnn_kind kind;
  bool train; /* the forward pass keeps what the derivative needs */
  int algorithm;
  dnn_md md[DNN_TENSORS];
  int64_t strides[3], more[3], kernel[3], pads[3]; /* more: dilation minus 1, as oneDNN counts */
} dnn_work;
/* Creates the descriptor of a primitive; a derivative's also needs the forward one, made here. false: oneDNN
 * refused. */
bool bench_dnn_make(const dnn_work *work, dnn_object *out);
/* A memory descriptor of the library; close it with bench_dnn_close. */
typedef struct dnn_open {
  int64_t room[256]; /* storage of version 2's dnnl_memory_desc_t, 696 bytes in oneDNN 2.6 */
  dnn_object object; /* version 3's object */
  dnn_own md;
} dnn_open;
bool bench_dnn_open(const dnn_md *md, dnn_open *out);
void bench_dnn_close(dnn_open *open);
const char *bench_dnn_load_version(void); /* fills bench_dnn; returns NULL, or the reason of the failure */

/* ---- onednn.c ---- */
const char *bench_dnn_load(const bench_job *job);       /* returns NULL, or the reason of the failure */
void bench_dnn_tell(dnn_object desc, bench_side *side); /* fills in kernel, instruction set and threads */

/* A primitive of three tensors that is executed for each call of a chain. */
typedef struct dnn_role {
  int arg, query; /* numbers of the tensor as an argument and in queries */
  dnn_md plain;   /* as the numbers lie in `data`, in f32 */
  int64_t count;  /* one tensor, or one for each call */
  size_t elements;
  const float *data; /* NULL: the result */
  bool kept;         /* a weight, which is reordered once */
} dnn_role;
typedef struct dnn_chain {
  const char *what; /* in messages: product, convolution */
  int64_t calls;
  bool linked;   /* the result of a call is the first tensor of the next call */
  bool reorders; /* reorders from and to `plain` are part of a call */
  dnn_role role[DNN_TENSORS];
} dnn_chain;
/* A contestant, which owns `desc` from then on. NULL: oneDNN refuses, or memory is exhausted. */
struct dnn_contestant *bench_dnn_new(const dnn_chain *chain, dnn_object desc);
/* Fills `side` with the faster of two contestants, which may be NULL, and releases the other. Returns NULL, or the
 * reason why there is none. */
const char *bench_dnn_side(const char *name, const char *what, struct dnn_contestant *first,
                           struct dnn_contestant *second, bench_side *side);

#endif
