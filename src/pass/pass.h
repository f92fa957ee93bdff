/* Rewrites from the graph that a user built to the one that is lowered. pipeline.c shows their order. No OpenCL here.
 */
#ifndef CLADE_PASS_H
#define CLADE_PASS_H

#include "op/op.h"
#include "program/records.h"

typedef struct clade__pass_ctx {
  clade_graph *graph; /* a reference of the context's own: a pass that replaces it releases it; when one fails it is
                         still there, and the caller's to release. Never written to: it may be shared */
  int n_devices;
  const clade_device_info *devices; /* [n_devices] */
  int fallback;                     /* of those, the one that takes what bundles cannot do; -1: there is none */
  bool no_fusion, strict;
  bool brief;                         /* clade__explain: without those that refused */
  const char *prefer;                 /* "gemm=ref,…" or NULL */
  const char *place;                  /* "NODE=fallback,…" or NULL */
  clade_dtype precision;              /* that f32 is narrowed to where that does no harm; unset or f32: nowhere */
  const char *types;                  /* "gemm=f32,…" or NULL */
  char *casts;                        /* of passes: what was cast, for people; NULL: nothing */
  const char *quantization;           /* "conv1=u8:0.01,…" or NULL */
  bool simulate;                      /* it, of variables in f32 */
  const clade__records *pins;         /* choices by exact problems; NULL: none */
  bool trusted;                       /* the pins' configurations are taken as they are */
  const clade__tuning *const *tuning; /* [n_devices]; NULL: nothing is known of any */
  clade__records *placed;             /* of passes: where nodes were put that had a choice, as pins; NULL: none had */
} clade__pass_ctx;

/* As clade_gradients; invalid where y does not depend on x. */
clade_status clade__gradients(clade_graph *g, clade_val y, clade_val dy, int n, const clade_val *xs, clade_val *dxs);
/* What shares of a batch give, of which some may be invalid: the largest power of two that is less than n of them and
 * the others are summed alike, and then together, where the first one is. */
clade_val clade__sum_in_pairs(clade_graph *g, int n, const clade_val *part);

/* As built: checks that everything is well formed, canonicalizes, places (inserting transfers), drops what is dead. */
clade_status clade__passes_generic(clade__pass_ctx *ctx);
/* Once shapes are known: fuses elementwise nodes and epilogues, selects implementations. */
clade_status clade__passes_specific(clade__pass_ctx *ctx);

/* clade__graph_rewrite from ctx->graph to ctx->graph. */
clade_status clade__pass_rewrite(clade__pass_ctx *ctx, clade__rewrite_fn *fn, void *user);

/* The passes: each replaces ctx->graph or fails. */
clade_status clade__pass_dead(clade__pass_ctx *ctx);
clade_status
clade__pass_fold(clade__pass_ctx *ctx); /* casts to the same type, double transposes, common subexpressions */
clade_status clade__pass_place(clade__pass_ctx *ctx); /* transfers where a node's operand lives on another device */
/* The same with every node on the device that is told for it; sources stay what they are. */
clade_status clade__place_on(clade__pass_ctx *ctx, const int *device);
/* Where the user wants the node, by its name or its op's: sets of one, 0: wherever. */
unsigned clade__forced(const clade__pass_ctx *ctx, const clade__node *n);
clade_status clade__pass_views(clade__pass_ctx *ctx); /* products read slices and permuted axes where they lie */
clade_status
clade__pass_fallback(clade__pass_ctx *ctx); /* decides which nodes go to the fallback device, and does so */
clade_status clade__pass_place_words(clade__pass_ctx *ctx); /* only looks at ctx->place */
clade_status clade__pass_prefer(clade__pass_ctx *ctx);      /* only looks at ctx->prefer */
clade_status clade__pass_quantize(clade__pass_ctx *ctx);    /* layers of ctx->quantization; needs the graph as built */
clade_status clade__pass_autocast(clade__pass_ctx *ctx); /* casts by ctx->precision; needs the graph as it was built */
clade_status clade__pass_integers(clade__pass_ctx *ctx); /* of dequantized bytes by bytes, where that pays */
clade_status clade__pass_masks(clade__pass_ctx *ctx);    /* relu's derivative goes before max_pool2d's */
clade_status clade__pass_fuse(clade__pass_ctx *ctx);
clade_status clade__pass_select(clade__pass_ctx *ctx); /* writes impl, row and refusals; converts layouts */

