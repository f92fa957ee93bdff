/* Layers that normalise: their variables, and the nodes for training or inference. */
#include <stdio.h>

#include "op/batch_norm.h"

enum { NAME_BYTES = 300 };

static clade_status check_float(const char *layer, const char *name, clade_dtype t) {
  if (t == CLADE_F32 || t == CLADE_F16 || t == CLADE_BF16) return CLADE_OK;
  return CLADE_FAIL(DTYPE, "%s \"%s\": x is %s; expected f32, f16 or bf16", layer, name, clade_dtype_name(t));
}

static clade_status channels_of(const clade_graph *g, const char *name, const clade_batch_norm_opt *opt,
                                clade_type *x) {
  CLADE_TRY(clade__name_check("nn_batch_norm", name));
  clade_status status = clade_val_type(g, opt->x, x);
  if (status != CLADE_OK) return clade__fail_in(status, "nn_batch_norm \"%s\": x", name);
  if (x->shape.rank < 2)
    return CLADE_FAIL(SHAPE, "nn_batch_norm \"%s\": x has %d dimensions; expected [samples, channels, …]", name,
                      x->shape.rank);
  if (clade_dim_is_symbol(x->shape.dim[1]))
    return CLADE_FAIL(SHAPE, "nn_batch_norm \"%s\": the channels of x are the symbol \"%s\"; a weight needs a size",
                      name, clade_dim_name(x->shape.dim[1]));
  return check_float("nn_batch_norm", name, x->dtype);
}

/* NAME.PART: a parameter, or a variable that no optimiser updates. */
static clade_val variable(clade_graph *g, const char *layer, const char *part, clade_shape shape, double value,
                          bool learnt) {
  char name[NAME_BYTES];
  clade_initial initial = {value != 0 ? CLADE_INIT_FILL : CLADE_INIT_ZERO, value, 0};
  snprintf(name, sizeof name, "%s.%s", layer, part);
  return learnt ? clade_parameter(g, name, CLADE_F32, shape, initial)
                : clade_variable(g, name, CLADE_F32, shape, initial);
}

/* (x - mean) weight / sqrt(var + eps) + bias: all but the two functions of channels is one elementwise program. */
static clade_val by_running(clade_graph *g, const clade_val in[5], const clade_type *type, float eps) {
  clade_shape channel = {.rank = type->shape.rank - 1, .dim = {type->shape.dim[1]}};
  for (int i = 1; i < channel.rank; i++) channel.dim[i] = 1;
  clade_val x = clade_cast(g, in[0], CLADE_F32);
  clade_val var = clade_add(g, in[4], clade_fill(g, CLADE_F32, CLADE_SCALAR, (double)eps));
  clade_val scale = clade_mul(g, in[1], clade_rsqrt(g, var));
  clade_val y = clade_sub(g, x, clade_reshape(g, in[3], channel));
  y = clade_mul(g, y, clade_reshape(g, scale, channel));
  y = clade_add(g, y, clade_reshape(g, in[2], channel));
  return clade_cast(g, y, type->dtype);
}

clade_val clade_nn_batch_norm_(clade_graph *g, const char *name, const clade_batch_norm_opt *given) {
  clade_batch_norm_opt opt;
  clade_type x;
  clade_val next[2];
  clade_status status = clade__opt_copy(&opt, sizeof opt, given, "nn_batch_norm");
  if (status == CLADE_OK) status = channels_of(g, name, &opt, &x);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  const clade_shape channels = CLADE_SHAPE(x.shape.dim[1]);
  const float eps = opt.eps != 0 ? opt.eps : 1e-5f, momentum = opt.momentum != 0 ? opt.momentum : 0.1f;
  const clade_val in[] = {
      opt.x, variable(g, name, "weight", channels, 1, true), variable(g, name, "bias", channels, 0, true),
      variable(g, name, "running_mean", channels, 0, false), variable(g, name, "running_var", channels, 1, false)};
  if (!clade_graph_trains(g)) return by_running(g, in, &x, eps);
  clade_val y = clade__batch_norm(g, in, eps, momentum, next);
  for (int i = 0; i < 2; i++) clade_assign(g, in[3 + i], next[i]);
  return y;
}

static clade_status row_of(const clade_graph *g, const char *name, const clade_layer_norm_opt *opt, clade_shape *row) {
  clade_type x;
  CLADE_TRY(clade__name_check("nn_layer_norm", name));
  clade_status status = clade_val_type(g, opt->x, &x);
  if (status != CLADE_OK) return clade__fail_in(status, "nn_layer_norm \"%s\": x", name);
  CLADE_TRY(check_float("nn_layer_norm", name, x.dtype));
  int n = opt->n_axes ? opt->n_axes : 1;
  if (n < 1 || n > x.shape.rank)
    return CLADE_FAIL(INVALID, "nn_layer_norm \"%s\": .n_axes is %d; expected 1 to %d, the rank of x", name, n,
                      x.shape.rank);
  *row = (clade_shape){.rank = n};
  for (int i = 0; i < n; i++) {
    row->dim[i] = x.shape.dim[x.shape.rank - n + i];
    if (clade_dim_is_symbol(row->dim[i]))
      return CLADE_FAIL(SHAPE, "nn_layer_norm \"%s\": dimension %d of x is the symbol \"%s\"; a weight needs a size",
                        name, x.shape.rank - n + i, clade_dim_name(row->dim[i]));
  }
  return CLADE_OK;
}

clade_val clade_nn_layer_norm_(clade_graph *g, const char *name, const clade_layer_norm_opt *given) {
  clade_layer_norm_opt opt;
  clade_shape row;
  clade_status status = clade__opt_copy(&opt, sizeof opt, given, "nn_layer_norm");
  if (status == CLADE_OK) status = row_of(g, name, &opt, &row);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  clade_val weight = variable(g, name, "weight", row, 1, true), bias = variable(g, name, "bias", row, 0, true);
  return clade_layer_norm(g, opt.x, weight, bias, row.rank, opt.eps != 0 ? (double)opt.eps : 1e-5);
}
