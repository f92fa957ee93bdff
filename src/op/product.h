/* Products by tiles in local memory (cl_kernels/product.cl): what gemm's and convolution's implementations for GPUs are
 * told alike, and what a tuner may vary of them. */
#ifndef CLADE_PRODUCT_H
#define CLADE_PRODUCT_H

#include "op/dims.h"

/* `matrices` products of M x K by K x N. */
typedef struct clade__matmul {
  int64_t m, n, k, matrices;
} clade__matmul;

/* BM x BN: a work-group's tile. BK: how much of the inner axis it takes at a time; with units in words, each two halves
 * or a float. TM x TN: the tile of a work-item or, with units, of a warp. Stages: how many slices have room in local
 * memory; two in spaces without it. */
enum { CLADE__BM, CLADE__BN, CLADE__BK, CLADE__TM, CLADE__TN, CLADE__STAGES, CLADE__TILE_PARAMS };
extern const char *const clade__tile_params[], *const clade__staged_params[]; /* without stages, and with */

/* `speed`: what it reaches, as a multiple of the device's peak of f32 multiply-adds. */
typedef struct clade__tile {
  int32_t config[CLADE__TILE_PARAMS];
  double speed;
} clade__tile;

/* The tiles of an implementation. `unit` multiplies; CLADE_UNITS: the work-items do. The first `defaults` tiles are
 * candidates for a default, and number `least` of these needs least of a device; the others are for the tuner alone.
 * `tables`: local memory also holds what sources know of steps and columns. */
typedef struct clade__tiles {
  clade_unit unit;
  bool warpgroup, tables;
  int params, n, defaults, least;
  const clade__tile *tiles;
} clade__tiles;
/* Multiply-adds; warps, and four of them together. gather: for pixels, which go through registers. */
extern const clade__tiles clade__tiles_simt, clade__tiles_warp, clade__tiles_warpgroup, clade__tiles_warp_gather,
    clade__tiles_warpgroup_gather;

/* A product that has few tiles keeps few compute units busy, so its inner axis is cut into `n` parts of `span` steps; n
 * is 1 for others. By sizes alone, since it orders sums. */
typedef struct clade__parts {
  clade__matmul each; /* parts of all matrices */
  int64_t n, span;
} clade__parts;
clade__parts clade__parts_of(const clade__matmul *whole);
clade__parts clade__parts_cut(const clade__matmul *whole, int64_t wanted); /* about as many as are wanted */
/* In the workspace: all results of each part. `results` are the node's. */
size_t clade__parts_bytes(const clade__parts *p, int64_t results);
/* Begins the launch that adds the parts up. dim: six batch extents, rows and columns. The caller adds the epilogue's
 * arguments. */
clade_status clade__parts_join(clade_emit *e, const clade_query *q, const clade__parts *p, const int64_t *dim,
                               float alpha, clade_kernel_step **out);

void clade__tiles_defaults(const clade_query *q, const clade__tiles *t, const clade__matmul *p, int32_t *config);
bool clade__tiles_configs(const clade__tiles *t, int i, int32_t *config);
/* clade_impl.units. */
bool clade__product_warps(const clade_query *q);
bool clade__product_warpgroups(const clade_query *q);
/* NULL, or why the device cannot run the configuration in force, or the unit does not take the operands' type;
 * `single`: units are to take f32. */
const char *clade__tiles_refuse(const clade_query *q, const clade__tiles *t, const clade__matmul *p, bool single);
double clade__tiles_cost(const clade_query *q, const clade__tiles *t, const clade__matmul *p, double bytes);
/* How many neighbors in memory a kernel can read at once: a run, which begins at a multiple of as many. */
int64_t clade__tiles_run(const clade_query *q, const clade__tiles *t);
/* How an operand lies. deep: neighbors in memory are neighbors along the inner axis. runs: it consists of whole runs,
 * if it begins where one may. */
typedef struct clade__lies {
  bool deep, runs;
} clade__lies;
/* The parameters of the kernel, and its launch. */
void clade__tiles_launch(clade_kernel_step *s, const clade_query *q, const clade__tiles *t, const clade__matmul *p,
                         clade__lies left, clade__lies right);

/* Local memory of the smallest tile of multiply-adds. */
enum { CLADE__SIMT_LOCAL = 2 * 8 * (16 + 16 + 8) * 4 + (2 * 8 + 16) * 32 };
#define CLADE__SIMT                                                                                         \
  .family = CLADE_FAMILY_GROUP, .devices = CLADE_ON_GPU | CLADE_ON_ACCEL, .needs_local = CLADE__SIMT_LOCAL, \
  .file = "product"
#define CLADE__BY_UNIT    .family = CLADE_FAMILY_MMA, .devices = CLADE_ON_GPU, .file = "product"
#define CLADE__WARPS      CLADE__BY_UNIT, .units = clade__product_warps, .needs_units = 1 << CLADE_UNIT_PTX
#define CLADE__WARPGROUPS CLADE__BY_UNIT, .units = clade__product_warpgroups, .needs_units = 1 << CLADE_UNIT_WGMMA

/* ---- the implementations: of gemm, of conv2d and conv2d_data (gather), of conv2d_weights (weights) ---- */
#define CLADE__PRODUCT_WAYS(X, OF) X(OF, simt) X(OF, warp) X(OF, warpgroup)
#define CLADE__PRODUCT_DECLARE(OF, WAY)                                         \
  const char *clade__##OF##_##WAY##_accept(const clade_query *q);               \
  double clade__##OF##_##WAY##_cost(const clade_query *q);                      \
  clade_status clade__##OF##_##WAY##_emit(clade_emit *e, const clade_query *q); \
  extern const clade_space clade__##OF##_##WAY##_space;
CLADE__PRODUCT_WAYS(CLADE__PRODUCT_DECLARE, gemm)
CLADE__PRODUCT_WAYS(CLADE__PRODUCT_DECLARE, gather)
CLADE__PRODUCT_WAYS(CLADE__PRODUCT_DECLARE, weights)
const char *clade__gemm_warp_tf32_accept(const clade_query *q);
double clade__gemm_warp_tf32_cost(const clade_query *q);
size_t clade__gemm_tiles_workspace(const clade_query *q);
size_t clade__gather_tiles_workspace(const clade_query *q);
size_t clade__weights_tiles_workspace(const clade_query *q);

#define CLADE__PRODUCT(OF, WAY)                                                                                   \
  .accept = clade__##OF##_##WAY##_accept, .cost = clade__##OF##_##WAY##_cost, .emit = clade__##OF##_##WAY##_emit, \
  .workspace = clade__##OF##_tiles_workspace, .space = &clade__##OF##_##WAY##_space
#define CLADE__PRODUCT_SIMT(OF) CLADE_IMPL(.name = "simt", CLADE__SIMT, CLADE__PRODUCT(OF, simt))
#define CLADE__PRODUCT_WARP(OF) CLADE_IMPL(.name = "mma_warp", CLADE__WARPS, CLADE__PRODUCT(OF, warp))
#define CLADE__PRODUCT_WARPGROUP(OF) \
  CLADE_IMPL(.name = "mma_warpgroup", CLADE__WARPGROUPS, CLADE__PRODUCT(OF, warpgroup))

#endif
