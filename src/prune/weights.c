/* Pruning of single weights: the smallest of each parameter, or two of each four along its inputs (2:4). */
#include <math.h>
#include <stdio.h>

#include "prune/prune.h"

const char *clade_prune_structure_name(clade_prune_structure structure) {
  static const char *const names[] = {"none", "channels", "weights", "2:4"};
  return (unsigned)structure < CLADE_COUNT(names) ? names[structure] : "?";
}

bool clade__is_weight(const clade_port_info *info) {
  return info->parameter && info->type.shape.rank > 1 && clade__is_float(info->type.dtype);
}

bool clade__structure_fits(clade_prune_structure structure, const clade_type *type) {
  return structure == CLADE_PRUNE_WEIGHTS || (structure == CLADE_PRUNE_2_4 && type->shape.dim[1] % 4 == 0);
}

/* Bits that order floats by magnitude. */
static uint32_t bits_of(float x) {
  uint32_t bits;
  x = fabsf(x);
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

/* Index of the k-th element by cumulative counts; *k becomes its rank within that count. */
static uint32_t find_count(const size_t *counts, size_t n, size_t *k) {
  uint32_t i = 0;
  while (i + 1 < n && *k >= counts[i]) *k -= counts[i++];
  return i;
}

/* Marks the k smallest magnitudes; of equal ones the first. Two passes of a radix selection: by the upper and then
 * the lower 16 bits. */
static clade_status mark_smallest(const float *w, size_t n, size_t k, bool *zero) {
  enum { HALF = 1 << 16 };
  size_t *counts = clade__new(HALF, sizeof *counts), left = k;
  if (!counts) return CLADE_NO_MEMORY;
  for (size_t i = 0; i < n; i++) counts[bits_of(w[i]) >> 16]++;
  const uint32_t high = find_count(counts, HALF, &left);
  memset(counts, 0, HALF * sizeof *counts);
  for (size_t i = 0; i < n; i++)
    if (bits_of(w[i]) >> 16 == high) counts[bits_of(w[i]) & (HALF - 1)]++;
  const uint32_t bound = high << 16 | find_count(counts, HALF, &left);
  for (size_t i = 0; i < n; i++) {
    const uint32_t bits = bits_of(w[i]);
    zero[i] = bits < bound || (bits == bound && left > 0);
    left -= bits == bound && left > 0;
  }
  clade__free(counts);
  return CLADE_OK;
}

static void mark_two(const float *w, size_t stride, bool *zero) {
  for (int turn = 0; turn < 2; turn++) {
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < 4; i++)
      if (!zero[i * stride] && (least == SIZE_MAX || fabsf(w[i * stride]) < fabsf(w[least]))) least = i * stride;
    zero[least] = true;
  }
}

static void mark_two_of_four(const clade_shape *shape, const float *w, bool *zero) {
  size_t inner = 1;
  for (int i = 2; i < shape->rank; i++) inner *= (size_t)shape->dim[i];
  for (int64_t row = 0; row < shape->dim[0] * shape->dim[1] / 4; row++)
    for (size_t i = 0; i < inner; i++) {
      const size_t first = (size_t)row * 4 * inner + i;
      mark_two(w + first, inner, zero + first);
    }
}

static clade_status clear(clade_vars *vars, const char *name, const clade_type *type, const bool *zero, size_t n) {
  size_t element, bytes;
  clade_status status;
  CLADE_TRY(clade__dtype_element(type->dtype, &element));
  CLADE_TRY(clade_type_bytes(type, &bytes));
  unsigned char *data = clade__new(CLADE_MAX(bytes, (size_t)1), 1);
  if (!data) return CLADE_NO_MEMORY;
  CLADE_GOTO(clade_vars_get(vars, name, data, bytes));
  for (size_t i = 0; i < n; i++)
    if (zero[i]) memset(data + i * element, 0, element);
  CLADE_GOTO(clade_vars_set(vars, name, data, bytes));
fail:
  clade__free(data);
  return status;
}

/* Whether a variable is optimizer state of the parameter: optimizer.MOMENT:NAME with the same shape. */
static bool is_state_of(const clade_port_info *info, const char *name, const clade_type *type) {
  static const char begin[] = "optimizer.";
  const char *colon = strchr(info->name, ':');
  return !strncmp(info->name, begin, sizeof begin - 1) && colon && !strcmp(colon + 1, name) &&
         clade_shape_equal(&info->type.shape, &type->shape);
}

