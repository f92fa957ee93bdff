/* conv2d_weights on CPUs as a matrix product: y, with a row per channel, times the window matrix, with a row per tap
 * and channel, summed over the positions of all images. Computed by gemm's `vec`. */
#include "op/conv/weights.h"
#include "op/gemm/gemm.h"

typedef struct product {
  clade_node node;
  clade_type in[2], out;
  clade__gemm_attrs attrs;
} product;

static clade_query product_of(const clade_query *q, product *p) {
  const clade__weights w = clade__weights_of(q->node, false);
  const int64_t places = w.n * w.result[0] * w.result[1];
  memset(p, 0, sizeof *p);
  p->attrs = (clade__gemm_attrs){.trans_b = true, .alpha = 1};
  p->in[0] = (clade_type){.dtype = CLADE_F32, .shape = CLADE_SHAPE(w.rows, places)};
  p->in[1] = (clade_type){.dtype = CLADE_F32, .shape = CLADE_SHAPE(w.columns, places)};
  p->out = (clade_type){.dtype = CLADE_F32, .shape = CLADE_SHAPE(w.rows, w.columns)};
  p->node = (clade_node){sizeof p->node, &clade__op_gemm, q->node->name, &p->attrs, 2, 1, p->in, &p->out};
  return (clade_query){sizeof *q, &p->node, q->device, q->config};
}

/* Elements of the window matrix, and of y with images side by side if there are several. */
static double unfolded(const clade__weights *w) {
  return (double)w->columns * (double)w->n * (double)(w->result[0] * w->result[1]);
}
static double relaid(const clade__weights *w) {
  return w->n > 1 ? (double)w->rows * (double)w->n * (double)(w->result[0] * w->result[1]) : 0;
}

const char *clade__weights_gemm_accept(const clade_query *q) {
  const char *reason = clade__conv_vec_accept(q);
  const clade__weights w = clade__weights_of(q->node, false);
  if (reason) return reason;
  if (w.groups != 1) return "made for one group";
  if (w.kernel[0] * w.kernel[1] < 2) return "made for windows of more than one place";
  if (q->node->in[0].dtype != CLADE_F32) return "made for operands of f32";
  if (w.outputs < 1 || w.n * w.result[0] * w.result[1] < 1) return "made for what is not empty";
  return unfolded(&w) > CLADE__MOST_UNFOLDED ? "made for windows that read up to 2^26 elements" : NULL;
}

static const clade__window point = {.kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};

double clade__weights_gemm_cost(const clade_query *q) {
  const clade__weights w = clade__weights_of(q->node, false);
  product p;
  clade_query g = product_of(q, &p);
  double cycles = clade__gemm_vec_cycles(&g) * CLADE_MAX(q->device->compute_units, 1u) + 10000;
  cycles += clade__conv_unfold_cycles(q, clade__conv_window(q->node), w.result[1], unfolded(&w));
  cycles += clade__conv_unfold_cycles(q, &point, w.result[1], relaid(&w));
  return clade__conv_vec_cost(q, cycles);
}

static size_t rows_at(const clade_query *g, const clade__weights *w) {
  return clade__conv_matrix_at(g) + (size_t)clade__up((int64_t)unfolded(w), 16) * sizeof(float);
}
size_t clade__weights_gemm_workspace(const clade_query *q) {
  const clade__weights w = clade__weights_of(q->node, false);
  product p;
  clade_query g = product_of(q, &p);
  return rows_at(&g, &w) + (size_t)relaid(&w) * sizeof(float);
}

clade_status clade__weights_gemm_emit(clade_emit *e, const clade_query *q) {
  const clade__weights w = clade__weights_of(q->node, false);
  const clade_shape *x = &q->node->in[0].shape, *y = &q->node->in[1].shape;
  product p;
  clade_query g = product_of(q, &p);
  const size_t matrix = clade__conv_matrix_at(&g), rows = rows_at(&g, &w);
  clade__conv_unfold_emit(e, &(clade__unfolding){clade__conv_window(q->node), 0, x, y, true}, matrix);
  if (w.n > 1) clade__conv_unfold_emit(e, &(clade__unfolding){&point, 1, y, y, true}, rows);
  return clade__gemm_vec_emit_at(e, &g, &(clade__gemm_places){{1, w.n > 1 ? &rows : NULL}, {0, &matrix}, {0, NULL}});
}

static void defaults(const clade_query *q, int32_t *config) {
  product p;
  clade_query g = product_of(q, &p);
  clade__gemm_vec_space.defaults(&g, config);
}
static bool configs(const clade_query *q, int i, int32_t *config) {
  product p;
  clade_query g = product_of(q, &p);
  return clade__gemm_vec_space.configs(&g, i, config);
}
const clade_space clade__weights_gemm_space = {sizeof(clade_space), clade__gemm_vec_params, defaults, configs};
