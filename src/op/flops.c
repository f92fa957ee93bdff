/* Floating-point operations of convolutions and matrix products. */
#include "op/conv/conv.h"

static double elements(const clade_shape *shape, int from, int to) {
  double n = 1;
  for (int i = from; i < to; i++) n *= (double)shape->dim[i];
  return n;
}

/* Number of results of the forward pass times the length of each sum. */
double clade__node_flops(const clade_node *n) {
  if (n->n_in < 2 || !n->n_out) return 0;
  const clade_shape *a = &n->in[0].shape, *y = &n->out[0].shape;
  if (n->op == &clade__op_conv2d) return 2 * elements(y, 0, 4) * elements(&n->in[1].shape, 1, 4);
  if (n->op == &clade__op_conv2d_data) return 2 * elements(a, 0, 4) * elements(&n->in[1].shape, 1, 4);
  if (n->op != &clade__op_gemm) return 0;
  const clade__gemm_attrs *at = n->attrs;
  return 2 * elements(y, 0, y->rank) * (double)a->dim[a->rank - (at->trans_a ? 2 : 1)];
}
