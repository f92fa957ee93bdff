/* Matrix product over the last two axes, batched over the others (`torch.matmul`), with an elementwise epilogue. The
 * error before the epilogue is at most (K + 4) 2^-24 times alpha * sum |a b|, plus the rounding to the stored type. i8
 * by i8 and u8 by i8 give exact i32; integers wrap around. f32 by weights in blocks (q4_0, q8_0) uses the exact
 * dequantized weights. */
#include <clade/ops.h>

#include "ir/dimensions.h"
#include "ir/ties.h"
#include "op/elt/epilogue.h"
#include "op/gemm/gemm.h"

static const clade_attr table[] = {
    {"trans_a", CLADE_ATTR_BOOL, offsetof(clade__gemm_attrs, trans_a), 1},
    {"trans_b", CLADE_ATTR_BOOL, offsetof(clade__gemm_attrs, trans_b), 1},
    {"alpha", CLADE_ATTR_F32, offsetof(clade__gemm_attrs, alpha), 1},
    {"epilogue", CLADE_ATTR_BYTES, offsetof(clade__gemm_attrs, epilogue), sizeof(clade__elt)},
    {"shapes", CLADE_ATTR_SHAPE, offsetof(clade__gemm_attrs, shape), 2},
    /* strides hardly affect the speed, so tuning records leave them out */
    {"strides", CLADE_ATTR_BYTES, offsetof(clade__gemm_attrs, stride), sizeof(int64_t[2][CLADE_MAX_RANK])},
    {"offsets", CLADE_ATTR_BYTES, offsetof(clade__gemm_attrs, offset), sizeof(int64_t[2])},
    {0}};

static clade_status matrices(const clade_node *n, clade_dim *m, clade_dim *k, clade_dim *cols) {
  const clade__gemm_attrs *a = n->attrs;
  const clade_shape *x = clade__gemm_shape(n, 0), *y = clade__gemm_shape(n, 1);
  char s[200], t[200];
  for (int i = 0; i < 2; i++)
    if (clade__gemm_shape(n, i)->rank < 2)
      return CLADE_FAIL(BAD_SHAPE, "gemm: %s is %s; expected at least two dimensions", i ? "b" : "a",
                        clade_shape_text(clade__gemm_shape(n, i), s, sizeof s));
  *m = x->dim[x->rank - (a->trans_a ? 1 : 2)];
  *k = x->dim[x->rank - (a->trans_a ? 2 : 1)];
  *cols = y->dim[y->rank - (a->trans_b ? 2 : 1)];
  if (*k == y->dim[y->rank - (a->trans_b ? 1 : 2)]) return CLADE_OK;
  return CLADE_FAIL(BAD_SHAPE, "gemm: the inner dimensions differ: a is %s%s, b is %s%s",
                    clade_shape_text(x, s, sizeof s), a->trans_a ? " transposed" : "", clade_shape_text(y, t, sizeof t),
                    a->trans_b ? " transposed" : "");
}

/* For pruning: rows of a and columns of b belong to the result, and the inner axes of a and b are removed together.
 * Applies to graphs as built, before any operand is a view. */
static void ties(clade_ties *t, const clade_node *n) {
  const clade__gemm_attrs *at = n->attrs;
  const int a = n->in[0].shape.rank, b = n->in[1].shape.rank, y = n->out[0].shape.rank;
  clade_tie_axes(t, 0, a - (at->trans_a ? 1 : 2), n->n_in, y - 2);
  clade_tie_axes(t, 1, b - (at->trans_b ? 2 : 1), n->n_in, y - 1);
  clade_tie_axes(t, 0, a - (at->trans_a ? 2 : 1), 1, b - (at->trans_b ? 1 : 2));
  for (int i = 0; i < y - 2; i++) clade_keep_axis(t, n->n_in, i); /* batch axes cannot be pruned */
  for (int i = 0; i < a - 2; i++) clade_keep_axis(t, 0, i);
  for (int i = 0; i < b - 2; i++) clade_keep_axis(t, 1, i);
  clade__tie_broadcast(t, n, 2);
}

