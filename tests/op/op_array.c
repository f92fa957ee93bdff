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
  for (int64_t i = 0; i < a->n; i++) {
    float f = op_is_float(a->dtype) ? (float)a->v[i] : 0;
    int64_t n = op_is_float(a->dtype) ? 0 : as_integer(a->v[i]);
    size_t element = op_array_bytes(a) / (size_t)a->n;
    if (op_is_float(a->dtype))
      (void)clade_convert(a->dtype, (char *)bytes + (size_t)i * element, CLADE_F32, &f, 1);
    else
      (void)clade_convert(a->dtype, (char *)bytes + (size_t)i * element, CLADE_I64, &n, 1);
  }
}

static double unpack(clade_dtype dtype, const char *bytes, int64_t at) {
  float f;
  int64_t n;
  size_t element = 0;
  (void)clade_dtype_bytes(dtype, 1, &element);
  const char *from = bytes + (size_t)at * element;
  if (dtype == CLADE_BOOL) return *(const unsigned char *)from; /* only 0 and 1 are stored */
  if (op_is_float(dtype)) return clade_convert(CLADE_F32, &f, dtype, from, 1) == CLADE_OK ? (double)f : NAN;
  return clade_convert(CLADE_I64, &n, dtype, from, 1) == CLADE_OK ? (double)n : NAN;
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
  for (int64_t i = 0; i < want->n; i++) {
    double got = unpack(want->dtype, bytes, i), off = fabs(got - want->v[i]);
    if (!close_enough(want->dtype, got, want->v[i], want->bound[i])) {
      fprintf(stderr, "  %s[%lld] of %s: got %.9g, want %.9g, off by %.3g, allowed %.3g\n", what, (long long)i,
              clade_dtype_name(want->dtype), got, want->v[i], off,
              want->bound[i] + storage_error(want->dtype, fabs(want->v[i])));
      return false;
    }
    if (isfinite(off) && want->bound[i] > 0 && want->bound[i] < HUGE_VAL)
      *worst = CLADE_MAX(*worst, off / (want->bound[i] + storage_error(want->dtype, fabs(want->v[i]))));
  }
  return true;
}

double op_array_get(clade_dtype dtype, const void *bytes, int64_t at) { return unpack(dtype, bytes, at); }
