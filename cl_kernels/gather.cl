/* Rows of tables by their numbers, the same `count` of each table: each work-item writes a piece of the result, row by
 * row. While one is copied another one, some KiB later, is on its way, wherever it lies. */
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
}

KERNEL(gather_forward_ref)(ARGS) {
  FN(gather_forward_ref_item)((long)get_global_id(0), PASS(x), PASS(ids), PASS(y), total, piece, width, count, rows,
             stream);
}
#undef ARGS
