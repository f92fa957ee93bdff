/* (softmax - target) times the loss's gradient, from the statistics that the forward pass kept for each row. */
#define ARGS                                                                                              \
  ARG(const STORAGE(T), x), ARG(const int, labels), ARG(const float, stats), ARG(const float, count),     \
  ARG(const float, dy), ARG(STORAGE(T), dx), const index_t rows, const int classes, const int per_sample, \
  const float smoothing, const int ignore, const int ignored
BODY(cross_entropy_grad_ref_item)(const long row, ARGS) {
  if (row >= rows) return;
  USE(const STORAGE(T), x);
  USE(const int, labels);
  USE(const float, stats);
  USE(const float, count);
  USE(const float, dy);
  USE(STORAGE(T), dx);
  const index_t base = (index_t)row * classes;
  const int label = labels[row];
  const float top = stats[2 * row], others = stats[2 * row + 1], scale = 1.0f / (1.0f + others);
  const float even = smoothing / (float)classes;
  float d = per_sample ? dy[row] : dy[0] / fmax(count[0], 1.0f), at_label = 0;
  const bool skip = ignore && label == ignored, known = label >= 0 && label < classes;
  if (!skip && !known) d = NAN;
  if (!skip && known) { /* for the largest logit, 1 - softmax is known more accurately than by subtraction */
    const float v = LOAD(T, x, base + label);
    const float p = v == top ? -others * scale : exp(v - top) * scale - 1.0f;
    at_label = (p + (smoothing - even)) * d;
  }
  int i = 0;
  for (; i + 16 <= classes; i += 16) {
    const float16 v = (clade_exp(LOAD16(T, x, base + i) - top) * scale - even) * d;
    STORE16(T, dx, base + i, skip ? (float16)(0.0f) : v);
  }
  for (; i < classes; i++) {
    const float v = (exp(LOAD(T, x, base + i) - top) * scale - even) * d;
    STORE(T, dx, base + i, skip ? 0.0f : v);
  }
  if (!skip && known) STORE(T, dx, base + label, at_label);
}

KERNEL(cross_entropy_grad_ref)(ARGS) {
  FN(cross_entropy_grad_ref_item)((long)get_global_id(0), PASS(x), PASS(labels), PASS(stats), PASS(count), PASS(dy), PASS(dx), rows, classes,
          per_sample, smoothing, ignore, ignored);
}
