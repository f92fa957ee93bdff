/* Convolutions with 3 x 3 windows by Winograd's algorithm (docs/layouts.md): requirements, division of work, cost. */
#include "op/conv/conv.h"

#include <math.h>

/* Sizes of the kernel's private buffers in floats. They are on a thread's stack, which may be limited to 2 MiB. */
enum { SOURCE = 332800, BLOCK = 74496 };
/* Parameters: side of a tile's results; tiles of a strip; channels of a work-item. */
enum { SIDE, TILES, CHANNELS, PARAMS };

static int width_of(const clade_query *q) { return clade__vector_width(q->device); }
/* The register tile: channels; tiles. With 16 lanes, eight are fast enough, and divide the 16 tiles of a 14 x 14 plane.
 */
static int panel_of(const clade_query *q) { return CLADE_MAX(2 * width_of(q), 16); }
static int places_of(const clade_query *q) { return width_of(q) == 16 ? 8 : width_of(q) == 8 ? 6 : 3; }
static int64_t parts(int64_t n, int64_t of) { return clade__ceil_div(n, of); }

/* ---- conv2d and conv2d_data ---- */
static const char *accept(const clade_query *q) {
  const clade__conv g = clade__conv_of(q->node);
  CLADE__REFUSE(clade__conv_refuses(q, CLADE__CONV_3X3 | CLADE__CONV_ONE_GROUP | CLADE__CONV_F32 | CLADE__CONV_SMALL));
  return clade__up(g.rows, 32) * clade__up(g.inner, 16) > INT32_MAX / 36 ? "requires fewer than 2^26 weights" : NULL;
}

/* conv2d_data flips the windows and blocks axis 1. */
static void layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  clade__gather_images(q, CLADE__BLOCKED, in, out);
  in[1] = clade__gather_weights(q, panel_of(q), q->config[SIDE] + 2);
}

static int taps_of(int side) { return (side + 2) * (side + 2); }
static int64_t tiles_of(const clade__conv *g, int side) {
  return g->n * parts(g->result[0], side) * parts(g->result[1], side);
}

/* Size of a transformed strip in floats; and whether private memory holds it. */
static double floats_of(const clade__conv *g, const int32_t *config) {
  return taps_of(config[SIDE]) * ((double)clade__up(g->inner, 16) * config[TILES] + 16);
}
static bool private_of(const clade__conv *g, const int32_t *config) { return floats_of(g, config) <= SOURCE; }
/* Products of a tap that the private buffer holds. */
static int64_t held_of(int side) { return BLOCK / taps_of(side) - 16; }

/* Cycles to load `bytes` bytes: `held` per cycle if a shared cache holds `all`. */
static double fetch(const clade_query *q, double bytes, double all, double held) {
  return bytes / (all > (double)CLADE_MAX(q->device->cache_bytes, 1u << 20) / 2 ? 6 : held);
}

/* Estimated cycles if `units` cores, at least one, share the work. Transform and load rates are empirical; loads that
 * are prefetched slow the products by a quarter of their time. */
static double cycles(const clade_query *q, const void *of, const int32_t *config, double units) {
  const clade__conv c = clade__conv_of(q->node), *g = &c;
  const int width = width_of(q), taps = taps_of(config[SIDE]), places = places_of(q), vectors = panel_of(q) / width;
  (void)of, units = CLADE_MAX(units, 1);
  double panel = panel_of(q), tiles = config[TILES], inner = (double)g->inner;
  double groups = ceil(tiles / places), panels = ceil((double)CLADE_MIN(config[CHANNELS], g->rows) / panel);
  double step = CLADE_MAX(places * vectors, places + vectors) / 2.0 * 1.04;
  double multiply = taps * panels * groups * (inner * step + 40);
  double of_row = taps * inner * 4, strip = floats_of(g, config) * 4;
  double come = fetch(q, panels * panel * of_row, (double)g->rows * of_row, 32);
  double at_once = CLADE_MAX(floor((double)held_of(config[SIDE]) / (groups * places * panel)), 1); /* panels */
  if (!private_of(g, config)) come = (come + fetch(q, ceil(panels / at_once) * strip, strip * units, 16)) / 4;
  double in = tiles * ceil(inner / 16) * 16 / width * taps * 4;
  double out = tiles * panels * panel / width * (taps * 3 + config[SIDE] * config[SIDE] * 4);
  double items = (double)parts(tiles_of(g, config[SIDE]), config[TILES]) * (double)parts(g->rows, config[CHANNELS]);
  return ceil(items / units) * (multiply + come + in + out + 3000);
}

