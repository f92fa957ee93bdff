/* A result read by strides, for broadcasts (a stride of 0 repeats) and transposes: each work-item writes a piece of it,
 * run by run along the last axis. */
#if MEAN
#define MOVE(x, i, y, j, by) STORE(T, y, j, LOAD(T, x, i) / (by))
#else
#define MOVE(x, i, y, j, by) (y)[j] = (x)[i]
#endif

/* The next axis of a place; `rest` counts what is before it. Written out: arrays that are indexed by a variable cost
 * some compilers minutes. */
#define STEP(k)                                 \
  {                                             \
    const index_t next = rest / dims.k;         \
    from += (rest - next * dims.k) * strides.k; \
    rest = next;                                \
  }
#define PLACE            \
  if (rank > 1) STEP(s6) \
  if (rank > 2) STEP(s5) \
  if (rank > 3) STEP(s4) \
  if (rank > 4) STEP(s3) \
  if (rank > 5) STEP(s2) \
  if (rank > 6) STEP(s1) \
  if (rank > 7) STEP(s0)

#define ARGS                                                                                              \
  ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index_t total, const index_t piece, const int rank, \
      const index8_t dims, const index8_t strides, const float by
BODY(piece)(const long begin, ARGS) {
  if (begin >= total) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  const index_t end = (index_t)min(begin + piece, (long)total), step = strides.s7;
  for (index_t at = (index_t)begin; at < end;) {
    index_t rest = at / dims.s7;
    const index_t inside = at - rest * dims.s7, run = min(end - at, dims.s7 - inside);
    index_t from = inside * step;
    PLACE
    if (step == 0) {
      for (index_t i = 0; i < run; i++) MOVE(x, from, y, at + i, by);
    } else if (step == 1) {
      for (index_t i = 0; i < run; i++) MOVE(x, from + i, y, at + i, by);
    } else {
      for (index_t i = 0; i < run; i++) MOVE(x, from + i * step, y, at + i, by);
    }
    at += run;
  }
}

KERNEL(broadcast_forward_ref)(ARGS) {
  FN(piece)((long)get_global_id(0) * piece, PASS(x), PASS(y), total, piece, rank, dims, strides, by);
}
#undef ARGS
#undef MOVE
#undef PLACE
#undef STEP
