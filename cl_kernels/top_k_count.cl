/* Number of samples whose label is among the k largest logits: one work-item per row, then one that counts. */
#ifdef WANT_top_k_count_forward_rows
#define ARGS                                                                                                \
  ARG(const STORAGE(T), x), ARG(const int, labels), ARG(int, right), const index_t rows, const int classes, \
  const int k
BODY(top_k_count_forward_rows_item)(const long row, ARGS) {
  if (row >= rows) return;
  USE(const STORAGE(T), x);
  USE(const int, labels);
  USE(int, right);
  const index_t base = (index_t)row * classes;
  const int label = labels[row];
  int before = classes;
  if (label >= 0 && label < classes) {
    const float own = LOAD(T, x, base + label);
    before = own != own ? classes : 0;
    for (int i = 0; i < classes; i++) {
      const float v = LOAD(T, x, base + i);
      before += v > own || v != v || (v == own && i < label) ? 1 : 0;
    }
  }
  right[row] = before < min(k, classes) ? 1 : 0;
}

KERNEL(top_k_count_forward_rows)(ARGS) {
  FN(top_k_count_forward_rows_item)((long)get_global_id(0), PASS(x), PASS(labels), PASS(right), rows, classes, k);
}
#undef ARGS
#endif

#ifdef WANT_top_k_count_forward_join
#define ARGS ARG(const int, right), ARG(int, y), const index_t results, const index_t rows
BODY(top_k_count_forward_join_item)(const long item, ARGS) {
  if (item >= results) return;
  USE(const int, right);
  USE(int, y);
  int n = 0;
  for (index_t i = 0; i < rows; i++) n += right[i];
  y[0] = n;
}

KERNEL(top_k_count_forward_join)(ARGS) {
  FN(top_k_count_forward_join_item)((long)get_global_id(0), PASS(right), PASS(y), results, rows);
}
#endif