static clade_status clear_all(clade_vars *vars, const clade_port_info *weight, const bool *zero, size_t n) {
  CLADE_TRY(clear(vars, weight->name, &weight->type, zero, n));
  for (int i = 0; i < clade_vars_count(vars); i++) {
    clade_port_info info = {.size = sizeof info};
    CLADE_TRY(clade_vars_describe(vars, i, &info));
    if (is_state_of(&info, weight->name, &weight->type)) CLADE_TRY(clear(vars, info.name, &info.type, zero, n));
  }
  return CLADE_OK;
}

static clade_status prune_one(clade_vars *vars, const clade_port_info *info, clade_prune_structure structure,
                              double sparsity, clade_pruned_weights *r) {
  float *w;
  size_t n;
  CLADE_TRY(clade__vars_floats(vars, info->name, &info->type, &w, &n));
  bool *zero = clade__new(CLADE_MAX(n, (size_t)1), sizeof *zero);
  clade_status status = zero ? CLADE_OK : CLADE_NO_MEMORY;
  for (size_t i = 0; i < n && status == CLADE_OK; i++)
    if (!isfinite(w[i]))
      status = CLADE_FAIL(INVALID, "pruning: element %zu of %s is %g: weights cannot be compared with it", i,
                          info->name, (double)w[i]);
  if (status == CLADE_OK && structure == CLADE_PRUNE_2_4) mark_two_of_four(&info->type.shape, w, zero);
  if (status == CLADE_OK && structure == CLADE_PRUNE_WEIGHTS)
    status = mark_smallest(w, n, (size_t)(sparsity * (double)n + 0.5), zero);
  if (status == CLADE_OK) status = clear_all(vars, info, zero, n);
  for (size_t i = 0; i < n && status == CLADE_OK; i++) r->zeros += zero[i] || w[i] == 0;
  r->weights += (int64_t)n;
  r->parameters++;
  clade__free(w);
  clade__free(zero);
  return status;
}

static clade_status check(const clade_vars *vars, clade_prune_structure structure, double sparsity) {
  if (!vars) return CLADE_FAIL(INVALID, "clade_prune_weights: the variables are NULL");
  if (structure != CLADE_PRUNE_WEIGHTS && structure != CLADE_PRUNE_2_4)
    return CLADE_FAIL(INVALID, "clade_prune_weights: the structure is \"%s\"; expected weights or 2:4",
                      clade_prune_structure_name(structure));
  if (structure == CLADE_PRUNE_WEIGHTS && !(sparsity >= 0 && sparsity < 1))
    return CLADE_FAIL(INVALID, "clade_prune_weights: the sparsity is %g; expected 0 to below 1", sparsity);
  return CLADE_OK;
}

static clade_status none_fits(const clade_vars *vars, clade_prune_structure structure) {
  for (int i = 0; i < clade_vars_count(vars); i++) {
    clade_port_info info = {.size = sizeof info};
    char text[200];
    CLADE_TRY(clade_vars_describe(vars, i, &info));
    if (clade__is_weight(&info))
      return CLADE_FAIL(BAD_SHAPE,
                        "clade_prune_weights: no weight fits %s: dimension 1 of %s, %s, is not divisible by 4, nor is "
                        "that of any other",
                        clade_prune_structure_name(structure), info.name,
                        clade_shape_text(&info.type.shape, text, sizeof text));
  }
  return CLADE_FAIL(INVALID, "clade_prune_weights: there is no parameter of floats with two dimensions or more");
}

clade_status clade_prune_weights(clade_vars *vars, clade_prune_structure structure, double sparsity,
                                 clade_pruned_weights *result) {
  clade_pruned_weights all = {.size = sizeof all};
  CLADE_TRY(check(vars, structure, sparsity));
  for (int i = 0; i < clade_vars_count(vars); i++) {
    clade_port_info info = {.size = sizeof info};
    CLADE_TRY(clade_vars_describe(vars, i, &info));
    if (!clade__is_weight(&info)) continue;
    if (!clade__structure_fits(structure, &info.type))
      all.left_out++;
    else
      CLADE_TRY(prune_one(vars, &info, structure, sparsity, &all));
  }
  if (!all.parameters) return none_fits(vars, structure);
  return result ? clade__info_give(result, &all, sizeof all, "clade_prune_weights") : CLADE_OK;
}
