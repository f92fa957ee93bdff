/* Philox4x32-10 of (key, counter, element / 4): four numbers at a time. */
#include "philox.cl"

static inline float4 FN(draw)(uint4 bits) {
#if NORMAL
  /* Box-Muller; 1 is added so that the logarithm is finite */
  const float2 radius = sqrt(-2.0f * log(convert_float2((bits.s02 >> 8) + 1u) * 0x1p-24f));
  const float2 turn = convert_float2(bits.s13 >> 8) * 0x1p-23f;
  const float2 c = radius * cospi(turn), s = radius * sinpi(turn);
  return (float4)(c.s0, s.s0, c.s1, s.s1);
#else
  return convert_float4(bits >> 8) * 0x1p-24f;
#endif
}

#define ARGS ARG(const long, counter), ARG(float, y), const index_t n, const index_t piece, const uint k0, const uint k1
BODY(random_forward_ref_item)(const long item, ARGS) {
  const long begin = item * piece;
  if (begin * 4 >= n) return;
  USE(const long, counter);
  USE(float, y);
  const ulong count = as_ulong(counter[0]);
  for (long i = begin; i < begin + piece && i * 4 < n; i++) {
    const uint4 at = (uint4)((uint)i, (uint)(as_ulong(i) >> 32), (uint)count, (uint)(count >> 32));
    const float4 v = FN(draw)(FN(philox)(k0, k1, at));
    const index_t to = (index_t)(i * 4);
    if (to + 4 <= n && CLADE_EVEN4(y + to)) {
      *(__global float4 *)(y + to) = v;
      continue;
    }
    y[to] = v.s0;
    if (to + 1 < n) y[to + 1] = v.s1;
    if (to + 2 < n) y[to + 2] = v.s2;
    if (to + 3 < n) y[to + 3] = v.s3;
  }
}

KERNEL(random_forward_ref)(ARGS) {
  FN(random_forward_ref_item)((long)get_global_id(0), PASS(counter), PASS(y), n, piece, k0, k1);
}
