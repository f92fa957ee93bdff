/* Which implementation each node of a specialised func was given. */
#include "plan/plan.h"

static bool has_impl(const clade__node *node) { return node->op && node->impl >= 0 && node->op->impls; }

static clade_status check(const clade_func *func, const char *function) {
  if (!func) return CLADE_FAIL(INVALID, "%s: the func is NULL", function);
  if (!func->shaped)
    return CLADE_FAIL(INVALID, "%s: the func has symbols: clade_func_specialise gives the one that runs", function);
  return CLADE_OK;
}

clade_status clade_func_impl_count(const clade_func *func, int *count) {
  CLADE_TRY(check(func, "clade_func_impl_count"));
  if (!count) return CLADE_FAIL(INVALID, "clade_func_impl_count: count is NULL");
  *count = 0;
  for (size_t i = 1; i < func->graph->n_nodes; ++i) *count += has_impl(&func->graph->nodes[i]);
  return CLADE_OK;
}

clade_status clade_func_impl(const clade_func *func, int index, clade_impl_info *info) {
  CLADE_TRY(check(func, "clade_func_impl"));
  if (!info) return CLADE_FAIL(INVALID, "clade_func_impl: info is NULL");
  clade_impl_info whole;
  CLADE_TRY(clade__opt_copy(&whole, sizeof whole, info, "clade_func_impl"));
  int at = -1;
  for (size_t i = 1; i < func->graph->n_nodes; ++i) {
    const clade__node *node = &func->graph->nodes[i];
    if (!has_impl(node) || ++at < index || index < 0) continue;
    size_t size = info->size;
    whole.node = node->name;
    whole.op = node->op->name;
    whole.impl = node->op->impls[node->impl].name;
    whole.device = node->device;
    memcpy(info, &whole, CLADE_MIN(size, sizeof whole));
    info->size = size;
    return CLADE_OK;
  }
  return CLADE_FAIL(INVALID, "clade_func_impl: index %d, expected 0 to %d", index, at);
}
