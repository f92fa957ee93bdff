/* Convolutions on CPUs as matrix products in NCHW, computed by gemm's `vec` without converting images. For 1 x 1
 * windows conv2d and conv2d_data are the (transposed) weights times an image's channels, with its pixels as columns.
 * For other windows and strides a window matrix has a row per tap and channel: conv2d unfolds it before the product
 * (im2col), conv2d_data folds it after the product (col2im). conv2d_weights multiplies y, with a row per channel, by
 * the window matrix, and sums over the positions of all images. */
#include "op/gemm/gemm.h"
#include "op/conv/conv.h"

/* ---- window matrices (im2col and col2im): images one after another or, if `beside`, side by side within each row ----
 */
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

static void emit_unfold(clade_emit *e, const clade__conv *c, const clade__window *w, int operand, bool beside,
                        size_t to) {
  const int64_t lines = c->n * c->inner * c->kernel[0], places = c->result[0] * c->result[1];
  const int64_t wide = CLADE_MIN(c->result[1], CLADE_MAX(UNFOLDED / c->kernel[1], 1));
  const int64_t high = CLADE_MIN(c->result[0], CLADE_MAX(UNFOLDED / (c->kernel[1] * wide), 1));
  const int64_t sets = CLADE_MAX(UNFOLDED / (c->kernel[1] * high * wide), 1);
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_unfold");
  if (s) s->file = "conv2d_unfold";
  clade_emit_in(s, operand);
  clade_emit_workspace(s, to, sizeof(float));
  CLADE__EMIT8(s, c->n, c->inner, c->kernel[0], c->kernel[1], c->source[0], c->source[1], c->result[0], c->result[1]);
  CLADE__EMIT8(s, w->stride[0], w->stride[1], w->pad[0], w->pad[1], w->dilation[0], w->dilation[1],
               beside ? places : c->columns * places, beside ? c->n * places : places);
  CLADE__EMIT8(s, sets, high, wide);
  clade__emit_items(s, clade__ceil_div(lines, sets) * clade__ceil_div(c->result[0], high) *
                           clade__ceil_div(c->result[1], wide));
}

/* If matrix and weights exceed half of the last-level cache, the matrix comes from memory. */
static double fold_cycles(const clade_query *q, double elements, double weights) {
  const clade_node *n = q->node;
  const clade__window *w = clade__conv_window(n);
  const bool taps = w->kernel[0] * w->kernel[1] > 1;
  const bool far = taps && (elements + weights) * sizeof(float) > (double)clade__last_cache(q->device) / 2;
  return 0.3 * (double)clade__product(&n->out[0].shape, 0, 4) +
         ((w->stride[1] <= 2 ? 0.8 : 1.5) + (far ? 2 : 0)) * elements;
}

static clade_status emit_fold(clade_emit *e, const clade_query *q, size_t from) {
  const clade__window *w = clade__conv_window(q->node);
  const clade__conv g = clade__conv_of(q->node);
  const int64_t columns = CLADE_MIN(g.result[1], MOST_RESULTS);
  const int64_t lines = CLADE_MAX(CLADE_MIN(g.result[0], MOST_RESULTS / columns), 1);
  const int64_t planes = g.n * g.rows, piece = CLADE_MAX(MOST_RESULTS / (g.result[0] * g.result[1]), 1);
  const clade__number *defines = CLADE__DEFINES({"MOST_RESULTS", MOST_RESULTS});
  clade_kernel_step *s;
  CLADE_TRY(clade__gather_begin(e, q, "conv2d_fold", CLADE__SIXTEEN, defines, &s));
  if (s) s->file = "conv2d";
  clade_emit_workspace(s, from, sizeof(float));
  clade_emit_out(s, 0);
  clade__conv_sizes(s, &g);
  CLADE__EMIT8(s, w->kernel[0], w->kernel[1], w->stride[0], w->stride[1], w->pad[0], w->pad[1], w->dilation[0],
               w->dilation[1]);
  CLADE__EMIT8(s, piece, lines, columns);
  return clade__gather_end(s, q,
                           clade__ceil_div(planes, piece) * clade__ceil_div(g.result[0], lines) *
                               clade__ceil_div(g.result[1], columns));
}

