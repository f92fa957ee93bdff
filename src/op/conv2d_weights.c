/* The derivative of a convolution by its weights: for each of them, the sum over images and pixels of x times y. The
 * sum is cut into parts that are added in a fixed order; each result is within (P + 4) 2^-24 of sum |x y| over its P
 * products, besides the rounding to the stored type. */
#include "op/conv.h"

static clade_status infer(clade_node *n) {
  const clade__conv_attrs *a = n->attrs;
  clade_shape y;
  CLADE_TRY(clade__conv_operands(n));
  CLADE_TRY(clade__conv_check(n, &n->in[0].shape, &a->shape, &n->in[1].shape, &y));
  n->out[0] = (clade_type){.dtype = n->in[0].dtype, .shape = a->shape};
  return CLADE_OK;
}

static clade_status grad(clade_grad *g) {
  const clade__conv_attrs *a = g->node->attrs;
  clade_val x = g->in[0], y = g->in[1], dw = g->dout[0];
  if (g->wanted[0]) g->din[0] = clade__conv_node(g->graph, &clade__op_conv2d_data, a, y, dw, &g->node->in[0].shape);
  if (g->wanted[1]) g->din[1] = clade__conv_node(g->graph, &clade__op_conv2d, a, x, dw, NULL);
  return CLADE_OK;
}

/* ---- what implementations share: parts of the sum in scratch memory, and a second launch that joins them ---- */
typedef struct problem {
  int64_t n, groups, rows, inner, source[2], result[2], kernel[2];
  int64_t columns, outputs; /* weights of a row; of all */
} problem;

static problem problem_of(const clade_node *n) {
  const clade__conv_attrs *a = n->attrs;
  const clade_shape *x = &n->in[0].shape, *y = &n->in[1].shape, *w = &n->out[0].shape;
  problem p = {.n = x->dim[0],
               .groups = a->groups,
               .rows = w->dim[0] / a->groups,
               .inner = w->dim[1],
               .source = {x->dim[2], x->dim[3]},
               .result = {y->dim[2], y->dim[3]},
               .kernel = {w->dim[2], w->dim[3]}};
  p.columns = p.inner * p.kernel[0] * p.kernel[1];
  p.outputs = w->dim[0] * p.columns;
  return p;
}

/* A sum in one part of the stored type is the result already. */
static bool direct(const clade_query *q, int64_t parts) { return parts == 1 && q->node->out[0].dtype == CLADE_F32; }

static size_t scratch(const clade_query *q, int64_t parts) {
  size_t bytes = 0;
  bool fits =
      direct(q, parts) || clade__mul((size_t)parts * sizeof(float), (size_t)problem_of(q->node).outputs, &bytes);
  return fits ? bytes : SIZE_MAX;
}

static clade_kernel_step *begin(clade_emit *e, const clade_query *q, const char *kernel, int64_t parts) {
  const clade__conv_attrs *a = q->node->attrs;
  problem p = problem_of(q->node);
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[0].dtype));
  clade_emit_in(s, 0);
  clade_emit_in(s, 1);
  if (direct(q, parts))
    clade_emit_out(s, 0);
  else
    clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_index8(s, 8,
                    (int64_t[]){p.n, p.groups, p.rows, p.inner, p.source[0], p.source[1], p.result[0], p.result[1]});
  clade_emit_index8(s, 3, (int64_t[]){p.kernel[0], p.kernel[1], parts});
  clade__emit_maps(s, &a->window, clade__window_covers);
  return s;
}

static void join(clade_emit *e, const clade_query *q, int64_t parts) {
  if (direct(q, parts)) return;
  int64_t outputs = problem_of(q->node).outputs;
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_weights_join");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[0].dtype));
  clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_out(s, 0);
  clade_emit_index(s, outputs);
  clade_emit_index(s, parts);
  size_t global = (size_t)outputs, local = 64;
  clade_emit_range(s, 1, &global, &local);
}

static double flops(const problem *p) {
  return 2 * (double)p->outputs * (double)p->n * (double)(p->result[0] * p->result[1]);
}

/* ---- ref: a work-item per weight and part; a part is so many lines of pixels, of all images ---- */
static int64_t ref_lines(const clade_query *q, const problem *p) {
  int64_t want = 512 * CLADE__SUM_UNITS, lines = CLADE_MAX(p->n * p->result[0], 1);
  int64_t parts = CLADE_MIN(CLADE_MAX(want / CLADE_MAX(p->outputs, 1), 1), lines);
  int64_t most = q->device->max_passes ? CLADE_MAX(q->device->max_passes / (p->result[1] + 2) - 1, 1) : INT64_MAX;
  return CLADE_MIN((lines + parts - 1) / parts, most);
}

