/* Layer normalisation: each row of the last axes by its own mean and variance, made by two passes so that nothing
 * cancels. The mean is within 2^-17 of the deviation and 2^-22 of the mean of absolute values, the variance within
 * 2^-17 of itself. */
#include <clade/nn.h>

#include "op/dims.h"

typedef struct attrs {
  int32_t n_axes; /* the last ones */
  float eps;
} attrs;
static const clade_attr table[] = {
    {"n_axes", CLADE_ATTR_I32, offsetof(attrs, n_axes), 1}, {"eps", CLADE_ATTR_F32, offsetof(attrs, eps), 1}, {0}};

enum { X, WEIGHT, BIAS }; /* operands */
enum { Y, MEAN, RSTD };   /* outputs: RSTD is 1 / sqrt(variance + eps) */

static clade_status infer(clade_node *n) {
  const attrs *a = n->attrs;
  const clade_shape *x = &n->in[X].shape;
  static const char *const names[] = {"x", "weight", "bias"};
  clade_shape row = {.rank = a->n_axes}, rows = {.rank = x->rank - a->n_axes};
  char text[2][200];
  CLADE_TRY(clade__want_dense(n));
  CLADE_TRY(clade__want_float(n, X, "x"));
  if (a->n_axes < 1 || a->n_axes > x->rank)
    return CLADE_FAIL(INVALID, "layer_norm: n_axes is %d; expected 1 to %d, the rank of x", a->n_axes, x->rank);
  if (!(a->eps >= 0)) return CLADE_FAIL(INVALID, "layer_norm: eps is %g; expected 0 or more", (double)a->eps);
  for (int i = 0; i < x->rank; i++) *(i < rows.rank ? &rows.dim[i] : &row.dim[i - rows.rank]) = x->dim[i];
  for (int i = WEIGHT; i <= BIAS; i++) {
    const clade_type *t = &n->in[i];
    if (t->dtype != CLADE_F32)
      return CLADE_FAIL(DTYPE, "layer_norm: %s is %s; expected f32", names[i], clade_dtype_name(t->dtype));
    if (!clade_shape_equal(&t->shape, &row))
      return CLADE_FAIL(SHAPE, "layer_norm: %s is %s; expected the last dimensions of x, %s", names[i],
                        clade_shape_text(&t->shape, text[0], sizeof text[0]),
                        clade_shape_text(&row, text[1], sizeof text[1]));
  }
  n->out[Y] = n->in[X];
  n->out[MEAN] = n->out[RSTD] = (clade_type){.dtype = CLADE_F32, .shape = rows};
  return CLADE_OK;
}

static clade_status grad(clade_grad *g) {
  clade_val in[] = {g->in[X], g->dout[Y], g->in[WEIGHT], g->out[MEAN], g->out[RSTD]}, out[3];
  clade_node_add(g->graph, &clade__op_layer_norm_grad, NULL, NULL, 5, in, out);
  for (int i = X; i <= BIAS; i++) g->din[i] = out[i];
  return CLADE_OK;
}

static int64_t rows_of(const clade_query *q) {
  const clade_shape *rows = &q->node->out[MEAN].shape;
  return clade__product(rows, 0, rows->rank);
}
static int64_t row_of(const clade_query *q) {
  const clade_shape *row = &q->node->in[WEIGHT].shape;
  return clade__product(row, 0, row->rank);
}

static const char *accept(const clade_query *q) {
  return clade__cut_short(q->device, 3.0 * (double)(row_of(q) / 16 + row_of(q) / 1024) + 64);
}

static double cost(const clade_query *q) {
  return clade__cost(q->device, 10.0 * (double)rows_of(q) * (double)row_of(q), 2 * clade__node_bytes(q->node), 0.3);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  clade_kernel_step *s = clade_emit_kernel(e, "layer_norm_forward_ref");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[X].dtype));
  for (int i = X; i <= BIAS; i++) clade_emit_in(s, i);
  for (int i = Y; i <= RSTD; i++) clade_emit_out(s, i);
  clade_emit_index(s, rows_of(q));
  clade_emit_index(s, row_of(q));
  clade_emit_f32(s, ((const attrs *)q->node->attrs)->eps);
  clade__emit_flat(s, q->device, rows_of(q));
  return CLADE_OK;
}

static const clade_impl impls[] = {{.name = "ref", .accept = accept, .cost = cost, .emit = emit}, {0}};

/* Each element is read before it is written. */
static uint64_t in_place(const clade_node *n, int out) {
  (void)n;
  return out == Y ? 1u << X : 0;
}

const clade_op clade__op_layer_norm = {
    .size = sizeof(clade_op),
    .name = "layer_norm",
    .min_in = 3,
    .max_in = 3,
    .n_out = 3,
    .attr_bytes = sizeof(attrs),
    .attrs = table,
    .infer = infer,
    .grad = grad,
    .in_place = in_place,
    .impls = impls,
};

clade_val clade_layer_norm(clade_graph *g, clade_val x, clade_val weight, clade_val bias, int n_axes, double eps) {
  const attrs a = {n_axes, (float)eps};
  clade_val out[3];
  return clade_node_add(g, &clade__op_layer_norm, NULL, &a, 3, (clade_val[]){x, weight, bias}, out);
}
