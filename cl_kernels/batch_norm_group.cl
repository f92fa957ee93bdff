/* Batch normalization and its gradients by teams of work-items (prelude_group.cl). A team that has a whole channel does
 * everything in one launch and reads the channel once per pass, from the second pass on from the cache. For larger
 * channels there are three launches: a channel consists of one or several columns (src/op/move/channels.c), and a team
 * reduces a chunk of a column; then one team per channel combines its chunks; then all elements are computed. Teams are
 * spread if a column's elements are `columns` apart; otherwise columns are made of contiguous runs. */
#define COLUMNS                                                                                           \
  ARG(float, sums), const index_t columns, const index_t beside, const index_t run, const index_t length, \
      const index_t chunk, const index_t chunks

/* A team's chunk: elements [begin, end) of a column; empty for a team behind the last one. */
#define CHUNK_OF_LINE                                                                                     \
  const long all = (long)columns * chunks;                                                                \
  const index_t line = (index_t)TEAM_LINE, part = line / columns, column = line - part * columns;         \
  const index_t begin = part * chunk, end = TEAM_LINE < all ? min(begin + chunk, length) : begin;

/* Contiguous elements of the chunk from k on: `some` of them, the first one at `base`. All of them if teams are spread.
 */
#if SPREAD
#define RUN_AT(k) const index_t some = end - (k), base = (k) * columns + column;
#else
#define RUN_AT(k)                                                         \
  const index_t sample = (k) / run, first = (k) - sample * run;           \
  const index_t some = min(run - first, end - (k)), base = (sample * columns + column) * run + first;
#endif

/* Partial sum number k of channel c, and its number of elements. */
#define SUM_AT(k)                                                                   \
  const index_t part = (k) / beside, at = part * columns + c * beside + (k) - part * beside; \
  const float few = (float)min(chunk, length - part * chunk);

/* A whole channel: its number, and the number of its elements; 0 for a team behind the last channel. A loop over this
 * item's elements, of which `at` is the position: a channel consists of runs of `inner` elements. */
#define WHOLE                                                                              \
  const index_t c = (index_t)TEAM_LINE, count = TEAM_LINE < channels ? length : 0;         \
  const index_t skip = (channels - 1) * inner, leap = TEAM + TEAM / inner * skip;          \
  const float n = (float)max(length, (index_t)1);
#define WHOLE_EACH(at)                                                                     \
  _Pragma("clang loop vectorize(disable)")                                                 \
  for (index_t k = TEAM_LANE, pixel = k % inner, at = k + k / inner * skip + c * inner; k < count;                      \
       k += TEAM, pixel += TEAM % inner, at += leap + (pixel >= inner ? skip : 0), pixel -= pixel >= inner ? inner : 0)

/* Stores the statistics of channel c of n elements. */
#define STATISTICS(m, r, squares, elements)                                                             \
  {                                                                                                     \
    const float move = (elements) ? momentum : 0.0f, old_mean = running_mean[c], old_var = running_var[c]; \
    mean[c] = m;                                                                                        \
    rstd[c] = r;                                                                                        \
    next_mean[c] = (1.0f - move) * old_mean + move * (m);                                               \
    next_var[c] = (1.0f - move) * old_var + move * ((squares) / (float)max((elements) - 1, (index_t)1)); \
  }

/* Channel and pixel of the first of an item's four elements. */
#define FOUR_PLACE                                                        \
  const index_t from = (index_t)FOUR_FROM, row = from / inner;            \
  const int left = (int)min(total - from, (index_t)4);                    \
  index_t pixel = from - row * inner, c = row - row / channels * channels;
#define FOUR_NEXT              \
  if (++pixel == inner) {      \
    pixel = 0;                 \
    if (++c == channels) c = 0; \
  }

