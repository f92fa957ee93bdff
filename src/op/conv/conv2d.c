/* Two-dimensional convolution (cross-correlation, as `torch.nn.Conv2d`) in NCHW, with stride, padding, dilation and
 * groups, and with an elementwise epilogue. With x in i8 or u8 and w in i8, the result is exact in i32. For floats, the
 * error before the epilogue is at most (K + 4) 2^-24 times sum |x w| over the K products of a result, plus the rounding
 * to the stored type. The implementations `winograd` and `fft` have larger bounds (docs/layouts.md); .strict excludes
 * them. */
#include "ir/dimensions.h"
#include "ir/ties.h"
#include "op/conv/conv.h"
#include "op/elt/epilogue.h"
#include "op/group.h"
#include "op/product.h"
#include "op/systolic.h"

#include <inttypes.h>

const clade_attr clade__conv_table[] = {
    CLADE__WINDOW_ROWS(clade__conv_attrs),
    {"groups", CLADE_ATTR_I32, offsetof(clade__conv_attrs, groups), 1},
    {"shape", CLADE_ATTR_SHAPE, offsetof(clade__conv_attrs, shape), 1},
    {"epilogue", CLADE_ATTR_BYTES, offsetof(clade__conv_attrs, epilogue), sizeof(clade__elt)},
    {0}};

clade_status clade__conv_check(const clade_node *n, const clade_shape *x, const clade_shape *w, const clade_shape *y,
                               clade_shape *out) {
  const clade__conv_attrs *a = n->attrs;
  const char *op = n->op->name;
  char s[200], t[200];
  if (w->rank != 4)
    return CLADE_FAIL(BAD_SHAPE, "%s: w is %s; expected [out, in / groups, height, width]", op,
                      clade_shape_text(w, s, sizeof s));
  for (int i = 0; i < 2; i++)
    if (w->dim[2 + i] != a->window.kernel[i])
      return CLADE_FAIL(BAD_SHAPE, "%s: w is %s; expected a kernel of %d x %d", op, clade_shape_text(w, s, sizeof s),
                        a->window.kernel[0], a->window.kernel[1]);
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

void clade__conv_ties(clade_ties *t, const clade_node *n, int x, int y) {
  const clade__conv_attrs *a = n->attrs;
  clade_tie_axes(t, x, 0, y, 0);
  for (int i = 2; i < 4; i++) {
    clade_keep_axis(t, x, i);
    clade_keep_axis(t, y, i);
    clade_keep_axis(t, 1, i);
  }
  if (a->groups > 1 && n->in[1].shape.dim[1] == 1) clade_keep_axis(t, 1, 1);
  tie_groups(t, a, &n->in[1].shape, x, y);
  clade__tie_broadcast(t, n, 2);
}

static void ties(clade_ties *t, const clade_node *n) { clade__conv_ties(t, n, 0, n->n_in); }

/* Dimensions that can be split: samples, and channels or whole groups. `shape`: an attribute holds the shape of x. */
void clade__conv_dims(clade_dims *d, const clade_node *n, int x, int y, bool shape) {
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

static void dims(clade_dims *d, const clade_node *n) { clade__conv_dims(d, n, 0, n->n_in, false); }

clade_status clade__conv_operands(const clade_node *n, const char *first, const char *second) {
  clade_dtype a = n->in[0].dtype, b = n->in[1].dtype;
  CLADE_TRY(clade__want_dense(n));
  CLADE_TRY(clade__want_float(n, 0, first));
  if (a == b) return CLADE_OK;
  return CLADE_FAIL(DTYPE, "%s: %s is %s and %s is %s; expected the same type", n->op->name, first, clade_dtype_name(a),
                    second, clade_dtype_name(b));
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

clade_status clade__conv_plain(const clade_grad *g) {
  if (g->node->n_in == 2 && !((const clade__conv_attrs *)g->node->attrs)->epilogue.n_insn) return CLADE_OK;
  return CLADE_FAIL(UNSUPPORTED, "%s: derivatives are taken before an epilogue is fused in", g->node->op->name);
}

/* For 8-bit operands, x may be unsigned, as in gemm. */
static clade_status operands(const clade_node *n, clade_dtype *out) {
  const clade_dtype x = n->in[0].dtype, w = n->in[1].dtype;
  *out = x;
  if (x != CLADE_I8 && x != CLADE_U8) return clade__conv_operands(n, "x", "w");
  *out = CLADE_I32;
  CLADE_TRY(clade__want_dense(n));
  return w == CLADE_I8 ? CLADE_OK
                       : CLADE_FAIL(DTYPE, "conv2d: x is %s and w is %s; expected w in i8", clade_dtype_name(x),
                                    clade_dtype_name(w));
}

static clade_status infer(clade_node *n) {
  clade_type out = {0};
  CLADE_TRY(operands(n, &out.dtype));
  CLADE_TRY(clade__conv_check(n, &n->in[0].shape, &n->in[1].shape, NULL, &out.shape));
  CLADE_TRY(clade__epilogue_infer(n, &out));
  n->out[0] = out;
  return CLADE_OK;
}

static clade_status grad(clade_grad *g) {
  const clade__conv_attrs *a = g->node->attrs;
  clade_val x = g->in[0], w = g->in[1], dy = g->dout[0];
  CLADE_TRY(clade__conv_plain(g));
  if (g->wanted[0]) g->din[0] = clade__conv_node(g->graph, &clade__op_conv2d_data, a, dy, w, &g->node->in[0].shape);
  if (g->wanted[1]) g->din[1] = clade__conv_node(g->graph, &clade__op_conv2d_weights, a, x, dy, &g->node->in[1].shape);
  return CLADE_OK;
}

const clade_op clade__op_conv2d = {
    .size = sizeof(clade_op),
    .name = "conv2d",
    .min_in = 2,
    .max_in = 2 + CLADE__ELT_INPUTS - 1,
    .n_out = 1,
    .attr_bytes = sizeof(clade__conv_attrs),
    .attrs = clade__conv_table,
    .infer = infer,
    .grad = grad,
    .impls = clade__conv_impls,
    .problem_in = 2,
    .ties = ties,
    .autocast = CLADE_AUTOCAST_NARROW,
    .dims = dims,
};
