/* Tiles of matrix products in local memory: the tables, the choice for a device and problem, and the launch. */
#include "op/product.h"
#include "op/elt/epilogue.h"

#include <math.h>

enum { BM = CLADE__BM, BN = CLADE__BN, BK = CLADE__BK, TM = CLADE__TM, TN = CLADE__TN, STAGES = CLADE__STAGES };
enum { WARP = 32, SQUARE = 16 }; /* SQUARE: rows and columns of a warp's fragment */
const char *const clade__tile_params[] = {"BM", "BN", "BK", "TM", "TN", NULL};
const char *const clade__staged_params[] = {"BM", "BN", "BK", "TM", "TN", "stages", NULL};

/* A work-item loads TM + TN elements for TM * TN multiply-adds. The speeds in these tables are estimates. */
static const clade__tile simt[] = {
    {{128, 128, 16, 8, 8}, 0.6}, {{128, 64, 16, 8, 4}, 0.5},  {{64, 64, 16, 4, 4}, 0.35}, {{32, 32, 16, 4, 4}, 0.2},
    {{16, 16, 16, 2, 2}, 0.1},   {{16, 16, 8, 4, 4}, 0.05},   {{64, 128, 16, 4, 8}, 0.5}, {{64, 64, 32, 4, 4}, 0.35},
    {{64, 64, 8, 8, 8}, 0.4},    {{32, 128, 16, 4, 4}, 0.35}, {{64, 32, 16, 4, 4}, 0.3},
};
static const clade__tile warp[] = {
    {{128, 128, 16, 64, 32, 2}, 5}, {{128, 64, 16, 32, 32, 3}, 4},  {{64, 64, 16, 32, 32, 3}, 3},
    {{32, 32, 16, 16, 16, 3}, 1},   {{16, 32, 16, 16, 16, 3}, 0.5}, {{128, 128, 8, 64, 32, 4}, 4},
    {{64, 64, 32, 32, 32, 2}, 3},   {{16, 64, 16, 16, 16, 4}, 1},
};
static const clade__tile warpgroup[] = {
    {{128, 256, 32, 16, 256, 4}, 11}, {{128, 128, 32, 16, 128, 4}, 8}, {{64, 256, 32, 16, 256, 4}, 6},
    {{64, 128, 32, 16, 128, 4}, 5},   {{64, 64, 32, 16, 64, 4}, 3},    {{128, 256, 32, 16, 256, 3}, 10},
    {{128, 128, 32, 16, 128, 3}, 8},  {{128, 128, 32, 16, 128, 6}, 8}, {{128, 64, 32, 16, 64, 4}, 5},
};
static const clade__tile warp_gather[] = {
    {{128, 128, 16, 64, 32}, 3}, {{128, 64, 16, 32, 32}, 2.5}, {{64, 64, 16, 32, 32}, 2},
    {{32, 32, 16, 16, 16}, 0.7}, {{16, 32, 16, 16, 16}, 0.4},
};
/* Larger tiles hold more loaded elements at a time than a work-item has registers. */
static const clade__tile warpgroup_gather[] = {{{128, 64, 32, 16, 64}, 3}, {{64, 64, 32, 16, 64}, 2}};
#define TILES(LIST) .n = CLADE_COUNT(LIST), .tiles = LIST
const clade__tiles clade__tiles_simt = {CLADE_UNITS,   .tables = true, .params = 5,
                                        .defaults = 6, .least = 5,     TILES(simt)};
const clade__tiles clade__tiles_warp = {CLADE_UNIT_PTX, .params = 6, .defaults = 5, .least = 4, TILES(warp)};
const clade__tiles clade__tiles_warpgroup = {CLADE_UNIT_WGMMA, .warpgroup = true, .params = 6,
                                             .defaults = 5,    .least = 4,        TILES(warpgroup)};
const clade__tiles clade__tiles_warp_gather = {CLADE_UNIT_PTX, .tables = true, .params = 5,
                                               .defaults = 5,  .least = 4,     TILES(warp_gather)};
