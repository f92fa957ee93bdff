/* Convolutions on GPUs, tiled in local memory: matrix products in which one operand is gathered from an image while it
 * is loaded. Groups of few channels, and depthwise convolutions above all, waste most of a tile and are left to others.
 */
#include "op/conv/weights.h"
#include "op/elt/epilogue.h"
#include "op/product.h"

/* ---- conv2d and conv2d_data: one matrix per group and phase ---- */
static int64_t common(int64_t a, int64_t b) { return b ? common(b, a % b) : a; }

/* Distance between taps that reach whole positions. */
static int64_t step_of(clade__map_1d m) { return m.div / common(m.div, m.delta < 0 ? -m.delta : m.delta); }

/* Matrix units take images with channels last, where their tiles are loaded by copies of 16 bytes: the layout's block
 * holds all channels, padded to whole copies. Then rows are positions and columns channels, else rows are channels. */
enum { COPY = CLADE__CHANNEL_COPY };
static bool is_last(const clade__tiles *t) { return t->tables && t->params == CLADE__TILE_PARAMS; }

static clade__matmul gather_product(const clade_node *n, bool last) {
  const clade__conv_attrs *a = n->attrs;
  clade__gather g = clade__gather_of(n);
  clade__matmul p = {.m = g.rows, .n = g.n, .k = last ? clade__up(g.inner, COPY) : g.inner, .matrices = g.groups};
  for (int i = 0; i < 2; i++) { /* most positions: the first phase; most taps: maybe another */
    clade__map_1d m = g.map(&a->window, i);
    int64_t step = step_of(m);
    p.n *= (g.result[i] + m.div - 1) / m.div;
    p.k *= (g.kernel[i] + step - 1) / step;
    p.matrices *= CLADE_MIN(m.div, g.result[i]);
  }
  return last ? (clade__matmul){p.n, p.m, p.k, p.matrices} : p;
}

/* Parts are added as they lie in the result, which thus has no padding. */
static clade__parts gather_parts(const clade_node *n, bool last) {
  const clade__matmul p = gather_product(n, last);
  return last && n->out[0].shape.dim[1] % COPY ? clade__parts_cut(&p, 1) : clade__parts_of(&p);
}

static int64_t results_of(const clade_node *n) { return clade__product(&n->out[0].shape, 0, 4); }

static void gather_defaults(const clade_query *q, const clade__tiles *t, int32_t *config) {
  const clade__parts parts = gather_parts(q->node, is_last(t));
  clade__tiles_defaults(q, t, &parts.each, config);
}

static const char *last_refuses(const clade_query *q, int64_t groups, int64_t inner, int64_t rows) {
  if (clade__is_integer(q->node->in[0].dtype)) return "made for f16 and bf16";
  if (groups > 1 && inner % COPY) return "a group's channels do not begin at a copy of 16 bytes";
  return groups * CLADE_MAX(inner, rows) > UINT16_MAX - COPY ? "a block does not hold all channels" : NULL;
}

static const char *gather_accept(const clade_query *q, const clade__tiles *t) {
  const clade__parts parts = gather_parts(q->node, is_last(t));
  const clade__gather g = clade__gather_of(q->node);
  const char *reason = is_last(t) ? last_refuses(q, g.groups, g.inner, g.rows) : NULL;
  return reason ? reason : clade__tiles_refuse(q, t, &parts.each, false);
}

static double gather_cost(const clade_query *q, const clade__tiles *t) {
  const clade__parts parts = gather_parts(q->node, is_last(t));
  const double moved = 2 * (double)clade__parts_bytes(&parts, results_of(q->node)); /* written and read again */
  return clade__tiles_cost(q, t, &parts.each, clade__node_bytes(q->node) + moved);
}

size_t clade__gather_tiles_workspace(const clade_query *q) {
  const clade__parts parts = gather_parts(q->node, q->node->in[0].layout.block > 0);
  return clade__parts_bytes(&parts, results_of(q->node));
}

void clade__gather_last_layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  const clade_node *n = q->node;
  const int inner = n->op == &clade__op_conv2d; /* the weights' axis along which products are added */
  in[0] = clade__channels_last(1, n->in[0].shape.dim[1]);
  in[1] = clade__channels_last(inner, n->in[1].shape.dim[inner]);
  out[0] = clade__channels_last(1, n->out[0].shape.dim[1]);
  for (int i = 2; i < n->n_in; i++)
    if (clade__gather_whole(&n->in[i].shape, &n->out[0].shape))
      in[i] = clade__channels_last(n->in[i].shape.rank - 3, n->out[0].shape.dim[1]);
}