/* Dimensions that can be split: batches, rows, columns, and the inner axis as a sum. Blocks of quantized weights lie
 * along their last axis. */
static void dims(clade_dims *d, const clade_node *n) {
  const clade__gemm_attrs *at = n->attrs;
  const clade_shape *a = &n->in[0].shape, *b = &n->in[1].shape, *y = &n->out[0].shape;
  if (n->n_in > 2 || at->epilogue.n_insn || at->shape[0].rank || at->shape[1].rank) return;
  for (int i = 0; i < y->rank - 2; i++) {
    const int dim = clade_dims_add(d, CLADE_DIM_EACH);
    clade_dims_along(d, dim, 2, i, 1);
    for (int k = 0; k < 2; k++) {
      const int axis = i - y->rank + n->in[k].shape.rank;
      if (axis >= 0 && n->in[k].shape.dim[axis] == y->dim[i]) clade_dims_along(d, dim, k, axis, 1);
    }
  }
  const int rows = clade_dims_add(d, CLADE_DIM_EACH);
  clade_dims_along(d, rows, 0, a->rank - (at->trans_a ? 1 : 2), 1);
  clade_dims_along(d, rows, 2, y->rank - 2, 1);
  if (clade__has_blocks(n->in[1].dtype)) return;
  const int columns = clade_dims_add(d, CLADE_DIM_EACH);
  clade_dims_along(d, columns, 1, b->rank - (at->trans_b ? 2 : 1), 1);
  clade_dims_along(d, columns, 2, y->rank - 1, 1);
  const int inner = clade_dims_add(d, CLADE_DIM_SUM);
  clade_dims_along(d, inner, 0, a->rank - (at->trans_a ? 2 : 1), 1);
  clade_dims_along(d, inner, 1, b->rank - (at->trans_b ? 1 : 2), 1);
}

/* Checks that a strided view lies within its buffer and has contiguous rows. */
static clade_status inside(const clade_node *n, int operand) {
  const clade__gemm_attrs *a = n->attrs;
  const clade_shape *s = &a->shape[operand], *x = &n->in[operand].shape;
  const int64_t *stride = a->stride[operand];
  int64_t last = a->offset[operand];
  char t[2][200];
  bool fits = s->rank >= 2 && s->rank <= CLADE_MAX_RANK && last >= 0 && stride[s->rank - 1] == 1;
  for (int i = 0; fits && i < s->rank; i++) {
    int64_t most;
    fits = s->dim[i] > 0 && stride[i] >= 0 && !__builtin_mul_overflow(s->dim[i] - 1, stride[i], &most) &&
           !__builtin_add_overflow(last, most, &last);
  }
  fits = fits && (s->dim[s->rank - 2] == 1 || stride[s->rank - 2] >= s->dim[s->rank - 1]);
  for (int i = 0; fits && i < x->rank; i++) fits = x->dim[i] >= 0;
  if (fits && last < clade__product(x, 0, x->rank)) return CLADE_OK;
  return CLADE_FAIL(INVALID, "gemm: %s is %s, which cannot be read as %s by the strides given", operand ? "b" : "a",
                    clade_shape_text(x, t[0], sizeof t[0]), clade_shape_text(s, t[1], sizeof t[1]));
}

/* Type check of f32 rows times weights in blocks along the inner axis. */
static clade_status block_types(const clade_node *n, clade_dtype *out) {
  const clade__gemm_attrs *at = n->attrs;
  const clade_type *b = &n->in[1];
  const unsigned elements = clade__dtype_row(b->dtype)->elements;
  const char *name = clade_dtype_name(b->dtype);
  const clade_dim k = b->shape.rank ? b->shape.dim[b->shape.rank - 1] : 0;
  if (n->in[0].dtype != CLADE_F32)
    return CLADE_FAIL(DTYPE, "gemm: a is %s and b is %s; expected a in f32", clade_dtype_name(n->in[0].dtype), name);
  if (!at->trans_b || at->shape[1].rank)
    return CLADE_FAIL(UNSUPPORTED, "gemm: b is %s, whose blocks lie along its rows; expected it whole, with .trans_b",
                      name);
  if (k % elements)
    return CLADE_FAIL(BAD_SHAPE,
                      "gemm: b is %s with rows of %lld; expected a multiple of %u, as rows begin with blocks", name,
                      (long long)k, elements);
  *out = CLADE_F32;
  return CLADE_OK;
}