const clade__tiles clade__tiles_warpgroup_gather = {
    CLADE_UNIT_WGMMA, .warpgroup = true, .tables = true,         .params = 5,
    .defaults = 2,    .least = 1,        TILES(warpgroup_gather)};

const clade__tiles clade__tiles_warp_last = {CLADE_UNIT_PTX, .tables = true, .params = 6,
                                             .defaults = 5,  .least = 4,     TILES(warp)};
const clade__tiles clade__tiles_warpgroup_last = {CLADE_UNIT_WGMMA, .warpgroup = true, .tables = true,  .params = 6,
                                                  .defaults = 5,    .least = 4,        TILES(warpgroup)};

static bool has_unit(const clade__tiles *t) { return t->unit != CLADE_UNITS; }
/* The unit for the node's type: of 8-bit types, some have one of their own. */
static const clade_unit_info *unit_of(const clade_query *q, const clade__tiles *t) {
  const clade_dtype dtype = q->node->in[0].dtype;
  const bool f8 = dtype == CLADE_F8E4M3, bytes = f8 || dtype == CLADE_I8 || dtype == CLADE_U8;
  const clade_unit own = t->warpgroup ? CLADE_UNIT_WGMMA_BYTES : CLADE_UNIT_PTX_F8;
  return &q->device->unit[(t->warpgroup ? bytes : f8) ? own : t->unit];
}
static bool imitated(const clade_query *q, const clade__tiles *t) {
  return has_unit(t) && unit_of(q, t)->reason != NULL; /* used, but emulated in software */
}

static bool ask(const clade_query *q, clade_unit unit) {
  return q->device->unit[unit].name && clade__dtype_row(q->node->in[0].dtype)->product != CLADE_DTYPE_NONE;
}
bool clade__product_warps(const clade_query *q) { return ask(q, CLADE_UNIT_PTX); }
bool clade__product_warpgroups(const clade_query *q) { return ask(q, CLADE_UNIT_WGMMA); }

/* ---- what a tile needs ---- */
static int64_t items_of(const clade__tiles *t, const int32_t *config) {
  return (int64_t)(config[BM] / config[TM]) * (config[BN] / config[TN]) * (has_unit(t) ? WARP : 1);
}

/* Elements in a 32-bit word of a matrix unit. */
static int64_t in_word(const clade_query *q) { return 32 / clade__dtype_row(q->node->in[0].dtype)->bits; }

/* Words of an operand's slice in local memory, including the padding between its lines. */
static int64_t words_of(const clade_query *q, const clade__tiles *t, int32_t lines, int32_t depth) {
  if (!has_unit(t)) return (int64_t)depth * (lines + 4);
  if (t->warpgroup) return (int64_t)lines * depth;
  const int64_t padding = in_word(q) == 4 ? 16 : 8;
  return CLADE_MAX((int64_t)lines * (depth + 4), depth * (lines + padding)); /* along the inner axis, or across */
}

static uint64_t local_of(const clade_query *q, const clade__tiles *t, const int32_t *config) {
  const int64_t stages = t->params > STAGES ? config[STAGES] : 2;
  int64_t bytes = 4 * stages * (words_of(q, t, config[BM], config[BK]) + words_of(q, t, config[BN], config[BK]));
  const int64_t steps = 2 * config[BK] * (has_unit(t) ? in_word(q) : 1) + config[BN];
  if (t->tables)
    bytes += (t->params > STAGES ? CLADE_MAX(config[BM], config[BN]) : steps) * 32; /* offsets of 64 bits */
  if (imitated(q, t) && !t->warpgroup)
    bytes += items_of(t, config) * ((config[TM] + config[TN]) / SQUARE) * 16; /* fragments of the emulated lanes */
  return (uint64_t)bytes;
}

