/* Sizes and text forms of shapes, layouts and types. */
#include "base/base.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

clade_shape clade_shape_of(size_t rank, const clade_dim *dims) {
  clade_shape shape = {0};
  shape.rank = rank > INT_MAX ? INT_MAX : (int)rank;
  for (size_t i = 0; i < rank && i < CLADE_MAX_RANK; i++) shape.dim[i] = dims ? dims[i] : CLADE_DIM_ERROR;
  return shape;
}

bool clade_shape_equal(const clade_shape *a, const clade_shape *b) {
  if (!a || !b || a->rank != b->rank) return false;
  for (int i = 0; i < a->rank && i < CLADE_MAX_RANK; i++)
    if (a->dim[i] != b->dim[i]) return false;
  return true;
}

bool clade_shape_is_constant(const clade_shape *shape) {
  if (!shape) return false;
  for (int i = 0; i < shape->rank && i < CLADE_MAX_RANK; i++)
    if (clade_dim_is_symbol(shape->dim[i])) return false;
  return true;
}

clade_status clade_shape_elements(const clade_shape *shape, int64_t *elements) {
  char text[256];
  if (!shape || !elements)
    return CLADE_FAIL(INVALID, "clade_shape_elements: %s is NULL", shape ? "elements" : "the shape");
  if (shape->rank < 0 || shape->rank > CLADE_MAX_RANK)
    return CLADE_FAIL(BAD_SHAPE, "a shape has 0 to %d dimensions, not %d", CLADE_MAX_RANK, shape->rank);
  int64_t product = 1;
  bool zero = false, overflow = false;
  for (int i = 0; i < shape->rank; i++) {
    clade_dim d = shape->dim[i];
    if (clade_dim_is_symbol(d))
      return CLADE_FAIL(BAD_SHAPE, "dimension \"%s\" of %s has no value yet", clade_dim_name(d),
                        clade_shape_text(shape, text, sizeof text));
    if (d == CLADE_DIM_ERROR)
      return CLADE_FAIL(BAD_SHAPE, "dimension %d is no size: a bad name, an overflow or a negative difference", i);
    if (d < 0)
      return CLADE_FAIL(BAD_SHAPE, "dimension %d of %s is negative", i, clade_shape_text(shape, text, sizeof text));
    zero |= d == 0;
    overflow |= d && __builtin_mul_overflow(product, d, &product);
  }
  if (overflow) /* also if another dimension is 0: strides multiply the rest */
    return CLADE_FAIL(OVERFLOW, "%s has more elements than can be counted", clade_shape_text(shape, text, sizeof text));
  *elements = zero ? 0 : product;
  return CLADE_OK;
}

char *clade_shape_text(const clade_shape *shape, char *text, size_t size) {
  size_t at = 0;
  if (size == 0 || !text) return text;
  text[0] = '\0';
  if (!shape) snprintf(text, size, "?");
  for (int i = 0; shape && i <= shape->rank && i <= CLADE_MAX_RANK; i++) {
    const char *open = i ? ", " : "[";
    int n;
    if (i == shape->rank || i == CLADE_MAX_RANK) {
      n = snprintf(text + at, size - at, "%s]", i == 0 ? "[" : shape->rank > CLADE_MAX_RANK ? ", …" : "");
    } else if (clade_dim_is_symbol(shape->dim[i])) {
      n = snprintf(text + at, size - at, "%s%s", open, clade_dim_name(shape->dim[i]));
    } else {
      n = snprintf(text + at, size - at, "%s%" PRId64, open, shape->dim[i]);
    }
    if (n < 0 || (size_t)n >= size - at) break;
    at += (size_t)n;
  }
  return text;
}

bool clade__layout_equal(clade_layout a, clade_layout b) {
  return a.block == b.block && (!a.block || (a.axis == b.axis && a.interleave == b.interleave && a.tile == b.tile));
}

bool clade_type_equal(const clade_type *a, const clade_type *b) {
  if (!a || !b) return false;
  return a->dtype == b->dtype && clade__layout_equal(a->layout, b->layout) && clade_shape_equal(&a->shape, &b->shape);
}

/* Rounds a dimension up to a multiple of the block. */
static clade_status pad(int axis, uint16_t multiple, clade_shape *stored) {
  clade_dim *d = &stored->dim[axis];
  size_t padded;
  if (clade_dim_is_symbol(*d) || *d < 0) return CLADE_OK; /* reported where elements are counted */
  if (!clade__round_up((size_t)*d, multiple, &padded) || padded > (size_t)INT64_MAX)
    return CLADE_FAIL(OVERFLOW, "dimension %d with its padding to a multiple of %u overflows", axis, multiple);
  *d = (clade_dim)padded;
  return CLADE_OK;
}

clade_status clade_type_bytes(const clade_type *type, size_t *bytes) {
  int64_t elements;
  if (!type || !bytes) return CLADE_FAIL(INVALID, "clade_type_bytes: %s is NULL", type ? "bytes" : "the type");
  clade_shape stored = type->shape;
  const clade_layout *layout = &type->layout;
  if (layout->block && stored.rank >= 0 && stored.rank <= CLADE_MAX_RANK) {
    if (layout->axis < 0 || layout->axis >= stored.rank)
      return CLADE_FAIL(BAD_SHAPE, "a layout blocks axis %d, the shape has %d dimensions", layout->axis, stored.rank);
    CLADE_TRY(pad(layout->axis, layout->block, &stored));
    if (layout->tile == CLADE_PANELS) {
      bool windows = stored.rank == 4 && layout->axis <= 1;
      int other = windows ? !layout->axis : 2 * stored.rank - 3 - layout->axis;
      if (other < 0 || other >= stored.rank)
        return CLADE_FAIL(BAD_SHAPE,
                          "a layout of panels blocks axis %d of %d; expected one of the last two, or 0 or 1 of 4",
                          layout->axis, stored.rank);
      CLADE_TRY(pad(other, (uint16_t)CLADE_MAX(layout->interleave, 1), &stored));
    } else if (layout->interleave > 1 && layout->axis > 0)
      CLADE_TRY(pad(layout->axis - 1, layout->interleave, &stored));
    for (int i = CLADE_MAX(stored.rank - 2, 0); layout->tile > CLADE_PANELS && i < stored.rank; i++)
      if (i != layout->axis)
        stored.dim[i] = layout->tile + (layout->tile >= CLADE_SPECTRUM && i == stored.rank - 1 ? 2 : 0);
  }
  CLADE_TRY(clade_shape_elements(&stored, &elements));
  return clade_dtype_bytes(type->dtype, elements, bytes);
}
