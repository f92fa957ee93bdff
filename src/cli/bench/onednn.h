/* What is used of oneDNN 2, declared by hand: structures are opaque rooms of at least their size. */
#ifndef CLADE_CLI_BENCH_ONEDNN_H
#define CLADE_CLI_BENCH_ONEDNN_H

#include "cli/bench/bench.h"

typedef struct dnn_md { /* a memory descriptor: 696 bytes in 2.6 */
  int64_t room[256];
} dnn_md;
typedef struct dnn_desc { /* of any operation: 5976 bytes in 2.6 */
  int64_t room[2048];
} dnn_desc;
typedef struct dnn_object *dnn_object; /* engines, streams, memories, descriptors of primitives, primitives */
typedef struct dnn_arg {
  int arg;
  dnn_object memory;
} dnn_arg;
typedef struct dnn_version {
  int major, minor, patch;
} dnn_version;

enum {
  DNN_BF16 = 2,
  DNN_F32 = 3,
  DNN_I32 = 4,
  DNN_I8 = 5,
  DNN_U8 = 6,
  DNN_ANY = 1,
  DNN_CPU = 1,
  DNN_AB = 3,
  DNN_ABC = 4,
  DNN_ABCD = 5,
  DNN_ABCDE = 7,
  DNN_ABCDEF = 8,
  DNN_ACDB = 20,
  DNN_ABCD16B = 69,
  DNN_ABCD8B = 93,
  DNN_TRAINING = 64,
  DNN_INFERENCE = 96,
  DNN_BACKWARD = 128,
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
  DNN_RELU = 0x1f,
  DNN_POOL_MAX = 0x1ff,
  DNN_POOL_MEAN = 0x3ff,
  DNN_ADD = 0x1fff0,
  DNN_GLOBAL_STATS_FLAG = 1,
  DNN_SCALE_SHIFT_FLAG = 2
};
#define DNN_ALLOCATE ((void *)-1)

/* The functions that are there once bench_dnn_load has given NULL; all but a few return 0 for success. */
typedef struct dnn_functions {
  const dnn_version *(*version)(void);
  int (*isa)(void);
  int (*engine_create)(dnn_object *, int kind, size_t index);
  int (*stream_create)(dnn_object *, dnn_object engine, unsigned flags);
  int (*stream_wait)(dnn_object);
  int (*md_init)(dnn_md *, int rank, const int64_t *dims, int type, int tag);
  int (*md_strides)(dnn_md *, int rank, const int64_t *dims, int type, const int64_t *strides);
  int (*md_equal)(const dnn_md *, const dnn_md *);
  int (*memory_create)(dnn_object *, const dnn_md *, dnn_object engine, void *handle);
  int (*memory_destroy)(dnn_object);
  int (*desc_create)(dnn_object *, const dnn_desc *, dnn_object attributes, dnn_object engine, dnn_object hint);
  int (*desc_destroy)(dnn_object);
  const dnn_md *(*query_md)(dnn_object desc, int what, int index);
  int (*query)(dnn_object desc, int what, int index, void *result);
  int (*reorder_create)(dnn_object *, const dnn_md *, dnn_object, const dnn_md *, dnn_object, dnn_object attributes);
  int (*primitive_create)(dnn_object *, dnn_object desc);
  int (*primitive_destroy)(dnn_object);
  int (*execute)(dnn_object primitive, dnn_object stream, int n, const dnn_arg *args);
  int (*conv_forward)(dnn_desc *, int kind, int algorithm, const dnn_md *src, const dnn_md *weights, const dnn_md *bias,
                      const dnn_md *dst, const int64_t *strides, const int64_t *dilates, const int64_t *before,
                      const int64_t *after);
  int (*conv_data)(dnn_desc *, int algorithm, const dnn_md *diff_src, const dnn_md *weights, const dnn_md *diff_dst,
                   const int64_t *strides, const int64_t *dilates, const int64_t *before, const int64_t *after);
  int (*conv_weights)(dnn_desc *, int algorithm, const dnn_md *src, const dnn_md *diff_weights, const dnn_md *bias,
                      const dnn_md *diff_dst, const int64_t *strides, const int64_t *dilates, const int64_t *before,
                      const int64_t *after);
  int (*norm_forward)(dnn_desc *, int kind, const dnn_md *, float epsilon, unsigned flags);
  int (*norm_backward)(dnn_desc *, int kind, const dnn_md *diff, const dnn_md *, float epsilon, unsigned flags);
  int (*eltwise_forward)(dnn_desc *, int kind, int algorithm, const dnn_md *, float alpha, float beta);
  int (*eltwise_backward)(dnn_desc *, int algorithm, const dnn_md *diff, const dnn_md *, float alpha, float beta);
  int (*pool_forward)(dnn_desc *, int kind, int algorithm, const dnn_md *src, const dnn_md *dst, const int64_t *strides,
                      const int64_t *kernel, const int64_t *before, const int64_t *after);
  int (*pool_backward)(dnn_desc *, int algorithm, const dnn_md *src, const dnn_md *dst, const int64_t *strides,
                       const int64_t *kernel, const int64_t *before, const int64_t *after);
  int (*binary)(dnn_desc *, int algorithm, const dnn_md *, const dnn_md *, const dnn_md *dst);
  int (*product_forward)(dnn_desc *, int kind, const dnn_md *src, const dnn_md *weights, const dnn_md *bias,
                         const dnn_md *dst);
  int (*matmul)(dnn_desc *, const dnn_md *src, const dnn_md *weights, const dnn_md *bias, const dnn_md *dst);
  size_t (*md_size)(const dnn_md *);
  int (*memory_data)(dnn_object, void **);
  void (*set_threads)(int);
  int (*threads)(void);
  dnn_object engine, stream;
} dnn_functions;
extern dnn_functions bench_dnn;

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
bool bench_dnn_tensor(dnn_tensor *t, const dnn_md *plain, const dnn_md *own, size_t elements, const float *from);
bool bench_dnn_move(dnn_object reorder, dnn_object from, dnn_object to); /* waits; NULL reorder: nothing to do */
void bench_dnn_tensor_free(dnn_tensor *t);

#endif
