/* conv2d and conv2d_data by windows of one place are products of matrices in NCHW: weights, or weights turned, by an
 * image's channels, whose places are columns. gemm's `vec` computes them; no image is converted. To the data by other
 * windows and steps the product has a row for each tap of each channel: a second launch folds it, adding what reaches
 * each result. */
#include "op/conv/conv.h"
#include "op/epilogue.h"
#include "op/gemm/gemm.h"

/* Results that a work-item folds; bytes of a product that is folded. */
enum { MOST_RESULTS = 4096, MOST_FOLDED = 1 << 28 };

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

static bool is_folded(const clade_node *n) {
  const clade__window *w = &((const clade__conv_attrs *)n->attrs)->window;
  return w->kernel[0] * w->kernel[1] > 1 || w->stride[0] > 1 || w->stride[1] > 1;
}
static int64_t taps_of(const clade_node *n) { return n->in[1].shape.dim[2] * n->in[1].shape.dim[3]; }

/* The query with the product for its node, whose first two operands are the node's second and first. What is folded has
 * its epilogue there. */
static clade_query product_of(const clade_query *q, product *p) {
  const clade_node *n = q->node;
  bool folded = is_folded(n);
  memset(p, 0, sizeof *p);
  p->attrs = (clade__gemm_attrs){.trans_a = n->op != &clade__op_conv2d, .alpha = 1};
  if (!folded) p->attrs.epilogue = ((const clade__conv_attrs *)n->attrs)->epilogue;
  p->in[0] = n->in[1];
  p->in[0].shape.rank = 2;
  p->in[0].shape.dim[1] *= taps_of(n);
  p->in[1] = joined(n->in[0]);
  for (int i = 2; i < n->n_in; i++) p->in[i] = joined(n->in[i]);
  p->out = joined(folded ? n->in[0] : n->out[0]);
  p->out.shape.dim[1] = n->out[0].shape.dim[1] * taps_of(n);
  p->node = (clade_node){sizeof p->node, &clade__op_gemm, n->name, &p->attrs, folded ? 2 : n->n_in, 1, p->in, &p->out};
  return (clade_query){sizeof *q, &p->node, q->device, q->row};
}

static double folded_bytes(const clade_node *n) {
  return (double)clade__product(&n->in[0].shape, 2, 4) * (double)n->in[0].shape.dim[0] *
         (double)n->out[0].shape.dim[1] * (double)taps_of(n) * sizeof(float);
}

static const char *floats_of_one_group(const clade_query *q) {
  const clade_node *n = q->node;
  const int64_t weights = clade__up(n->in[1].shape.dim[0], 32) * clade__up(n->in[1].shape.dim[1] * taps_of(n), 32);
  if (((const clade__conv_attrs *)n->attrs)->groups != 1) return "made for one group";
  if (weights > INT32_MAX / 2) return "made for fewer than 2^30 weights, padding counted";
  return n->in[0].dtype == CLADE_F32 ? NULL : "made for operands of f32";
}

const char *clade__gather_point_accept(const clade_query *q) {
  const int32_t *pad = ((const clade__conv_attrs *)q->node->attrs)->window.pad;
  const char *reason = clade__conv_vec_accept(q);
  if (reason) return reason;
  if (is_folded(q->node) || pad[0] || pad[1] || pad[2] || pad[3])
    return "made for windows of one place, step 1, without padding";
  return floats_of_one_group(q);
}

const char *clade__gather_gemm_accept(const clade_query *q) {
  if (q->node->op == &clade__op_conv2d || !is_folded(q->node)) return clade__gather_point_accept(q);
  const char *reason = clade__conv_vec_accept(q);
  if (reason) return reason;
  return folded_bytes(q->node) > MOST_FOLDED ? "made for products of up to 2^28 bytes, which are folded"
                                             : floats_of_one_group(q);
}

/* To the data a row of the product is a column of the weights, whose elements lie far apart: by windows of one place
 * they are turned once, into panels of a tile's rows. */
void clade__gather_gemm_layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  (void)out;
  if (q->node->op == &clade__op_conv2d || taps_of(q->node) > 1) return;
  in[1] = (clade_layout){.axis = 1, .block = (uint16_t)q->row[0], .tile = CLADE_PANELS};
}

/* Weights come from afar for each image, or are copied slower than gemm reckons, which counts where it has few places:
 * those of other windows, which are turned for each image, most of all. What the second cache does not hold each line
 * of the result waits for, unless there are enough products meanwhile. */