static bool configs(const clade_query *q, int i, int32_t *config) {
  enum { SPLITS = 5 };
  static const int strips[] = {3, 2, 4, 6, 7, 8, 1}; /* register tiles */
  const clade__conv g = clade__conv_of(q->node);
  const int side = i % 2 ? 2 : 4, strip = i / 2 / SPLITS, places = places_of(q);
  if (strip >= (int)CLADE_COUNT(strips)) return false;
  const int64_t panel = panel_of(q), panels = parts(CLADE_MAX(parts(g.rows, panel), 1), 1 << i / 2 % SPLITS);
  const int64_t all = CLADE_MAX(tiles_of(&g, side), 1), most = held_of(side) / panel / places * places;
  config[SIDE] = side;
  config[TILES] = (int32_t)parts(all, parts(all, CLADE_MIN(strips[strip] * places, most)));
  config[CHANNELS] = (int32_t)CLADE_MIN(panels * panel, INT32_MAX / 2);
  return true;
}

static bool nth(const clade_query *q, const void *of, int i, int32_t *config) {
  return (void)of, configs(q, i, config);
}
/* The side never depends on the number of cores, since it affects the sums. */
static const clade__choices choices = {PARAMS, 1 << SIDE, nth, cycles};
static void defaults(const clade_query *q, int32_t *config) { clade__conv_choose(&choices, q, NULL, config); }

static const char *const params[] = {"side", "tiles", "channels", NULL};
static const clade_space space = {sizeof(clade_space), params, defaults, configs};

static double cost(const clade_query *q) {
  return clade__conv_cost(q, cycles(q, NULL, q->config, (double)clade__conv_units(q)) * q->device->compute_units);
}

/* Strips per work-item: one if private memory holds a transformed strip; otherwise as many as make about one work-item
 * per core, since each needs that much workspace. Returns the number of work-items. */
static int64_t items_of(const clade_query *q, const clade__conv *g, int64_t *strips_of_item) {
  const int64_t strips = parts(tiles_of(g, q->config[SIDE]), q->config[TILES]);
  const int64_t splits = parts(g->rows, q->config[CHANNELS]);
  *strips_of_item = private_of(g, q->config) ? 1 : CLADE_MAX(parts(strips * splits, clade__conv_units(q)), 1);
  return parts(strips, *strips_of_item) * splits;
}

static size_t workspace(const clade_query *q) {
  const clade__conv g = clade__conv_of(q->node);
  int64_t strips;
  if (private_of(&g, q->config)) return 0;
  return (size_t)items_of(q, &g, &strips) * (size_t)floats_of(&g, q->config) * sizeof(float);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const int32_t *config = q->config;
  const clade__conv g = clade__conv_of(q->node);
  const bool private = private_of(&g, config);
  int64_t first[2], strips;
  const int64_t items = items_of(q, &g, &strips);
  clade_kernel_step *s;
  const clade__number *defines =
      CLADE__DEFINES({"PLACES", places_of(q)}, {"VECTORS", panel_of(q) / width_of(q)}, {"OUT_SIDE", config[SIDE]},
                     {"TAKEN", config[SIDE] + 2}, {"SOURCE", private ? SOURCE : 0}, {"BLOCK", BLOCK});
  CLADE_TRY(clade__gather_begin(e, q, "conv2d_winograd", CLADE__WIDE, defines, &s));
  clade__conv_operands(s);
  if (!private) clade_emit_workspace(s, 0, sizeof(float));
  CLADE__EMIT8(s, g.n, g.rows, g.inner, g.source[0], g.source[1], g.result[0], g.result[1]);
  for (int i = 0; i < 2; i++) first[i] = clade__map_first(g.map[i], 3);
  CLADE__EMIT8(s, config[TILES], config[CHANNELS], first[0], first[1], strips);
  return clade__gather_end(s, q, items);
}

