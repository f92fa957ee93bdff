/* conv2d_data and conv2d_weights on CPUs as matrix products in NCHW, computed by gemm's `vec` without converting
 * images. A window matrix has a row per tap and channel and a column per place. conv2d_data multiplies the transposed
 * weights by each image of y, and folds the product, a window matrix (col2im). conv2d_weights unfolds x (im2col), and
 * multiplies y, with a row per channel, by the window matrix; the images of both are side by side, to sum over all of
 * them. */
#include "op/gemm/gemm.h"
#include "op/conv/conv.h"

/* ---- window matrices ---- */
enum { MOST_UNFOLDED = 1 << 26 };
/* Results that a work-item folds; elements that it unfolds. */
enum { MOST_RESULTS = 4096, UNFOLDED = 16384 };

/* Per line of positions: vectors, the remainder one by one, and overhead. What exceeds L2 is slow to read back. */
static double unfold_cycles(const clade_query *q, const clade__window *w, int64_t line, double elements) {
  const int step = w->stride[1], vector = step == 1 ? 16 : step == 2 || step == 4 ? 8 : 1;
  const double one = 1.5 * (double)(line % vector) + (vector > 1 ? 4 : 1.5) * (double)(line / vector) + 25;
  const bool far = elements * sizeof(float) > (double)q->device->l2_bytes;
  return elements * (one / (double)CLADE_MAX(line, 1) + (far ? 2 : 0));
}

/* If matrix and weights exceed half of the last-level cache, the matrix comes from memory. */
static double fold_cycles(const clade_query *q, double elements, double weights) {
  const clade_node *n = q->node;
  const bool far = (elements + weights) * sizeof(float) > (double)clade__last_cache(q->device) / 2;
  return 0.3 * (double)clade__product(&n->out[0].shape, 0, 4) +
         ((clade__conv_window(n)->stride[1] <= 2 ? 0.8 : 1.5) + (far ? 2 : 0)) * elements;
}

/* Emits the sizes, the window, and how the results, in `planes`, are divided into work-items of `most`; returns their
 * number. */
static int64_t emit_windows(clade_kernel_step *s, const clade__conv *c, const clade__window *w, int64_t planes,
                            int64_t most) {
  const int64_t *image = c->forward ? c->source : c->result, *places = c->forward ? c->result : c->source;
  const int64_t wide = CLADE_MIN(c->result[1], CLADE_MAX(most, 1));
  const int64_t high = CLADE_MIN(c->result[0], CLADE_MAX(most / wide, 1)), sets = CLADE_MAX(most / (high * wide), 1);
  CLADE__EMIT8(s, c->n, c->forward ? c->inner : c->rows, c->kernel[0], c->kernel[1], image[0], image[1], places[0],
               places[1]);
  CLADE__EMIT8(s, w->stride[0], w->stride[1], w->pad[0], w->pad[1], w->dilation[0], w->dilation[1]);
  CLADE__EMIT8(s, sets, high, wide);
  return clade__ceil_div(planes, sets) * clade__ceil_div(c->result[0], high) * clade__ceil_div(c->result[1], wide);
}

static void emit_unfold(clade_emit *e, const clade__conv *c, const clade__window *w, int operand, size_t to) {
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_unfold");
  if (s) s->file = "conv2d_unfold";
  clade_emit_in(s, operand);
  clade_emit_workspace(s, to, sizeof(float));
  clade__emit_items(s, emit_windows(s, c, w, c->n * c->inner * c->kernel[0], UNFOLDED / c->kernel[1]));
}

static clade_status emit_fold(clade_emit *e, const clade_query *q, const clade__conv *c, size_t from) {
  const clade__number *defines = CLADE__DEFINES({"MOST_RESULTS", MOST_RESULTS});
  clade_kernel_step *s;
  CLADE_TRY(clade__gather_begin(e, q, "conv2d_fold", CLADE__WIDE, defines, &s));
  if (s) s->file = "conv2d_unfold";
  clade_emit_workspace(s, from, sizeof(float));
  clade_emit_out(s, 0);
  return clade__gather_end(s, q, emit_windows(s, c, clade__conv_window(q->node), c->n * c->rows, MOST_RESULTS));
}

/* ---- products ---- */
typedef struct product {
  clade_node node;
  clade_type in[2], out;
  clade__gemm_attrs attrs;
  clade__conv c;
  double matrix; /* elements of the window matrix */
} product;

#define F32(...) \
  (clade_type) { .dtype = CLADE_F32, .shape = CLADE_SHAPE(__VA_ARGS__) }

/* The query for the product. */
static clade_query product_of(const clade_query *q, product *p) {
  const clade__conv c = clade__conv_of(q->node);
  memset(p, 0, sizeof *p);
  p->c = c;
  p->attrs.alpha = 1;
  if (c.forward) { /* conv2d_weights */
    const int64_t places = c.n * c.result[0] * c.result[1];
    p->matrix = (double)c.columns * (double)places;
    p->attrs.trans_b = true;
    p->in[0] = F32(c.rows, places);
    p->in[1] = F32(c.columns, places);
    p->out = F32(c.rows, c.columns);
  } else {
    const int64_t places = c.source[0] * c.source[1];
    p->matrix = (double)c.n * (double)(c.rows * c.taps) * (double)places;
    p->attrs.trans_a = true;
    p->in[0] = F32(c.inner, c.rows * c.taps);
    p->in[1] = F32(c.n, c.inner, places);
    p->out = F32(c.n, c.rows * c.taps, places);
  }
  p->node = (clade_node){sizeof p->node, &clade__op_gemm, q->node->name, &p->attrs, 2, 1, p->in, &p->out};
  return (clade_query){sizeof *q, &p->node, q->device, q->config};
}

