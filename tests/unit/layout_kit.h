/* Ops whose implementations require layouts, and the cost of a selection, for the layout tests. */
#ifndef LAYOUT_KIT_H
#define LAYOUT_KIT_H

#include "toy.h"

#include <stdio.h>

#include "pass/candidates.h"

enum { KIT_LAYOUTS = 3, KIT_IMPLS = 3 };
static const clade_layout kit_layout[KIT_LAYOUTS] = {{0}, {.axis = 1, .block = 8}, {.axis = 0, .block = 4}};

/* Random properties of a node, derived from its number: accepting implementations, their layouts and costs. */
typedef struct kit_attrs {
  int32_t number;
} kit_attrs;
static const clade_attr kit_attr_table[] = {{"number", CLADE_ATTR_I32, offsetof(kit_attrs, number), 1}, {0}};

static inline uint32_t kit_draw(int number, int impl, int what) {
  uint32_t x[4];
  clade__philox(77, (uint64_t)number, (uint64_t)(impl * 100 + what), x);
  return x[0];
}
static inline bool kit_accepts(int number, int impl) { return impl == 0 || kit_draw(number, impl, 0) % 4 != 0; }
static inline double kit_cost(int number, int impl) { return (kit_draw(number, impl, 1) % 1000) * 3e-8; }
/* operand: -1 for the output */
static inline int kit_wants(int number, int impl, int operand) {
  return impl == 0 ? 0 : (int)(kit_draw(number, impl, 3 + operand) % KIT_LAYOUTS);
}

static inline int kit_number(const clade_query *q) { return ((const kit_attrs *)q->node->attrs)->number; }
static inline void kit_layouts(const clade_query *q, int impl, clade_layout *in, clade_layout *out) {
  for (int i = 0; i < q->node->n_in; i++) in[i] = kit_layout[kit_wants(kit_number(q), impl, i)];
  out[0] = kit_layout[kit_wants(kit_number(q), impl, -1)];
}
#define KIT_IMPL(k)                                                                              \
  static inline const char *kit_accept##k(const clade_query *q) {                                \
    return kit_accepts(kit_number(q), k) ? NULL : "draws so";                                    \
  }                                                                                              \
  static inline double kit_cost##k(const clade_query *q) { return kit_cost(kit_number(q), k); }  \
  static inline void kit_layouts##k(const clade_query *q, clade_layout *in, clade_layout *out) { \
    kit_layouts(q, k, in, out);                                                                  \
  }
KIT_IMPL(0)
KIT_IMPL(1)
KIT_IMPL(2)
static const clade_impl *const kit_impls[] = {
    CLADE_IMPL(.name = "one", .accept = kit_accept1, .cost = kit_cost1, .layouts = kit_layouts1),
    CLADE_IMPL(.name = "two", .accept = kit_accept2, .cost = kit_cost2, .layouts = kit_layouts2),
    CLADE_IMPL(.name = "ref", .accept = kit_accept0, .cost = kit_cost0, .layouts = kit_layouts0),
    NULL,
};
static const clade_op kit_op = {.size = sizeof(clade_op),
                                .name = "kit.op",
                                .min_in = 1,
                                .max_in = 3,
                                .n_out = 1,
                                .attr_bytes = sizeof(kit_attrs),
                                .attrs = kit_attr_table,
                                .infer = toy_same,
                                .impls = kit_impls};

static inline double kit_any_cost(const clade_query *q) {
  (void)q;
  return 1e-6;
}
static const clade_impl *const kit_any_impls[] = {CLADE_IMPL(.name = "ref", .cost = kit_any_cost, .any_layout = true),
                                                  NULL};
static const clade_op kit_any = {.size = sizeof(clade_op),
                                 .name = "kit.any",
                                 .min_in = 1,
                                 .max_in = 3,
                                 .n_out = 1,
                                 .infer = toy_same,
                                 .impls = kit_any_impls};

static const clade_device_info kit_device = {
    .size = sizeof kit_device, .name = "first", .vector_f32 = 8, .compute_units = 2};

/* Total cost of a selected graph, including reorders; fails if a node has no implementation. */
static inline double kit_sum(const clade_graph *g, int *conversions) {
  double sum = 0;
  *conversions = 0;
  for (clade__id id = 1; id < g->n_nodes; id++) {
    const clade__node *n = &g->nodes[id];
    clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
    clade_node view;
    if (!clade__needs_impl(n->op)) continue;
    assert_true(n->impl >= 0);
    clade__node_view(g, id, in, out, &view);
    clade_query q = {sizeof q, &view, &kit_device, n->config};
    sum += clade__impl_cost(n->op->impls[n->impl], &q);
    *conversions += n->op == &clade__op_pack || n->op == &clade__op_unpack;
  }
  return sum;
}

/* Runs the select pass; the caller keeps its graph. */
static inline clade_graph *kit_select(clade_graph *g) {
  clade__pass_ctx ctx = {.graph = clade_graph_retain(g), .n_devices = 1, .devices = &kit_device};
  assert_error(clade__pass_select(&ctx), CLADE_OK, "");
  return ctx.graph;
}

#endif
