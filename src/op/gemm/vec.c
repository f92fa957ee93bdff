/* gemm on CPUs: register tiles over packed, cache-sized blocks of the operands. This file has the block sizes and the
 * division of work among cores. */
#include "op/elt/epilogue.h"
#include "op/gemm/gemm.h"

#include <math.h>

/* TM, vectors: rows and vectors of the register tile. BK: slice of the inner axis. BM, BN: rows and columns that are
 * packed at a time. parts: least number of parts of each core's share. */
enum { TM, VECTORS, BK, BM, BN, PARTS, PARAMS };
const char *const clade__gemm_vec_params[] = {"TM", "vectors", "BK", "BM", "BN", "parts", NULL};

/* A panel of b takes half of the L1 cache, or all of it with 24 multiply-adds per step, which leave time to read from
 * L2: a longer panel stores and reloads the accumulators less often. The panels of a take three quarters of L2. For few
 * rows, b is streamed from memory once, and wider blocks keep rows of bytes long enough for hardware prefetching. */
static void fit(const clade_query *q, int32_t *config) {
  clade__gemm_problem p = clade__gemm_problem_of(q->node);
  int64_t l1 = q->device->l1_bytes ? (int64_t)q->device->l1_bytes : 32 << 10;
  int64_t l2 = clade__second_cache(q->device);
  int lanes = clade__vector_width(q->device);
  int64_t panel = (int64_t)config[VECTORS] * lanes, depth = l1 / (lanes == 16 ? 1 : 2) / (4 * panel);
  config[BK] = (int32_t)CLADE_MAX(CLADE_MIN(depth / 64 * 64, 512), 64);
  config[BM] = (int32_t)CLADE_MAX(CLADE_MIN(l2 / 4 * 3 / (4 * config[BK]), 480) / 24 * 24, 24);
  config[BN] = (int32_t)(panel * (p.m >= 64 ? 8 : 16));
  config[PARTS] = 1;
}

static void defaults(const clade_query *q, int32_t *config) {
  config[TM] = clade__vector_width(q->device) == 16 ? 12 : 6; /* 24 accumulators of 32 registers, or 12 of 16 */
  config[VECTORS] = 2;
  fit(q, config);
}

/* Uses eight rows per tile where twelve would leave a remainder of four, for which reading b from L2 would be the
 * limit. Only if b is packed already: its panels are wider, which would make packing slower. */
static void defaults_panels(const clade_query *q, int32_t *config) {
  clade__gemm_problem p = clade__gemm_problem_of(q->node);
  defaults(q, config);
  if (config[TM] != 12 || p.m > 64 || p.m % 24 != 16 || p.n < 512) return;
  config[TM] = 8;
  config[VECTORS] = 3;
  fit(q, config);
}

static bool configs(const clade_query *q, int i, int32_t *config) {
  static const int32_t all[][PARAMS] = {{6, 2, 256, 384, 128, 1}, {6, 2, 256, 384, 128, 2}, {6, 2, 384, 240, 128, 1},
                                        {6, 2, 256, 240, 64, 1},  {6, 2, 256, 384, 64, 4},  {4, 3, 256, 384, 96, 1},
                                        {8, 2, 256, 240, 64, 1},  {8, 3, 256, 240, 96, 1},  {12, 2, 256, 384, 128, 1}};
  if (i >= (int)CLADE_COUNT(all)) return false;
  memcpy(config, all[i], sizeof all[i]);
  config[BN] = config[BN] / 8 * clade__vector_width(q->device);
  return true;
}
const clade_space clade__gemm_vec_space = {sizeof clade__gemm_vec_space, clade__gemm_vec_params, defaults, configs};
const clade_space clade__gemm_vec_panels_space = {sizeof(clade_space), clade__gemm_vec_params, defaults_panels,
                                                  configs};

static bool bytes(const clade_query *q) { return q->node->in[1].dtype == CLADE_I8; }

/* ---- division among cores ---- */
typedef struct division {
  clade__gemm_problem p;
  int64_t down, across;               /* parts of a matrix */
  int64_t depth, rows, columns, kept; /* sizes of what is packed at a time; columns of packed b that are kept */
  int64_t item_floats;                /* workspace of a work-item */
  bool apart;                         /* partial sums need memory other than y */
} division;

