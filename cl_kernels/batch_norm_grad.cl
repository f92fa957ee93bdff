/* Gradients of batch normalization: per channel the sums of dy and of dy (x - mean), chunk by chunk, then for each
 * element dx = weight rstd (dy - (sum dy + xhat sum(dy xhat)) / count), where xhat = (x - mean) rstd. BLOCK channels
 * are adjacent, 1 or 16. `whole` and `turn` work as in batch_norm.cl. */

#if defined WANT_batch_norm_grad_whole || defined WANT_batch_norm_grad_turn
#define WANT_batch_norm_grad_all
#endif

#if defined WANT_batch_norm_grad_sums || defined WANT_batch_norm_grad_all
#define ARGS                                                                                                  \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), dy), ARG(const float, mean), ARG(float, sums),              \
  const index_t channels, const index_t inner, const index_t count, const index_t chunk, const index_t chunks, \
  const index_t block
BODY(batch_norm_grad_sums_item)(const long item, ARGS) {
  const index_t groups = (channels + max(block, (index_t)1) - 1) / max(block, (index_t)1);
  if (item >= (long)groups * chunks) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), dy);
  USE(const float, mean);
  USE(float, sums);
  const index_t group = (index_t)item / chunks, part = (index_t)item - group * chunks, step = 16 / block;
  const index_t begin = part * chunk, end = min(begin + chunk, count);
  const float16 m = CHANNELS(mean, group * block);
  float16 s16 = 0, q16 = 0;
  float s = 0, q = 0;
  for (index_t k = begin; k < end;) {
    const index_t sample = k / inner, first = k - sample * inner, run = min(inner - first, end - k);
    const index_t base = ((sample * groups + group) * inner + first) * block;
    index_t i = 0;
    for (; i + step <= run; i += step) {
      const float16 d = LOAD16(T, dy, base + i * block);
      const index_t ahead = base + min(i * block + AHEAD / 2, (inner - first) * block - 1);
      SOON(dy + ahead);
      SOON(x + ahead);
      s16 += d;
      q16 = fma(d, LOAD16(T, x, base + i * block) - m, q16);
    }
#pragma clang loop vectorize(disable) unroll(disable)
    for (; i < run; i++) { /* of one channel */
      const float d = LOAD(T, dy, base + i);
      s += d;
      q = fma(d, LOAD(T, x, base + i) - m.s0, q);
    }
    k += run;
  }
  float a[16], b[16];
  vstore16(block == 1 ? (float16)(clade_lanes(s16, s)) : s16, 0, a);
  vstore16(block == 1 ? (float16)(clade_lanes(q16, q)) : q16, 0, b);
  for (index_t l = 0; l < min(block, channels - group * block); l++) {
    const index_t to = 2 * ((group * block + l) * chunks + part);
    sums[to] = a[l];
    sums[to + 1] = b[l];
  }
}

#ifdef WANT_batch_norm_grad_sums
KERNEL(batch_norm_grad_sums)(ARGS) {
  FN(batch_norm_grad_sums_item)((long)get_global_id(0), PASS(x), PASS(dy), PASS(mean), PASS(sums), channels, inner, count, chunk,
                 chunks, block);
}
#endif
#undef ARGS
#endif

#if defined WANT_batch_norm_grad_join || defined WANT_batch_norm_grad_all
static inline float2 FN(joined)(const __global float *sums, const long c, const index_t chunks) {
  float s = 0, s_lost = 0, q = 0, q_lost = 0;
  for (index_t k = 0; k < chunks; k++) {
    clade_take(&s, &s_lost, sums[2 * (c * chunks + k)]);
    clade_take(&q, &q_lost, sums[2 * (c * chunks + k) + 1]);
  }
  return (float2)(s + s_lost, q + q_lost);
}

#define ARGS                                                                              \
  ARG(const float, sums), ARG(const float, rstd), ARG(float, dweight), ARG(float, dbias), \
  const index_t channels, const index_t chunks
BODY(batch_norm_grad_join_item)(const long c, ARGS) {
  if (c >= channels) return;
  USE(const float, sums);
  USE(const float, rstd);
  USE(float, dweight);
  USE(float, dbias);
  const float2 s = FN(joined)(sums, c, chunks);
  dbias[c] = s.s0;
  dweight[c] = s.s1 * rstd[c];
}