static const char *too_large(const clade_query *q, const clade__tiles *t, const int32_t *config) {
  if (t->tables && has_unit(t) && clade__is_integer(q->node->in[0].dtype) && config[BM] * config[BN] > 128 * 64)
    return "bytes gathered one by one need more registers than a tile of this size leaves";
  if (t->warpgroup && q->node->in[0].dtype == CLADE_F8E4M3 && config[TN] > 128)
    return "f8 sums in two steps need more registers than a tile of this size leaves";
  if ((uint64_t)items_of(t, config) > CLADE_MIN(q->device->max_group, q->device->max_item[0]))
    return "the device's groups have fewer work-items than a tile needs";
  return local_of(q, t, config) > clade__local_most(q->device) ? "the device has less local memory than a tile needs"
                                                               : NULL;
}

/* Number of work-groups, in double, because a query may be about sizes that exceed memory. */
static double groups_of(const clade__matmul *p, const int32_t *config) {
  return (double)p->matrices * ceil((double)p->m / config[BM]) * ceil((double)p->n / config[BN]);
}

/* ---- parts of the inner axis ---- */
/* Spans are multiples of UNIT, so that each part begins at an aligned load. */
clade__parts clade__parts_cut(const clade__matmul *whole, int64_t wanted) {
  enum { UNIT = 64 };
  clade__parts p = {.each = *whole};
  const int64_t k = CLADE_MAX(whole->k, 1);
  wanted = CLADE_MAX(wanted, 1);
  p.span = clade__up(clade__ceil_div(k, wanted), UNIT);
  p.n = clade__ceil_div(k, p.span);
  p.each.k = CLADE_MIN(p.span, whole->k);
  p.each.matrices *= p.n;
  return p;
}

/* As many parts as give ENOUGH tiles in total, of at least LEAST steps each. */
clade__parts clade__parts_of(const clade__matmul *whole) {
  enum { TILE = 64, ENOUGH = 128, LEAST = 256, MOST = 16 };
  const int64_t tiles = whole->matrices * (clade__up(whole->m, TILE) / TILE) * (clade__up(whole->n, TILE) / TILE);
  return clade__parts_cut(whole, CLADE_MIN(CLADE_MIN(ENOUGH / CLADE_MAX(tiles, 1), whole->k / LEAST), MOST));
}

size_t clade__parts_bytes(const clade__parts *p, int64_t results) {
  return p->n > 1 ? (size_t)(p->n * results) * sizeof(float) : 0;
}

clade_status clade__parts_join(clade_emit *e, const clade_query *q, const clade__parts *p, const int64_t *dim,
                               float alpha, clade_kernel_step **out) {
  clade_kernel_step *s = *out = clade_emit_kernel(e, "product_join");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[0].dtype));
  clade_emit_define_text(s, "OUT", clade_dtype_name(q->node->out[0].dtype));
  clade_emit_define(s, "INTEGER", clade__is_integer(q->node->in[0].dtype));
  CLADE_TRY(clade__epilogue_define(s, q->node));
  clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_out(s, 0);
  clade_emit_index8(s, 8, dim);
  clade_emit_index(s, p->n);
  clade_emit_f32(s, alpha);
  const int64_t batches = dim[0] * dim[1] * dim[2] * dim[3] * dim[4] * dim[5];
  clade_emit_range(s, 3, (size_t[]){(size_t)dim[7], (size_t)dim[6], (size_t)batches}, (size_t[]){64, 1, 1});
  return CLADE_OK;
}

/* ---- spaces ---- */
/* Chooses the tile with the least estimated time, counted in rounds of one tile per compute unit. */
void clade__tiles_defaults(const clade_query *q, const clade__tiles *t, const clade__matmul *p, int32_t *config) {
  double best = HUGE_VAL, units = CLADE_MAX(q->device->compute_units, 1u);
  const clade__tile *chosen = &t->tiles[t->least];
  for (const clade__tile *one = t->tiles; one < t->tiles + t->defaults; one++) {
    double time = ceil(groups_of(p, one->config) / units) * one->config[BM] * one->config[BN] / one->speed;
    if (time >= best || too_large(q, t, one->config)) continue;
    chosen = one;
    best = time;
  }
  memcpy(config, chosen->config, (size_t)t->params * sizeof *config);
}

