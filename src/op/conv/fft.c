/* conv2d and conv2d_data by Fourier transforms of tiles (docs/layouts.md): requirements, division of work, cost. */
#include "op/conv/conv.h"
#include "op/elt/epilogue.h"

#include <math.h>

enum { LANES = 16, TILES_BYTES = 12 << 20 }; /* workspace for transformed tiles and their products at a time */
/* Parameters: side of a tile; tiles per register tile. */
enum { SIDE, PLACES, PARAMS };
static const int32_t sides[] = {16, 32, 64};

typedef struct plan {
  clade__gather g;
  bool depthwise;
  int64_t many[2], grid[2], tiles, chunk; /* results of a tile; tiles along both axes, in all images, at a time */
  int64_t frequencies, blocks[2];         /* of source and of result */
} plan;

static int64_t parts(int64_t n, int64_t of) { return (n + of - 1) / of; }
static bool is_forward(const clade_query *q) { return q->node->op == &clade__op_conv2d; }
static int width_of(const clade_query *q) { return clade__vector_width(q->device); }

static plan plan_of(const clade_query *q, int64_t side) {
  plan p = {.g = clade__gather_of(q->node), .frequencies = side * (side / 2 + 1)};
  p.depthwise = clade__depthwise(&p.g);
  p.blocks[0] = parts(p.g.inner * p.g.groups, LANES);
  p.blocks[1] = parts(p.g.rows * p.g.groups, LANES);
  p.tiles = p.g.n;
  for (int i = 0; i < 2; i++) {
    p.many[i] = CLADE_MAX(side - p.g.kernel[i] + 1, 1); /* parameters are requested before any check */
    p.grid[i] = parts(p.g.result[i], p.many[i]);
    p.tiles *= p.grid[i];
  }
  int64_t bytes = p.frequencies * (p.blocks[0] + p.blocks[1]) * 2 * LANES * (int64_t)sizeof(float);
  int64_t most = p.depthwise ? CLADE_MAX(p.tiles, 1) : CLADE_MAX(TILES_BYTES / CLADE_MAX(bytes, 1), 1);
  p.chunk = parts(p.tiles, CLADE_MAX(parts(p.tiles, most), 1));
  return p;
}

/* At least a quarter of a tile is left for results. */
static bool fits(const clade__gather *g, int64_t side) {
  return CLADE_MAX(g->kernel[0], g->kernel[1]) <= side - side / 4;
}

const char *clade__gather_fft_accept(const clade_query *q) {
  const clade_node *n = q->node;
  const clade__conv_attrs *a = n->attrs;
  clade__gather g = clade__gather_of(n);
  for (int i = 0; i < 2; i++)
    if (a->window.stride[i] != 1 || a->window.dilation[i] != 1) return "made for steps of one, without dilation";
  if (g.groups != 1 && !clade__depthwise(&g)) return "made for one group, or one channel in each";
  if (n->in[0].dtype != CLADE_F32) return "its sums need operands of f32";
  if (!fits(&g, sides[CLADE_COUNT(sides) - 1])) return "made for windows of up to 48 x 48";
  if (clade__up(g.rows * g.groups, LANES) * g.inner > INT32_MAX / (64 * 66))
    return "made for fewer than 2^31 numbers of weights in tiles of 64 x 64";
  return clade__gather_small(q);
}

/* For conv2d_data, axis 1 holds the result's channels. Windows are not flipped; the sign of the imaginary parts does
 * that. */
void clade__gather_fft_layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  clade__gather g = clade__gather_of(q->node);
  clade__gather_images(q, CLADE__BLOCKED, in, out);
  in[1] = (clade_layout){
      .axis = !is_forward(q) && !clade__depthwise(&g), .block = LANES, .tile = (uint16_t)q->config[SIDE]};
}

/* ---- cost ---- */
/* Estimated cycles for all tiles; a core starts two vector operations per cycle. The time of a transform is empirical.
 */
