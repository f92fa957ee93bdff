/* Rows of tables by their numbers, the same `count` of each table: each work-item writes a piece of the result, row by
 * row. While one is copied the next one, which may lie anywhere, is on its way. */
#define LINE (64 / sizeof(STORAGE(T)))
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
  for (index_t at = (index_t)begin; at < end;) {
    const index_t row = at / width, column = at - row * width, run = min(width - column, end - at);
    const index_t table = row / count;
    const int id = ids[row - table * count];
    if (id >= 0 && id < rows) {
      const index_t from = (table * rows + id) * width + column;
      const bool more = column + run == width && at + run < end;
      const int next = more && row + 1 < (table + 1) * count ? ids[row + 1 - table * count] : -1;
      if (next >= 0 && next < rows)
        for (index_t i = 0; i < min(width, (index_t)(64 * LINE)); i += LINE)
          SOON(x + (table * rows + next) * width + i);
      COPY(T, x + from, y + at, (size_t)run, stream);
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
#undef LINE
