/* Convolutions by tiles in local memory, on GPUs: products of matrices, one of which is made of an image's pixels on
 * their way there. What such a tile wastes where groups have few channels, depthwise above all, is `ref`'s. */
#include "op/conv/weights.h"
#include "op/epilogue.h"
#include "op/simt.h"

/* ---- to results, and to the data: a matrix for each group and phase ---- */
static int64_t common(int64_t a, int64_t b) { return b ? common(b, a % b) : a; }

/* From one tap to the next that reaches a whole place. */
static int64_t step_of(clade__map_1d m) { return m.div / common(m.div, m.delta < 0 ? -m.delta : m.delta); }

static clade__simt gather_product(const clade_node *n) {
  const clade__conv_attrs *a = n->attrs;
  clade__gather g = clade__gather_of(n);
  clade__simt p = {.m = g.rows, .n = g.n, .k = g.inner, .matrices = g.groups};
  for (int i = 0; i < 2; i++) { /* of the first phase, which has the most places, and of that with the most taps */
    clade__map_1d m = g.map(&a->window, i);
    int64_t step = step_of(m);
    p.n *= (g.result[i] + m.div - 1) / m.div;
    p.k *= (g.kernel[i] + step - 1) / step;
    p.matrices *= CLADE_MIN(m.div, g.result[i]);
  }
  return p;
}

static void gather_defaults(const clade_query *q, int32_t *config) {
  clade__simt p = gather_product(q->node);
  clade__simt_defaults(q, &p, config);
}
const clade_space clade__gather_simt_space = {sizeof clade__gather_simt_space, clade__simt_params, gather_defaults,
                                              clade__simt_configs};

const char *clade__gather_simt_accept(const clade_query *q) {
  clade__simt p = gather_product(q->node);
  return clade__simt_refuses(q, &p);
}

double clade__gather_simt_cost(const clade_query *q) {
  clade__simt p = gather_product(q->node);
  return clade__simt_cost(q, &p);
}

clade_status clade__gather_simt_emit(clade_emit *e, const clade_query *q) {
  clade__gather g = clade__gather_of(q->node);
  clade__simt p = gather_product(q->node);
  const clade__window *w = clade__conv_window(q->node);
  clade_kernel_step *s;
  CLADE_TRY(clade__gather_begin(e, q->node, &g, "conv2d_gather_simt", &s));
  clade_emit_index8(
      s, 7,
      (int64_t[]){g.kernel[0], g.kernel[1], g.w_group, g.w_row, g.w_inner, step_of(g.map(w, 0)), step_of(g.map(w, 1))});
  clade__emit_maps(s, w, g.map);
  clade__gather_epilogue(s, q->node);
  clade__simt_launch(s, q, &p);
  return CLADE_OK;
}

/* ---- by the weights: a matrix for each group and part of the sum ---- */
/* Places of a part, so that about this many groups have a tile of 64 x 64 to do. */
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

static clade__simt weights_product(const clade_query *q, const clade__weights *p) {
  return (clade__simt){p->rows, p->columns, span_of(q, p), p->groups * parts_of(q, p)};
}

static void weights_defaults(const clade_query *q, int32_t *config) {
  clade__weights w = clade__weights_of(q->node, false);
  clade__simt p = weights_product(q, &w);
  clade__simt_defaults(q, &p, config);
}
const clade_space clade__weights_simt_space = {sizeof clade__weights_simt_space, clade__simt_params, weights_defaults,
                                               clade__simt_configs};

const char *clade__weights_simt_accept(const clade_query *q) {
  clade__weights w = clade__weights_of(q->node, false);
  clade__simt p = weights_product(q, &w);
  const char *reason = clade__simt_refuses(q, &p);
  return reason ? reason : clade__cut_short(q->device, (double)parts_of(q, &w) + 1);
}

double clade__weights_simt_cost(const clade_query *q) {
  clade__weights w = clade__weights_of(q->node, false);
  clade__simt p = weights_product(q, &w);
  return clade__simt_cost(q, &p);
}

size_t clade__weights_simt_workspace(const clade_query *q) {
  clade__weights w = clade__weights_of(q->node, false);
  return clade__weights_scratch(q, parts_of(q, &w), false);
}

clade_status clade__weights_simt_emit(clade_emit *e, const clade_query *q) {
  clade__weights w = clade__weights_of(q->node, false);
  clade__simt p = weights_product(q, &w);
  int64_t parts = parts_of(q, &w);
  clade_kernel_step *s = clade__weights_begin(e, q, "conv2d_weights_simt", &w, parts);
  clade_emit_index(s, span_of(q, &w));
  clade__simt_launch(s, q, &p);
  clade__weights_join(e, q, parts, false, false);
  return CLADE_OK;
}
