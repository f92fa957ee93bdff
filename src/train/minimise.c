/* clade_minimise: from a loss to a step of training. Gradients, clipping, the update by the optimiser's rule, averages,
 * and what is assigned. */
#include <math.h>
#include <stdio.h>

#include <clade/ops.h>

#include "op/update.h"
#include "pass/pass.h"
#include "train/optim.h"

enum { NAME_BYTES = 320 };

/* Parameters that are learnt, with what belongs to each; those of one device and type stand together. */
typedef struct task {
  clade_graph *g;
  const clade_minimise_opt *opt;
  const char *what; /* the function, for messages */
  int n, n_moments;
  const clade_rule *rule;
  clade_val *parameters, *gradients, *moments, *new_parameters, *new_moments, *state, *new_state;
  const char **names;
  bool *decays;
  clade_val step, next, lr, scale, clip_scale; /* step: done before this one; next: with it */
} task;

static clade_status allocate(task *t, size_t n) {
  size_t moments = CLADE_MAX_MOMENTS * n;
  t->parameters = clade__new(6 * n + 2 * moments, sizeof *t->parameters);
  t->names = clade__new(n, sizeof *t->names);
  t->decays = clade__new(n, sizeof *t->decays);
  if (!t->parameters || !t->names || !t->decays) return CLADE_NO_MEMORY;
  t->gradients = t->parameters + n;
  t->new_parameters = t->gradients + n;
  t->state = t->new_parameters + n;
  t->new_state = t->state + n;
  t->moments = t->new_state + n;
  t->new_moments = t->moments + moments;
  return CLADE_OK;
}

static void release(task *t) {
  clade__free(t->parameters);
  clade__free(t->names);
  clade__free(t->decays);
}

/* ---- what is learnt ---- */
static clade_type type_of(const task *t, clade_val v) { return *clade__type(t->g, v.id); }
static int device_of(const task *t, clade_val v) { return t->g->nodes[t->g->values[v.id].node].device; }

static clade_status check_loss(const clade_graph *g, const char *what, clade_val loss) {
  char role[64], text[640];
  clade__id id;
  snprintf(role, sizeof role, "%s: the loss", what);
  CLADE_TRY(clade__graph_value(g, loss, role, &id));
  const clade_type *type = clade__type(g, id);
  if (type->shape.rank == 0 && (type->dtype == CLADE_F32 || type->dtype == CLADE_F16 || type->dtype == CLADE_BF16))
    return CLADE_OK;
  const clade__node *n = &g->nodes[g->values[id].node];
  return CLADE_FAIL(SHAPE,
                    "%s: the loss (%s \"%s\") is %s; expected a scalar of floats: clade_mean or clade_sum makes one",
                    what, n->op->name, n->name, clade__type_text(type, text, sizeof text));
}

/* The parameters that may have gradients. */
static void list_parameters(task *t) {
  for (size_t i = 0; i < t->g->variables.count; i++) {
    const clade__port *port = &t->g->variables.at[i];
    clade_dtype dtype = clade__type(t->g, port->value)->dtype;
    if (!port->parameter || (dtype != CLADE_F32 && dtype != CLADE_F16 && dtype != CLADE_BF16)) continue;
    t->parameters[t->n] = clade__graph_val(t->g, port->value);
    t->names[t->n++] = port->name;
  }
}

/* Leaves those that the loss depends on, with their gradients. */
static clade_status differentiate(task *t, clade_val loss) {
  int n = 0;
  list_parameters(t);
  int all = t->n;
  CLADE_TRY(clade__gradients(t->g, loss, (clade_val){0}, t->n, t->parameters, t->gradients));
  for (int i = 0; i < all; i++) {
    if (!clade_val_ok(t->gradients[i])) {
      clade__log(CLADE_LOG_INFO, "%s: the loss does not depend on parameter %s, which stays as it is", t->what,
                 t->names[i]);
      continue;
    }
    t->parameters[n] = t->parameters[i];
    t->gradients[n] = t->gradients[i];
    t->names[n++] = t->names[i];
  }
  t->n = n;
  if (n == 0)
    return CLADE_FAIL(INVALID, "%s: the loss depends on none of the graph's %d parameters: nothing is to be learnt",
                      t->what, all);
  return CLADE_OK;
}

/* ---- variables of the optimiser ---- */
static bool has_variable(const clade_graph *g, const char *name) {
  size_t index;
  return clade__map_get(&g->variables.by_name, clade__hash_bytes(name, strlen(name)), &index);
}

static clade_val scalar_variable(clade_graph *g, const char *name, clade_dtype dtype, double value) {
  return clade_variable(g, name, dtype, CLADE_SCALAR, (clade_initial){CLADE_INIT_FILL, value, 0});
}

