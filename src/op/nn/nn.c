/* Layers: they create variables and the op that uses them. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "op/dims.h"
#include "op/nn/nn.h"

enum { NAME_BYTES = 300 };

static clade_val parameter(clade_graph *g, const char *layer, const char *part, clade_dtype stored, clade_dtype used,
                           clade_shape shape, clade_initial initial) {
  char name[NAME_BYTES];
  snprintf(name, sizeof name, "%s.%s", layer, part);
  if (!stored) stored = CLADE_F32;
  char floats[CLADE__DTYPE_NAMES];
  if (!clade__is_computed_float(stored))
    return clade__graph_fail(g,
                             CLADE_FAIL(DTYPE, "layer \"%s\": .dtype is %d (%s); expected %s", layer, (int)stored,
                                        clade_dtype_name(stored), clade__dtype_names(clade__is_computed_float, floats)),
                             NULL);
  clade_val v = clade_parameter(g, name, stored, shape, initial);
  return stored == used ? v : clade_cast(g, v, used);
}

clade_val clade__nn_parameter(clade_graph *g, const char *layer, const char *part, clade_dtype stored, clade_dtype used,
                              clade_shape shape, int64_t in) {
  double bound = in > 0 ? 1 / sqrt((double)in) : 0;
  return parameter(g, layer, part, stored, used, shape, (clade_initial){CLADE_INIT_UNIFORM, -bound, bound});
}

clade_val clade__nn_weight(clade_graph *g, const char *layer, clade_dtype stored, clade_dtype used, clade_shape shape,
                           int64_t in, clade_initial initial) {
  if (initial.kind == CLADE_INIT_UNSET) return clade__nn_parameter(g, layer, "weight", stored, used, shape, in);
  return parameter(g, layer, "weight", stored, used, shape, initial);
}

static clade_status check(const clade_graph *g, const char *name, const clade_linear_opt *opt, clade_type *x) {
  CLADE_TRY(clade__name_check("nn_linear", name));
  clade_status status = clade_val_type(g, opt->x, x);
  if (status != CLADE_OK) return clade__fail_in(status, "nn_linear \"%s\": x", name);
  if (x->shape.rank < 1) return CLADE_FAIL(BAD_SHAPE, "nn_linear \"%s\": x is a scalar; expected [..., in]", name);
  char layer[NAME_BYTES];
  snprintf(layer, sizeof layer, "nn_linear \"%s\"", name);
  CLADE_TRY(clade__want_float_type(layer, "x", x->dtype)); /* integer weights would be initialized to 0 */
  clade_dim in = x->shape.dim[x->shape.rank - 1];
  if (clade_dim_is_symbol(in))
    return CLADE_FAIL(BAD_SHAPE,
                      "nn_linear \"%s\": the last dimension of x is the symbol \"%s\"; a weight needs a size", name,
                      clade_dim_name(in));
  if (opt->out < 1)
    return CLADE_FAIL(INVALID, "nn_linear \"%s\": .out is %" PRId64 "; expected at least 1", name, opt->out);
  status = clade__type_check(&(clade_type){.dtype = x->dtype, .shape = CLADE_SHAPE(opt->out, in)}, true);
  if (status != CLADE_OK)
    return clade__fail_in(status, "nn_linear \"%s\": .out is %" PRId64 ", its weight", name, opt->out);
  return CLADE_OK;
}

/* y = x weightᵀ + bias, with all axes but the last one as rows. */
clade_val clade_nn_linear_(clade_graph *g, const char *name, const clade_linear_opt *given) {
  clade_linear_opt opt;
  clade_type x;
  clade_status status = clade__opt_copy(&opt, sizeof opt, given, "nn_linear");
  if (status == CLADE_OK) status = check(g, name, &opt, &x);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  int64_t in = x.shape.dim[x.shape.rank - 1];
  clade_val weight = clade__nn_weight(g, name, opt.dtype, x.dtype, CLADE_SHAPE(opt.out, in), in, opt.weight_init);
  clade_val rows = x.shape.rank == 2 ? opt.x : clade_flatten(g, opt.x, x.shape.rank - 1);
  clade_gemm_opt product = {CLADE_GEMM_OPT, .b = weight, .trans_b = true};
  if (!opt.no_bias) product.bias = clade__nn_parameter(g, name, "bias", opt.dtype, x.dtype, CLADE_SHAPE(opt.out), in);
  clade_val y = clade_gemm_(g, rows, &product);
  clade_type made;
  if (x.shape.rank == 2 || clade_val_type(g, y, &made) != CLADE_OK) return y;
  x.shape.dim[x.shape.rank - 1] = made.shape.dim[1];
  return clade_reshape(g, y, x.shape);
}
