/* Frames: a frame is filled, then parts are put into it. */
#ifdef WANT_frame_fill_ref
KERNEL(frame_fill_ref)
(ARG(STORAGE(T), y), const index_t total, const index_t piece, const uint low, const uint high) {
  const long begin = (long)get_global_id(0) * piece;
  if (begin >= total) return;
  USE(STORAGE(T), y);
  const STORAGE(T) v = (STORAGE(T))((ulong)high << 32 | low);
  const index_t end = (index_t)min(begin + piece, (long)total);
  for (index_t i = (index_t)begin; i < end; i++) y[i] = v;
}
#endif

#ifdef WANT_frame_part_ref
#define STEP(k)                                         \
  {                                                     \
    const index_t next = rest / max(dims.k, (index_t)1); \
    i += (rest - next * dims.k) * x_strides.k;          \
    j += (rest - next * dims.k) * y_strides.k;          \
    rest = next;                                        \
  }

/* A work-item does `chunk` elements along the last axis; the extents of axes that there are not are 1. */
KERNEL(frame_part_ref)
(ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index_t items, const index_t chunk, const index_t chunks,
 const index8_t dims, const index8_t x_strides, const index8_t y_strides, const index_t x_first,
 const index_t y_first, const int stream) {
  const long item = (long)get_global_id(0);
  if (item >= items) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  index_t rest = (index_t)item / chunks, i = x_first, j = y_first;
  const index_t begin = ((index_t)item - rest * chunks) * chunk, end = min(begin + chunk, dims.s7);
  STEP(s6)
  STEP(s5)
  STEP(s4)
  STEP(s3)
  STEP(s2)
  STEP(s1)
  STEP(s0)
  if (x_strides.s7 == 1 && y_strides.s7 == 1) {
    if (begin < end) COPY(T, x + i + begin, y + j + begin, (size_t)(end - begin), stream);
  } else {
    for (index_t k = begin; k < end; k++) y[j + k * y_strides.s7] = x[i + k * x_strides.s7];
  }
}
#undef STEP
#endif
