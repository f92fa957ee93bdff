/* Softmax cross-entropy and its gradient on GPUs (prelude_group.cl): one team per row; teams add the rows' losses in
 * parts, whose sums one team combines. For the gradient each work-item has four consecutive elements. */

#ifdef WANT_cross_entropy_forward_group_rows
/* The sum of exp(x - top) is compensated, so that the 1 of the largest logit can be subtracted without cancellation. */
KERNEL(cross_entropy_forward_group_rows)
(ARG(const STORAGE(T), x), ARG(const int, labels), ARG(float, losses), ARG(float, stats), const index_t rows,
 const index_t classes, const float smoothing, const int ignore, const int ignored) {
  TEAM_ROOM(float, tops);
  TEAM_ROOM(float2, sums);
  if (TEAM_FIRST >= rows) return;
  USE(const STORAGE(T), x);
  USE(const int, labels);
  USE(float, losses);
  USE(float, stats);
  const bool own = TEAM_LINE < rows, whole = TEAM_WHOLE(x, classes);
  const index_t row = (index_t)TEAM_LINE, base = row * classes, count = own ? classes : 0;
  TEAM_FLOAT most = -INFINITY, s = 0, s_lost = 0, d = 0, d_lost = 0;
  TEAM_FOR(i, count) {
    const TEAM_FLOAT v = TEAM_LOAD(T, x, base, i, count, 1, whole, -INFINITY);
    most = TEAM_LARGER(most, v);
  }
  float top = TEAM_LARGEST(most);
  TEAM_REDUCE(float, top, tops, TEAM_MOST)
  TEAM_FOR(i, count) {
    const TEAM_FLOAT v = exp(TEAM_LOAD(T, x, base, i, count, 1, whole, -INFINITY) - top);
    TEAM_TAKE(s, s_lost, v)
    TEAM_TAKE(d, d_lost, top - TEAM_LOAD(T, x, base, i, count, 1, whole, top))
  }
  float2 sum, distance;
  TEAM_PAIR(sum, s, s_lost);
  TEAM_PAIR(distance, d, d_lost);
  TEAM_REDUCE(float2, sum, sums, TEAM_ADD)
  TEAM_REDUCE(float2, distance, sums, TEAM_ADD)
  if (TEAM_TELLS(rows)) {
    const float rest = sum.x - 1.0f + sum.y, others = rest < 0.0f ? 0.0f : rest;
    const int label = labels[row];
    const bool skip = ignore && label == ignored, known = label >= 0 && label < classes;
    const float away = known ? top - LOAD(T, x, base + label) : NAN;
    const float even = smoothing > 0.0f ? smoothing * (TEAM_TOTAL(distance) / (float)classes) : 0.0f;
    losses[row] = skip ? 0.0f : (1.0f - smoothing) * away + log1p(others) + even;
    stats[2 * row] = top;
    stats[2 * row + 1] = others;
  }
}
#endif

#ifdef WANT_cross_entropy_forward_group_join
/* Adds the losses of a part and counts its labels that are not ignored; with FIRST 0, adds the sums and counts of
 * parts. DIRECT: the result is the mean, if wanted, and the count; otherwise sum and count per part. A group is one
 * spread team. */
KERNEL(cross_entropy_forward_group_join)
(ARG(const float, losses),
#if FIRST
 ARG(const int, labels),
#else
 ARG(const float, numbers),
#endif
 ARG(float, y), ARG(float, count), const index_t parts, const index_t n, const index_t part, const int mean,
 const int ignore, const int ignored) {
  TEAM_ROOM(float2, room);
  if (TEAM_FIRST >= parts) return;
  USE(const float, losses);
#if FIRST
  USE(const int, labels);
#else
  USE(const float, numbers);
#endif
  USE(float, y);
  USE(float, count);
  const index_t line = (index_t)TEAM_LINE, first = line * part, left = min(part, n - first);
  TEAM_FLOAT s = 0, s_lost = 0, q = 0, q_lost = 0;
  TEAM_EACH(i, left) {
#if FIRST
    const float counts = !ignore || labels[first + i] != ignored ? 1.0f : 0.0f;
#else
    const float counts = numbers[first + i];
#endif
    TEAM_TAKE(q, q_lost, counts)
    if (mean) TEAM_TAKE(s, s_lost, losses[first + i])
  }
  float2 sum, number;
  TEAM_PAIR(sum, s, s_lost);
  TEAM_PAIR(number, q, q_lost);
  TEAM_REDUCE(float2, sum, room, TEAM_ADD)
  TEAM_REDUCE(float2, number, room, TEAM_ADD)
  if (TEAM_TELLS(parts)) {
    const float all = TEAM_TOTAL(number);
#if DIRECT
    if (mean) y[line] = TEAM_TOTAL(sum) / fmax(all, 1.0f);
#else
    y[line] = TEAM_TOTAL(sum);
#endif
    count[line] = all;
  }
}
#endif

#ifdef WANT_cross_entropy_grad_group
/* (softmax - target) times the loss's gradient, from the statistics that the forward pass kept for each row. */
KERNEL(cross_entropy_grad_group)
(ARG(const STORAGE(T), x), ARG(const int, labels), ARG(const float, stats), ARG(const float, count),
 ARG(const float, dy), ARG(STORAGE(T), dx), const index_t total, const index_t classes, const int per_sample,
 const float smoothing, const int ignore, const int ignored) {
  if (FOUR_FROM >= total) return;
  USE(const STORAGE(T), x);
  USE(const int, labels);
  USE(const float, stats);
  USE(const float, count);
  USE(const float, dy);
  USE(STORAGE(T), dx);
  const index_t from = (index_t)FOUR_FROM;
  const int left = (int)min(total - from, (index_t)4);
  index_t row = from / classes, at = from - row * classes;
  const float even = smoothing / (float)classes;
  float lane[4], top = 0, others = 0, scale = 0, d = 0;
  int label = 0, skip = 0;
  FOUR_READ(T, lane, x, from, left)
#pragma unroll
  for (int l = 0; l < 4; l++)
    if (l < left) {
      if (l == 0 || at == 0) {
        top = stats[2 * row];
        others = stats[2 * row + 1];
        scale = 1.0f / (1.0f + others);
        label = labels[row];
        skip = ignore && label == ignored;
        d = per_sample ? dy[row] : dy[0] / fmax(count[0], 1.0f);
        d = label >= 0 && label < classes ? d : NAN;
      }
      /* for the largest logit, 1 - softmax is known more accurately than by subtraction */
      const float v = lane[l], p = exp(v - top) * scale, less = v == top ? -others * scale : p - 1.0f;
      const float off = at == label ? less + (smoothing - even) : p - even;
      lane[l] = skip ? 0.0f : off * d;
      if (++at == classes) {
        at = 0;
        row++;
      }
    }
  FOUR_STORE(T, dx, from, left, lane)
}
#endif
