/* clade_minimize: adds a training step to a graph: gradients, clipping, the optimizer's update, averages and
 * assignments. */
#include <math.h>
#include <stdio.h>

#include <clade/ops.h>

#include "comm/carrier.h"
#include "comm/wire.h"
#include "pass/pass.h"
#include "train/low_rank.h"

/* ---- learned parameters ---- */
static clade_status check_loss(const clade_graph *g, const char *what, clade_val loss) {
  char role[64], text[640];
  clade__id id;
  snprintf(role, sizeof role, "%s: the loss", what);
  CLADE_TRY(clade__graph_value(g, loss, role, &id));
  const clade_type *type = clade__type(g, id);
  if (type->shape.rank == 0 && clade__is_float(type->dtype)) return CLADE_OK;
  const clade__node *n = &g->nodes[g->values[id].node];
  return CLADE_FAIL(BAD_SHAPE,
                    "%s: the loss (%s \"%s\") is %s; expected a scalar of floats: clade_mean or clade_sum makes one",
                    what, n->op->name, n->name, clade__type_text(type, text, sizeof text));
}

/* Keeps the parameters that the loss depends on, with their gradients. */
static clade_status differentiate(clade__task *t, clade_val loss) {
  int n = 0;
  clade__task_list(t);
  int all = t->n;
  CLADE_TRY(clade__gradients(t->g, loss, t->loss_scale, t->n, t->parameters, t->gradients));
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

/* ---- over ranks ---- */
typedef struct bucket {
  int n, at[CLADE_ALL_REDUCE_MOST]; /* in descending order of parameters */
  size_t bytes;
} bucket;

static clade_status reduce_bucket(clade__task *t, int channel, const bucket *b) {
  const clade_dtype wire = clade__comm_wire(t->opt->compress);
  clade_val values[CLADE_ALL_REDUCE_MOST];
  int owners[CLADE_ALL_REDUCE_MOST];
  if (!b->n) return CLADE_OK;
  for (int i = 0; i < b->n; i++) {
    const int at = b->at[b->n - 1 - i];
    values[i] = t->gradients[at];
    owners[i] = t->owners[at];
  }
  t->g->device = clade__task_device(t, t->parameters[b->at[b->n - 1]]);
  if (clade__task_shards(t, CLADE_SHARD_GRADIENTS))
    CLADE_TRY(clade_reduce_scatter(t->g, t->opt->comm, wire, b->n, owners, values));
  else
    CLADE_TRY(clade__all_reduce(t->g, t->opt->comm, channel, wire, b->n, values));
  for (int i = 0; i < b->n; i++) t->gradients[b->at[b->n - 1 - i]] = values[i];
  return CLADE_OK;
}

/* Sums gradients in buckets, from the last parameter on, whose gradient is ready first. The first bucket of a device
 * is small so that its transfer starts early. */
static clade_status reduce(clade__task *t) {
  bucket b = {0};
  int channel = 0, last = -1;
  if (t->opt->reduce == CLADE_REDUCE_BY_CARRIER) CLADE_TRY(clade__comm_open_channel(t->opt->comm, &channel));
  for (size_t i = (size_t)t->n, most = CLADE__FIRST_BUCKET; i-- > 0;) {
    if (clade__task_is_low_rank(t, (int)i)) continue;
    const int device = clade__task_device(t, t->parameters[i]);
    if (device != last) {
      CLADE_TRY(reduce_bucket(t, channel, &b));
      b = (bucket){0};
      most = CLADE__FIRST_BUCKET;
      last = device;
    }
    b.at[b.n++] = (int)i;
    b.bytes += clade__task_bytes(t, t->gradients[i]);
    if (b.bytes < most && b.n < CLADE_ALL_REDUCE_MOST) continue;
    CLADE_TRY(reduce_bucket(t, channel, &b));
    b = (bucket){0};
    most = CLADE__BUCKET;
  }
  CLADE_TRY(reduce_bucket(t, channel, &b));
  return clade__task_reduce_low_rank(t);
}

/* Restores zeros of pruned weights in gradients after sums over ranks, which may be approximate. */
static void keep_zeros(clade__task *t) {
  for (int i = 0; i < t->n; i++) {
    const clade_type weight = clade__task_type(t, t->parameters[i]), gradient = clade__task_type(t, t->gradients[i]);
    if (weight.shape.rank < 2) continue;
    t->g->device = clade__task_device(t, t->parameters[i]);
    const clade_val zero = clade_fill(t->g, weight.dtype, CLADE_SCALAR, 0),
                    none = clade_fill(t->g, gradient.dtype, CLADE_SCALAR, 0);
    t->gradients[i] = clade_select(t->g, clade_ne(t->g, t->parameters[i], zero), t->gradients[i], none);
  }
}

static clade_status average(clade__task *t, int first, int n) {
  const int32_t rule = CLADE__UPDATE_AVERAGE | (clade_val_ok(t->clean) ? CLADE__UPDATE_SKIPS : 0);
  return clade__task_fold(t, "ema", (clade__update_attrs){.rule = rule, .p = (float)(1 - t->opt->ema)}, t->next,
                          t->new_parameters, first, n);
}

/* ---- clipping ---- */
/* Computes the norm of all gradients and the factor that clips it. */
static clade_status clip(clade__task *t) {
  clade_graph *g = t->g;
  if (t->opt->clip_norm == 0 && !t->opt->report) return CLADE_OK;
  clade_val squares;
  CLADE_TRY(clade__task_squares(t, t->opt->clip_value != 0 ? (float)t->opt->clip_value : INFINITY, &squares));
  if (clade__task_shards(t, CLADE_SHARD_GRADIENTS))
    CLADE_TRY(clade_all_reduce(g, t->opt->comm, CLADE_F32, 1, &squares));
  clade_val norm = clade_sqrt(g, squares), one = clade_fill(g, CLADE_F32, CLADE_SCALAR, 1);
  if (t->opt->report) clade_output(g, "grad_norm", norm);
  if (t->opt->clip_norm != 0) /* the small summand avoids a division by 0 */
    t->clip_scale = clade_min(g, one,
                              clade_div(g, clade_fill(g, CLADE_F32, CLADE_SCALAR, t->opt->clip_norm),
                                        clade_add(g, norm, clade_fill(g, CLADE_F32, CLADE_SCALAR, 1e-6))));
  return CLADE_OK;
}

/* ---- the update ---- */
/* The op update skips a step by itself, in place; custom rules need a selection. */
static clade_val unless_skipped(clade__task *t, clade_val next, clade_val old) {
  const bool by_itself =
      next.id && next.id < t->g->n_values && t->g->nodes[t->g->values[next.id].node].op == &clade__op_update;
  return by_itself ? next : clade__task_unless_skipped(t, next, old);
}

static clade_status update(clade__task *t, int first, int n) {
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
                    .new_moments = t->new_moments + first * m,
                    .skips = clade_val_ok(t->clean)};
  for (int i = first; i < first + n; i++) {
    t->decays[i] = t->opt->decay_all || clade__task_type(t, t->parameters[i]).shape.rank >= 2;
    for (int k = 0; k < m; k++) t->moments[i * m + k] = clade__task_state(t, t->rule->moments[k], i);
  }
  CLADE_TRY(clade_graph_status(t->g));
  unsigned failures = clade__failures();
  clade_status status = t->rule->update(&u);
  if (status && clade__failures() == failures) clade_fail(status, "%s: %s", t->rule->name, clade_status_text(status));
  CLADE_TRY(status);
  CLADE_TRY(clade_graph_status(t->g)); /* reports the rule's error before missing values are noticed */
  for (int i = first; i < first + n; i++) {
    t->new_parameters[i] = unless_skipped(t, t->new_parameters[i], t->parameters[i]);
    clade_assign(t->g, t->parameters[i], t->new_parameters[i]);
    for (int k = 0; k < m; k++) {
      const int at = i * m + k;
      clade_assign(t->g, t->moments[at], unless_skipped(t, t->new_moments[at], t->moments[at]));
    }
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
  if (u->clip_value != 0) dx = clade_clip(g, dx, -u->clip_value, u->clip_value);
  if (clade_val_ok(u->clip_scale)) dx = clade_mul(g, dx, u->clip_scale);
  if (clade_val_type(g, u->parameters[i], &type) != CLADE_OK) return (clade_val){0};
  return clade_cast(g, dx, type.dtype);
}

/* A skipped step does not increase the step number. */
static clade_status judge(clade__task *t) {
  CLADE_TRY(clade__task_judge(t));
  if (!clade_val_ok(t->clean)) return CLADE_OK;
  clade_assign(t->g, t->step, clade__task_unless_skipped(t, t->next, t->step));
  t->next = clade__task_unless_skipped(t, t->next, clade_fill(t->g, CLADE_I64, CLADE_SCALAR, 0));
  return clade_graph_status(t->g);
}

static clade_status add_update(clade__task *t) {
  clade_graph *g = t->g;
  g->device = clade__task_device(t, t->parameters[0]);
  while (t->n_moments < CLADE_MAX_MOMENTS && t->rule->moments[t->n_moments]) t->n_moments++;
  t->step = clade__scalar_variable(g, "optimizer.step", CLADE_I64, 0);
  t->next = clade__one_more(g, t->step);
  if (!clade_val_ok(t->loss_scale)) clade_assign(g, t->step, t->next);
  clade_val factor = clade__schedule_node(g, &t->opt->schedule, t->step);
  t->lr = clade__scalar_variable(g, "optimizer.lr", CLADE_F32, t->opt->optimizer.lr);
  if (clade_val_ok(factor)) t->lr = clade_mul(g, t->lr, factor);
  if (t->opt->report) clade_output(g, "lr", t->lr);
  if (clade__task_shards(t, CLADE_SHARD_GRADIENTS)) clade__task_keep_own(t);
  CLADE_TRY(judge(t));
  CLADE_TRY(clip(t));
  if (clade__task_shards(t, CLADE_SHARD_OPTIMIZER) && !t->n_all) clade__task_keep_own(t);
  CLADE_TRY(clade__task_groups(t, update));
  if (t->opt->ema != 0) CLADE_TRY(clade__task_groups(t, average));
  return clade__task_shards(t, CLADE_SHARD_OPTIMIZER) ? clade__task_gather(t) : CLADE_OK;
}

/* ---- public functions ---- */
static clade_status check_reduce(const clade_minimize_opt *o) {
  if (o->reduce == CLADE_REDUCE_BY_CLADE) return CLADE_OK;
  if (o->reduce != CLADE_REDUCE_BY_CARRIER)
    return CLADE_FAIL(INVALID, ".reduce is %d; expected CLADE_REDUCE_BY_CLADE or CLADE_REDUCE_BY_CARRIER",
                      (int)o->reduce);
  const char *name = o->comm ? clade__comm_carrier(o->comm) : "the carrier";
  if (o->compress && o->compress != CLADE_F32)
    return CLADE_FAIL(INVALID, ".reduce by %s with .compress %s: its sums are of f32; leave out one of the two", name,
                      clade_dtype_name(o->compress));
  if (o->low_rank)
    return CLADE_FAIL(INVALID, ".reduce by %s with .low_rank %d: Clade sums thin matrices; leave out one of the two",
                      name, o->low_rank);
  if (o->shard == CLADE_SHARD_GRADIENTS)
    return CLADE_FAIL(INVALID,
                      ".reduce by %s with .shard gradients: its sums go to all ranks; leave out one of the two", name);
  if (clade_comm_size(o->comm) > 1 && !clade__comm_sums(o->comm))
    return CLADE_FAIL(UNSUPPORTED, ".reduce by the carrier: %s has no sums of its own of these %d ranks", name,
                      clade_comm_size(o->comm));
  return CLADE_OK;
}

static clade_status check_options(const clade_minimize_opt *o) {
  CLADE_TRY(clade__optimizer_check(&o->optimizer));
  CLADE_TRY(clade__schedule_check(&o->schedule));
  if (!(o->clip_value >= 0)) return CLADE_FAIL(INVALID, ".clip_value is %g; expected a positive number", o->clip_value);
  if (!(o->clip_norm >= 0)) return CLADE_FAIL(INVALID, ".clip_norm is %g; expected a positive number", o->clip_norm);
  CLADE_TRY(clade__shard_check(o->shard));
  if (o->compress && !clade__comm_carries(o->compress))
    return CLADE_FAIL(DTYPE, ".compress is %s; expected f32, bf16 or f16", clade_dtype_name(o->compress));
  if (o->low_rank < 0) return CLADE_FAIL(INVALID, ".low_rank is %d; expected 0 or more", o->low_rank);
  CLADE_TRY(check_reduce(o));
  CLADE_TRY(clade__loss_scale_check(o));
  if (!(o->ema >= 0 && o->ema < 1)) return CLADE_FAIL(INVALID, ".ema is %g; expected 0 to below 1", o->ema);
  return CLADE_OK;
}

static clade_status check_new(const clade__task *t) {
  if (t->g->added_loss)
    return CLADE_FAIL(INVALID, "%s: the graph has an added loss: clade_graph_added_loss returns it, to be added",
                      t->what);
  static const char *const marks[] = {"optimizer.step", "optimizer.count"};
  for (size_t i = 0; i < CLADE_COUNT(marks); i++)
    if (clade_val_ok(clade__find_variable(t->g, marks[i])))
      return CLADE_FAIL(DUPLICATE, "%s: the graph has an optimizer already (variable %s)", t->what, marks[i]);
  return CLADE_OK;
}

static clade_status minimize(clade__task *t) {
  clade_status status = check_options(t->opt);
  if (status) return clade__fail_in(status, "%s", t->what);
  CLADE_TRY(check_new(t));
  const clade_graph *model = t->opt->model;
  if (!model) CLADE_TRY(check_loss(t->g, t->what, t->opt->loss));
  if (model) CLADE_TRY(clade_graph_status(model));
  if (!model) CLADE_TRY(clade__task_scale_loss(t, t->opt->loss));
  CLADE_TRY(clade__task_alloc(t, (model ? model : t->g)->variables.count));
  CLADE_TRY(model ? clade__task_take_sums(t) : differentiate(t, t->opt->loss));
  if (clade__task_shards(t, CLADE_SHARD_OPTIMIZER)) CLADE_TRY(clade__task_find_owners(t));
  if (clade_comm_size(t->opt->comm) > 1) CLADE_TRY(reduce(t));
  if (t->opt->keep_zeros) keep_zeros(t);
  CLADE_TRY(clade_graph_status(t->g));
  return add_update(t);
}

static clade_status accumulate(clade__task *t) {
  CLADE_TRY(check_new(t));
  CLADE_TRY(check_loss(t->g, t->what, t->opt->loss));
  CLADE_TRY(clade__task_alloc(t, t->g->variables.count));
  CLADE_TRY(differentiate(t, t->opt->loss));
  return clade__task_sum(t);
}

/* Runs fn and restores the graph's device and share. An error stays in the graph, as in all builders. */
static clade_status run(clade__task *t, clade_status (*fn)(clade__task *)) {
  clade_graph *g = t->g;
  if (!clade__graph_ok(g)) return g && !g->sealed ? g->status : CLADE_INVALID;
  int device = g->device, share = g->share;
  g->share = g->first_share; /* other shares do not assign */
  clade_status status = fn(t);
  g->device = device;
  g->share = share;
  clade__task_free(t);
  if (status == CLADE_OK) status = clade_graph_status(g);
  if (status) clade__graph_fail(g, status, NULL);
  return status;
}

clade_status clade_minimize_(clade_graph *g, const clade_minimize_opt *given) {
  clade_minimize_opt opt;
  CLADE_TRY(clade__opt_copy(&opt, sizeof opt, given, "clade_minimize"));
  CLADE_TRY(clade__optimizer_given(&opt.optimizer));
  return run(&(clade__task){.g = g,
                            .opt = &opt,
                            .what = opt.model ? "clade_minimize_sums" : "clade_minimize",
                            .rule = opt.optimizer.rule},
             minimize);
}

clade_status clade_accumulate(clade_graph *g, clade_val loss) {
  clade_minimize_opt opt = {.size = sizeof opt, .loss = loss};
  return run(&(clade__task){.g = g, .opt = &opt, .what = "clade_accumulate"}, accumulate);
}
