/* gemm on CPUs with matrix units, for 8-bit integers and bf16: vector dot products (mma; VNNI, AVX512-BF16) or tiles
 * (mma_tile; AMX). Both operands are packed into the order of the unit. This file has the sizes, the division of work,
 * and the requirements. */
#include "op/elt/epilogue.h"
#include "op/gemm/gemm.h"

#include <math.h>

/* TM: rows of the register tile. BK: slice of the inner axis in bytes. BM, BN: rows and columns that are packed at a
 * time. parts: number of parts of each core's share. */
enum { TM, BK, BM, BN, PARTS, PARAMS };
static const char *const params[] = {"TM", "BK", "BM", "BN", "parts", NULL};
enum { PANEL = 32, TILE_ROWS = 32, VECTOR_ROWS = 12, TILE_BYTES = 64 };

static bool bytes(const clade_node *n) { return n->in[1].dtype == CLADE_I8; }
bool clade__gemm_mma_units(const clade_query *q) { return bytes(q->node) || q->node->in[0].dtype == CLADE_BF16; }

/* ---- requirements ---- */
static const clade_unit_info *unit_of(const clade_query *q, bool tiles) {
  if (tiles) return &q->device->unit[bytes(q->node) ? CLADE_UNIT_AMX_INT8 : CLADE_UNIT_AMX_BF16];
  return &q->device->unit[bytes(q->node) ? CLADE_UNIT_VNNI : CLADE_UNIT_AVX512_BF16];
}

static const char *accept(const clade_query *q, bool tiles) {
  clade__gemm_problem p = clade__gemm_problem_of(q->node);
  const clade_unit_info *unit = unit_of(q, tiles);
  if (!unit->used) return unit->reason ? unit->reason : "the device does not have the unit for this type";
  return clade__cut_short(q->device, (double)(p.k + 1) * (double)(p.m + 8) * (double)(p.n + 8));
}
const char *clade__gemm_mma_accept(const clade_query *q) { return accept(q, false); }
const char *clade__gemm_mma_tile_accept(const clade_query *q) { return accept(q, true); }

static int quad(const clade_node *n) { return bytes(n) ? 4 : 2; }
static const char *panels_accept(const clade_query *q, bool tiles) {
  const char *reason = accept(q, tiles);
  if (reason) return reason;
  if (tiles && clade__gemm_problem_of(q->node).k % (TILE_BYTES / 4 * quad(q->node)))
    return "the inner axis is not whole tiles";
  return clade__gemm_panels_refuse(q, PANEL, quad(q->node));
}
const char *clade__gemm_mma_panels_accept(const clade_query *q) { return panels_accept(q, false); }
const char *clade__gemm_mma_tile_panels_accept(const clade_query *q) { return panels_accept(q, true); }
void clade__gemm_mma_panels_layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  (void)out;
  clade__gemm_panels(q, PANEL, quad(q->node), in);
}

/* ---- parameters ---- */
/* A panel of b takes two thirds of the L1 cache, the packed rows of a half of the L2 cache. For bf16, and if b is in
 * panels already, a panel is twice as long: L2 is fast enough for it, and accumulators are stored and reloaded half as
 * often. For bytes, packing into such long panels would cost more than that gains. */
static void defaults(const clade_query *q, int32_t *config, int rows, bool lie) {
  clade__gemm_problem p = clade__gemm_problem_of(q->node);
  int64_t l1 = q->device->l1_bytes ? (int64_t)q->device->l1_bytes : 32 << 10;
  int64_t l2 = clade__second_cache(q->device);
  config[TM] = rows;
  int64_t deep = CLADE_MAX(CLADE_MIN(l1 * 2 / 3 / PANEL / TILE_BYTES * TILE_BYTES, 1024), 256);
  config[BK] = (int32_t)(bytes(q->node) && !lie ? deep : 2 * deep);
  int64_t own = CLADE_MAX(p.k, 1) * (int64_t)clade__element_bytes(q->node->in[0].dtype);
  int64_t line = lie ? CLADE_MIN(own, config[BK]) : config[BK];
  config[BM] = (int32_t)(CLADE_MAX(CLADE_MIN(l2 / 2 / line, 512) / rows, 1) * rows);
  config[BN] = PANEL * (p.m >= 256 ? 4 : 8);
  config[PARTS] = 1;
}
static void vector_defaults(const clade_query *q, int32_t *config) { defaults(q, config, VECTOR_ROWS, false); }
static void panels_defaults(const clade_query *q, int32_t *config) { defaults(q, config, VECTOR_ROWS, true); }
static void tile_defaults(const clade_query *q, int32_t *config) { defaults(q, config, TILE_ROWS, false); }

