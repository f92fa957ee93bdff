/* Two-dimensional convolution (cross-correlation, as `torch.nn.Conv2d`) in NCHW, with stride, padding, dilation and
 * groups, and with an elementwise epilogue. With x in i8 or u8 and w in i8, the result is exact in i32. For floats, the
 * error before the epilogue is at most (K + 4) 2^-24 times sum |x w| over the K products of a result, plus the rounding
 * to the stored type. The implementations `winograd` and `fft` have larger bounds (docs/layouts.md); .strict excludes
 * them. */
#include "ir/dimensions.h"
#include "ir/ties.h"
#include "op/conv/conv.h"
#include "op/elt/epilogue.h"

#include <inttypes.h>

const clade_attr clade__conv_table[] = {
    CLADE__WINDOW_ROWS(clade__conv_attrs),
    {"groups", CLADE_ATTR_I32, offsetof(clade__conv_attrs, groups), 1},
    {"shape", CLADE_ATTR_SHAPE, offsetof(clade__conv_attrs, shape), 1},
    {"epilogue", CLADE_ATTR_BYTES, offsetof(clade__conv_attrs, epilogue), sizeof(clade__elt)},
    {0}};

/* Each pass computes one of x, w and y from the other two. */
enum { X, W, Y, ROLES };
static const struct pass {
  const clade_op *op;
  int in[2];
} passes[ROLES] = {[X] = {&clade__op_conv2d_data, {Y, W}},
                   [W] = {&clade__op_conv2d_weights, {X, Y}},
                   [Y] = {&clade__op_conv2d, {X, W}}};

static int result_of(const clade_op *op) {
  int role = X;
  while (passes[role].op != op) role++;
  return role;
}

/* Checks the shapes of y = conv2d(x, w). If `y` is NULL, its shape is only written to *out. */
static clade_status check(const clade_node *n, const clade_shape *x, const clade_shape *w, const clade_shape *y,
                          clade_shape *out) {
  const clade__conv_attrs *a = n->attrs;
  const char *op = n->op->name;
  char s[200], t[200];
  const int32_t *kernel = a->window.kernel;
  if (w->rank != 4 || w->dim[2] != kernel[0] || w->dim[3] != kernel[1])
    return CLADE_FAIL(BAD_SHAPE, "%s: w is %s; expected a kernel of %d x %d in [out, in / groups, height, width]", op,
                      clade_shape_text(w, s, sizeof s), kernel[0], kernel[1]);
  if (a->groups < 1) return CLADE_FAIL(INVALID, "%s: .groups is %d; expected at least 1", op, a->groups);
  if (!clade_dim_is_symbol(w->dim[0]) && w->dim[0] % a->groups)
    return CLADE_FAIL(BAD_SHAPE,
                      "%s: w is %s: its %" PRId64 " output channels are not divisible by .groups, which is %d", op,
                      clade_shape_text(w, s, sizeof s), w->dim[0], a->groups);
  CLADE_TRY(clade__window_slide(op, &a->window, x, w->dim[0], out));
  if (x->dim[1] != clade_dim_mul(w->dim[1], a->groups))
    return CLADE_FAIL(BAD_SHAPE, "%s: x is %s and w %s: with .groups %d, x has %d times the channels of w", op,
                      clade_shape_text(x, s, sizeof s), clade_shape_text(w, t, sizeof t), a->groups, a->groups);
  if (y && !clade_shape_equal(y, out))
    return CLADE_FAIL(BAD_SHAPE, "%s: y is %s; expected %s", op, clade_shape_text(y, s, sizeof s),
                      clade_shape_text(out, t, sizeof t));
  return CLADE_OK;
}

/* Depthwise: a channel is pruned together with the results computed from it. Larger groups all lose the same channels.
 */
static void tie_groups(clade_ties *t, const clade__conv_attrs *a, const clade_shape *w, int x, int y) {
  const int64_t in = w->dim[1], out = w->dim[0] / a->groups;
  for (int64_t group = 0; group < a->groups; group++) {
    for (int64_t i = 0; i < out; i++) {
      clade_tie(t, 1, 0, group * out + i, y, 1, group * out + i, 1);
      if (in == 1 && a->groups > 1) clade_tie(t, x, 1, group, y, 1, group * out + i, 1);
    }
    if (in == 1 && a->groups > 1) continue;
    clade_tie(t, x, 1, group * in, 1, 1, 0, in);
    clade_tie(t, y, 1, group * out, y, 1, 0, out);
  }
}

/* In conv2d_data with groups, channels of x cannot be pruned: the number of groups is an attribute, and no weight's
 * shape implies it. */
void clade__conv_ties(clade_ties *t, const clade_node *n) {
  const clade__conv_attrs *a = n->attrs;
  const bool forward = n->op == &clade__op_conv2d;
  const int x = forward ? 0 : n->n_in, y = forward ? n->n_in : 0;
  clade_tie_axes(t, x, 0, y, 0);
  for (int i = 2; i < 4; i++) {
    clade_keep_axis(t, x, i);
    clade_keep_axis(t, y, i);
    clade_keep_axis(t, 1, i);
  }
  if (a->groups > 1 && n->in[1].shape.dim[1] == 1) clade_keep_axis(t, 1, 1);
  tie_groups(t, a, &n->in[1].shape, x, y);
  clade__tie_broadcast(t, n, 2);
  if (forward || a->groups == 1) return;
  clade_keep_axis(t, y, 1);
  clade_keep_axis(t, x, 1);
}

