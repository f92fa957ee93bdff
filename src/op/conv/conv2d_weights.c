/* Gradient of a convolution with respect to its weights. Each weight's sum over images and pixels is cut into parts
 * that are added in a fixed order. The error is at most (P + 4) 2^-24 times sum |x y| over its P products, plus the
 * rounding to the stored type. */
#include "op/conv/weights.h"
#include "op/group.h"
#include "op/product.h"
#include "op/systolic.h"

static clade_status infer(clade_node *n) {
  const clade__conv_attrs *a = n->attrs;
  clade_shape y;
  CLADE_TRY(clade__conv_operands(n, "x", "y"));
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

/* ---- shared by the implementations: partial sums in the workspace, and a second launch that adds them ---- */
clade__weights clade__weights_of(const clade_node *n, bool flat) {
  const clade__conv_attrs *a = n->attrs;
  const clade_shape *x = &n->in[0].shape, *y = &n->in[1].shape, *w = &n->out[0].shape;
  clade__weights p = {.n = x->dim[0],
                      .groups = a->groups,
                      .rows = w->dim[0] / a->groups,
                      .inner = w->dim[1],
                      .source = {x->dim[2], x->dim[3]},
                      .result = {y->dim[2], y->dim[3]},
                      .kernel = {w->dim[2], w->dim[3]}};
  p.columns = p.inner * p.kernel[0] * p.kernel[1];
  p.outputs = w->dim[0] * p.columns;
  for (int i = 0; i < 2; i++)
    flat = flat && p.kernel[i] == 1 && a->window.stride[i] == 1 && !a->window.pad[i] && p.source[i] == p.result[i];
  if (!flat) return p;
  p.source[1] = p.result[1] = p.source[0] * p.source[1];
  p.source[0] = p.result[0] = 1;
  return p;
}

double clade__weights_flops(const clade__weights *p) {
  return 2 * (double)p->outputs * (double)p->n * (double)(p->result[0] * p->result[1]);
}

/* A single part in the stored type and in the order of w needs no second launch. */
static bool direct(const clade_query *q, int64_t parts, bool turned) {
  return parts == 1 && !turned && q->node->out[0].dtype == CLADE_F32;
}

static int64_t columns_of(const clade__weights *p, bool turned) { return CLADE_MAX(turned ? p->rows : p->columns, 1); }

int64_t clade__weights_pitch(const clade_query *q, int64_t parts, bool turned) {
  clade__weights p = clade__weights_of(q->node, false);
  int64_t columns = columns_of(&p, turned);
  return columns % 256 || direct(q, parts, turned) ? columns : columns + 16;
}

size_t clade__weights_scratch(const clade_query *q, int64_t parts, bool turned) {
  clade__weights p = clade__weights_of(q->node, false);
  int64_t lines = p.outputs / columns_of(&p, turned);
  size_t bytes = 0, pitch = (size_t)clade__weights_pitch(q, parts, turned);
  if (direct(q, parts, turned)) return 0;
  bool fits = clade__mul((size_t)parts * sizeof(float) * pitch, (size_t)lines, &bytes);
  return fits ? bytes : SIZE_MAX;
}

clade_kernel_step *clade__weights_open(clade_emit *e, const clade_query *q, const char *kernel, int first,
                                       int64_t parts, bool turned) {
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[0].dtype));
  clade_emit_in(s, first);
  clade_emit_in(s, 1 - first);
  if (direct(q, parts, turned))
    clade_emit_out(s, 0);
  else
    clade_emit_workspace(s, 0, sizeof(float));
  return s;
}

clade_kernel_step *clade__weights_begin(clade_emit *e, const clade_query *q, const char *kernel,
                                        const clade__weights *p, int64_t parts) {
  const clade__conv_attrs *a = q->node->attrs;
  clade_kernel_step *s = clade__weights_open(e, q, kernel, 0, parts, false);
  clade_emit_index8(
      s, 8, (int64_t[]){p->n, p->groups, p->rows, p->inner, p->source[0], p->source[1], p->result[0], p->result[1]});
  clade_emit_index8(s, 3, (int64_t[]){p->kernel[0], p->kernel[1], parts});
  clade__emit_maps(s, &a->window, clade__window_covers);
  return s;
}

void clade__weights_join(clade_emit *e, const clade_query *q, int64_t parts, bool turned, bool spaced) {
  if (direct(q, parts, turned)) return;
  clade__weights p = clade__weights_of(q->node, false);
  int64_t piece = q->device->max_passes ? 1 : clade__piece(q->device, p.outputs, 1, 1024);
  int64_t columns = turned || spaced ? columns_of(&p, turned) : CLADE_MAX(p.outputs, 1); /* else all is one row */
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_weights_join");
  if (s) s->file = "conv2d_weights_join";
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[0].dtype));
  clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_out(s, 0);
  clade_emit_index(s, p.outputs);
  clade_emit_index(s, parts);
  clade_emit_index(s, piece);
  clade_emit_index(s, turned ? p.columns : 0);
  clade_emit_index(s, columns);
  clade_emit_index(s, spaced ? clade__weights_pitch(q, parts, turned) : columns);
  clade__emit_flat(s, q->device, turned ? p.groups * ((columns + 7) / 8) : (p.outputs + piece - 1) / piece);
}

double clade__weights_join_cycles(const clade__weights *p, int64_t parts) {
  return parts > 1 ? 30000 + (double)p->outputs * (double)parts * 0.7 : 0;
}

