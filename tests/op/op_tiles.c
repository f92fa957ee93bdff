/* Cases with each row that an implementation's space lists for them, one after the other: a row is put into a record
 * that the implementation starts from. */
#include "op_tiles.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cl/room.h"
#include "op_batch.h"
#include "pass/pass.h"
#include "program/tuning.h"

typedef int32_t row[CLADE_MAX_PARAMS];

typedef struct tiled { /* a case, and the rows that it is computed with */
  op_case c;           /* not drawn yet */
  row *rows;
  size_t n, capacity;
} tiled;

/* Makes the implementation start from the row. */
static bool start_from(op_target *t, int impl, const int32_t *from) {
  clade__tuned_device device;
  clade__records *records = NULL;
  clade__record record = {.op = t->op->name, .problem = "*", .impl = t->op->impls[impl].name};
  clade__tuned_describe(t->device, &device);
  clade__record_row(&record, &t->op->impls[impl], from);
  bool ok = clade__records_new(&device, &records) == CLADE_OK && clade__records_put(records, &record) == CLADE_OK &&
            clade__tuning_keep(t->device, records) == CLADE_OK;
  clade__records_release(records);
  t->row = from;
  return ok;
}

/* ---- the rows of a case ---- */
static bool is_new(const tiled *one, const int32_t *own) {
  for (size_t i = 0; i < one->n; i++)
    if (memcmp(one->rows[i], own, sizeof(row)) == 0) return false;
  return true;
}

/* As the space is asked for them while the func is compiled: of the node as it was built, which is dense. */
static bool list_rows(const op_target *t, const clade_func *func, int impl, tiled *one) {
  const clade_impl *it = &t->op->impls[impl];
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  clade_query q = {sizeof q, &view, clade__device_info(t->device), NULL};
  clade__id id = 1;
  row own;
  while (func->graph->nodes[id].op != t->op || func->graph->nodes[id].impl != impl) id++;
  clade__node_view(func->graph, id, in, out, &view);
  for (int i = 0; i < view.n_in; i++) in[i].layout = (clade_layout){0};
  for (int i = 0; i < view.n_out; i++) out[i].layout = (clade_layout){0};
  for (int i = 0; clade__space_row(it->space, &q, i, own); i++) {
    q.row = own;
    const bool takes = !it->accept || !it->accept(&q);
    q.row = NULL;
    if (!takes || !is_new(one, own)) continue;
    if (clade__grow(&one->rows, &one->capacity, one->n + 1, sizeof(row)) != CLADE_OK) return false;
    memcpy(one->rows[one->n++], own, sizeof own);
  }
  return true;
}

/* Plans the case with all its rows. *takes: whether the implementation is one for it. */
static bool plan(op_target *t, const op_tiles *how, int impl, op_batch *b, tiled *one, bool *takes) {
  op_case c = one->c;
  clade_func *func = op_case_plan(t, &c, op_case_seed(how->seed, &c), impl);
  if (!(*takes = func != NULL)) return true;
  bool ok = list_rows(t, func, impl, one);
  clade_func_release(func);
  for (size_t i = 0; ok && i < one->n; i++) {
    c = one->c;
    ok = start_from(t, impl, one->rows[i]);
    if (ok && (func = op_case_plan(t, &c, op_case_seed(how->seed, &c), impl))) op_batch_take(b, func);
  }
  return ok;
}

/* ---- an implementation ---- */
static op_case nth_case(const op_target *t, const op_tiles *how, int impl, int i) {
  const clade_dtype *dtypes = t->test->dtypes;
  int types = 0, forms = 0;
  while (dtypes[types]) types++;
  while (t->test->forms && t->test->forms[forms].name) forms++;
  op_case c = {.dtype = dtypes[i % types], .number = i, .impl = t->op->impls[impl].name, .fp64 = how->fp64};
  if (forms) c.form = (i + i / types) % forms;
  c.more = c.tiles = true;
  return c;
}

/* What it takes of the cases that are drawn: of all element types and forms in turn. */
static bool find_cases(op_target *t, const op_tiles *how, int impl, op_batch *b, tiled *cases) {
  enum { MOST = 500 };
  int n = 0;
  for (int i = 0; i < MOST && n < how->cases; i++) {
    bool takes = false;
    cases[n].c = nth_case(t, how, impl, i);
    if (how->dtype && strcmp(clade_dtype_name(cases[n].c.dtype), how->dtype) != 0) continue;
    if (!plan(t, how, impl, b, &cases[n], &takes)) return false;
    n += takes;
  }
  if (n == how->cases) return true;
  fprintf(stderr, "%s: %s takes %d cases, and %d are wanted\n", t->op->name, t->op->impls[impl].name, n, how->cases);
  return false;
}

static bool run_case(op_target *t, const op_tiles *how, int impl, const tiled *one, op_tally *tally) {
  for (size_t i = 0; i < one->n; i++) {
    op_case c = one->c;
    if (!start_from(t, impl, one->rows[i])) return false;
    const op_verdict verdict = op_case_run(t, &c, op_case_seed(how->seed, &c), impl, tally);
    if (verdict == OP_PASSED) continue;
    fprintf(stderr, "%s: %s%s with", t->op->name, c.impl, verdict == OP_NOT_RUN ? " was not taken" : "");
    for (int k = 0; t->op->impls[impl].space->params[k]; k++)
      fprintf(stderr, " %s=%d", t->op->impls[impl].space->params[k], (int)one->rows[i][k]);
    fprintf(stderr, "\n");
    return false;
  }
  return true;
}

static bool run_impl(op_target *t, const op_tiles *how, int impl, op_tally *tally) {
  const char *name = t->op->impls[impl].name;
  tiled *cases = op_alloc((size_t)how->cases, sizeof *cases);
  op_batch b = {0};
  size_t rows = 0, most = 0;
  bool ok = find_cases(t, how, impl, &b, cases);
  op_batch_compile(&b, t);
  for (int i = 0; i < how->cases; i++) {
    ok = run_case(t, how, impl, &cases[i], tally) && ok;
    rows += cases[i].n;
    most = CLADE_MAX(most, cases[i].n);
    clade__free(cases[i].rows);
  }
  free(cases);
  printf("%s: %s computed %d cases, with %zu rows in all\n", t->op->name, name, how->cases, rows);
  if (most > 1) return ok;
  fprintf(stderr, "%s: %s lists no rows for its cases\n", t->op->name, name);
  return false;
}

bool op_tiles_run(op_target *t, const op_tiles *how, op_tally *tally) {
  bool ok = true, any = false;
  for (int i = 0; t->op->impls && t->op->impls[i].name; i++) {
    const clade_impl *it = &t->op->impls[i];
    if (!it->space || !it->space->rows || (how->impl && strcmp(it->name, how->impl) != 0)) continue;
    any = true;
    ok = run_impl(t, how, i, tally) && ok;
  }
  printf("%s: %d computations, %" PRId64 " elements\n", t->op->name, tally->passed, tally->elements);
  if (any || !how->impl) return ok;
  fprintf(stderr, "%s: there is no implementation %s that lists rows\n", t->op->name, how->impl);
  return false;
}
