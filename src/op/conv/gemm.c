/* conv2d and conv2d_data by windows of one place are products of matrices in NCHW: weights, or weights turned, by an
 * image's channels, whose places are columns. gemm's `vec` computes them; no image is converted. By steps of two to the
 * data, three of four results are zeros: a second launch stores them between those of the product. */
#include "op/conv/conv.h"
#include "op/epilogue.h"
#include "op/gemm/gemm.h"

/* Of a line that is spread; results of a work-item. */
enum { MOST_COLUMNS = 2000, PIECE = 4096 };

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

static bool is_spread(const clade_node *n) { return ((const clade__conv_attrs *)n->attrs)->window.stride[0] == 2; }

/* The query with the product for its node, whose first two operands are the node's second and first. What is spread has
 * its epilogue there. */
static clade_query product_of(const clade_query *q, product *p) {
  const clade_node *n = q->node;
  bool spread = is_spread(n);
  memset(p, 0, sizeof *p);
  p->attrs = (clade__gemm_attrs){.trans_a = n->op != &clade__op_conv2d, .alpha = 1};
  if (!spread) p->attrs.epilogue = ((const clade__conv_attrs *)n->attrs)->epilogue;
  p->in[0] = n->in[1];
  p->in[0].shape.rank = 2;
  p->in[1] = joined(n->in[0]);
  for (int i = 2; i < n->n_in; i++) p->in[i] = joined(n->in[i]);
  p->out = joined(spread ? n->in[0] : n->out[0]);
  p->out.shape.dim[1] = n->out[0].shape.dim[1];
  p->node = (clade_node){sizeof p->node, &clade__op_gemm, n->name, &p->attrs, spread ? 2 : n->n_in, 1, p->in, &p->out};
  return (clade_query){sizeof *q, &p->node, q->device, q->row};
}

const char *clade__gather_gemm_accept(const clade_query *q) {
  const clade__conv_attrs *a = q->node->attrs;
  const clade__window *w = &a->window;
  const char *reason = clade__conv_vec_accept(q);
  if (reason) return reason;
  bool forward = q->node->op == &clade__op_conv2d;
  for (int i = 0; i < 2; i++)
    if (q->node->in[1].shape.dim[2 + i] != 1 || w->stride[i] != w->stride[0] || w->stride[i] > (forward ? 1 : 2) ||
        w->pad[i] || w->pad[2 + i])
      return "made for windows of one place, step 1, or 2 to the data, without padding";
  if (is_spread(q->node) && q->node->out[0].shape.dim[3] > MOST_COLUMNS) return "made for shorter lines";
  if (a->groups != 1) return "made for one group";
  const clade_dim *weights = q->node->in[1].shape.dim;
  if (clade__up(weights[0], 32) * clade__up(weights[1], 32) > INT32_MAX / 2)
    return "made for fewer than 2^30 weights, padding counted";
  return q->node->in[0].dtype == CLADE_F32 ? NULL : "made for operands of f32";
}

/* To the data a row of the product is a column of the weights, whose elements lie far apart: they are turned once, into
 * panels of a tile's rows. */
void clade__gather_gemm_layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  (void)out;
  if (q->node->op == &clade__op_conv2d) return;
  in[1] = (clade_layout){.axis = 1, .block = (uint16_t)q->row[0], .tile = CLADE_PANELS};
}

/* Weights come from afar for each image, or are copied slower than gemm reckons, which counts where it has few places.
 * What the second cache does not hold each line of the result waits for, unless there are enough products meanwhile. */
double clade__gather_gemm_cost(const clade_query *q) {
  product p;
  clade_query g = product_of(q, &p);
  double results = (double)clade__product(&q->node->out[0].shape, 0, 4);
  double weights = (double)clade__product(&p.in[0].shape, 0, 2) * (double)p.out.shape.dim[0];
  double l2 = (double)q->device->l2_bytes;
  double cycles = clade__gemm_vec_cycles(&g) * CLADE_MAX(q->device->compute_units, 1u) + 0.4 * weights;
  if (is_spread(q->node))
    cycles += 0.3 * results + 10000;
  else
    cycles += clade__conv_epilogue_cycles(q->node);
  if (q->node->in[0].shape.dim[1] <= CLADE__FEW_INNER && l2 > 0 && clade__node_bytes(q->node) > l2)
    cycles += 0.4 * results;
  return clade__conv_vec_cost(q, cycles);
}

/* Where the product lies that is spread, of which conv2d_spread reads eight beyond the end. */
static size_t product_at(const clade_query *g) { return (size_t)clade__up((int64_t)clade__gemm_vec_workspace(g), 64); }
size_t clade__gather_gemm_workspace(const clade_query *q) {
  product p;
  clade_query g = product_of(q, &p);
  if (!is_spread(q->node)) return clade__gemm_vec_workspace(&g);
  return product_at(&g) + (size_t)(clade__product(&p.out.shape, 0, 3) + 8) * sizeof(float);
}

static clade_status emit_spread(clade_emit *e, const clade_query *q, size_t from) {
  const clade_node *n = q->node;
  clade__gather g = clade__gather_of(n);
  int64_t planes = g.n * g.rows, piece = CLADE_MAX(PIECE / CLADE_MAX(g.result[0] * g.result[1], 1), 1);
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_spread");
  if (s) s->file = "conv2d";
  clade_emit_define_text(s, "T", clade_dtype_name(n->in[0].dtype));
  clade_emit_define_text(s, "OUT", clade_dtype_name(n->out[0].dtype));
  clade_emit_define(s, "MOST_COLUMNS", MOST_COLUMNS);
  CLADE_TRY(clade__epilogue_define(s, n));
  CLADE_TRY(clade__epilogue_define16(s, n));
  clade_emit_workspace(s, from, sizeof(float));
  clade_emit_out(s, 0);
  clade__gather_sizes(s, &g);
  clade_emit_index(s, piece);
  clade__gather_result(s, n);
  clade_emit_range(s, 1, &(size_t){(size_t)((planes + piece - 1) / piece)}, &(size_t){1});
  return CLADE_OK;
}

clade_status clade__gather_gemm_emit(clade_emit *e, const clade_query *q) {
  product p;
  clade_query g = product_of(q, &p);
  if (!is_spread(q->node)) return clade__gemm_vec_emit_as(e, &g, true, NULL);
  size_t at = product_at(&g);
  CLADE_TRY(clade__gemm_vec_emit_as(e, &g, true, &at));
  return emit_spread(e, q, at);
}

static void start(const clade_query *q, int32_t *row) {
  product p;
  clade_query g = product_of(q, &p);
  clade__gemm_vec_space.start(&g, row);
  if (p.attrs.trans_a) clade__gemm_vec_deepen(&g, row);
}

static bool rows(const clade_query *q, int i, int32_t *row) {
  product p;
  clade_query g = product_of(q, &p);
  return clade__gemm_vec_space.rows(&g, i, row);
}

const clade_space clade__gather_gemm_space = {sizeof(clade_space), clade__gemm_vec_params, start, rows};