/* Type check of operands of one type; of 8-bit operands, the first may be unsigned. */
static clade_status types(const clade_node *n, clade_dtype *out) {
  const clade__gemm_attrs *a = n->attrs;
  clade_dtype t = n->in[0].dtype, b = n->in[1].dtype;
  if (clade__has_blocks(b) && !clade__has_blocks(t)) return block_types(n, out);
  bool bytes = t == CLADE_I8 || t == CLADE_U8;
  if (bytes ? b != CLADE_I8 : t != b)
    return CLADE_FAIL(DTYPE, "gemm: a is %s and b is %s; expected %s", clade_dtype_name(t), clade_dtype_name(b),
                      bytes ? "b in i8" : "the same type");
  if (clade__dtype_row(t)->product == CLADE_DTYPE_NONE) return clade__want_float(n, 0, "a");
  if (clade__gemm_integer(t) && (a->alpha < 1 || a->alpha > 1))
    return CLADE_FAIL(INVALID, "gemm: alpha is %g; with %s operands it is 1", (double)a->alpha, clade_dtype_name(t));
  *out = clade__dtype_row(t)->product;
  return CLADE_OK;
}

static clade_status infer(clade_node *n) {
  clade_dim m = 0, k = 0, cols = 0;
  clade_type out = {0};
  CLADE_TRY(clade__want_dense(n));
  CLADE_TRY(types(n, &out.dtype));
  for (int i = 0; i < 2; i++)
    if (((const clade__gemm_attrs *)n->attrs)->shape[i].rank) CLADE_TRY(inside(n, i));
  CLADE_TRY(matrices(n, &m, &k, &cols));
  clade_shape batch[2] = {*clade__gemm_shape(n, 0), *clade__gemm_shape(n, 1)};
  for (int i = 0; i < 2; i++) batch[i].rank -= 2;
  CLADE_TRY(clade__broadcast_shape("gemm", &batch[0], &batch[1], &out.shape));
  out.shape.dim[out.shape.rank++] = m;
  out.shape.dim[out.shape.rank++] = cols;
  clade_status status = clade__type_check(&out, false);
  char a[200], b[200];
  if (status != CLADE_OK)
    return clade__fail_in(status, "gemm: a is %s and b is %s, the result",
                          clade_shape_text(clade__gemm_shape(n, 0), a, sizeof a),
                          clade_shape_text(clade__gemm_shape(n, 1), b, sizeof b));
  CLADE_TRY(clade__epilogue_infer(n, &out));
  n->out[0] = out;
  return CLADE_OK;
}

static clade_val product(clade_graph *g, clade_val a, bool trans_a, clade_val b, bool trans_b, float alpha) {
  clade__gemm_attrs at;
  memset(&at, 0, sizeof at);
  at.trans_a = trans_a;
  at.trans_b = trans_b;
  at.alpha = alpha;
  return clade_node_add(g, &clade__op_gemm, NULL, &at, 2, (clade_val[]){a, b}, NULL);
}

static clade_status grad(clade_grad *g) {
  const clade__gemm_attrs *at = g->node->attrs;
  clade_val a = g->in[0], b = g->in[1], dy = g->dout[0];
  if (clade__has_blocks(g->node->in[1].dtype)) b = clade_cast(g->graph, b, CLADE_F32);
  bool ta = at->trans_a, tb = at->trans_b;
  if (at->epilogue.n_insn || g->node->n_in > 2 || at->shape[0].rank || at->shape[1].rank)
    return CLADE_FAIL(UNSUPPORTED, "gemm: derivatives are taken before an epilogue or a view is fused in");
  if (g->wanted[0]) {
    clade_val da = ta ? product(g->graph, b, tb, dy, true, at->alpha) : product(g->graph, dy, false, b, !tb, at->alpha);
    g->din[0] = clade__sum_to(g->graph, da, &g->node->in[0].shape);
  }
  if (g->wanted[1]) {
    clade_val db = tb ? product(g->graph, dy, true, a, ta, at->alpha) : product(g->graph, a, !ta, dy, false, at->alpha);
    g->din[1] = clade__sum_to(g->graph, db, &g->node->in[1].shape);
  }
  return CLADE_OK;
}

