/* Inputs and expected results as doubles, and their conversion to and from a device's formats. */
#include "op_array.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

clade_dtype op_all_types[OP_TYPES], op_computed_types[OP_TYPES], op_computed_floats[OP_TYPES],
    op_number_types[OP_TYPES], op_factor_types[OP_TYPES];

void op_list_types(void) {
  clade_dtype *all = op_all_types, *computed = op_computed_types, *floats = op_computed_floats;
  clade_dtype *number = op_number_types, *factor = op_factor_types;
  for (clade_dtype t = CLADE_DTYPE_NONE; (t = clade__dtype_next(t));) {
    if (clade__has_blocks(t)) continue; /* few ops accept them, and those draw them explicitly */
    *all++ = t;
    if (clade__is_computed(t)) *computed++ = t;
    if (clade__is_computed_float(t)) *floats++ = t;
    if (clade__is_computed(t) && t != CLADE_BOOL) *number++ = t;
    if (clade__dtype_row(t)->product) *factor++ = t;
  }
}

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

/* Distance between adjacent numbers of a float type near v. */
static double quantum(const clade__dtype *row, double v) {
  const int least = 2 - (1 << (row->exponent - 1)); /* exponent of the smallest normal number */
  return ldexp(1, CLADE_MAX(ilogb(v), least) - row->fraction);
}

static int64_t as_integer(double v) {
  return v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : v == v ? (int64_t)v : 0;
}

/* Wraps to the bits of an integer type. */
static double wrapped(const clade__dtype *row, int64_t v) {
  const uint64_t above = row->bits < 64 ? (uint64_t)1 << row->bits : 0, kept = (uint64_t)v & (above - 1);
  return row->kind == CLADE__SIGNED && above && kept >= above / 2 ? (double)kept - (double)above
         : row->kind == CLADE__SIGNED                             ? (double)(int64_t)kept
                                                                  : (double)kept;
}

void op_round_blocks(clade_dtype dtype, int64_t n, double *v) {
  size_t bytes = 0;
  float *x = op_alloc((size_t)n, sizeof *x);
  void *blocks = NULL;
  for (int64_t i = 0; i < n; i++) x[i] = (float)v[i];
  if (clade_dtype_bytes(dtype, n, &bytes) == CLADE_OK) blocks = op_alloc(bytes, 1);
  (void)clade_convert(dtype, blocks, CLADE_F32, x, (size_t)n);
  (void)clade_convert(CLADE_F32, x, dtype, blocks, (size_t)n);
  for (int64_t i = 0; i < n; i++) v[i] = (double)x[i];
  free(x);
  free(blocks);
}

double op_round(clade_dtype dtype, double v) {
  const clade__dtype *row = clade__dtype_row(dtype);
  if (clade__has_blocks(dtype)) return v; /* depends on the other elements of its block */
  if (row->kind == CLADE__TRUTH) return v != 0;
  if (row->kind != CLADE__REAL) return wrapped(row, as_integer(v));
  if (v == 0 || isnan(v)) return v;
  double r = isinf(v) ? v : rint(v / quantum(row, v)) * quantum(row, v);
  if (fabs(r) <= clade__dtype_most(dtype)) return r;
  return row->infinite ? copysign(INFINITY, v) : NAN;
}

double op_tie(clade_dtype dtype, double v) {
  const clade__dtype *row = clade__dtype_row(dtype);
  if (v == 0 || !isfinite(v)) return v;
  return (floor(v / quantum(row, v)) + 0.5) * quantum(row, v);
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
    low = op_is_float(in->dtype) ? -4 : CLADE_MAX((double)clade__dtype_low(in->dtype), -1000);
    high = op_is_float(in->dtype) ? 4 : CLADE_MIN((double)clade__dtype_high(in->dtype), 1000);
  }
  for (int64_t i = 0; i < a->n; i++) {
    double v = op_uniform(r, low, high);
    if (in->ties) v = rint(v * (double)in->ties) / (double)in->ties;
    if (!op_is_float(in->dtype)) v = floor(low) + floor(op_uniform(r, 0, 1) * (floor(high) - floor(low) + 1));
    a->v[i] = op_round(in->dtype, v);
  }
  if (clade__has_blocks(in->dtype)) op_round_blocks(in->dtype, a->n, a->v);
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

/* Converts n elements from index `from` on. */
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
  for (size_t i = 0; i < count; i++) /* bool stores only 0 and 1 */
    v[i] = dtype == CLADE_BOOL ? at[i] : !ok ? NAN : real ? (double)f[i] : (double)whole[i];
  free(f);
  free(whole);
  return v;
}

/* Half a unit in the last place, plus the loss on devices that flush denormals. */
static double storage_error(clade_dtype dtype, double magnitude) {
  if (!op_is_float(dtype) || clade__has_blocks(dtype)) return 0;
  const double tiny = clade__dtype_row(dtype)->exponent == 8 ? 0x1p-126 : clade__dtype_least(dtype) / 2;
  return magnitude * clade__dtype_unit(dtype) + tiny;
}

static bool close_enough(clade_dtype dtype, double got, double want, double bound) {
  if (bound == HUGE_VAL) return true;
  if (!op_is_float(dtype)) return fabs(got - want) <= bound;
  double error = bound + storage_error(dtype, fabs(want) + bound);
  if (clade__has_blocks(dtype)) return isnan(want) ? isnan(got) : fabs(got - want) <= bound;
  const bool infinite = clade__dtype_row(dtype)->infinite, beyond = fabs(want) + error > clade__dtype_most(dtype);
  if (isnan(got) && !infinite && beyond) return true;
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
  if (isinf(got)) return isinf(want) ? got == want : got * want > 0 && beyond;
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
