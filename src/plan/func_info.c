/* Queries of a func: its figures, inputs and outputs. */
#include "plan/plan.h"

clade_status clade_func_get_info(const clade_func *func, clade_func_info *info) {
  clade_func_info all = {0};
  if (!func || !info) return CLADE_FAIL(INVALID, "clade_func_get_info: %s is NULL", func ? "info" : "the func");
  if (info->size < sizeof info->size)
    return CLADE_FAIL(INVALID, "clade_func_get_info: info->size is %zu; set it to sizeof(clade_func_info)", info->size);
  all.steps = (int)func->n_steps;
  all.segments = func->shaped ? (int)func->n_hosts + 1 : 0;
  all.inputs = (int)func->graph->inputs.count;
  all.outputs = (int)func->graph->outputs.count;
  all.variables = (int)func->graph->variables.count;
  for (size_t i = 0; i < func->slabs.count; i++) all.arena_bytes += func->slabs.at[i].bytes;
  all.live_peak_bytes = func->live_peak;
  for (size_t i = 0; i < func->graph->variables.count; i++) all.writes |= func->graph->variables.at[i].assigned != 0;
  all.compile_seconds = func->seconds;
  all.size = CLADE_MIN(info->size, sizeof all);
  memcpy(info, &all, all.size);
  return CLADE_OK;
}

static clade_status port_info(const clade_func *func, const clade__ports *ports, int index, const char *what,
                              clade_port_info *info) {
  clade_port_info all = {0};
  if (!info) return CLADE_FAIL(INVALID, "clade_func_%s: info is NULL", what);
  if (info->size < sizeof info->size)
    return CLADE_FAIL(INVALID, "clade_func_%s: info->size is %zu; set it to sizeof(clade_port_info)", what, info->size);
  if (index < 0 || (size_t)index >= ports->count)
    return CLADE_FAIL(NOT_FOUND, "clade_func_%s: there is no %s %d; the func has %zu", what, what, index, ports->count);
  all.name = ports->at[index].name;
  all.type = *clade__type(func->graph, ports->at[index].value);
  all.size = CLADE_MIN(info->size, sizeof all);
  memcpy(info, &all, all.size);
  return CLADE_OK;
}

clade_status clade_func_input(const clade_func *func, int index, clade_port_info *info) {
  if (!func) return CLADE_FAIL(INVALID, "clade_func_input: the func is NULL");
  return port_info(func, &func->graph->inputs, index, "input", info);
}

clade_status clade_func_output(const clade_func *func, int index, clade_port_info *info) {
  if (!func) return CLADE_FAIL(INVALID, "clade_func_output: the func is NULL");
  return port_info(func, &func->graph->outputs, index, "output", info);
}
