/* conv2d of 8-bit integers on CPUs, with dense images: the image is copied as pairs of channels in 16-bit halves of a
 * word, which one instruction multiplies by those of the weights and adds to 32-bit sums. This file has sizes and cost.
 */
#include "op/conv/conv.h"

enum { LANES = 16 };

typedef struct plan {
  clade__conv g;
  int64_t rows;             /* of the result, per tile; they divide those of a group */
  int64_t panels, pairs;    /* of output channels in a group; of its input channels */
  int64_t step[2], part[2]; /* strides; height and width of a phase: every step-th pixel of the padded image */
  int64_t vectors;          /* of a phase's pixels, up to the last result */
  int64_t x_lines;          /* of the image's copy */
  int64_t x_words;          /* size of the copy */
} plan;

static plan plan_of(const clade_node *n) {
  const clade__window *w = clade__conv_window(n);
  plan p = {.g = clade__conv_of(n)};
  p.rows = p.g.groups == 1 ? 4 : clade__gcd(4, p.g.rows);
  p.panels = clade__ceil_div(p.g.rows, p.rows);
  p.pairs = clade__ceil_div(p.g.inner, 2);
  for (int i = 0; i < 2; i++) {
    p.step[i] = w->stride[i];
    p.part[i] = clade__ceil_div(p.g.source[i] + w->pad[i] + w->pad[2 + i], p.step[i]);
  }
  p.vectors = clade__ceil_div((p.g.result[0] - 1) * p.part[1] + p.g.result[1], LANES);
  p.x_lines = p.g.n * p.g.groups * p.pairs * p.step[0] * p.step[1] * p.part[0];
  p.x_words = p.x_lines * p.part[1] + LANES; /* read past */
  return p;
}

static const char *accept(const clade_query *q) {
  const clade_dtype x = q->node->in[0].dtype;
  if (x != CLADE_I8 && x != CLADE_U8) return "requires bytes";
  CLADE__REFUSE(clade__conv_refuses(q, CLADE__CONV_FEW | CLADE__CONV_TAPS));
  const plan p = plan_of(q->node);
  if (p.step[0] > 4 || p.step[1] > 4) return "requires strides of up to 4";
  return p.x_words > INT32_MAX / 2 ? "its copy would have more than 2^30 words" : NULL;
}

/* A step loads two vectors of the image, and one word of the weights per row; a core starts two instructions per cycle.
 * Results are computed sixteen at once, except the last ones of each line. */
static double cost(const clade_query *q) {
  const plan p = plan_of(q->node);
  const double tiles = (double)(p.g.n * p.g.groups * p.panels) * (double)p.vectors;
  const double steps = tiles * (double)(p.pairs * p.g.taps) * (2 + 5 * (double)p.rows) / 2;
  const double lines = (double)(p.g.n * p.g.groups * p.g.rows * p.g.result[0]);
  const double results = 6 * (double)clade__product(&q->node->out[0].shape, 0, 4);
  const double last = 24 * lines * (double)(p.g.result[1] % LANES);
  return clade__conv_cost(q, steps + results + last + 2 * (double)p.x_words);
}

static void layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  (void)out;
  in[1] = clade__gather_weights(q, (int)plan_of(q->node).rows, CLADE_PANELS);
  in[1].interleave = 2;
}

static size_t workspace(const clade_query *q) { return (size_t)plan_of(q->node).x_words * sizeof(int32_t); }

static clade_status emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  const plan p = plan_of(n);
  const clade__conv *g = &p.g;
  const clade__window *w = clade__conv_window(n);
  clade_kernel_step *s;
  if (!clade__product(&n->out[0].shape, 0, 4)) return CLADE_OK;
  if (p.pairs) {
    s = clade_emit_kernel(e, "conv2d_bytes_image");
    clade_emit_define_text(s, "T", clade_dtype_name(n->in[0].dtype));
    clade_emit_in(s, 0);
    clade_emit_workspace(s, 0, sizeof(int32_t));
    CLADE__EMIT8(s, p.x_lines, g->inner, p.pairs, g->source[0], g->source[1], p.part[1]);
    CLADE__EMIT8(s, p.step[0], p.step[1], w->pad[0], w->pad[1], p.part[0]);
    clade_emit_range(s, 1, (size_t[]){(size_t)p.x_lines}, (size_t[]){16});
  }
  CLADE_TRY(clade__gather_begin(e, q, "conv2d_bytes", CLADE__WIDE, CLADE__DEFINES({"BYTES", 2 * p.rows}), &s));
  clade_emit_workspace(s, 0, sizeof(int32_t));
  clade_emit_in(s, 1);
  clade_emit_out(s, 0);
  CLADE__EMIT8(s, g->n, g->groups, g->rows, p.panels, p.pairs, g->result[0], g->result[1], p.vectors);
  CLADE__EMIT8(s, g->kernel[0], g->kernel[1], p.step[0], p.step[1], w->dilation[0], w->dilation[1], p.part[0],
               p.part[1]);
  return clade__gather_end(s, q, g->n * g->groups * p.panels * p.vectors);
}

const clade_impl clade__gather_bytes =
    CLADE__CONV_IMPL(.name = "bytes", CLADE__CONV_VEC, .accept = accept, .layouts = layouts, .cost = cost,
                     .workspace = workspace, .emit = emit, .file = "conv2d_bytes");
