/* Copies by strides, for broadcasts (a stride of 0 repeats) and transposes. Each work-item writes a piece of the
 * result, run by run along the last axis. */
#ifdef WANT_broadcast_forward_ref
#if MEAN
#define MOVE(x, i, y, j, by) STORE(T, y, j, LOAD(T, x, i) / (by))
#else
#define MOVE(x, i, y, j, by) (y)[j] = (x)[i]
#endif

/* Adds one axis's offset for a position; `rest` is the index over the axes outside. Written out, because some compilers
 * take minutes for arrays indexed by a variable. */
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
      const index8_t dims, const index8_t strides, const float by, const int stream
BODY(broadcast_forward_ref_item)(const long item, ARGS) {
  const long begin = item * piece;
  if (begin >= total) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  const index_t end = (index_t)min(begin + piece, (long)total), step = strides.s7;
  for (index_t at = (index_t)begin; at < end;) {
    index_t rest = at / dims.s7;
    const index_t inside = at - rest * dims.s7, run = min(end - at, dims.s7 - inside);
    index_t from = inside * step;
    const index_t second = rest - rest / max(dims.s6, (index_t)1) * dims.s6;
    const bool several = rank > 1 && inside == 0 && (dims.s7 < 8 || (!MEAN && step == 1)); /* all from one position */
    const index_t rows = several ? min(dims.s6 - second, (end - at) / dims.s7) : 0;
    PLACE
#if !MEAN
    if (step == 1 && dims.s7 >= 8) {
      const long soon = (long)max((index_t)AHEAD / dims.s7, (index_t)1) * strides.s6;
      for (index_t r = 0; r < rows; r++, from += strides.s6, at += run)
        COPY(T, x + from, x + from + soon, y + at, (size_t)run, stream);
      if (rows) continue;
    }
#endif
    for (index_t r = 0, some; r < rows; r += some, at += some * run) {
      some = min(rows - r, (index_t)256);
      for (index_t i = 0; i < run; i++)
        for (index_t k = 0; k < some; k++) MOVE(x, from + i * step + (r + k) * strides.s6, y, at + k * run + i, by);
    }
    if (rows) continue;
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
  FN(broadcast_forward_ref_item)((long)get_global_id(0), PASS(x), PASS(y), total, piece, rank, dims, strides, by,
                                 stream);
}
#undef ARGS
#endif

#ifdef WANT_broadcast_forward_tiles
/* Transposes the operand's last axis (`wide` elements, `to` apart in the result) and the result's last axis (`high`
 * elements, `from` apart in the operand), in blocks of ROWS by `span` per work-item, over up to six more axes. STRIP:
 * 16 rows are read from end to end, and stored in whole cache lines whose neighbors follow with the next work-item.
 * Otherwise a block is assembled in the caches and written run by run, while the next one is prefetched. */
/* Eight elements in 32-bit lanes. */
#if BYTES == 4
#define GET8(p)    as_float8(vload8(0, p))
#define SET8(v, p) vstore8(as_int8(v), 0, p)
#elif BYTES == 2
#define GET8(p)    as_float8(convert_uint8(vload8(0, p)))
#define SET8(v, p) vstore8(convert_ushort8(as_uint8(v)), 0, p)
#else
#define GET8(p)    as_float8(convert_uint8(vload8(0, p)))
#define SET8(v, p) vstore8(convert_uchar8(as_uint8(v)), 0, p)
#endif
#define ARGS                                                                                             \
  ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index_t items, const index_t wide, const index_t high, \
      const index_t span, const index_t from, const index_t to, const index8_t dims, const index8_t x_strides, \
      const index8_t y_strides, const int stream
BODY(broadcast_forward_tiles_item)(const long item, ARGS) {
  if (item >= items) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  const index_t down = (high + ROWS - 1) / ROWS, across = (wide + span - 1) / span;
  index_t rest = (index_t)item / (down * across), i = 0, j = 0;
  const index_t block = (index_t)item - rest * down * across;
#if STRIP
  const index_t h0 = block % down * ROWS, w0 = block / down * span;
#else
  const index_t h0 = block / across * ROWS, w0 = block % across * span;
#endif
  STEP_BOTH(s5) STEP_BOTH(s4) STEP_BOTH(s3) STEP_BOTH(s2) STEP_BOTH(s1) STEP_BOTH(s0)
  const index_t rows = min(high - h0, (index_t)ROWS), columns = min(wide - w0, span);
  x += i + h0 * from + w0;
  y += j + w0 * to + h0;
#if STRIP
  const index_t whole = rows < ROWS ? 0 : columns / 16 * 16;
  for (index_t w = 0; w < whole; w += 16) {
#pragma unroll
    for (int l = 0; l < 16; l++) LATER(x + l * from + w + AHEAD / 16);
    clade_tile(x + w, (size_t)from, y + w * to, (size_t)to, stream);
  }
  for (index_t w = whole; w < columns; w++)
    for (index_t h = 0; h < rows; h++) y[w * to + h] = x[h * from + w];
#else
  STORAGE(T) turned[ROWS * SPAN] __attribute__((aligned(64)));
  for (index_t h = 0; h < rows; h += 8)
    for (index_t w = 0; w < columns; w += 8) {
      if (h + 8 <= rows && w + 8 <= columns) {
        float8 v[8];
#pragma unroll
        for (int l = 0; l < 8; l++) v[l] = GET8(x + (h + l) * from + w);
        clade_turn(v);
#pragma unroll
        for (int l = 0; l < 8; l++) SET8(v[l], turned + (w + l) * ROWS + h);
      } else {
        for (index_t r = h; r < min(h + 8, rows); r++)
          for (index_t c = w; c < min(w + 8, columns); c++) turned[c * ROWS + r] = x[r * from + c];
      }
    }
  const __global STORAGE(T) *next = x + (w0 + span < wide ? span : h0 + ROWS < high ? ROWS * from - w0 : 0);
  for (index_t w = 0, c = 0; w < columns; w++) {
    index_t h = 0;
    for (; h + 16 <= rows; h += 16, c += 16) {
      if (c >= span) {
        c = 0;
        next += from;
      }
      LATER(next + c);
      PASS16(T, y + w * to + h, turned + w * ROWS + h, stream);
    }
    for (; h < rows; h++) y[w * to + h] = turned[w * ROWS + h];
  }
#endif
}

KERNEL(broadcast_forward_tiles)(ARGS) {
  FN(broadcast_forward_tiles_item)((long)get_global_id(0), PASS(x), PASS(y), items, wide, high, span, from, to, dims,
                                   x_strides, y_strides, stream);
}
#undef ARGS
#endif

#ifdef WANT_broadcast_forward_runs
/* The same with runs of `run` elements in place of single ones: a work-item moves `rows` by `wide` runs, which are
 * contiguous in the operand, and prefetches the next block in memory order. */
#define ARGS                                                                                                \
  ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index_t items, const index_t wide, const index_t high, \
      const index_t run, const index_t rows, const index_t from, const index_t to, const index8_t dims,     \
      const index8_t x_strides, const index8_t y_strides, const int stream
BODY(broadcast_forward_runs_item)(const long item, ARGS) {
  if (item >= items) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  const index_t down = (high + rows - 1) / rows;
  index_t rest = (index_t)item / down, i = 0, j = 0;
  const index_t h0 = ((index_t)item - rest * down) * rows, count = min(rows, high - h0);
  STEP_BOTH(s5) STEP_BOTH(s4) STEP_BOTH(s3) STEP_BOTH(s2) STEP_BOTH(s1) STEP_BOTH(s0)
  x += i + h0 * from;
  y += j + h0 * run;
  const __global STORAGE(T) *next = x + rows * from;
  for (index_t w = 0, c = 0; w < wide; w++)
    for (index_t h = 0; h < count; h++) {
      COPY(T, x + h * from + w * run, next + c * run, y + w * to + h * run, (size_t)run, stream);
      if (++c == wide) {
        c = 0;
        next += from;
      }
    }
}

KERNEL(broadcast_forward_runs)(ARGS) {
  FN(broadcast_forward_runs_item)((long)get_global_id(0), PASS(x), PASS(y), items, wide, high, run, rows, from, to, dims,
                                  x_strides, y_strides, stream);
}
#endif
