/* Normalization layers: their variables, and their nodes for training or inference. */
#include <inttypes.h>
#include <stdio.h>

#include <clade/comm.h>

#include "op/norm/batch_norm.h"

enum { NAME_BYTES = 300 };

static clade_status check_float(const char *layer, const char *name, clade_dtype t) {
  char whole[NAME_BYTES];
  snprintf(whole, sizeof whole, "%s \"%s\"", layer, name);
  return clade__want_float_type(whole, "x", t);
}

static clade_status channels_of(const clade_graph *g, const char *layer, const char *name, clade_val v, clade_type *x) {
  CLADE_TRY(clade__name_check(layer, name));
  clade_status status = clade_val_type(g, v, x);
  if (status != CLADE_OK) return clade__fail_in(status, "%s \"%s\": x", layer, name);
  if (x->shape.rank < 2)
    return CLADE_FAIL(BAD_SHAPE, "%s \"%s\": x has %d dimensions; expected [samples, channels, …]", layer, name,
                      x->shape.rank);
  if (clade_dim_is_symbol(x->shape.dim[1]))
    return CLADE_FAIL(BAD_SHAPE, "%s \"%s\": the channels of x are the symbol \"%s\"; a weight needs a size", layer,
                      name, clade_dim_name(x->shape.dim[1]));
  return check_float(layer, name, x->dtype);
}

/* NAME.PART: a parameter, or a variable that no optimizer updates. */
static clade_val variable(clade_graph *g, const char *layer, const char *part, clade_shape shape, double value,
                          bool learnt) {
  char name[NAME_BYTES];
  clade_initial initial = {value != 0 ? CLADE_INIT_FILL : CLADE_INIT_ZERO, value, 0};
  snprintf(name, sizeof name, "%s.%s", layer, part);
  return learnt ? clade_parameter(g, name, CLADE_F32, shape, initial)
                : clade_variable(g, name, CLADE_F32, shape, initial);
}

/* Casts y to the type of x, which mixed precision may narrow. */
static clade_val as_built(clade_graph *g, clade_val y, clade_val x, const clade_type *type) {
  y = clade_cast(g, y, type->dtype);
  clade__store_like(g, y, x);
  return y;
}

/* Inference: (x - mean) weight / sqrt(var + eps) + bias, where all per-element work is one elementwise program. */
static clade_val by_running(clade_graph *g, const clade_val in[5], const clade_type *type, float eps) {
  clade_shape channel = {.rank = type->shape.rank - 1, .dim = {type->shape.dim[1]}};
  for (int i = 1; i < channel.rank; i++) channel.dim[i] = 1;
  clade_val x = clade__wide(g, in[0]);
  clade_val var = clade_add(g, in[4], clade_fill(g, CLADE_F32, CLADE_SCALAR, (double)eps));
  clade_val scale = clade_mul(g, in[1], clade_rsqrt(g, var));
  clade_val y = clade_sub(g, x, clade_reshape(g, in[3], channel));
  y = clade_mul(g, y, clade_reshape(g, scale, channel));
  y = clade_add(g, y, clade_reshape(g, in[2], channel));
  return as_built(g, y, in[0], type);
}

/* ---- over ranks ---- */
static clade_val sum_of_channel(clade_graph *g, clade_val x, int rank) {
  clade_reduce_opt opt = {.size = sizeof opt, .x = x};
  for (int i = 0; i < rank; i++)
    if (i != 1) opt.axes[opt.n_axes++] = i;
  return clade_sum_(g, &opt);
}

/* Number of elements per channel. */
static clade_status count_of_channel(const clade_type *x, int64_t *count) {
  *count = 1;
  for (int i = 0; i < x->shape.rank; i++) {
    if (clade_dim_is_symbol(x->shape.dim[i]))
      return CLADE_FAIL(BAD_SHAPE, "nn_batch_norm over ranks: dimension %d of x is the symbol \"%s\"", i,
                        clade_dim_name(x->shape.dim[i]));
    if (i != 1) *count *= x->shape.dim[i];
  }
  return CLADE_OK;
}