bool clade__tiles_configs(const clade__tiles *t, int i, int32_t *config) {
  if (i >= t->n) return false;
  memcpy(config, t->tiles[i].config, (size_t)t->params * sizeof *config);
  return true;
}

/* ---- requirements ---- */
const char *clade__tiles_refuse(const clade_query *q, const clade__tiles *t, const clade__matmul *p, bool loose) {
  const int32_t *config = q->config;
  const clade_dtype dtype = q->node->in[0].dtype;
  const bool bytes = dtype == CLADE_I8 || dtype == CLADE_U8, half = dtype == CLADE_F16 || dtype == CLADE_BF16;
  if (has_unit(t) && loose && dtype != CLADE_F32 && dtype != CLADE_F8E4M3) return "requires f32 and f8e4m3";
  if (has_unit(t) && !loose && !half && !bytes) return "requires f16, bf16 and bytes";
  if (has_unit(t) && !unit_of(q, t)->used)
    return unit_of(q, t)->reason ? unit_of(q, t)->reason : "the device does not have the unit for this type";
  const char *reason = too_large(q, t, config);
  double slices = (double)p->k / config[BK] + 2;
  double passes =
      config[BK] * (3 + (double)(config[BM] + config[BN]) / (has_unit(t) ? 1 : (double)items_of(t, config)));
  return reason ? reason : clade__cut_short(q->device, slices * passes + config[BN]);
}

double clade__tiles_cost(const clade_query *q, const clade__tiles *t, const clade__matmul *p, double bytes) {
  const int32_t *config = q->config;
  const clade__tile *one = t->tiles;
  while (one < t->tiles + t->n - 1 && memcmp(one->config, config, (size_t)t->params * sizeof *config) != 0) one++;
  const double flops = 2 * groups_of(p, config) * config[BM] * config[BN] * (double)p->k;
  const double speed = one->speed * (has_unit(t) ? (double)in_word(q) / 2 : 1);
  return clade__cost(q->device, flops, bytes, speed) + 1e-6;
}

int64_t clade__tiles_run(const clade_query *q, const clade__tiles *t) { return has_unit(t) ? 4 * in_word(q) : 4; }

void clade__tiles_launch(clade_kernel_step *s, const clade_query *q, const clade__tiles *t, const clade__matmul *p,
                         clade__lies left, clade__lies right) {
  static const char *const names[CLADE__TILE_PARAMS] = {"BM", "BN", "BK", "TM", "TN", "STAGES"};
  const int32_t *config = q->config;
  const size_t items = (size_t)items_of(t, config);
  for (int i = 0; i < t->params; i++) clade_emit_define(s, names[i], config[i]);
  clade_emit_define(s, "UNITS", has_unit(t));
  clade_emit_define(s, "INTEGER", clade__is_integer(q->node->in[0].dtype));
  clade_emit_define(s, "WARPGROUP", t->warpgroup);
  clade_emit_define(s, "IMITATE", imitated(q, t));
  clade_emit_define(s, "LEFT_DEEP", left.deep);
  clade_emit_define(s, "RIGHT_DEEP", right.deep);
  clade_emit_define(s, "LEFT_RUNS", left.runs);
  clade_emit_define(s, "RIGHT_RUNS", right.runs);
  /* unrolled loops are slow to compile for CPUs */
  clade_emit_define(s, "ROLLED", q->device->device_class == CLADE_CPU || q->device->software);
  size_t global[3] = {(size_t)(clade__up(p->n, config[BN]) / config[BN]) * items,
                      (size_t)(clade__up(p->m, config[BM]) / config[BM]), (size_t)p->matrices};
  clade_emit_range(s, 3, global, (size_t[]){items, 1, 1});
}
