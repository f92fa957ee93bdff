/* Sum of squares of up to seven tensors and of a carried value on GPUs (prelude_group.cl): a team sums a piece of one
 * tensor, four elements at a time; then one team combines the pieces, which are divided as in update.cl. Elements are
 * first multiplied by `before` and clipped to [-clip, clip]. */
#ifdef WANT_square_sum_part_group
#define TENSOR(k) ARG(const STORAGE(T), x##k)
#define AT(k)     (x##k##_base + x##k##_at)
/* NaN is preserved. */
#define CUT(v) ((v) < -clip ? -clip : (v) > clip ? clip : (v))
KERNEL(square_sum_part_group)
(ARG(const float, before), TENSOR(0), TENSOR(1), TENSOR(2), TENSOR(3), TENSOR(4), TENSOR(5), TENSOR(6),
 ARG(float, part), const index8_t begin, const index8_t length, const index_t piece, const float clip) {
  TEAM_ROOM(float2, room);
  if (TEAM_FIRST >= begin.s7) return;
  const index_t line = (index_t)TEAM_LINE;
  const int k = (line >= begin.s1) + (line >= begin.s2) + (line >= begin.s3) + (line >= begin.s4) +
                (line >= begin.s5) + (line >= begin.s6);
  const __global STORAGE(T) *low = k == 0 ? AT(0) : k == 1 ? AT(1) : AT(2), *high = k == 4 ? AT(4) : k == 5 ? AT(5) : AT(6);
  const __global STORAGE(T) *x = k < 3 ? low : k == 3 ? AT(3) : high;
  index_t begins[8], lengths[8];
  vstore8(begin, 0, begins);
  vstore8(length, 0, lengths);
  USE(const float, before);
  USE(float, part);
  const float scale = before[0];
  const index_t from = (line - begins[k]) * piece, count = min(piece, lengths[k] - from), fours = count / 4 * 4;
  TEAM_FLOAT s = 0, lost = 0;
  TEAM_FOR(i, fours) {
    const TEAM_FLOAT v = LOADN(4, T, x, from + i) * scale;
    const TEAM_FLOAT cut = (TEAM_FLOAT)(CUT(v.s0), CUT(v.s1), CUT(v.s2), CUT(v.s3));
    TEAM_TAKE(s, lost, cut * cut)
  }
  TEAM_EACH(i, count - fours) {
    const float v = LOAD(T, x, from + fours + i) * scale, cut = CUT(v);
    TEAM_TAKE(s, lost, (TEAM_FLOAT)(cut * cut, 0.0f, 0.0f, 0.0f))
  }
  float2 sum;
  TEAM_PAIR(sum, s, lost);
  TEAM_REDUCE(float2, sum, room, TEAM_ADD)
  if (TEAM_TELLS(begin.s7)) part[line] = TEAM_TOTAL(sum);
}
#endif

#ifdef WANT_square_sum_join_group
/* One spread team. */
KERNEL(square_sum_join_group)(ARG(const float, carry), ARG(const float, part), ARG(float, y), const index_t n) {
  TEAM_ROOM(float2, room);
  if (TEAM_FIRST >= min(n, (index_t)1)) return;
  USE(const float, carry);
  USE(const float, part);
  USE(float, y);
  TEAM_FLOAT s = 0, lost = 0;
  TEAM_EACH(i, n) TEAM_TAKE(s, lost, part[i])
  float2 sum;
  TEAM_PAIR(sum, s, lost);
  TEAM_REDUCE(float2, sum, room, TEAM_ADD)
  TEAM_ADD(sum, (float2)(carry[0], 0.0f))
  if (TEAM_TELLS(1)) y[0] = TEAM_TOTAL(sum);
}
#endif
