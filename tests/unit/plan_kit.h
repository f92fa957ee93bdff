/* Small ops with their own kernels, and helpers, for tests of plans and runs without Clade's ops. */
#ifndef PLAN_KIT_H
#define PLAN_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <clade/clade.h>

#include "plan/run.h"

static const char kit_source[] =
    "KERNEL(kit_add)(ARG(float, a), ARG(float, b), ARG(float, y), const index_t n) {\n"
    "  USE(float, a); USE(float, b); USE(float, y);\n"
    "  index_t i = (index_t)get_global_id(0);\n"
    "  if (i < n) y[i] = a[i] + b[i];\n"
    "}\n"
    "KERNEL(kit_affine)(ARG(float, x), ARG(float, y), const float k, const float c, const index_t n) {\n"
    "  USE(float, x); USE(float, y);\n"
    "  index_t i = (index_t)get_global_id(0);\n"
    "  if (i < n) y[i] = x[i] * k + c;\n"
    "}\n"
    "KERNEL(kit_keep)(ARG(float, x), ARG(float, w), const index_t n) {\n"
    "  USE(float, x); USE(float, w);\n"
    "  index_t i = (index_t)get_global_id(0);\n"
    "  if (i < n) w[i] = x[i];\n"
    "}\n"
    "KERNEL(kit_split)(ARG(float, w), ARG(float, y), ARG(float, z), const index_t n) {\n"
    "  USE(float, w); USE(float, y); USE(float, z);\n"
    "  index_t i = (index_t)get_global_id(0);\n"
    "  if (i < n) { y[i] = w[n - 1 - i]; z[i] = w[i] + 1.0f; }\n"
    "}\n"
    "KERNEL(kit_fit)(ARG(float, x), ARG(float, y), const index_t m, const index_t n) {\n"
    "  USE(float, x); USE(float, y);\n"
    "  index_t i = (index_t)get_global_id(0);\n"
    "  if (i < n) y[i] = x[i % m];\n"
    "}\n"
    "KERNEL(kit_past)(ARG(float, x), ARG(float, y), const index_t n) {\n"
    "  USE(float, x); USE(float, y);\n"
    "  index_t i = (index_t)get_global_id(0);\n"
    "  if (i < n) y[i + 1] = x[i];\n"
    "}\n";

static inline int64_t kit_count(const clade_query *q) {
  int64_t n = 0;
  clade_shape_elements(&q->node->out[0].shape, &n);
  return n;
}
static inline void kit_range(clade_kernel_step *s, int64_t n) {
  clade_emit_range(s, 1, (size_t[]){(size_t)n}, (size_t[]){16});
}
static inline clade_status kit_same(clade_node *n) {
  for (int i = 1; i < n->n_in; i++)
    if (!clade_type_equal(&n->in[0], &n->in[i]))
      return clade_fail(CLADE_BAD_SHAPE, "operand %d is not like operand 0", i);
  for (int i = 0; i < n->n_out; i++) n->out[i] = n->in[0];
  return CLADE_OK;
}
static inline uint64_t kit_all(const clade_node *n, int out) {
  (void)out;
  return (UINT64_C(1) << n->n_in) - 1;
}

/* a + b, in place of either */
static inline clade_status kit_add_emit(clade_emit *e, const clade_query *q) {
  clade_kernel_step *s = clade_emit_kernel(e, "kit_add");
  clade_emit_in(s, 0);
  clade_emit_in(s, 1);
  clade_emit_out(s, 0);
  clade_emit_index(s, kit_count(q));
  kit_range(s, kit_count(q));
  return CLADE_OK;
}
static const clade_impl *const kit_add_impls[] = {CLADE_IMPL(.name = "ref", .emit = kit_add_emit), NULL};
static const clade_op kit_add = {.size = sizeof(clade_op),
                                 .name = "kit.add",
                                 .min_in = 2,
                                 .max_in = 2,
                                 .n_out = 1,
                                 .infer = kit_same,
                                 .in_place = kit_all,
                                 .impls = kit_add_impls,
                                 .source = kit_source};

/* x * k + c; kit.affine in place, kit.fresh not */
typedef struct kit_attrs {
  float k, c;
} kit_attrs;
static const clade_attr kit_attr_table[] = {
    {"k", CLADE_ATTR_F32, offsetof(kit_attrs, k), 1}, {"c", CLADE_ATTR_F32, offsetof(kit_attrs, c), 1}, {0}};
