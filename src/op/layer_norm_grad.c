/* The derivatives of layer normalisation by its operand, weight and bias, from the gradient of its result. Sums are
 * within 2^-17 of the sum of absolute terms. */
#include "op/dims.h"

enum { X, DY, WEIGHT, MEAN, RSTD };
enum { ROWS = 64, MOST_CHUNKS = 256 }; /* of rows whose contributions to the parameters are added by one work-item */

static clade_status infer(clade_node *n) {
  static const char *const names[] = {"x", "dy", "weight", "mean", "rstd"};
  const clade_shape *x = &n->in[X].shape, *row = &n->in[WEIGHT].shape;
  CLADE_TRY(clade__want_dense(n));
  CLADE_TRY(clade__want_float(n, X, "x"));
  bool fits = clade_type_equal(&n->in[X], &n->in[DY]) && row->rank >= 1 && row->rank <= x->rank;
  for (int i = WEIGHT; i <= RSTD; i++) {
    const clade_shape *s = &n->in[i].shape;
    if (n->in[i].dtype != CLADE_F32)
      return CLADE_FAIL(DTYPE, "layer_norm_grad: %s is %s; expected f32", names[i], clade_dtype_name(n->in[i].dtype));
    int first = i == WEIGHT ? x->rank - row->rank : 0;
    fits = fits && s->rank == (i == WEIGHT ? row->rank : x->rank - row->rank);
    for (int k = 0; fits && k < s->rank; k++) fits = s->dim[k] == x->dim[first + k];
  }
  if (!fits)
    return CLADE_FAIL(SHAPE, "layer_norm_grad: dy, weight, mean and rstd do not fit x: expected its type, its last "
                             "dimensions and the others");
  n->out[0] = n->in[X];
  n->out[1] = n->out[2] = n->in[WEIGHT];
  return CLADE_OK;
}

typedef struct plan {
  int64_t rows, row, chunk, chunks;
} plan;
/* By shapes alone: the same sums on devices of any number of units. */
static plan plan_of(const clade_query *q) {
  const clade_shape *rows = &q->node->in[MEAN].shape, *row = &q->node->in[WEIGHT].shape;
  plan p = {clade__product(rows, 0, rows->rank), clade__product(row, 0, row->rank), ROWS, 0};
  while (p.chunk < p.rows / MOST_CHUNKS) p.chunk *= 2;
  p.chunks = CLADE_MAX((p.rows + p.chunk - 1) / p.chunk, 1);
  return p;
}

static const char *accept(const clade_query *q) {
  plan p = plan_of(q);
  double row = 2.0 * (double)(p.row / 16 + p.row / 1024) + 64;
  return clade__cut_short(q->device, CLADE_MAX(row, 16.0 * (double)CLADE_MAX(p.chunk, p.chunks) + 16));
}

static double cost(const clade_query *q) {
  plan p = plan_of(q);
  return clade__cost(q->device, 16.0 * (double)p.rows * (double)p.row, 2 * clade__node_bytes(q->node), 0.3);
}

static size_t workspace(const clade_query *q) {
  plan p = plan_of(q);
  return (size_t)(p.chunks * p.row) * 2 * sizeof(float);
}

static void emit_sums(clade_emit *e, const clade_query *q, const plan *p) {
  int64_t blocks = (p->row + 15) / 16;
  clade_kernel_step *s = clade_emit_kernel(e, "layer_norm_grad_sums");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[X].dtype));
  clade_emit_in(s, X);
  clade_emit_in(s, DY);
  clade_emit_in(s, MEAN);
  clade_emit_in(s, RSTD);
  clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_index(s, p->rows);
  clade_emit_index(s, p->row);
  clade_emit_index(s, p->chunk);
  clade_emit_index(s, p->chunks);
  clade__emit_flat(s, q->device, blocks * p->chunks);
  s = clade_emit_kernel(e, "layer_norm_grad_join");
  clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_out(s, 1);
  clade_emit_out(s, 2);
  clade_emit_index(s, p->row);
  clade_emit_index(s, p->chunks);
  clade__emit_flat(s, q->device, p->row);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  plan p = plan_of(q);
  if (p.row == 0) return CLADE_OK;
  emit_sums(e, q, &p);
  clade_kernel_step *s = clade_emit_kernel(e, "layer_norm_grad_rows");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[X].dtype));
  for (int i = X; i <= RSTD; i++) clade_emit_in(s, i);
  clade_emit_out(s, 0);
  clade_emit_index(s, p.rows);
  clade_emit_index(s, p.row);
  clade__emit_flat(s, q->device, p.rows);
  return CLADE_OK;
}

static const clade_impl impls[] = {
    {.name = "ref", .accept = accept, .cost = cost, .workspace = workspace, .emit = emit}, {0}};

const clade_op clade__op_layer_norm_grad = {
    .size = sizeof(clade_op),
    .name = "layer_norm_grad",
    .min_in = 5,
    .max_in = 5,
    .n_out = 3,
    .infer = infer,
    .in_place = clade__dx_in_place,
    .impls = impls,
};
