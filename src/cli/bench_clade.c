/* Clade as a contestant: a func whose operands are variables, so that an execution copies nothing in or out. */
#include <stdio.h>

#include "cli/bench.h"

/* Its name, kept; NULL where there is no memory, which compiling a graph without it tells. */
static const char *keep(bench_clade *c, const char *name, clade_dtype dtype, clade_shape shape, const void *data,
                        bool fresh) {
  clade_type type = {.dtype = dtype, .shape = shape};
  size_t bytes;
  if (clade_type_bytes(&type, &bytes) || clade__grow(&c->values, &c->capacity, c->n_values + 1, sizeof *c->values))
    return NULL;
  bench_value *v = &c->values[c->n_values++];
  *v = (bench_value){.data = data, .bytes = bytes, .fresh = fresh};
  snprintf(v->name, sizeof v->name, "%s", name);
  return name;
}

static const clade_initial zeros = {CLADE_INIT_ZERO, 0, 0};

clade_val bench_variable(bench_clade *c, const char *name, clade_dtype dtype, clade_shape shape, const void *data,
                         bool fresh) {
  return clade_variable(c->graph, keep(c, name, dtype, shape, data, fresh), dtype, shape, zeros);
}

clade_val bench_parameter(bench_clade *c, const char *name, clade_dtype dtype, clade_shape shape, const void *data) {
  c->assigned = name;
  return clade_parameter(c->graph, keep(c, name, dtype, shape, data, false), dtype, shape, zeros);
}

static clade_status refresh(void *state) {
  bench_clade *c = state;
  for (size_t i = 0; i < c->n_values; i++)
    if (c->values[i].fresh)
      CLADE_TRY(clade_vars_set(c->vars, c->values[i].name, c->values[i].data, c->values[i].bytes));
  return CLADE_OK;
}

static clade_status call(void *state) {
  bench_clade *c = state;
  CLADE_TRY(clade_execute(c->run, 0, NULL, &c->ticket));
  return clade_wait(c->run, c->ticket);
}

static clade_status read_result(void *state, int index, float *result) {
  bench_clade *c = state;
  char name[24];
  size_t bytes;
  snprintf(name, sizeof name, "y%d", index);
  CLADE_TRY(clade_dtype_bytes(c->out, (int64_t)c->out_elements, &bytes));
  if (c->assigned)
    CLADE_TRY(clade_vars_get(c->vars, c->assigned, c->raw, bytes));
  else
    CLADE_TRY(clade_read(c->run, c->ticket, name, c->raw, bytes));
  return clade_convert(CLADE_F32, result, c->out, c->raw, c->out_elements);
}

static void release(void *state) {
  bench_clade *c = state;
  clade_run_free(c->run);
  clade_vars_release(c->vars);
  clade_func_release(c->func);
  clade_graph_release(c->graph);
  clade__free(c->values);
  clade__free(c->raw);
  clade__free(c);
}

clade_status bench_clade_side(const bench_job *job, bench_clade *c, bench_side *side) {
  *side = (bench_side){.name = "clade",
                       .state = c,
                       .refresh = refresh,
                       .call = call,
                       .read = read_result,
                       .free = release,
                       .threads = (int)job->info.compute_units};
  if (!(c->raw = clade__new(c->out_elements, 8))) return CLADE_NO_MEMORY;
  CLADE_TRY(clade_compile(c->graph, job->device, &c->func));
  CLADE_TRY(clade_vars_new(c->func, 1, &c->vars));
  for (size_t i = 0; i < c->n_values; i++)
    CLADE_TRY(clade_vars_set(c->vars, c->values[i].name, c->values[i].data, c->values[i].bytes));
  return clade_run_new(c->func, c->vars, &c->run, .slots = 1);
}

/* The line of the explanation that begins with "OP ". */
static clade_status why(const bench_clade *c, const char *op, char **out) {
  char *text;
  CLADE_TRY(clade_func_explain(c->func, &text));
  size_t length = strlen(op);
  for (char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
    if (!strncmp(line, op, length) && line[length] == ' ') {
      line[strcspn(line, "\n")] = 0;
      *out = clade__copy_text(line);
      break;
    }
  clade_text_free(text);
  return CLADE_OK;
}

clade_status bench_clade_row(const bench_clade *c, const char *op, bench_row *row) {
  clade_impl_info info = {.size = sizeof info};
  int n;
  CLADE_TRY(clade_func_impl_count(c->func, &n));
  for (int i = 0; i < n; i++) {
    CLADE_TRY(clade_func_impl(c->func, i, &info));
    if (strcmp(info.op, op)) continue;
    snprintf(row->impl, sizeof row->impl, "%s", info.impl);
    break;
  }
  return why(c, op, &row->why);
}
