/* One optimizer step on several tensors at once, in place: SGD, momentum, Adam and RMSProp with gradient scaling,
 * clipping and weight decay; also moving averages and accumulation. The error of each result is a few units in the last
 * place of its terms. */
#include "op/update/update.h"

#include <math.h>

#include "op/group.h"
#include "op/systolic.h"

enum { SCALARS = CLADE__UPDATE_SCALARS, TENSORS = CLADE__UPDATE_TENSORS };

typedef clade__update_attrs attrs;
#define AT(name, kind) #name, kind, offsetof(attrs, name), 1
static const clade_attr table[] = {{AT(rule, CLADE_ATTR_I32)},
                                   {AT(decays, CLADE_ATTR_I32)},
                                   {AT(clip, CLADE_ATTR_F32)},
                                   {AT(l2, CLADE_ATTR_F32)},
                                   {AT(decay, CLADE_ATTR_F32)},
                                   {AT(p, CLADE_ATTR_F32)},
                                   {AT(q, CLADE_ATTR_F32)},
                                   {AT(r, CLADE_ATTR_F32)},
                                   {AT(log1, CLADE_ATTR_F32)},
                                   {AT(log2, CLADE_ATTR_F32)},
                                   {0}};
#undef AT

int clade__update_states(int rule) {
  static const int states[] = {1, 2, 3, 2, 3, 1, 1};
  if (rule >= 0) rule &= ~CLADE__UPDATE_SKIPS;
  return rule >= 0 && (size_t)rule < CLADE_COUNT(states) ? states[rule] : 0;
}

static int states_of(const clade_node *n) { return clade__update_states(((const attrs *)n->attrs)->rule); }
static int tensors_of(const clade_node *n) { return (n->n_in - SCALARS) / (1 + states_of(n)); }
static int gradient_at(const clade_node *n, int tensor) { return SCALARS + tensor * (1 + states_of(n)); }

static int outputs(const void *given, int n_in) {
  const attrs *a = given;
  int states = a ? clade__update_states(a->rule) : 0;
  return n_in < SCALARS ? 0 : states * ((n_in - SCALARS) / (1 + states));
}

/* ---- types ---- */
static clade_status check_scalars(const clade_node *n) {
  static const char *const names[SCALARS] = {"lr", "step", "before", "after"};
  for (int i = 0; i < SCALARS; i++) {
    clade_dtype want = i == 1 ? CLADE_I64 : CLADE_F32;
    char text[640];
    if (n->in[i].dtype != want || n->in[i].shape.rank != 0)
      return CLADE_FAIL(BAD_SHAPE, "update: %s is %s; expected a scalar of %s", names[i],
                        clade__type_text(&n->in[i], text, sizeof text), clade_dtype_name(want));
  }
  return CLADE_OK;
}

static clade_status check_tensor(const clade_node *n, int tensor) {
  int at = gradient_at(n, tensor);
  char have[640], want[640];
  CLADE_TRY(clade__want_float(n, at, "a gradient"));
  CLADE_TRY(clade__want_float(n, at + 1, "what is updated"));
  for (int i = 0; i <= states_of(n); i++) {
    const clade_type *type = &n->in[at + i];
    if (!clade_shape_equal(&type->shape, &n->in[at + 1].shape))
      return CLADE_FAIL(BAD_SHAPE, "update: operand %d is %s, what is updated %s", at + i,
                        clade__type_text(type, have, sizeof have), clade__type_text(&n->in[at + 1], want, sizeof want));
    if (i >= 2 && type->dtype != CLADE_F32)
      return CLADE_FAIL(DTYPE, "update: operand %d, a moment, is %s; expected f32", at + i,
                        clade_dtype_name(type->dtype));
    if (i < 2 && type->dtype != n->in[SCALARS + i].dtype)
      return CLADE_FAIL(DTYPE, "update: operand %d is %s, operand %d %s: those of a node are of one type", at + i,
                        clade_dtype_name(type->dtype), SCALARS + i, clade_dtype_name(n->in[SCALARS + i].dtype));
  }
  return CLADE_OK;
}

static clade_status infer(clade_node *n) {
  int states = states_of(n), tensors = states ? tensors_of(n) : 0;
  if (!states) return CLADE_FAIL(INVALID, "update: rule is %d; expected 0 to 6", (int)((const attrs *)n->attrs)->rule);
  if (tensors < 1 || tensors > TENSORS || SCALARS + tensors * (1 + states) != n->n_in)
    return CLADE_FAIL(INVALID, "update: %d operands; expected %d scalars and %d for each of 1 to %d tensors", n->n_in,
                      SCALARS, 1 + states, TENSORS);
  CLADE_TRY(clade__want_dense(n));
  CLADE_TRY(check_scalars(n));
  for (int k = 0; k < tensors; k++) {
    CLADE_TRY(check_tensor(n, k));
    for (int i = 0; i < states; i++) n->out[k * states + i] = n->in[gradient_at(n, k) + 1 + i];
  }
  return CLADE_OK;
}

static uint64_t in_place(const clade_node *n, int out) {
  int states = states_of(n);
  return (uint64_t)1 << (gradient_at(n, out / states) + 1 + out % states);
}