#ifdef WANT_batch_norm_forward_group_moments
KERNEL(batch_norm_forward_group_moments)(ARG(const STORAGE(T), x), COLUMNS) {
  TEAM_ROOM(float2, room);
  if (TEAM_FIRST >= (long)columns * chunks) return;
  USE(const STORAGE(T), x);
  USE(float, sums);
  CHUNK_OF_LINE
  const bool whole = TEAM_WHOLE(x, run);
  TEAM_FLOAT s = 0, s_lost = 0, q = 0, q_lost = 0;
  for (index_t k = begin; k < end;) {
    RUN_AT(k)
    TEAM_FOR(i, some) TEAM_TAKE(s, s_lost, TEAM_LOAD(T, x, base, i, some, columns, whole, 0.0f))
    k += some;
  }
  float2 sum, square;
  TEAM_PAIR(sum, s, s_lost);
  TEAM_REDUCE(float2, sum, room, TEAM_ADD)
  const float mean = TEAM_TOTAL(sum) / (float)max(end - begin, (index_t)1);
  for (index_t k = begin; k < end;) {
    RUN_AT(k)
    TEAM_FOR(i, some) {
      const TEAM_FLOAT d = TEAM_LOAD(T, x, base, i, some, columns, whole, mean) - mean;
      TEAM_TAKE(q, q_lost, d * d)
    }
    k += some;
  }
  TEAM_PAIR(square, q, q_lost);
  TEAM_REDUCE(float2, square, room, TEAM_ADD)
  if (TEAM_TELLS(all)) {
    sums[line] = mean;
    sums[all + line] = TEAM_TOTAL(square);
  }
}
#endif

#ifdef WANT_batch_norm_forward_group_join
/* Combines means, weighted by their numbers of elements; then squared deviations, corrected by each part's distance
 * from the mean. */
KERNEL(batch_norm_forward_group_join)
(COLUMNS, ARG(const float, running_mean), ARG(const float, running_var), ARG(float, mean), ARG(float, rstd),
 ARG(float, next_mean), ARG(float, next_var), const index_t channels, const float eps, const float momentum) {
  TEAM_ROOM(float2, room);
  if (TEAM_FIRST >= channels) return;
  USE(float, sums);
  USE(const float, running_mean);
  USE(const float, running_var);
  USE(float, mean);
  USE(float, rstd);
  USE(float, next_mean);
  USE(float, next_var);
  const long all = (long)columns * chunks;
  const index_t c = (index_t)TEAM_LINE, count = TEAM_LINE < channels ? chunks * beside : 0, elements = length * beside;
  const float n = (float)max(elements, (index_t)1);
  TEAM_FLOAT s = 0, s_lost = 0, q = 0, q_lost = 0;
  TEAM_EACH(k, count) {
    SUM_AT(k)
    TEAM_TAKE(s, s_lost, sums[at] * few)
  }
  float2 sum, square;
  TEAM_PAIR(sum, s, s_lost);
  TEAM_REDUCE(float2, sum, room, TEAM_ADD)
  const float m = TEAM_TOTAL(sum) / n;
  TEAM_EACH(k, count) {
    SUM_AT(k)
    const float d = sums[at] - m;
    TEAM_TAKE(q, q_lost, sums[all + at] + d * d * few)
  }
  TEAM_PAIR(square, q, q_lost);
  TEAM_REDUCE(float2, square, room, TEAM_ADD)
  const float squares = TEAM_TOTAL(square);
  if (TEAM_TELLS(channels)) STATISTICS(m, 1.0f / sqrt(squares / n + eps), squares, elements)
}
#endif

/* The epilogue's operands have y's memory order. */
#undef EPILOGUE_ELEMENT
#define EPILOGUE_AT(strides) 0
#define EPILOGUE_ELEMENT(s)  at
#ifdef WANT_batch_norm_forward_group_whole
GROUP(TEAM * BESIDE, 1, 1)
KERNEL(batch_norm_forward_group_whole)
(ARG(const STORAGE(T), x), ARG(const float, weight), ARG(const float, bias), ARG(const float, running_mean),
 ARG(const float, running_var), ARG(STORAGE(T), y), ARG(float, mean), ARG(float, rstd), ARG(float, next_mean),
 ARG(float, next_var), const index_t channels, const index_t inner, const index_t length, const float eps,
 const float momentum EPILOGUE_ARGS) {
  TEAM_ROOM(float2, room);
  if (TEAM_FIRST >= channels) return;
  USE(const STORAGE(T), x);
  USE(const float, weight);
  USE(const float, bias);
  USE(const float, running_mean);
  USE(const float, running_var);
  USE(STORAGE(T), y);
  USE(float, mean);
  USE(float, rstd);
  USE(float, next_mean);
  USE(float, next_var);
  EPILOGUE_USE
  WHOLE
  TEAM_FLOAT s = 0, s_lost = 0, q = 0, q_lost = 0;
  WHOLE_EACH(at) TEAM_TAKE(s, s_lost, LOAD(T, x, at))
  float2 sum, square;
  TEAM_PAIR(sum, s, s_lost);
  TEAM_REDUCE(float2, sum, room, TEAM_ADD)
  const float m = TEAM_TOTAL(sum) / n;
  WHOLE_EACH(at) {
    const float d = LOAD(T, x, at) - m;
    TEAM_TAKE(q, q_lost, d * d)
  }
  TEAM_PAIR(square, q, q_lost);
  TEAM_REDUCE(float2, square, room, TEAM_ADD)
  const float squares = TEAM_TOTAL(square), inverse = 1.0f / sqrt(squares / n + eps);
  if (TEAM_TELLS(channels)) STATISTICS(m, inverse, squares, length)
  const float scale = count ? inverse * weight[c] : 0, shift = count ? bias[c] : 0;
  WHOLE_EACH(at) {
    const float i0 = fma(LOAD(T, x, at) - m, scale, shift);
    EPILOGUE
    STORE(T, y, at, r);
  }
}
#endif