static int64_t panel_of(const clade_query *q) { return (int64_t)q->config[VECTORS] * clade__vector_width(q->device); }

/* Estimated cycles of a work-item with `high` x `wide` tiles, including packing. */
static double cycles(const clade_query *q, const division *d, int64_t high, int64_t wide) {
  const int32_t *v = q->config;
  double k = (double)d->p.k, parts = ceil(k / (double)d->depth), tiles = (double)(high * wide);
  double copies = clade__gemm_rows_in_panels(q->node) ? 0 : (double)(high * v[TM]) * 0.35;
  double column = d->p.stride[1][7] == 1 ? 0.2 : 0.4;
  if (!clade__gemm_in_panels(q->node)) copies += (double)(wide * panel_of(q)) * column;
  return tiles * (v[TM] * v[VECTORS] * 0.5 * k + 40 * parts) + copies * k;
}

/* Chooses the parts of each matrix that finish earliest. Another core may begin late; it then takes fewer of many small
 * parts. */
enum { LATE = 20000, SOON = 8000, BEGIN = 400 };
static void divide(const clade_query *q, division *d) {
  int64_t units = CLADE_MAX(q->device->compute_units, 1u), most = 4 * units;
  int64_t tiles = clade__ceil_div(d->p.m, q->config[TM]), panels = clade__ceil_div(d->p.n, panel_of(q));
  double best = INFINITY;
  for (int64_t down = 1; down <= most; down++)
    for (int64_t across = 1; down * across <= most; across++) {
      int64_t items = down * across * d->p.batches, turns = clade__ceil_div(items, units);
      double item = cycles(q, d, clade__ceil_div(tiles, down), clade__ceil_div(panels, across)) + BEGIN;
      double time = (double)turns * item + (items > 1 ? CLADE_MIN(CLADE_MAX(item, SOON), LATE) : 0);
      if (turns < q->config[PARTS]) time *= 1.5;
      if (time >= best) continue;
      best = time;
      d->down = down;
      d->across = across;
    }
}

/* A work-item processes its rows in equal blocks. If there are several, packed columns of b are kept for the following
 * ones, up to its share of the last-level cache. */
static division division_of(const clade_query *q) {
  const int32_t *v = q->config;
  int64_t panel = panel_of(q), most = clade__up(v[BM], v[TM]);
  division d = {.p = clade__gemm_problem_of(q->node), .down = 1, .across = 1};
  d.depth = CLADE_MIN(CLADE_MAX(d.p.k, 1), v[BK]);
  if (bytes(q)) d.depth = CLADE_MIN(d.depth, 512); /* longest sum of u8 * i8 that a float holds exactly */
  const bool lie = clade__gemm_in_panels(q->node), rows_lie = clade__gemm_rows_in_panels(q->node);
  divide(q, &d);
  int64_t tiles = clade__ceil_div(d.p.m, v[TM]), panels = clade__ceil_div(d.p.n, panel);
  int64_t high = clade__ceil_div(tiles, d.down) * v[TM], wide = clade__ceil_div(panels, d.across) * panel;
  int64_t blocks = CLADE_MAX(clade__ceil_div(high, most), 1);
  int64_t cache = CLADE_MAX((int64_t)q->device->cache_bytes, 1 << 20) / CLADE_MAX(q->device->compute_units, 1u);
  d.rows = clade__up(clade__ceil_div(high, blocks), v[TM]);
  d.columns = CLADE_MIN(clade__up(v[BN], panel), wide);
  d.kept = blocks == 1 ? d.columns : CLADE_MAX(cache / 4 / (4 * d.depth) / d.columns, 1) * d.columns;
  d.kept = CLADE_MIN(d.kept, wide);
  if (lie) d.columns = d.kept = wide;
  d.item_floats = clade__up(d.depth * ((rows_lie ? 0 : d.rows) + (lie ? 0 : d.kept)) + 32, 16);
  /* with in-place execution, y's memory still holds an operand */
  d.apart = d.p.k > d.depth &&
            (q->node->out[0].dtype != (bytes(q) ? CLADE_I32 : CLADE_F32) || q->node->op->in_place(q->node, 0));
  return d;
}

size_t clade__gemm_vec_workspace(const clade_query *q) {
  division d = division_of(q);
  int64_t items = d.down * d.across * d.p.batches;
  return (size_t)(items * d.item_floats + (d.apart ? d.p.batches * d.p.m * d.p.n : 0)) * sizeof(float);
}

