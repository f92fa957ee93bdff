/* Normalization of rows and its gradients by teams of work-items (prelude_group.cl): mean, then mean square of the
 * deviations, then the results, with one read of the row each. Each element is read and written by the same item, so y
 * may be x. RUNS: each weight and bias applies to `inner` consecutive elements, and rows use all of them in turn, with
 * a period of `period` rows; otherwise there is one per element of a row. layer_norm_grad's own kernel combines the
 * sums. */
#if RUNS
#define OF_RUN(p, i)                                                                                  \
  (float4)(p[first + (i) / inner], p[first + min((i) + 1, n - 1) / inner],                            \
           p[first + min((i) + 2, n - 1) / inner], p[first + min((i) + 3, n - 1) / inner])
#else
#define OF_RUN(p, i) TEAM_LOAD(f32, p, 0, i, n, 1, whole, 0.0f)
#endif

#ifdef WANT_layer_norm_forward_group
KERNEL(layer_norm_forward_group)
(ARG(const STORAGE(T), x), ARG(const float, weight), ARG(const float, bias), ARG(STORAGE(T), y), ARG(float, means),
 ARG(float, rstds), const index_t rows, const index_t n, const index_t inner, const index_t period, const int rms,
 const float eps) {
  TEAM_ROOM(float2, room);
  if (TEAM_FIRST >= rows) return;
  USE(const STORAGE(T), x);
  USE(const float, weight);
  USE(const float, bias);
  USE(STORAGE(T), y);
  USE(float, means);
  USE(float, rstds);
  const bool own = TEAM_LINE < rows;
  const bool whole = TEAM_WHOLE(x, n) && TEAM_WHOLE(y, n) && TEAM_WHOLE(weight, n) && TEAM_WHOLE(bias, n);
  const index_t row = (index_t)TEAM_LINE, base = row * n, count = own ? n : 0;
  const float elements = (float)max(n, (index_t)1);
  float mean = 0;
  if (!rms) { /* the same for all items of the group */
    TEAM_FLOAT s = 0, lost = 0;
    TEAM_FOR(i, count) TEAM_TAKE(s, lost, TEAM_LOAD(T, x, base, i, count, 1, whole, 0.0f))
    float2 sum;
    TEAM_PAIR(sum, s, lost);
    TEAM_REDUCE(float2, sum, room, TEAM_ADD)
    mean = TEAM_TOTAL(sum) / elements;
  }
  TEAM_FLOAT q = 0, q_lost = 0;
  TEAM_FOR(i, count) {
    const TEAM_FLOAT d = TEAM_LOAD(T, x, base, i, count, 1, whole, mean) - mean;
    TEAM_TAKE(q, q_lost, d * d)
  }
  float2 square;
  TEAM_PAIR(square, q, q_lost);
  TEAM_REDUCE(float2, square, room, TEAM_ADD)
  const float rstd = 1.0f / sqrt(TEAM_TOTAL(square) / elements + eps);
#if RUNS
  const index_t first = row % period * (n / inner);
#endif
  TEAM_FOR(i, count) {
    const TEAM_FLOAT d = TEAM_LOAD(T, x, base, i, count, 1, whole, 0.0f) - mean;
    TEAM_STORE(T, y, base, i, count, 1, whole, d * rstd * OF_RUN(weight, i) + OF_RUN(bias, i));
  }
  if (TEAM_TELLS(rows)) {
    means[row] = mean;
    rstds[row] = rstd;
  }
}
#endif

#ifdef WANT_layer_norm_grad_group
/* Gradient for x, row by row: rstd (g - (sum g + xhat sum(g xhat)) / n) with g = dy weight; for RMS normalization
 * without sum g. */
KERNEL(layer_norm_grad_group)
(ARG(const STORAGE(T), x), ARG(const STORAGE(T), dy), ARG(const float, weight), ARG(const float, mean),
 ARG(const float, rstd), ARG(STORAGE(T), dx), const index_t rows, const index_t n, const index_t inner,
 const index_t period, const int rms) {
  TEAM_ROOM(float2, room);
  if (TEAM_FIRST >= rows) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), dy);
  USE(const float, weight);
  USE(const float, mean);
  USE(const float, rstd);
  USE(STORAGE(T), dx);
  const bool own = TEAM_LINE < rows;
  const bool whole = TEAM_WHOLE(x, n) && TEAM_WHOLE(dy, n) && TEAM_WHOLE(dx, n) && TEAM_WHOLE(weight, n);
  const index_t row = (index_t)TEAM_LINE, base = row * n, count = own ? n : 0;
  const float m = own ? mean[row] : 0, r = own ? rstd[row] : 0;
#if RUNS
  const index_t first = row % period * (n / inner);
