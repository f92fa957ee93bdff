/* Copies windows along axis 2 of x [n, c, size, width] to y [n, windows, c, kernel, width], or adds them back (fold). A
 * work-item does `chunk` elements of a row of `width`, or on GPUs the next RUN of `items` elements: four, if no row
 * ends among them, else one. sizes: c, size, windows, kernel, stride, dilation, padding before. */
#define ARGS(from, to)                                                                                         \
  ARG(const STORAGE(T), from), ARG(STORAGE(T), to), const index_t items, const index_t chunk, const index_t chunks, \
      const index_t width, const index8_t sizes

#ifdef WANT_unfold_forward_ref
BODY(unfold_forward_ref_item)(const long item, ARGS(x, y)) {
  if (item >= items) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  const index_t row = (index_t)item / chunks, begin = ((index_t)item - row * chunks) * chunk;
  const index_t end = min(begin + chunk, width);
  const index_t k = row % sizes.s3, c = row / sizes.s3 % sizes.s0, window = row / sizes.s3 / sizes.s0;
  const index_t at = window % sizes.s2 * sizes.s4 + k * sizes.s5 - sizes.s6;
  y += row * width;
  if (at >= 0 && at < sizes.s1) {
    x += ((window / sizes.s2 * sizes.s0 + c) * sizes.s1 + at) * width;
    for (index_t i = begin; i < end; i++) y[i] = x[i];
  } else {
    for (index_t i = begin; i < end; i++) y[i] = 0;
  }
}

KERNEL(unfold_forward_ref)(ARGS(x, y)) {
  FN(unfold_forward_ref_item)((long)get_global_id(0), PASS(x), PASS(y), items, chunk, chunks, width, sizes);
}
#endif

#ifdef WANT_fold_forward_ref
#define PART 64
BODY(fold_forward_ref_item)(const long item, ARGS(y, x)) {
  if (item >= items) return;
  USE(const STORAGE(T), y);
  USE(STORAGE(T), x);
  const index_t row = (index_t)item / chunks, first = ((index_t)item - row * chunks) * chunk;
  const index_t end = min(first + chunk, width);
  const index_t place = row % sizes.s1 + sizes.s6, c = row / sizes.s1 % sizes.s0, n = row / sizes.s1 / sizes.s0;
  for (index_t begin = first; begin < end; begin += PART) {
    const int count = (int)min((index_t)PART, end - begin);
    float sum[PART];
    for (int i = 0; i < count; i++) sum[i] = 0;
    for (index_t k = 0; k < sizes.s3; k++) {
      const index_t start = place - k * sizes.s5, window = start / sizes.s4;
      if (start < 0 || window >= sizes.s2 || window * sizes.s4 != start) continue;
      const index_t from = (((n * sizes.s2 + window) * sizes.s0 + c) * sizes.s3 + k) * width + begin;
      for (int i = 0; i < count; i++) sum[i] += LOAD(T, y, from + i);
    }
    for (int i = 0; i < count; i++) STORE(T, x, row * width + begin + i, sum[i]);
  }
}

KERNEL(fold_forward_ref)(ARGS(y, x)) {
  FN(fold_forward_ref_item)((long)get_global_id(0), PASS(y), PASS(x), items, chunk, chunks, width, sizes);
}
#endif
#undef ARGS

#ifdef RUN
#define ARGS(from, to)                                                                                        \
  ARG(const STORAGE(T), from), ARG(STORAGE(T), to), const index_t items, const index_t width, const index8_t sizes
#endif

#ifdef WANT_unfold_forward_group
KERNEL(unfold_forward_group)(ARGS(x, y)) {
  const long first = (long)get_global_id(0) * RUN;
  if (first >= items) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  const index_t row = (index_t)first / width, column = (index_t)first - row * width;
  const index_t k = row % sizes.s3, c = row / sizes.s3 % sizes.s0, window = row / sizes.s3 / sizes.s0;
  const index_t at = window % sizes.s2 * sizes.s4 + k * sizes.s5 - sizes.s6;
  const index_t from = ((window / sizes.s2 * sizes.s0 + c) * sizes.s1 + at) * width + column;
  STORAGE(T) lane[4] = {0, 0, 0, 0};
#if RUN == 4
  if (at >= 0 && at < sizes.s1) FOUR_TAKE(T, lane, x + from)
  FOUR_GIVE(T, y + first, 4, lane)
#else
  if (at >= 0 && at < sizes.s1) lane[0] = x[from];
  y[first] = lane[0];
#endif
}
#endif

#ifdef WANT_fold_forward_group
KERNEL(fold_forward_group)(ARGS(y, x)) {
  const long first = (long)get_global_id(0) * RUN;
  if (first >= items) return;
  USE(const STORAGE(T), y);
  USE(STORAGE(T), x);
  const index_t row = (index_t)first / width, column = (index_t)first - row * width;
  const index_t place = row % sizes.s1 + sizes.s6, c = row / sizes.s1 % sizes.s0, n = row / sizes.s1 / sizes.s0;
  float sum[4] = {0, 0, 0, 0};
  for (index_t k = 0; k < sizes.s3; k++) {
    const index_t start = place - k * sizes.s5, window = start / sizes.s4;
    if (start < 0 || window >= sizes.s2 || window * sizes.s4 != start) continue;
    const index_t from = (((n * sizes.s2 + window) * sizes.s0 + c) * sizes.s3 + k) * width + column;
    float lane[4] = {0, 0, 0, 0};
    FOUR_READ(T, lane, y, from, RUN)
    _Pragma("unroll") for (int l = 0; l < RUN; l++) sum[l] += lane[l];
  }
  FOUR_STORE(T, x, first, RUN, sum)
}
#endif
