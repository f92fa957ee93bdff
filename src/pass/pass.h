/* Rewrites that turn the user's graph into the lowered one; pipeline.c lists their order. Independent of OpenCL. */
#ifndef CLADE_PASS_H
#define CLADE_PASS_H

#include "op/op.h"
#include "program/records.h"

typedef struct clade__pass_ctx {
  /* Owned reference, immutable since it may be shared. A pass replaces and releases it; after a failure the caller
   * releases it. */
  clade_graph *graph;
  int n_devices;
  const clade_device_info *devices; /* [n_devices] */
  int fallback;                     /* index of the fallback device; -1: none */
  bool no_fusion, strict;
  bool brief;                         /* clade__explain: omit refusals */
  const char *prefer;                 /* "gemm=ref,…" or NULL */
  const char *place;                  /* "NODE=fallback,…" or NULL */
  clade_dtype precision;              /* narrow type of mixed precision; unset or f32: none */
  const char *types;                  /* "gemm=f32,…" or NULL */
  char *casts;                        /* set by passes: description of the casts; NULL: none */
  const char *quantization;           /* "conv1=u8:0.01,…" or NULL */
  bool simulate;                      /* simulate it, with variables in f32 */
  const clade__records *pins;         /* choices by exact problem, or NULL */
  bool trusted;                       /* accept the pins' configurations without checks */
  const clade__tuning *const *tuning; /* [n_devices], or NULL */
  clade__records *placed;             /* set by passes: pins of nodes that had a choice of device; NULL: none */
} clade__pass_ctx;

/* clade_gradients; invalid where y does not depend on x. */
clade_status clade__gradients(clade_graph *g, clade_val y, clade_val dy, int n, const clade_val *xs, clade_val *dxs);
/* Sums the shares' parts, some of which may be invalid: splits at the largest power of two below n, sums both halves
 * recursively, and adds them on the first part's device. */
clade_val clade__sum_in_pairs(clade_graph *g, int n, const clade_val *part);

/* Passes before specialization: validation, simplification, placement with transfers, dead code elimination. */
clade_status clade__passes_generic(clade__pass_ctx *ctx);
/* Passes after specialization: fusion, then selection of implementations. */
clade_status clade__passes_specific(clade__pass_ctx *ctx);

/* clade__graph_rewrite that replaces ctx->graph. */
clade_status clade__pass_rewrite(clade__pass_ctx *ctx, clade__rewrite_fn *fn, void *user);

/* The passes; each replaces ctx->graph or fails. */
clade_status clade__pass_dead(clade__pass_ctx *ctx);
clade_status clade__pass_fold(clade__pass_ctx *ctx);  /* identity casts, double transposes, common subexpressions */
clade_status clade__pass_place(clade__pass_ctx *ctx); /* inserts transfers between devices */
/* Places each node on the given device; inputs, variables and constants stay. */
clade_status clade__place_on(clade__pass_ctx *ctx, const int *device);
/* The device set that the user's placement allows for the node, by its name or op; 0: no restriction. */
unsigned clade__forced(const clade__pass_ctx *ctx, const clade__node *n);
clade_status clade__pass_views(clade__pass_ctx *ctx);       /* products read slices and permuted axes in place */
clade_status clade__pass_fallback(clade__pass_ctx *ctx);    /* moves nodes to the fallback device */
clade_status clade__pass_place_words(clade__pass_ctx *ctx); /* validates ctx->place */
clade_status clade__pass_prefer(clade__pass_ctx *ctx);      /* validates ctx->prefer */
/* Quantizes the layers of ctx->quantization; needs the built graph. */
clade_status clade__pass_quantize(clade__pass_ctx *ctx);
clade_status clade__pass_autocast(clade__pass_ctx *ctx); /* casts for ctx->precision; needs the built graph */
clade_status clade__pass_integers(clade__pass_ctx *ctx); /* integer kernels for dequantized operands, where faster */
clade_status clade__pass_masks(clade__pass_ctx *ctx);    /* moves ReLU's derivative before max_pool2d's */
clade_status clade__pass_fuse(clade__pass_ctx *ctx);
clade_status clade__pass_select(clade__pass_ctx *ctx); /* sets impl, config and refusals; inserts reorders */

