/* conv2d and conv2d_data for 3 x 3 windows by Winograd's algorithm (docs/layouts.md): requirements, division of work,
 * cost. */
#include "op/conv/conv.h"
#include "op/elt/epilogue.h"

#include <math.h>

/* Sizes of the kernel's private buffers in floats. They are on a thread's stack, which may be limited to 2 MiB. */
enum { SOURCE = 332800, BLOCK = 74496 };
/* Parameters: side of a tile's results; tiles of a strip; channels of a work-item; panels at a time; tiles and vectors
 * of the register tile. */
enum { SIDE, TILES, CHANNELS, AT_ONCE, PLACES, VECTORS, PARAMS };

static int width_of(const clade_query *q) { return clade__vector_width(q->device); }
/* Tiles per register tile. With 16 lanes, eight are fast enough, and divide the 16 tiles of a 14 x 14 plane. */
static int places_of(const clade_query *q) { return width_of(q) == 16 ? 8 : width_of(q) == 8 ? 6 : 3; }
static int64_t parts(int64_t n, int64_t of) { return (n + of - 1) / of; }

/* ---- requirements ---- */
const char *clade__gather_winograd_accept(const clade_query *q) {
  const clade_node *n = q->node;
  const clade__window *w = clade__conv_window(n);
  clade__gather g = clade__gather_of(n);
  for (int i = 0; i < 2; i++)
    if (g.kernel[i] != 3 || w->stride[i] != 1 || w->dilation[i] != 1) return "made for windows of 3 x 3, step 1";
  if (g.groups != 1) return "made for one group";
  if (n->in[0].dtype != CLADE_F32) return "its sums need operands of f32";
  const char *reason = clade__gather_blocked_accept(q);
  if (reason) return reason;
  if (clade__up(g.rows, 32) * clade__up(g.inner, 16) > INT32_MAX / 36) return "made for fewer than 2^26 weights";
  return NULL;
}

/* conv2d_data flips the windows and blocks axis 1. */
static clade_layout weights_layout(const clade_query *q) {
  return (clade_layout){.axis = q->node->op == &clade__op_conv2d ? 0 : 1,
                        .block = (uint16_t)(q->config[VECTORS] * width_of(q)),
                        .tile = (uint16_t)(q->config[SIDE] + 2)};
}

void clade__gather_winograd_layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  clade__gather_images(q, CLADE__BLOCKED, in, out);
  in[1] = weights_layout(q);
}

/* ---- parameters ---- */
static int64_t tiles_of(const clade__gather *g, int side) {
  return g->n * parts(g->result[0], side) * parts(g->result[1], side);
}

/* Size of a transformed strip in floats; and whether private memory holds it. */
static double floats_of(const clade__gather *g, const int32_t *config) {
  return (config[SIDE] + 2) * (config[SIDE] + 2) * ((double)clade__up(g->inner, 16) * config[TILES] + 16);
}
static bool private_of(const clade__gather *g, const int32_t *config) { return floats_of(g, config) <= SOURCE; }

/* Cycles to load `bytes` bytes: `held` per cycle if a shared cache holds `all`. */
static double fetch(const clade_query *q, double bytes, double all, double held) {
  return bytes / (all > (double)CLADE_MAX(q->device->cache_bytes, 1u << 20) / 2 ? 6 : held);
}

/* Estimated cycles if `units` cores share the work; a core starts two vector operations per cycle. Transform and load
 * rates are empirical; loads that are prefetched slow the products by a quarter of their time. */
