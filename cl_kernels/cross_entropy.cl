/* Softmax cross-entropy: one work-item per row, 16 logits at a time; a second launch adds the rows' losses in order. */

#ifdef WANT_cross_entropy_forward_rows
/* Loads up to 16 elements; -INFINITY behind the end of the row. */
static inline float16 FN(some)(const __global STORAGE(T) *x, index_t at, int left) {
  if (left >= 16) return LOAD16(T, x, at);
  float lane[16];
  for (int l = 0; l < 16; l++) lane[l] = -INFINITY;
  for (int l = 0; l < left; l++) lane[l] = LOAD(T, x, at + l);
  return vload16(0, lane);
}

/* The sum of exp(x - top) is compensated (Knuth's two-sum), so that the 1 of the largest logit can be subtracted
 * without cancellation. The loss of a nearly certain row is then accurate too. */
#define ARGS                                                                                                   \
  ARG(const STORAGE(T), x), ARG(const int, labels), ARG(float, losses), ARG(float, stats), const index_t rows, \
  const int classes, const float smoothing, const int ignore, const int ignored
BODY(cross_entropy_forward_rows_item)(const long row, ARGS) {
  if (row >= rows) return;
  USE(const STORAGE(T), x);
  USE(const int, labels);
  USE(float, losses);
  USE(float, stats);
  const int16 lanes = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const index_t base = (index_t)row * classes;
  float lane[16], top = -INFINITY;
  float16 top16 = -INFINITY;
  for (int i = 0; i < classes; i += 16) {
    const float16 v = FN(some)(x, base + i, classes - i);
    top16 = select(top16, v, v > top16 || v != v);
  }
  vstore16(top16, 0, lane);
  for (int l = 0; l < 16; l++) top = lane[l] > top || lane[l] != lane[l] ? lane[l] : top;
  float16 s16 = 0, c16 = 0, d16 = 0;
  for (int i = 0; i < classes; i += 16) {
    const float16 d = top - FN(some)(x, base + i, classes - i);
    const float16 v = select((float16)(0.0f), clade_exp(-d), lanes < classes - i), sum = s16 + v, back = sum - s16;
    c16 += (s16 - (sum - back)) + (v - back);
    s16 = sum;
    d16 += select((float16)(0.0f), d, lanes < classes - i);
  }
  float s = 0, c = 0, distance = 0, lost[16];
  vstore16(s16, 0, lane);
  vstore16(c16, 0, lost);
  for (int l = 0; l < 16; l++) {
    const float sum = s + lane[l], back = sum - s;
    c += (s - (sum - back)) + (lane[l] - back) + lost[l];
    s = sum;
  }
  vstore16(d16, 0, lane);
  for (int l = 0; l < 16; l++) distance += lane[l];
  const float rest = s - 1.0f + c, others = rest < 0.0f ? 0.0f : rest, norm = log1p(others);
  const int label = labels[row];
  float loss = NAN;
  if (ignore && label == ignored)
    loss = 0;
  else if (label >= 0 && label < classes)
    loss = (1.0f - smoothing) * (top - LOAD(T, x, base + label)) + norm;
  if (smoothing > 0.0f && !(ignore && label == ignored)) loss += smoothing * (distance / (float)classes);
  losses[row] = loss;
  stats[2 * row] = top;
  stats[2 * row + 1] = others;
}

KERNEL(cross_entropy_forward_rows)(ARGS) {
  FN(cross_entropy_forward_rows_item)((long)get_global_id(0), PASS(x), PASS(labels), PASS(losses), PASS(stats), rows, classes, smoothing, ignore,
          ignored);
}
#undef ARGS
#endif

#ifdef WANT_cross_entropy_forward_join
#define ARGS                                                                                                 \
  ARG(const float, losses), ARG(const int, labels), ARG(float, y), ARG(float, count), const index_t results, \
  const index_t rows, const int mean, const int ignore, const int ignored
BODY(cross_entropy_forward_join_item)(const long item, ARGS) {
  if (item >= results) return;
  USE(const float, losses);
  USE(const int, labels);
  USE(float, y);
  USE(float, count);
  const index_t whole = rows - rows % 16;
  float s = 0, c = 0, lane[16], lost[16];
  float16 s16 = 0, c16 = 0;
  int lots[16];
  int16 n16 = 0;
  for (index_t i = 0; i < whole; i += 16) {
    const int16 label = vload16(0, labels + i);
    n16 -= ignore ? label != ignored : (int16)(-1);
    if (mean) {
      const float16 v = vload16(0, losses + i), sum = s16 + v, back = sum - s16;
      c16 += (s16 - (sum - back)) + (v - back);
      s16 = sum;
    }
  }
  vstore16(n16, 0, lots);
  vstore16(s16, 0, lane);
  vstore16(c16, 0, lost);
  long n = 0;
  for (int l = 0; l < 16; l++) {
    const float sum = s + lane[l], back = sum - s;
    n += lots[l];
    c += (s - (sum - back)) + (lane[l] - back) + lost[l];
    s = sum;
  }
  for (index_t i = whole; i < rows; i++) {
    n += !ignore || labels[i] != ignored;
    if (mean) s += losses[i];
  }
  if (mean) y[0] = CLADE_TOTAL(s, c) / (float)max(n, 1L);
  count[0] = (float)n;
}

KERNEL(cross_entropy_forward_join)(ARGS) {
  FN(cross_entropy_forward_join_item)((long)get_global_id(0), PASS(losses), PASS(labels), PASS(y), PASS(count), results, rows, mean, ignore,
             ignored);
}
#endif
