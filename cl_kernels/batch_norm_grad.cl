/* The derivatives of batch normalisation: for each channel the sums of dy and of dy (x - mean), chunk by chunk, then
 * every element: dx = weight rstd (dy - (sum dy + xhat sum(dy xhat)) / count), xhat = (x - mean) rstd. */

#ifdef WANT_batch_norm_grad_sums
#define ARGS                                                                                                  \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), dy), ARG(const float, mean), ARG(float, sums),              \
  const index_t channels, const index_t inner, const index_t count, const index_t chunk, const index_t chunks
BODY(chunk_sums)(const long item, ARGS) {
  if (item >= (long)channels * chunks) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), dy);
  USE(const float, mean);
  USE(float, sums);
  const index_t channel = (index_t)item / chunks, begin = ((index_t)item - channel * chunks) * chunk;
  const index_t end = min(begin + chunk, count);
  const float m = mean[channel];
  float16 s16 = 0, q16 = 0;
  float s = 0, q = 0;
  for (index_t k = begin; k < end;) {
    const index_t sample = k / inner, first = k - sample * inner, run = min(inner - first, end - k);
    const index_t base = (sample * channels + channel) * inner + first;
    index_t i = 0;
    for (; i + 16 <= run; i += 16) {
      const float16 d = LOAD16(T, dy, base + i);
      s16 += d;
      q16 += d * (LOAD16(T, x, base + i) - m);
    }
    for (; i < run; i++) {
      const float d = LOAD(T, dy, base + i);
      s += d;
      q += d * (LOAD(T, x, base + i) - m);
    }
    k += run;
  }
  sums[2 * item] = clade_lanes(s16, s);
  sums[2 * item + 1] = clade_lanes(q16, q);
}

KERNEL(batch_norm_grad_sums)(ARGS) {
  FN(chunk_sums)((long)get_global_id(0), PASS(x), PASS(dy), PASS(mean), PASS(sums), channels, inner, count, chunk,
                 chunks);
}
#undef ARGS
#endif

#ifdef WANT_batch_norm_grad_join
#define ARGS                                                                              \
  ARG(const float, sums), ARG(const float, rstd), ARG(float, dweight), ARG(float, dbias), \
  const index_t channels, const index_t chunks
BODY(channel)(const long c, ARGS) {
  if (c >= channels) return;
  USE(const float, sums);
  USE(const float, rstd);
  USE(float, dweight);
  USE(float, dbias);
  float2 s = 0, lost = 0;
  for (index_t k = 0; k < chunks; k++) { /* Knuth's two-sum */
    const float2 v = vload2(c * chunks + k, sums), sum = s + v, back = sum - s;
    lost += (s - (sum - back)) + (v - back);
    s = sum;
  }
  dbias[c] = s.s0 + lost.s0;
  dweight[c] = (s.s1 + lost.s1) * rstd[c];
}

KERNEL(batch_norm_grad_join)(ARGS) {
  FN(channel)((long)get_global_id(0), PASS(sums), PASS(rstd), PASS(dweight), PASS(dbias), channels, chunks);
}
#undef ARGS
#endif

#ifdef WANT_batch_norm_grad_spread
#define ARGS                                                                                               \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), dy), ARG(const float, weight), ARG(const float, mean),   \
  ARG(const float, rstd), ARG(const float, dweight), ARG(const float, dbias), ARG(STORAGE(T), dx),         \
  const index_t total, const index_t piece, const index_t channels, const index_t inner, const float count
BODY(piece)(const long begin, ARGS) {
  if (begin >= total) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), dy);
  USE(const float, weight);
  USE(const float, mean);
  USE(const float, rstd);
  USE(const float, dweight);
  USE(const float, dbias);
  USE(STORAGE(T), dx);
  const index_t end = (index_t)min(begin + piece, (long)total);
  for (index_t at = (index_t)begin; at < end;) {
    const index_t row = at / inner, c = row - row / channels * channels, stop = min((row + 1) * inner, end);
    const float m = mean[c], scale = rstd[c] * weight[c];
    const float even = dbias[c] / count, slope = rstd[c] * dweight[c] / count;
    for (; at + 16 <= stop; at += 16) {
      const float16 v = (LOAD16(T, dy, at) - even - (LOAD16(T, x, at) - m) * slope) * scale;
      STORE16(T, dx, at, v);
    }
    for (; at < stop; at++) {
      const float v = (LOAD(T, dy, at) - even - (LOAD(T, x, at) - m) * slope) * scale;
      STORE(T, dx, at, v);
    }
  }
}

KERNEL(batch_norm_grad_spread)(ARGS) {
  FN(piece)((long)get_global_id(0) * piece, PASS(x), PASS(dy), PASS(weight), PASS(mean), PASS(rstd), PASS(dweight),
            PASS(dbias), PASS(dx), total, piece, channels, inner, count);
}
#undef ARGS
#endif
