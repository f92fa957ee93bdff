/* The derivatives of the normalisation of rows. For the parameters: sums of dy and dy xhat over chunks of rows,
 * or over chunks of the samples of a channel, joined in their order. For x: rstd (g - (sum g + xhat
 * sum(g xhat)) / n) with g = dy weight, row by row; without a mean (rms) sum g is not in it. `inner` and `period` are
 * those of layer_norm.cl. */

#ifdef WANT_layer_norm_grad_sums
/* A work-item does WIDE columns of a chunk of rows. */
#define ARGS                                                                                           \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), dy), ARG(const float, mean), ARG(const float, rstd), \
  ARG(float, sums), const index_t rows, const index_t n, const index_t chunk, const index_t chunks
BODY(layer_norm_grad_sums_item)(const long item, ARGS) {
  const index_t strips = (n + WIDE - 1) / WIDE;
  if (item >= (long)chunks * strips) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), dy);
  USE(const float, mean);
  USE(const float, rstd);
  USE(float, sums);
  const index_t part = (index_t)(item / strips), column = (index_t)(item - part * (long)strips) * WIDE;
  const index_t begin = part * chunk, end = min(begin + chunk, rows);
  const index_t width = min((index_t)WIDE, n - column), whole = width - width % 16;
  float s[WIDE], q[WIDE];
  for (index_t i = 0; i < width; i++) s[i] = q[i] = 0;
  for (index_t r = begin; r < end; r++) {
    const index_t at = r * n + column;
    const float m = mean[r], scale = rstd[r];
    for (index_t i = 0; i < whole; i += 16) {
      const float16 d = LOAD16(T, dy, at + i);
      vstore16(vload16(0, s + i) + d, 0, s + i);
      vstore16(fma(d, (LOAD16(T, x, at + i) - m) * scale, vload16(0, q + i)), 0, q + i);
    }
    for (index_t i = whole; i < width; i++) {
      const float d = LOAD(T, dy, at + i);
      s[i] += d;
      q[i] = fma(d, (LOAD(T, x, at + i) - m) * scale, q[i]);
    }
  }
  for (index_t i = 0; i < width; i++) {
    sums[part * n + column + i] = s[i];
    sums[(chunks + part) * n + column + i] = q[i];
  }
}

KERNEL(layer_norm_grad_sums)(ARGS) {
  FN(layer_norm_grad_sums_item)((long)get_global_id(0), PASS(x), PASS(dy), PASS(mean), PASS(rstd), PASS(sums), rows, n, chunk, chunks);
}
#undef ARGS
#endif

#ifdef WANT_layer_norm_grad_runs
#define ARGS                                                                                                  \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), dy), ARG(const float, mean), ARG(const float, rstd),        \
  ARG(float, sums), const index_t samples, const index_t channels, const index_t chunk, const index_t chunks, \
  const index_t inner, const index_t period
BODY(layer_norm_grad_runs_item)(const long item, ARGS) {
  if (item >= (long)channels * chunks) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), dy);
  USE(const float, mean);
  USE(const float, rstd);
  USE(float, sums);
  const index_t part = (index_t)(item / channels), channel = (index_t)(item - part * (long)channels);
  const index_t first = part * chunk, last = min(first + chunk, samples), group = channel / (channels / period);
  float s = 0, s_lost = 0, q = 0, q_lost = 0;
  for (index_t sample = first; sample < last; sample++) {
    const index_t base = (sample * channels + channel) * inner;
    const float m = mean[sample * period + group], r = rstd[sample * period + group];
    for (index_t begin = 0; begin < inner; begin += 1024) {
      const index_t end = min(begin + 1024, inner);
      float16 s16 = 0, q16 = 0;
      float s1 = 0, q1 = 0;
      index_t i = begin;
      for (; i + 16 <= end; i += 16) {
        const float16 d = LOAD16(T, dy, base + i);
        s16 += d;
        q16 += d * (LOAD16(T, x, base + i) - m);
      }
      for (; i < end; i++) {
        const float d = LOAD(T, dy, base + i);
        s1 += d;
        q1 += d * (LOAD(T, x, base + i) - m);
      }
      clade_take(&s, &s_lost, clade_lanes(s16, s1));
      clade_take(&q, &q_lost, clade_lanes(q16, q1) * r);
    }
  }
  sums[part * channels + channel] = s + s_lost;
  sums[(chunks + part) * channels + channel] = q + q_lost;
}