/* optimizer.<kind>:<parameter>, where the parameter is. */
static clade_val state_of(task *t, const char *kind, int i) {
  char name[NAME_BYTES];
  t->g->device = device_of(t, t->parameters[i]);
  snprintf(name, sizeof name, "optimizer.%s:%s", kind, t->names[i]);
  return clade_variable(t->g, name, CLADE_F32, type_of(t, t->parameters[i]).shape, (clade_initial){0});
}

static clade_val one_more(clade_graph *g, clade_val count) {
  return clade_add(g, count, clade_fill(g, CLADE_I64, CLADE_SCALAR, 1));
}

/* ---- groups of parameters of one device and type ---- */
static bool together(const task *t, int i, int k) {
  return device_of(t, t->parameters[i]) == device_of(t, t->parameters[k]) &&
         type_of(t, t->parameters[i]).dtype == type_of(t, t->parameters[k]).dtype &&
         type_of(t, t->gradients[i]).dtype == type_of(t, t->gradients[k]).dtype;
}

static void swap_parameters(task *t, int i, int k) {
  clade_val p = t->parameters[i], dx = t->gradients[i];
  const char *name = t->names[i];
  t->parameters[i] = t->parameters[k], t->parameters[k] = p;
  t->gradients[i] = t->gradients[k], t->gradients[k] = dx;
  t->names[i] = t->names[k], t->names[k] = name;
}

/* How many, from `first` on, belong to one group; brings them there. */
static int group(task *t, int first) {
  int end = first + 1;
  for (int i = end; i < t->n; i++)
    if (together(t, first, i)) swap_parameters(t, i, end++);
  return end - first;
}

/* Calls fn for each group, on its device. */
static clade_status each_group(task *t, clade_status (*fn)(task *t, int first, int n)) {
  for (int i = 0, n; i < t->n; i += n) {
    n = group(t, i);
    t->g->device = device_of(t, t->parameters[i]);
    CLADE_TRY(fn(t, i, n));
    CLADE_TRY(clade_graph_status(t->g));
  }
  t->g->device = device_of(t, t->parameters[0]);
  return CLADE_OK;
}

/* ---- averages and sums: one state each ---- */
static clade_status fold_into(task *t, const char *kind, clade__update_attrs attrs, clade_val count,
                              const clade_val *from, int first, int n) {
  attrs.clip = INFINITY;
  for (int i = first; i < first + n; i++) t->state[i] = state_of(t, kind, i);
  CLADE_TRY(clade__update_add(t->g, &(clade__update_call){.attrs = attrs,
                                                          .n = n,
                                                          .scalar = {{0}, count, {0}, {0}},
                                                          .gradients = from + first,
                                                          .states = t->state + first,
                                                          .out = t->new_state + first}));
  for (int i = first; i < first + n; i++) clade_assign(t->g, t->state[i], t->new_state[i]);
  return CLADE_OK;
}

static clade_status average(task *t, int first, int n) {
  return fold_into(t, "ema", (clade__update_attrs){.rule = CLADE__UPDATE_AVERAGE, .p = (float)(1 - t->opt->ema)},
                   t->next, t->new_parameters, first, n);
}

static clade_status sum(task *t, int first, int n) {
  return fold_into(t, "sum", (clade__update_attrs){.rule = CLADE__UPDATE_SUM}, t->next, t->gradients, first, n);
}

/* ---- clipping ---- */
static clade_status add_squares(task *t, int first, int n) {
  clade_val one = clade_fill(t->g, CLADE_F32, CLADE_SCALAR, 1);
  float clip = t->opt->clip_value ? (float)t->opt->clip_value : INFINITY;
  t->clip_scale =
      clade__square_sum(t->g, n, t->gradients + first, clade_val_ok(t->scale) ? t->scale : one, clip, t->clip_scale);
  return CLADE_OK;
}

/* The norm of all gradients together, and from it what they are multiplied by. */
static clade_status clip(task *t) {
  clade_graph *g = t->g;
  if (!t->opt->clip_norm && !t->opt->report) return CLADE_OK;
  t->clip_scale = clade_fill(g, CLADE_F32, CLADE_SCALAR, 0);
  CLADE_TRY(each_group(t, add_squares));
  clade_val norm = clade_sqrt(g, t->clip_scale), one = clade_fill(g, CLADE_F32, CLADE_SCALAR, 1);
  if (t->opt->report) clade_output(g, "grad_norm", norm);
  t->clip_scale = (clade_val){0};
  if (t->opt->clip_norm) /* the small number keeps a norm of 0 from dividing */
    t->clip_scale = clade_min(g, one,
                              clade_div(g, clade_fill(g, CLADE_F32, CLADE_SCALAR, t->opt->clip_norm),
                                        clade_add(g, norm, clade_fill(g, CLADE_F32, CLADE_SCALAR, 1e-6))));
  return CLADE_OK;
}

