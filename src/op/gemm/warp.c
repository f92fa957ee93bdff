/* The matrix products of NVIDIA's matrix units (cl_kernels/gemm_warp.cl): the gate, the tiles, and the launch. */
#include "op/epilogue.h"
#include "op/gemm/gemm.h"
#include "op/simt.h"

#include <math.h>

/* rows, columns: of a group's tile. depth: words of the inner axis at a time. tall, wide: of a warp's tile. stages: how
 * many such slices have room in local memory. */
enum { ROWS, COLUMNS, DEPTH, TALL, WIDE, STAGES, PARAMS };
static const char *const params[] = {"rows", "columns", "depth", "tall", "wide", "stages", NULL};
enum { WARP = 32, SQUARE = 16, LEAST = 4 }; /* SQUARE: what fragments are made of; LEAST: needs least of a device */

/* `speed`: how many times the peak of floats' products outside of the units, as a guess of who never ran it. */
typedef struct tile {
  int32_t row[PARAMS];
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
static int64_t warps_of(const int32_t *row) { return (int64_t)(row[ROWS] / row[TALL]) * (row[COLUMNS] / row[WIDE]); }

/* Words of an operand's slice: lines of `depth` and four more; or, across the inner axis, `depth` lines. */
static int64_t words_of(int32_t lines, int32_t depth) {
  return CLADE_MAX((int64_t)lines * (depth + 4), (int64_t)depth * (lines + 8));
}
static uint64_t local_of(const clade_query *q, const int32_t *row) {
  int64_t slices = 4 * row[STAGES] * (words_of(row[ROWS], row[DEPTH]) + words_of(row[COLUMNS], row[DEPTH]));
  int64_t held = imitated(q) ? warps_of(row) * ((row[TALL] + row[WIDE]) / SQUARE) * WARP * 16 : 0;
  return (uint64_t)(slices + held);
}

static const char *too_large(const clade_query *q, const int32_t *row) {
  if ((uint64_t)(warps_of(row) * WARP) > CLADE_MIN(q->device->max_group, q->device->max_item[0]))
    return "the device's groups have fewer work-items than a tile needs";
  return local_of(q, row) > q->device->local_bytes ? "the device has less local memory than a tile needs" : NULL;
}

/* In doubles: sizes that nobody can hold are asked about too. */
static double groups_of(const clade__gemm_problem *p, const int32_t *row) {
  return (double)p->batches * ceil((double)p->m / row[ROWS]) * ceil((double)p->n / row[COLUMNS]);
}
/* Of rounds in which all units do a tile. */
static double work_of(const clade_query *q, const clade__gemm_problem *p, const int32_t *row) {
  double units = CLADE_MAX(q->device->compute_units, 1u);
  return ceil(groups_of(p, row) / units) * units * row[ROWS] * row[COLUMNS];
}

/* ---- the space ---- */
static void start(const clade_query *q, int32_t *row) {
  clade__gemm_problem p = clade__gemm_problem_of(q->node);
  const tile *best = &tiles[LEAST];
  for (int i = 0; i < STARTS; i++)
    if (!too_large(q, tiles[i].row) &&
        work_of(q, &p, tiles[i].row) / tiles[i].speed < work_of(q, &p, best->row) / best->speed)
      best = &tiles[i];
  memcpy(row, best->row, sizeof best->row);
}
static bool rows(const clade_query *q, int i, int32_t *row) {
  (void)q;
  if (i >= (int)CLADE_COUNT(tiles)) return false;
  memcpy(row, tiles[i].row, sizeof tiles[i].row);
  return true;
}
const clade_space clade__gemm_warp_space = {sizeof clade__gemm_warp_space, params, start, rows};

/* ---- the gate ---- */
static const char *accept(const clade_query *q, bool single) {
  clade__gemm_problem p = clade__gemm_problem_of(q->node);
  if (!clade__is_computed(q->node->in[0].dtype) || single != (q->node->in[0].dtype == CLADE_F32))
    return single ? "made for f32" : "made for f16 and bf16";
  const char *reason = too_large(q, q->row);
  double slice = q->row[DEPTH] * (3 + (double)(q->row[ROWS] + q->row[COLUMNS]));
  return reason ? reason : clade__cut_short(q->device, ((double)p.k / q->row[DEPTH] + 2) * slice);
}
const char *clade__gemm_warp_accept(const clade_query *q) { return accept(q, false); }
const char *clade__gemm_warp_tf32_accept(const clade_query *q) { return accept(q, true); }

double clade__gemm_warp_cost(const clade_query *q) {
  clade__gemm_problem p = clade__gemm_problem_of(q->node);
  const tile *t = tiles;
  while (t < tiles + CLADE_COUNT(tiles) - 1 && memcmp(t->row, q->row, sizeof t->row) != 0) t++;
  double flops = 2 * groups_of(&p, q->row) * q->row[ROWS] * q->row[COLUMNS] * (double)p.k;
  return clade__cost(q->device, flops, clade__gemm_bytes(q), t->speed) + 1e-6;
}

/* Ten bits are not what f32 says: taken where a record or the user names it. */
double clade__gemm_warp_tf32_cost(const clade_query *q) {
  (void)q;
  return 1e8;
}

clade_status clade__gemm_warp_emit(clade_emit *e, const clade_query *q) {
  static const char *const names[PARAMS] = {"ROWS", "COLUMNS", "SLICE", "TALL", "WIDE", "STAGES"};
  clade__gemm_problem p = clade__gemm_problem_of(q->node);
  const int32_t *row = q->row;
  clade_kernel_step *s;
  CLADE_TRY(clade__gemm_begin(e, q->node, &p, "gemm_forward_warp", &clade__gemm_own, &s));
  for (int i = 0; i < PARAMS; i++) clade_emit_define(s, names[i], row[i]);
  clade_emit_define(s, "LEFT_DEEP", p.stride[0][7] == 1);
  clade_emit_define(s, "RIGHT_DEEP", p.stride[1][7] != 1);
  clade_emit_define(s, "IMITATE", imitated(q)); /* used, although it is not there */
  clade__epilogue_args(s, q->node, &p.stride[2]);
  size_t items = (size_t)(warps_of(row) * WARP);
  size_t global[3] = {(size_t)(clade__up(p.n, row[COLUMNS]) / row[COLUMNS]) * items,
                      (size_t)(clade__up(p.m, row[ROWS]) / row[ROWS]), (size_t)p.batches};
  clade_emit_range(s, 3, global, (size_t[]){items, 1, 1});
  return CLADE_OK;
}