#ifdef WANT_batch_norm_forward_group_scale
KERNEL(batch_norm_forward_group_scale)
(ARG(const STORAGE(T), x), ARG(const float, weight), ARG(const float, bias), ARG(const float, mean),
 ARG(const float, rstd), ARG(STORAGE(T), y), const index_t total, const index_t channels,
 const index_t inner EPILOGUE_ARGS) {
  if (FOUR_FROM >= total) return;
  USE(const STORAGE(T), x);
  USE(const float, weight);
  USE(const float, bias);
  USE(const float, mean);
  USE(const float, rstd);
  USE(STORAGE(T), y);
  EPILOGUE_USE
  FOUR_PLACE
  float lane[4], m = 0, scale = 0, shift = 0;
  FOUR_READ(T, lane, x, from, left)
#pragma unroll
  for (int l = 0; l < 4; l++)
    if (l < left) {
      const index_t at = from + l;
      if (l == 0 || pixel == 0) {
        m = mean[c];
        scale = rstd[c] * weight[c];
        shift = bias[c];
      }
      const float i0 = fma(lane[l] - m, scale, shift);
      EPILOGUE
      lane[l] = r;
      FOUR_NEXT
    }
  FOUR_STORE(T, y, from, left, lane)
}
#endif
#undef EPILOGUE_ELEMENT
#define EPILOGUE_ELEMENT(s) CLADE_EPILOGUE_ELEMENT(s)

#ifdef WANT_batch_norm_grad_group_whole
/* dx = weight rstd (dy - (sum dy + xhat sum(dy xhat)) / count), where xhat = (x - mean) rstd. */
GROUP(TEAM * BESIDE, 1, 1)
KERNEL(batch_norm_grad_group_whole)
(ARG(const STORAGE(T), x), ARG(const STORAGE(T), dy), ARG(const float, weight), ARG(const float, mean),
 ARG(const float, rstd), ARG(STORAGE(T), dx), ARG(float, dweight), ARG(float, dbias), const index_t channels,
 const index_t inner, const index_t length) {
  TEAM_ROOM(float2, room);
  if (TEAM_FIRST >= channels) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), dy);
  USE(const float, weight);
  USE(const float, mean);
  USE(const float, rstd);
  USE(STORAGE(T), dx);
  USE(float, dweight);
  USE(float, dbias);
  WHOLE
  const float m = count ? mean[c] : 0, inverse = TEAM_LINE < channels ? rstd[c] : 0;
  TEAM_FLOAT s = 0, s_lost = 0, q = 0, q_lost = 0;
  WHOLE_EACH(at) {
    const float d = LOAD(T, dy, at);
    TEAM_TAKE(s, s_lost, d)
    TEAM_TAKE(q, q_lost, d * (LOAD(T, x, at) - m))
  }
  float2 sum, product;
  TEAM_PAIR(sum, s, s_lost);
  TEAM_PAIR(product, q, q_lost);
  TEAM_REDUCE(float2, sum, room, TEAM_ADD)
  TEAM_REDUCE(float2, product, room, TEAM_ADD)
  const float all = TEAM_TOTAL(sum), slanted = TEAM_TOTAL(product) * inverse;
  if (TEAM_TELLS(channels)) {
    dbias[c] = all;
    dweight[c] = slanted;
  }
  const float scale = count ? inverse * weight[c] : 0, even = all / n, slope = inverse * slanted / n;
  WHOLE_EACH(at) STORE(T, dx, at, (LOAD(T, dy, at) - even - (LOAD(T, x, at) - m) * slope) * scale);
}
#endif

