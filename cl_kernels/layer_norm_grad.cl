/* The derivatives of layer normalisation. For the parameters: sums of dy and dy xhat over chunks of rows, sixteen columns
 * at once, joined in their order. For x: rstd (g - (sum g + xhat sum(g xhat)) / n) with g = dy weight, row by row. */

#ifdef WANT_layer_norm_grad_sums
#define ARGS                                                                                           \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), dy), ARG(const float, mean), ARG(const float, rstd), \
  ARG(float, sums), const index_t rows, const index_t n, const index_t chunk, const index_t chunks
BODY(chunk)(const long item, ARGS) {
  const index_t blocks = (n + 15) / 16;
  if (item >= (long)blocks * chunks) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), dy);
  USE(const float, mean);
  USE(const float, rstd);
  USE(float, sums);
  const index_t part = (index_t)(item / blocks), column = (index_t)(item - part * (long)blocks) * 16;
  const index_t begin = part * chunk, end = min(begin + chunk, rows), width = min((index_t)16, n - column);
  if (width == 16) {
    float16 s = 0, q = 0;
    for (index_t r = begin; r < end; r++) {
      const float16 d = LOAD16(T, dy, r * n + column);
      s += d;
      q += d * ((LOAD16(T, x, r * n + column) - mean[r]) * rstd[r]);
    }
    vstore16(s, 0, sums + part * n + column);
    vstore16(q, 0, sums + (chunks + part) * n + column);
    return;
  }
  for (index_t i = column; i < column + width; i++) {
    float s = 0, q = 0;
    for (index_t r = begin; r < end; r++) {
      const float d = LOAD(T, dy, r * n + i);
      s += d;
      q += d * ((LOAD(T, x, r * n + i) - mean[r]) * rstd[r]);
    }
    sums[part * n + i] = s;
    sums[(chunks + part) * n + i] = q;
  }
}

KERNEL(layer_norm_grad_sums)(ARGS) {
  FN(chunk)((long)get_global_id(0), PASS(x), PASS(dy), PASS(mean), PASS(rstd), PASS(sums), rows, n, chunk, chunks);
}
#undef ARGS
#endif

#ifdef WANT_layer_norm_grad_join
#define ARGS ARG(const float, sums), ARG(float, dweight), ARG(float, dbias), const index_t n, const index_t chunks
BODY(result)(const long i, ARGS) {
  if (i >= n) return;
  USE(const float, sums);
  USE(float, dweight);
  USE(float, dbias);
  float2 s = 0, lost = 0;
  for (index_t k = 0; k < chunks; k++) { /* Knuth's two-sum */
    const float2 v = (float2)(sums[k * n + i], sums[(chunks + k) * n + i]), sum = s + v, back = sum - s;
    lost += (s - (sum - back)) + (v - back);
    s = sum;
  }
  dbias[i] = s.s0 + lost.s0;
  dweight[i] = s.s1 + lost.s1;
}

KERNEL(layer_norm_grad_join)(ARGS) {
  FN(result)((long)get_global_id(0), PASS(sums), PASS(dweight), PASS(dbias), n, chunks);
}
#undef ARGS
#endif

#ifdef WANT_layer_norm_grad_rows
#define ARGS                                                                                             \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), dy), ARG(const float, weight), ARG(const float, mean), \
  ARG(const float, rstd), ARG(STORAGE(T), dx), const index_t rows, const index_t n
BODY(row)(const long row, ARGS) {
  if (row >= rows) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), dy);
  USE(const float, weight);
  USE(const float, mean);
  USE(const float, rstd);
  USE(STORAGE(T), dx);
  const index_t base = (index_t)row * n;
  const float m = mean[row], r = rstd[row];
  float s = 0, s_lost = 0, q = 0, q_lost = 0;
  for (index_t begin = 0; begin < n; begin += 1024) {
    const index_t end = min(begin + 1024, n);
    float16 s16 = 0, q16 = 0;
    float s1 = 0, q1 = 0;
    index_t i = begin;
    for (; i + 16 <= end; i += 16) {
      const float16 d = LOAD16(T, dy, base + i) * vload16(0, weight + i);
      s16 += d;
      q16 += d * (LOAD16(T, x, base + i) - m);
    }
    for (; i < end; i++) {
      const float d = LOAD(T, dy, base + i) * weight[i];
      s1 += d;
      q1 += d * (LOAD(T, x, base + i) - m);
    }
    clade_take(&s, &s_lost, clade_lanes(s16, s1));
    clade_take(&q, &q_lost, clade_lanes(q16, q1));
  }
  const float even = (s + s_lost) / (float)n, slope = (q + q_lost) * r * r / (float)n;
  index_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const float16 d = LOAD16(T, dy, base + i) * vload16(0, weight + i);
    const float16 v = (d - even - (LOAD16(T, x, base + i) - m) * slope) * r;
    STORE16(T, dx, base + i, v);
  }
  for (; i < n; i++) {
    const float v = (LOAD(T, dy, base + i) * weight[i] - even - (LOAD(T, x, base + i) - m) * slope) * r;
    STORE(T, dx, base + i, v);
  }
}

KERNEL(layer_norm_grad_rows)(ARGS) {
  FN(row)((long)get_global_id(0), PASS(x), PASS(dy), PASS(weight), PASS(mean), PASS(rstd), PASS(dx), rows, n);
}
#undef ARGS
#endif
