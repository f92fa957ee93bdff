/* Lists the implementation chosen for each node of a specialized func. */
#include "plan/plan.h"

static bool has_impl(const clade__node *node) { return node->op && node->impl >= 0; }

static clade_status check(const clade_func *func, const char *function) {
  if (!func) return CLADE_FAIL(INVALID, "%s: the func is NULL", function);
  if (!func->shaped)
    return CLADE_FAIL(INVALID, "%s: the func has symbols: clade_func_specialize gives the one that runs", function);
  return CLADE_OK;
}

static clade_status put_choice(clade__records *choices, const clade_func *func, clade__id id) {
  const clade_graph *g = func->graph;
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  const clade__node *node = &g->nodes[id];
  clade_node view;
  clade__text problem = {0};
  if (!has_impl(node) || !clade__tunable(node->op, clade__device_info(func->devices[node->device]))) return CLADE_OK;
  clade__node_view(g, id, in, out, &view);
  clade__pick_device(node->device, &problem);
  clade__problem_text(&view, true, &problem);
  const clade_impl *impl = clade__impls(node->op)[node->impl];
  clade__record record = {.op = node->op->name, .problem = problem.data, .impl = impl->name, .seconds = node->seconds};
  clade__record_config(&record, impl, node->config);
  clade_status status = problem.failed ? CLADE_NO_MEMORY : clade__records_put(choices, &record);
  clade__text_free(&problem);
  return status;
}

/* Choices belong to no particular device: they apply wherever the func is compiled. */
static clade_status all_choices(const clade_func *func, clade__records **out) {
  clade__tuned_device any = {.device_class = CLADE_CPU};
  clade_status status = clade__records_new(&any, out);
  for (size_t i = 0; func->placed && i < func->placed->n && status == CLADE_OK; i++)
    status = clade__records_put(*out, &func->placed->at[i]);
  for (clade__id id = 1; id < func->graph->n_nodes && status == CLADE_OK; id++) status = put_choice(*out, func, id);
  for (int i = 0; i < func->n_devices && status == CLADE_OK; i++) {
    clade__profile speed;
    clade__func_speed(func, i, &speed);
    status = clade__profile_put(*out, func->devices[i], &speed);
  }
  return status;
}

clade_status clade_func_choices(const clade_func *func, char **out) {
  if (!out) return CLADE_FAIL(INVALID, "clade_func_choices: there is no place for the text (NULL)");
  *out = NULL;
  CLADE_TRY(check(func, "clade_func_choices"));
  clade__record_sets sets = {0};
  clade__records *choices = NULL;
  clade_status status = all_choices(func, &choices);
  if (status == CLADE_OK) status = clade__record_sets_add(&sets, clade__records_retain(choices));
  if (status == CLADE_OK) status = clade__records_print(&sets, out);
  clade__record_sets_free(&sets);
  clade__records_release(choices);
  return status;
}

/* Whether no device of the func had this choice: it belongs to another device or an older version. */
static bool no_choice(const clade_func *func, const char *name) {
  const clade_op *op = clade__op_find(name);
  bool any = !op;
  for (int i = 0; op && i < func->n_devices; i++) any = any || clade__tunable(op, clade__device_info(func->devices[i]));
  return !any;
}

void clade__tell_idle_pins(const clade_func *func) {
  clade__records *choices = NULL;
  const clade__record *first = NULL;
  size_t idle = 0, n = 0;
  clade_status status = all_choices(func, &choices);
  for (size_t i = 0; status == CLADE_OK && i < func->pins->n; i++) {
    const clade__record *pin = &func->pins->at[i];
    if (!strcmp(pin->op, clade__profile_op)) continue; /* of a device, possibly a different one */
    if (no_choice(func, pin->op)) continue;
    n++;
    if (clade__records_find(choices, pin->op, pin->problem, "")) continue;
    if (!idle++) first = pin;
  }
  if (first)
    clade__log(CLADE_LOG_WARNING,
               "%zu of %zu choices that were kept are of no step of this func, as of other sizes or another version of "
               "Clade; the first is %s (%s). Steps without one are chosen anew",
               idle, n, first->op, first->problem);
  clade__records_release(choices);
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
    whole.impl = clade__impls(node->op)[node->impl]->name;
    whole.device = node->device;
    whole.why = node->why;
    memcpy(info, &whole, CLADE_MIN(size, sizeof whole));
    info->size = size;
    return CLADE_OK;
  }
  return CLADE_FAIL(INVALID, "clade_func_impl: index %d, expected 0 to %d", index, at);
}