/* The epilogue may overwrite its own operands: each element is read before it is overwritten. */
static uint64_t in_place(const clade_node *n, int out) { return clade__elementwise(n, out, 2); }

const clade_op clade__op_gemm = {
    .size = sizeof(clade_op),
    .name = "gemm",
    .min_in = 2,
    .max_in = 2 + CLADE__ELT_INPUTS - 1,
    .n_out = 1,
    .attr_bytes = sizeof(clade__gemm_attrs),
    .attrs = table,
    .infer = infer,
    .grad = grad,
    .in_place = in_place,
    .impls = clade__gemm_impls,
    .problem_in = 2,
    .ties = ties,
    .autocast = CLADE_AUTOCAST_NARROW,
    .dims = dims,
};

/* Adds the bias times beta. */
static clade_status add_bias(clade_graph *g, const clade_gemm_opt *opt, clade_val *y) {
  clade_val scaled = opt->bias;
  clade_type bias, result;
  char s[200], t[200];
  bool by_none = !(opt->beta < 0 || opt->beta > 0), by_one = !(opt->beta < 1 || opt->beta > 1);
  CLADE_TRY(clade_val_type(g, opt->bias, &bias));
  CLADE_TRY(clade_val_type(g, *y, &result));
  const char *reason = clade__host_refuses(clade__host_of(&clade__op_gemm), &bias.shape, &result.shape);
  if (reason)
    return CLADE_FAIL(BAD_SHAPE, "gemm: .bias is %s and %s %s", clade_shape_text(&bias.shape, s, sizeof s), reason,
                      clade_shape_text(&result.shape, t, sizeof t));
  CLADE_TRY(clade__want_type("gemm", ".bias", bias.dtype, result.dtype));
  if (by_none) return CLADE_OK; /* beta is 0: the bias is ignored, even if it is NaN */
  if (!by_one && clade__gemm_integer(bias.dtype))
    return CLADE_FAIL(INVALID, "gemm: .beta is %g; with a bias of %s it is 0 or 1", (double)opt->beta,
                      clade_dtype_name(bias.dtype));
  if (!by_one) scaled = clade_mul(g, scaled, clade_fill(g, bias.dtype, CLADE_SCALAR, (double)opt->beta));
  *y = clade_add(g, *y, scaled);
  return CLADE_OK;
}

clade_val clade_gemm_(clade_graph *g, clade_val a, const clade_gemm_opt *given) {
  clade_gemm_opt opt = {CLADE_GEMM_OPT};
  clade_status status = clade__opt_over(&opt, given, "gemm", "CLADE_GEMM_OPT");
  bool biased = status == CLADE_OK && (opt.bias.graph || opt.bias.id);
  if (status == CLADE_OK && opt.alpha != opt.alpha) status = CLADE_FAIL(INVALID, "gemm: .alpha is no number");
  if (status == CLADE_OK && opt.beta != opt.beta) status = CLADE_FAIL(INVALID, "gemm: .beta is no number");
  if (status == CLADE_OK && !biased && (opt.beta < 1 || opt.beta > 1))
    status = CLADE_FAIL(INVALID, "gemm: .beta is %g and there is no .bias", (double)opt.beta);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  clade_val y = product(g, a, opt.trans_a, opt.b, opt.trans_b, opt.alpha);
  if (!clade_val_ok(y) || !biased) return y;
  status = add_bias(g, &opt, &y);
  return status == CLADE_OK ? y : clade__graph_fail(g, status, NULL);
}
