/* The matrix products of NVIDIA's matrix units (cl_kernels/gemm_warp.cl): the gate, the tiles, and the launch. */
#include "op/epilogue.h"
#include "op/gemm/gemm.h"
#include "op/simt.h"

#include <math.h>

/* BM x BN: a work-group's tile. BK: words of the inner axis at a time. TM x TN: a warp's tile. stages: how many such
 * slices fit into local memory. */
enum { BM, BN, BK, TM, TN, STAGES, PARAMS };
static const char *const params[] = {"BM", "BN", "BK", "TM", "TN", "stages", NULL};
enum { WARP = 32, SQUARE = 16, LEAST = 4 }; /* SQUARE: what fragments are made of; LEAST: needs least of a device */

/* `speed`: how many times the peak of floats' products outside of the units, as a guess of who never ran it. */
typedef struct tile {
  int32_t config[PARAMS];
  double speed;
} tile;
static const tile tiles[] = {
    {{128, 128, 16, 64, 32, 2}, 5}, {{128, 64, 16, 32, 32, 3}, 4},  {{64, 64, 16, 32, 32, 3}, 3},
    {{32, 32, 16, 16, 16, 3}, 1},   {{16, 32, 16, 16, 16, 3}, 0.5}, {{128, 128, 8, 64, 32, 4}, 4},
    {{64, 64, 32, 32, 32, 2}, 3},   {{16, 64, 16, 16, 16, 4}, 1},
};
enum { STARTS = 5 }; /* those behind them are for the tuner alone */

bool clade__gemm_warp_units(const clade_query *q) {
  return q->device->unit[CLADE_UNIT_PTX].name && !clade__gemm_integer(q->node->in[0].dtype);
}

/* ---- what a tile needs ---- */
static bool imitated(const clade_query *q) { return q->device->unit[CLADE_UNIT_PTX].reason != NULL; }
static int64_t warps_of(const int32_t *config) {
  return (int64_t)(config[BM] / config[TM]) * (config[BN] / config[TN]);
}

/* Words of an operand's slice: lines of `depth` and four more; or, across the inner axis, `depth` lines. */
static int64_t words_of(int32_t lines, int32_t depth) {
  return CLADE_MAX((int64_t)lines * (depth + 4), (int64_t)depth * (lines + 8));
}
static uint64_t local_of(const clade_query *q, const int32_t *config) {
  int64_t slices = 4 * config[STAGES] * (words_of(config[BM], config[BK]) + words_of(config[BN], config[BK]));
  int64_t held = imitated(q) ? warps_of(config) * ((config[TM] + config[TN]) / SQUARE) * WARP * 16 : 0;
  return (uint64_t)(slices + held);
}

static const char *too_large(const clade_query *q, const int32_t *config) {
  if ((uint64_t)(warps_of(config) * WARP) > CLADE_MIN(q->device->max_group, q->device->max_item[0]))
    return "the device's groups have fewer work-items than a tile needs";
  return local_of(q, config) > q->device->local_bytes ? "the device has less local memory than a tile needs" : NULL;
}

/* In doubles: sizes that nobody can hold are asked about too. */
static double groups_of(const clade__gemm_problem *p, const int32_t *config) {
  return (double)p->batches * ceil((double)p->m / config[BM]) * ceil((double)p->n / config[BN]);
}
/* Of rounds in which all units do a tile. */
static double work_of(const clade_query *q, const clade__gemm_problem *p, const int32_t *config) {
  double units = CLADE_MAX(q->device->compute_units, 1u);
  return ceil(groups_of(p, config) / units) * units * config[BM] * config[BN];
}

/* ---- the space ---- */
static void defaults(const clade_query *q, int32_t *config) {
  clade__gemm_problem p = clade__gemm_problem_of(q->node);
  const tile *best = &tiles[LEAST];
  for (int i = 0; i < STARTS; i++)
    if (!too_large(q, tiles[i].config) &&
        work_of(q, &p, tiles[i].config) / tiles[i].speed < work_of(q, &p, best->config) / best->speed)
      best = &tiles[i];
  memcpy(config, best->config, sizeof best->config);
}
static bool configs(const clade_query *q, int i, int32_t *config) {
  (void)q;
  if (i >= (int)CLADE_COUNT(tiles)) return false;
  memcpy(config, tiles[i].config, sizeof tiles[i].config);
  return true;
}
const clade_space clade__gemm_warp_space = {sizeof clade__gemm_warp_space, params, defaults, configs};

/* ---- the gate ---- */
static const char *accept(const clade_query *q, bool single) {
  clade__gemm_problem p = clade__gemm_problem_of(q->node);
  if (!clade__is_computed(q->node->in[0].dtype) || single != (q->node->in[0].dtype == CLADE_F32))
    return single ? "made for f32" : "made for f16 and bf16";
  const char *reason = too_large(q, q->config);
  double slice = q->config[BK] * (3 + (double)(q->config[BM] + q->config[BN]));
  return reason ? reason : clade__cut_short(q->device, ((double)p.k / q->config[BK] + 2) * slice);
}
const char *clade__gemm_warp_accept(const clade_query *q) { return accept(q, false); }
const char *clade__gemm_warp_tf32_accept(const clade_query *q) { return accept(q, true); }

double clade__gemm_warp_cost(const clade_query *q) {
  clade__gemm_problem p = clade__gemm_problem_of(q->node);
  const tile *t = tiles;
  while (t < tiles + CLADE_COUNT(tiles) - 1 && memcmp(t->config, q->config, sizeof t->config) != 0) t++;
  double flops = 2 * groups_of(&p, q->config) * q->config[BM] * q->config[BN] * (double)p.k;
  return clade__cost(q->device, flops, clade__gemm_bytes(q), t->speed) + 1e-6;
}

/* Ten bits are not what f32 says: taken where a record or the user names it. */
double clade__gemm_warp_tf32_cost(const clade_query *q) {
  (void)q;
  return 1e8;
}

clade_status clade__gemm_warp_emit(clade_emit *e, const clade_query *q) {
  static const char *const names[PARAMS] = {"BM", "BN", "BK", "TM", "TN", "STAGES"};
  clade__gemm_problem p = clade__gemm_problem_of(q->node);
  const int32_t *config = q->config;
  clade_kernel_step *s;
  CLADE_TRY(clade__gemm_begin(e, q->node, &p, "gemm_forward_warp", &clade__gemm_own, &s));
  for (int i = 0; i < PARAMS; i++) clade_emit_define(s, names[i], config[i]);
  clade_emit_define(s, "LEFT_DEEP", p.stride[0][7] == 1);
  clade_emit_define(s, "RIGHT_DEEP", p.stride[1][7] != 1);
  clade_emit_define(s, "IMITATE", imitated(q)); /* used, although it is not there */
  clade__epilogue_args(s, q->node, &p.stride[2]);
  size_t items = (size_t)(warps_of(config) * WARP);
  size_t global[3] = {(size_t)(clade__up(p.n, config[BN]) / config[BN]) * items,
                      (size_t)(clade__up(p.m, config[BM]) / config[BM]), (size_t)p.batches};
  clade_emit_range(s, 3, global, (size_t[]){items, 1, 1});
  return CLADE_OK;
}
