/* Table of element types and derived properties. */
#include "base/base.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define KIND_real    CLADE__REAL
#define KIND_whole   CLADE__SIGNED
#define KIND_natural CLADE__UNSIGNED
#define KIND_truth   CLADE__TRUTH
#define USE_computed false
#define USE_stored   true
#define CLADE_NONE   CLADE_DTYPE_NONE
static const clade__dtype rows[] = {
#define ROW(NAME, number, name, bits, elements, bytes, scale, kind, use, exponent, fraction, infinite, storage, \
            compute, access, product, npy, tensors, tolerance)                                                  \
  [CLADE_##NAME] = {#name,    bits,     elements, bytes,           KIND_##kind, USE_##use, exponent,            \
                    fraction, infinite, #compute, CLADE_##product, npy,         tensors,   tolerance},
    CLADE_DTYPE_MAP(ROW)
#undef ROW
};
enum { COUNT = CLADE_COUNT(rows) };

const clade__dtype *clade__dtype_row(clade_dtype dtype) {
  return (size_t)dtype < COUNT && rows[dtype].name ? &rows[dtype] : NULL;
}

clade_dtype clade__dtype_next(clade_dtype dtype) {
  for (size_t t = (size_t)dtype + 1; t < COUNT; t++)
    if (rows[t].name) return (clade_dtype)t;
  return CLADE_DTYPE_NONE;
}

clade_dtype clade__dtype_named(const char *name) {
  clade_dtype t = CLADE_DTYPE_NONE;
  while ((t = clade__dtype_next(t)) && strcmp(rows[t].name, name) != 0) continue;
  return t;
}

const char *clade__compute_type(clade_dtype dtype) {
  const clade__dtype *row = clade__dtype_row(dtype);
  return row ? row->compute : "?";
}

const char *clade_dtype_name(clade_dtype dtype) {
  const clade__dtype *row = clade__dtype_row(dtype);
  return row ? row->name : "?";
}

static bool is_kind(clade_dtype dtype, clade__kind kind) {
  const clade__dtype *row = clade__dtype_row(dtype);
  return row && row->kind == kind;
}
bool clade__is_float(clade_dtype dtype) { return is_kind(dtype, CLADE__REAL); }
bool clade__is_integer(clade_dtype dtype) { return is_kind(dtype, CLADE__SIGNED) || is_kind(dtype, CLADE__UNSIGNED); }
bool clade__is_computed(clade_dtype dtype) {
  const clade__dtype *row = clade__dtype_row(dtype);
  return row && !row->stored;
}
bool clade__is_computed_float(clade_dtype dtype) { return clade__is_float(dtype) && clade__is_computed(dtype); }
bool clade__has_blocks(clade_dtype dtype) {
  const clade__dtype *row = clade__dtype_row(dtype);
  return row && row->elements > 1;
}

char *clade__dtype_names(bool (*which)(clade_dtype dtype), char text[CLADE__DTYPE_NAMES]) {
  size_t left = 0, n = 0;
  for (clade_dtype t = CLADE_DTYPE_NONE; (t = clade__dtype_next(t));) left += which(t);
  text[0] = '\0';
  for (clade_dtype t = CLADE_DTYPE_NONE; (t = clade__dtype_next(t)) && n < CLADE__DTYPE_NAMES;) {
    if (!which(t)) continue;
    const char *after = --left > 1 ? ", " : left ? " or " : "";
    n += (size_t)snprintf(text + n, CLADE__DTYPE_NAMES - n, "%s%s", rows[t].name, after);
  }
  return text;
}

clade_status clade_dtype_bytes(clade_dtype dtype, int64_t elements, size_t *bytes) {
  const clade__dtype *r = clade__dtype_row(dtype);
  if (!bytes) return CLADE_FAIL(INVALID, "clade_dtype_bytes: bytes is NULL");
  if (!r) return CLADE_FAIL(DTYPE, "%d is not an element type", (int)dtype);
  if (elements < 0) return CLADE_FAIL(BAD_SHAPE, "%" PRId64 " elements", elements);
  size_t blocks = (size_t)elements / r->elements + (elements % r->elements != 0);
  if (!clade__mul(blocks, r->bytes, bytes) || *bytes > (size_t)INT64_MAX)
    return CLADE_FAIL(OVERFLOW, "%" PRId64 " elements of %s are more bytes than can be addressed", elements, r->name);
  return CLADE_OK;
}

clade_status clade__dtype_element(clade_dtype dtype, size_t *bytes) {
  const clade__dtype *r = clade__dtype_row(dtype);
  if (!r) return CLADE_FAIL(DTYPE, "%d is not an element type", (int)dtype);
  if (r->elements != 1 || r->bits != 8 * r->bytes)
    return CLADE_FAIL(DTYPE, "%s stores %u elements in a block of %u bytes: no element of it lies by itself", r->name,
                      r->elements, r->bytes);
  *bytes = r->bytes;
  return CLADE_OK;
}

int64_t clade__dtype_low(clade_dtype dtype) {
  return is_kind(dtype, CLADE__SIGNED) ? INT64_MIN >> (64 - rows[dtype].bits) : 0;
}

int64_t clade__dtype_high(clade_dtype dtype) {
  if (is_kind(dtype, CLADE__TRUTH)) return 1;
  return (int64_t)(UINT64_MAX >> (64 - rows[dtype].bits + is_kind(dtype, CLADE__SIGNED)));
}

double clade__dtype_most(clade_dtype dtype) {
  const clade__dtype *r = &rows[dtype];
  int last = (1 << r->exponent) - 1 - r->infinite, bias = (1 << (r->exponent - 1)) - 1;
  /* relative to 2: without infinities, the highest code is NaN */
  double lacks = ldexp(r->infinite ? 1 : 2, -r->fraction);
  return ldexp(2 - lacks, last - bias);
}

double clade__dtype_unit(clade_dtype dtype) { return ldexp(1, -rows[dtype].fraction - 1); }

double clade__dtype_least(clade_dtype dtype) {
  const clade__dtype *r = &rows[dtype];
  return ldexp(1, 2 - (1 << (r->exponent - 1)) - r->fraction);
}
