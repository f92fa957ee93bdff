/* Convolutions on GPUs, tiled in local memory: matrix products in which one operand is gathered from an image while it
 * is loaded. Groups of few channels, and depthwise convolutions above all, waste most of a tile and are left to others.
 */
#include "op/conv/conv.h"
#include "op/elt/epilogue.h"
#include "op/product.h"

/* Matrix units take images with channels last, where their tiles are loaded by copies of 16 bytes: the layout's block
 * holds all channels, padded to whole copies. Then rows are positions and columns channels, else rows are channels. */
enum { COPY = CLADE__CHANNEL_COPY };
static bool is_last(const clade__tiles *t) { return t->tables && t->params == CLADE__TILE_PARAMS; }
static bool of_weights(const clade_query *q) { return q->node->op == &clade__op_conv2d_weights; }
static int64_t results_of(const clade_node *n) { return clade__product(&n->out[0].shape, 0, 4); }

/* ---- the product and the parts of its inner axis ---- */
/* conv2d and conv2d_data: one matrix per group and phase. Parts are added as they lie in the result, which thus has no
 * padding. */
static clade__parts gather_parts(const clade_node *n, const clade__conv *g, bool last) {
  clade__matmul p = {.m = g->rows, .n = g->n, .k = last ? clade__up(g->inner, COPY) : g->inner, .matrices = g->groups};
  for (int i = 0; i < 2; i++) { /* most positions: the first phase; most taps: maybe another */
    const clade__map_1d m = g->map[i];
    p.n *= clade__ceil_div(g->result[i], m.div);
    p.k *= clade__ceil_div(g->kernel[i], clade__map_step(m));
    p.matrices *= CLADE_MIN(m.div, g->result[i]);
  }
  if (last) p = (clade__matmul){p.n, p.m, p.k, p.matrices};
  return last && n->out[0].shape.dim[1] % COPY ? clade__parts_cut(&p, 1) : clade__parts_of(&p);
}

/* conv2d_weights: one matrix per group and part of the sum over positions, so that about GROUPS tiles of 64 x 64
 * result. */
static clade__parts weights_parts(const clade_query *q, const clade__conv *c, bool last) {
  enum { TILE = 64, GROUPS = 256, LEAST = 128 };
  const int64_t tiles = c->groups * clade__ceil_div(c->rows, TILE) * clade__ceil_div(c->columns, TILE);
  const int64_t places = CLADE_MAX(c->n * c->result[0] * c->result[1], 1);
  clade__parts p = {.span = clade__up(clade__ceil_div(places, GROUPS / CLADE_MAX(tiles, 1)), LEAST)};
  if (q->device->max_passes) p.span = CLADE_MIN(p.span, 1024);
  p.n = clade__ceil_div(places, p.span);
  p.each = (clade__matmul){c->rows, c->taps * (last ? clade__up(c->inner, COPY) : c->inner), p.span, c->groups * p.n};
  return p;
}

static clade__parts parts_of(const clade_query *q, bool last) {
  const clade__conv c = clade__conv_of(q->node);
  return of_weights(q) ? weights_parts(q, &c, last) : gather_parts(q->node, &c, last);
}

static void defaults(const clade_query *q, const clade__tiles *t, int32_t *config) {
  const clade__parts parts = parts_of(q, is_last(t));
  clade__tiles_defaults(q, t, &parts.each, config);
}

static const char *last_refuses(const clade_query *q) {
  const clade__conv c = clade__conv_of(q->node);
  if (clade__is_integer(q->node->in[0].dtype)) return "requires f16 and bf16";
  if (c.groups > 1 && c.inner % COPY) return "a group's channels are not aligned to 16 bytes";
  return c.groups * CLADE_MAX(c.inner, c.rows) > UINT16_MAX - COPY ? "the channels exceed one block" : NULL;
}

static const char *accept(const clade_query *q, const clade__tiles *t) {
  const clade__parts parts = parts_of(q, is_last(t));
  const char *reason = is_last(t) ? last_refuses(q) : NULL;
  if (!reason) reason = clade__tiles_refuse(q, t, &parts.each, false);
  return reason || !of_weights(q) ? reason : clade__cut_short(q->device, (double)parts.n + 1);
}

static double cost(const clade_query *q, const clade__tiles *t) {
  const clade__parts parts = parts_of(q, is_last(t));
  const size_t moved = of_weights(q) ? 0 : clade__parts_bytes(&parts, results_of(q->node)); /* written, read again */
  return clade__tiles_cost(q, t, &parts.each, clade__node_bytes(q->node) + 2 * (double)moved);
}

size_t clade__conv_tiles_workspace(const clade_query *q) {
  const clade__parts parts = parts_of(q, q->node->in[0].layout.block > 0);
  return of_weights(q) ? clade__weights_scratch(q, parts.n, false) : clade__parts_bytes(&parts, results_of(q->node));
}

