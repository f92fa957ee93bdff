/* Depthwise convolution and its gradients on GPUs, in strips of an image's columns: arguments of the kernels, and the
 * partition of sums over positions for the gradient of the weights. */
#include "op/conv/weights.h"
#include "op/group.h"

/* Lines of a strip, as in the kernels; teams that sum, their wanted number, and the fewest strips for each. */
enum { STRIP = 7, TEAM = 64, BESIDE = CLADE__GROUP_ITEMS / TEAM, TEAMS = 4096, LEAST = 8 * TEAM };

static int64_t strips_of(int64_t lines) { return (lines + STRIP - 1) / STRIP; }

/* Size of a square window with equal strides, which are returned in *step; 0: no such window. */
static int64_t common_taps(const clade__window *w, clade__map_1d (*map)(const clade__window *, int), int64_t *step) {
  const clade__map_1d y = map(w, 0), x = map(w, 1);
  const int64_t taps = w->kernel[0];
  const bool alike = w->kernel[1] == taps && y.mul == x.mul && y.delta == x.delta;
  *step = 0;
  if (!alike || (taps != 3 && taps != 5) || y.mul > 2 || y.div > 1 || x.div > 1) return 0;
  if (y.delta != 1 && y.delta != -1) return 0;
  *step = y.mul;
  return taps;
}

static void define_taps(clade_kernel_step *s, const clade_node *n, clade__map_1d (*map)(const clade__window *, int)) {
  int64_t step;
  clade_emit_define(s, "TAPS", common_taps(clade__conv_window(n), map, &step));
  clade_emit_define(s, "STEP", step);
}

/* ---- conv2d and conv2d_data ---- */
static int64_t common(int64_t a, int64_t b) { return b ? common(b, a % b) : a; }

/* Distance between taps that reach whole positions. */
static int64_t step_of(clade__map_1d m) { return m.div / common(m.div, m.delta < 0 ? -m.delta : m.delta); }

const char *clade__depthwise_group_accept(const clade_query *q) {
  const clade__gather g = clade__gather_of(q->node);
  if (clade__is_integer(q->node->in[0].dtype)) return "made for floats";
  if (!clade__depthwise(&g)) return "made for groups of one channel";
  return clade__group_refuses(q, STRIP * (double)g.kernel[0] * ((double)g.kernel[1] + 2));
}

double clade__depthwise_group_cost(const clade_query *q) {
  const clade__gather g = clade__gather_of(q->node);
  const double results = (double)clade__product(&q->node->out[0].shape, 0, 4);
  return clade__cost(q->device, 2 * results * (double)(g.kernel[0] * g.kernel[1]), clade__node_bytes(q->node), 0.3);
}

clade_status clade__depthwise_group_emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  const clade__gather g = clade__gather_of(n);
  const clade__window *w = clade__conv_window(n);
  const int64_t total = g.n * g.groups * strips_of(g.result[0]) * g.result[1];
  const size_t items = (size_t)total, group = CLADE__GROUP_ITEMS;
  clade_kernel_step *s;
  CLADE_TRY(clade__gather_begin(e, n, &g, "conv2d_depthwise_group", &s));
  define_taps(s, n, g.map);
  clade_emit_index(s, total);
  clade_emit_index8(s, 5, (int64_t[]){g.kernel[0], g.kernel[1], g.w_group, step_of(g.map(w, 0)), step_of(g.map(w, 1))});
  clade__emit_maps(s, w, g.map);
  clade__gather_epilogue(s, n);
  clade_emit_range(s, 1, &items, &group);
  return CLADE_OK;
}

/* ---- conv2d_weights ---- */
static int64_t channel_strips(const clade__weights *p) { return p->n * strips_of(p->result[0]) * p->result[1]; }

/* Strips per part. Depends only on the sizes, since it determines the summation order. */
static int64_t chunk_of(const clade__weights *p) {
  const int64_t strips = channel_strips(p);
  const int64_t parts = CLADE_MIN(TEAMS / CLADE_MAX(p->groups, 1), strips / LEAST);
  return CLADE_MAX((strips + CLADE_MAX(parts, 1) - 1) / CLADE_MAX(parts, 1), 1);
}

static int64_t parts_of(const clade__weights *p) {
  const int64_t chunk = chunk_of(p);
  return CLADE_MAX((channel_strips(p) + chunk - 1) / chunk, 1);
}

const char *clade__weights_depthwise_group_accept(const clade_query *q) {
  const clade__weights p = clade__weights_of(q->node, false);
  const double turns = ((double)chunk_of(&p) / TEAM + 1) * STRIP;
  if (p.groups < 2 || p.rows != 1 || p.inner != 1) return "made for groups of one channel";
  return clade__group_refuses(q, CLADE_MAX(turns, (double)parts_of(&p)));
}

double clade__weights_depthwise_group_cost(const clade_query *q) {
  const clade__weights p = clade__weights_of(q->node, false);
  return clade__cost(q->device, clade__weights_flops(&p), clade__node_bytes(q->node), 0.3);
}

size_t clade__weights_depthwise_group_workspace(const clade_query *q) {
  const clade__weights p = clade__weights_of(q->node, false);
  return clade__weights_scratch(q, parts_of(&p), false);
}

clade_status clade__weights_depthwise_group_emit(clade_emit *e, const clade_query *q) {
  const clade__weights p = clade__weights_of(q->node, false);
  const clade__group teams = {TEAM, BESIDE, false};
  const int64_t parts = parts_of(&p);
  int64_t step;
  clade_kernel_step *s = clade__weights_begin(e, q, "conv2d_weights_depthwise_group", &p, parts);
  const bool whole = common_taps(clade__conv_window(q->node), clade__window_covers, &step) > 0;
  define_taps(s, q->node, clade__window_covers);
  clade_emit_index(s, channel_strips(&p));
  clade_emit_index(s, chunk_of(&p));
  clade__emit_groups(s, q, &teams, p.groups * parts * (whole ? 1 : p.columns));
  clade__weights_join(e, q, parts, false, false);
  return CLADE_OK;
}