static inline clade_status kit_affine_emit(clade_emit *e, const clade_query *q) {
  const kit_attrs *a = q->node->attrs;
  clade_kernel_step *s = clade_emit_kernel(e, "kit_affine");
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_f32(s, a->k);
  clade_emit_f32(s, a->c);
  clade_emit_index(s, kit_count(q));
  kit_range(s, kit_count(q));
  return CLADE_OK;
}
static const clade_impl *const kit_affine_impls[] = {CLADE_IMPL(.name = "ref", .emit = kit_affine_emit), NULL};
static const clade_op kit_affine = {.size = sizeof(clade_op),
                                    .name = "kit.affine",
                                    .min_in = 1,
                                    .max_in = 1,
                                    .n_out = 1,
                                    .attr_bytes = sizeof(kit_attrs),
                                    .attrs = kit_attr_table,
                                    .infer = kit_same,
                                    .in_place = kit_all,
                                    .impls = kit_affine_impls,
                                    .source = kit_source};
static const clade_op kit_fresh = {.size = sizeof(clade_op),
                                   .name = "kit.fresh",
                                   .min_in = 1,
                                   .max_in = 1,
                                   .n_out = 1,
                                   .attr_bytes = sizeof(kit_attrs),
                                   .attrs = kit_attr_table,
                                   .infer = kit_same,
                                   .impls = kit_affine_impls,
                                   .source = kit_source};

/* (x reversed, x + 1), through a workspace */
static inline size_t kit_split_workspace(const clade_query *q) { return (size_t)kit_count(q) * sizeof(float); }
static inline clade_status kit_split_emit(clade_emit *e, const clade_query *q) {
  clade_kernel_step *s = clade_emit_kernel(e, "kit_keep");
  clade_emit_in(s, 0);
  clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_index(s, kit_count(q));
  kit_range(s, kit_count(q));
  s = clade_emit_kernel(e, "kit_split");
  clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_out(s, 0);
  clade_emit_out(s, 1);
  clade_emit_index(s, kit_count(q));
  kit_range(s, kit_count(q));
  return CLADE_OK;
}
static const clade_impl *const kit_split_impls[] = {
    CLADE_IMPL(.name = "ref", .workspace = kit_split_workspace, .emit = kit_split_emit), NULL};
static const clade_op kit_split = {.size = sizeof(clade_op),
                                   .name = "kit.split",
                                   .min_in = 1,
                                   .max_in = 1,
                                   .n_out = 2,
                                   .infer = kit_same,
                                   .impls = kit_split_impls,
                                   .source = kit_source};

/* view of x as one row */
static inline clade_status kit_row_infer(clade_node *n) {
  n->out[0] = n->in[0];
  n->out[0].shape = CLADE_SHAPE(1);
  for (int i = 0; i < n->in[0].shape.rank; i++)
    n->out[0].shape.dim[0] = clade_dim_mul(n->out[0].shape.dim[0], n->in[0].shape.dim[i]);
  return CLADE_OK;
}
static const clade_op kit_row = {.size = sizeof(clade_op),
                                 .name = "kit.row",
                                 .flags = CLADE_OP_VIEW,
                                 .min_in = 1,
                                 .max_in = 1,
                                 .n_out = 1,
                                 .infer = kit_row_infer};

/* x repeated or truncated to `n` elements */
typedef struct kit_fit_attrs {
  int64_t n;
} kit_fit_attrs;
static const clade_attr kit_fit_table[] = {{"n", CLADE_ATTR_I64, offsetof(kit_fit_attrs, n), 1}, {0}};
static inline clade_status kit_fit_infer(clade_node *n) {
  n->out[0] = (clade_type){.dtype = CLADE_F32, .shape = CLADE_SHAPE(((const kit_fit_attrs *)n->attrs)->n)};
  return CLADE_OK;
}
static inline clade_status kit_fit_emit(clade_emit *e, const clade_query *q) {
  clade_kernel_step *s = clade_emit_kernel(e, "kit_fit");
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, q->node->in[0].shape.dim[0]);
  clade_emit_index(s, kit_count(q));
  kit_range(s, kit_count(q));
  return CLADE_OK;
}
static const clade_impl *const kit_fit_impls[] = {CLADE_IMPL(.name = "ref", .emit = kit_fit_emit), NULL};
static const clade_op kit_fit = {.size = sizeof(clade_op),
                                 .name = "kit.fit",
                                 .min_in = 1,
                                 .max_in = 1,
                                 .n_out = 1,
                                 .attr_bytes = sizeof(kit_fit_attrs),
                                 .attrs = kit_fit_table,
                                 .infer = kit_fit_infer,
                                 .impls = kit_fit_impls,
                                 .source = kit_source};

/* writes one element past the end of its output */
static inline clade_status kit_past_emit(clade_emit *e, const clade_query *q) {
  clade_kernel_step *s = clade_emit_kernel(e, "kit_past");
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, kit_count(q));
  kit_range(s, kit_count(q));
  return CLADE_OK;
}
static const clade_impl *const kit_past_impls[] = {CLADE_IMPL(.name = "ref", .emit = kit_past_emit), NULL};
static const clade_op kit_past = {.size = sizeof(clade_op),
                                  .name = "kit.past",
                                  .min_in = 1,
                                  .max_in = 1,
                                  .n_out = 1,
                                  .infer = kit_same,
                                  .impls = kit_past_impls,
                                  .source = kit_source};

