/* Clade as a contestant: a graph whose operands are variables, so that an execution copies nothing in or out. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "cli/bench/bench.h"

/* An operand is a flat variable under a view that gives the type. The compiler treats a view like the result of a
 * node, so it keeps no packed copy as it does for constant weights. */
typedef struct laid_attrs {
  clade_shape shape;
  int32_t axis, block, interleave;
} laid_attrs;
static const clade_attr laid_table[] = {{"shape", CLADE_ATTR_SHAPE, offsetof(laid_attrs, shape), 1},
                                        {"axis", CLADE_ATTR_I32, offsetof(laid_attrs, axis), 1},
                                        {"block", CLADE_ATTR_I32, offsetof(laid_attrs, block), 1},
                                        {"interleave", CLADE_ATTR_I32, offsetof(laid_attrs, interleave), 1},
                                        {0}};
static clade_status laid_infer(clade_node *n) {
  const laid_attrs *a = n->attrs;
  n->out[0] = (clade_type){.dtype = n->in[0].dtype, .shape = a->shape};
  n->out[0].layout =
      (clade_layout){.axis = (int16_t)a->axis, .block = (uint16_t)a->block, .interleave = (uint16_t)a->interleave};
  return CLADE_OK;
}
static const clade_op laid_op = {.size = sizeof(clade_op),
                                 .name = "bench.laid",
                                 .flags = CLADE_OP_VIEW,
                                 .min_in = 1,
                                 .max_in = 1,
                                 .n_out = 1,
                                 .attr_bytes = sizeof(laid_attrs),
                                 .attrs = laid_table,
                                 .infer = laid_infer};

/* Records a variable and returns its name. Out of memory gives NULL, which the compilation reports. */
static const char *keep(bench_clade *c, const char *name, const clade_type *type, const void *data, bench_kind kind) {
  size_t bytes;
  if (clade_type_bytes(type, &bytes) || clade__grow(&c->values, &c->capacity, c->n_values + 1, sizeof *c->values))
    return NULL;
  bench_value *v = &c->values[c->n_values++];
  *v = (bench_value){.data = data, .bytes = bytes, .kind = kind};
  snprintf(v->name, sizeof v->name, "%s", name);
  return name;
}

static const clade_initial zeros = {CLADE_INIT_ZERO, 0, 0};

static clade_val laid(bench_clade *c, const char *name, const clade_type *type, const void *data, bench_kind kind) {
  laid_attrs attrs;
  size_t bytes = 0, each = 1;
  memset(&attrs, 0, sizeof attrs); /* padding included: attributes are compared and hashed by their bytes */
  attrs.shape.rank = type->shape.rank;
  for (int i = 0; i < type->shape.rank; i++) attrs.shape.dim[i] = type->shape.dim[i];
  attrs.axis = type->layout.axis;
  attrs.block = type->layout.block;
  attrs.interleave = type->layout.interleave;
  (void)clade_type_bytes(type, &bytes); /* keep() fails in the same case */
  (void)clade__dtype_element(type->dtype, &each);
  clade_val flat = clade_variable(c->graph, keep(c, name, type, data, kind), type->dtype,
                                  CLADE_SHAPE(1, (int64_t)(bytes / CLADE_MAX(each, 1u))), zeros);
  return clade_node_add(c->graph, &laid_op, NULL, &attrs, 1, &flat, NULL);
}

clade_val bench_variable(bench_clade *c, const char *name, clade_dtype dtype, clade_shape shape, const void *data,
                         bench_kind kind) {
  clade_type type = {.dtype = dtype, .shape = shape};
  if (kind != BENCH_WEIGHT) return laid(c, name, &type, data, kind);
  return clade_variable(c->graph, keep(c, name, &type, data, kind), dtype, shape, zeros);
}

clade_val bench_laid(bench_clade *c, const char *name, const clade_type *type, const void *data) {
  clade_val x = laid(c, name, type, data, BENCH_FRESH);
  return type->layout.block ? clade_unpack(c->graph, x) : x;
}

clade_val bench_parameter(bench_clade *c, const char *name, clade_dtype dtype, clade_shape shape, const void *data) {
  clade_type type = {.dtype = dtype, .shape = shape};
  c->assigned = name;
  return clade_parameter(c->graph, keep(c, name, &type, data, BENCH_WEIGHT), dtype, shape, zeros);
}

