/* conv2d of 8-bit integers on CPUs, dense: image and weights are copied as pairs of channels in 16-bit halves of a
 * word, which one instruction multiplies and adds to 32-bit sums. This file has sizes and cost. */
#include "op/conv/conv.h"

enum { LANES = 16, ROWS = 4 };

typedef struct plan {
  clade__conv g;
  int64_t rows;             /* of the result, per tile */
  int64_t blocks, pairs;    /* of output channels in a group; of its input channels */
  int64_t step[2], part[2]; /* strides; height and width of a phase: every step-th pixel of the padded image */
  int64_t vectors;          /* of a phase's pixels, up to the last result */
  int64_t x_lines;          /* of the image's copy */
  int64_t x_words, w_words; /* sizes of the copies */
} plan;

static plan plan_of(const clade_node *n) {
  const clade__window *w = clade__conv_window(n);
  plan p = {.g = clade__conv_of(n)};
  p.rows = p.g.rows == 1 ? 1 : ROWS;
  p.blocks = clade__ceil_div(p.g.rows, p.rows);
  p.pairs = clade__ceil_div(p.g.inner, 2);
  for (int i = 0; i < 2; i++) {
    p.step[i] = w->stride[i];
    p.part[i] = clade__ceil_div(p.g.source[i] + w->pad[i] + w->pad[2 + i], p.step[i]);
  }
  p.vectors = clade__ceil_div((p.g.result[0] - 1) * p.part[1] + p.g.result[1], LANES);
  p.x_lines = p.g.n * p.g.groups * p.pairs * p.step[0] * p.step[1] * p.part[0];
  p.x_words = p.x_lines * p.part[1] + LANES; /* read past */
  p.w_words = p.g.groups * p.blocks * p.pairs * p.g.taps * p.rows;
  return p;
}

static const char *accept(const clade_query *q) {
  const clade_dtype x = q->node->in[0].dtype;
  if (x != CLADE_I8 && x != CLADE_U8) return "made for bytes";
  CLADE__REFUSE(clade__conv_refuses(q, CLADE__CONV_FEW | CLADE__CONV_TAPS));
  const plan p = plan_of(q->node);
  if (p.step[0] > 4 || p.step[1] > 4) return "made for steps of up to 4";
  return p.x_words > INT32_MAX / 2 || p.w_words > INT32_MAX / 2 ? "its copies would have more than 2^30 words" : NULL;
}

/* A step loads two vectors of the image, and one word of the weights per row; a core starts three instructions per
 * cycle. */
static double cost(const clade_query *q) {
  const plan p = plan_of(q->node);
  const double tiles = (double)(p.g.n * p.g.groups * p.blocks) * (double)p.vectors;
  const double steps = tiles * (double)(p.pairs * p.g.taps) * (2 + 5 * (double)p.rows) / 3;
  const double results = (double)clade__product(&q->node->out[0].shape, 0, 4);
  return clade__conv_cost(q, steps + 6 * results + 2 * (double)p.x_words + 2 * (double)p.w_words);
}

static size_t workspace(const clade_query *q) {
  const plan p = plan_of(q->node);
  return (size_t)(p.x_words + p.w_words) * sizeof(int32_t);
}

static void copy_image(clade_emit *e, const clade_node *n, const plan *p) {
  const clade__window *w = clade__conv_window(n);
  const clade__conv *g = &p->g;
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_bytes_image");
  clade_emit_define_text(s, "T", clade_dtype_name(n->in[0].dtype));
  clade_emit_in(s, 0);
  clade_emit_workspace(s, 0, sizeof(int32_t));
  CLADE__EMIT8(s, p->x_lines, g->inner, p->pairs, g->source[0], g->source[1], p->part[1]);
  CLADE__EMIT8(s, p->step[0], p->step[1], w->pad[0], w->pad[1], p->part[0]);
  clade_emit_range(s, 1, (size_t[]){(size_t)p->x_lines}, (size_t[]){16});
}

static void copy_weights(clade_emit *e, const plan *p) {
  const int64_t items = p->g.groups * p->blocks * p->pairs;
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_bytes_weights");
  clade_emit_in(s, 1);
  clade_emit_workspace(s, (size_t)p->x_words * sizeof(int32_t), sizeof(int32_t));
  CLADE__EMIT8(s, items, p->blocks, p->pairs, p->g.taps, p->rows, p->g.rows, p->g.inner);
  clade_emit_range(s, 1, (size_t[]){(size_t)items}, (size_t[]){16});
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  const plan p = plan_of(n);
  const clade__conv *g = &p.g;
  const clade__window *w = clade__conv_window(n);
  clade_kernel_step *s;
  if (!clade__product(&n->out[0].shape, 0, 4)) return CLADE_OK;
  if (p.pairs) copy_image(e, n, &p);
  if (p.pairs) copy_weights(e, &p);
  CLADE_TRY(clade__gather_begin(e, q, "conv2d_bytes", CLADE__SINGLE, CLADE__DEFINES({"ROWS", p.rows}), &s));
  clade_emit_workspace(s, 0, sizeof(int32_t));
  clade_emit_workspace(s, (size_t)p.x_words * sizeof(int32_t), sizeof(int32_t));
  clade_emit_out(s, 0);
  CLADE__EMIT8(s, g->n, g->groups, g->rows, p.blocks, p.pairs, g->result[0], g->result[1]);
  CLADE__EMIT8(s, g->kernel[0], g->kernel[1], p.step[0], p.step[1], w->dilation[0], w->dilation[1], p.part[0],
               p.part[1]);
  clade__gather_epilogue(s, n);
  const size_t range[] = {(size_t)p.vectors, (size_t)(g->groups * p.blocks), (size_t)g->n};
  clade_emit_range(s, 3, range, (size_t[]){1, 1, 1});
  return CLADE_OK;
}

const clade_impl clade__gather_bytes =
    CLADE__CONV_IMPL(.name = "bytes", CLADE__CONV_VEC, .accept = accept, .cost = cost, .workspace = workspace,
                     .emit = emit, .file = "conv2d_bytes");