#ifdef WANT_batch_norm_grad_join
KERNEL(batch_norm_grad_join)(ARGS) {
  FN(batch_norm_grad_join_item)((long)get_global_id(0), PASS(sums), PASS(rstd), PASS(dweight), PASS(dbias), channels, chunks);
}
#endif
#undef ARGS
#endif

#if defined WANT_batch_norm_grad_spread || defined WANT_batch_norm_grad_all
#define ARGS                                                                                               \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), dy), ARG(const float, weight), ARG(const float, mean),   \
  ARG(const float, rstd), ARG(const float, dweight), ARG(const float, dbias), ARG(STORAGE(T), dx),         \
  const index_t total, const index_t piece, const index_t channels, const index_t inner, const float count, \
  const index_t block, const int stream
BODY(batch_norm_grad_spread_item)(const long item, ARGS) {
  const long begin = item * piece;
  if (begin >= total) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), dy);
  USE(const float, weight);
  USE(const float, mean);
  USE(const float, rstd);
  USE(const float, dweight);
  USE(const float, dbias);
  USE(STORAGE(T), dx);
  const index_t end = (index_t)min(begin + piece, (long)total), plane = inner * block;
  for (index_t at = (index_t)begin; at < end;) {
    const index_t row = at / plane, c = row % ((channels + block - 1) / block) * block;
    const index_t stop = min((row + 1) * plane, end);
    const float16 m = CHANNELS(mean, c), r = CHANNELS(rstd, c), scale = r * CHANNELS(weight, c);
    const float16 even = CHANNELS(dbias, c) / count, slope = r * CHANNELS(dweight, c) / count;
    for (; at + 16 <= stop; at += 16) {
      const float16 v = (LOAD16(T, dy, at) - even - (LOAD16(T, x, at) - m) * slope) * scale;
      const index_t ahead = min(at + AHEAD / 2, (row + 1) * plane - 1);
      SOON(dy + ahead);
      SOON(x + ahead);
      STREAM16(T, dx, at, v, stream);
    }
#pragma clang loop vectorize(disable) unroll(disable)
    for (; at < stop; at++) {
      const float v = (LOAD(T, dy, at) - even.s0 - (LOAD(T, x, at) - m.s0) * slope.s0) * scale.s0;
      STORE(T, dx, at, v);
    }
  }
}

#ifdef WANT_batch_norm_grad_spread
KERNEL(batch_norm_grad_spread)(ARGS) {
  FN(batch_norm_grad_spread_item)((long)get_global_id(0), PASS(x), PASS(dy), PASS(weight), PASS(mean), PASS(rstd), PASS(dweight),
            PASS(dbias), PASS(dx), total, piece, channels, inner, count, block, stream);
}
#endif
#undef ARGS
#endif

#ifdef WANT_batch_norm_grad_whole
#define ARGS                                                                                                     \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), dy), ARG(const float, weight), ARG(const float, mean),         \
  ARG(const float, rstd), ARG(STORAGE(T), dx), ARG(float, dweight), ARG(float, dbias), ARG(float, sums),         \
  const index_t channels, const index_t inner, const index_t count, const index_t chunk, const index_t chunks,   \
  const index_t block, const int stream
BODY(batch_norm_grad_whole_item)(const long group, ARGS) {
  const index_t groups = (channels + max(block, (index_t)1) - 1) / max(block, (index_t)1), plane = inner * block;
  if (group >= groups) return;
  for (index_t part = 0; part < chunks; part++)
    FN(batch_norm_grad_sums_item)(group * chunks + part, PASS(x), PASS(dy), PASS(mean), PASS(sums), channels, inner, count, chunk, chunks,
                                  block);
  for (long c = group * block; c < min((group + 1) * block, (long)channels); c++)
    FN(batch_norm_grad_join_item)(c, PASS(sums), PASS(rstd), PASS(dweight), PASS(dbias), channels, chunks);
  for (index_t sample = 0; sample * inner < count; sample++)
    FN(batch_norm_grad_spread_item)((long)sample * groups + group, PASS(x), PASS(dy), PASS(weight), PASS(mean), PASS(rstd),
                                    PASS(dweight), PASS(dbias), PASS(dx), count * groups * block, plane, channels, inner,
                                    (float)count, block, stream);
}

