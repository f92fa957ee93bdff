/* conv2d of 8-bit integers on CPUs, dense: image and weights are copied as pairs of channels in 16-bit halves of a
 * word, which one instruction multiplies and adds to 32-bit sums. This file has sizes and cost. */
#include "op/conv/conv.h"
#include "op/elt/epilogue.h"

enum { LANES = 16, ROWS = 4, MOST_TAPS = 128 };

typedef struct plan {
  clade__gather g;
  int64_t rows;                /* of the result, per tile */
  int64_t blocks, pairs, taps; /* of output channels in a group; of its input channels; of the window */
  int64_t step[2], part[2];    /* strides; height and width of a phase: every step-th pixel of the padded image */
  int64_t vectors;             /* of a phase's pixels, up to the last result */
  int64_t x_words, w_words;    /* sizes of the copies */
} plan;

static plan plan_of(const clade_node *n) {
  const clade__window *w = clade__conv_window(n);
  plan p = {.g = clade__gather_of(n)};
  p.rows = p.g.rows == 1 ? 1 : ROWS;
  p.blocks = (p.g.rows + p.rows - 1) / p.rows;
  p.pairs = (p.g.inner + 1) / 2;
  p.taps = p.g.kernel[0] * p.g.kernel[1];
  for (int i = 0; i < 2; i++) {
    p.step[i] = w->stride[i];
    p.part[i] = (p.g.source[i] + w->pad[i] + w->pad[2 + i] + p.step[i] - 1) / p.step[i];
  }
  p.vectors = ((p.g.result[0] - 1) * p.part[1] + p.g.result[1] + LANES - 1) / LANES;
  p.x_words = p.g.n * p.g.groups * p.pairs * p.step[0] * p.step[1] * p.part[0] * p.part[1] + LANES; /* read past */
  p.w_words = p.g.groups * p.blocks * p.pairs * p.taps * p.rows;
  return p;
}

const char *clade__gather_bytes_accept(const clade_query *q) {
  const clade_dtype x = q->node->in[0].dtype;
  const char *reason = clade__conv_few(q);
  if (x != CLADE_I8 && x != CLADE_U8) return "made for bytes";
  if (reason) return reason;
  const plan p = plan_of(q->node);
  if (p.taps > MOST_TAPS) return "made for windows of up to 128 places";
  if (p.step[0] > 4 || p.step[1] > 4) return "made for steps of up to 4";
  return p.x_words > INT32_MAX / 2 || p.w_words > INT32_MAX / 2 ? "its copies would have more than 2^30 words" : NULL;
}

/* A step loads two vectors of the image, and one word of the weights per row; a core starts three instructions per
 * cycle. */
double clade__gather_bytes_cost(const clade_query *q) {
  const plan p = plan_of(q->node);
  const double tiles = (double)(p.g.n * p.g.groups * p.blocks) * (double)p.vectors;
  const double steps = tiles * (double)(p.pairs * p.taps) * (2 + 5 * (double)p.rows) / 3;
  const double results = (double)clade__product(&q->node->out[0].shape, 0, 4);
  return clade__conv_vec_cost(q, steps + 6 * results + 2 * (double)p.x_words + 2 * (double)p.w_words);
}

size_t clade__gather_bytes_workspace(const clade_query *q) {
  const plan p = plan_of(q->node);
  return (size_t)(p.x_words + p.w_words) * sizeof(int32_t);
}

static void copy_image(clade_emit *e, const clade_node *n, const plan *p) {
  const clade__window *w = clade__conv_window(n);
  const size_t lines = (size_t)(p->g.n * p->g.groups * p->pairs * p->step[0] * p->step[1] * p->part[0]);
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_bytes_image");
  clade_emit_define_text(s, "T", clade_dtype_name(n->in[0].dtype));
  clade_emit_in(s, 0);
  clade_emit_workspace(s, 0, sizeof(int32_t));
  clade_emit_index8(s, 6,
                    (int64_t[]){(int64_t)lines, p->g.inner, p->pairs, p->g.source[0], p->g.source[1], p->part[1]});
  clade_emit_index8(s, 5, (int64_t[]){p->step[0], p->step[1], w->pad[0], w->pad[1], p->part[0]});
  clade_emit_range(s, 1, &lines, (size_t[]){16});
}

static void copy_weights(clade_emit *e, const plan *p) {
  const size_t items = (size_t)(p->g.groups * p->blocks * p->pairs);
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_bytes_weights");
  clade_emit_in(s, 1);
  clade_emit_workspace(s, (size_t)p->x_words * sizeof(int32_t), sizeof(int32_t));
  clade_emit_index8(s, 7, (int64_t[]){(int64_t)items, p->blocks, p->pairs, p->taps, p->rows, p->g.rows, p->g.inner});
  clade_emit_range(s, 1, &items, (size_t[]){16});
}

clade_status clade__gather_bytes_emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  const plan p = plan_of(n);
  const clade__window *w = clade__conv_window(n);
  if (!clade__product(&n->out[0].shape, 0, 4)) return CLADE_OK;
  if (p.pairs) copy_image(e, n, &p);
  if (p.pairs) copy_weights(e, &p);
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_bytes");
  clade_emit_define_text(s, "T", clade_dtype_name(n->in[0].dtype));
  clade_emit_define_text(s, "OUT", clade_dtype_name(n->out[0].dtype));
  clade_emit_define(s, "ROWS", (int)p.rows);
  CLADE_TRY(clade__epilogue_define(s, n));
  clade_emit_workspace(s, 0, sizeof(int32_t));
  clade_emit_workspace(s, (size_t)p.x_words * sizeof(int32_t), sizeof(int32_t));
  clade_emit_out(s, 0);
  clade_emit_index8(s, 7, (int64_t[]){p.g.n, p.g.groups, p.g.rows, p.blocks, p.pairs, p.g.result[0], p.g.result[1]});
  clade_emit_index8(s, 8,
                    (int64_t[]){p.g.kernel[0], p.g.kernel[1], p.step[0], p.step[1], w->dilation[0], w->dilation[1],
                                p.part[0], p.part[1]});
  clade__gather_epilogue(s, n);
  const size_t range[] = {(size_t)p.vectors, (size_t)(p.g.groups * p.blocks), (size_t)p.g.n};
  clade_emit_range(s, 3, range, (size_t[]){1, 1, 1});
  return CLADE_OK;
}
