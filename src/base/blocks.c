/* Block-quantized elements in ggml's format: an f16 scale and 32 integers. */
#include "base/base.h"

#include <math.h>

enum { ELEMENTS = 32, HALF = ELEMENTS / 2, SCALE_BYTES = 2 };

static float scale_of(const uint8_t *block) {
  float scale;
  (void)clade_convert(CLADE_F32, &scale, CLADE_F16, block, 1);
  return scale;
}

/* Stores the scale and returns its inverse. A scale that underflows f16 makes the block 0; a non-finite one makes it
 * NaN. */
static float put_scale(uint8_t *block, float scale) {
  static const uint8_t nan[SCALE_BYTES] = {0x00, 0x7e};
  (void)clade_convert(CLADE_F16, block, CLADE_F32, &scale, 1);
  const float stored = scale_of(block);
  if (isfinite(stored)) return stored < 0 || stored > 0 ? 1.0f / scale : 0;
  memcpy(block, nan, sizeof nan);
  return 0;
}

/* The first element of largest magnitude; NaN if any element is not finite. */
static float largest(const float *x) {
  float most = 0;
  for (int i = 0; i < ELEMENTS; i++) {
    if (!isfinite(x[i])) return NAN;
    if (fabsf(x[i]) > fabsf(most)) most = x[i];
  }
  return most;
}

/* q4_0: element i is in the low half of byte i, element 16 + i in the high half, each with an offset of 8. */
static void load_q4_0(const uint8_t *block, float *x) {
  const float scale = scale_of(block);
  for (int i = 0; i < HALF; i++) {
    x[i] = (float)((block[SCALE_BYTES + i] & 15) - 8) * scale;
    x[i + HALF] = (float)((block[SCALE_BYTES + i] >> 4) - 8) * scale;
  }
}

static unsigned nibble(float x, float factor) {
  const float levels = x * factor;
  return isfinite(levels) ? (unsigned)CLADE_MIN((int)(levels + 8.5f), 15) : 8;
}

static void store_q4_0(uint8_t *block, const float *x) {
  const float factor = put_scale(block, largest(x) / -8);
  for (int i = 0; i < HALF; i++)
    block[SCALE_BYTES + i] = (uint8_t)(nibble(x[i], factor) | nibble(x[i + HALF], factor) << 4);
}

static void load_q8_0(const uint8_t *block, float *x) {
  const float scale = scale_of(block);
  for (int i = 0; i < ELEMENTS; i++) x[i] = (float)(int8_t)block[SCALE_BYTES + i] * scale;
}

static void store_q8_0(uint8_t *block, const float *x) {
  const float factor = put_scale(block, fabsf(largest(x)) / 127);
  for (int i = 0; i < ELEMENTS; i++) {
    const float levels = x[i] * factor;
    block[SCALE_BYTES + i] = (uint8_t)(int8_t)(isfinite(levels) ? roundf(levels) : 0);
  }
}

static void load(clade_dtype type, const uint8_t *block, float *x) {
  (type == CLADE_Q4_0 ? load_q4_0 : load_q8_0)(block, x);
}

static void store(clade_dtype type, uint8_t *block, const float *x) {
  (type == CLADE_Q4_0 ? store_q4_0 : store_q8_0)(block, x);
}

void clade__blocks_load(clade_dtype type, const void *blocks, size_t n, float *x) {
  const size_t bytes = clade__dtype_row(type)->bytes;
  float whole[ELEMENTS];
  for (size_t at = 0; at < n; at += ELEMENTS) {
    load(type, (const uint8_t *)blocks + at / ELEMENTS * bytes, whole);
    memcpy(x + at, whole, CLADE_MIN(n - at, (size_t)ELEMENTS) * sizeof *x);
  }
}

void clade__blocks_store(clade_dtype type, void *blocks, size_t n, const float *x) {
  const size_t bytes = clade__dtype_row(type)->bytes;
  for (size_t at = 0; at < n; at += ELEMENTS) {
    float whole[ELEMENTS] = {0};
    memcpy(whole, x + at, CLADE_MIN(n - at, (size_t)ELEMENTS) * sizeof *x);
    store(type, (uint8_t *)blocks + at / ELEMENTS * bytes, whole);
  }
}