static double cycles(const clade_query *q, const int32_t *config) {
  plan p = plan_of(q, config[SIDE]);
  const clade__gather *g = &p.g;
  double side = config[SIDE], line = side * log2(side) * 3.4 * LANES / width_of(q), half = side / 2 + 1;
  double in = CLADE_MIN(side, (double)g->source[0]) / 2, out = (double)CLADE_MIN(p.many[0], g->result[0]) / 2;
  double values = (double)p.frequencies * LANES / width_of(q), results = (double)(p.many[0] * p.many[1]);
  double from = (half + in) * line + values * 8, to = (half + out) * line + results * 4 + values * 8;
  double tiles = (double)p.tiles, weights = values * 2 * width_of(q) * 4 * (double)p.blocks[1];
  if (p.depthwise) return tiles * (double)p.blocks[1] * (from + to);
  double chunks = (double)parts(p.tiles, CLADE_MAX(p.chunk, 1));
  double groups = chunks * ceil(tiles / chunks / config[PLACES]) * config[PLACES];
  double multiply = groups * values * (double)p.blocks[1] * (double)g->inner * 2.1;
  return tiles * ((double)p.blocks[0] * from + (double)p.blocks[1] * to) + multiply +
         chunks * weights * (double)g->inner / 6;
}

double clade__gather_fft_cost(const clade_query *q) { return clade__conv_vec_cost(q, cycles(q, q->config)); }

static bool configs(const clade_query *q, int i, int32_t *config) {
  clade__gather g = clade__gather_of(q->node);
  const int last = CLADE_COUNT(sides) - 1;
  int least = 0;
  while (least < last && !fits(&g, sides[least])) least++;
  if (least + i > last) return false;
  config[SIDE] = sides[least + i];
  plan p = plan_of(q, config[SIDE]);
  int64_t most = width_of(q) == 16 ? 12 : 6, groups = CLADE_MAX(parts(p.chunk, most), 1);
  config[PLACES] = (int32_t)clade__up(CLADE_MAX(parts(p.chunk, groups), 1), 2);
  return true;
}

static void defaults(const clade_query *q, int32_t *config) {
  int32_t own[PARAMS];
  double best = INFINITY;
  for (int i = 0; configs(q, i, own); i++) {
    double now = cycles(q, own);
    if (now >= best) continue;
    best = now;
    memcpy(config, own, sizeof own);
  }
}

static const char *const params[] = {"side", "places", NULL};
const clade_space clade__gather_fft_space = {sizeof(clade_space), params, defaults, configs};

/* ---- steps ---- */
/* Offset of the products in the workspace, behind the tiles. */
static size_t of_block(const plan *p, int which) {
  return (size_t)(p->frequencies * (p->chunk * p->blocks[which] * 2 * LANES + 16)) * sizeof(float);
}
size_t clade__gather_fft_workspace(const clade_query *q) {
  plan p = plan_of(q, q->config[SIDE]);
  return p.depthwise ? 0 : of_block(&p, 0) + of_block(&p, 1);
}

static clade_kernel_step *begin(clade_emit *e, const clade_query *q, const char *kernel) {
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_define(s, "SIDE", q->config[SIDE]);
  clade_emit_define(s, "WIDTH", width_of(q));
  return s;
}

/* Arguments for `tiles` tiles from `first` on. conv2d is a correlation: it uses the weights' conjugates, and results
 * begin where tiles do. */
static void sizes(clade_kernel_step *s, const clade_query *q, const plan *p, int64_t first, int64_t tiles,
                  int64_t piece) {
  const clade__gather *g = &p->g;
  bool forward = is_forward(q);
  int64_t from[2];
  for (int i = 0; i < 2; i++) {
    clade__map_1d m = g->map(clade__conv_window(q->node), i);
    from[i] = forward ? m.add : m.add - g->kernel[i] + 1;
  }
  int64_t inner = p->depthwise ? 1 : g->inner;
  clade_emit_index8(
      s, 7, (int64_t[]){g->n, g->rows * g->groups, inner, g->source[0], g->source[1], g->result[0], g->result[1]});
  clade_emit_index8(s, 8, (int64_t[]){p->many[0], p->many[1], from[0], from[1], first, tiles, piece, forward ? -1 : 1});
}

