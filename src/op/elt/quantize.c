/* Builders of quantize and dequantize, made of elementwise nodes, which can be fused. */
#include <clade/ops.h>

#include <math.h>

#include "op/op.h"

static clade_status check(const clade_graph *g, clade_val x, double scale, clade_dtype dtype) {
  clade_type type;
  clade_status status = clade_val_type(g, x, &type);
  if (status != CLADE_OK) return clade__fail_in(status, "quantize: x");
  if (type.dtype != CLADE_F32)
    return CLADE_FAIL(DTYPE, "quantize: x is %s; expected f32", clade_dtype_name(type.dtype));
  if (dtype != CLADE_I8 && dtype != CLADE_U8)
    return CLADE_FAIL(DTYPE, "quantize: to %s; expected i8 or u8", clade_dtype_name(dtype));
  if (!(scale > 0) || !isfinite((float)scale) || !isfinite((float)(1 / scale)) || !((float)(1 / scale) > 0))
    return CLADE_FAIL(INVALID, "quantize: the scale is %g; expected a number above 0 whose reciprocal f32 can hold",
                      scale);
  return CLADE_OK;
}

clade_val clade_quantize(clade_graph *g, clade_val x, double scale, clade_dtype dtype) {
  if (!clade__graph_ok(g)) return (clade_val){0};
  const clade_status status = check(g, x, scale, dtype);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  const clade_val levels = clade_mul(g, x, clade_fill(g, CLADE_F32, CLADE_SCALAR, 1 / scale));
  return clade_cast(g, clade_round(g, levels), dtype);
}

/* Reshapes the scale so that it broadcasts along all axes but one. */
static clade_status along(clade_graph *g, const clade_type *x, int axis, clade_val *scale) {
  clade_type type;
  char s[200], t[200];
  clade_status status = clade_val_type(g, *scale, &type);
  if (status != CLADE_OK) return clade__fail_in(status, "dequantize: scale");
  if (type.dtype != CLADE_F32)
    return CLADE_FAIL(DTYPE, "dequantize: scale is %s; expected f32", clade_dtype_name(type.dtype));
  if (!type.shape.rank) return CLADE_OK;
  if (axis < 0 || axis >= x->shape.rank)
    return CLADE_FAIL(INVALID, "dequantize: axis is %d; expected 0 to %d", axis, x->shape.rank - 1);
  if (type.shape.rank != 1 || type.shape.dim[0] != x->shape.dim[axis])
    return CLADE_FAIL(BAD_SHAPE,
                      "dequantize: scale is %s and x %s; expected a scalar, or one number for each of axis %d",
                      clade_shape_text(&type.shape, s, sizeof s), clade_shape_text(&x->shape, t, sizeof t), axis);
  clade_shape shape = {.rank = x->shape.rank - axis, .dim = {type.shape.dim[0]}};
  for (int i = 1; i < shape.rank; i++) shape.dim[i] = 1;
  *scale = clade_reshape(g, *scale, shape);
  return CLADE_OK;
}

clade_val clade_dequantize(clade_graph *g, clade_val x, clade_val scale, int axis) {
  clade_type type;
  if (!clade__graph_ok(g)) return (clade_val){0};
  clade_status status = clade_val_type(g, x, &type);
  if (status != CLADE_OK) return clade__graph_fail(g, status, "dequantize: x");
  if (!clade__is_integer(type.dtype))
    status = CLADE_FAIL(DTYPE, "dequantize: x is %s; expected integers", clade_dtype_name(type.dtype));
  if (status == CLADE_OK) status = along(g, &type, axis, &scale);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  return clade_mul(g, clade_cast(g, x, CLADE_F32), scale);
}
