/* Uniform or normal random numbers as a pure function of key, counter and element index (Philox4x32-10). Uniform
 * numbers have the same bits on every device; normal ones (Box-Muller) are within 2^-19 max(1, |value|) of the exact
 * values. */
#include <clade/ops.h>

#include "op/dims.h"

typedef struct attrs {
  int64_t key;
  clade_shape shape;
  bool normal;
} attrs;
static const clade_attr table[] = {{"key", CLADE_ATTR_I64, offsetof(attrs, key), 1},
                                   {"shape", CLADE_ATTR_SHAPE, offsetof(attrs, shape), 1},
                                   {"normal", CLADE_ATTR_BOOL, offsetof(attrs, normal), 1},
                                   {0}};

static clade_status infer(clade_node *n) {
  const attrs *a = n->attrs;
  const clade_type *counter = &n->in[0];
  char text[200];
  CLADE_TRY(clade__want_dense(n));
  if (counter->dtype != CLADE_I64)
    return CLADE_FAIL(DTYPE, "random: counter is %s; expected i64", clade_dtype_name(counter->dtype));
  if (counter->shape.rank != 0)
    return CLADE_FAIL(BAD_SHAPE, "random: counter is %s; expected a scalar",
                      clade_shape_text(&counter->shape, text, sizeof text));
  if (a->shape.rank < 0 || a->shape.rank > CLADE_MAX_RANK)
    return CLADE_FAIL(BAD_SHAPE, "random: the shape has more than %d dimensions", CLADE_MAX_RANK);
  for (int i = 0; i < a->shape.rank; i++)
    if (a->shape.dim[i] < 0 && !clade_dim_is_symbol(a->shape.dim[i]))
      return CLADE_FAIL(BAD_SHAPE, "random: dimension %d of the shape is negative or no size", i);
  n->out[0] = (clade_type){.dtype = CLADE_F32, .shape = a->shape};
  return CLADE_OK;
}

static double cost(const clade_query *q) {
  const clade_shape *y = &q->node->out[0].shape;
  return clade__cost(q->device, 60.0 * (double)clade__product(y, 0, y->rank), clade__node_bytes(q->node), 0.1);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const attrs *a = q->node->attrs;
  const clade_shape *y = &q->node->out[0].shape;
  int64_t n = clade__product(y, 0, y->rank), fours = (n + 3) / 4;
  int64_t piece = clade__piece(q->device, fours, 1, 1 << 12);
  clade_kernel_step *s = clade_emit_kernel(e, "random_forward_ref");
  clade_emit_define(s, "NORMAL", a->normal);
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, n);
  clade_emit_index(s, piece);
  clade_emit_u32(s, (uint32_t)((uint64_t)a->key & 0xffffffffu));
  clade_emit_u32(s, (uint32_t)((uint64_t)a->key >> 32));
  clade__emit_flat(s, q->device, clade__ceil_div(fours, piece));
  return CLADE_OK;
}

static const clade_impl *const impls[] = {
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .cost = cost, .emit = emit), NULL};

const clade_op clade__op_random = {
    .size = sizeof(clade_op),
    .name = "random",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attr_bytes = sizeof(attrs),
    .attrs = table,
    .infer = infer,
    .impls = impls,
};

static clade_val build(clade_graph *g, clade_shape shape, uint64_t key, clade_val counter, bool normal) {
  attrs a;
  memset(&a, 0, sizeof a);
  memcpy(&a.key, &key, sizeof key);
  a.normal = normal;
  a.shape.rank = shape.rank;
  for (int i = 0; i < shape.rank && i < CLADE_MAX_RANK; i++) a.shape.dim[i] = shape.dim[i];
  return clade_node_add(g, &clade__op_random, NULL, &a, 1, &counter, NULL);
}

clade_val clade_random_uniform(clade_graph *g, clade_shape shape, uint64_t key, clade_val counter) {
  return build(g, shape, key, counter, false);
}
clade_val clade_random_normal(clade_graph *g, clade_shape shape, uint64_t key, clade_val counter) {
  return build(g, shape, key, counter, true);
}
