/* Shared by convolutions on CPUs: requirements, cost, and the numbering of positions along an axis. */
#include "op/conv/conv.h"

const char *clade__conv_vec_accept(const clade_query *q) {
  return clade__is_integer(q->node->in[0].dtype) ? "made for floats" : clade__conv_few(q);
}

const char *clade__conv_few(const clade_query *q) {
  for (int i = 0; i < q->node->n_in + q->node->n_out; i++) {
    const clade_type *t = i < q->node->n_in ? &q->node->in[i] : &q->node->out[i - q->node->n_in];
    if (clade__product(&t->shape, 0, t->shape.rank) > INT32_MAX / 2) return "made for fewer than 2^30 elements";
  }
  return NULL;
}

double clade__conv_vec_cost(const clade_query *q, double cycles) {
  return clade__cost(q->device, cycles * 2 * 2 * q->device->vector_f32, clade__node_bytes(q->node), 2);
}

double clade__conv_epilogue_cycles(const clade_node *n) {
  const clade__conv_attrs *a = n->attrs;
  return a->epilogue.n_insn ? 3 * (double)clade__product(&n->out[0].shape, 0, 4) : 0;
}

static int64_t down(int64_t a, int64_t b) { return (a >= 0 ? a : a - b + 1) / b; }

clade__conv_axis clade__conv_axis_of(clade__map_1d m, int64_t result, int64_t source, int64_t kernel, int64_t first) {
  int64_t grid = (result - first + m.div - 1) / m.div, least = INT64_MAX, most = INT64_MIN;
  clade__conv_axis a = {.pitch = grid, .kinds = 1};
  for (int64_t k = 0; k < kernel; k++) {
    int64_t at = first * m.mul + m.add + k * m.delta;
    if (at % m.div) continue;
    int64_t to = down(at / m.div, m.mul);
    least = CLADE_MIN(least, to);
    most = CLADE_MAX(most, to);
    a.taps++;
  }
  if (!a.taps) return a;
  int64_t zeros = CLADE_MIN(-least, grid + most - (source - 1) / m.mul - 1);
  a.span = most - least;
  a.pitch = grid + a.span - CLADE_MAX(CLADE_MIN(zeros, a.span), 0);
  while (a.kinds < a.taps && a.kinds * m.delta % m.mul) a.kinds++;
  return a;
}

static void as_given(const clade_query *q, int32_t *config) {
  (void)q;
  (void)config;
}
static bool nth_of(int count, int i, int32_t *config) {
  config[0] = i;
  return i < count;
}
static bool each_of_two(const clade_query *q, int i, int32_t *config) { return (void)q, nth_of(2, i, config); }
static bool each_of_three(const clade_query *q, int i, int32_t *config) { return (void)q, nth_of(3, i, config); }
static const char *const params[] = {"layouts", NULL};
const clade_space clade__conv_two_layouts = {sizeof(clade_space), params, as_given, each_of_two};
const clade_space clade__conv_three_layouts = {sizeof(clade_space), params, as_given, each_of_three};
