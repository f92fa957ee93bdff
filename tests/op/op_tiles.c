/* Runs cases with each configuration in an implementation's space, set as default by a tuning record. */
#include "op_tiles.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cl/internal.h"
#include "op_batch.h"
#include "op_start.h"
#include "pass/pass.h"

typedef struct tiled { /* a case with its configurations */
  op_case c;           /* not drawn yet */
  op_row *rows;
  size_t n, capacity;
} tiled;

static bool start_from(op_target *t, int impl, op_row *from) {
  t->config = *from;
  return op_start_from(t, 1, &impl, from);
}

/* ---- configurations of a case ---- */
static bool is_new(const tiled *one, const int32_t *own) {
  for (size_t i = 0; i < one->n; i++)
    if (memcmp(one->rows[i], own, sizeof(op_row)) == 0) return false;
  return true;
}

/* Queries the space as compilation does: for the node as built, with dense layouts. */
static bool list_rows(const op_target *t, const clade_func *func, int impl, tiled *one) {
  const clade_impl *it = t->op->impls[impl];
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  clade_query q = {sizeof q, &view, clade__device_info(t->device), NULL};
  op_row own;
  op_start_view(t, func, impl, in, out, &view);
  for (int i = 0; clade__space_config(it->space, &q, i, own); i++) {
    q.config = own;
    const bool takes = !it->accept || !it->accept(&q);
    q.config = NULL;
    if (!takes || !is_new(one, own)) continue;
    if (clade__grow(&one->rows, &one->capacity, one->n + 1, sizeof(op_row)) != CLADE_OK) return false;
    memcpy(one->rows[one->n++], own, sizeof own);
  }
  return true;
}

/* Plans the case with all its configurations. *takes: whether the implementation supports it. */
static bool plan(op_target *t, const op_tiles *how, int impl, op_batch *b, tiled *one, bool *takes) {
  op_case c = one->c;
  t->config = NULL; /* not that of the case before */
  clade_func *func = op_case_plan(t, &c, op_case_seed(how->seed, &c), impl);
  if (!(*takes = func != NULL)) return true;
  bool ok = list_rows(t, func, impl, one);
  clade_func_release(func);
  for (size_t i = 0; ok && i < one->n; i++) {
    c = one->c;
    ok = start_from(t, impl, &one->rows[i]);
    if (ok && (func = op_case_plan(t, &c, op_case_seed(how->seed, &c), impl))) op_batch_take(b, func);
  }
  return ok;
}

/* ---- one implementation ---- */
static op_case nth_case(const op_target *t, const op_tiles *how, int impl, clade_dtype dtype, int i) {
  op_case c = {.dtype = dtype, .number = i, .impl = t->op->impls[impl]->name, .fp64 = how->fp64};
  int forms = 0;
  while (t->test->forms && t->test->forms[forms].name) forms++;
  if (forms) c.form = i % forms;
  c.more = c.tiles = true;
  return c;
}

/* Finds as many cases of a type as requested, alternating between forms. *n: number found. */
static bool find_cases(op_target *t, const op_tiles *how, int impl, clade_dtype dtype, op_batch *b, tiled *cases,
                       int *n) {
  enum { MOST = 100 };
  *n = 0;
  for (int i = 0; i < MOST && *n < how->cases; i++) {
    bool takes = false;
    cases[*n].c = nth_case(t, how, impl, dtype, i);
    if (!plan(t, how, impl, b, &cases[*n], &takes)) return false;
    *n += takes;
  }
  return true;
}

static bool run_case(op_target *t, const op_tiles *how, int impl, const tiled *one, op_tally *tally) {
  for (size_t i = 0; i < one->n; i++) {
    op_case c = one->c;
    if (!start_from(t, impl, &one->rows[i])) return false;
    const op_verdict verdict = op_case_run(t, &c, op_case_seed(how->seed, &c), impl, tally);
    if (verdict == OP_PASSED) continue;
    fprintf(stderr, "%s: %s%s with", t->op->name, c.impl, verdict == OP_NOT_RUN ? " was not taken" : "");
    for (int k = 0; t->op->impls[impl]->space->params[k]; k++)
      fprintf(stderr, " %s=%d", t->op->impls[impl]->space->params[k], (int)one->rows[i][k]);
    fprintf(stderr, "\n");
    return false;
  }
  return true;
}

/* *n: number of cases of the type. */
static bool run_type(op_target *t, const op_tiles *how, int impl, clade_dtype dtype, op_tally *tally, int *n) {
  tiled *cases = op_alloc((size_t)how->cases, sizeof *cases);
  op_batch b = {0};
  size_t rows = 0;
  bool ok = find_cases(t, how, impl, dtype, &b, cases, n), several = !*n;
  op_batch_compile(&b, t);
  for (int i = 0; i < *n; i++) {
    ok = run_case(t, how, impl, &cases[i], tally) && ok;
    rows += cases[i].n;
    several |= cases[i].n > 1;
  }
  for (int i = 0; i < how->cases; i++) clade__free(cases[i].rows);
  free(cases);
  if (*n)
    printf("%s: %s: %d cases of %s, %zu rows in all\n", t->op->name, t->op->impls[impl]->name, *n,
           clade_dtype_name(dtype), rows);
  if (!several) fprintf(stderr, "%s: %s lists one row for each case\n", t->op->name, t->op->impls[impl]->name);
  return ok && several && (*n == how->cases || !*n);
}

/* Uses the first element type that it supports: types have their own kernels, and configurations do not depend on
 * them. */
static bool run_impl(op_target *t, const op_tiles *how, int impl, op_tally *tally) {
  const clade_dtype *dtypes = t->test->dtypes;
  bool ok = true, any = false;
  for (int d = 0; dtypes[d] && (how->every || !any); d++) {
    int n = 0;
    if (how->dtype && strcmp(clade_dtype_name(dtypes[d]), how->dtype) != 0) continue;
    ok = run_type(t, how, impl, dtypes[d], tally, &n) && ok;
    any |= n > 0;
  }
  if (!any) fprintf(stderr, "%s: %s takes no case\n", t->op->name, t->op->impls[impl]->name);
  return ok && any;
}

bool op_tiles_run(op_target *t, const op_tiles *how, op_tally *tally) {
  bool ok = true, any = false;
  for (int i = 0; t->op->impls && t->op->impls[i]; i++) {
    const clade_impl *it = t->op->impls[i];
    if (!it->space || !it->space->configs || (how->impl && strcmp(it->name, how->impl) != 0)) continue;
    any = true;
    ok = run_impl(t, how, i, tally) && ok;
  }
  printf("%s: %d computations, %" PRId64 " elements\n", t->op->name, tally->passed, tally->elements);
  if (any || !how->impl) return ok;
  fprintf(stderr, "%s: there is no implementation %s that lists rows\n", t->op->name, how->impl);
  return false;
}
