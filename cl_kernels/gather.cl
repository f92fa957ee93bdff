/* Rows of tables by their numbers, the same `count` of each table: each work-item writes a piece of the result, row by
 * row. */
#define ARGS                                                                                                   \
  ARG(const STORAGE(T), x), ARG(const int, ids), ARG(STORAGE(T), y), const index_t total, const index_t piece, \
  const index_t width, const index_t count, const int rows
BODY(piece)(const long item, ARGS) {
  const long begin = item * piece;
  if (begin >= total) return;
  USE(const STORAGE(T), x);
  USE(const int, ids);
  USE(STORAGE(T), y);
  const index_t end = (index_t)min(begin + piece, (long)total);
  for (index_t at = (index_t)begin; at < end;) {
    const index_t row = at / width, column = at - row * width, run = min(width - column, end - at);
    const index_t table = row / count;
    const int id = ids[row - table * count];
    if (id >= 0 && id < rows) {
      const index_t from = (table * rows + id) * width + column;
      for (index_t i = 0; i < run; i++) y[at + i] = x[from + i];
    } else {
      for (index_t i = 0; i < run; i++) y[at + i] = 0;
    }
    at += run;
  }
}

KERNEL(gather_forward_ref)(ARGS) {
  FN(piece)((long)get_global_id(0), PASS(x), PASS(ids), PASS(y), total, piece, width, count, rows);
}
#undef ARGS