const clade_impl clade__gather_winograd =
    CLADE__CONV_IMPL(.name = "winograd", CLADE__CONV_VEC, .accept = accept, .layouts = layouts, .cost = cost,
                     .workspace = workspace, .emit = emit, .space = &space, .file = "conv2d_winograd", .loose = true);

/* ---- transformation of the weights, for pack; also for Fourier transforms, whose tiles are larger ---- */
static bool fourier(const clade_type *w) { return w->layout.tile >= CLADE_SPECTRUM; }

double clade__transformed_weights_cost(const clade_query *q) {
  const clade_type *w = &q->node->out[0];
  const double windows = (double)clade__product(&w->shape, 0, 2), side = w->layout.tile, places = side * side;
  if (fourier(w)) return clade__cost(q->device, windows * 10 * places * log2(side), windows * places * 4, 0.25);
  return clade__cost(q->device, windows * 200, clade__node_bytes(q->node) * 3, 0.5);
}

clade_status clade__transformed_weights_emit(clade_emit *e, const clade_query *q) {
  const clade_type *w = &q->node->out[0];
  const bool turned = w->layout.axis == 1, fft = fourier(w);
  const bool far = clade__node_bytes(q->node) * 2 > (double)clade__last_cache(q->device);
  const int64_t *dim = w->shape.dim, rows = dim[turned], inner = dim[!turned], taps = dim[2] * dim[3];
  const int64_t by_row = (turned ? 1 : dim[1]) * taps, by_inner = (turned ? dim[1] : 1) * taps, some = fft ? 1 : 4;
  clade_kernel_step *s = clade_emit_kernel(e, fft ? "conv2d_fft_weights" : "conv2d_winograd_weights");
  clade__emit_defines(s, CLADE__DEFINES({"SIDE", w->layout.tile}, {"WIDTH", width_of(q)},
                                        {"OUT_SIDE", w->layout.tile - 2}, {"BLOCK", w->layout.block}, {"SOME", some}));
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  CLADE__EMIT8(s, rows, inner, by_row, by_inner, dim[2], dim[3], turned, far);
  clade__emit_flat(s, q->device, parts(rows, w->layout.block) * parts(inner, some));
  return CLADE_OK;
}

/* ---- conv2d_weights: tiles of x and of y's gradient are transformed, multiplied tap by tap, and the sums transformed
 * back ---- */
enum { OUT_SIDE = 4, TAPS = 36, LANES = CLADE__LANES, PIECE = 8, WIDE = 128 };
/* Workspace for both transformed operands; more tiles are processed one chunk after another. */
enum { TAKEN = 24 << 20 };

typedef struct plan {
  clade__conv c;
  int64_t rows, inner; /* rounded up to whole blocks */
  int64_t grid[2], tiles, chunk;
} plan;

static plan plan_of(const clade_query *q) {
  plan p = {.c = clade__conv_of(q->node)};
  p.rows = clade__up(p.c.rows, LANES);
  p.inner = clade__up(p.c.inner, LANES);
  for (int i = 0; i < 2; i++) p.grid[i] = parts(p.c.result[i], OUT_SIDE);
  p.tiles = p.c.n * p.grid[0] * p.grid[1];
  int64_t most = CLADE_MAX(TAKEN / (TAPS * (int64_t)sizeof(float) * CLADE_MAX(p.rows + p.inner, 1)), 64);
  p.chunk = parts(p.tiles, parts(p.tiles, most));
  return p;
}

static const char *weights_accept(const clade_query *q) {
  CLADE__REFUSE(clade__conv_refuses(q, CLADE__CONV_3X3 | CLADE__CONV_ONE_GROUP | CLADE__CONV_F32 | CLADE__CONV_FEW |
                                           CLADE__CONV_SOME));
  const plan p = plan_of(q);
  return p.rows * p.inner > 1 << 21 ? "the transformed weights exceed the limit of its workspace" : NULL;
}

static size_t taken_bytes(const plan *p, int64_t channels) {
  return (size_t)(TAPS * channels * p->chunk) * sizeof(float);
}

static size_t weights_workspace(const clade_query *q) {
  const plan p = plan_of(q);
  return taken_bytes(&p, p.inner + p.rows) + (size_t)(TAPS * p.rows * p.inner) * sizeof(float);
}