double clade__gather_gemm_cost(const clade_query *q) {
  product p;
  clade_query g = product_of(q, &p);
  double results = (double)clade__product(&q->node->out[0].shape, 0, 4);
  double weights = (double)clade__product(&p.in[0].shape, 0, 2) * (double)p.out.shape.dim[0];
  double l2 = (double)q->device->l2_bytes;
  double cycles = clade__gemm_vec_cycles(&g) * CLADE_MAX(q->device->compute_units, 1u) + 0.4 * weights;
  if (is_folded(q->node)) { /* half of the last cache holds what is added up, or it comes from memory */
    const int step = ((const clade__conv_attrs *)q->node->attrs)->window.stride[1];
    const double bytes = folded_bytes(q->node) + (double)clade__product(&p.in[0].shape, 0, 2) * sizeof(float);
    const bool far = taps_of(q->node) > 1 && bytes > (double)clade__last_cache(q->device) / 2;
    cycles += 0.3 * results + ((step <= 2 ? 0.8 : 1.5) + (far ? 2 : 0)) * folded_bytes(q->node) / sizeof(float) + 10000;
  } else {
    cycles += clade__conv_epilogue_cycles(q->node);
  }
  if (q->node->in[0].shape.dim[1] <= CLADE__FEW_INNER && l2 > 0 && clade__node_bytes(q->node) > l2)
    cycles += 0.4 * results;
  return clade__conv_vec_cost(q, cycles);
}

/* Where the product lies that is folded. */
static size_t product_at(const clade_query *g) { return (size_t)clade__up((int64_t)clade__gemm_vec_workspace(g), 64); }
size_t clade__gather_gemm_workspace(const clade_query *q) {
  product p;
  clade_query g = product_of(q, &p);
  size_t own = clade__gemm_vec_workspace(&g);
  return is_folded(q->node) ? product_at(&g) + (size_t)folded_bytes(q->node) : own;
}

static clade_status emit_fold(clade_emit *e, const clade_query *q, size_t from) {
  const clade_node *n = q->node;
  const clade__window *w = &((const clade__conv_attrs *)n->attrs)->window;
  clade__gather g = clade__gather_of(n);
  const int64_t columns = CLADE_MIN(g.result[1], MOST_RESULTS);
  const int64_t lines = CLADE_MAX(CLADE_MIN(g.result[0], MOST_RESULTS / columns), 1);
  const int64_t planes = g.n * g.rows, piece = CLADE_MAX(MOST_RESULTS / (g.result[0] * g.result[1]), 1);
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_fold");
  if (s) s->file = "conv2d";
  clade_emit_define_text(s, "T", clade_dtype_name(n->in[0].dtype));
  clade_emit_define_text(s, "OUT", clade_dtype_name(n->out[0].dtype));
  clade_emit_define(s, "MOST_RESULTS", MOST_RESULTS);
  CLADE_TRY(clade__epilogue_define(s, n));
  CLADE_TRY(clade__epilogue_define16(s, n));
  clade_emit_workspace(s, from, sizeof(float));
  clade_emit_out(s, 0);
  clade__gather_sizes(s, &g);
  clade_emit_index8(s, 8,
                    (int64_t[]){w->kernel[0], w->kernel[1], w->stride[0], w->stride[1], w->pad[0], w->pad[1],
                                w->dilation[0], w->dilation[1]});
  clade_emit_index8(s, 3, (int64_t[]){piece, lines, columns});
  clade__gather_result(s, n);
  const int64_t items =
      (planes + piece - 1) / piece * ((g.result[0] + lines - 1) / lines) * ((g.result[1] + columns - 1) / columns);
  clade_emit_range(s, 1, &(size_t){(size_t)items}, &(size_t){1});
  return CLADE_OK;
}

clade_status clade__gather_gemm_emit(clade_emit *e, const clade_query *q) {
  product p;
  clade_query g = product_of(q, &p);
  if (!is_folded(q->node)) return clade__gemm_vec_emit_as(e, &g, true, NULL);
  size_t at = product_at(&g);
  CLADE_TRY(clade__gemm_vec_emit_as(e, &g, true, &at));
  return emit_fold(e, q, at);
}

static void start(const clade_query *q, int32_t *row) {
  product p;
  clade_query g = product_of(q, &p);
  clade__gemm_vec_space.start(&g, row);
  if (p.attrs.trans_a && taps_of(q->node) == 1) clade__gemm_vec_deepen(&g, row);
}

static bool rows(const clade_query *q, int i, int32_t *row) {
  product p;
  clade_query g = product_of(q, &p);
  return clade__gemm_vec_space.rows(&g, i, row);
}

const clade_space clade__gather_gemm_space = {sizeof(clade_space), clade__gemm_vec_params, start, rows};
