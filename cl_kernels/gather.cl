/* Rows of tables by their numbers. */
#ifdef WANT_gather_forward_ref
/* The same `count` of each table: each work-item writes a piece of the result, row by
 * row. While one is copied another one, some KiB later, is on its way, wherever it lies. NARROW: rows of one
 * element, from tables that the caches hold. */
#define ARGS                                                                                                   \
  ARG(const STORAGE(T), x), ARG(const int, ids), ARG(STORAGE(T), y), const index_t total, const index_t piece, \
  const index_t width, const index_t count, const int rows, const int stream
BODY(gather_forward_ref_item)(const long item, ARGS) {
  const long begin = item * piece;
  if (begin >= total) return;
  USE(const STORAGE(T), x);
  USE(const int, ids);
  USE(STORAGE(T), y);
  const index_t end = (index_t)min(begin + piece, (long)total);
#if NARROW
  for (index_t at = (index_t)begin; at < end;) {
    const index_t table = at / count, last = min(end, (table + 1) * count);
    for (; at < last; at++) {
      const int id = ids[at - table * count];
      y[at] = id >= 0 && id < rows ? x[table * rows + id] : 0;
    }
  }
#else
  const index_t later = max(AHEAD / 2 / max(width, (index_t)1), (index_t)1); /* rows */
  index_t row = (index_t)begin / width, column = (index_t)begin - row * width, table = row / count;
  for (index_t at = (index_t)begin; at < end; row++, column = 0) {
    const index_t run = min(width - column, end - at);
    table += row == (table + 1) * count;
    const int id = ids[row - table * count];
    if (id >= 0 && id < rows) {
      const index_t from = (table * rows + id) * width + column;
      const int next = row + later < (table + 1) * count ? ids[row + later - table * count] : id;
      const index_t soon = next >= 0 && next < rows ? (table * rows + next) * width + column : from;
      COPY(T, x + from, x + soon, y + at, (size_t)run, stream);
    } else {
      for (index_t i = 0; i < run; i++) y[at + i] = 0;
    }
    at += run;
  }
#endif
}

KERNEL(gather_forward_ref)(ARGS) {
  FN(gather_forward_ref_item)((long)get_global_id(0), PASS(x), PASS(ids), PASS(y), total, piece, width, count, rows,
             stream);
}
#undef ARGS
#endif

#ifdef WANT_gather_forward_columns
/* Single words of tables of up to MOST: of sixteen tables at once, which are turned over, so that what is picked is a vector;
 * and back. */
#define ARGS                                                                                            \
  ARG(const float, x), ARG(const int, ids), ARG(float, y), const index_t tables, const index_t piece,   \
      const index_t count, const int rows, const int stream
BODY(gather_forward_columns_item)(const long item, ARGS) {
  if (item * piece >= tables) return;
  USE(const float, x);
  USE(const int, ids);
  USE(float, y);
  const index_t end = (index_t)min((item + 1) * piece, (long)tables), whole = end - end % 16;
  float16 column[MOST + 1], v[16];
  column[rows] = 0; /* for numbers that name no row */
  for (index_t first = (index_t)(item * piece); first < whole; first += 16) {
    for (int c = 0; c < rows; c += 16) {
      const int at = min(c, rows - 16); /* the last ones again, rather than a part of a vector */
      const index_t soon = c + AHEAD / 16 < rows ? c + AHEAD / 16 : c + AHEAD / 16 + 15 * rows; /* or of the next ones */
#pragma unroll
      for (int l = 0; l < 16; l++) {
        SOON(x + (first + l) * rows + soon);
        v[l] = vload16(0, x + (first + l) * rows + at);
      }
      clade_turn_sixteen(v);
#pragma unroll
      for (int l = 0; l < 16; l++) column[at + l] = v[l];
    }
    for (index_t c = 0; c < count; c += 16) {
      const index_t at = min(c, count - 16);
#pragma unroll
      for (int l = 0; l < 16; l++) v[l] = column[min((uint)ids[at + l], (uint)rows)];
      clade_turn_sixteen(v);
#pragma unroll
      for (int l = 0; l < 16; l++) clade_past_f32(y + (first + l) * count + at, v[l], stream);
    }
  }
  for (index_t at = max(whole, (index_t)(item * piece)) * count; at < end * count; at++) {
    const index_t table = at / count;
    const int id = ids[at - table * count];
    y[at] = id >= 0 && id < rows ? x[table * rows + id] : 0;
  }
}

KERNEL(gather_forward_columns)(ARGS) {
  FN(gather_forward_columns_item)((long)get_global_id(0), PASS(x), PASS(ids), PASS(y), tables, piece, count, rows, stream);
}
#undef ARGS
#endif
