/* Slice, pad and concatenate on GPUs: a work-item writes four consecutive elements. */
#ifdef WANT_frame_whole_group
/* One operand: a frame around a part of it, or the part alone. Elements from `low` to `high` of each of `rank` axes
 * come from x, by its strides; axes are right-aligned. */
#define STEP(k)                                    \
  {                                                \
    const index_t next = rest / dims.k;            \
    const index_t place = rest - next * dims.k;    \
    inside = inside && place >= low.k && place < high.k; \
    from += place * strides.k;                     \
    rest = next;                                   \
  }
/* Position in x of row `number` of the result, and whether the row lies in the part. */
#define ROW(number)          \
  rest = number;             \
  from = first;              \
  inside = true;             \
  if (rank > 1) STEP(s6)     \
  if (rank > 2) STEP(s5)     \
  if (rank > 3) STEP(s4)     \
  if (rank > 4) STEP(s3)     \
  if (rank > 5) STEP(s2)     \
  if (rank > 6) STEP(s1)     \
  if (rank > 7) STEP(s0)
KERNEL(frame_whole_group)
(ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index_t total, const int rank, const index8_t dims,
 const index8_t low, const index8_t high, const index8_t strides, const index_t first, const uint fill_low,
 const uint fill_high) {
  if (FOUR_FROM >= total) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  const STORAGE(T) fill = (STORAGE(T))((ulong)fill_high << 32 | fill_low);
  const index_t at = (index_t)FOUR_FROM, step = strides.s7;
  const int left = (int)min(total - at, (index_t)4);
  index_t row = at / dims.s7, column = at - row * dims.s7, rest, from;
  bool inside;
  STORAGE(T) lane[4];
  ROW(row)
  if (inside && step == 1 && column >= low.s7 && column + 4 <= high.s7) {
    FOUR_TAKE(T, lane, x + (from + column))
  } else {
#pragma unroll
    for (int l = 0; l < 4; l++)
      if (l < left) {
        lane[l] = fill;
        if (inside && column >= low.s7 && column < high.s7) lane[l] = x[from + column * step];
        if (++column == dims.s7 && l + 1 < left) {
          column = 0;
          row++;
          ROW(row)
        }
      }
  }
  FOUR_GIVE(T, y + at, left, lane)
}
#endif

#ifdef WANT_frame_part_group
/* One of several operands: a row of its part is `fours` pieces; missing axes have size 1. */
KERNEL(frame_part_group)
(ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index_t items, const index_t fours, const index8_t dims,
 const index8_t x_strides, const index8_t y_strides, const index_t x_first, const index_t y_first) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  index_t rest = item / fours, i = x_first, j = y_first;
  const index_t begin = (item - rest * fours) * 4;
  const int left = (int)min(dims.s7 - begin, (index_t)4);
  if (dims.s6 > 1) STEP_BOTH(s6)
  if (dims.s5 > 1) STEP_BOTH(s5)
  if (dims.s4 > 1) STEP_BOTH(s4)
  if (dims.s3 > 1) STEP_BOTH(s3)
  if (dims.s2 > 1) STEP_BOTH(s2)
  if (dims.s1 > 1) STEP_BOTH(s1)
  if (dims.s0 > 1) STEP_BOTH(s0)
  if (left == 4 && x_strides.s7 == 1 && y_strides.s7 == 1) {
    STORAGE(T) lane[4];
    FOUR_TAKE(T, lane, x + (i + begin))
    FOUR_GIVE(T, y + (j + begin), 4, lane)
  } else {
    for (index_t k = begin; k < begin + left; k++) y[j + k * y_strides.s7] = x[i + k * x_strides.s7];
  }
}
#endif