static void defaults(const clade_query *q, int32_t *config) {
  product p;
  const clade_query g = product_of(q, &p);
  clade__gemm_vec_space.defaults(&g, config);
}

static bool configs(const clade_query *q, int i, int32_t *config) {
  product p;
  const clade_query g = product_of(q, &p);
  return clade__gemm_vec_space.configs(&g, i, config);
}
static const clade_space space = {sizeof(clade_space), clade__gemm_vec_params, defaults, configs};

/* Offset of the matrix in the workspace, behind what the product needs. */
static size_t matrix_at(const clade_query *product) {
  return (size_t)clade__up((int64_t)clade__gemm_vec_workspace(product), 64);
}

static const char *accept(const clade_query *q) {
  product p;
  product_of(q, &p);
  CLADE__REFUSE(clade__conv_refuses(q, CLADE__CONV_ONE_GROUP | CLADE__CONV_F32 | CLADE__CONV_FEW | CLADE__CONV_SOME));
  if (p.c.forward ? p.c.taps < 2 : p.c.point) return "requires windows larger than 1 x 1, or strides";
  return p.matrix > MOST_UNFOLDED ? "requires windows that read up to 2^26 elements" : NULL;
}

/* ---- conv2d_data ---- */
/* Adds to gemm's cost: weights that are read from memory for each image, or packed more slowly than gemm estimates,
 * since they are transposed; and the fold. */
static double cost(const clade_query *q) {
  product p;
  const clade_query g = product_of(q, &p);
  const double weights = (double)clade__product(&p.in[0].shape, 0, 2);
  return clade__conv_cost(q, clade__gemm_vec_cycles(&g) * (double)clade__conv_units(q) + 0.4 * weights * (double)p.c.n +
                                 10000 + fold_cycles(q, p.matrix, weights));
}

static size_t workspace(const clade_query *q) {
  product p;
  const clade_query g = product_of(q, &p);
  return matrix_at(&g) + (size_t)p.matrix * sizeof(float);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  product p;
  const clade_query g = product_of(q, &p);
  const size_t at = matrix_at(&g);
  CLADE_TRY(clade__gemm_vec_emit_at(e, &g, &(clade__gemm_places){{1, NULL}, {0, NULL}, {0, &at}}));
  return emit_fold(e, q, &p.c, at);
}

const clade_impl clade__gather_gemm =
    CLADE__CONV_IMPL(.name = "gemm", CLADE__CONV_VEC, .accept = accept, .cost = cost, .workspace = workspace,
                     .emit = emit, .space = &space, .file = "gemm");

/* ---- conv2d_weights ---- */
/* Elements of y with images side by side, if there are several. */
static double relaid(const clade__conv *c) {
  return c->n > 1 ? (double)c->rows * (double)c->n * (double)(c->result[0] * c->result[1]) : 0;
}
static const clade__window point = {.kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};

static double weights_cost(const clade_query *q) {
  product p;
  const clade_query g = product_of(q, &p);
  double cycles = clade__gemm_vec_cycles(&g) * (double)clade__conv_units(q) + 10000;
  cycles += unfold_cycles(q, clade__conv_window(q->node), p.c.result[1], p.matrix);
  cycles += unfold_cycles(q, &point, p.c.result[1], relaid(&p.c));
  return clade__conv_cost(q, cycles);
}

static size_t rows_at(const clade_query *g, const product *p) {
  return matrix_at(g) + (size_t)clade__up((int64_t)p->matrix, 16) * sizeof(float);
}

static size_t weights_workspace(const clade_query *q) {
  product p;
  const clade_query g = product_of(q, &p);
  return rows_at(&g, &p) + (size_t)relaid(&p.c) * sizeof(float);
}

static clade_status weights_emit(clade_emit *e, const clade_query *q) {
  product p;
  const clade_query g = product_of(q, &p);
  const size_t matrix = matrix_at(&g), rows = rows_at(&g, &p);
  const bool several = p.c.n > 1;
  emit_unfold(e, &p.c, clade__conv_window(q->node), 0, matrix);
  clade__conv y = p.c; /* its places as windows of one place */
  y.inner = y.rows;
  for (int i = 0; i < 2; i++) {
    y.source[i] = y.result[i];
    y.kernel[i] = 1;
  }
  if (several) emit_unfold(e, &y, &point, 1, rows);
  return clade__gemm_vec_emit_at(e, &g, &(clade__gemm_places){{1, several ? &rows : NULL}, {0, &matrix}, {0, NULL}});
}

const clade_impl clade__weights_gemm =
    CLADE__CONV_IMPL(.name = "gemm", CLADE__CONV_VEC, .accept = accept, .cost = weights_cost,
                     .workspace = weights_workspace, .emit = weights_emit, .space = &space, .file = "gemm");
