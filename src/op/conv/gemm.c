/* conv2d and conv2d_data on CPUs as matrix products in NCHW, computed by gemm's `vec` without converting images. For 1
 * x 1 windows: (transposed) weights times an image's channels, with its pixels as columns. For other windows and
 * strides a window matrix has a row per tap and channel: conv2d unfolds it before the product (im2col), conv2d_data
 * folds it after the product (col2im). */
#include "op/conv/conv.h"
#include "op/elt/epilogue.h"
#include "op/gemm/gemm.h"

typedef struct product {
  clade_node node;
  clade_type in[CLADE__GEMM_OPERANDS], out;
  clade__gemm_attrs attrs;
} product;

/* Merges height and width. */
static clade_type joined(clade_type t) {
  clade_shape *s = &t.shape;
  if (s->rank < 2) return t;
  s->dim[s->rank - 2] *= s->dim[s->rank - 1];
  s->rank--;
  return t;
}

static bool is_forward(const clade_node *n) { return n->op == &clade__op_conv2d; }
static int64_t taps_of(const clade_node *n) { return n->in[1].shape.dim[2] * n->in[1].shape.dim[3]; }

/* The window matrix, as an image with that many channels. */
static clade_type matrix_of(const clade_node *n) {
  clade_type images = is_forward(n) ? n->in[0] : n->out[0], places = is_forward(n) ? n->out[0] : n->in[0];
  clade_type t = joined(places);
  t.dtype = CLADE_F32;
  t.shape.dim[1] = images.shape.dim[1] * taps_of(n);
  return t;
}

/* The query for the product, whose first two operands are the node's second and first. If the product is folded, the
 * fold applies the epilogue. */
static clade_query product_of(const clade_query *q, product *p) {
  const clade_node *n = q->node;
  const bool forward = is_forward(n), folded = !forward && !clade__conv_is_point(n);
  memset(p, 0, sizeof *p);
  p->attrs = (clade__gemm_attrs){.trans_a = !forward, .alpha = 1};
  if (!folded) p->attrs.epilogue = ((const clade__conv_attrs *)n->attrs)->epilogue;
  p->in[0] = n->in[1];
  p->in[0].shape.rank = 2;
  p->in[0].shape.dim[1] *= taps_of(n);
  p->in[1] = forward && !clade__conv_is_point(n) ? matrix_of(n) : joined(n->in[0]);
  for (int i = 2; i < n->n_in; i++) p->in[i] = joined(n->in[i]);
  p->out = folded ? matrix_of(n) : joined(n->out[0]);
  p->node = (clade_node){sizeof p->node, &clade__op_gemm, n->name, &p->attrs, folded ? 2 : n->n_in, 1, p->in, &p->out};
  return (clade_query){sizeof *q, &p->node, q->device, q->config};
}

static double matrix_elements(const clade_node *n) {
  const clade_type t = matrix_of(n);
  return (double)t.shape.dim[0] * (double)t.shape.dim[1] * (double)t.shape.dim[2];
}

static const char *floats_of_one_group(const clade_query *q) {
  const clade_node *n = q->node;
  const int64_t weights = clade__up(n->in[1].shape.dim[0], 32) * clade__up(n->in[1].shape.dim[1] * taps_of(n), 32);
  if (((const clade__conv_attrs *)n->attrs)->groups != 1) return "made for one group";
  if (weights > INT32_MAX / 2) return "made for fewer than 2^30 weights, padding counted";
  return n->in[0].dtype == CLADE_F32 ? NULL : "made for operands of f32";
}

const char *clade__gather_point_accept(const clade_query *q) {
  const char *reason = clade__conv_vec_accept(q);
  if (reason) return reason;
  return clade__conv_is_point(q->node) ? floats_of_one_group(q)
                                       : "made for windows of one place, step 1, without padding";
}

