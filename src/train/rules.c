/* Clade's own optimisers: their numbers, and their rules over the op update. */
#include <math.h>

#include "op/update.h"
#include "train/optim.h"

/* Positions in clade_optimizer.number. */
enum { MOMENTUM, NESTEROV };
enum { BETA1, BETA2, EPS, DECOUPLED };
enum { ALPHA, RMS_EPS, RMS_MOMENTUM };

static clade_status check_range(const char *rule, const char *name, double value, double low, double high) {
  if (value >= low && value < high) return CLADE_OK; /* no NaN */
  return CLADE_FAIL(INVALID, "%s: .%s is %g; expected at least %g and below %g", rule, name, value, low, high);
}

/* The options as this library knows them; a rate that is refused later where they are none. */
static double take(void *to, size_t size, const void *given, const char *name, double lr) {
  return clade__opt_copy(to, size, given, name) == CLADE_OK ? lr : NAN;
}

/* One kernel serves all: only the numbers differ. */
static clade_status add(const clade_update *u, clade__update_rule rule, clade__update_attrs attrs) {
  int states = clade__update_states((int)rule), moments = states - 1;
  size_t n = (size_t)u->n * (size_t)states;
  clade_val *in = clade__new(2 * n, sizeof *in);
  if (!in) return CLADE_NO_MEMORY;
  clade_val *out = in + n;
  attrs.rule = (int32_t)rule;
  attrs.clip = u->clip_value != 0 ? (float)u->clip_value : INFINITY;
  for (int i = 0; i < u->n; i++) {
    in[i * states] = u->parameters[i];
    for (int k = 0; k < moments; k++) in[i * states + 1 + k] = u->moments[i * moments + k];
  }
  clade_status status =
      clade__update_add(u->graph, &(clade__update_call){.attrs = attrs,
                                                        .n = u->n,
                                                        .scalar = {u->lr, u->step, u->scale, u->clip_scale},
                                                        .gradients = u->gradients,
                                                        .states = in,
                                                        .decays = u->decays,
                                                        .out = out});
  for (int i = 0; i < u->n && status == CLADE_OK; i++) {
    u->new_parameters[i] = out[i * states];
    for (int k = 0; k < moments; k++) u->new_moments[i * moments + k] = out[i * states + 1 + k];
  }
  clade__free(in);
  return status;
}

/* ---- gradient descent ---- */
static clade_status sgd_check(const clade_optimizer *o) {
  CLADE_TRY(check_range("sgd", "momentum", o->number[MOMENTUM], 0, 1));
  if (o->number[NESTEROV] != 0 && o->number[MOMENTUM] == 0)
    return CLADE_FAIL(INVALID, "sgd: .nesterov needs a .momentum");
  return CLADE_OK;
}

static clade_status sgd_update(const clade_update *u) {
  const clade_optimizer *o = u->optimizer;
  return add(u, o->number[MOMENTUM] != 0 ? CLADE__UPDATE_MOMENTUM : CLADE__UPDATE_SGD,
             (clade__update_attrs){
                 .l2 = (float)o->weight_decay, .p = (float)o->number[MOMENTUM], .r = (float)o->number[NESTEROV]});
}

static const clade_rule sgd = {sizeof sgd, "sgd", {NULL}, sgd_check, sgd_update};
static const clade_rule sgd_momentum = {sizeof sgd_momentum, "sgd", {"momentum"}, sgd_check, sgd_update};

clade_optimizer clade_sgd_(const clade_sgd_opt *given) {
  clade_sgd_opt o;
  double lr = take(&o, sizeof o, given, "clade_sgd", 0.01);
  return (clade_optimizer){.rule = o.momentum != 0 ? &sgd_momentum : &sgd,
                           .lr = clade__given(o.lr, lr),
                           .weight_decay = o.weight_decay,
                           .number = {o.momentum, o.nesterov}};
}

/* ---- Adam ---- */
static clade_status adam_check(const clade_optimizer *o) {
  CLADE_TRY(check_range(o->rule->name, "beta1", o->number[BETA1], 0, 1));
  CLADE_TRY(check_range(o->rule->name, "beta2", o->number[BETA2], 0, 1));
  return check_range(o->rule->name, "eps", o->number[EPS], 0, INFINITY);
}

