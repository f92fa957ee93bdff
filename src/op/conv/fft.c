/* conv2d and conv2d_data by Fourier transforms of tiles (docs/layouts.md): requirements, division of work, cost. */
#include "op/conv/conv.h"

#include <math.h>

/* Workspace for transformed tiles and their products at a time; the sides of tiles, the parameter, are powers of two.
 */
enum { LANES = CLADE__LANES, TILES_BYTES = 12 << 20, LEAST = 16, MOST = 64 };
enum { SIDE, PARAMS };

typedef struct plan {
  clade__conv g;
  int64_t many[2], tiles, chunk;  /* results of a tile; tiles of all images, at a time */
  int64_t places;                 /* tiles per register tile */
  int64_t frequencies, blocks[2]; /* of source and of result */
} plan;

static int64_t parts(int64_t n, int64_t of) { return clade__ceil_div(n, of); }
static int width_of(const clade_query *q) { return clade__vector_width(q->device); }

static plan plan_of(const clade_query *q, int64_t side) {
  plan p = {.g = clade__conv_of(q->node), .frequencies = side * (side / 2 + 1)};
  p.blocks[0] = parts(p.g.inner * p.g.groups, LANES);
  p.blocks[1] = parts(p.g.rows * p.g.groups, LANES);
  p.tiles = p.g.n;
  for (int i = 0; i < 2; i++) {
    p.many[i] = CLADE_MAX(side - p.g.kernel[i] + 1, 1); /* parameters are requested before any check */
    p.tiles *= parts(p.g.result[i], p.many[i]);
  }
  int64_t bytes = p.frequencies * (p.blocks[0] + p.blocks[1]) * 2 * LANES * (int64_t)sizeof(float);
  int64_t most = p.g.depthwise ? CLADE_MAX(p.tiles, 1) : CLADE_MAX(TILES_BYTES / CLADE_MAX(bytes, 1), 1);
  p.chunk = parts(p.tiles, parts(p.tiles, most));
  p.places = clade__up(CLADE_MAX(parts(p.chunk, parts(p.chunk, width_of(q) == 16 ? 12 : 6)), 1), 2);
  return p;
}

/* At least a quarter of a tile is left for results. */
static bool fits(const clade__conv *g, int64_t side) {
  return CLADE_MAX(g->kernel[0], g->kernel[1]) <= side - side / 4;
}

static const char *accept(const clade_query *q) {
  const clade__window *w = clade__conv_window(q->node);
  const clade__conv g = clade__conv_of(q->node);
  CLADE__REFUSE(clade__conv_refuses(q, CLADE__CONV_STEPS_1 | CLADE__CONV_F32 | CLADE__CONV_SMALL));
  if (w->dilation[0] != 1 || w->dilation[1] != 1) return "requires windows without dilation";
  if (g.groups != 1 && !g.depthwise) return "requires one group, or groups of one channel";
  if (!fits(&g, MOST)) return "requires windows of up to 48 x 48";
  return clade__up(g.rows * g.groups, LANES) * g.inner > INT32_MAX / (64 * 66)
             ? "requires weight spectra of fewer than 2^31 elements"
             : NULL;
}

/* Depthwise weights have their channels on axis 0 in both passes. Windows are not flipped; the sign of the imaginary
 * parts does that. */
static void layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  clade__gather_images(q, CLADE__BLOCKED, in, out);
  in[1] = clade__gather_weights(q, LANES, q->config[SIDE]);
  if (clade__conv_of(q->node).depthwise) in[1].axis = 0;
}

/* ---- cost ---- */
/* Estimated cycles for all tiles. The time of a transform is empirical. */
static double cycles(const clade_query *q, const void *of, const int32_t *config, double units) {
  (void)of, (void)units;
  plan p = plan_of(q, config[SIDE]);
  const clade__conv *g = &p.g;
  double side = config[SIDE], line = side * log2(side) * 3.4 * LANES / width_of(q), half = side / 2 + 1;
  double in = CLADE_MIN(side, (double)g->source[0]) / 2, out = (double)CLADE_MIN(p.many[0], g->result[0]) / 2;
  double values = (double)p.frequencies * LANES / width_of(q), results = (double)(p.many[0] * p.many[1]);
  double from = (half + in) * line + values * 8, to = (half + out) * line + results * 4 + values * 8;
  double tiles = (double)p.tiles, weights = values * 2 * width_of(q) * 4 * (double)p.blocks[1];
  if (p.g.depthwise) return tiles * (double)p.blocks[1] * (from + to);
  double chunks = (double)parts(p.tiles, p.chunk);
  double groups = chunks * ceil(tiles / chunks / (double)p.places) * (double)p.places;
  double multiply = groups * values * (double)p.blocks[1] * (double)g->inner * 2.1;
  return tiles * ((double)p.blocks[0] * from + (double)p.blocks[1] * to) + multiply +
         chunks * weights * (double)g->inner / 6;
}

