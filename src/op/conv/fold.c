/* im2col and col2im around the matrix products of `gemm`: unfolds windows into a matrix, and adds the rows of one to
 * the results that they belong to. */
#include "op/conv/conv.h"
#include "op/elt/epilogue.h"
#include "op/gemm/gemm.h"

/* Results that a work-item folds; elements that it unfolds. */
enum { MOST_RESULTS = 4096, UNFOLDED = 16384 };

static int64_t pieces(int64_t all, int64_t piece) { return (all + piece - 1) / piece; }

size_t clade__conv_matrix_at(const clade_query *product) {
  return (size_t)clade__up((int64_t)clade__gemm_vec_workspace(product), 64);
}

/* Per line of positions: vectors, the remainder one by one, and overhead. What exceeds L2 is slow to read back. */
double clade__conv_unfold_cycles(const clade_query *q, const clade__window *w, int64_t line, double elements) {
  const int step = w->stride[1], vector = step == 1 ? 16 : step == 2 || step == 4 ? 8 : 1;
  const double one = 1.5 * (double)(line % vector) + (vector > 1 ? 4 : 1.5) * (double)(line / vector) + 25;
  const bool far = elements * sizeof(float) > (double)q->device->l2_bytes;
  return elements * (one / (double)CLADE_MAX(line, 1) + (far ? 2 : 0));
}

void clade__conv_unfold_emit(clade_emit *e, const clade__unfolding *u, size_t to) {
  const clade__window *w = u->window;
  const clade_shape *x = u->x, *y = u->y;
  const int64_t lines = x->dim[0] * x->dim[1] * w->kernel[0], places = y->dim[2] * y->dim[3];
  const int64_t wide = CLADE_MIN(y->dim[3], CLADE_MAX(UNFOLDED / w->kernel[1], 1));
  const int64_t high = CLADE_MIN(y->dim[2], CLADE_MAX(UNFOLDED / (w->kernel[1] * wide), 1));
  const int64_t sets = CLADE_MAX(UNFOLDED / (w->kernel[1] * high * wide), 1);
  const int64_t rows = x->dim[1] * w->kernel[0] * w->kernel[1];
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_unfold");
  if (s) s->file = "conv2d_unfold";
  clade_emit_in(s, u->operand);
  clade_emit_workspace(s, to, sizeof(float));
  clade_emit_index8(
      s, 8, (int64_t[]){x->dim[0], x->dim[1], w->kernel[0], w->kernel[1], x->dim[2], x->dim[3], y->dim[2], y->dim[3]});
  clade_emit_index8(s, 8,
                    (int64_t[]){w->stride[0], w->stride[1], w->pad[0], w->pad[1], w->dilation[0], w->dilation[1],
                                u->beside ? places : rows * places, u->beside ? x->dim[0] * places : places});
  clade_emit_index8(s, 3, (int64_t[]){sets, high, wide});
  const int64_t items = pieces(lines, sets) * pieces(y->dim[2], high) * pieces(y->dim[3], wide);
  clade_emit_range(s, 1, &(size_t){(size_t)items}, &(size_t){1});
}

/* If matrix and weights exceed half of the last-level cache, the matrix comes from memory. */
double clade__conv_fold_cycles(const clade_query *q, double elements, double weights) {
  const clade_node *n = q->node;
  const clade__window *w = clade__conv_window(n);
  const bool taps = w->kernel[0] * w->kernel[1] > 1;
  const bool far = taps && (elements + weights) * sizeof(float) > (double)clade__last_cache(q->device) / 2;
  return 0.3 * (double)clade__product(&n->out[0].shape, 0, 4) +
         ((w->stride[1] <= 2 ? 0.8 : 1.5) + (far ? 2 : 0)) * elements;
}

clade_status clade__conv_fold_emit(clade_emit *e, const clade_query *q, size_t from) {
  const clade_node *n = q->node;
  const clade__window *w = clade__conv_window(n);
  const clade__gather g = clade__gather_of(n);
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
  const int64_t items = pieces(planes, piece) * pieces(g.result[0], lines) * pieces(g.result[1], columns);
  clade_emit_range(s, 1, &(size_t){(size_t)items}, &(size_t){1});
  return CLADE_OK;
}
