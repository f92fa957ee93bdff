/* Layer normalisation: a work-item does a row. Sums of pieces of it keep the rounding errors of their additions. */
/* The second pass corrects the mean of the first one too. */
#define ARGS                                                                                      \
  ARG(const STORAGE(T), x), ARG(const float, weight), ARG(const float, bias), ARG(STORAGE(T), y), \
  ARG(float, means), ARG(float, rstds), const index_t rows, const index_t n, const float eps
BODY(row)(const long row, ARGS) {
  if (row >= rows) return;
  USE(const STORAGE(T), x);
  USE(const float, weight);
  USE(const float, bias);
  USE(STORAGE(T), y);
  USE(float, means);
  USE(float, rstds);
  const index_t base = (index_t)row * n;
  const float count = (float)max(n, (index_t)1);
  float mean = 0, square = 0;
  for (int pass = 0; pass < 2; pass++) {
    float s = 0, s_lost = 0, q = 0, q_lost = 0;
    for (index_t begin = 0; begin < n; begin += 1024) {
      const index_t end = min(begin + 1024, n);
      float16 s16 = 0, q16 = 0;
      float s1 = 0, q1 = 0;
      index_t i = begin;
      for (; i + 16 <= end; i += 16) {
        const float16 d = LOAD16(T, x, base + i) - mean;
        s16 += d;
        q16 += d * d;
      }
      for (; i < end; i++) {
        const float d = LOAD(T, x, base + i) - mean;
        s1 += d;
        q1 += d * d;
      }
      clade_take(&s, &s_lost, clade_lanes(s16, s1));
      clade_take(&q, &q_lost, clade_lanes(q16, q1));
    }
    s = (s + s_lost) / count;
    square = (q + q_lost) / count - s * s; /* the first pass' is not used */
    mean += s;
  }
  const float rstd = 1.0f / sqrt((square < 0.0f ? 0.0f : square) + eps);
  index_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const float16 v = (LOAD16(T, x, base + i) - mean) * rstd * vload16(0, weight + i) + vload16(0, bias + i);
    STORE16(T, y, base + i, v);
  }
  for (; i < n; i++) {
    const float v = (LOAD(T, x, base + i) - mean) * rstd * weight[i] + bias[i];
    STORE(T, y, base + i, v);
  }
  means[row] = mean;
  rstds[row] = rstd;
}

KERNEL(layer_norm_forward_ref)(ARGS) {
  FN(row)((long)get_global_id(0), PASS(x), PASS(weight), PASS(bias), PASS(y), PASS(means), PASS(rstds), rows, n, eps);
}
#undef ARGS