/* Dimensions that can be split: samples, and channels or whole groups. In conv2d_data an attribute holds the `shape` of
 * x. */
void clade__conv_dims(clade_dims *d, const clade_node *n) {
  const bool shape = n->op == &clade__op_conv2d_data;
  const int x = shape ? n->n_in : 0, y = shape ? 0 : n->n_in;
  const clade__conv_attrs *a = n->attrs;
  const clade_shape *w = &n->in[1].shape;
  const size_t dim = offsetof(clade__conv_attrs, shape.dim);
  if (n->n_in > 2 || a->epilogue.n_insn) return;
  const int samples = clade_dims_add(d, CLADE_DIM_EACH);
  clade_dims_along(d, samples, x, 0, 1);
  clade_dims_along(d, samples, y, 0, 1);
  if (shape) clade__dims_length(d, samples, dim, 1);
  if (a->groups > 1) {
    const int groups = clade_dims_add(d, CLADE_DIM_EACH);
    clade_dims_along(d, groups, x, 1, w->dim[1]);
    clade_dims_along(d, groups, 1, 0, w->dim[0] / a->groups);
    clade_dims_along(d, groups, y, 1, w->dim[0] / a->groups);
    clade__dims_length(d, groups, offsetof(clade__conv_attrs, groups), 1);
    if (shape) clade__dims_length(d, groups, dim + sizeof(clade_dim), w->dim[1]);
    return;
  }
  const int out = clade_dims_add(d, shape ? CLADE_DIM_SUM : CLADE_DIM_EACH);
  clade_dims_along(d, out, 1, 0, 1);
  clade_dims_along(d, out, y, 1, 1);
  const int in = clade_dims_add(d, shape ? CLADE_DIM_EACH : CLADE_DIM_SUM);
  clade_dims_along(d, in, 1, 1, 1);
  clade_dims_along(d, in, x, 1, 1);
  if (shape) clade__dims_length(d, in, dim + sizeof(clade_dim), 1);
}

clade_val clade__conv_node(clade_graph *g, const clade_op *op, const clade__conv_attrs *like, clade_val a, clade_val b,
                           const clade_shape *shape) {
  clade__conv_attrs at;
  memset(&at, 0, sizeof at); /* attributes are compared and hashed bytewise, padding included */
  at.window = like->window;
  at.groups = like->groups;
  if (shape) {
    at.shape.rank = shape->rank;
    for (int i = 0; i < shape->rank; i++) at.shape.dim[i] = shape->dim[i];
  }
  return clade_node_add(g, op, NULL, &at, 2, (clade_val[]){a, b}, NULL);
}

/* Operands are dense floats of one type, or those of conv2d x in i8 or u8, as in gemm, and w in i8. */
static clade_status check_types(const clade_node *n, const int *role, clade_dtype *out) {
  static const char *const names[ROLES] = {"x", "w", "y"};
  const clade_dtype a = n->in[0].dtype, b = n->in[1].dtype;
  const bool bytes = n->op == &clade__op_conv2d && (a == CLADE_I8 || a == CLADE_U8);
  const char *first = names[role[0]], *second = names[role[1]];
  *out = bytes ? CLADE_I32 : a;
  CLADE_TRY(clade__want_dense(n));
  if (!bytes) CLADE_TRY(clade__want_float(n, 0, first));
  if (b == (bytes ? CLADE_I8 : a)) return CLADE_OK;
  return CLADE_FAIL(DTYPE, "%s: %s is %s and %s is %s; expected %s", n->op->name, first, clade_dtype_name(a), second,
                    clade_dtype_name(b), bytes ? "w in i8" : "the same type");
}

clade_status clade__conv_infer(clade_node *n) {
  const clade__conv_attrs *a = n->attrs;
  const int result = result_of(n->op), *in = passes[result].in;
  const clade_shape *shape[ROLES] = {NULL};
  clade_type out = {.shape = a->shape};
  clade_shape y;
  for (int i = 0; i < 2; i++) shape[in[i]] = &n->in[i].shape;
  if (result != Y) shape[result] = &a->shape;
  CLADE_TRY(check_types(n, in, &out.dtype));
  CLADE_TRY(check(n, shape[X], shape[W], shape[Y], &y));
  if (result == Y) out.shape = y;
  if (result != W) CLADE_TRY(clade__epilogue_infer(n, &out));
  n->out[0] = out;
  return CLADE_OK;
}

/* The gradient by an operand is the pass that computes it, from the other operand and the result's gradient. */
clade_status clade__conv_grad(clade_grad *g) {
  const clade__conv_attrs *a = g->node->attrs;
  const int result = result_of(g->node->op), *in = passes[result].in;
  clade_val value[ROLES];
  if (g->node->n_in > 2 || a->epilogue.n_insn)
    return CLADE_FAIL(UNSUPPORTED, "%s: derivatives are taken before an epilogue is fused in", g->node->op->name);
  for (int i = 0; i < 2; i++) value[in[i]] = g->in[i];
  value[result] = g->dout[0];
  for (int i = 0; i < 2; i++) {
    const struct pass *p = &passes[in[i]];
    const clade_shape *shape = in[i] == Y ? NULL : &g->node->in[i].shape;
    if (g->wanted[i]) g->din[i] = clade__conv_node(g->graph, p->op, a, value[p->in[0]], value[p->in[1]], shape);
  }
  return CLADE_OK;
}

const clade_op clade__op_conv2d = {CLADE__CONV_GATHER_OP, .name = "conv2d", .grad = clade__conv_grad,
                                   .impls = clade__conv_impls};
