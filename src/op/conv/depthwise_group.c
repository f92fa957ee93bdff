/* Depthwise convolution and its gradients on GPUs, in strips of an image's columns: arguments of the kernels, and the
 * partition of sums over positions for the gradient of the weights. */
#include "op/conv/conv.h"
#include "op/group.h"

/* Lines of a strip, as in the kernels; teams that sum, their wanted number, and the fewest strips for each. */
enum { STRIP = 7, TEAM = 64, BESIDE = CLADE__GROUP_ITEMS / TEAM, TEAMS = 4096, LEAST = 8 * TEAM };

static int64_t strips_of(int64_t lines) { return clade__ceil_div(lines, STRIP); }

/* Size of a square window with equal strides of one or two, without phases and dilation; 0: no such window. */
static int64_t common_taps(const clade__conv *c) {
  const clade__map_1d y = c->map[0], x = c->map[1];
  const int64_t taps = c->kernel[0];
  const bool alike = c->kernel[1] == taps && y.mul == x.mul && y.delta == x.delta;
  if (!alike || (taps != 3 && taps != 5) || y.mul > 2 || y.div > 1 || x.div > 1) return 0;
  return y.delta == 1 || y.delta == -1 ? taps : 0;
}

static void define_taps(clade_kernel_step *s, const clade__conv *c) {
  const int64_t taps = common_taps(c);
  clade__emit_defines(s, CLADE__DEFINES({"TAPS", taps}, {"STEP", taps ? c->map[0].mul : 0}));
}

/* ---- conv2d and conv2d_data ---- */
static const char *accept(const clade_query *q) {
  const clade__conv g = clade__conv_of(q->node);
  const char *reason = clade__conv_refuses(q, CLADE__CONV_DEPTHWISE | CLADE__CONV_FLOATS);
  return reason ? reason : clade__group_refuses(q, STRIP * (double)g.kernel[0] * ((double)g.kernel[1] + 2));
}

static double cost(const clade_query *q) {
  const double results = (double)clade__product(&q->node->out[0].shape, 0, 4);
  return clade__cost(q->device, 2 * results * (double)clade__conv_of(q->node).taps, clade__node_bytes(q->node), 0.3);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const clade__conv g = clade__conv_of(q->node);
  const int64_t total = g.n * g.groups * strips_of(g.result[0]) * g.result[1];
  clade_kernel_step *s;
  CLADE_TRY(clade__gather_begin(e, q, "conv2d_depthwise_group", CLADE__SINGLE, NULL, &s));
  define_taps(s, &g);
  clade__conv_operands(s);
  clade__conv_sizes(s, &g);
  clade_emit_index(s, total);
  CLADE__EMIT8(s, g.kernel[0], g.kernel[1], g.w_group, clade__map_step(g.map[0]), clade__map_step(g.map[1]));
  clade__conv_maps(s, &g);
  clade__gather_epilogue(s, q->node);
  clade_emit_range(s, 1, (size_t[]){(size_t)total}, (size_t[]){CLADE__GROUP_ITEMS});
  return CLADE_OK;
}

const clade_impl clade__gather_depthwise_group =
    CLADE__CONV_IMPL(.name = "depthwise_group", CLADE__NO_TEAMS, .accept = accept, .cost = cost, .emit = emit,
                     .file = "conv2d_depthwise_group");

/* ---- conv2d_weights ---- */
static int64_t channel_strips(const clade__conv *c) { return c->n * strips_of(c->result[0]) * c->result[1]; }

/* Strips per part. Depends only on the sizes, since it determines the summation order. */
static int64_t chunk_of(const clade__conv *c) {
  const int64_t strips = channel_strips(c), parts = CLADE_MIN(TEAMS / CLADE_MAX(c->groups, 1), strips / LEAST);
  return CLADE_MAX(clade__ceil_div(strips, parts), 1);
}

static int64_t parts_of(const clade__conv *c) { return CLADE_MAX(clade__ceil_div(channel_strips(c), chunk_of(c)), 1); }

static const char *weights_accept(const clade_query *q) {
  const clade__conv c = clade__conv_of(q->node);
  const double turns = ((double)chunk_of(&c) / TEAM + 1) * STRIP;
  const char *reason = clade__conv_refuses(q, CLADE__CONV_DEPTHWISE);
  return reason ? reason : clade__group_refuses(q, CLADE_MAX(turns, (double)parts_of(&c)));
}

static double weights_cost(const clade_query *q) {
  const clade__conv c = clade__conv_of(q->node);
  return clade__cost(q->device, clade__weights_flops(&c), clade__node_bytes(q->node), 0.3);
}

static size_t weights_workspace(const clade_query *q) {
  const clade__conv c = clade__conv_of(q->node);
  return clade__weights_scratch(q, parts_of(&c), false);
}

static clade_status weights_emit(clade_emit *e, const clade_query *q) {
  const clade__conv c = clade__conv_of(q->node);
  const clade__group teams = {TEAM, BESIDE, false};
  const int64_t parts = parts_of(&c);
  clade_kernel_step *s = clade__weights_begin(e, q, "conv2d_weights_depthwise_group", &c, parts);
  define_taps(s, &c);
  clade_emit_index(s, channel_strips(&c));
  clade_emit_index(s, chunk_of(&c));
  clade__emit_groups(s, q, &teams, c.groups * parts * (common_taps(&c) ? 1 : c.columns));
  return clade__weights_join(e, q, parts, false, false);
}

const clade_impl clade__weights_depthwise_group =
    CLADE__CONV_IMPL(.name = "depthwise_group", CLADE__TEAMS, .accept = weights_accept, .cost = weights_cost,
                     .workspace = weights_workspace, .emit = weights_emit, .file = "conv2d_depthwise_group");