/* The requested implementation, *length bytes without a terminator; NULL: none requested. */
const char *clade__preferred(const char *prefer, const char *op, size_t *length);
/* Whether "NAME" or "NAME/ALTERNATIVE", of n bytes, names the implementation. *alternative: -1 without a number. */
bool clade__impl_is(const clade_impl *impl, const char *text, size_t n, int *alternative);
bool clade__word_is(const char *name, const char *text, size_t n);
/* Finds one of Clade's ops or a user's op in the graph; NULL: unknown. */
const clade_op *clade__op_named(const clade_graph *g, const char *name, size_t n);
bool clade__needs_impl(const clade_op *op); /* false: views and the graph's own ops */
double clade__impl_cost(const clade_impl *impl, const clade_query *q);
/* Returns NULL if the implementation is accepted, else the reason. */
const char *clade__impl_refuses(const clade__pass_ctx *ctx, const clade_impl *impl, const clade_query *q);
/* The applicable implementation with the least estimated time, *seconds, on the device; -1: none. */
int clade__least_impl(const clade__pass_ctx *ctx, const clade_node *view, int device, double *seconds);
/* Sets up q for the implementation with its default configuration, stored in `config`; all zeros if it is not for
 * the device. */
void clade__query_defaults(clade_query *q, const clade_impl *impl, int32_t config[CLADE_MAX_PARAMS]);
void clade__query_alternative(clade_query *q, const clade_impl *impl, int alternative,
                              int32_t config[CLADE_MAX_PARAMS]); /* not only the first one */

/* ---- tuning records (pick.c, link.c) ---- */
enum { CLADE__PICKED_IMPLS = 32 };
typedef struct clade__pick {
  int count; /* number of valid records; 0: none */
  const char *why;
  /* Record by implementation and alternative; NULL: does not compete. Lives as long as the context's records. */
  const clade__record *of[CLADE__PICKED_IMPLS][CLADE_MAX_ALTERNATIVES];
} clade__pick;
bool clade__pick_refuses(const clade__pick *pick, int impl, int alternative); /* records show others to be better */
/* Recorded seconds if all competing records have them, else 0. */
double clade__pick_told(const clade__pick *pick, int impl, int alternative);
/* Looks up records for q's node as built, in the first source that has a valid one. */
clade_status clade__pick_find(const clade__pass_ctx *ctx, clade_query *q, int device, clade__pick *out);
/* Shortest recorded time for the node on this device; 0: none. */
clade_status clade__pick_seconds(const clade__pass_ctx *ctx, const clade_node *view, int device, double *seconds);
/* Sets up q for the implementation with its record's configuration, or a default from "*" or the space. */
void clade__pick_query(const clade__pass_ctx *ctx, clade_query *q, int device, const clade__pick *pick, int impl,
                       int alternative, int32_t config[CLADE_MAX_PARAMS]);
void clade__pick_device(int device, clade__text *text); /* prefix of a problem in pins */
/* Cost model of transfers between two devices. */
typedef struct clade__link {
  double seconds, per_byte;
} clade__link;
/* From a record of `device`, or a default. */
clade__link clade__link_find(const clade__pass_ctx *ctx, int device);
/* Time to change the device's program: from its records, or a default. */
double clade__change_seconds(const clade__pass_ctx *ctx, int device);
extern const char clade__change_op[]; /* op of such records; their problem is the digest of the device's bundles */
/* Records of transfers: the time to copy each of these sizes. */
enum { CLADE__LINK_SIZES = 2, CLADE__LINK_PROBLEM = 96 };
extern const size_t clade__link_bytes[CLADE__LINK_SIZES];
extern const char clade__link_op[];
void clade__link_problem(const clade_device_info *to, size_t bytes, char problem[CLADE__LINK_PROBLEM]);
/* The i-th listed configuration of a space; false: past the end. */
bool clade__space_config(const clade_space *space, const clade_query *q, int i, int32_t config[CLADE_MAX_PARAMS]);

/* ---- devices with several programs (order.c) ---- */
enum { CLADE__ANY_PROGRAM = -1 };
/* The program with the kernel; CLADE__ANY_PROGRAM: the device has at most one. */
int clade__program_of(const clade_device_info *device, const char *kernel);
/* Orders nodes to minimize program changes; program[node] is required on the node's device. `order` has room for all
 * nodes; *changes: per steady-state execution. */
clade_status clade__order(const clade_graph *g, int n_devices, const int *program, clade__id *order, int *changes);

/* Prints ctx->graph after selection, one line per node, for --explain. */
void clade__explain(const clade__pass_ctx *ctx, clade__text *out);

#endif
