/* Batch normalisation: mean and squared deviations of each chunk of a channel, joined chunk by chunk in their order,
 * then every element. A chunk's elements lie in runs of `inner`, one for each sample. */

#ifdef WANT_batch_norm_forward_moments
/* The second pass finds the chunk in the cache, and corrects the first one's mean too. */
#define ARGS                                                                                  \
  ARG(const STORAGE(T), x), ARG(float, moments), const index_t channels, const index_t inner, \
  const index_t count, const index_t chunk, const index_t chunks
BODY(chunk_moments)(const long item, ARGS) {
  if (item >= (long)channels * chunks) return;
  USE(const STORAGE(T), x);
  USE(float, moments);
  const index_t channel = (index_t)item / chunks, begin = ((index_t)item - channel * chunks) * chunk;
  const index_t end = min(begin + chunk, count);
  const float n = (float)max(end - begin, (index_t)1);
  float mean = 0, square = 0;
  for (int pass = 0; pass < 2; pass++) {
    float16 s16 = 0, q16 = 0;
    float s = 0, q = 0;
    for (index_t k = begin; k < end;) {
      const index_t sample = k / inner, first = k - sample * inner, run = min(inner - first, end - k);
      const index_t base = (sample * channels + channel) * inner + first;
      index_t i = 0;
      for (; i + 16 <= run; i += 16) {
        const float16 d = LOAD16(T, x, base + i) - mean;
        s16 += d;
        q16 += d * d;
      }
      for (; i < run; i++) {
        const float d = LOAD(T, x, base + i) - mean;
        s += d;
        q += d * d;
      }
      k += run;
    }
    s = clade_lanes(s16, s);
    square = clade_lanes(q16, q) - s * (s / n); /* the first pass' is not used */
    mean += s / n;
  }
  moments[2 * item] = mean;
  moments[2 * item + 1] = square;
}

KERNEL(batch_norm_forward_moments)(ARGS) {
  FN(chunk_moments)((long)get_global_id(0), PASS(x), PASS(moments), channels, inner, count, chunk, chunks);
}
#undef ARGS
#endif

#ifdef WANT_batch_norm_forward_join
#define ARGS                                                                                                  \
  ARG(const float, moments), ARG(const float, running_mean), ARG(const float, running_var), ARG(float, mean), \
  ARG(float, rstd), ARG(float, next_mean), ARG(float, next_var), const index_t channels, const index_t count, \
  const index_t chunk, const index_t chunks, const float eps, const float momentum
BODY(channel)(const long c, ARGS) {
  if (c >= channels) return;
  USE(const float, moments);
  USE(const float, running_mean);
  USE(const float, running_var);
  USE(float, mean);
  USE(float, rstd);
  USE(float, next_mean);
  USE(float, next_var);
  const float n = (float)max(count, (index_t)1);
  float s = 0, lost = 0, m, square = 0;
  for (index_t k = 0; k < chunks; k++) { /* Knuth's two-sum, of chunks by their sizes */
    const float part = moments[2 * (c * chunks + k)] * (float)min(chunk, count - k * chunk);
    const float sum = s + part, back = sum - s;
    lost += (s - (sum - back)) + (part - back);
    s = sum;
  }
  m = (s + lost) / n;
  for (index_t k = 0; k < chunks; k++) {
    const float d = moments[2 * (c * chunks + k)] - m;
    square += moments[2 * (c * chunks + k) + 1] + d * d * (float)min(chunk, count - k * chunk);
  }
  square = square < 0.0f ? 0.0f : square;
  const float old_mean = running_mean[c], old_var = running_var[c], move = count ? momentum : 0.0f;
  mean[c] = m;
  rstd[c] = 1.0f / sqrt(square / n + eps);
  next_mean[c] = (1.0f - move) * old_mean + move * m;
  next_var[c] = (1.0f - move) * old_var + move * (square / (float)max(count - 1, (index_t)1));
}

KERNEL(batch_norm_forward_join)(ARGS) {
  FN(channel)((long)get_global_id(0), PASS(moments), PASS(running_mean), PASS(running_var), PASS(mean), PASS(rstd),
              PASS(next_mean), PASS(next_var), channels, count, chunk, chunks, eps, momentum);
}
#undef ARGS
#endif

#ifdef WANT_batch_norm_forward_scale
#define ARGS                                                                                                    \
  ARG(const STORAGE(T), x), ARG(const float, weight), ARG(const float, bias), ARG(const float, mean),           \
  ARG(const float, rstd), ARG(STORAGE(T), y), const index_t total, const index_t piece, const index_t channels, \
  const index_t inner
BODY(piece)(const long begin, ARGS) {
  if (begin >= total) return;
  USE(const STORAGE(T), x);
  USE(const float, weight);
  USE(const float, bias);
  USE(const float, mean);
  USE(const float, rstd);
  USE(STORAGE(T), y);
  const index_t end = (index_t)min(begin + piece, (long)total);
  for (index_t at = (index_t)begin; at < end;) {
    const index_t row = at / inner, c = row - row / channels * channels, stop = min((row + 1) * inner, end);
    const float m = mean[c], scale = rstd[c] * weight[c], shift = bias[c];
    for (; at + 16 <= stop; at += 16) {
      const float16 v = (LOAD16(T, x, at) - m) * scale + shift;
      STORE16(T, y, at, v);
    }
    for (; at < stop; at++) STORE(T, y, at, (LOAD(T, x, at) - m) * scale + shift);
  }
}

KERNEL(batch_norm_forward_scale)(ARGS) {
  FN(piece)((long)get_global_id(0) * piece, PASS(x), PASS(weight), PASS(bias), PASS(mean), PASS(rstd), PASS(y),
            total, piece, channels, inner);
}
#undef ARGS
#endif
