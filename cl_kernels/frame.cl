/* Slice, pad and concatenate. */
#ifdef WANT_frame_whole_ref
/* One operand: a frame around a part of it, or the part alone. Work-items write contiguous pieces of the result, so
 * that all of it can be stored non-temporally. LINE elements are assembled before they are written; longer runs are
 * copied directly. Elements from `low` to `high` of each of `rank` axes come from x, by its strides; axes are
 * right-aligned. */
#define STEP(k)                                    \
  {                                                \
    const index_t next = rest / dims.k;            \
    const index_t place = rest - next * dims.k;    \
    inside &= place >= low.k && place < high.k;    \
    from += place * strides.k;                     \
    rest = next;                                   \
  }
#define ARGS                                                                                                   \
  ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index_t total, const index_t piece, const int rank,      \
      const index8_t dims, const index8_t low, const index8_t high, const index8_t strides,                    \
      const index_t first, const uint fill_low, const uint fill_high, const int stream
BODY(frame_whole_ref_item)(const long item, ARGS) {
  if (item * piece >= total) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  const STORAGE(T) fill = (STORAGE(T))((ulong)fill_high << 32 | fill_low);
  const index_t end = (index_t)min((item + 1) * piece, (long)total), step = strides.s7;
  STORAGE(T) line[LINE];
  const __global STORAGE(T) *behind = x; /* end of the last read: what follows is prefetched while a line is written */
  for (index_t at = (index_t)(item * piece), done; at < end; at += done) {
    const index_t count = min(end - at, (index_t)LINE);
    done = 0;
    for (index_t k = 0; k < count;) {
      index_t rest = (at + k) / dims.s7, from = first;
      const index_t column = at + k - rest * dims.s7;
      bool inside = true;
      if (rank > 1) STEP(s6)
      if (rank > 2) STEP(s5)
      if (rank > 3) STEP(s4)
      if (rank > 4) STEP(s3)
      if (rank > 5) STEP(s2)
      if (rank > 6) STEP(s1)
      if (rank > 7) STEP(s0)
      const index_t long_run = min(end - at - k, dims.s7 - column), run = min(long_run, count - k);
      const index_t begins = inside ? max(low.s7 - column, (index_t)0) : run, ends = inside ? high.s7 - column : run;
      from += column * step;
      if (k == 0 && begins == 0 && step == 1 && min(ends, long_run) >= LINE) {
        done = min(ends, long_run) / LINE * LINE;
        COPY(T, x + from, x + from + FAR, y + at, (size_t)done, stream);
        break;
      }
      index_t i = 0;
      for (; i < min(begins, run); i++) line[k + i] = fill;
      if (step == 1)
        for (; i < min(ends, run); i++) line[k + i] = x[from + i];
      else
        for (; i < min(ends, run); i++) line[k + i] = x[from + i * step];
      for (; i < run; i++) line[k + i] = fill;
      if (inside) behind = x + from + run * step;
      k += run;
    }
    if (done) continue;
    done = count;
    index_t i = 0;
#if LINE >= 16
    for (; i + 16 <= count; i += 16) {
      SOON(behind + AHEAD + i);
      PASS16(T, y + at + i, line + i, stream);
    }
#endif
    for (; i < count; i++) y[at + i] = line[i];
  }
}

KERNEL(frame_whole_ref)(ARGS) {
  FN(frame_whole_ref_item)((long)get_global_id(0), PASS(x), PASS(y), total, piece, rank, dims, low, high, strides, first, fill_low,
            fill_high, stream);
}
#undef ARGS
#endif

#ifdef WANT_frame_part_ref
/* One of several operands: a work-item copies `chunk` elements along the last axis; missing axes have size 1. */
#define ARGS                                                                                                     \
  ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index_t items, const index_t chunk, const index_t chunks, \
      const index8_t dims, const index8_t x_strides, const index8_t y_strides, const index_t x_first,             \
      const index_t y_first, const int stream
BODY(frame_part_ref_item)(const long item, ARGS) {
  if (item >= items) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  index_t rest = (index_t)item / chunks, i = x_first, j = y_first;
  const index_t begin = ((index_t)item - rest * chunks) * chunk, end = min(begin + chunk, dims.s7);
  STEP_BOTH(s6)
  STEP_BOTH(s5)
  STEP_BOTH(s4)
  STEP_BOTH(s3)
  STEP_BOTH(s2)
  STEP_BOTH(s1)
  STEP_BOTH(s0)
  if (x_strides.s7 == 1 && y_strides.s7 == 1) {
    if (begin < end) COPY(T, x + i + begin, x + i + begin + FAR, y + j + begin, (size_t)(end - begin), stream);
  } else {
    for (index_t k = begin; k < end; k++) y[j + k * y_strides.s7] = x[i + k * x_strides.s7];
  }
}

KERNEL(frame_part_ref)(ARGS) {
  FN(frame_part_ref_item)((long)get_global_id(0), PASS(x), PASS(y), items, chunk, chunks, dims, x_strides, y_strides,
                          x_first, y_first, stream);
}
#endif
