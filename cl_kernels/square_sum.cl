/* Sum of squares of up to seven tensors and of a carried value, in two launches with a fixed order: a work-item sums a
 * piece of one tensor, sixteen elements at a time; then one item combines the pieces, which are divided as in
 * update.cl. Elements are first multiplied by `before` and clipped to [-clip, clip]. */
#ifdef WANT_square_sum_part_ref
#define TENSOR(k)      ARG(const STORAGE(T), x##k)
#define PASS_TENSOR(k) PASS(x##k)
#define AT(k)          (x##k##_base + x##k##_at)

#define ARGS                                                                                             \
  ARG(const float, before), TENSOR(0), TENSOR(1), TENSOR(2), TENSOR(3), TENSOR(4), TENSOR(5), TENSOR(6), \
  ARG(float, part), const index8_t begin, const index8_t length, const index_t piece, const float clip
BODY(square_sum_part_ref_item)(const long item, ARGS) {
  if (item >= (long)begin.s7) return;
  const int k = (item >= begin.s1) + (item >= begin.s2) + (item >= begin.s3) + (item >= begin.s4) +
                (item >= begin.s5) + (item >= begin.s6);
  const __global STORAGE(T) *low = k == 0 ? AT(0) : k == 1 ? AT(1) : AT(2), *high = k == 4 ? AT(4) : k == 5 ? AT(5) : AT(6);
  const __global STORAGE(T) *x = k < 3 ? low : k == 3 ? AT(3) : high;
  index_t begins[8], lengths[8];
  vstore8(begin, 0, begins);
  vstore8(length, 0, lengths);
  USE(const float, before);
  USE(float, part);
  const float scale = before[0];
  const index_t from = ((index_t)item - begins[k]) * piece, to = min(from + piece, lengths[k]);
  float16 sum = 0;
  index_t i = from;
  while (i + 16 <= to) { /* hierarchical sums, so that terms are never much smaller than the sum */
    const index_t stop = min(i + 512, to);
    float16 some = 0;
    for (; i + 16 <= stop; i += 16) {
      float16 v = LOAD16(T, x, i) * scale;
      v = v < -clip ? (float16)-clip : v > clip ? (float16)clip : v; /* NaN is preserved */
      some += v * v;
    }
    sum += some;
  }
  const float8 s8 = sum.lo + sum.hi;
  const float4 s4 = s8.lo + s8.hi;
  float rest = (s4.s0 + s4.s1) + (s4.s2 + s4.s3);
  for (; i < to; i++) {
    float v = LOAD(T, x, i) * scale;
    v = v < -clip ? -clip : v > clip ? clip : v;
    rest += v * v;
  }
  part[item] = rest;
}

KERNEL(square_sum_part_ref)(ARGS) {
  FN(square_sum_part_ref_item)((long)get_global_id(0), PASS(before), PASS_TENSOR(0), PASS_TENSOR(1), PASS_TENSOR(2), PASS_TENSOR(3),
            PASS_TENSOR(4), PASS_TENSOR(5), PASS_TENSOR(6), PASS(part), begin, length, piece, clip);
}
#undef ARGS
#endif

#ifdef WANT_square_sum_join_ref
/* Compensated sum, since there may be many pieces. */
#define ARGS ARG(const float, carry), ARG(const float, part), ARG(float, y), const index_t n
BODY(square_sum_join_ref_item)(const long item, ARGS) {
  if (item != 0 || n == 0) return;
  USE(const float, carry);
  USE(const float, part);
  USE(float, y);
  float sum = carry[0], lost = 0.0f;
  for (index_t i = 0; i < n; i++) {
    const float v = part[i], next = sum + v, back = next - sum;
    lost += (sum - (next - back)) + (v - back);
    sum = next;
  }
  y[0] = CLADE_TOTAL(sum, lost);
}

KERNEL(square_sum_join_ref)(ARGS) {
  FN(square_sum_join_ref_item)((long)get_global_id(0), PASS(carry), PASS(part), PASS(y), n);
}
#endif