static bool offer(int i, int32_t *config, int rows) {
  static const int32_t all[][PARAMS] = {{0, 512, 16, 128, 1}, {0, 1024, 16, 128, 1}, {0, 512, 8, 64, 1},
                                        {0, 512, 16, 256, 2}, {0, 2048, 8, 64, 1},   {0, 256, 32, 256, 1}};
  if (i >= (int)CLADE_COUNT(all)) return false;
  memcpy(config, all[i], sizeof all[i]);
  config[TM] = rows;
  config[BM] *= rows;
  return true;
}
static bool vector_configs(const clade_query *q, int i, int32_t *config) {
  (void)q;
  return offer(i, config, VECTOR_ROWS);
}
static bool tile_configs(const clade_query *q, int i, int32_t *config) {
  (void)q;
  return offer(i, config, TILE_ROWS);
}
const clade_space clade__gemm_mma_space = {sizeof clade__gemm_mma_space, params, vector_defaults, vector_configs};
const clade_space clade__gemm_mma_panels_space = {sizeof clade__gemm_mma_panels_space, params, panels_defaults,
                                                  vector_configs};
const clade_space clade__gemm_mma_tile_space = {sizeof clade__gemm_mma_tile_space, params, tile_defaults, tile_configs};

/* ---- division among cores ---- */
typedef struct division {
  clade__gemm_problem p;
  int64_t down, across, depth, rows, columns; /* parts of a matrix; sizes of what is processed at a time */
  int64_t line, item_words;                   /* in words: row stride of packed a; workspace per work-item */
  bool apart;                                 /* partial sums need memory other than y */
} division;

/* Divides a matrix into equal parts, the same number per core, with little packing. Sums do not depend on it. */
static void divide(const clade_query *q, division *d) {
  int64_t units = CLADE_MAX(q->device->compute_units, 1u), most = 2 * units * q->config[PARTS];
  int64_t tiles = clade__ceil_div(d->p.m, q->config[TM]), panels = clade__ceil_div(d->p.n, PANEL);
  double best = INFINITY;
  d->down = d->across = 1;
  for (int64_t down = 1; down <= CLADE_MIN(most, CLADE_MAX(tiles, 1)); down++)
    for (int64_t across = 1; down * across <= most && across <= CLADE_MAX(panels, 1); across++) {
      int64_t turns = clade__ceil_div(down * across * d->p.batches, units);
      double high = (double)(clade__ceil_div(tiles, down) * q->config[TM]);
      double wide = (double)(clade__ceil_div(panels, across) * PANEL);
      double time = (double)turns * (high * wide + 24 * (high + wide) + 64);
      if (turns < q->config[PARTS]) time *= 1.5;
      if (time >= best) continue;
      best = time;
      d->down = down;
      d->across = across;
    }
}

static division division_of(const clade_query *q) {
  const clade_node *node = q->node;
  division d = {.p = clade__gemm_problem_of(node)};
  int64_t size = (int64_t)clade__element_bytes(node->in[0].dtype), whole = TILE_BYTES / size;
  divide(q, &d);
  d.depth = CLADE_MIN(clade__up(CLADE_MAX(d.p.k, 1), whole), q->config[BK] / size);
  d.line = q->config[BK] / 4 + 16;
  const bool lie = clade__gemm_in_panels(node);
  int64_t tiles = clade__ceil_div(d.p.m, q->config[TM]), panels = clade__ceil_div(d.p.n, PANEL);
  int64_t high = clade__ceil_div(tiles, d.down) * q->config[TM], wide = clade__ceil_div(panels, d.across) * PANEL;
  int64_t blocks = CLADE_MAX(clade__ceil_div(high, q->config[BM]), 1);
  d.rows = clade__up(clade__ceil_div(high, blocks), q->config[TM]);
  d.columns = lie ? wide : CLADE_MIN(wide, q->config[BN] * (blocks == 1 ? 1 : 8));
  d.item_words = d.rows * d.line + (lie ? 0 : d.columns * d.depth * size / 4);
  /* with in-place execution, y's memory still holds an operand */
  d.apart =
      d.p.k > d.depth && (node->out[0].dtype != (bytes(node) ? CLADE_I32 : CLADE_F32) || node->op->in_place(node, 0));
  return d;
}

