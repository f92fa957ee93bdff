/* Reduces 1D and 3D convolutions to the 2D convolutions that implementations use, for tile-dependent bounds. */
#include "conv_kit.h"
#include "op_array.h"

/* Whether slices and lines are independent: then depth and height become one axis. */
static bool lines_apart(const conv *v) {
  const clade__unfold_attrs *d = &v->depth;
  const bool slices = d->kernel == 1 && d->stride == 1 && !d->pad[0] && !d->pad[1];
  return slices && v->w.dim[3] == 1 && v->window.stride[0] == 1 && !v->window.pad[0] && !v->window.pad[2];
}

static bool in_order(const conv *v) { return v->x.rank < 5 || lines_apart(v); }

/* Joins two adjacent axes. */
static clade_shape flat(const clade_shape *s) {
  const int last = s->rank - 1;
  return CLADE_SHAPE(s->dim[0], s->dim[1], s->rank == 5 ? s->dim[2] * s->dim[3] : 1, s->dim[last]);
}

/* Otherwise, each slice of the result becomes an image whose channels are those of all slices that its window
 * covers. */
static conv planes_of(const conv *v) {
  conv p = *v;
  if (in_order(v)) {
    p.x = flat(&v->x), p.w = flat(&v->w), p.y = flat(&v->y);
    return p;
  }
  const clade_dim images = v->x.dim[0] * v->y.dim[2], inner = v->x.dim[1] * v->w.dim[2];
  p.x = CLADE_SHAPE(images, inner, v->x.dim[3], v->x.dim[4]);
  p.w = CLADE_SHAPE(v->w.dim[0], v->w.dim[1] * v->w.dim[2], v->w.dim[3], v->w.dim[4]);
  p.y = CLADE_SHAPE(images, v->y.dim[1], v->y.dim[3], v->y.dim[4]);
  return p;
}

static const clade_shape *shape_of(const conv *v, int which) {
  return which == CONV_X ? &v->x : which == CONV_W ? &v->w : &v->y;
}

/* Index in the 3D operand of element i of the 2D operand; -1: padding. */
static int64_t solid_at(const conv *v, const conv *planes, int which, int64_t i) {
  const clade__unfold_attrs *d = &v->depth;
  const clade_dim *size = shape_of(v, which)->dim, count = v->y.dim[2];
  int64_t at[CLADE_MAX_RANK], tap = 0;
  if (which == CONV_W || in_order(v)) return i;
  op_unravel(shape_of(planes, which), i, at);
  int64_t slice = at[0] % count;
  if (which == CONV_X) {
    tap = at[1] % d->kernel;
    at[1] /= d->kernel;
    slice = slice * d->stride + tap * d->dilation - d->pad[0];
  }
  if (slice < 0 || slice >= size[2]) return -1;
  return (((at[0] / count * size[1] + at[1]) * size[2] + slice) * size[3] + at[2]) * size[4] + at[3];
}

void conv_planes_bound(const op_case *c, conv_bound *bound, int want, const double *a, const double *b, op_array *out) {
  const conv v = conv_of(c), planes = planes_of(&v);
  const int given[] = {want == CONV_X ? CONV_Y : CONV_X, want == CONV_W ? CONV_Y : CONV_W};
  op_array all[3] = {{0}}; /* a, b, and the wanted operand of `planes` */
  if (v.x.rank == 4) {
    bound(c, &v, want, a, b, out);
    return;
  }
  for (int k = 0; k < 3; k++) {
    const int which = k < 2 ? given[k] : want;
    op_result(&all[k], CLADE_F32, *shape_of(&planes, which));
    for (int64_t i = 0; k < 2 && i < all[k].n; i++) {
      int64_t at = solid_at(&v, &planes, which, i);
      if (at >= 0) all[k].v[i] = (k ? b : a)[at];
    }
  }
  bound(c, &planes, want, all[0].v, all[1].v, &all[2]);
  for (int64_t i = 0; i < all[2].n; i++) {
    int64_t at = solid_at(&v, &planes, want, i);
    if (at >= 0) out->bound[at] += all[2].bound[i];
  }
  for (int k = 0; k < 3; k++) op_array_free(&all[k]);
}