/* Products, stores and reloads, transforms, inverse transform. */
static double weights_cost(const clade_query *q) {
  const plan p = plan_of(q);
  double width = width_of(q), weights = (double)(p.rows * p.inner), tiles = (double)p.tiles;
  double chunks = (double)parts(p.tiles, p.chunk);
  double multiply = TAPS * weights * (tiles / (2 * width) * 1.1 + 0.3 * chunks);
  double bytes = TAPS * 4 * (2 * tiles * (double)(p.rows + p.inner) + 2 * weights * chunks);
  double take = tiles / width * (double)(p.inner * 300 + p.rows * 200), back = weights / width * 600;
  bool cached = weights_workspace(q) < CLADE_MAX(q->device->cache_bytes, 1u << 20) / 2;
  return clade__conv_cost(q, multiply + bytes / (cached ? 16 : 5) + take + back + 30000 * chunks);
}

/* Transforms n tiles of an operand, from `first` on. */
static void take(clade_emit *e, const clade_query *q, const plan *p, int operand, int64_t first, int64_t n, size_t to) {
  const clade__window *w = clade__conv_window(q->node);
  const int64_t blocks = (operand ? p->rows : p->inner) / LANES, *plane = operand ? p->c.result : p->c.source;
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_winograd_taken");
  clade__emit_defines(
      s, CLADE__DEFINES({"OUT_SIDE", OUT_SIDE}, {"WIDTH", width_of(q)}, {"TAKEN", operand ? OUT_SIDE : OUT_SIDE + 2}));
  clade_emit_in(s, operand);
  clade_emit_workspace(s, to, sizeof(float));
  CLADE__EMIT8(s, p->c.n, blocks, plane[0], plane[1], p->grid[0], p->grid[1], first, n);
  CLADE__EMIT8(s, operand ? 0 : -w->pad[0], operand ? 0 : -w->pad[1], PIECE);
  clade__emit_items(s, parts(n, PIECE) * blocks);
}

static clade_status weights_emit(clade_emit *e, const clade_query *q) {
  const plan p = plan_of(q);
  const int width = width_of(q), blocks = width == 16 && p.inner % (2 * LANES) == 0 ? 2 : 1;
  const int rows = width == 16 ? 16 / blocks : width / 2; /* a block's rows in whole tiles */
  const size_t of_y = taken_bytes(&p, p.inner), sums = of_y + taken_bytes(&p, p.rows);
  for (int64_t first = 0; first < p.tiles; first += p.chunk) {
    const int64_t n = CLADE_MIN(p.chunk, p.tiles - first);
    take(e, q, &p, 0, first, n, 0);
    take(e, q, &p, 1, first, n, of_y);
    clade_kernel_step *s = clade_emit_kernel(e, "conv2d_winograd_products");
    clade__emit_defines(s,
                        CLADE__DEFINES({"OUT_SIDE", OUT_SIDE}, {"WIDTH", width}, {"BLOCKS", blocks}, {"ROWS", rows}));
    clade_emit_workspace(s, of_y, sizeof(float));
    clade_emit_workspace(s, 0, sizeof(float));
    clade_emit_workspace(s, sums, sizeof(float));
    CLADE__EMIT8(s, p.rows, p.inner, n, WIDE, WIDE, first > 0);
    clade__emit_items(s, TAPS * parts(p.rows, WIDE) * parts(p.inner, WIDE));
  }
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_winograd_back");
  clade_emit_define(s, "OUT_SIDE", OUT_SIDE);
  clade_emit_workspace(s, sums, sizeof(float));
  clade_emit_out(s, 0);
  CLADE__EMIT8(s, p.c.rows, p.c.inner, p.rows, p.inner);
  clade__emit_flat(s, q->device, p.c.rows * (p.inner / LANES));
  return CLADE_OK;
}

const clade_impl clade__weights_winograd =
    CLADE__CONV_IMPL(.name = "winograd", CLADE__CONV_VEC, .accept = weights_accept, .layouts = clade__weights_blocked,
                     .cost = weights_cost, .workspace = weights_workspace, .emit = weights_emit,
                     .file = "conv2d_winograd", .loose = true);