size_t clade__gemm_mma_workspace(const clade_query *q) {
  division d = division_of(q);
  int64_t items = d.down * d.across * d.p.batches;
  return (size_t)(items * d.item_words + (d.apart ? d.p.batches * d.p.m * d.p.n : 0)) * sizeof(uint32_t);
}

/* A word contributes as many products as it has elements, in one instruction; packing an element costs about as much as
 * 12 floating-point operations. `speed` is relative to f32 products. */
static double cost(const clade_query *q, double speed) {
  clade__gemm_problem p = clade__gemm_problem_of(q->node);
  double k = (double)p.batches * (double)p.k, m = (double)clade__up(p.m, 2), n = (double)clade__up(p.n, PANEL);
  double copies = 12 * (m + (clade__gemm_in_panels(q->node) ? 0 : n * ceil(m / q->config[BM])));
  double flops = k * (2 * m * n / speed + copies);
  double efficiency = q->device->vector_f32 < 4 ? 0.005 : 0.45;
  return clade__cost(q->device, flops, clade__gemm_bytes(q), efficiency) + 1e-6;
}
/* on some cores vdpbf16ps has half the rate of an f32 multiply-add, which leaves no gain over f32 */
double clade__gemm_mma_cost(const clade_query *q) { return cost(q, bytes(q->node) ? 3 : 1.2); }
double clade__gemm_mma_tile_cost(const clade_query *q) { return cost(q, bytes(q->node) ? 10 : 5); }

clade_status clade__gemm_mma_begin(clade_emit *e, const clade_query *q, const clade__gemm_problem *p,
                                   const char *kernel, bool tiles, clade_kernel_step **out) {
  const clade_node *node = q->node;
  clade_kernel_step *s;
  CLADE_TRY(clade__gemm_begin(e, node, p, kernel, &clade__gemm_own, &s));
  if (q->device->vector_f32 >= 4)
    CLADE_TRY(clade__epilogue_define16(s, node));
  else
    clade_emit_define(s, "WIDE", 0);
  clade_emit_define(s, "TILES", tiles);
  clade_emit_define(s, "INTEGER", bytes(node));
  clade_emit_define(s, "IMITATE", unit_of(q, tiles)->reason != NULL); /* used, but emulated in software */
  clade_emit_define(s, "PLAIN", ((const clade__gemm_attrs *)node->attrs)->epilogue.n_insn == 0);
  *out = s;
  return CLADE_OK;
}

static clade_status emit(clade_emit *e, const clade_query *q, bool tiles) {
  division d = division_of(q);
  const clade_node *node = q->node;
  int64_t items = d.down * d.across * d.p.batches;
  clade_kernel_step *s;
  if (d.p.m == 0 || d.p.n == 0 || items == 0) return CLADE_OK;
  CLADE_TRY(clade__gemm_mma_begin(e, q, &d.p, "gemm_forward_mma", tiles, &s));
  clade_emit_define(s, "TM", q->config[TM]);
  clade_emit_define(s, "LINE", (int)d.line);
  clade_emit_workspace(s, 0, sizeof(uint32_t));
  if (d.apart)
    clade_emit_workspace(s, (size_t)(items * d.item_words) * sizeof(uint32_t), sizeof(uint32_t));
  else
    clade_emit_out(s, 0);
  clade_emit_index8(
      s, 7, (int64_t[]){d.down, d.across, d.depth, d.rows, d.columns, d.item_words, clade__gemm_in_panels(node)});
  clade__epilogue_args(s, node, &d.p.stride[2]);
  clade__emit_items(s, items);
  return CLADE_OK;
}
clade_status clade__gemm_mma_emit(clade_emit *e, const clade_query *q) { return emit(e, q, false); }
clade_status clade__gemm_mma_tile_emit(clade_emit *e, const clade_query *q) { return emit(e, q, true); }