/* Normalizes by mean and variance over all ranks of g->sync (`SyncBatchNorm`). */
static clade_val by_ranks(clade_graph *g, const clade_val in[5], const clade_type *type,
                          const clade_batch_norm_opt *o) {
  const int rank = type->shape.rank;
  int64_t count;
  clade_status status = count_of_channel(type, &count);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  clade_shape channel = {.rank = rank - 1, .dim = {type->shape.dim[1]}};
  for (int i = 1; i < channel.rank; i++) channel.dim[i] = 1;
  const clade_val x = clade__wide(g, in[0]), one = clade_fill(g, CLADE_F32, CLADE_SCALAR, 1);
  clade_val sums[2] = {{0}};
  sums[0] = sum_of_channel(g, x, rank);
  sums[1] = clade_fill(g, CLADE_F32, CLADE_SCALAR, (double)count);
  clade_all_reduce(g, g->sync, CLADE_F32, 2, sums);
  const clade_val all = clade_stop_gradient(g, clade_max(g, sums[1], one)), mean = clade_div(g, sums[0], all);
  const clade_val off = clade_sub(g, x, clade_reshape(g, mean, channel));
  clade_val squares = sum_of_channel(g, clade_mul(g, off, off), rank);
  clade_all_reduce(g, g->sync, CLADE_F32, 1, &squares);
  const clade_val var = clade_div(g, squares, all), eps = clade_fill(g, CLADE_F32, CLADE_SCALAR, (double)o->eps);
  const clade_val scale = clade_mul(g, in[1], clade_rsqrt(g, clade_add(g, var, eps)));
  const clade_val unbiased = clade_div(g, squares, clade_max(g, clade_sub(g, all, one), one));
  const clade_val move = clade_fill(g, CLADE_F32, CLADE_SCALAR, (double)o->momentum), now[] = {mean, unbiased};
  for (int i = 0; i < 2; i++)
    clade_assign(g, in[3 + i], clade_add(g, in[3 + i], clade_mul(g, move, clade_sub(g, now[i], in[3 + i]))));
  const clade_val y = clade_mul(g, off, clade_reshape(g, scale, channel));
  return as_built(g, clade_add(g, y, clade_reshape(g, in[2], channel)), in[0], type);
}

clade_val clade_nn_batch_norm_(clade_graph *g, const char *name, const clade_batch_norm_opt *given) {
  clade_batch_norm_opt opt = {CLADE_BATCH_NORM_OPT};
  clade_type x;
  clade_val next[2];
  clade_status status = clade__opt_over(&opt, given, "nn_batch_norm", "CLADE_BATCH_NORM_OPT");
  if (status == CLADE_OK) status = channels_of(g, "nn_batch_norm", name, opt.x, &x);
  if (status == CLADE_OK && (!(opt.eps >= 0) || !(opt.momentum >= 0 && opt.momentum <= 1)))
    status = CLADE_FAIL(INVALID, "nn_batch_norm \"%s\": .eps is %g, .momentum is %g; expected 0 or more, and 0 to 1",
                        name, (double)opt.eps, (double)opt.momentum);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  const clade_shape channels = CLADE_SHAPE(x.shape.dim[1]);
  const clade_val in[] = {
      opt.x, variable(g, name, "weight", channels, 1, true), variable(g, name, "bias", channels, 0, true),
      variable(g, name, "running_mean", channels, 0, false), variable(g, name, "running_var", channels, 1, false)};
  if (!clade_graph_trains(g)) return by_running(g, in, &x, opt.eps);
  if (g->sync) return by_ranks(g, in, &x, &opt);
  clade_val y = clade__batch_norm(g, in, opt.eps, opt.momentum, next);
  for (int i = 0; i < 2; i++) clade_assign(g, in[3 + i], next[i]);
  return y;
}

