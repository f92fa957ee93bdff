/* The built-in optimizers: their numbers, and their rules by the op update. */
#include <math.h>

#include "op/update/update.h"
#include "train/optim.h"

/* Indices in clade_optimizer.number. */
enum { MOMENTUM, NESTEROV };
enum { BETA1, BETA2, EPS, DECOUPLED };
enum { ALPHA, RMS_EPS, RMS_MOMENTUM };

static clade_status check_range(const char *rule, const char *name, double value, double low, double high) {
  if (value >= low && value < high) return CLADE_OK; /* false for NaN */
  return CLADE_FAIL(INVALID, "%s: .%s is %g; expected at least %g and below %g", rule, name, value, low, high);
}

/* For optimizers made from invalid options; reported when the optimizer is used. */
static clade_status lacks_defaults(const clade_optimizer *o) {
  return CLADE_FAIL(INVALID,
                    "the optimizer was made from options without their .size and defaults: begin them with "
                    "{CLADE_ADAM_OPT}, or the like, or call %s(…)",
                    o->rule->name);
}
static clade_status no_update(const clade_update *u) { return lacks_defaults(u->optimizer); }
static const clade_optimizer *refused(void) {
  static const clade_rule rule = {sizeof rule, "clade_adam", {NULL}, lacks_defaults, no_update};
  static const clade_optimizer optimizer = {.rule = &rule};
  return &optimizer;
}

/* Adds an update by the common op with these attributes. */
static clade_status add(const clade_update *u, clade__update_rule rule, clade__update_attrs attrs) {
  int states = clade__update_states((int)rule), moments = states - 1;
  size_t n = (size_t)u->n * (size_t)states;
  clade_val *in = clade__new(2 * n, sizeof *in);
  if (!in) return CLADE_NO_MEMORY;
  clade_val *out = in + n;
  attrs.rule = (int32_t)rule | (u->skips ? CLADE__UPDATE_SKIPS : 0);
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
  clade_sgd_opt o = {CLADE_SGD_OPT};
  if (clade__opt_over(&o, given, "clade_sgd", "CLADE_SGD_OPT") != CLADE_OK) return *refused();
  return (clade_optimizer){.rule = o.momentum != 0 ? &sgd_momentum : &sgd,
                           .lr = o.lr,
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

clade_optimizer clade_adam_(const clade_adam_opt *given) {
  clade_adam_opt o = {CLADE_ADAM_OPT};
  if (clade__opt_over(&o, given, "clade_adam", "CLADE_ADAM_OPT") != CLADE_OK) return *refused();
  return (clade_optimizer){
      .rule = &adam, .lr = o.lr, .weight_decay = o.weight_decay, .number = {o.beta1, o.beta2, o.eps, false}};
}

clade_optimizer clade_adamw_(const clade_adamw_opt *given) {
  clade_adamw_opt o = {CLADE_ADAMW_OPT};
  if (clade__opt_over(&o, given, "clade_adamw", "CLADE_ADAMW_OPT") != CLADE_OK) return *refused();
  return (clade_optimizer){
      .rule = &adamw, .lr = o.lr, .weight_decay = o.weight_decay, .number = {o.beta1, o.beta2, o.eps, true}};
}

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
  clade_rmsprop_opt o = {CLADE_RMSPROP_OPT};
  if (clade__opt_over(&o, given, "clade_rmsprop", "CLADE_RMSPROP_OPT") != CLADE_OK) return *refused();
  return (clade_optimizer){.rule = o.momentum != 0 ? &rmsprop_momentum : &rmsprop,
                           .lr = o.lr,
                           .weight_decay = o.weight_decay,
                           .number = {o.alpha, o.eps, o.momentum}};
}

/* ---- all rules ---- */
clade_status clade__optimizer_given(clade_optimizer *o) {
  if (o->rule) return CLADE_OK;
  if (o->lr != 0 || o->weight_decay != 0)
    return CLADE_FAIL(
        INVALID,
        "the optimizer has .lr %g and .weight_decay %g without a .rule: make it by clade_adam(.lr = %g) or "
        "the like",
        o->lr, o->weight_decay, o->lr);
  *o = clade_adam();
  return CLADE_OK;
}

clade_status clade__optimizer_check(const clade_optimizer *o) {
  if (o->rule->size < sizeof *o->rule || !o->rule->name || !o->rule->update)
    return CLADE_FAIL(INVALID, "the optimizer's rule has no .size, .name or .update");
  CLADE_TRY(check_range(o->rule->name, "lr", o->lr, 0, INFINITY));
  CLADE_TRY(check_range(o->rule->name, "weight_decay", o->weight_decay, 0, INFINITY));
  return o->rule->check ? o->rule->check(o) : CLADE_OK;
}