const char *clade__gemm_vec_accept(const clade_query *q) {
  if (clade__has_blocks(q->node->in[1].dtype)) return "does not support block types";
  return q->node->in[0].dtype == CLADE_I32 ? "requires floats and bytes" : NULL;
}

const char *clade__gemm_vec_panels_accept(const clade_query *q) {
  const char *reason = clade__gemm_vec_accept(q);
  if (reason) return reason;
  if (q->node->in[1].dtype != CLADE_F32) return "requires f32: a copy of another type would be twice as large";
  return clade__gemm_panels_refuse(q, panel_of(q), 1);
}

void clade__gemm_vec_panels_layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  (void)out;
  clade__gemm_panels(q, panel_of(q), 1, in);
}

/* Tiles and packing; packing an element costs about as much as 12 floating-point operations. */
double clade__gemm_vec_cost(const clade_query *q) {
  clade__gemm_problem p = clade__gemm_problem_of(q->node);
  bool lie = clade__gemm_in_panels(q->node); /* rows are then rounded up to the smallest tile */
  double k = (double)p.batches * (double)p.k, m = (double)CLADE_MAX(clade__up(p.m, 2), lie ? q->config[TM] / 3 : 0);
  double n = (double)clade__up(p.n, (int64_t)q->config[VECTORS] * clade__vector_width(q->device));
  double copies = 12 * (m + (lie ? 0 : n * ceil(m / (q->config[BM] * 2))));
  double flops = k * (2 * m * n + copies);
  /* with lanes instead of vectors, as on an emulated CPU without SIMD, packing is slow */
  return clade__cost(q->device, flops, clade__gemm_bytes(q), q->device->vector_f32 < 4 ? 0.005 : 0.45) + 1e-6;
}

double clade__gemm_vec_cycles(const clade_query *q) {
  division d = division_of(q);
  int64_t tiles = clade__ceil_div(d.p.m, q->config[TM]), panels = clade__ceil_div(d.p.n, panel_of(q));
  int64_t items = d.down * d.across * d.p.batches, units = CLADE_MAX(q->device->compute_units, 1u);
  return (double)clade__ceil_div(items, units) *
         (cycles(q, &d, clade__ceil_div(tiles, d.down), clade__ceil_div(panels, d.across)) + BEGIN);
}

clade_status clade__gemm_vec_emit(clade_emit *e, const clade_query *q) {
  return clade__gemm_vec_emit_at(e, q, &clade__gemm_own);
}

clade_status clade__gemm_vec_emit_at(clade_emit *e, const clade_query *q, const clade__gemm_places *at) {
  division d = division_of(q);
  const int32_t *v = q->config;
  const clade_node *node = q->node;
  int64_t items = d.down * d.across * d.p.batches;
  clade_kernel_step *s;
  if (d.p.m == 0 || d.p.n == 0 || items == 0) return CLADE_OK;
  CLADE_TRY(clade__gemm_begin(e, node, &d.p, "gemm_forward_vec", at, &s));
  if (q->device->vector_f32 >= 4)
    CLADE_TRY(clade__epilogue_define16(s, node));
  else
    clade_emit_define(s, "WIDE", 0);
  clade_emit_define(s, "WIDTH", clade__vector_width(q->device));
  clade_emit_define(s, "TM", v[TM]);
  clade_emit_define(s, "VECTORS", v[VECTORS]);
  clade_emit_define(s, "INTEGER", bytes(q));
  clade_emit_define(s, "PLAIN", ((const clade__gemm_attrs *)node->attrs)->epilogue.n_insn == 0);
  clade_emit_workspace(s, 0, sizeof(float));
  if (d.apart)
    clade_emit_workspace(s, (size_t)(items * d.item_floats) * sizeof(float), sizeof(float));
  else
    clade__gemm_result(s, at);
  clade_emit_index8(s, 8,
                    (int64_t[]){d.down, d.across, d.depth, d.rows, d.columns, d.kept, d.item_floats,
                                clade__gemm_in_panels(node) + 2 * clade__gemm_rows_in_panels(node)});
  clade__epilogue_args(s, node, &d.p.stride[2]);
  clade__emit_items(s, items);
  return CLADE_OK;
}