/* ---- products ---- */
typedef struct product {
  clade_node node;
  clade_type in[CLADE__GEMM_OPERANDS], out;
  clade__gemm_attrs attrs;
  clade__conv c;
  double matrix; /* elements of the window matrix */
} product;

/* Merges height and width. */
static clade_type joined(clade_type t) {
  clade_shape *s = &t.shape;
  if (s->rank < 2) return t;
  s->dim[s->rank - 2] *= s->dim[s->rank - 1];
  s->rank--;
  return t;
}

/* Sets the operands of the product of conv2d or conv2d_data: the node's second and first. If the product is folded, the
 * fold applies the epilogue. Returns the number of operands. */
static int gather_product(const clade_node *n, product *p) {
  const clade__conv *c = &p->c;
  const bool folded = !c->forward && !c->point;
  const clade_type *images = c->forward ? &n->in[0] : &n->out[0];
  clade_type matrix = joined(c->forward ? n->out[0] : n->in[0]); /* as an image with that many channels */
  matrix.dtype = CLADE_F32;
  matrix.shape.dim[1] = images->shape.dim[1] * c->taps;
  p->matrix = (double)matrix.shape.dim[0] * (double)matrix.shape.dim[1] * (double)matrix.shape.dim[2];
  p->attrs.trans_a = !c->forward;
  if (!folded) p->attrs.epilogue = ((const clade__conv_attrs *)n->attrs)->epilogue;
  p->in[0] = n->in[1];
  p->in[0].shape.rank = 2;
  p->in[0].shape.dim[1] *= c->taps;
  p->in[1] = c->forward && !c->point ? matrix : joined(n->in[0]);
  for (int i = 2; i < n->n_in; i++) p->in[i] = joined(n->in[i]);
  p->out = folded ? matrix : joined(n->out[0]);
  return folded ? 2 : n->n_in;
}

static int weights_product(product *p) {
  const clade__conv *c = &p->c;
  const int64_t places = c->n * c->result[0] * c->result[1];
  p->matrix = (double)c->columns * (double)c->n * (double)(c->result[0] * c->result[1]);
  p->attrs.trans_b = true;
  p->in[0] = (clade_type){.dtype = CLADE_F32, .shape = CLADE_SHAPE(c->rows, places)};
  p->in[1] = (clade_type){.dtype = CLADE_F32, .shape = CLADE_SHAPE(c->columns, places)};
  p->out = (clade_type){.dtype = CLADE_F32, .shape = CLADE_SHAPE(c->rows, c->columns)};
  return 2;
}

/* The query for the product. */
static clade_query product_of(const clade_query *q, product *p) {
  const clade_node *n = q->node;
  memset(p, 0, sizeof *p);
  p->c = clade__conv_of(n);
  p->attrs.alpha = 1;
  const int n_in = n->op == &clade__op_conv2d_weights ? weights_product(p) : gather_product(n, p);
  p->node = (clade_node){sizeof p->node, &clade__op_gemm, n->name, &p->attrs, n_in, 1, p->in, &p->out};
  return (clade_query){sizeof *q, &p->node, q->device, q->config};
}

static void defaults(const clade_query *q, int32_t *config) {
  product p;
  const clade_query g = product_of(q, &p);
  clade__gemm_vec_space.defaults(&g, config);
  if (!p.c.forward && p.c.taps == 1) clade__gemm_vec_deepen(&g, config);
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

/* ---- conv2d and conv2d_data ---- */
static const char *refuses(const clade_query *q, unsigned windows) {
  const clade_shape *w = &q->node->in[1].shape;
  const int64_t weights = clade__up(w->dim[0], 32) * clade__up(w->dim[1] * w->dim[2] * w->dim[3], 32);
  CLADE__REFUSE(clade__conv_refuses(q, windows | CLADE__CONV_ONE_GROUP | CLADE__CONV_F32 | CLADE__CONV_FEW));
  return weights > INT32_MAX / 2 ? "made for fewer than 2^30 weights, padding counted" : NULL;
}

const char *clade__gather_point_refuses(const clade_query *q) { return refuses(q, CLADE__CONV_POINT); }

static const char *accept(const clade_query *q) {
  product p;
  product_of(q, &p);
  return !p.c.point && p.matrix > MOST_UNFOLDED ? "made for windows that read up to 2^26 elements" : refuses(q, 0);
}

/* In conv2d_data a row of the product is a column of the weights, which is strided; for 1 x 1 windows the weights are
 * packed once, into panels of a tile's rows. */
static void layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  const clade__conv c = clade__conv_of(q->node);
  (void)out;
  if (!c.forward && c.taps == 1) in[1] = clade__gather_panels(q, q->config[0]);
}