/* The implementation that is asked for: text of *length bytes, not terminated; NULL: any. */
const char *clade__preferred(const char *prefer, const char *op, size_t *length);
bool clade__word_is(const char *name, const char *text, size_t n);
/* Clade's own ops, and those of users that the graph has; NULL: there is none of that name. */
const clade_op *clade__op_named(const clade_graph *g, const char *name, size_t n);
bool clade__needs_impl(const clade_op *op); /* false: views and what the graph itself knows */
double clade__impl_cost(const clade_impl *impl, const clade_query *q);
/* Why the implementation is not taken, or a static text. Unset: it is taken. */
const char *clade__impl_refuses(const clade__pass_ctx *ctx, const clade_impl *impl, const clade_query *q);
/* The number of the cheapest that takes the node on that device, by its own estimate, which is *seconds; -1: none
 * does. */
int clade__least_impl(const clade__pass_ctx *ctx, const clade_node *view, int device, double *seconds);
/* Makes q one of this implementation, with the row that it starts from, zeros on a device that it is not for; `row`
 * holds it. */
void clade__query_defaults(clade_query *q, const clade_impl *impl, int32_t config[CLADE_MAX_PARAMS]);

/* ---- tuning records (pick.c, link.c) ---- */
enum { CLADE__PICKED_IMPLS = 32 };
typedef struct clade__pick {
  int count; /* of records that hold; 0: nothing is known */
  const char *why;
  const clade__record
      *of[CLADE__PICKED_IMPLS]; /* by implementation; NULL: it does not compete. As long as the context's */
} clade__pick;
bool clade__pick_refuses(const clade__pick *pick, int impl); /* others are known to be better */
double clade__pick_told(const clade__pick *pick, int impl);  /* seconds, where all that compete tell theirs; or 0 */
/* What records say of q's node as it was built: those of the first source of which one holds. */
clade_status clade__pick_find(const clade__pass_ctx *ctx, clade_query *q, int device, clade__pick *out);
/* The least that the device's own records say that the node takes there; 0: nothing. */
clade_status clade__pick_seconds(const clade__pass_ctx *ctx, const clade_node *view, int device, double *seconds);
/* Makes q one of this implementation: with the row of its record, or one that "*" or the space start from. */
void clade__pick_query(const clade__pass_ctx *ctx, clade_query *q, int device, const clade__pick *pick, int impl,
                       int32_t config[CLADE_MAX_PARAMS]);
void clade__pick_device(int device, clade__text *text); /* before the exact problem, in pins */
/* A copy between two devices takes `seconds`, and `per_byte` more for each byte. */
typedef struct clade__link {
  double seconds, per_byte;
} clade__link;
/* As a record of `device` tells it, or else round numbers. */
clade__link clade__link_find(const clade__pass_ctx *ctx, int device);
/* What it takes until a device has another one of its programs: as a record of its own tells it, or a round number. */
double clade__change_seconds(const clade__pass_ctx *ctx, int device);
extern const char clade__change_op[]; /* of such records; their problem is the digest of the device's bundles */
/* Records of copies: they tell how long a copy of so many bytes takes. */
enum { CLADE__LINK_SIZES = 2, CLADE__LINK_PROBLEM = 96 };
extern const size_t clade__link_bytes[CLADE__LINK_SIZES];
extern const char clade__link_op[];
void clade__link_problem(const clade_device_info *to, size_t bytes, char problem[CLADE__LINK_PROBLEM]);
/* Row i of those that a space lists; false behind the last. */
bool clade__space_config(const clade_space *space, const clade_query *q, int i, int32_t config[CLADE_MAX_PARAMS]);

/* ---- programs of devices that have several (order.c) ---- */
enum { CLADE__ANY_PROGRAM = -1 };
/* That holds the kernel; CLADE__ANY_PROGRAM: the device has one, or none. */
int clade__program_of(const clade_device_info *device, const char *kernel);
/* The order of nodes in which devices change their programs least often: each needs that of `program`, by node, on its
 * device. `order` has room for all; *changes: of an execution after another. */
clade_status clade__order(const clade_graph *g, int n_devices, const int *program, clade__id *order, int *changes);

/* What --explain prints for ctx->graph after select: a line per node. */
void clade__explain(const clade__pass_ctx *ctx, clade__text *out);

#endif
