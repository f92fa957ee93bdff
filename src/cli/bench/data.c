/* Reproducible pseudo-random numbers for benchmarks and their checks: pure functions of a seed and an index. */
#include "cli/bench/bench.h"

static uint64_t mix(uint64_t x) { /* splitmix64 */
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

void bench_random(uint64_t seed, size_t n, double scale, float *x) {
  uint64_t key = mix(seed);
  for (size_t i = 0; i < n; i++) x[i] = (float)(((double)(mix(key + i) >> 40) * 0x1p-23 - 1) * scale);
}

/* All whole numbers of i8 or u8. */
static void random_bytes(uint64_t seed, size_t n, clade_dtype dtype, float *x) {
  uint64_t key = mix(seed);
  for (size_t i = 0; i < n; i++) x[i] = (float)(mix(key + i) >> 56) - (dtype == CLADE_I8 ? 128 : 0);
}

double bench_sign(uint64_t seed, uint64_t i) { return mix(mix(seed) + i) & 1 ? 1 : -1; }

double bench_unit(clade_dtype dtype) { return clade__dtype_unit(clade__is_float(dtype) ? dtype : CLADE_F32); }

clade_status bench_numbers(clade__arena *arena, uint64_t seed, clade_dtype dtype, size_t n, double scale, float **x,
                           void **raw) {
  *x = clade__arena_new(arena, n * sizeof **x);
  *raw = clade__arena_new(arena, n * sizeof(float));
  if (!*x || !*raw) return CLADE_NO_MEMORY;
  if (dtype == CLADE_I8 || dtype == CLADE_U8)
    random_bytes(seed, n, dtype, *x);
  else
    bench_random(seed, n, scale, *x);
  CLADE_TRY(clade_convert(dtype, *raw, CLADE_F32, *x, n));
  return dtype == CLADE_F32 ? CLADE_OK : clade_convert(CLADE_F32, *x, dtype, *raw, n);
}