/* Adds to gemm's cost: weights that are read from memory for each image, or packed more slowly than gemm estimates,
 * above all transposed ones; and results that exceed L2, unless there are enough products to hide that. */
static double cost(const clade_query *q) {
  const clade_node *n = q->node;
  product p;
  const clade_query g = product_of(q, &p);
  const double weights = (double)clade__product(&p.in[0].shape, 0, 2), l2 = (double)q->device->l2_bytes;
  const bool point = p.c.point, forward = p.c.forward;
  double cycles = clade__gemm_vec_cycles(&g) * (double)clade__conv_units(q);
  cycles += 0.4 * weights * (double)p.out.shape.dim[0];
  if (!point)
    cycles += 10000 + (forward ? unfold_cycles(q, clade__conv_window(n), n->out[0].shape.dim[3], p.matrix)
                               : fold_cycles(q, p.matrix, weights));
  if (point || forward) cycles += clade__conv_epilogue_cycles(n);
  if (p.in[1].shape.dim[1] <= CLADE__FEW_INNER && l2 > 0 && clade__node_bytes(n) > l2)
    cycles += 0.4 * (double)clade__product(&n->out[0].shape, 0, 4);
  return clade__conv_cost(q, cycles);
}

static size_t workspace(const clade_query *q) {
  product p;
  const clade_query g = product_of(q, &p);
  return p.c.point ? clade__gemm_vec_workspace(&g) : matrix_at(&g) + (size_t)p.matrix * sizeof(float);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  product p;
  const clade_query g = product_of(q, &p);
  if (p.c.point) return clade__gemm_vec_emit_at(e, &g, &clade__gemm_swapped);
  const size_t at = matrix_at(&g);
  if (p.c.forward) {
    emit_unfold(e, &p.c, clade__conv_window(q->node), 0, false, at);
    return clade__gemm_vec_emit_at(e, &g, &(clade__gemm_places){{1, NULL}, {0, &at}, {0, NULL}});
  }
  CLADE_TRY(clade__gemm_vec_emit_at(e, &g, &(clade__gemm_places){{1, NULL}, {0, NULL}, {0, &at}}));
  return emit_fold(e, q, at);
}

const clade_impl clade__gather_gemm =
    CLADE__CONV_IMPL(.name = "gemm", CLADE__CONV_VEC, .accept = accept, .layouts = layouts, .cost = cost,
                     .workspace = workspace, .emit = emit, .space = &space, .file = "gemm");

/* ---- conv2d_weights ---- */
static const char *weights_accept(const clade_query *q) {
  product p;
  product_of(q, &p);
  CLADE__REFUSE(clade__conv_refuses(q, CLADE__CONV_ONE_GROUP | CLADE__CONV_F32 | CLADE__CONV_FEW | CLADE__CONV_SOME));
  if (p.c.taps < 2) return "made for windows of more than one place";
  return p.matrix > MOST_UNFOLDED ? "made for windows that read up to 2^26 elements" : NULL;
}

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
  emit_unfold(e, &p.c, clade__conv_window(q->node), 0, true, matrix);
  clade__conv y = p.c; /* its places as windows of one place */
  y.inner = y.columns = y.rows;
  for (int i = 0; i < 2; i++) {
    y.source[i] = y.result[i];
    y.kernel[i] = 1;
  }
  if (several) emit_unfold(e, &y, &point, 1, true, rows);
  return clade__gemm_vec_emit_at(e, &g, &(clade__gemm_places){{1, several ? &rows : NULL}, {0, &matrix}, {0, NULL}});
}

const clade_impl clade__weights_gemm =
    CLADE__CONV_IMPL(.name = "gemm", CLADE__CONV_VEC, .accept = weights_accept, .cost = weights_cost,
                     .workspace = weights_workspace, .emit = weights_emit, .space = &space, .file = "gemm");
