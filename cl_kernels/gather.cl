/* Selects rows of tables by index. */
#ifdef WANT_gather_forward_ref
/* `count` rows of each table, the same for all: each work-item writes a piece of the result, row by row, and prefetches
 * a row that it copies some KiB later. NARROW: rows of one element, from tables that the caches hold. */
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
  const index_t later = max(AHEAD / 2 / max(width, (index_t)1), (index_t)1); /* in rows */
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
/* Rows of one 32-bit element from many tables, MOST at a time: positions are computed once for all tables, and elements
 * are read one by one while the next table is prefetched into L2. `volatile` keeps the compiler from using gather
 * instructions, which are slower on some CPUs. */
#define ARGS                                                                                            \
  ARG(const float, x), ARG(const int, ids), ARG(float, y), const index_t tables, const index_t piece,   \
      const index_t count, const int rows, const int stream
#define PICK(l) (*(const volatile __global float *)(from + place[at + (l)]))
BODY(gather_forward_columns_item)(const long item, ARGS) {
  if (item * piece >= tables) return;
  USE(const float, x);
  USE(const int, ids);
  USE(float, y);
  const index_t end = (index_t)min((item + 1) * piece, (long)tables), many = min(count, (index_t)MOST);
  const index_t ahead = (index_t)(AHEAD + rows - 1) / rows * rows;
  ushort place[MOST];
  for (index_t c = 0; c < count; c += MOST) {
    const index_t first = min(c, count - many); /* the last ones overlap those before */
    int16 none = 0;
    for (index_t i = 0; i < many; i += 16) {
      const index_t at = min(i, many - 16);
      const int16 id = vload16(0, ids + first + at), other = as_uint16(id) >= (uint)rows;
      vstore16(convert_ushort16(other ? 0 : id), 0, place + at);
      none |= other;
    }
    const bool some = ANY16(none); /* indices out of range */
    for (index_t table = (index_t)(item * piece); table < end; table++) {
      const __global float *from = x + table * rows;
      for (index_t i = 0; i < many; i += 16) {
        const index_t at = min(i, many - 16), to = table * count + first + at;
        float16 v = (float16)(PICK(0), PICK(1), PICK(2), PICK(3), PICK(4), PICK(5), PICK(6), PICK(7), PICK(8), PICK(9),
                              PICK(10), PICK(11), PICK(12), PICK(13), PICK(14), PICK(15));
        if (some) v = as_uint16(vload16(0, ids + first + at)) < (uint)rows ? v : 0;
        if (i < rows) LATER(from + ahead + i);
        clade_past_f32(y + to, v, stream);
      }
    }
  }
}

KERNEL(gather_forward_columns)(ARGS) {
  FN(gather_forward_columns_item)((long)get_global_id(0), PASS(x), PASS(ids), PASS(y), tables, piece, count, rows, stream);
}
#endif