#endif
  TEAM_FLOAT s = 0, s_lost = 0, q = 0, q_lost = 0;
  TEAM_FOR(i, count) {
    const TEAM_FLOAT g = TEAM_LOAD(T, dy, base, i, count, 1, whole, 0.0f) * OF_RUN(weight, i);
    TEAM_TAKE(s, s_lost, g)
    TEAM_TAKE(q, q_lost, g * (TEAM_LOAD(T, x, base, i, count, 1, whole, m) - m))
  }
  float2 sum, product;
  TEAM_PAIR(sum, s, s_lost);
  TEAM_PAIR(product, q, q_lost);
  TEAM_REDUCE(float2, sum, room, TEAM_ADD)
  TEAM_REDUCE(float2, product, room, TEAM_ADD)
  const float even = rms ? 0.0f : TEAM_TOTAL(sum) / (float)n, slope = TEAM_TOTAL(product) * r * r / (float)n;
  TEAM_FOR(i, count) {
    const TEAM_FLOAT g = TEAM_LOAD(T, dy, base, i, count, 1, whole, 0.0f) * OF_RUN(weight, i);
    const TEAM_FLOAT off = TEAM_LOAD(T, x, base, i, count, 1, whole, 0.0f) - m;
    TEAM_STORE(T, dx, base, i, count, 1, whole, (g - even - off * slope) * r);
  }
}
#endif

#ifdef WANT_layer_norm_grad_group_sums
/* For weight and bias of rows: sums of dy and of dy xhat over a chunk of the rows of a column. Teams are spread. */
KERNEL(layer_norm_grad_group_sums)
(ARG(const STORAGE(T), x), ARG(const STORAGE(T), dy), ARG(const float, mean), ARG(const float, rstd), ARG(float, sums),
 const index_t rows, const index_t n, const index_t chunk, const index_t chunks) {
  TEAM_ROOM(float2, room);
  if (TEAM_FIRST >= (long)n * chunks) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), dy);
  USE(const float, mean);
  USE(const float, rstd);
  USE(float, sums);
  const long all = (long)n * chunks;
  const index_t line = (index_t)TEAM_LINE, part = line / n, column = line - part * n, begin = part * chunk;
  const index_t count = TEAM_LINE < all ? min(chunk, rows - begin) : 0;
  TEAM_FLOAT s = 0, s_lost = 0, q = 0, q_lost = 0;
  TEAM_FOR(i, count) {
    const index_t row = begin + i, at = row * n + column;
    const float d = LOAD(T, dy, at);
    TEAM_TAKE(s, s_lost, d)
    TEAM_TAKE(q, q_lost, d * ((LOAD(T, x, at) - mean[row]) * rstd[row]))
  }
  float2 sum, product;
  TEAM_PAIR(sum, s, s_lost);
  TEAM_PAIR(product, q, q_lost);
  TEAM_REDUCE(float2, sum, room, TEAM_ADD)
  TEAM_REDUCE(float2, product, room, TEAM_ADD)
  if (TEAM_TELLS(all)) {
    sums[line] = TEAM_TOTAL(sum);
    sums[all + line] = TEAM_TOTAL(product);
  }
}
#endif

#ifdef WANT_layer_norm_grad_group_runs
/* For weight and bias of groups: sums over the elements of a channel, in a chunk of the samples. */
KERNEL(layer_norm_grad_group_runs)
(ARG(const STORAGE(T), x), ARG(const STORAGE(T), dy), ARG(const float, mean), ARG(const float, rstd), ARG(float, sums),
 const index_t samples, const index_t channels, const index_t chunk, const index_t chunks, const index_t inner,
 const index_t period) {
  TEAM_ROOM(float2, room);
  if (TEAM_FIRST >= (long)channels * chunks) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), dy);
  USE(const float, mean);
  USE(const float, rstd);
  USE(float, sums);
  const long all = (long)channels * chunks;
  const bool whole = TEAM_WHOLE(x, inner) && TEAM_WHOLE(dy, inner);
  const index_t line = (index_t)TEAM_LINE, part = line / channels, channel = line - part * channels;
  const index_t begin = part * chunk, end = TEAM_LINE < all ? min(begin + chunk, samples) : begin;
  const index_t group = channel / (channels / period);
  TEAM_FLOAT s = 0, s_lost = 0, q = 0, q_lost = 0;
  for (index_t sample = begin; sample < end; sample++) {
    const index_t base = (sample * channels + channel) * inner;
    const float m = mean[sample * period + group], r = rstd[sample * period + group];
    TEAM_FOR(i, inner) {
      const TEAM_FLOAT d = TEAM_LOAD(T, dy, base, i, inner, 1, whole, 0.0f);
      TEAM_TAKE(s, s_lost, d)
      TEAM_TAKE(q, q_lost, d * ((TEAM_LOAD(T, x, base, i, inner, 1, whole, m) - m) * r))
    }
  }
  float2 sum, product;
  TEAM_PAIR(sum, s, s_lost);
  TEAM_PAIR(product, q, q_lost);
  TEAM_REDUCE(float2, sum, room, TEAM_ADD)
  TEAM_REDUCE(float2, product, room, TEAM_ADD)
  if (TEAM_TELLS(all)) {
    sums[line] = TEAM_TOTAL(sum);
    sums[all + line] = TEAM_TOTAL(product);
  }
}
#endif
