/* Gradient of a convolution with respect to its weights. Each weight's sum over images and pixels is cut into parts
 * that are added in a fixed order. The error is at most (P + 4) 2^-24 times sum |x y| over its P products, plus the
 * rounding to the stored type. */
#include "op/conv/conv.h"
#include "op/product.h"
#include "op/systolic.h"

#include <math.h>

double clade__weights_flops(const clade__conv *c) {
  return 2 * (double)c->outputs * (double)c->n * (double)(c->result[0] * c->result[1]);
}

void clade__weights_blocked(const clade_query *q, clade_layout *in, clade_layout *out) {
  (void)q, (void)out;
  in[0] = in[1] = clade__channel_blocks();
}

void clade__weights_images(const clade_query *q, clade_layout *in, clade_layout *out) {
  if (q->config[0] == CLADE__BLOCKED) clade__weights_blocked(q, in, out);
}

/* ---- partial sums in the workspace, and a second launch that adds them ---- */
/* A single part in the stored type and in the order of w needs no second launch. */
static bool direct(const clade_query *q, int64_t parts, bool turned) {
  return parts == 1 && !turned && q->node->out[0].dtype == CLADE_F32;
}

static int64_t columns_of(const clade__conv *c, bool turned) { return CLADE_MAX(turned ? c->rows : c->columns, 1); }

int64_t clade__weights_pitch(const clade_query *q, int64_t parts, bool turned) {
  const clade__conv c = clade__conv_of(q->node);
  const int64_t columns = columns_of(&c, turned);
  return columns % 256 || direct(q, parts, turned) ? columns : columns + 16;
}

size_t clade__weights_scratch(const clade_query *q, int64_t parts, bool turned) {
  const clade__conv c = clade__conv_of(q->node);
  const size_t lines = (size_t)(c.outputs / columns_of(&c, turned)),
               pitch = (size_t)clade__weights_pitch(q, parts, turned);
  size_t bytes = 0;
  if (direct(q, parts, turned)) return 0;
  return clade__mul((size_t)parts * sizeof(float) * pitch, lines, &bytes) ? bytes : SIZE_MAX;
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

clade_kernel_step *clade__weights_begin(clade_emit *e, const clade_query *q, const char *kernel, const clade__conv *c,
                                        int64_t parts) {
  clade_kernel_step *s = clade__weights_open(e, q, kernel, 0, parts, false);
  clade__conv_problem(s, c, 1, &parts);
  return s;
}

clade_status clade__weights_join(clade_emit *e, const clade_query *q, int64_t parts, bool turned, bool spaced) {
  if (direct(q, parts, turned)) return CLADE_OK;
  const clade__conv c = clade__conv_of(q->node);
  const int64_t piece = q->device->max_passes ? 1 : clade__piece(q->device, c.outputs, 1, 1024);
  const int64_t columns = turned || spaced ? columns_of(&c, turned) : CLADE_MAX(c.outputs, 1); /* else all is one row */
  const int64_t pitch = spaced ? clade__weights_pitch(q, parts, turned) : columns;
  const int64_t numbers[] = {c.outputs, parts, piece, turned ? c.columns : 0, columns, pitch};
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_weights_join");
  if (s) s->file = "conv2d_weights_join";
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[0].dtype));
  clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_out(s, 0);
  for (size_t i = 0; i < CLADE_COUNT(numbers); i++) clade_emit_index(s, numbers[i]);
  clade__emit_flat(s, q->device, turned ? c.groups * clade__ceil_div(columns, 8) : clade__ceil_div(c.outputs, piece));
  return CLADE_OK;
}

double clade__weights_join_cycles(const clade__conv *c, int64_t parts) {
  return parts > 1 ? 30000 + (double)c->outputs * (double)parts * 0.7 : 0;
}

double clade__weights_cycles(double items, double item, double join, double units) {
  return units > 0 ? ceil(items / units) * item + join / units : items * item + CLADE__WEIGHTS_UNITS * item + join;
}

/* ---- ref: one work-item per weight and part; a part is a number of pixel rows over all images ---- */
static int64_t ref_lines(const clade_query *q, const clade__conv *c) {
  const int64_t want = 512 * CLADE__SUM_UNITS, lines = CLADE_MAX(c->n * c->result[0], 1);
  const int64_t parts = CLADE_MIN(CLADE_MAX(want / CLADE_MAX(c->outputs, 1), 1), lines);
  const int64_t most = q->device->max_passes ? CLADE_MAX(q->device->max_passes / (c->result[1] + 2) - 1, 1) : INT64_MAX;
  return CLADE_MIN(clade__ceil_div(lines, parts), most);
}

static int64_t ref_parts(const clade_query *q, const clade__conv *c) {
  return CLADE_MAX(clade__ceil_div(c->n * c->result[0], ref_lines(q, c)), 1);
}

static const char *ref_accept(const clade_query *q) {
  const clade__conv c = clade__conv_of(q->node);
  const double part = (double)ref_lines(q, &c) * ((double)c.result[1] + 2);
  return clade__cut_short(q->device, CLADE_MAX(part, (double)ref_parts(q, &c)) + 1);
}

static double ref_cost(const clade_query *q) {
  const clade__conv c = clade__conv_of(q->node);
  const double efficiency = q->device->device_class == CLADE_CPU ? 0.02 : 0.05;
  return clade__cost(q->device, clade__weights_flops(&c), clade__node_bytes(q->node), efficiency);
}

static size_t ref_workspace(const clade_query *q) {
  const clade__conv c = clade__conv_of(q->node);
  return clade__weights_scratch(q, ref_parts(q, &c), false);
}

static clade_status ref_emit(clade_emit *e, const clade_query *q) {
  const clade__conv c = clade__conv_of(q->node);
  const int64_t parts = ref_parts(q, &c);
  const size_t global[] = {(size_t)c.columns, (size_t)(c.groups * c.rows), (size_t)parts};
  clade_kernel_step *s = clade__weights_begin(e, q, "conv2d_weights_ref", &c, parts);
  clade_emit_index(s, ref_lines(q, &c));
  clade_emit_range(s, 3, global, (size_t[]){16, 1, 1});
  return clade__weights_join(e, q, parts, false, false);
}

static const clade_impl *const impls[] = {
    &clade__weights_flat,
    &clade__weights_winograd,
    &clade__weights_mma,
    &clade__weights_vec,
    &clade__weights_gemm,
    &clade__weights_lines,
    &clade__weights_depthwise,
    &clade__weights_depthwise_group,
    CLADE__LAST_WARPGROUP(conv),
    CLADE__LAST_WARP(conv),
    CLADE__PRODUCT_WARPGROUP(conv),
    CLADE__PRODUCT_WARP(conv),
    CLADE__PRODUCT_SIMT(conv),
    CLADE__SYSTOLIC(weights) /* with its comma */
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .accept = ref_accept, .cost = ref_cost,
               .workspace = ref_workspace, .emit = ref_emit),
    NULL,
};

const clade_op clade__op_conv2d_weights = {CLADE__CONV_OP, .name = "conv2d_weights", .max_in = 2,
                                           .grad = clade__conv_grad, .impls = impls};