void clade__conv_last_layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  const clade_node *n = q->node;
  const int inner = n->op != &clade__op_conv2d_data; /* the axis of in[1] along which products are added, or channels */
  in[0] = clade__channels_last(1, n->in[0].shape.dim[1]);
  in[1] = clade__channels_last(inner, n->in[1].shape.dim[inner]);
  if (of_weights(q)) return;
  out[0] = clade__channels_last(1, n->out[0].shape.dim[1]);
  for (int i = 2; i < n->n_in; i++)
    if (clade__gather_whole(&n->in[i].shape, &n->out[0].shape))
      in[i] = clade__channels_last(n->in[i].shape.rank - 3, n->out[0].shape.dim[1]);
}

/* ---- launches ---- */
static clade_status gather_join(clade_emit *e, const clade_query *q, const clade__conv *g, const clade__parts *p,
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
  clade__conv g = clade__conv_of(q->node);
  const bool last = is_last(t), deep = last || g.w_inner < g.w_row;
  const clade__parts parts = parts_of(q, last);
  clade_kernel_step *s;
  CLADE_TRY(clade__gather_begin(e, q, last ? "conv2d_gather_last" : "conv2d_gather_tiles", CLADE__SINGLE,
                                CLADE__DEFINES({"IN_PARTS", parts.n > 1}), &s));
  clade_emit_in(s, 0);
  clade_emit_in(s, 1);
  if (parts.n > 1)
    clade_emit_workspace(s, 0, sizeof(float));
  else
    clade_emit_out(s, 0);
  clade__conv_sizes(s, &g);
  if (last) { /* (row, tap, inner channel); the data pass has the inner channels of all groups side by side */
    g.w_inner = q->node->in[1].layout.block;
    g.w_row = g.taps * g.w_inner;
    g.w_group = g.forward ? g.rows * g.w_row : g.inner;
  }
  CLADE__EMIT8(s, g.kernel[0], g.kernel[1], g.w_group, g.w_row, g.w_inner, clade__map_step(g.map[0]),
               clade__map_step(g.map[1]));
  clade__conv_maps(s, &g);
  if (parts.n > 1) {
    clade_emit_index(s, parts.span);
    clade_emit_index(s, parts.n);
  } else {
    clade__gather_epilogue(s, q->node);
  }
  const int64_t run = clade__tiles_run(q, t);
  const bool runs = !clade__is_integer(q->node->in[0].dtype) || t->unit != CLADE_UNITS;
  clade__tiles_launch(s, q, t, &parts.each, (clade__lies){deep, runs && deep && g.w_row % run == 0},
                      (clade__lies){last, runs && g.point && g.source[0] * g.source[1] % run == 0});
  return parts.n > 1 ? gather_join(e, q, &g, &parts, last) : CLADE_OK;
}

static clade_status weights_emit(clade_emit *e, const clade_query *q, const clade__tiles *t) {
  const clade__conv c = clade__conv_of(q->node);
  const bool last = is_last(t);
  const clade__parts parts = parts_of(q, last);
  const char *kernel = last ? "conv2d_weights_last" : "conv2d_weights_tiles";
  const bool runs = c.result[0] * c.result[1] % clade__tiles_run(q, t) == 0;
  clade_kernel_step *s = clade__weights_begin(e, q, kernel, &c, parts.n);
  clade_emit_index(s, parts.span);
  clade__tiles_launch(s, q, t, &parts.each, (clade__lies){!last, runs}, (clade__lies){!last, c.point && runs});
  return clade__weights_join(e, q, parts.n, false, false);
}

static clade_status emit(clade_emit *e, const clade_query *q, const clade__tiles *t) {
  return of_weights(q) ? weights_emit(e, q, t) : gather_emit(e, q, t);
}

/* ---- implementations ---- */
#define WAY(TO, TILES, PARAMS)                                                                        \
  static void TO##_defaults(const clade_query *q, int32_t *config) { defaults(q, &TILES, config); }   \
  static bool TO##_configs(const clade_query *q, int i, int32_t *config) {                            \
    (void)q;                                                                                          \
    return clade__tiles_configs(&TILES, i, config);                                                   \
  }                                                                                                   \
  const char *clade__##TO##_accept(const clade_query *q) { return accept(q, &TILES); }                \
  double clade__##TO##_cost(const clade_query *q) { return cost(q, &TILES); }                         \
  clade_status clade__##TO##_emit(clade_emit *e, const clade_query *q) { return emit(e, q, &TILES); } \
  const clade_space clade__##TO##_space = {sizeof(clade_space), PARAMS, TO##_defaults, TO##_configs};
WAY(conv_simt, clade__tiles_simt, clade__tile_params)
WAY(conv_warp, clade__tiles_warp_gather, clade__tile_params)
WAY(conv_warpgroup, clade__tiles_warpgroup_gather, clade__tile_params)
WAY(conv_last_warp, clade__tiles_warp_last, clade__staged_params)
WAY(conv_last_warpgroup, clade__tiles_warpgroup_last, clade__staged_params)
