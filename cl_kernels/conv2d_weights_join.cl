/* Adds the partial sums of conv2d_weights.cl and of other kernels. A work-item adds the parts of a piece of the results,
 * whose rows are `pitch` apart in a part. If `rows` is not 0, each group's parts are `rows` by `columns` and the results
 * are transposed; a work-item then does eight columns of a group. */
#define ARGS ARG(const float, parts), ARG(STORAGE(T), w), const index_t outputs, const index_t count, const index_t piece, \
             const index_t rows, const index_t columns, const index_t pitch
BODY(conv2d_weights_join_item)(const long item, ARGS) {
  const index_t begin = item * piece, end = min(begin + piece, outputs), part = outputs / max(columns, (index_t)1) * pitch;
  USE(const float, parts);
  USE(STORAGE(T), w);
  if (rows) {
    const index_t strips = (columns + 7) / 8, group = item / strips;
    const index_t first = item % strips * 8, to = (group * columns + first) * rows;
    const int many = min(columns - first, (index_t)8);
    if ((group + 1) * columns * rows > outputs) return;
    parts += group * rows * pitch + first;
    index_t r = 0;
    for (; many == 8 && r + 8 <= rows; r += 8) {
      float8 sum[8];
      UNROLLED(l, 8) sum[l] = (float8)(0);
      for (index_t k = 0; k < count; k++)
        UNROLLED(l, 8) sum[l] += vload8(0, parts + k * part + (r + l) * pitch);
      clade_turn(sum);
      UNROLLED(l, 8) STOREN(8, T, w, to + l * rows + r, sum[l]);
    }
    for (; r < rows; r++)
      ONE_BY_ONE for (int l = 0; l < many; l++) {
        float sum = 0;
        ONE_BY_ONE for (index_t k = 0; k < count; k++) sum += parts[k * part + r * pitch + l];
        STORE(T, w, to + l * rows + r, sum);
      }
    return;
  }
  for (index_t i = begin; i < end;) {
    const index_t from = i / columns * pitch + i % columns;
    if (i + 16 <= end && i % columns + 16 <= columns) {
      float16 sum = 0;
#pragma clang loop unroll(disable)
      for (index_t k = 0; k < count; k++) sum += vload16(0, parts + k * part + from);
      STORE16(T, w, i, sum);
      i += 16;
      continue;
    }
    float sum = 0;
#ifdef CLADE_PROCESSOR
#pragma clang loop vectorize(disable) unroll(disable)
#else /* loads several parts at once */
#pragma unroll 8
#endif
    for (index_t k = 0; k < count; k++) sum += parts[k * part + from];
    STORE(T, w, i++, sum);
  }
}
ITEM_KERNEL(conv2d_weights_join, PASS(parts), PASS(w), outputs, count, piece, rows, columns, pitch)