static clade_status gather_join(clade_emit *e, const clade_query *q, const clade__gather *g, const clade__parts *p,
                                bool last) {
  const int64_t pixels = g->result[0] * g->result[1], channels = g->groups * g->rows;
  const int64_t dim[] = {1, 1, 1, 1, 1, g->n, last ? pixels : channels, last ? channels : pixels};
  int64_t strides[CLADE__ELT_INPUTS][CLADE_MAX_RANK] = {{0}};
  clade_kernel_step *s;
  CLADE_TRY(clade__parts_join(e, q, p, dim, 1, &s));
  clade__gather_strides(q->node, strides);
  for (int i = 0; last && i < CLADE__ELT_INPUTS; i++) {
    const int64_t channel = strides[i][6];
    strides[i][6] = strides[i][7];
    strides[i][7] = channel;
  }
  clade__epilogue_args(s, q->node, strides);
  return CLADE_OK;
}

static clade_status gather_emit(clade_emit *e, const clade_query *q, const clade__tiles *t) {
  clade__gather g = clade__gather_of(q->node);
  const bool last = is_last(t), deep = last || g.w_inner < g.w_row;
  const clade__parts parts = gather_parts(q->node, last);
  const clade__window *w = clade__conv_window(q->node);
  clade_kernel_step *s = clade_emit_kernel(e, last ? "conv2d_gather_last" : "conv2d_gather_tiles");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[0].dtype));
  clade_emit_define_text(s, "TB", clade_dtype_name(q->node->in[1].dtype));
  clade_emit_define_text(s, "OUT", clade_dtype_name(q->node->out[0].dtype));
  CLADE_TRY(clade__epilogue_define(s, q->node));
  clade_emit_define(s, "IN_PARTS", parts.n > 1);
  clade_emit_in(s, 0);
  clade_emit_in(s, 1);
  if (parts.n > 1)
    clade_emit_workspace(s, 0, sizeof(float));
  else
    clade_emit_out(s, 0);
  clade__gather_sizes(s, &g);
  if (last) { /* (row, tap, inner channel); the data pass has the inner channels of all groups side by side */
    g.w_inner = q->node->in[1].layout.block;
    g.w_row = g.kernel[0] * g.kernel[1] * g.w_inner;
    g.w_group = q->node->op == &clade__op_conv2d ? g.rows * g.w_row : g.inner;
  }
  clade_emit_index8(
      s, 7,
      (int64_t[]){g.kernel[0], g.kernel[1], g.w_group, g.w_row, g.w_inner, step_of(g.map(w, 0)), step_of(g.map(w, 1))});
  clade__emit_maps(s, w, g.map);
  if (parts.n > 1) {
    clade_emit_index(s, parts.span);
    clade_emit_index(s, parts.n);
  } else {
    clade__gather_epilogue(s, q->node);
  }
  const int64_t run = clade__tiles_run(q, t);
  const bool runs = !clade__is_integer(q->node->in[0].dtype) || t->unit != CLADE_UNITS;
  clade__tiles_launch(
      s, q, t, &parts.each, (clade__lies){deep, runs && deep && g.w_row % run == 0},
      (clade__lies){last, runs && clade__conv_is_point(q->node) && g.source[0] * g.source[1] % run == 0});
  return parts.n > 1 ? gather_join(e, q, &g, &parts, last) : CLADE_OK;
}

/* ---- conv2d_weights: one matrix per group and part of the sum ---- */
/* Positions per part, so that about GROUPS tiles of 64 x 64 result. */
enum { TILE = 64, GROUPS = 256, LEAST = 128 };

static int64_t span_of(const clade_query *q, const clade__weights *p) {
  int64_t tiles = p->groups * (clade__up(p->rows, TILE) / TILE) * (clade__up(p->columns, TILE) / TILE);
  int64_t places = CLADE_MAX(p->n * p->result[0] * p->result[1], 1), parts = GROUPS / CLADE_MAX(tiles, 1);
  int64_t span = clade__up((places + CLADE_MAX(parts, 1) - 1) / CLADE_MAX(parts, 1), LEAST);
  return q->device->max_passes ? CLADE_MIN(span, 1024) : span;
}

static int64_t parts_of(const clade_query *q, const clade__weights *p) {
  int64_t span = span_of(q, p);
  return CLADE_MAX((p->n * p->result[0] * p->result[1] + span - 1) / span, 1);
}