const char *clade__gather_gemm_accept(const clade_query *q) {
  if (clade__conv_is_point(q->node)) return clade__gather_point_accept(q);
  const char *reason = clade__conv_vec_accept(q);
  if (reason) return reason;
  return matrix_elements(q->node) > CLADE__MOST_UNFOLDED ? "made for windows that read up to 2^26 elements"
                                                         : floats_of_one_group(q);
}

/* In conv2d_data a row of the product is a column of the weights, which is strided; for 1 x 1 windows the weights are
 * packed once, into panels of a tile's rows. */
void clade__gather_gemm_layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  (void)out;
  if (is_forward(q->node) || taps_of(q->node) > 1) return;
  in[1] = (clade_layout){.axis = 1, .block = (uint16_t)q->config[0], .tile = CLADE_PANELS};
}

/* Adds to gemm's cost: weights that are read from memory for each image, or packed more slowly than gemm estimates,
 * above all transposed ones; and results that exceed L2, unless there are enough products to hide that. */
double clade__gather_gemm_cost(const clade_query *q) {
  const clade_node *n = q->node;
  product p;
  clade_query g = product_of(q, &p);
  const double weights = (double)clade__product(&p.in[0].shape, 0, 2), elements = matrix_elements(n);
  const double l2 = (double)q->device->l2_bytes;
  const bool point = clade__conv_is_point(n), forward = is_forward(n);
  double cycles = clade__gemm_vec_cycles(&g) * CLADE_MAX(q->device->compute_units, 1u);
  cycles += 0.4 * weights * (double)p.out.shape.dim[0];
  if (!point)
    cycles += 10000 + (forward ? clade__conv_unfold_cycles(q, clade__conv_window(n), n->out[0].shape.dim[3], elements)
                               : clade__conv_fold_cycles(q, elements, weights));
  if (point || forward) cycles += clade__conv_epilogue_cycles(n);
  if (p.in[1].shape.dim[1] <= CLADE__FEW_INNER && l2 > 0 && clade__node_bytes(n) > l2)
    cycles += 0.4 * (double)clade__product(&n->out[0].shape, 0, 4);
  return clade__conv_vec_cost(q, cycles);
}

size_t clade__gather_gemm_workspace(const clade_query *q) {
  product p;
  clade_query g = product_of(q, &p);
  if (clade__conv_is_point(q->node)) return clade__gemm_vec_workspace(&g);
  return clade__conv_matrix_at(&g) + (size_t)matrix_elements(q->node) * sizeof(float);
}

clade_status clade__gather_gemm_emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  product p;
  clade_query g = product_of(q, &p);
  if (clade__conv_is_point(n)) return clade__gemm_vec_emit_at(e, &g, &clade__gemm_swapped);
  const size_t at = clade__conv_matrix_at(&g);
  if (is_forward(n)) {
    clade__conv_unfold_emit(e, &(clade__unfolding){clade__conv_window(n), 0, &n->in[0].shape, &n->out[0].shape, false},
                            at);
    return clade__gemm_vec_emit_at(e, &g, &(clade__gemm_places){{1, NULL}, {0, &at}, {0, NULL}});
  }
  CLADE_TRY(clade__gemm_vec_emit_at(e, &g, &(clade__gemm_places){{1, NULL}, {0, NULL}, {0, &at}}));
  return clade__conv_fold_emit(e, q, at);
}

static void defaults(const clade_query *q, int32_t *config) {
  product p;
  clade_query g = product_of(q, &p);
  clade__gemm_vec_space.defaults(&g, config);
  if (p.attrs.trans_a && taps_of(q->node) == 1) clade__gemm_vec_deepen(&g, config);
}

static bool configs(const clade_query *q, int i, int32_t *config) {
  product p;
  clade_query g = product_of(q, &p);
  return clade__gemm_vec_space.configs(&g, i, config);
}

const clade_space clade__gather_gemm_space = {sizeof(clade_space), clade__gemm_vec_params, defaults, configs};