/* ---- ref: one work-item per weight and part; a part is a number of pixel rows over all images ---- */
static int64_t ref_lines(const clade_query *q, const clade__weights *p) {
  int64_t want = 512 * CLADE__SUM_UNITS, lines = CLADE_MAX(p->n * p->result[0], 1);
  int64_t parts = CLADE_MIN(CLADE_MAX(want / CLADE_MAX(p->outputs, 1), 1), lines);
  int64_t most = q->device->max_passes ? CLADE_MAX(q->device->max_passes / (p->result[1] + 2) - 1, 1) : INT64_MAX;
  return CLADE_MIN((lines + parts - 1) / parts, most);
}

static int64_t ref_parts(const clade_query *q) {
  clade__weights p = clade__weights_of(q->node, false);
  int64_t lines = ref_lines(q, &p);
  return CLADE_MAX((p.n * p.result[0] + lines - 1) / lines, 1);
}

static const char *ref_accept(const clade_query *q) {
  clade__weights p = clade__weights_of(q->node, false);
  double part = (double)ref_lines(q, &p) * ((double)p.result[1] + 2);
  return clade__cut_short(q->device, CLADE_MAX(part, (double)ref_parts(q)) + 1);
}
static double ref_cost(const clade_query *q) {
  clade__weights p = clade__weights_of(q->node, false);
  double efficiency = q->device->device_class == CLADE_CPU ? 0.02 : 0.05;
  return clade__cost(q->device, clade__weights_flops(&p), clade__node_bytes(q->node), efficiency);
}
static size_t ref_workspace(const clade_query *q) { return clade__weights_scratch(q, ref_parts(q), false); }

static clade_status ref_emit(clade_emit *e, const clade_query *q) {
  clade__weights p = clade__weights_of(q->node, false);
  int64_t parts = ref_parts(q);
  clade_kernel_step *s = clade__weights_begin(e, q, "conv2d_weights_ref", &p, parts);
  clade_emit_index(s, ref_lines(q, &p));
  size_t global[3] = {(size_t)p.columns, (size_t)(p.groups * p.rows), (size_t)parts};
  clade_emit_range(s, 3, global, (size_t[]){16, 1, 1});
  clade__weights_join(e, q, parts, false, false);
  return CLADE_OK;
}

static const clade_impl *const impls[] = {
    CLADE_IMPL(.name = "flat", CLADE__CONV_VEC, .accept = clade__weights_flat_accept, .layouts = clade__weights_images,
               .cost = clade__weights_flat_cost, .workspace = clade__weights_flat_workspace,
               .emit = clade__weights_flat_emit, .space = &clade__weights_flat_space, .alternatives = 2),
    CLADE_IMPL(.name = "winograd", CLADE__CONV_VEC, .accept = clade__weights_winograd_accept,
               .layouts = clade__weights_blocked_layouts, .cost = clade__weights_winograd_cost,
               .workspace = clade__weights_winograd_workspace, .emit = clade__weights_winograd_emit,
               .file = "conv2d_winograd", .loose = true),
    CLADE_IMPL(.name = "mma", .family = CLADE_FAMILY_MMA, .devices = CLADE_ON_CPU, .needs_long_loops = true,
               .units = clade__weights_mma_units, .needs_units = CLADE__UNITS_BF16, .accept = clade__weights_mma_accept,
               .layouts = clade__weights_blocked_layouts, .cost = clade__weights_mma_cost,
               .workspace = clade__weights_mma_workspace, .emit = clade__weights_mma_emit,
               .space = &clade__weights_mma_space, .file = "conv2d_weights_mma"),
    CLADE_IMPL(.name = "vec", CLADE__CONV_VEC, .accept = clade__weights_vec_accept, .cost = clade__weights_vec_cost,
               .workspace = clade__weights_vec_workspace, .emit = clade__weights_vec_emit,
               .space = &clade__weights_vec_space),
    CLADE_IMPL(.name = "gemm", CLADE__CONV_VEC, .accept = clade__weights_gemm_accept, .cost = clade__weights_gemm_cost,
               .workspace = clade__weights_gemm_workspace, .emit = clade__weights_gemm_emit,
               .space = &clade__weights_gemm_space, .file = "gemm"),
    CLADE_IMPL(.name = "lines", CLADE__CONV_VEC, .accept = clade__weights_lines_accept,
               .cost = clade__weights_lines_cost, .workspace = clade__weights_lines_workspace,
               .emit = clade__weights_lines_emit, .file = "conv2d_lines"),
    CLADE_IMPL(.name = "depthwise", CLADE__CONV_VEC, .accept = clade__weights_depthwise_accept,
               .layouts = clade__weights_images, .cost = clade__weights_depthwise_cost,
               .workspace = clade__weights_depthwise_workspace, .emit = clade__weights_depthwise_emit,
               .space = &clade__conv_two_layouts, .alternatives = 2, .file = "conv2d_depthwise"),
    CLADE_IMPL(.name = "depthwise_group", CLADE__TEAMS, .accept = clade__weights_depthwise_group_accept,
               .cost = clade__weights_depthwise_group_cost, .workspace = clade__weights_depthwise_group_workspace,
               .emit = clade__weights_depthwise_group_emit, .file = "conv2d_depthwise_group"),
    CLADE__LAST_WARPGROUP(weights),
    CLADE__LAST_WARP(weights),
    CLADE__PRODUCT_WARPGROUP(weights),
    CLADE__PRODUCT_WARP(weights),
    CLADE__PRODUCT_SIMT(weights),
    CLADE__SYSTOLIC(weights) /* with its comma */
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .accept = ref_accept, .cost = ref_cost,
               .workspace = ref_workspace, .emit = ref_emit),
    NULL,
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
    .autocast = CLADE_AUTOCAST_NARROW,
};