static double cycles(const clade_query *q, const clade__gather *g, const int32_t *config, double units) {
  int width = width_of(q), taps = (config[SIDE] + 2) * (config[SIDE] + 2);
  double panel = config[VECTORS] * width, tiles = config[TILES], inner = (double)g->inner;
  double groups = ceil(tiles / config[PLACES]), panels = ceil((double)CLADE_MIN(config[CHANNELS], g->rows) / panel);
  double step = CLADE_MAX(config[PLACES] * config[VECTORS], config[PLACES] + config[VECTORS]) / 2.0 * 1.04;
  double multiply = taps * panels * groups * (inner * step + 40);
  double of_row = taps * inner * 4, strip = floats_of(g, config) * 4;
  double come = fetch(q, panels * panel * of_row, (double)g->rows * of_row, 32);
  if (!private_of(g, config)) come = (come + fetch(q, ceil(panels / config[AT_ONCE]) * strip, strip * units, 16)) / 4;
  double in = tiles * ceil(inner / 16) * 16 / width * taps * 4;
  double out = tiles * panels * panel / width * (taps * 3 + config[SIDE] * config[SIDE] * 4);
  double items = (double)parts(tiles_of(g, config[SIDE]), config[TILES]) * (double)parts(g->rows, config[CHANNELS]);
  return ceil(items / units) * (multiply + come + in + out + 3000);
}

enum { STRIPS = 7, SPLITS = 5 };
static bool nth(const clade_query *q, const clade__gather *g, int i, int32_t *config) {
  static const int strips[STRIPS] = {3, 2, 4, 6, 7, 8, 1}, splits[SPLITS] = {1, 2, 4, 8, 16}; /* of PLACES; of panels */
  int width = width_of(q), vectors = width == 4 ? 4 : 2, places = places_of(q), side = i % 2 ? 2 : 4;
  int split = i / 2 % SPLITS, strip = i / 2 / SPLITS, taps = (side + 2) * (side + 2);
  int64_t panel = vectors * width, panels = CLADE_MAX(parts(g->rows, panel), 1), all = CLADE_MAX(tiles_of(g, side), 1);
  int64_t held = BLOCK / taps - 16;
  if (strip >= STRIPS) return false;
  int64_t tiles = CLADE_MIN((int64_t)strips[strip] * places, held / panel / places * places);
  tiles = parts(all, parts(all, tiles));
  panels = parts(panels, splits[split]);
  memcpy(config,
         (int32_t[]){side, (int32_t)tiles, (int32_t)CLADE_MIN(panels * panel, INT32_MAX / 2),
                     (int32_t)CLADE_MAX(CLADE_MIN(held / (clade__up(tiles, places) * panel), panels), 1), places,
                     vectors},
         PARAMS * sizeof *config);
  return true;
}

/* The best configuration for a side, or for any. The side never depends on the number of cores, since it affects the
 * sums. */
static void best_of(const clade_query *q, const clade__gather *g, int side, double units, int32_t *config) {
  int32_t own[PARAMS];
  double best = INFINITY;
  for (int i = 0; nth(q, g, i, own); i++) {
    double now = side && own[SIDE] != side ? INFINITY : cycles(q, g, own, units);
    if (now >= best) continue;
    best = now;
    memcpy(config, own, PARAMS * sizeof *config);
  }
}

static void defaults(const clade_query *q, int32_t *config) {
  clade__gather g = clade__gather_of(q->node);
  best_of(q, &g, 0, 1, config);
  best_of(q, &g, config[SIDE], CLADE_MAX(q->device->compute_units, 1u), config);
}

static bool configs(const clade_query *q, int i, int32_t *config) {
  clade__gather g = clade__gather_of(q->node);
  return nth(q, &g, i, config);
}

static const char *const params[] = {"side", "tiles", "channels", "at_once", "places", "vectors", NULL};
const clade_space clade__gather_winograd_space = {sizeof(clade_space), params, defaults, configs};

/* ---- steps ---- */
double clade__gather_winograd_cost(const clade_query *q) {
  clade__gather g = clade__gather_of(q->node);
  double of_unit = cycles(q, &g, q->config, CLADE_MAX(q->device->compute_units, 1u));
  return clade__conv_vec_cost(q, of_unit * q->device->compute_units);
}

/* Strips per work-item: one if private memory holds a transformed strip; otherwise as many as make about one work-item
 * per core, since each needs that much workspace. */
