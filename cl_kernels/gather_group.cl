/* Selects rows of tables by index on GPUs, `count` rows of each table: a work-item writes four consecutive elements. */
KERNEL(gather_forward_group)
(ARG(const STORAGE(T), x), ARG(const int, ids), ARG(STORAGE(T), y), const index_t total, const index_t width,
 const index_t count, const int rows) {
  if (FOUR_FROM >= total) return;
  USE(const STORAGE(T), x);
  USE(const int, ids);
  USE(STORAGE(T), y);
  const index_t at = (index_t)FOUR_FROM;
  const int left = (int)min(total - at, (index_t)4);
  index_t column = at % width, table = at / width / count, which = at / width - table * count;
  int id = ids[which];
  STORAGE(T) lane[4] = {0, 0, 0, 0};
  if (column + 4 <= width) {
    if (id >= 0 && id < rows) FOUR_TAKE(T, lane, x + ((table * rows + id) * width + column))
  } else {
#pragma unroll
    for (int l = 0; l < 4; l++)
      if (l < left) {
        if (id >= 0 && id < rows) lane[l] = x[(table * rows + id) * width + column];
        if (++column == width && l + 1 < left) {
          column = 0;
          if (++which == count) {
            which = 0;
            table++;
          }
          id = ids[which];
        }
      }
  }
  FOUR_GIVE(T, y + at, left, lane)
}
