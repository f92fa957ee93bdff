/* Convolutions as implementations see them: the problem, common requirements, cost, and the choice of a default. */
#include "op/conv/conv.h"

#include <math.h>

clade__conv clade__conv_of(const clade_node *n) {
  const clade__conv_attrs *a = n->attrs;
  const bool data = n->op == &clade__op_conv2d_data, weights = n->op == &clade__op_conv2d_weights;
  const clade_shape *from = &n->in[0].shape, *to = weights ? &n->in[1].shape : &n->out[0].shape;
  const clade_shape *w = weights ? &n->out[0].shape : &n->in[1].shape;
  const clade__window *s = &a->window;
  clade__conv c = {.n = to->dim[0],
                   .groups = a->groups,
                   .rows = to->dim[1] / a->groups,
                   .inner = from->dim[1] / a->groups,
                   .source = {from->dim[2], from->dim[3]},
                   .result = {to->dim[2], to->dim[3]},
                   .kernel = {w->dim[2], w->dim[3]},
                   .taps = w->dim[2] * w->dim[3],
                   .forward = !data};
  c.columns = c.inner * c.taps;
  c.outputs = c.groups * c.rows * c.columns;
  c.w_group = w->dim[0] / a->groups * w->dim[1] * c.taps;
  c.w_row = data ? c.taps : w->dim[1] * c.taps;
  c.w_inner = data ? w->dim[1] * c.taps : c.taps;
  c.depthwise = c.groups > 1 && c.rows == 1 && c.inner == 1;
  c.point = c.taps == 1 && s->stride[0] == 1 && s->stride[1] == 1 && !(s->pad[0] | s->pad[1] | s->pad[2] | s->pad[3]);
  c.phases = 1;
  for (int i = 0; i < 2; i++) {
    c.map[i] = data ? clade__window_covered_by(s, i) : clade__window_covers(s, i);
    c.grid[i] = clade__ceil_div(c.result[i], c.map[i].div);
    c.phases *= c.map[i].div;
  }
  return c;
}

clade__conv clade__conv_flat(const clade_node *n) {
  clade__conv c = clade__conv_of(n);
  if (!c.point) return c;
  c.source[1] = c.result[1] = c.grid[1] = c.source[0] * c.source[1];
  c.source[0] = c.result[0] = c.grid[0] = 1;
  return c;
}

/* ---- requirements ---- */
/* Whether each operand and result has fewer than 2^30 elements, with channels padded to a multiple of `padded`. */
static bool counts_fit(const clade_node *n, int64_t padded) {
  for (int i = 0; i < n->n_in + n->n_out; i++) {
    clade_shape s = i < n->n_in ? n->in[i].shape : n->out[i - n->n_in].shape;
    for (int k = 0; k < s.rank && k < 2; k++) s.dim[k] = clade__up(s.dim[k], padded);
    if (clade__product(&s, 0, s.rank) > INT32_MAX / 2) return false;
  }
  return true;
}

const char *clade__conv_refuses(const clade_query *q, unsigned needs) {
  const clade_node *n = q->node;
  const clade__conv c = clade__conv_of(n);
  const clade__window *w = clade__conv_window(n);
  const bool steps_1 = w->stride[0] == 1 && w->stride[1] == 1, near = w->dilation[0] == 1 && w->dilation[1] == 1;
  const bool floats = !clade__is_integer(n->in[0].dtype);
  const struct {
    unsigned need;
    bool met;
    const char *reason;
  } rows[] = {
      {CLADE__CONV_POINT, c.point, "requires 1 x 1 windows with stride 1 and no padding"},
      {CLADE__CONV_STEPS_1, steps_1, "requires stride 1"},
      {CLADE__CONV_3X3, c.kernel[0] == 3 && c.kernel[1] == 3 && steps_1 && near,
       "requires 3 x 3 windows with stride 1 and no dilation"},
      {CLADE__CONV_ONE_GROUP, c.groups == 1, "requires one group"},
      {CLADE__CONV_DEPTHWISE, c.depthwise, "requires groups of one channel"},
      {CLADE__CONV_JOINED, !c.depthwise, "requires groups of several channels"},
      {CLADE__CONV_BLOCKS, c.groups == 1 || (c.inner % CLADE__LANES == 0 && c.rows % CLADE__LANES == 0),
       "a group's channels are not whole blocks"},
      {CLADE__CONV_FLOATS, floats, "requires floats"},
      {CLADE__CONV_F32, n->in[0].dtype == CLADE_F32, "requires f32"},
      {CLADE__CONV_FEW, counts_fit(n, 1), "requires fewer than 2^30 elements"},
      {CLADE__CONV_SMALL, counts_fit(n, 2 * CLADE__LANES), "requires fewer than 2^30 elements, padding included"},
      {CLADE__CONV_TAPS, c.taps <= CLADE__MOST_TAPS, "requires windows of up to 128 taps"},
      {CLADE__CONV_SOME, c.outputs > 0 && c.n * c.result[0] * c.result[1] > 0, "the result or the sum is empty"},
  };
  for (size_t i = 0; i < CLADE_COUNT(rows); i++)
    if ((needs & rows[i].need) && !rows[i].met) return rows[i].reason;
  return NULL;
}

/* ---- cost ---- */
double clade__conv_cost(const clade_query *q, double cycles) {
  return clade__cost(q->device, cycles * 2 * 2 * q->device->vector_f32, clade__node_bytes(q->node), 2);
}

void clade__conv_choose(const clade__choices *c, const clade_query *q, const void *problem, int32_t *config) {
  int32_t own[CLADE_MAX_PARAMS];
  for (int shared = c->sums == 0; shared < 2; shared++) {
    double best = INFINITY;
    memcpy(own, config, (size_t)c->params * sizeof *own);
    for (int i = 0; c->nth(q, problem, i, own); i++) {
      bool kept = true;
      for (int k = 0; k < c->params; k++) kept = kept && (!shared || !(c->sums >> k & 1) || own[k] == config[k]);
      const double now = kept ? c->cycles(q, problem, own, shared ? (double)clade__conv_units(q) : 0) : INFINITY;
      if (now >= best) continue;
      best = now;
      memcpy(config, own, (size_t)c->params * sizeof *own);
    }
  }
}