static clade_status refresh(void *state) {
  bench_clade *c = state;
  for (size_t i = 0; i < c->n_values; i++)
    if (c->values[i].kind == BENCH_FRESH)
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
  if (c->out.layout.block)
    CLADE_TRY(clade_type_bytes(&c->out, &bytes));
  else
    CLADE_TRY(clade_dtype_bytes(c->out.dtype, (int64_t)c->out_elements, &bytes));
  if (c->assigned)
    CLADE_TRY(clade_vars_get(c->vars, c->assigned, c->raw, bytes));
  else
    CLADE_TRY(clade_read(c->run, c->ticket, name, c->raw, bytes));
  if (c->out.layout.block) bench_unpack(&c->out, c->raw, c->dense);
  return clade_convert(CLADE_F32, result, c->out.dtype, c->out.layout.block ? c->dense : c->raw, c->out_elements);
}

static void release(void *state) {
  bench_clade *c = state;
  clade_run_free(c->run);
  clade_vars_release(c->vars);
  clade_func_release(c->func);
  clade_graph_release(c->graph);
  clade__free(c->values);
  clade__free(c->raw);
  clade__free(c->dense);
  clade_text_free(c->layers);
  clade__free(c);
}

/* In place of the func in f32 that of its quantization (docs/quantization.md). */
static clade_status quantize(const bench_job *job, bench_clade *c) {
  clade_quantization *q;
  clade_func *func = NULL;
  clade_vars *vars = NULL;
  clade_status status;
  CLADE_TRY(clade_quantization_new(c->graph, job->device, c->vars, &q));
  CLADE_GOTO(clade_quantization_observe(q, 0, 0, 0, NULL));
  CLADE_GOTO(clade_quantization_text(q, &c->layers));
  CLADE_GOTO(clade_compile(c->graph, job->device, &func, .prefer = c->prefer, .quantization = c->layers));
  CLADE_GOTO(clade_vars_new(func, 0, &vars));
  CLADE_GOTO(clade_quantization_apply(q, vars));
  clade_func_release(c->func);
  clade_vars_release(c->vars);
  c->func = func;
  c->vars = vars;
  func = NULL;
  vars = NULL;
fail:
  clade_func_release(func);
  clade_vars_release(vars);
  clade_quantization_free(q);
  return status;
}

static clade_status compile(const bench_job *job, bench_clade *c) {
  size_t bytes = 0;
  if (c->out.layout.block) {
    CLADE_TRY(clade_type_bytes(&c->out, &bytes));
    if (!(c->dense = clade__new(c->out_elements, 8))) return CLADE_NO_MEMORY;
  }
  if (!(c->raw = clade__new(CLADE_MAX(bytes, c->out_elements * 8), 1))) return CLADE_NO_MEMORY;
  CLADE_TRY(clade_compile(c->graph, job->device, &c->func, .prefer = c->prefer, .strict = c->strict,
                          .precision = c->precision));
  CLADE_TRY(clade_vars_new(c->func, 1, &c->vars));
  for (size_t i = 0; i < c->n_values; i++)
    CLADE_TRY(clade_vars_set(c->vars, c->values[i].name, c->values[i].data, c->values[i].bytes));
  if (c->quantized) CLADE_TRY(quantize(job, c));
  return clade_run_new(c->func, c->vars, &c->run, .slots = 1);
}

clade_status bench_clade_side(const bench_job *job, bench_build *build, const void *work, bench_side *side) {
  bench_clade *c = clade__new(1, sizeof *c);
  if (!c) return CLADE_NO_MEMORY;
  *side = (bench_side){.name = "clade",
                       .state = c,
                       .refresh = refresh,
                       .call = call,
                       .read = read_result,
                       .free = release,
                       .threads = (int)job->info.compute_units};
  CLADE_TRY(clade_graph_new(&c->graph));
  CLADE_TRY(build(work, c));
  return compile(job, c); /* reports the error of a graph that could not be built */
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

static void add_kernel(void *user, const clade_step_time *time) {
  if (*time->kernel && !time->host) *(double *)user += (double)(time->end_ns - time->start_ns) * 1e-9;
}

/* Minimum of a few executions. The rest of a call's time is launch overhead and waiting. */
clade_status bench_clade_kernels(const bench_clade *c, bench_row *row) {
  enum { TIMES = 5 };
  clade_run *run;
  double sum, least = 0;
  clade_status status;
  CLADE_TRY(clade_run_new(c->func, c->vars, &run, .slots = 1, .profile = true));
  CLADE_GOTO(clade_run_observe(run, add_kernel, &sum));
  for (int i = 0; i < TIMES; i++) {
    clade_ticket ticket;
    sum = 0;
    CLADE_GOTO(clade_execute(run, 0, NULL, &ticket));
    CLADE_GOTO(clade_wait(run, ticket));
    least = i ? fmin(least, sum) : sum;
  }
  row->kernels = least / CLADE_MAX(row->chain, 1);
fail:
  clade_run_free(run);
  return status;
}

clade_status bench_clade_row(const bench_side *side, const char *op, bench_row *row) {
  const bench_clade *c = side->state;
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