/* ---- the update ---- */
static clade_status update(task *t, int first, int n) {
  int m = t->n_moments;
  clade_update u = {.size = sizeof u,
                    .graph = t->g,
                    .optimizer = &t->opt->optimizer,
                    .n = n,
                    .parameters = t->parameters + first,
                    .gradients = t->gradients + first,
                    .moments = t->moments + first * m,
                    .decays = t->decays + first,
                    .lr = t->lr,
                    .step = t->next,
                    .scale = t->scale,
                    .clip_scale = t->clip_scale,
                    .clip_value = t->opt->clip_value,
                    .new_parameters = t->new_parameters + first,
                    .new_moments = t->new_moments + first * m};
  for (int i = first; i < first + n; i++) {
    t->decays[i] = t->opt->decay_all || type_of(t, t->parameters[i]).shape.rank >= 2;
    for (int k = 0; k < m; k++) t->moments[i * m + k] = state_of(t, t->rule->moments[k], i);
  }
  CLADE_TRY(clade_graph_status(t->g));
  unsigned failures = clade__failures();
  clade_status status = t->rule->update(&u);
  if (status && clade__failures() == failures) clade_fail(status, "%s: %s", t->rule->name, clade_status_text(status));
  CLADE_TRY(status);
  CLADE_TRY(clade_graph_status(t->g)); /* before values that it did not make are missed */
  for (int i = first; i < first + n; i++) {
    clade_assign(t->g, t->parameters[i], t->new_parameters[i]);
    for (int k = 0; k < m; k++) clade_assign(t->g, t->moments[i * m + k], t->new_moments[i * m + k]);
  }
  return CLADE_OK;
}

clade_val clade_update_gradient(const clade_update *u, int i) {
  clade_type type;
  if (!u || i < 0 || i >= u->n) {
    CLADE_FAIL(INVALID, "clade_update_gradient: there is no gradient %d", i);
    return (clade_val){0};
  }
  clade_graph *g = u->graph;
  clade_val dx = clade_cast(g, u->gradients[i], CLADE_F32);
  if (clade_val_ok(u->scale)) dx = clade_mul(g, dx, u->scale);
  if (u->clip_value) dx = clade_clip(g, dx, -u->clip_value, u->clip_value);
  if (clade_val_ok(u->clip_scale)) dx = clade_mul(g, dx, u->clip_scale);
  if (clade_val_type(g, u->parameters[i], &type) != CLADE_OK) return (clade_val){0};
  return clade_cast(g, dx, type.dtype);
}

static clade_status add_update(task *t) {
  clade_graph *g = t->g;
  g->device = device_of(t, t->parameters[0]);
  while (t->n_moments < CLADE_MAX_MOMENTS && t->rule->moments[t->n_moments]) t->n_moments++;
  t->step = scalar_variable(g, "optimizer.step", CLADE_I64, 0);
  t->next = one_more(g, t->step);
  clade_assign(g, t->step, t->next);
  clade_val factor = clade__schedule_node(g, &t->opt->schedule, t->step);
  t->lr = scalar_variable(g, "optimizer.lr", CLADE_F32, t->opt->optimizer.lr);
  if (clade_val_ok(factor)) t->lr = clade_mul(g, t->lr, factor);
  if (t->opt->report) clade_output(g, "lr", t->lr);
  CLADE_TRY(clip(t));
  CLADE_TRY(each_group(t, update));
  return t->opt->ema ? each_group(t, average) : CLADE_OK;
}

/* ---- gradients that were summed by another graph ---- */
/* All variables of the model, so that what is made for this graph serves both. */
static clade_status copy_variables(task *t, const clade_graph *model) {
  clade_graph *g = t->g;
  for (size_t i = 0; i < model->variables.count; i++) {
    const clade__port *port = &model->variables.at[i];
    const clade_type *type = clade__type(model, port->value);
    g->device = model->nodes[model->values[port->value].node].device;
    clade_val v =
        (port->parameter ? clade_parameter : clade_variable)(g, port->name, type->dtype, type->shape, port->initial);
    if (!clade_val_ok(v)) return clade_graph_status(g);
  }
  return CLADE_OK;
}

static clade_val variable(const clade_graph *g, const char *name) {
  size_t index;
  if (!clade__map_get(&g->variables.by_name, clade__hash_bytes(name, strlen(name)), &index)) return (clade_val){0};
  return clade__graph_val(g, g->variables.at[index].value);
}