static clade_status finish(clade_kernel_step *s, const clade_query *q, const plan *p, int64_t items) {
  bool forward = is_forward(q);
  clade_emit_index8(s, 2, (int64_t[]){forward ? 0 : p->g.kernel[0] - 1, forward ? 0 : p->g.kernel[1] - 1});
  clade__gather_result(s, q->node);
  clade_emit_range(s, 1, &(size_t){(size_t)items}, &(size_t){1});
  return CLADE_OK;
}

static clade_status define_result(clade_kernel_step *s, const clade_query *q) {
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[0].dtype));
  clade_emit_define_text(s, "OUT", clade_dtype_name(q->node->out[0].dtype));
  CLADE_TRY(clade__epilogue_define(s, q->node));
  return clade__epilogue_define16(s, q->node);
}

static clade_status emit_tiles(clade_emit *e, const clade_query *q, const plan *p, int64_t first, int64_t tiles) {
  enum { PIECE = 4 };
  size_t products = of_block(p, 0);
  clade_kernel_step *s = begin(e, q, "conv2d_fft_places");
  clade_emit_in(s, 0);
  clade_emit_workspace(s, 0, sizeof(float));
  sizes(s, q, p, first, tiles, PIECE);
  clade_emit_range(s, 1, &(size_t){(size_t)(tiles * p->blocks[0])}, &(size_t){1});
  s = begin(e, q, "conv2d_fft_products");
  clade_emit_define(s, "PLACES", q->config[PLACES]);
  clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_in(s, 1);
  clade_emit_workspace(s, products, sizeof(float));
  sizes(s, q, p, first, tiles, PIECE);
  clade_emit_range(s, 1, &(size_t){(size_t)parts(p->frequencies, PIECE)}, &(size_t){1});
  s = begin(e, q, "conv2d_fft_results");
  CLADE_TRY(define_result(s, q));
  clade_emit_workspace(s, products, sizeof(float));
  clade_emit_out(s, 0);
  sizes(s, q, p, first, tiles, PIECE);
  return finish(s, q, p, tiles * p->blocks[1]);
}

clade_status clade__gather_fft_emit(clade_emit *e, const clade_query *q) {
  plan p = plan_of(q, q->config[SIDE]);
  for (int64_t first = 0; !p.depthwise && first < p.tiles; first += p.chunk)
    CLADE_TRY(emit_tiles(e, q, &p, first, CLADE_MIN(p.chunk, p.tiles - first)));
  if (!p.depthwise) return CLADE_OK;
  clade_kernel_step *s = begin(e, q, "conv2d_fft_depthwise");
  CLADE_TRY(define_result(s, q));
  clade_emit_in(s, 0);
  clade_emit_in(s, 1);
  clade_emit_out(s, 0);
  sizes(s, q, &p, 0, p.tiles, 0);
  return finish(s, q, &p, p.tiles * p.blocks[1]);
}

/* ---- weights ---- */
double clade__fft_weights_cost(const clade_query *q) {
  const clade_type *w = &q->node->out[0];
  double side = w->layout.tile, windows = (double)clade__product(&w->shape, 0, 2);
  return clade__cost(q->device, windows * 10 * side * side * log2(side), windows * side * side * 4, 0.25);
}

clade_status clade__fft_weights_emit(clade_emit *e, const clade_query *q) {
  const clade_type *w = &q->node->out[0];
  bool turned = w->layout.axis == 1;
  int64_t high = w->shape.dim[2], wide = w->shape.dim[3], rows = w->shape.dim[turned], inner = w->shape.dim[!turned];
  int64_t each = w->shape.dim[1] * high * wide;
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_fft_weights");
  clade_emit_define(s, "SIDE", w->layout.tile);
  clade_emit_define(s, "WIDTH", width_of(q));
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_i32(s, (int32_t)rows);
  clade_emit_i32(s, (int32_t)inner);
  clade_emit_i32(s, (int32_t)high);
  clade_emit_i32(s, (int32_t)wide);
  clade_emit_i32(s, (int32_t)(turned ? high * wide : each));
  clade_emit_i32(s, (int32_t)(turned ? each : high * wide));
  clade__emit_flat(s, q->device, parts(rows, LANES) * inner);
  return CLADE_OK;
}