/* (p, g, m) for each variable, then a rate: m' = m + g, p' = p + rate m'. One launch each. */
static inline int kit_update_outputs(const void *attrs, int n_in) {
  (void)attrs;
  return n_in / 3 * 2;
}
static inline clade_status kit_update_infer(clade_node *n) {
  for (int i = 0; i < n->n_out; i++) n->out[i] = n->in[i / 2 * 3];
  return CLADE_OK;
}
static inline uint64_t kit_update_in_place(const clade_node *n, int out) {
  (void)n;
  return UINT64_C(1) << (out / 2 * 3 + (out % 2 ? 2 : 0));
}
static inline clade_status kit_update_emit(clade_emit *e, const clade_query *q) {
  for (int i = 0; i < q->node->n_out / 2; i++) {
    int64_t n = q->node->in[3 * i].shape.dim[0];
    clade_kernel_step *s = clade_emit_kernel(e, "update");
    for (int k = 0; k < 3; k++) clade_emit_in(s, 3 * i + k);
    clade_emit_in(s, q->node->n_in - 1);
    for (int k = 0; k < 2; k++) clade_emit_out(s, 2 * i + k);
    clade_emit_index(s, n);
    kit_range(s, n);
  }
  return CLADE_OK;
}
static const clade_impl *const kit_update_impls[] = {CLADE_IMPL(.name = "ref", .emit = kit_update_emit), NULL};
static const clade_op kit_update = {
    .size = sizeof(clade_op),
    .name = "kit.update",
    .min_in = 4,
    .max_in = CLADE_MAX_OPERANDS,
    .infer = kit_update_infer,
    .in_place = kit_update_in_place,
    .impls = kit_update_impls,
    .outputs = kit_update_outputs,
    .source = "KERNEL(update)(ARG(float, p), ARG(float, g), ARG(float, m), ARG(float, rate), ARG(float, p2),\n"
              "               ARG(float, m2), const index_t n) {\n"
              "  USE(float, p); USE(float, g); USE(float, m); USE(float, rate); USE(float, p2); USE(float, m2);\n"
              "  index_t i = (index_t)get_global_id(0);\n"
              "  if (i >= n) return;\n"
              "  const float moment = m[i] + g[i];\n"
              "  m2[i] = moment;\n"
              "  p2[i] = p[i] + rate[0] * moment;\n"
              "}\n"};

static inline clade_val add(clade_graph *g, clade_val a, clade_val b) {
  return clade_node_add(g, &kit_add, NULL, NULL, 2, (clade_val[]){a, b}, NULL);
}
static inline clade_val affine(clade_graph *g, const char *name, clade_val x, float k, float c) {
  return clade_node_add(g, &kit_affine, name, &(kit_attrs){k, c}, 1, &x, NULL);
}
static inline clade_val fresh(clade_graph *g, clade_val x, float k, float c) {
  return clade_node_add(g, &kit_fresh, NULL, &(kit_attrs){k, c}, 1, &x, NULL);
}

static inline clade_val fit(clade_graph *g, clade_val x, int64_t n) {
  return clade_node_add(g, &kit_fit, NULL, &(kit_fit_attrs){n}, 1, &x, NULL);
}

/* ---- helpers ---- */
#define OK(expression)                                                                                        \
  do {                                                                                                        \
    clade_status kit_s = (expression);                                                                        \
    if (kit_s != CLADE_OK) fail_msg("%s: %s: %s", #expression, clade_status_name(kit_s), clade_last_error()); \
  } while (0)

static inline void refused(clade_status have, clade_status status, const char *part) {
  if (have != status || !strstr(clade_last_error(), part))
    fail_msg("\"%s\" (%s) instead of \"%s\" (%s)", clade_last_error(), clade_status_name(have), part,
             clade_status_name(status));
}

static inline clade_graph *graph_new(void) {
  clade_graph *g = NULL;
  OK(clade_graph_new(&g));
  return g;
}

/* Compiles and releases the graph. */
static inline clade_func *compiled(clade_graph *g, clade_device *device) {
  clade_func *func = NULL;
  OK(clade_compile(g, device, &func));
  clade_graph_release(g);
  return func;
}

static inline void assert_floats(const float *have, size_t n, float first, float step) {
  for (size_t i = 0; i < n; i++)
    if (have[i] != first + step * (float)i)
      fail_msg("element %zu is %g instead of %g", i, (double)have[i], (double)(first + step * (float)i));
}

static inline int open_device(void **state) {
  clade_device *device = NULL;
  if (clade_device_find("pocl", &device) != CLADE_OK) {
    print_error("%s\n", clade_last_error());
    return -1;
  }
  *state = device;
  return 0;
}
static inline int close_device(void **state) {
  clade_device_release(*state);
  return 0;
}

#endif