static clade_status adam_update(const clade_update *u) {
  const clade_optimizer *o = u->optimizer;
  const double *x = o->number;
  clade__update_attrs attrs = {.p = (float)(1 - x[BETA1]),
                               .q = (float)(1 - x[BETA2]),
                               .r = (float)x[EPS],
                               .log1 = (float)log(x[BETA1]),
                               .log2 = (float)log(x[BETA2])};
  *(x[DECOUPLED] != 0 ? &attrs.decay : &attrs.l2) = (float)o->weight_decay;
  return add(u, CLADE__UPDATE_ADAM, attrs);
}

static const clade_rule adam = {sizeof adam, "adam", {"mean", "square"}, adam_check, adam_update};
static const clade_rule adamw = {sizeof adamw, "adamw", {"mean", "square"}, adam_check, adam_update};

static clade_optimizer adam_like(const clade_adam_opt *given, const clade_rule *rule, double decay, bool decoupled) {
  clade_adam_opt o;
  double lr = take(&o, sizeof o, given, rule->name, 1e-3);
  return (clade_optimizer){
      .rule = rule,
      .lr = clade__given(o.lr, lr),
      .weight_decay = clade__given(o.weight_decay, decay),
      .number = {clade__given(o.beta1, 0.9), clade__given(o.beta2, 0.999), clade__given(o.eps, 1e-8), decoupled}};
}

clade_optimizer clade_adam_(const clade_adam_opt *opt) { return adam_like(opt, &adam, 0, false); }
clade_optimizer clade_adamw_(const clade_adam_opt *opt) { return adam_like(opt, &adamw, 0.01, true); }

/* ---- RMSProp ---- */
static clade_status rmsprop_check(const clade_optimizer *o) {
  CLADE_TRY(check_range("rmsprop", "alpha", o->number[ALPHA], 0, 1));
  CLADE_TRY(check_range("rmsprop", "momentum", o->number[RMS_MOMENTUM], 0, 1));
  return check_range("rmsprop", "eps", o->number[RMS_EPS], 0, INFINITY);
}

static clade_status rmsprop_update(const clade_update *u) {
  const clade_optimizer *o = u->optimizer;
  return add(u, o->number[RMS_MOMENTUM] != 0 ? CLADE__UPDATE_RMSPROP_MOMENTUM : CLADE__UPDATE_RMSPROP,
             (clade__update_attrs){.l2 = (float)o->weight_decay,
                                   .p = (float)o->number[RMS_MOMENTUM],
                                   .q = (float)(1 - o->number[ALPHA]),
                                   .r = (float)o->number[RMS_EPS]});
}

static const clade_rule rmsprop = {sizeof rmsprop, "rmsprop", {"square"}, rmsprop_check, rmsprop_update};
static const clade_rule rmsprop_momentum = {
    sizeof rmsprop_momentum, "rmsprop", {"square", "momentum"}, rmsprop_check, rmsprop_update};

clade_optimizer clade_rmsprop_(const clade_rmsprop_opt *given) {
  clade_rmsprop_opt o;
  double lr = take(&o, sizeof o, given, "clade_rmsprop", 0.01);
  return (clade_optimizer){.rule = o.momentum != 0 ? &rmsprop_momentum : &rmsprop,
                           .lr = clade__given(o.lr, lr),
                           .weight_decay = o.weight_decay,
                           .number = {clade__given(o.alpha, 0.99), clade__given(o.eps, 1e-8), o.momentum}};
}

/* ---- all rules ---- */
clade_status clade__optimizer_check(const clade_optimizer *o) {
  if (o->rule->size < sizeof *o->rule || !o->rule->name || !o->rule->update)
    return CLADE_FAIL(INVALID, "the optimiser's rule has no .size, .name or .update");
  CLADE_TRY(check_range(o->rule->name, "lr", o->lr, 0, INFINITY));
  CLADE_TRY(check_range(o->rule->name, "weight_decay", o->weight_decay, 0, INFINITY));
  return o->rule->check ? o->rule->check(o) : CLADE_OK;
}
