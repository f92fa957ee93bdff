/* What the op test feeds and expects: values in double, and their way into and out of a device's formats. */
#include "op_array.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void *op_alloc(size_t count, size_t size) {
  void *memory = calloc(count ? count : 1, size);
  if (memory) return memory;
  fprintf(stderr, "op_test: no memory\n");
  exit(1);
}

int64_t op_elements(const clade_shape *shape) {
  int64_t n = 1;
  for (int i = 0; i < shape->rank; i++) n *= shape->dim[i];
  return n;
}

void op_unravel(const clade_shape *shape, int64_t at, int64_t index[CLADE_MAX_RANK]) {
  for (int i = shape->rank - 1; i >= 0; i--) {
    index[i] = at % shape->dim[i];
    at /= shape->dim[i];
  }
}

int64_t op_broadcast_at(const clade_shape *shape, const clade_shape *to, const int64_t *index) {
  int64_t at = 0;
  for (int i = 0; i < shape->rank; i++) {
    int64_t d = shape->dim[i];
    at = at * d + (d == 1 ? 0 : index[to->rank - shape->rank + i]);
  }
  return at;
}

/* To `digits` binary digits, exponents from `least` on. */
static double keep_digits(double v, int digits, int least, double most) {
  if (v == 0 || !isfinite(v)) return v;
  int e = CLADE_MAX(ilogb(v), least);
  double quantum = ldexp(1, e - digits + 1), r = rint(v / quantum) * quantum;
  return fabs(r) > most ? copysign(INFINITY, v) : r;
}

static int64_t as_integer(double v) {
  return v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : v == v ? (int64_t)v : 0;
}

double op_round(clade_dtype dtype, double v) {
  switch (dtype) {
  case CLADE_F32: return (double)(float)v;
  case CLADE_F16: return keep_digits(v, 11, -14, 65504);
  case CLADE_BF16: return keep_digits(v, 8, -126, 0x1.fep127);
  case CLADE_I8: return (double)(int8_t)as_integer(v);
  case CLADE_U8: return (double)(uint8_t)as_integer(v);
  case CLADE_I32: return (double)(int32_t)as_integer(v);
  case CLADE_I64: return (double)as_integer(v);
  case CLADE_BOOL: return v != 0;
  case CLADE_DTYPE_NONE: break;
  }
  return v;
}

double op_epsilon(clade_dtype dtype) { return op_is_float(dtype) ? 0x1p-24 : 0; }

void op_result(op_array *out, clade_dtype dtype, clade_shape shape) {
  op_array_free(out);
  *out = (op_array){.dtype = dtype, .shape = shape, .n = op_elements(&shape)};
  out->v = op_alloc((size_t)out->n, sizeof *out->v);
  out->bound = op_alloc((size_t)out->n, sizeof *out->bound);
}

void op_array_free(op_array *a) {
  free(a->v);
  free(a->bound);
  *a = (op_array){0};
}

void op_array_fill(op_array *a, const op_input *in, op_random *r) {
  double low = in->low, high = in->high;
  op_result(a, in->dtype, in->shape);
  if (low == 0 && high == 0) {
    low = in->dtype == CLADE_I8 ? -128 : in->dtype == CLADE_U8 || in->dtype == CLADE_BOOL ? 0 : -4;
    high = in->dtype == CLADE_I8 ? 127 : in->dtype == CLADE_U8 ? 255 : in->dtype == CLADE_BOOL ? 1 : 4;
    if (in->dtype == CLADE_I32 || in->dtype == CLADE_I64) low = -1000, high = 1000;
  }
  for (int64_t i = 0; i < a->n; i++) {
    double v = op_uniform(r, low, high);
    if (in->ties) v = rint(v * (double)in->ties) / (double)in->ties;
    if (!op_is_float(in->dtype)) v = floor(low) + floor(op_uniform(r, 0, 1) * (floor(high) - floor(low) + 1));
    a->v[i] = op_round(in->dtype, v);
  }
}

size_t op_array_bytes(const op_array *a) {
  size_t bytes = 0;
  return clade_dtype_bytes(a->dtype, a->n, &bytes) == CLADE_OK ? bytes : 0;
}

