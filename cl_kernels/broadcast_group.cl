/* Copies by strides on GPUs, for broadcasts (a stride of 0 repeats) and permutations that keep the last axis. A
 * work-item writes four consecutive elements; their position is computed once, and again if a row ends in between. With
 * MEAN, elements are divided by `by`. Axes are right-aligned. */
#if MEAN
#define VALUE           float
#define TAKE(lane, i)   FOUR_READ(T, lane, x, i, 4)
#define GET(i)          LOAD(T, x, i)
#define GIVE(at, left)  FOUR_STORE(T, y, at, left, lane)
#else
#define VALUE           STORAGE(T)
#define TAKE(lane, i)   FOUR_TAKE(T, lane, x + (i))
#define GET(i)          x[i]
#define GIVE(at, left)  FOUR_GIVE(T, y + (at), left, lane)
#endif

/* Offset in x of row number `rest` of the result; missing axes have size 1. A branch per axis would make LLVM 18's
 * instcombine fail in PoCL 6 (docs/porting.md). */
#define STEP(k)                                 \
  {                                             \
    const index_t next = rest / dims.k;         \
    from += (rest - next * dims.k) * strides.k; \
    rest = next;                                \
  }
static inline index_t FN(row)(index_t rest, const int rank, const index8_t dims, const index8_t strides) {
  index_t from = 0;
  STEP(s6) STEP(s5) STEP(s4)
  if (rank > 4) {
    STEP(s3) STEP(s2) STEP(s1) STEP(s0)
  }
  return from;
}

KERNEL(broadcast_forward_group)
(ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index_t total, const int rank, const index8_t dims,
 const index8_t strides, const float by) {
  if (FOUR_FROM >= total) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  const index_t at = (index_t)FOUR_FROM, step = strides.s7;
  const int left = (int)min(total - at, (index_t)4);
  index_t row = at / dims.s7, column = at - row * dims.s7, from = FN(row)(row, rank, dims, strides);
  VALUE lane[4];
  if (step == 1 && column + 4 <= dims.s7) {
    TAKE(lane, from + column)
  } else {
#pragma unroll
    for (int l = 0; l < 4; l++)
      if (l < left) {
        lane[l] = GET(from + column * step);
        if (++column == dims.s7 && l + 1 < left) {
          column = 0;
          from = FN(row)(++row, rank, dims, strides);
        }
      }
  }
#if MEAN
#pragma unroll
  for (int l = 0; l < 4; l++)
    if (l < left) lane[l] /= by;
#endif
  GIVE(at, left)
}