/* ---- layer normalization ---- */
static clade_status row_of(const clade_graph *g, const char *layer, const char *name, const clade_layer_norm_opt *opt,
                           clade_shape *row) {
  clade_type x;
  CLADE_TRY(clade__name_check(layer, name));
  clade_status status = clade_val_type(g, opt->x, &x);
  if (status != CLADE_OK) return clade__fail_in(status, "%s \"%s\": x", layer, name);
  CLADE_TRY(check_float(layer, name, x.dtype));
  int n = opt->n_axes;
  if (n < 1 || n > x.shape.rank)
    return CLADE_FAIL(INVALID, "%s \"%s\": .n_axes is %d; expected 1 to %d, the rank of x", layer, name, n,
                      x.shape.rank);
  *row = (clade_shape){.rank = n};
  for (int i = 0; i < n; i++) {
    row->dim[i] = x.shape.dim[x.shape.rank - n + i];
    if (clade_dim_is_symbol(row->dim[i]))
      return CLADE_FAIL(BAD_SHAPE, "%s \"%s\": dimension %d of x is the symbol \"%s\"; a weight needs a size", layer,
                        name, x.shape.rank - n + i, clade_dim_name(row->dim[i]));
  }
  return CLADE_OK;
}

static clade_val rows(clade_graph *g, const char *layer, const char *name, const clade_layer_norm_opt *given,
                      bool rms) {
  clade_layer_norm_opt opt = {CLADE_LAYER_NORM_OPT};
  clade_shape row;
  clade_status status = clade__opt_over(&opt, given, layer, "CLADE_LAYER_NORM_OPT");
  if (status == CLADE_OK) status = row_of(g, layer, name, &opt, &row);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  clade_val weight = variable(g, name, "weight", row, 1, true);
  if (rms) return clade_rms_norm(g, opt.x, weight, row.rank, (double)opt.eps);
  return clade_layer_norm(g, opt.x, weight, variable(g, name, "bias", row, 0, true), row.rank, (double)opt.eps);
}

clade_val clade_nn_layer_norm_(clade_graph *g, const char *name, const clade_layer_norm_opt *opt) {
  return rows(g, "nn_layer_norm", name, opt, false);
}
clade_val clade_nn_rms_norm_(clade_graph *g, const char *name, const clade_layer_norm_opt *opt) {
  return rows(g, "nn_rms_norm", name, opt, true);
}

/* ---- group and instance normalization ---- */
static clade_val groups(clade_graph *g, const char *layer, const char *name, const clade_group_norm_opt *given,
                        bool each) {
  clade_group_norm_opt opt = {CLADE_GROUP_NORM_OPT};
  clade_type x;
  clade_status status = clade__opt_over(&opt, given, layer, "CLADE_GROUP_NORM_OPT");
  if (status == CLADE_OK) status = channels_of(g, layer, name, opt.x, &x);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  const clade_dim channels = x.shape.dim[1];
  if (each && !opt.groups && channels <= INT32_MAX) opt.groups = (int)channels;
  if (opt.groups < 1 || channels % opt.groups || (each && opt.groups != channels))
    return clade__graph_fail(g,
                             CLADE_FAIL(INVALID, "%s \"%s\": .groups is %d; expected %s the %" PRId64 " channels of x",
                                        layer, name, opt.groups, each ? "0, for" : "a divisor of", channels),
                             NULL);
  clade_val weight = variable(g, name, "weight", CLADE_SHAPE(channels), 1, true);
  clade_val bias = variable(g, name, "bias", CLADE_SHAPE(channels), 0, true);
  return clade_group_norm(g, opt.x, weight, bias, opt.groups, (double)opt.eps);
}

clade_val clade_nn_group_norm_(clade_graph *g, const char *name, const clade_group_norm_opt *opt) {
  return groups(g, "nn_group_norm", name, opt, false);
}
clade_val clade_nn_instance_norm_(clade_graph *g, const char *name, const clade_group_norm_opt *opt) {
  return groups(g, "nn_instance_norm", name, opt, true);
}