KERNEL(batch_norm_grad_whole)(ARGS) {
  FN(batch_norm_grad_whole_item)((long)get_global_id(0), PASS(x), PASS(dy), PASS(weight), PASS(mean), PASS(rstd), PASS(dx),
                                 PASS(dweight), PASS(dbias), PASS(sums), channels, inner, count, chunk, chunks, block, stream);
}
#undef ARGS
#endif

#ifdef WANT_batch_norm_grad_turn
/* As in batch_norm.cl, with two windows, for x and for dy. */
#define SUM                                                       \
  const float16 v = LOAD16(T, x, run.at + j), d = LOAD16(T, dy, run.at + j); \
  ONCE(dy + run.soon + j);                                        \
  ONCE(x + run.soon + j);                                         \
  s += d;                                                         \
  q = fma(d, v - next, q);                                        \
  STORE16(f32, window, i + j, v);                                 \
  STORE16(f32, window, count + i + j, d);
#define BOTH(PUT)                                                                               \
  for (index_t j = 0; j < run.count; j += 16) {                                                 \
    const float16 off = LOAD16(f32, window, i + j) - m, g = LOAD16(f32, window, count + i + j); \
    SUM                                                                                         \
    PUT(T, dx, before + j, (g - even - off * slope) * scale);                                   \
  }
#define ARGS                                                                                                     \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), dy), ARG(const float, weight), ARG(const float, mean),         \
  ARG(const float, rstd), ARG(STORAGE(T), dx), ARG(float, dweight), ARG(float, dbias), ARG(float, sums),         \
  const index_t channels, const index_t inner, const index_t count, const index_t chunk, const index_t chunks,   \
  const index_t block, const int stream, ARG(float, window), const index_t share, const index_t turn
BODY(batch_norm_grad_turn_item)(const long item, ARGS) {
  const index_t from = (index_t)item * share, to = min(from + share, chunks), begin = from * chunk, end = min(to * chunk, count);
  if (begin >= end) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), dy);
  USE(const float, weight);
  USE(const float, mean);
  USE(const float, rstd);
  USE(STORAGE(T), dx);
  USE(float, dweight);
  USE(float, dbias);
  USE(float, sums);
  USE(float, window);
  const index_t past = max(turn - 1, (index_t)0), c = min(turn, channels - 1);
  float2 of = 0;
  if (turn) of = FN(joined)(sums, past, chunks);
  const float16 m = mean[past], next = mean[c], scale = rstd[past] * weight[past];
  const float by_weight = of.s1 * rstd[past];
  const float16 even = of.s0 / (float)count, slope = rstd[past] * by_weight / (float)count;
  if (turn && item == 0) {
    dbias[past] = of.s0;
    dweight[past] = by_weight;
  }
  for (index_t part = from; part < to; part++) {
    const index_t last = min((part + 1) * chunk, end);
    float16 s = 0, q = 0;
    clade_run run;
    for (index_t i = part * chunk; i < last; i += run.count) {
      const index_t before = clade_pixel(i, past, inner, channels);
      run = clade_run_of(i, last, AHEAD / 2, begin, end, c, inner, channels);
      if (!turn)
        for (index_t j = 0; j < run.count; j += 16) {
          SUM
        }
      else if (((size_t)dx & 63) == 0)
        BOTH(LINE16)
      else
        BOTH(STORE16)
    }
    if (turn == channels) continue;
    sums[2 * (c * chunks + part)] = clade_lanes(s, 0.0f);
    sums[2 * (c * chunks + part) + 1] = clade_lanes(q, 0.0f);
  }
}

KERNEL(batch_norm_grad_turn)(ARGS) {
  FN(batch_norm_grad_turn_item)((long)get_global_id(0), PASS(x), PASS(dy), PASS(weight), PASS(mean), PASS(rstd), PASS(dx),
                                PASS(dweight), PASS(dbias), PASS(sums), channels, inner, count, chunk, chunks, block, stream,
                                PASS(window), share, turn);
}
#endif