static int64_t ref_parts(const clade_query *q) {
  problem p = problem_of(q->node);
  int64_t lines = ref_lines(q, &p);
  return CLADE_MAX((p.n * p.result[0] + lines - 1) / lines, 1);
}

static const char *ref_accept(const clade_query *q) {
  problem p = problem_of(q->node);
  double part = (double)ref_lines(q, &p) * ((double)p.result[1] + 2);
  return clade__cut_short(q->device, CLADE_MAX(part, (double)ref_parts(q)) + 1);
}
static double ref_cost(const clade_query *q) {
  problem p = problem_of(q->node);
  double efficiency = q->device->device_class == CLADE_CPU ? 0.02 : 0.05;
  return clade__cost(q->device, flops(&p), clade__node_bytes(q->node), efficiency);
}
static size_t ref_workspace(const clade_query *q) { return scratch(q, ref_parts(q)); }

static clade_status ref_emit(clade_emit *e, const clade_query *q) {
  problem p = problem_of(q->node);
  int64_t parts = ref_parts(q);
  clade_kernel_step *s = begin(e, q, "conv2d_weights_ref", parts);
  clade_emit_index(s, ref_lines(q, &p));
  size_t global[3] = {(size_t)p.columns, (size_t)(p.groups * p.rows), (size_t)parts};
  clade_emit_range(s, 3, global, (size_t[]){16, 1, 1});
  join(e, q, parts);
  return CLADE_OK;
}

/* ---- vec: a work-item does a block of weights, for the strips of pixels of one part ---- */
enum { VEC_BLOCK = 48, VEC_STRIP = 256 };

typedef struct cut {
  int64_t blocks, strips, parts; /* strips of a part */
} cut;
static cut vec_cut(const clade_query *q) {
  problem p = problem_of(q->node);
  int64_t blocks = p.groups * ((p.rows + VEC_BLOCK - 1) / VEC_BLOCK) * ((p.columns + VEC_BLOCK - 1) / VEC_BLOCK);
  int64_t strips = CLADE_MAX((p.n * p.result[0] * p.result[1] + VEC_STRIP - 1) / VEC_STRIP, 1);
  int64_t items = 4 * CLADE__SUM_UNITS;
  int64_t parts = CLADE_MIN((items + blocks - 1) / CLADE_MAX(blocks, 1), strips);
  cut c = {.blocks = blocks, .strips = (strips + parts - 1) / CLADE_MAX(parts, 1)};
  c.parts = (strips + c.strips - 1) / CLADE_MAX(c.strips, 1);
  return c;
}

static double vec_cost(const clade_query *q) {
  problem p = problem_of(q->node);
  double rows = (double)(clade__up(p.rows, 4) + 8), columns = (double)(clade__up(p.columns, 4) + 8);
  double pixels = (double)clade__up(p.n * p.result[0] * p.result[1], VEC_STRIP);
  return clade__cost(q->device, 2 * (double)p.groups * rows * columns * pixels, clade__node_bytes(q->node), 0.4);
}
static size_t vec_workspace(const clade_query *q) { return scratch(q, vec_cut(q).parts); }

static clade_status vec_emit(clade_emit *e, const clade_query *q) {
  cut c = vec_cut(q);
  bool wide = q->device->vector_f32 >= 16; /* 32 registers, or 16 */
  clade_kernel_step *s = begin(e, q, "conv2d_weights_vec", c.parts);
  clade_emit_define(s, "WIDTH", wide ? 16 : 8);
  clade_emit_define(s, "ROWS", wide ? 4 : 3);
  clade_emit_define(s, "COLUMNS", wide ? 6 : 4);
  clade_emit_define(s, "BLOCK", VEC_BLOCK);
  clade_emit_define(s, "STRIP", VEC_STRIP);
  clade_emit_index(s, c.strips);
  size_t global = (size_t)(c.blocks * c.parts), local = 1;
  clade_emit_range(s, 1, &global, &local);
  join(e, q, c.parts);
  return CLADE_OK;
}

static const clade_impl impls[] = {
    {.name = "vec", .accept = clade__conv_vec_accept, .cost = vec_cost, .workspace = vec_workspace, .emit = vec_emit},
    {.name = "ref", .accept = ref_accept, .cost = ref_cost, .workspace = ref_workspace, .emit = ref_emit},
    {0},
};

const clade_op clade__op_conv2d_weights = {
    .size = sizeof(clade_op),
    .name = "conv2d_weights",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .attr_bytes = sizeof(clade__conv_attrs),
    .attrs = clade__conv_table,
    .infer = infer,
    .grad = grad,
    .impls = impls,
    .file = "conv2d",
};
