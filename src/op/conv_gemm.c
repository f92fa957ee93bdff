/* conv2d and conv2d_data by windows of one place, step 1, are products of matrices in NCHW: weights, or weights turned,
 * by an image's channels, whose places are columns. gemm's `vec` computes them; nothing is converted. */
#include "op/conv.h"
#include "op/gemm.h"

typedef struct product {
  clade_node node;
  clade_type in[CLADE__GEMM_OPERANDS], out;
  clade__gemm_attrs attrs;
} product;

/* Height and width are one axis. */
static clade_type joined(clade_type t) {
  clade_shape *s = &t.shape;
  if (s->rank < 2) return t;
  s->dim[s->rank - 2] *= s->dim[s->rank - 1];
  s->rank--;
  return t;
}

/* The query with the product for its node, whose first two operands are the node's second and first. */
static clade_query product_of(const clade_query *q, product *p) {
  const clade_node *n = q->node;
  memset(p, 0, sizeof *p);
  p->attrs = (clade__gemm_attrs){
      .trans_a = n->op != &clade__op_conv2d, .alpha = 1, .epilogue = ((const clade__conv_attrs *)n->attrs)->epilogue};
  p->in[0] = n->in[1];
  p->in[0].shape.rank = 2;
  p->in[1] = joined(n->in[0]);
  for (int i = 2; i < n->n_in; i++) p->in[i] = joined(n->in[i]);
  p->out = joined(n->out[0]);
  p->node = (clade_node){sizeof p->node, &clade__op_gemm, n->name, &p->attrs, n->n_in, 1, p->in, &p->out};
  return (clade_query){sizeof *q, &p->node, q->device, q->row};
}

const char *clade__gather_gemm_accept(const clade_query *q) {
  const clade__conv_attrs *a = q->node->attrs;
  const clade__window *w = &a->window;
  const char *reason = clade__conv_vec_accept(q);
  if (reason) return reason;
  for (int i = 0; i < 2; i++)
    if (q->node->in[1].shape.dim[2 + i] != 1 || w->stride[i] != 1 || w->pad[i] || w->pad[2 + i])
      return "made for windows of one place, step 1, without padding";
  if (a->groups != 1) return "made for one group";
  return q->node->in[0].dtype == CLADE_F32 ? NULL : "made for operands of f32";
}

/* Copies of weights take twice as long as gemm reckons, which counts where an image has few places. */
double clade__gather_gemm_cost(const clade_query *q) {
  product p;
  clade_query g = product_of(q, &p);
  double units = CLADE_MAX(q->device->compute_units, 1u);
  double weights = (double)clade__product(&p.in[0].shape, 0, 2) * (double)p.out.shape.dim[0];
  double cycles = clade__gemm_vec_cycles(&g) + 0.4 * weights / units;
  return clade__cost(q->device, cycles * units * 2 * 2 * q->device->vector_f32, clade__node_bytes(q->node), 2);
}

size_t clade__gather_gemm_workspace(const clade_query *q) {
  product p;
  clade_query g = product_of(q, &p);
  return clade__gemm_vec_workspace(&g);
}

clade_status clade__gather_gemm_emit(clade_emit *e, const clade_query *q) {
  product p;
  clade_query g = product_of(q, &p);
  return clade__gemm_vec_emit_as(e, &g, true);
}

static void start(const clade_query *q, int32_t *row) {
  product p;
  clade_query g = product_of(q, &p);
  clade__gemm_vec_space.start(&g, row);
}

static bool rows(const clade_query *q, int i, int32_t *row) {
  product p;
  clade_query g = product_of(q, &p);
  return clade__gemm_vec_space.rows(&g, i, row);
}

const clade_space clade__gather_gemm_space = {sizeof(clade_space), clade__gemm_vec_params, start, rows};