#ifdef WANT_batch_norm_grad_group_sums
/* Sums of dy and of dy (x - mean). */
KERNEL(batch_norm_grad_group_sums)
(ARG(const STORAGE(T), x), ARG(const STORAGE(T), dy), ARG(const float, mean), COLUMNS) {
  TEAM_ROOM(float2, room);
  if (TEAM_FIRST >= (long)columns * chunks) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), dy);
  USE(const float, mean);
  USE(float, sums);
  CHUNK_OF_LINE
  const bool whole = TEAM_WHOLE(x, run) && TEAM_WHOLE(dy, run);
  const float m = TEAM_LINE < all ? mean[column / beside] : 0;
  TEAM_FLOAT s = 0, s_lost = 0, q = 0, q_lost = 0;
  for (index_t k = begin; k < end;) {
    RUN_AT(k)
    TEAM_FOR(i, some) {
      const TEAM_FLOAT d = TEAM_LOAD(T, dy, base, i, some, columns, whole, 0.0f);
      TEAM_TAKE(s, s_lost, d)
      TEAM_TAKE(q, q_lost, d * (TEAM_LOAD(T, x, base, i, some, columns, whole, m) - m))
    }
    k += some;
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

#ifdef WANT_batch_norm_grad_group_join
KERNEL(batch_norm_grad_group_join)
(COLUMNS, ARG(const float, rstd), ARG(float, dweight), ARG(float, dbias), const index_t channels) {
  TEAM_ROOM(float2, room);
  if (TEAM_FIRST >= channels) return;
  USE(float, sums);
  USE(const float, rstd);
  USE(float, dweight);
  USE(float, dbias);
  const long all = (long)columns * chunks;
  const index_t c = (index_t)TEAM_LINE, count = TEAM_LINE < channels ? chunks * beside : 0;
  TEAM_FLOAT s = 0, s_lost = 0, q = 0, q_lost = 0;
  TEAM_EACH(k, count) {
    const index_t part = k / beside, at = part * columns + c * beside + k - part * beside;
    TEAM_TAKE(s, s_lost, sums[at])
    TEAM_TAKE(q, q_lost, sums[all + at])
  }
  float2 sum, product;
  TEAM_PAIR(sum, s, s_lost);
  TEAM_PAIR(product, q, q_lost);
  TEAM_REDUCE(float2, sum, room, TEAM_ADD)
  TEAM_REDUCE(float2, product, room, TEAM_ADD)
  if (TEAM_TELLS(channels)) {
    dbias[c] = TEAM_TOTAL(sum);
    dweight[c] = TEAM_TOTAL(product) * rstd[c];
  }
}
#endif

#ifdef WANT_batch_norm_grad_group_spread
KERNEL(batch_norm_grad_group_spread)
(ARG(const STORAGE(T), x), ARG(const STORAGE(T), dy), ARG(const float, weight), ARG(const float, mean),
 ARG(const float, rstd), ARG(const float, dweight), ARG(const float, dbias), ARG(STORAGE(T), dx), const index_t total,
 const index_t channels, const index_t inner, const float count) {
  if (FOUR_FROM >= total) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), dy);
  USE(const float, weight);
  USE(const float, mean);
  USE(const float, rstd);
  USE(const float, dweight);
  USE(const float, dbias);
  USE(STORAGE(T), dx);
  FOUR_PLACE
  float lane[4], off[4], m = 0, scale = 0, even = 0, slope = 0;
  FOUR_READ(T, off, x, from, left)
  FOUR_READ(T, lane, dy, from, left)
#pragma unroll
  for (int l = 0; l < 4; l++)
    if (l < left) {
      if (l == 0 || pixel == 0) {
        m = mean[c];
        scale = rstd[c] * weight[c];
        even = dbias[c] / count;
        slope = rstd[c] * dweight[c] / count;
      }
      lane[l] = (lane[l] - even - (off[l] - m) * slope) * scale;
      FOUR_NEXT
    }
  FOUR_STORE(T, dx, from, left, lane)
}
#endif