KERNEL(layer_norm_grad_runs)(ARGS) {
  FN(layer_norm_grad_runs_item)((long)get_global_id(0), PASS(x), PASS(dy), PASS(mean), PASS(rstd), PASS(sums), samples, channels, chunk,
          chunks, inner, period);
}
#undef ARGS
#endif

#ifdef WANT_layer_norm_grad_join
#define ARGS ARG(const float, sums), ARG(float, dweight), ARG(float, dbias), const index_t n, const index_t chunks
BODY(layer_norm_grad_join_item)(const long i, ARGS) {
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
  FN(layer_norm_grad_join_item)((long)get_global_id(0), PASS(sums), PASS(dweight), PASS(dbias), n, chunks);
}
#undef ARGS
#endif

#ifdef WANT_layer_norm_grad_rows
#define ARGS                                                                                             \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), dy), ARG(const float, weight), ARG(const float, mean), \
  ARG(const float, rstd), ARG(STORAGE(T), dx), const index_t rows, const index_t n, const index_t inner, \
      const index_t period, const int rms, const int stream
BODY(layer_norm_grad_rows_item)(const long row, ARGS) {
  if (row >= rows) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), dy);
  USE(const float, weight);
  USE(const float, mean);
  USE(const float, rstd);
  USE(STORAGE(T), dx);
  const index_t base = (index_t)row * n, ahead = row + 1 < rows ? n : 0;
  const float m = mean[row], r = rstd[row];
  const index_t first = (index_t)row % max(period, (index_t)1) * (n / max(inner, (index_t)1));
  float s = 0, s_lost = 0, q = 0, q_lost = 0;
  for (index_t begin = 0, run = 0, w = first; begin < n;) {
    if (inner > 1 && begin == run + inner) {
      run = begin;
      w++;
    }
    const index_t end = min(begin + 1024, inner > 1 ? run + inner : n);
    const float scale = weight[w];
    float16 s16 = 0, q16 = 0;
    float s1 = 0, q1 = 0;
    index_t i = begin;
    for (; i + 16 <= end; i += 16) {
      const float16 d = LOAD16(T, dy, base + i) * (inner > 1 ? (float16)scale : vload16(0, weight + first + i));
      s16 += d;
      q16 += d * (LOAD16(T, x, base + i) - m);
    }
    for (; i < end; i++) {
      const float d = LOAD(T, dy, base + i) * weight[inner > 1 ? w : first + i];
      s1 += d;
      q1 += d * (LOAD(T, x, base + i) - m);
    }
    clade_take(&s, &s_lost, clade_lanes(s16, s1));
    clade_take(&q, &q_lost, clade_lanes(q16, q1));
    begin = end;
  }
  const float even = rms ? 0.0f : (s + s_lost) / (float)n, slope = (q + q_lost) * r * r / (float)n;
  for (index_t begin = 0, w = first; begin < n; w++) {
    const index_t end = inner > 1 ? begin + inner : n;
    const float scale = weight[w];
    index_t i = begin;
    for (; i + 16 <= end; i += 16) {
      const float16 d = LOAD16(T, dy, base + i) * (inner > 1 ? (float16)scale : vload16(0, weight + first + i));
      const float16 v = (d - even - (LOAD16(T, x, base + i) - m) * slope) * r;
      SOON(x + base + ahead + i);
      SOON(dy + base + ahead + i);
      STREAM16(T, dx, base + i, v, stream);
    }
    for (; i < end; i++) {
      const float d = LOAD(T, dy, base + i) * weight[inner > 1 ? w : first + i];
      STORE(T, dx, base + i, (d - even - (LOAD(T, x, base + i) - m) * slope) * r);
    }
    begin = end;
  }
}

KERNEL(layer_norm_grad_rows)(ARGS) {
  FN(layer_norm_grad_rows_item)((long)get_global_id(0), PASS(x), PASS(dy), PASS(weight), PASS(mean), PASS(rstd), PASS(dx), rows, n, inner,
          period, rms, stream);
}
#undef ARGS
#endif
