/* Two users' ops with kernels for blocked layouts, for tests of runs. */
#ifndef LAYOUT_OPS_H
#define LAYOUT_OPS_H

#include <stdio.h>

#include "plan_kit.h"

static const char lay_source[] =
    "KERNEL(lay_affine)(ARG(const float, x), ARG(float, y), const index_t n) {\n"
    "  USE(const float, x); USE(float, y);\n"
    "  index_t i = (index_t)get_global_id(0);\n"
    "  if (i < n) y[i] = x[i] * 2.0f + 1.0f;\n"
    "}\n"
    "KERNEL(lay_linear)(ARG(const float, x), ARG(const float, w), ARG(float, y), const index_t rows,\n"
    "                   const index_t n, const index_t depth, const int panel) {\n"
    "  USE(const float, x); USE(const float, w); USE(float, y);\n"
    "  index_t i = (index_t)get_global_id(0);\n"
    "  if (i >= rows * n) return;\n"
    "  const index_t row = i / n, column = i % n;\n"
    "  float sum = 0;\n"
    "  for (index_t k = 0; k < depth; k++)\n"
    "    sum += x[row * depth + k] * w[(column / panel * depth + k) * panel + column % panel];\n"
    "  y[i] = sum;\n"
    "}\n";

static inline double lay_cheap(const clade_query *q) {
  (void)q;
  return 1e-9;
}
static inline double lay_dear(const clade_query *q) {
  (void)q;
  return 1;
}

/* 2 x + 1 on all of the memory, including padding; lay.affine is blocked along axis 1 if possible. */
static inline void lay_affine_layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  (void)q;
  in[0] = out[0] = (clade_layout){.axis = 1, .block = 4};
}
static inline clade_status lay_affine_emit(clade_emit *e, const clade_query *q) {
  size_t bytes;
  clade_status status = clade_type_bytes(&q->node->out[0], &bytes);
  if (status != CLADE_OK) return status;
  clade_kernel_step *s = clade_emit_kernel(e, "lay_affine");
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, (int64_t)(bytes / sizeof(float)));
  kit_range(s, (int64_t)(bytes / sizeof(float)));
  return CLADE_OK;
}
static const clade_impl *const lay_affine_impls[] = {
    CLADE_IMPL(.name = "blocked", .layouts = lay_affine_layouts, .cost = lay_cheap, .emit = lay_affine_emit),
    CLADE_IMPL(.name = "ref", .cost = lay_dear, .emit = lay_affine_emit),
    NULL,
};
static const clade_op lay_affine = {.size = sizeof(clade_op),
                                    .name = "lay.affine",
                                    .min_in = 1,
                                    .max_in = 1,
                                    .n_out = 1,
                                    .infer = kit_same,
                                    .impls = lay_affine_impls,
                                    .source = lay_source};

/* x w', with w dense or in panels of 4 rows */
static inline clade_status lay_linear_infer(clade_node *n) {
  n->out[0] = n->in[0];
  n->out[0].shape.dim[1] = n->in[1].shape.dim[0];
  return CLADE_OK;
}
static inline void lay_linear_layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  (void)q, (void)out;
  in[1] = (clade_layout){.axis = 0, .block = 4};
}
static inline clade_status lay_linear_emit(clade_emit *e, const clade_query *q) {
  const clade_shape *x = &q->node->in[0].shape, *y = &q->node->out[0].shape;
  clade_kernel_step *s = clade_emit_kernel(e, "lay_linear");
  clade_emit_in(s, 0);
  clade_emit_in(s, 1);
  clade_emit_out(s, 0);
  clade_emit_index(s, x->dim[0]);
  clade_emit_index(s, y->dim[1]);
  clade_emit_index(s, x->dim[1]);
  clade_emit_i32(s, q->node->in[1].layout.block ? 4 : 1);
  kit_range(s, y->dim[0] * y->dim[1]);
  return CLADE_OK;
}
static const clade_impl *const lay_linear_impls[] = {
    CLADE_IMPL(.name = "panels", .layouts = lay_linear_layouts, .cost = lay_cheap, .emit = lay_linear_emit),
    CLADE_IMPL(.name = "ref", .cost = lay_dear, .emit = lay_linear_emit),
    NULL,
};
static const clade_op lay_linear = {.size = sizeof(clade_op),
                                    .name = "lay.linear",
                                    .min_in = 2,
                                    .max_in = 2,
                                    .n_out = 1,
                                    .infer = lay_linear_infer,
                                    .impls = lay_linear_impls,
                                    .source = lay_source};

static inline clade_val lay1(clade_graph *g, clade_val x) {
  return clade_node_add(g, &lay_affine, NULL, NULL, 1, &x, NULL);
}
static inline clade_val lay2(clade_graph *g, clade_val x, clade_val w) {
  return clade_node_add(g, &lay_linear, NULL, NULL, 2, (clade_val[]){x, w}, NULL);
}

/* Number of steps that launch such a kernel. */
static inline int steps_of(const clade_func *func, const char *kernel) {
  char *text, title[64];
  int n = 0;
  snprintf(title, sizeof title, " kernel %s ", kernel);
  OK(clade_func_steps(func, &text));
  for (const char *at = text; (at = strstr(at, title)); at++) n++;
  clade_text_free(text);
  return n;
}

#endif