static int64_t strips_of_item(const clade_query *q, const clade__gather *g) {
  int64_t strips = parts(tiles_of(g, q->config[SIDE]), q->config[TILES]), splits = parts(g->rows, q->config[CHANNELS]);
  if (private_of(g, q->config)) return 1;
  return CLADE_MAX(parts(strips * splits, CLADE_MAX(q->device->compute_units, 1u)), 1);
}

static int64_t items_of(const clade_query *q, const clade__gather *g) {
  int64_t strips = parts(tiles_of(g, q->config[SIDE]), q->config[TILES]);
  return parts(strips, strips_of_item(q, g)) * parts(g->rows, q->config[CHANNELS]);
}

size_t clade__gather_winograd_workspace(const clade_query *q) {
  clade__gather g = clade__gather_of(q->node);
  return private_of(&g, q->config) ? 0 : (size_t)items_of(q, &g) * (size_t)floats_of(&g, q->config) * sizeof(float);
}

clade_status clade__gather_winograd_emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  const int32_t *config = q->config;
  clade__gather g = clade__gather_of(n);
  int64_t first[2];
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_winograd");
  clade_emit_define_text(s, "T", clade_dtype_name(n->in[0].dtype));
  clade_emit_define_text(s, "OUT", clade_dtype_name(n->out[0].dtype));
  clade_emit_define(s, "WIDTH", width_of(q));
  clade_emit_define(s, "PLACES", config[PLACES]);
  clade_emit_define(s, "VECTORS", config[VECTORS]);
  clade_emit_define(s, "OUT_SIDE", config[SIDE]);
  clade_emit_define(s, "SOURCE", private_of(&g, config) ? SOURCE : 0);
  clade_emit_define(s, "BLOCK", BLOCK);
  CLADE_TRY(clade__epilogue_define(s, n));
  CLADE_TRY(clade__epilogue_define16(s, n));
  clade_emit_in(s, 0);
  clade_emit_in(s, 1);
  clade_emit_out(s, 0);
  if (!private_of(&g, config)) clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_index8(s, 7, (int64_t[]){g.n, g.rows, g.inner, g.source[0], g.source[1], g.result[0], g.result[1]});
  for (int i = 0; i < 2; i++) {
    clade__map_1d m = g.map(clade__conv_window(n), i);
    first[i] = m.delta < 0 ? m.add + 2 * m.delta : m.add;
  }
  clade_emit_index8(
      s, 6, (int64_t[]){config[TILES], config[CHANNELS], config[AT_ONCE], first[0], first[1], strips_of_item(q, &g)});
  clade__gather_result(s, n);
  clade_emit_range(s, 1, &(size_t){(size_t)items_of(q, &g)}, &(size_t){1});
  return CLADE_OK;
}

/* ---- weights ---- */
double clade__winograd_weights_cost(const clade_query *q) {
  double weights = (double)clade__product(&q->node->in[0].shape, 0, 2);
  return clade__cost(q->device, weights * 200, clade__node_bytes(q->node) * 3, 0.5);
}

clade_status clade__winograd_weights_emit(clade_emit *e, const clade_query *q) {
  enum { SOME = 4 }; /* inner channels per work-item */
  const clade_type *w = &q->node->out[0];
  bool turned = w->layout.axis == 1;
  int64_t rows = w->shape.dim[turned], inner = w->shape.dim[!turned], each = w->shape.dim[1] * 9;
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_winograd_weights");
  clade_emit_define(s, "OUT_SIDE", w->layout.tile - 2);
  clade_emit_define(s, "BLOCK", w->layout.block);
  clade_emit_define(s, "SOME", SOME);
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_i32(s, (int32_t)rows);
  clade_emit_i32(s, (int32_t)inner);
  clade_emit_i32(s, (int32_t)(turned ? 9 : each));
  clade_emit_i32(s, (int32_t)(turned ? each : 9));
  clade_emit_i32(s, turned);
  clade_emit_i32(s, clade__node_bytes(q->node) * 2 > (double)clade__last_cache(q->device));
  clade__emit_flat(s, q->device, parts(rows, w->layout.block) * parts(inner, SOME));
  return CLADE_OK;
}
