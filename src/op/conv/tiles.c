/* Convolutions on GPUs, tiled in local memory: matrix products in which one operand is gathered from an image while it
 * is loaded. Groups of few channels, and depthwise convolutions above all, waste most of a tile and are left to others.
 */
#include "op/conv/weights.h"
#include "op/epilogue.h"
#include "op/product.h"

/* ---- conv2d and conv2d_data: one matrix per group and phase ---- */
static int64_t common(int64_t a, int64_t b) { return b ? common(b, a % b) : a; }

/* Distance between taps that reach whole positions. */
static int64_t step_of(clade__map_1d m) { return m.div / common(m.div, m.delta < 0 ? -m.delta : m.delta); }

static clade__matmul gather_product(const clade_node *n) {
  const clade__conv_attrs *a = n->attrs;
  clade__gather g = clade__gather_of(n);
  clade__matmul p = {.m = g.rows, .n = g.n, .k = g.inner, .matrices = g.groups};
  for (int i = 0; i < 2; i++) { /* most positions: the first phase; most taps: maybe another */
    clade__map_1d m = g.map(&a->window, i);
    int64_t step = step_of(m);
    p.n *= (g.result[i] + m.div - 1) / m.div;
    p.k *= (g.kernel[i] + step - 1) / step;
    p.matrices *= CLADE_MIN(m.div, g.result[i]);
  }
  return p;
}

static clade__parts gather_parts(const clade_node *n) {
  const clade__matmul p = gather_product(n);
  return clade__parts_of(&p);
}

static int64_t results_of(const clade_node *n) { return clade__product(&n->out[0].shape, 0, 4); }

static void gather_defaults(const clade_query *q, const clade__tiles *t, int32_t *config) {
  const clade__parts parts = gather_parts(q->node);
  clade__tiles_defaults(q, t, &parts.each, config);
}

static const char *gather_accept(const clade_query *q, const clade__tiles *t) {
  const clade__parts parts = gather_parts(q->node);
  return clade__tiles_refuse(q, t, &parts.each, false);
}

static double gather_cost(const clade_query *q, const clade__tiles *t) {
  const clade__parts parts = gather_parts(q->node);
  const double moved = 2 * (double)clade__parts_bytes(&parts, results_of(q->node)); /* written and read again */
  return clade__tiles_cost(q, t, &parts.each, clade__node_bytes(q->node) + moved);
}

size_t clade__gather_tiles_workspace(const clade_query *q) {
  const clade__parts parts = gather_parts(q->node);
  return clade__parts_bytes(&parts, results_of(q->node));
}

static clade_status gather_join(clade_emit *e, const clade_query *q, const clade__gather *g, const clade__parts *p) {
  const int64_t dim[] = {1, 1, 1, 1, 1, g->n, g->groups * g->rows, g->result[0] * g->result[1]};
  clade_kernel_step *s;
  CLADE_TRY(clade__parts_join(e, q, p, dim, 1, &s));
  clade__gather_epilogue(s, q->node);
  return CLADE_OK;
}

static clade_status gather_emit(clade_emit *e, const clade_query *q, const clade__tiles *t) {
  clade__gather g = clade__gather_of(q->node);
  const clade__parts parts = gather_parts(q->node);
  const clade__window *w = clade__conv_window(q->node);
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_gather_tiles");
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
  const bool deep = g.w_inner < g.w_row, runs = !clade__is_integer(q->node->in[0].dtype) || t->unit != CLADE_UNITS;
  clade__tiles_launch(
      s, q, t, &parts.each, (clade__lies){deep, runs && deep && g.w_row % run == 0},
      (clade__lies){false, runs && clade__conv_is_point(q->node) && g.source[0] * g.source[1] % run == 0});
  return parts.n > 1 ? gather_join(e, q, &g, &parts) : CLADE_OK;
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

static clade__matmul weights_product(const clade_query *q, const clade__weights *p) {
  return (clade__matmul){p->rows, p->columns, span_of(q, p), p->groups * parts_of(q, p)};
}

static void weights_defaults(const clade_query *q, const clade__tiles *t, int32_t *config) {
  clade__weights w = clade__weights_of(q->node, false);
  clade__matmul p = weights_product(q, &w);
  clade__tiles_defaults(q, t, &p, config);
}

static const char *weights_accept(const clade_query *q, const clade__tiles *t) {
  clade__weights w = clade__weights_of(q->node, false);
  clade__matmul p = weights_product(q, &w);
  const char *reason = clade__tiles_refuse(q, t, &p, false);
  return reason ? reason : clade__cut_short(q->device, (double)parts_of(q, &w) + 1);
}

static double weights_cost(const clade_query *q, const clade__tiles *t) {
  clade__weights w = clade__weights_of(q->node, false);
  clade__matmul p = weights_product(q, &w);
  return clade__tiles_cost(q, t, &p, clade__node_bytes(q->node));
}

size_t clade__weights_tiles_workspace(const clade_query *q) {
  clade__weights w = clade__weights_of(q->node, false);
  return clade__weights_scratch(q, parts_of(q, &w), false);
}

static clade_status weights_emit(clade_emit *e, const clade_query *q, const clade__tiles *t) {
  clade__weights w = clade__weights_of(q->node, false);
  clade__matmul p = weights_product(q, &w);
  int64_t parts = parts_of(q, &w);
  clade_kernel_step *s = clade__weights_begin(e, q, "conv2d_weights_tiles", &w, parts);
  clade_emit_index(s, span_of(q, &w));
  const int64_t run = clade__tiles_run(q, t), pixels = w.result[0] * w.result[1];
  clade__tiles_launch(s, q, t, &p, (clade__lies){true, pixels % run == 0},
                      (clade__lies){true, clade__conv_is_point(q->node) && pixels % run == 0});
  clade__weights_join(e, q, parts, false, false);
  return CLADE_OK;
}

/* ---- implementations ---- */
#define WAY(OF, NAME, TILES)                                                                                         \
  static void OF##_##NAME##_defaults(const clade_query *q, int32_t *config) { OF##_defaults(q, &TILES, config); }    \
  static bool OF##_##NAME##_configs(const clade_query *q, int i, int32_t *config) {                                  \
    (void)q;                                                                                                         \
    return clade__tiles_configs(&TILES, i, config);                                                                  \
  }                                                                                                                  \
  const char *clade__##OF##_##NAME##_accept(const clade_query *q) { return OF##_accept(q, &TILES); }                 \
  double clade__##OF##_##NAME##_cost(const clade_query *q) { return OF##_cost(q, &TILES); }                          \
  clade_status clade__##OF##_##NAME##_emit(clade_emit *e, const clade_query *q) { return OF##_emit(e, q, &TILES); }  \
  const clade_space clade__##OF##_##NAME##_space = {sizeof(clade_space), clade__tile_params, OF##_##NAME##_defaults, \
                                                    OF##_##NAME##_configs};
WAY(gather, simt, clade__tiles_simt)
WAY(gather, warp, clade__tiles_warp_gather)
WAY(gather, warpgroup, clade__tiles_warpgroup_gather)
WAY(weights, simt, clade__tiles_simt)
WAY(weights, warp, clade__tiles_warp_gather)
WAY(weights, warpgroup, clade__tiles_warpgroup_gather)