void op_array_pack(const op_array *a, void *bytes) {
  size_t n = (size_t)a->n;
  float *f = op_alloc(n, sizeof *f);
  int64_t *whole = op_alloc(n, sizeof *whole);
  for (size_t i = 0; i < n; i++) {
    if (op_is_float(a->dtype))
      f[i] = (float)a->v[i];
    else
      whole[i] = as_integer(a->v[i]);
  }
  if (op_is_float(a->dtype))
    (void)clade_convert(a->dtype, bytes, CLADE_F32, f, n);
  else
    (void)clade_convert(a->dtype, bytes, CLADE_I64, whole, n);
  free(f);
  free(whole);
}

/* `from` on, n of them. */
static double *unpack(clade_dtype dtype, const void *bytes, int64_t from, int64_t n) {
  size_t skipped = 0, count = (size_t)n;
  (void)clade_dtype_bytes(dtype, from, &skipped);
  const unsigned char *at = (const unsigned char *)bytes + skipped;
  double *v = op_alloc(count, sizeof *v);
  float *f = op_alloc(count, sizeof *f);
  int64_t *whole = op_alloc(count, sizeof *whole);
  bool real = op_is_float(dtype), ok = true;
  if (dtype != CLADE_BOOL)
    ok = clade_convert(real ? CLADE_F32 : CLADE_I64, real ? (void *)f : whole, dtype, at, count) == CLADE_OK;
  for (size_t i = 0; i < count; i++) /* of bool only 0 and 1 are stored */
    v[i] = dtype == CLADE_BOOL ? at[i] : !ok ? NAN : real ? (double)f[i] : (double)whole[i];
  free(f);
  free(whole);
  return v;
}

/* Half a unit in the last place, and what a device that has no denormal numbers may lose. */
static double storage_error(clade_dtype dtype, double magnitude) {
  switch (dtype) {
  case CLADE_F32: return magnitude * 0x1p-24 + 0x1p-126;
  case CLADE_F16: return magnitude * 0x1p-11 + 0x1p-25;
  case CLADE_BF16: return magnitude * 0x1p-8 + 0x1p-126;
  default: return 0;
  }
}

static bool close_enough(clade_dtype dtype, double got, double want, double bound) {
  static const double most[] = {[CLADE_F32] = FLT_MAX, [CLADE_F16] = 65504, [CLADE_BF16] = 0x1.fep127};
  if (bound == HUGE_VAL) return true;
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
  if (!op_is_float(dtype)) return fabs(got - want) <= bound;
  double error = bound + storage_error(dtype, fabs(want) + bound);
  if (isinf(got)) return isinf(want) ? got == want : got * want > 0 && fabs(want) + error > most[dtype];
  if (isinf(want)) return false;
  return fabs(got - want) <= error * 1.001;
}

bool op_array_compare(const op_array *want, const void *bytes, const char *what, double *worst) {
  double *got = unpack(want->dtype, bytes, 0, want->n);
  int64_t i = 0;
  for (; i < want->n && close_enough(want->dtype, got[i], want->v[i], want->bound[i]); i++) {
    if (want->signs && got[i] == 0 && want->v[i] == 0 && signbit(got[i]) != signbit(want->v[i])) break;
    double off = fabs(got[i] - want->v[i]);
    if (isfinite(off) && want->bound[i] > 0 && want->bound[i] < HUGE_VAL)
      *worst = CLADE_MAX(*worst, off / (want->bound[i] + storage_error(want->dtype, fabs(want->v[i]))));
  }
  if (i < want->n)
    fprintf(stderr, "  %s[%lld] of %s: got %.9g, want %.9g, off by %.3g, allowed %.3g\n", what, (long long)i,
            clade_dtype_name(want->dtype), got[i], want->v[i], fabs(got[i] - want->v[i]),
            want->bound[i] + storage_error(want->dtype, fabs(want->v[i])));
  free(got);
  return i == want->n;
}

double op_array_get(clade_dtype dtype, const void *bytes, int64_t at) {
  double *one = unpack(dtype, bytes, at, 1), v = *one;
  free(one);
  return v;
}
