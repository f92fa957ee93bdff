/* Windows over height and width: options, number of positions, and index maps. */
#include "op/window.h"

#include <inttypes.h>

enum { MOST = CLADE__WINDOW_MOST };
static const char *const axes[] = {"height", "width"};

clade_status clade__window_number(const char *op, const char *name, int i, int value, int least) {
  if (value >= least && value <= MOST) return CLADE_OK;
  if (i < 0) return CLADE_FAIL(INVALID, "%s: .%s is %d; expected %d to %d", op, name, value, least, MOST);
  return CLADE_FAIL(INVALID, "%s: .%s[%d] is %d; expected %d to %d", op, name, i, value, least, MOST);
}

clade_status clade__window_numbers(const char *op, const char *name, const int *from, int n, int least, int32_t *to) {
  for (int i = 0; i < n; i++) {
    to[i] = from[i] ? from[i] : least;
    CLADE_TRY(clade__window_number(op, name, n > 1 ? i : -1, to[i], least));
  }
  return CLADE_OK;
}

clade_status clade__window_pads(const char *op, const int *pad, const int *pads, int axes, int32_t *to) {
  bool symmetric = false, free = false;
  for (int i = 0; i < 2 * axes; i++) {
    symmetric = symmetric || pad[i % axes];
    free = free || pads[i];
  }
  if (symmetric && free) return CLADE_FAIL(INVALID, "%s: .pad and .pads are both set; expected one of them", op);
  if (!symmetric) return clade__window_numbers(op, "pads", pads, 2 * axes, 0, to);
  CLADE_TRY(clade__window_numbers(op, "pad", pad, axes, 0, to));
  memcpy(to + axes, to, (size_t)axes * sizeof *to);
  return CLADE_OK;
}

clade_status clade__window_make(const char *op, const clade__window_opt *opt, clade__window *w) {
  int stride[2];
  memset(w, 0, sizeof *w);
  for (int i = 0; i < 2; i++) stride[i] = opt->stride[i] ? opt->stride[i] : opt->kernel[i];
  for (int i = 0; i < 2; i++) CLADE_TRY(clade__window_number(op, "kernel", i, w->kernel[i] = opt->kernel[i], 1));
  CLADE_TRY(clade__window_numbers(op, "stride", stride, 2, 1, w->stride));
  CLADE_TRY(clade__window_numbers(op, "dilation", opt->dilation, 2, 1, w->dilation));
  return clade__window_pads(op, opt->pad, opt->pads, 2, w->pad);
}

static clade_status slide_axis(const char *op, const clade__window *w, int axis, clade_dim in, clade_dim *out) {
  int64_t extent = ((int64_t)w->kernel[axis] - 1) * w->dilation[axis] + 1,
          pad = (int64_t)w->pad[axis] + w->pad[axis + 2];
  if (w->kernel[axis] < 1 || w->stride[axis] < 1 || w->dilation[axis] < 1 || pad < 0)
    return CLADE_FAIL(INVALID, "%s: along the %s the kernel is %d, the stride %d, the dilation %d; expected at least 1",
                      op, axes[axis], w->kernel[axis], w->stride[axis], w->dilation[axis]);
  if (!clade_dim_is_symbol(in)) {
    if (in == 0) return CLADE_FAIL(BAD_SHAPE, "%s: the %s of x is 0; expected at least 1", op, axes[axis]);
    if (in > MOST || in + pad > MOST)
      return CLADE_FAIL(OVERFLOW, "%s: the %s of x is %" PRId64 " and its padding %" PRId64 "; together at most %d", op,
                        axes[axis], in, pad, MOST);
    if (extent > in + pad)
      return CLADE_FAIL(BAD_SHAPE,
                        "%s: the kernel covers %" PRId64 " along the %s (%d with dilation %d), but x has %" PRId64
                        " and a padding of %" PRId64,
                        op, extent, axes[axis], w->kernel[axis], w->dilation[axis], in, pad);
  }
  int64_t more = pad - extent;
  clade_dim room = more < 0 ? clade_dim_sub(in, -more) : clade_dim_add(in, more);
  *out = clade_dim_add(clade_dim_div(room, w->stride[axis]), 1);
  if (*out == CLADE_DIM_ERROR) return CLADE_FAIL(OVERFLOW, "%s: the %s of the result cannot be told", op, axes[axis]);
  return CLADE_OK;
}

clade_status clade__window_slide(const char *op, const clade__window *w, const clade_shape *x, clade_dim channels,
                                 clade_shape *y) {
  char text[200];
  if (x->rank != 4)
    return CLADE_FAIL(BAD_SHAPE, "%s: x is %s; expected [n, channels, height, width]", op,
                      clade_shape_text(x, text, sizeof text));
  *y = (clade_shape){.rank = 4, .dim = {x->dim[0], channels}};
  for (int axis = 0; axis < 2; axis++) CLADE_TRY(slide_axis(op, w, axis, x->dim[2 + axis], &y->dim[2 + axis]));
  return CLADE_OK;
}

clade__map_1d clade__window_covers(const clade__window *w, int axis) {
  return (clade__map_1d){w->stride[axis], -w->pad[axis], w->dilation[axis], 1};
}

clade__map_1d clade__window_covered_by(const clade__window *w, int axis) {
  return (clade__map_1d){1, w->pad[axis], -w->dilation[axis], w->stride[axis]};
}

int64_t clade__gcd(int64_t a, int64_t b) { return b ? clade__gcd(b, a % b) : a; }

int64_t clade__map_step(clade__map_1d m) { return m.div / clade__gcd(m.div, m.delta < 0 ? -m.delta : m.delta); }

int64_t clade__map_first(clade__map_1d m, int64_t taps) { return m.add + CLADE_MIN((taps - 1) * m.delta, 0); }

void clade__emit_maps(clade_kernel_step *s, const clade__window *w, clade__map_1d (*map)(const clade__window *, int)) {
  clade__map_1d y = map(w, 0), x = map(w, 1);
  clade_emit_index8(s, 8, (int64_t[]){y.mul, y.add, y.delta, y.div, x.mul, x.add, x.delta, x.div});
}
