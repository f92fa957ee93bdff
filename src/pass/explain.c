/* What was chosen for each node, and who refused and why. */
#include "pass/pass.h"

static void explain_impls(const clade_graph *g, clade__id id, const clade_device_info *device, clade__text *out) {
  const clade__node *n = &g->nodes[id];
  clade_type in[CLADE_MAX_OPERANDS], types[CLADE_MAX_OPERANDS];
  clade_node view;
  clade__node_view(g, id, in, types, &view);
  clade_query q = {sizeof q, &view, device, n->row};
  int32_t row[CLADE_MAX_PARAMS];
  double cost = clade__impl_cost(&n->op->impls[n->impl], &q);
  for (int i = 0; n->op->impls[i].name; i++) {
    const clade_impl *impl = &n->op->impls[i];
    if (i == n->impl) continue;
    clade__query_start(&q, impl, row);
    clade__text_add(out, "; %s: %s", impl->name,
                    n->refusals[i]                      ? n->refusals[i]
                    : clade__impl_cost(impl, &q) > cost ? "is dearer"
                                                        : "comes later");
  }
}

static void explain_node(const clade_graph *g, clade__id id, const clade_device_info *device, clade__text *out) {
  const clade__node *n = &g->nodes[id];
  char type[640];
  clade__text_add(out, "%s", n->op->name);
  if (*n->name) clade__text_add(out, " \"%s\"", n->name);
  for (int i = 0; i < n->n_out; i++)
    clade__text_add(out, "%s%s", i ? ", " : " ",
                    clade__type_text(clade__type(g, n->first_out + (clade__id)i), type, sizeof type));
  if (!clade__needs_impl(n->op)) {
    clade__text_add(out, ": %s\n", n->op == &clade__op_transfer ? "a copy between devices" : "a view");
    return;
  }
  clade__text_add(out, " on %s: %s", device->name, n->impl < 0 ? "not chosen yet" : n->op->impls[n->impl].name);
  if (n->impl >= 0) explain_impls(g, id, device, out);
  clade__text_add(out, "\n");
}

void clade__explain(const clade_graph *g, int n_devices, const clade_device_info *devices, clade__text *out) {
  for (clade__id id = 1; id < g->n_nodes; id++) {
    const clade__node *n = &g->nodes[id];
    bool port = !n->n_in && !clade__needs_impl(n->op);
    if (!port && n->op != &clade__op_assign && n->device < n_devices) explain_node(g, id, &devices[n->device], out);
  }
}