/* ---- implementations ---- */
static clade_kernel_step *kernel(clade_emit *e, const clade_query *q, const char *name) {
  const clade_node *n = q->node;
  const int rule = ((const attrs *)n->attrs)->rule;
  clade_kernel_step *s = clade_emit_kernel(e, name);
  clade_emit_define(s, "RULE", rule & ~CLADE__UPDATE_SKIPS);
  if (rule & CLADE__UPDATE_SKIPS) clade_emit_define(s, "SKIPS", 1);
  clade_emit_define_text(s, "T", clade_dtype_name(n->in[SCALARS + 1].dtype));
  clade_emit_define_text(s, "G", clade_dtype_name(n->in[SCALARS].dtype));
  for (int i = 0; i < SCALARS; i++) clade_emit_in(s, i);
  return s;
}

static void emit_tensor(clade_kernel_step *s, const clade_node *n, int k) {
  const int states = states_of(n);
  clade_emit_in(s, gradient_at(n, k));
  for (int i = 0; i < states; i++) {
    clade_emit_in(s, gradient_at(n, k) + 1 + i);
    clade_emit_out(s, k * states + i);
  }
}

static void emit_numbers(clade_kernel_step *s, const attrs *a) {
  const float numbers[] = {a->clip, a->l2, a->decay, a->p, a->q, a->r, a->log1, a->log2};
  for (size_t i = 0; i < CLADE_COUNT(numbers); i++) clade_emit_f32(s, numbers[i]);
}

static int64_t length_of(const clade_node *n, int k) {
  const clade_shape *shape = &n->in[gradient_at(n, k)].shape;
  return clade__product(shape, 0, shape->rank);
}

static double cost(const clade_query *q) {
  double bytes = clade__node_bytes(q->node);
  return clade__cost(q->device, bytes, bytes, 0.2);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  const attrs *a = n->attrs;
  const int tensors = tensors_of(n);
  int64_t length[8] = {0}, begin[8] = {0}, blocks = 0;
  for (int k = 0; k < tensors; k++) {
    length[k] = length_of(n, k);
    blocks += (length[k] + 15) / 16;
  }
  int64_t piece = 16 * clade__piece(q->device, blocks, 1, 1 << 12);
  for (int k = 0; k < TENSORS; k++) begin[k + 1] = begin[k] + clade__ceil_div(length[k], piece);
  clade_kernel_step *s = kernel(e, q, "update_forward_ref");
  for (int k = 0; k < TENSORS; k++) emit_tensor(s, n, k < tensors ? k : 0); /* unused tensors have no elements */
  clade_emit_index8(s, 8, begin);
  clade_emit_index8(s, 8, length);
  clade_emit_index(s, piece);
  clade_emit_i32(s, a->decays);
  emit_numbers(s, a);
  clade__emit_flat(s, q->device, begin[7]);
  return CLADE_OK;
}

/* ---- group: a step per tensor, with four elements per work-item; the plan joins the steps of all nodes ---- */
static const char *group_accept(const clade_query *q) { return clade__group_refuses(q, 1); }

static double group_cost(const clade_query *q) { return clade__group_cost(q, clade__node_bytes(q->node)); }

static clade_status group_emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  const attrs *a = n->attrs;
  for (int k = 0; k < tensors_of(n); k++) {
    clade_kernel_step *s = kernel(e, q, "update_forward_group");
    emit_tensor(s, n, k);
    clade_emit_index(s, length_of(n, k));
    clade_emit_i32(s, a->decays >> k & 1);
    emit_numbers(s, a);
    clade__emit_fours(s, length_of(n, k));
  }
  return CLADE_OK;
}

static const clade_impl *const impls[] = {
    CLADE__SYSTOLIC(update) /* with its comma */
    CLADE_IMPL(CLADE__GROUP_PLAIN, .accept = group_accept, .cost = group_cost, .emit = group_emit),
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .cost = cost, .emit = emit),
    NULL,
};

const clade_op clade__op_update = {
    .size = sizeof(clade_op),
    .name = "update",
    .min_in = SCALARS + 2,
    .max_in = SCALARS + TENSORS * 4,
    .outputs = outputs,
    .attr_bytes = sizeof(attrs),
    .attrs = table,
    .infer = infer,
    .in_place = in_place,
    .impls = impls,
};

/* ---- builder ---- */
static clade_status add_node(clade_graph *g, const clade__update_call *call, const clade_val *scalars, int first,
                             int count) {
  attrs a = call->attrs;
  int states = clade__update_states(a.rule), n = SCALARS;
  clade_val in[SCALARS + TENSORS * 4];
  memcpy(in, scalars, SCALARS * sizeof *in);
  a.decays = 0;
  for (int k = first; k < first + count; k++) {
    if (!call->decays || call->decays[k]) a.decays |= 1 << (k - first);
    in[n++] = call->gradients[k];
    for (int i = 0; i < states; i++) in[n++] = call->states[k * states + i];
  }
  clade_node_add(g, &clade__op_update, NULL, &a, n, in, &call->out[first * states]);
  return clade_graph_status(g);
}

clade_status clade__update_add(clade_graph *g, const clade__update_call *call) {
  clade_val scalar[SCALARS];
  for (int i = 0; i < SCALARS; i++)
    scalar[i] = clade_val_ok(call->scalar[i]) ? call->scalar[i]
                                              : clade_fill(g, i == 1 ? CLADE_I64 : CLADE_F32, CLADE_SCALAR, 1);
  CLADE_TRY(clade_graph_status(g));
  /* last tensors first: with several ranks, their gradients are summed first */
  for (int end = call->n, n; end > 0; end -= n) {
    n = end % TENSORS ? end % TENSORS : TENSORS;
    CLADE_TRY(add_node(g, call, scalar, end - n, n));
  }
  return CLADE_OK;
}
