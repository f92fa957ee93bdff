/* Normalisation of rows: a work-item does one. Sums of pieces of it keep the rounding errors of their additions; the
 * second pass corrects the mean of the first one too. Without a mean (rms) there is one pass. A weight and a bias are
 * for `inner` elements on end, and rows go through all of them in `period` turns. While a row is
 * written the next one is on its way. */
#define ARGS                                                                                      \
  ARG(const STORAGE(T), x), ARG(const float, weight), ARG(const float, bias), ARG(STORAGE(T), y), \
  ARG(float, means), ARG(float, rstds), const index_t rows, const index_t n, const index_t inner, \
      const index_t period, const int rms, const float eps, const int stream
BODY(row)(const long row, ARGS) {
  if (row >= rows) return;
  USE(const STORAGE(T), x);
  USE(const float, weight);
  USE(const float, bias);
  USE(STORAGE(T), y);
  USE(float, means);
  USE(float, rstds);
  const index_t base = (index_t)row * n, ahead = row + 1 < rows ? n : 0;
  const float count = (float)max(n, (index_t)1);
  float mean = 0, square = 0;
  for (int pass = rms; pass < 2; pass++) {
    float s = 0, s_lost = 0, q = 0, q_lost = 0;
    for (index_t begin = 0; begin < n; begin += 1024) {
      const index_t end = min(begin + 1024, n);
      float16 s16 = 0, q16 = 0;
      float s1 = 0, q1 = 0;
      index_t i = begin;
      for (; i + 16 <= end; i += 16) {
        const float16 d = LOAD16(T, x, base + i) - mean;
        s16 += d;
        q16 = fma(d, d, q16);
      }
      for (; i < end; i++) {
        const float d = LOAD(T, x, base + i) - mean;
        s1 += d;
        q1 += d * d;
      }
      clade_take(&s, &s_lost, clade_lanes(s16, s1));
      clade_take(&q, &q_lost, clade_lanes(q16, q1));
    }
    s = rms ? 0 : (s + s_lost) / count;
    square = (q + q_lost) / count - s * s; /* the first pass' is not used */
    mean += s;
  }
  const float rstd = 1.0f / sqrt((square < 0.0f ? 0.0f : square) + eps);
  const index_t first = (index_t)row % max(period, (index_t)1) * (n / max(inner, (index_t)1));
  for (index_t begin = 0, w = first; begin < n; w++) {
    const index_t end = inner > 1 ? begin + inner : n;
    const float scale = rstd * weight[w], shift = bias[w];
    index_t i = begin;
    for (; i + 16 <= end; i += 16) {
      const float16 d = LOAD16(T, x, base + i) - mean;
      const float16 own = inner > 1 ? (float16)scale : rstd * vload16(0, weight + first + i);
      const float16 v = d * own + (inner > 1 ? (float16)shift : vload16(0, bias + first + i));
      SOON(x + base + ahead + i);
      STREAM16(T, y, base + i, v, stream);
    }
    for (; i < end; i++) {
      const index_t at = inner > 1 ? w : first + i;
      const float v = (LOAD(T, x, base + i) - mean) * rstd * weight[at] + bias[at];
      STORE(T, y, base + i, v);
    }
    begin = end;
  }
  means[row] = mean;
  rstds[row] = rstd;
}

KERNEL(layer_norm_forward_ref)(ARGS) {
  FN(row)((long)get_global_id(0), PASS(x), PASS(weight), PASS(bias), PASS(y), PASS(means), PASS(rstds), rows, n, inner,
          period, rms, eps, stream);
}
#undef ARGS
