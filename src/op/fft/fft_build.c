/* Fourier transforms along several axes, as one fft node per axis. */
#include <inttypes.h>

#include "op/dims.h"
#include "op/fft/fft.h"

typedef struct request {
  int n_axes, axes[CLADE_MAX_RANK];
  int64_t n[CLADE_MAX_RANK]; /* length of each axis */
} request;

static clade_status take_axes(const clade_fft_opt *opt, int values, request *r) {
  unsigned seen = 0;
  if (opt->n_axes < 0 || opt->n_axes > values)
    return CLADE_FAIL(INVALID, ".n_axes is %d; expected 0 to %d, the axes of values", opt->n_axes, values);
  r->n_axes = opt->n_axes ? opt->n_axes : 1;
  for (int i = 0; i < r->n_axes; i++) {
    CLADE_TRY(clade__axis(".axes", opt->n_axes ? opt->axes[i] : -1, values, &r->axes[i]));
    if (seen & 1u << r->axes[i]) return CLADE_FAIL(INVALID, ".axes has axis %d twice", r->axes[i]);
    seen |= 1u << r->axes[i];
  }
  return CLADE_OK;
}

static clade_status take_sizes(const clade_fft_opt *opt, const clade_shape *x, bool from_half, request *r) {
  for (int i = 0; i < r->n_axes; i++) {
    clade_dim held = x->dim[r->axes[i]];
    if (clade_dim_is_symbol(held))
      return CLADE_FAIL(BAD_SHAPE, "axis %d of x is the symbol \"%s\"; a transform needs a size", r->axes[i],
                        clade_dim_name(held));
    if (held < 1 || held > CLADE__FFT_MOST)
      return CLADE_FAIL(BAD_SHAPE, "axis %d of x is %" PRId64 "; expected 1 to %d", r->axes[i], held, CLADE__FFT_MOST);
    r->n[i] = held;
  }
  int64_t *last = &r->n[r->n_axes - 1];
  if (!from_half && opt->n) return CLADE_FAIL(INVALID, ".n is %" PRId64 "; only irfft takes it", opt->n);
  if (!from_half) return CLADE_OK;
  int64_t held = *last, n = opt->n ? opt->n : 2 * (held - 1);
  if (n < 1 || n > CLADE__FFT_MOST || n / 2 + 1 != held)
    return CLADE_FAIL(
        INVALID, ".n is %" PRId64 "; expected a length whose half spectrum has the %" PRId64 " values of x", n, held);
  *last = n;
  return CLADE_OK;
}

static clade_status take(const clade_graph *g, const clade_fft_opt *opt, int kind, request *r) {
  clade_type x;
  char text[200];
  CLADE_TRY(clade_val_type(g, opt->x, &x));
  if (x.dtype != CLADE_F32) return CLADE_FAIL(DTYPE, "x is %s; expected f32", clade_dtype_name(x.dtype));
  bool real = kind == CLADE__FFT_HALF_OF_REAL;
  int values = real ? x.shape.rank : x.shape.rank - 1;
  if (values < 1 || (!real && x.shape.dim[values] != 2))
    return CLADE_FAIL(BAD_SHAPE, "x is %s; expected %s", clade_shape_text(&x.shape, text, sizeof text),
                      real ? "at least one dimension" : "[..., 2], complex values along at least one axis");
  CLADE_TRY(take_axes(opt, values, r));
  return take_sizes(opt, &x.shape, kind == CLADE__FFT_REAL_OF_HALF, r);
}

/* The transform between real and complex values is along the last of the axes. */
static clade_val transform(clade_graph *g, const char *name, const clade_fft_opt *given, int kind, bool inverse) {
  clade_fft_opt opt;
  request r;
  clade_status status = clade__opt_copy(&opt, sizeof opt, given, name);
  if (status == CLADE_OK && (status = take(g, &opt, kind, &r)) != CLADE_OK) clade__fail_in(status, "%s", name);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  int last = r.n_axes - 1;
  clade_val x = opt.x;
  if (!inverse) x = clade__fft(g, x, kind, r.axes[last], r.n[last], false);
  for (int i = 0; i < last; i++) x = clade__fft(g, x, CLADE__FFT_COMPLEX, r.axes[i], r.n[i], inverse);
  return inverse ? clade__fft(g, x, kind, r.axes[last], r.n[last], true) : x;
}

clade_val clade_fft_(clade_graph *g, const clade_fft_opt *opt) {
  return transform(g, "fft", opt, CLADE__FFT_COMPLEX, false);
}
clade_val clade_ifft_(clade_graph *g, const clade_fft_opt *opt) {
  return transform(g, "ifft", opt, CLADE__FFT_COMPLEX, true);
}
clade_val clade_rfft_(clade_graph *g, const clade_fft_opt *opt) {
  return transform(g, "rfft", opt, CLADE__FFT_HALF_OF_REAL, false);
}
clade_val clade_irfft_(clade_graph *g, const clade_fft_opt *opt) {
  return transform(g, "irfft", opt, CLADE__FFT_REAL_OF_HALF, true);
}