static clade_status take_sums(task *t) {
  clade_graph *g = t->g;
  char name[NAME_BYTES];
  int n = 0;
  if (g->variables.count || t->opt->model == g)
    return CLADE_FAIL(INVALID, "%s: the graph has variables already; expected a new one beside the model's", t->what);
  CLADE_TRY(copy_variables(t, t->opt->model));
  list_parameters(t);
  for (int i = 0; i < t->n; i++) {
    snprintf(name, sizeof name, "optimizer.sum:%s", t->names[i]);
    clade_val sums = variable(g, name);
    if (!clade_val_ok(sums)) continue;
    t->parameters[n] = t->parameters[i];
    t->gradients[n] = sums;
    t->names[n++] = t->names[i];
  }
  t->n = n;
  clade_val count = variable(g, "optimizer.count");
  if (!n || !clade_val_ok(count))
    return CLADE_FAIL(INVALID, "%s: the model's graph sums no gradients: call clade_accumulate on it first", t->what);
  g->device = device_of(t, count);
  t->scale = clade_reciprocal(g, clade_cast(g, count, CLADE_F32));
  clade_assign(g, count, clade_fill(g, CLADE_I64, CLADE_SCALAR, 0));
  return clade_graph_status(g);
}

/* ---- the calls ---- */
static clade_status check_options(const clade_minimise_opt *o) {
  CLADE_TRY(clade__optimizer_check(&o->optimizer));
  CLADE_TRY(clade__schedule_check(&o->schedule));
  if (!(o->clip_value >= 0)) return CLADE_FAIL(INVALID, ".clip_value is %g; expected a positive number", o->clip_value);
  if (!(o->clip_norm >= 0)) return CLADE_FAIL(INVALID, ".clip_norm is %g; expected a positive number", o->clip_norm);
  if (!(o->ema >= 0 && o->ema < 1)) return CLADE_FAIL(INVALID, ".ema is %g; expected 0 to below 1", o->ema);
  return CLADE_OK;
}

static clade_status check_new(const task *t) {
  static const char *const marks[] = {"optimizer.step", "optimizer.count"};
  for (size_t i = 0; i < CLADE_COUNT(marks); i++)
    if (has_variable(t->g, marks[i]))
      return CLADE_FAIL(DUPLICATE, "%s: the graph has an optimiser already (variable %s)", t->what, marks[i]);
  return CLADE_OK;
}

static clade_status minimise(task *t) {
  clade_status status = check_options(t->opt);
  if (status) return clade__fail_in(status, "%s", t->what);
  CLADE_TRY(check_new(t));
  const clade_graph *model = t->opt->model;
  if (!model) CLADE_TRY(check_loss(t->g, t->what, t->opt->loss));
  if (model) CLADE_TRY(clade_graph_status(model));
  CLADE_TRY(allocate(t, (model ? model : t->g)->variables.count));
  CLADE_TRY(model ? take_sums(t) : differentiate(t, t->opt->loss));
  return add_update(t);
}

static clade_status accumulate(task *t) {
  CLADE_TRY(check_new(t));
  CLADE_TRY(check_loss(t->g, t->what, t->opt->loss));
  CLADE_TRY(allocate(t, t->g->variables.count));
  CLADE_TRY(differentiate(t, t->opt->loss));
  t->g->device = device_of(t, t->parameters[0]);
  t->step = scalar_variable(t->g, "optimizer.count", CLADE_I64, 0);
  t->next = one_more(t->g, t->step);
  clade_assign(t->g, t->step, t->next);
  return each_group(t, sum);
}

/* Where builders stand, as it was; the first failure stays in the graph, as of all of them. */
static clade_status run(task *t, clade_status (*fn)(task *)) {
  clade_graph *g = t->g;
  if (!clade__graph_ok(g)) return g && !g->sealed ? g->status : CLADE_INVALID;
  int device = g->device, share = g->share;
  g->share = 0; /* others do not assign */
  clade_status status = fn(t);
  g->device = device;
  g->share = share;
  release(t);
  if (status == CLADE_OK) status = clade_graph_status(g);
  if (status) clade__graph_fail(g, status, NULL);
  return status;
}

clade_status clade_minimise_(clade_graph *g, const clade_minimise_opt *given) {
  clade_minimise_opt opt;
  CLADE_TRY(clade__opt_copy(&opt, sizeof opt, given, "clade_minimise"));
  if (!opt.optimizer.rule) opt.optimizer = clade_adam();
  return run(&(task){.g = g,
                     .opt = &opt,
                     .what = opt.model ? "clade_minimise_sums" : "clade_minimise",
                     .rule = opt.optimizer.rule},
             minimise);
}

clade_status clade_accumulate(clade_graph *g, clade_val loss) {
  clade_minimise_opt opt = {.size = sizeof opt, .loss = loss};
  return run(&(task){.g = g, .opt = &opt, .what = "clade_accumulate"}, accumulate);
}
