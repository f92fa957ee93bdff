/* im2col and col2im around the matrix products of `gemm`: unfolds windows into a matrix, and adds the rows of one to
 * the results that they belong to. */
#include "op/conv/conv.h"

/* Results that a work-item folds; elements that it unfolds. */
enum { MOST_RESULTS = 4096, UNFOLDED = 16384 };

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
  CLADE__EMIT8(s, x->dim[0], x->dim[1], w->kernel[0], w->kernel[1], x->dim[2], x->dim[3], y->dim[2], y->dim[3]);
  CLADE__EMIT8(s, w->stride[0], w->stride[1], w->pad[0], w->pad[1], w->dilation[0], w->dilation[1],
               u->beside ? places : rows * places, u->beside ? x->dim[0] * places : places);
  CLADE__EMIT8(s, sets, high, wide);
  clade__emit_items(s,
                    clade__ceil_div(lines, sets) * clade__ceil_div(y->dim[2], high) * clade__ceil_div(y->dim[3], wide));
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
