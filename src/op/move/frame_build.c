/* Builders of slices, paddings and concatenations. */
#include <clade/ops.h>

#include "op/dims.h"
#include "op/move/frame.h"

clade_val clade__frame_add(clade_graph *g, const clade__frame_attrs *a, int n, const clade_val *in) {
  return clade_node_add(g, &clade__op_frame, NULL, a, n, in, NULL);
}

static clade_status check_sizes(const char *name, const clade_shape *s, int rank) {
  if (s->rank != rank) return CLADE_FAIL(BAD_SHAPE, "%s has %d dimensions; expected %d, as x", name, s->rank, rank);
  for (int i = 0; i < rank; i++)
    if (!clade__is_size(s->dim[i]) && !clade_dim_is_symbol(s->dim[i]) && s->dim[i] != CLADE_DIM_REST)
      return CLADE_FAIL(BAD_SHAPE, "%s: dimension %d is negative or no size", name, i);
  return CLADE_OK;
}

static void copy_shape(clade_shape *to, const clade_shape *from) {
  to->rank = from->rank;
  for (int i = 0; i < from->rank && i < CLADE_MAX_RANK; i++) to->dim[i] = from->dim[i];
}

clade_val clade_slice(clade_graph *g, clade_val x, clade_shape begin, clade_shape size) {
  clade_type type;
  clade__frame_attrs a;
  memset(&a, 0, sizeof a);
  if (!clade__graph_ok(g)) return (clade_val){0};
  clade_status status = clade_val_type(g, x, &type);
  if (status == CLADE_OK) status = check_sizes("begin", &begin, type.shape.rank);
  if (status == CLADE_OK) status = check_sizes("size", &size, type.shape.rank);
  if (status != CLADE_OK) return clade__graph_fail(g, status, "slice");
  copy_shape(&a.begin, &begin);
  copy_shape(&a.shape, &size);
  a.at.rank = type.shape.rank;
  a.inside = true;
  for (int i = 0; i < size.rank; i++) {
    clade_dim rest = clade_dim_sub(type.shape.dim[i], begin.dim[i]);
    if (size.dim[i] == CLADE_DIM_REST)
      a.shape.dim[i] = rest == CLADE_DIM_ERROR ? 0 : rest; /* begins behind the end, which is an error */
  }
  return clade__frame_add(g, &a, 1, &x);
}

/* Converts a value to the bit pattern of one element. */
static clade_status element(clade_dtype dtype, double value, int64_t *bytes) {
  float f = (float)value;
  int64_t whole = value >= -0x1p62 && value <= 0x1p62 ? (int64_t)value : 0;
  bool real = clade__is_float(dtype);
  size_t each;
  *bytes = 0;
  CLADE_TRY(clade__dtype_element(dtype, &each));
  if (!real && ((double)whole != value || whole < clade__dtype_low(dtype) || whole > clade__dtype_high(dtype)))
    return CLADE_FAIL(INVALID, "value %g is none of %s", value, clade_dtype_name(dtype));
  return real ? clade_convert(dtype, bytes, CLADE_F32, &f, 1) : clade_convert(dtype, bytes, CLADE_I64, &whole, 1);
}

clade_val clade_pad(clade_graph *g, clade_val x, clade_shape before, clade_shape after, double value) {
  char text[2][200];
  clade_type type;
  clade__frame_attrs a;
  memset(&a, 0, sizeof a);
  if (!clade__graph_ok(g)) return (clade_val){0};
  clade_status status = clade_val_type(g, x, &type);
  if (status == CLADE_OK) status = check_sizes("before", &before, type.shape.rank);
  if (status == CLADE_OK) status = check_sizes("after", &after, type.shape.rank);
  if (status == CLADE_OK) status = element(type.dtype, value, &a.fill);
  if (status != CLADE_OK) return clade__graph_fail(g, status, "pad");
  copy_shape(&a.at, &before);
  a.begin.rank = a.shape.rank = type.shape.rank;
  for (int i = 0; i < type.shape.rank; i++)
    a.shape.dim[i] = clade_dim_add(clade_dim_add(before.dim[i], type.shape.dim[i]), after.dim[i]);
  status = clade__type_check(&(clade_type){.dtype = type.dtype, .shape = a.shape}, false);
  if (status != CLADE_OK)
    return clade__graph_fail(g,
                             clade__fail_in(status, "before is %s, after is %s",
                                            clade_shape_text(&before, text[0], sizeof text[0]),
                                            clade_shape_text(&after, text[1], sizeof text[1])),
                             "pad");
  return clade__frame_add(g, &a, 1, &x);
}

clade_val clade_concat(clade_graph *g, int n, const clade_val *xs, int axis) {
  clade_type type;
  clade__frame_attrs a;
  memset(&a, 0, sizeof a);
  if (!clade__graph_ok(g)) return (clade_val){0};
  clade_status status = CLADE_OK;
  if (n < 1 || n > CLADE_MAX_OPERANDS) status = CLADE_FAIL(INVALID, "n is %d; expected 1 to %d", n, CLADE_MAX_OPERANDS);
  if (status == CLADE_OK && !xs) status = CLADE_FAIL(INVALID, "xs is NULL");
  for (int k = 0; k < n && status == CLADE_OK; k++) {
    status = clade_val_type(g, xs[k], &type);
    if (status != CLADE_OK) clade__fail_in(status, "operand %d", k);
    if (status == CLADE_OK && k == 0) status = clade__axis("operand 0", axis, type.shape.rank, &axis);
    if (status == CLADE_OK && k == 0) copy_shape(&a.shape, &type.shape);
    if (status == CLADE_OK && k > 0 && type.shape.rank == a.shape.rank)
      a.shape.dim[axis] = clade_dim_add(a.shape.dim[axis], type.shape.dim[axis]);
  }
  if (status != CLADE_OK) return clade__graph_fail(g, status, "concat");
  if (n == 1) return xs[0];
  a.axis = axis;
  a.begin.rank = a.at.rank = a.shape.rank;
  return clade__frame_add(g, &a, n, xs);
}