static double cost(const clade_query *q) { return clade__conv_cost(q, cycles(q, NULL, q->config, 0)); }

static bool configs(const clade_query *q, int i, int32_t *config) {
  const clade__conv g = clade__conv_of(q->node);
  int side = LEAST;
  while (side < MOST && !fits(&g, side)) side *= 2;
  config[SIDE] = side << CLADE_MIN(i, 3);
  return config[SIDE] <= MOST;
}

static bool nth(const clade_query *q, const void *of, int i, int32_t *config) {
  return (void)of, configs(q, i, config);
}
static const clade__choices choices = {PARAMS, 0, nth, cycles};
static void defaults(const clade_query *q, int32_t *config) { clade__conv_choose(&choices, q, NULL, config); }

static const char *const params[] = {"side", NULL};
static const clade_space space = {sizeof(clade_space), params, defaults, configs};

/* ---- steps ---- */
/* Offset of the products in the workspace, behind the tiles. */
static size_t of_block(const plan *p, int which) {
  return (size_t)(p->frequencies * (p->chunk * p->blocks[which] * 2 * LANES + 16)) * sizeof(float);
}
static size_t workspace(const clade_query *q) {
  const plan p = plan_of(q, q->config[SIDE]);
  return p.g.depthwise ? 0 : of_block(&p, 0) + of_block(&p, 1);
}

/* Arguments for `tiles` tiles from `first` on. conv2d is a correlation: it uses the weights' conjugates. */
static void sizes(clade_kernel_step *s, const plan *p, int64_t first, int64_t tiles) {
  const clade__conv *g = &p->g;
  int64_t from[2];
  for (int i = 0; i < 2; i++) from[i] = clade__map_first(g->map[i], g->kernel[i]);
  CLADE__EMIT8(s, g->n, g->rows * g->groups, g->inner, g->source[0], g->source[1], g->result[0], g->result[1]);
  CLADE__EMIT8(s, p->many[0], p->many[1], from[0], from[1], first, tiles, g->forward ? -1 : 1);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  enum { FREQUENCIES = 4 }; /* of a work-item that multiplies */
  const plan p = plan_of(q, q->config[SIDE]);
  const clade__number side = {"SIDE", q->config[SIDE]}, width = {"WIDTH", width_of(q)};
  const size_t products = of_block(&p, 0);
  for (int64_t first = 0; first < p.tiles; first += p.chunk) {
    const int64_t tiles = CLADE_MIN(p.chunk, p.tiles - first);
    clade_kernel_step *s;
    if (!p.g.depthwise) {
      s = clade_emit_kernel(e, "conv2d_fft_places");
      clade__emit_defines(s, CLADE__DEFINES(side, width));
      clade_emit_in(s, 0);
      clade_emit_workspace(s, 0, sizeof(float));
      sizes(s, &p, first, tiles);
      clade__emit_items(s, tiles * p.blocks[0]);
      s = clade_emit_kernel(e, "conv2d_fft_products");
      clade__emit_defines(s, CLADE__DEFINES(side, width, {"PLACES", p.places}, {"FREQUENCIES", FREQUENCIES}));
      clade_emit_workspace(s, 0, sizeof(float));
      clade_emit_in(s, 1);
      clade_emit_workspace(s, products, sizeof(float));
      sizes(s, &p, first, tiles);
      clade__emit_items(s, parts(p.frequencies, FREQUENCIES));
    }
    CLADE_TRY(clade__gather_begin(e, q, "conv2d_fft_results", CLADE__WIDE,
                                  CLADE__DEFINES(side, {"DEPTHWISE", p.g.depthwise}), &s));
    if (p.g.depthwise)
      clade_emit_in(s, 0);
    else
      clade_emit_workspace(s, products, sizeof(float));
    clade_emit_in(s, 1);
    clade_emit_out(s, 0);
    sizes(s, &p, first, tiles);
    CLADE_TRY(clade__gather_end(s, q, tiles * p.blocks[1]));
  }
  return CLADE_OK;
}

const clade_impl clade__gather_fft =
    CLADE__CONV_IMPL(.name = "fft", CLADE__CONV_VEC, .accept = accept, .layouts = layouts, .cost = cost,
                     .workspace = workspace, .emit = emit, .space = &space, .file = "conv2d_fft", .loose = true);