static clade__matmul weights_product(const clade_query *q, const clade__weights *p, bool last) {
  const int64_t taps = p->kernel[0] * p->kernel[1], inner = last ? clade__up(p->inner, COPY) : p->inner;
  return (clade__matmul){p->rows, taps * inner, span_of(q, p), p->groups * parts_of(q, p)};
}

static void weights_defaults(const clade_query *q, const clade__tiles *t, int32_t *config) {
  clade__weights w = clade__weights_of(q->node, false);
  clade__matmul p = weights_product(q, &w, is_last(t));
  clade__tiles_defaults(q, t, &p, config);
}

static const char *weights_accept(const clade_query *q, const clade__tiles *t) {
  clade__weights w = clade__weights_of(q->node, false);
  clade__matmul p = weights_product(q, &w, is_last(t));
  const char *reason = is_last(t) ? last_refuses(q, w.groups, w.inner, w.rows) : NULL;
  if (!reason) reason = clade__tiles_refuse(q, t, &p, false);
  return reason ? reason : clade__cut_short(q->device, (double)parts_of(q, &w) + 1);
}

static double weights_cost(const clade_query *q, const clade__tiles *t) {
  clade__weights w = clade__weights_of(q->node, false);
  clade__matmul p = weights_product(q, &w, is_last(t));
  return clade__tiles_cost(q, t, &p, clade__node_bytes(q->node));
}

size_t clade__weights_tiles_workspace(const clade_query *q) {
  clade__weights w = clade__weights_of(q->node, false);
  return clade__weights_scratch(q, parts_of(q, &w), false);
}

static clade_status weights_emit(clade_emit *e, const clade_query *q, const clade__tiles *t) {
  clade__weights w = clade__weights_of(q->node, false);
  const bool last = is_last(t);
  clade__matmul p = weights_product(q, &w, last);
  int64_t parts = parts_of(q, &w);
  clade_kernel_step *s = clade__weights_begin(e, q, last ? "conv2d_weights_last" : "conv2d_weights_tiles", &w, parts);
  clade_emit_index(s, span_of(q, &w));
  const int64_t run = clade__tiles_run(q, t), pixels = w.result[0] * w.result[1];
  clade__tiles_launch(s, q, t, &p, (clade__lies){!last, pixels % run == 0},
                      (clade__lies){!last, clade__conv_is_point(q->node) && pixels % run == 0});
  clade__weights_join(e, q, parts, false, false);
  return CLADE_OK;
}

void clade__weights_last_layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  (void)out;
  for (int i = 0; i < 2; i++) in[i] = clade__channels_last(1, q->node->in[i].shape.dim[1]);
}

/* ---- implementations ---- */
#define WAY(OF, TO, TILES, PARAMS)                                                                         \
  static void TO##_defaults(const clade_query *q, int32_t *config) { OF##_defaults(q, &TILES, config); }   \
  static bool TO##_configs(const clade_query *q, int i, int32_t *config) {                                 \
    (void)q;                                                                                               \
    return clade__tiles_configs(&TILES, i, config);                                                        \
  }                                                                                                        \
  const char *clade__##TO##_accept(const clade_query *q) { return OF##_accept(q, &TILES); }                \
  double clade__##TO##_cost(const clade_query *q) { return OF##_cost(q, &TILES); }                         \
  clade_status clade__##TO##_emit(clade_emit *e, const clade_query *q) { return OF##_emit(e, q, &TILES); } \
  const clade_space clade__##TO##_space = {sizeof(clade_space), PARAMS, TO##_defaults, TO##_configs};
WAY(gather, gather_simt, clade__tiles_simt, clade__tile_params)
WAY(gather, gather_warp, clade__tiles_warp_gather, clade__tile_params)
WAY(gather, gather_warpgroup, clade__tiles_warpgroup_gather, clade__tile_params)
WAY(gather, gather_last_warp, clade__tiles_warp_last, clade__staged_params)
WAY(gather, gather_last_warpgroup, clade__tiles_warpgroup_last, clade__staged_params)
WAY(weights, weights_simt, clade__tiles_simt, clade__tile_params)
WAY(weights, weights_warp, clade__tiles_warp_gather, clade__tile_params)
WAY(weights, weights_warpgroup, clade__tiles_warpgroup_gather, clade__tile_params)
WAY(weights, weights_last_warp, clade__tiles_warp_last, clade__staged_params)
WAY(weights, weights_last_warpgroup, clade__tiles_warpgroup_last, clade__staged_params)
