/* Overrides default configurations of implementations by tuning records. */
#include "op_start.h"

#include "cl/internal.h"
#include "pass/pass.h"
#include "plan/plan.h"
#include "program/tuning.h"

bool op_start_from(const op_target *t, int n, const int *impl, op_row *const rows) {
  clade__tuned_device device;
  clade__records *records = NULL;
  clade__tuned_describe(t->device, &device);
  bool ok = clade__records_new(&device, &records) == CLADE_OK;
  for (int i = 0; ok && i < n; i++) {
    const clade_impl *it = t->op->impls[impl[i]];
    clade__record record = {.op = t->op->name, .problem = "*", .impl = it->name};
    clade__record_config(&record, it, rows[i]);
    ok = clade__records_put(records, &record) == CLADE_OK;
  }
  ok = ok && clade__tuning_keep(t->device, records) == CLADE_OK;
  clade__records_release(records);
  return ok;
}

void op_start_view(const op_target *t, const clade_func *func, int impl, clade_type *in, clade_type *out,
                   clade_node *view) {
  clade__id id = 1;
  while (func->graph->nodes[id].op != t->op || func->graph->nodes[id].impl != impl) id++;
  clade__node_view(func->graph, id, in, out, view);
  for (int i = 0; i < view->n_in; i++) in[i].layout = (clade_layout){0};
  for (int i = 0; i < view->n_out; i++) out[i].layout = (clade_layout){0};
}

/* The configuration for the first case that it takes. */
static bool row_of(const op_target *t, uint64_t seed, bool small, int impl, op_row row) {
  enum { MOST = 100, MANY = 1 << 16 };
  const clade_dtype *dtypes = t->test->dtypes;
  for (int i = 0; i < MOST; i++)
    for (int d = 0; dtypes[d]; d++) {
      op_case c = {.dtype = dtypes[d], .number = i, .impl = t->op->impls[impl]->name, .small = small, .more = true};
      clade_func *func = op_case_plan(t, &c, op_case_seed(seed, &c), impl);
      if (!func) continue;
      clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
      clade_node view;
      clade_device_info many = *clade__device_info(t->device);
      clade_query q = {sizeof q, &view, &many, NULL};
      many.compute_units = MANY;
      op_start_view(t, func, impl, in, out, &view);
      memset(row, 0, sizeof(op_row));
      t->op->impls[impl]->space->defaults(&q, row);
      clade_func_release(func);
      return true;
    }
  return false;
}

bool op_start_elsewhere(const op_target *t, uint64_t seed, bool small) {
  const unsigned here = 1u << clade__device_info(t->device)->device_class;
  int impl[OP_IMPLS], n = 0;
  op_row rows[OP_IMPLS];
  for (int i = 0; t->op->impls && t->op->impls[i]; i++) {
    const clade_impl *it = t->op->impls[i];
    if (!it->space || !it->devices || (it->devices & here) || !(t->anywhere >> it->family & 1)) continue;
    if (row_of(t, seed, small, i, rows[n])) impl[n++] = i;
  }
  return !n || op_start_from(t, n, impl, rows);
}
