/* Batch normalization. Mean and squared deviations are computed per chunk of a channel, combined in order, and applied
 * to each element. BLOCK channels are adjacent, 1 or 16. The elements of a chunk are runs of `inner` pixels, one run
 * per sample.
 *
 *   moments, join, scale  three launches over all channels
 *   whole                 everything for one channel (or block) after another, while the caches hold it
 *   turn                  one launch per channel, which writes a channel while it sums the next one; all work-items are
 *                         at the same channel, each with a share of the chunks that its core's cache holds
 *
 * All variants add in the same order and give the same bits. */

#if defined WANT_batch_norm_forward_whole || defined WANT_batch_norm_forward_turn
#define WANT_batch_norm_forward_all
#endif

#if defined WANT_batch_norm_forward_moments || defined WANT_batch_norm_forward_all
/* The sum over lanes and remainder, in all lanes, if the lanes belong to one channel. */
static inline float16 FN(fold)(float16 v, float rest, const index_t block) {
  return block == 1 ? (float16)(clade_lanes(v, rest)) : v;
}

/* Adds d = x - shift and its square over the pixels [k, end) of one channel, or of sixteen. */
static inline void FN(add)(const __global STORAGE(T) *x, index_t k, const index_t end, const index_t group,
                           const index_t groups, const index_t inner, const index_t block,
                           const float16 shift, float16 *sum, float16 *square) {
  const index_t step = 16 / block;
  float16 s = 0, q = 0;
  float s1 = 0, q1 = 0;
  while (k < end) {
    const index_t sample = k / inner, first = k - sample * inner, run = min(inner - first, end - k);
    const index_t base = ((sample * groups + group) * inner + first) * block;
    index_t i = 0;
    for (; i + step <= run; i += step) {
      const float16 d = LOAD16(T, x, base + i * block) - shift;
      SOON(x + base + min(i * block + AHEAD, (inner - first) * block - 1));
      s += d;
      q = fma(d, d, q);
    }
#pragma clang loop vectorize(disable) unroll(disable)
    for (; i < run; i++) { /* of one channel */
      const float d = LOAD(T, x, base + i) - shift.s0;
      s1 += d;
      q1 = fma(d, d, q1);
    }
    k += run;
  }
  *sum = FN(fold)(s, s1, block);
  *square = FN(fold)(q, q1, block);
}

/* Combines a piece of n elements, given the sums of deviations from `shift` and of their squares, with the mean and
 * squared deviations of the elements before (Chan's formula). */
static inline void FN(grow)(const float16 sum, const float16 squares, const float n, const float before, const float16 shift,
                            float16 *mean, float16 *square) {
  const float all = before + n;
  const float16 off = sum / n, move = shift + off - *mean;
  *mean += move * (n / all);
  *square += squares - sum * off + move * move * (before * n / all);
}

/* Reads a chunk once, in pieces of increasing length. Deviations are taken from the mean of all pieces before, which
 * avoids cancellation. Only the first piece is read twice. */
#define ARGS                                                                                  \
  ARG(const STORAGE(T), x), ARG(float, moments), const index_t channels, const index_t inner, \
  const index_t count, const index_t chunk, const index_t chunks, const index_t block
BODY(batch_norm_forward_moments_item)(const long item, ARGS) {
  const index_t groups = (channels + max(block, (index_t)1) - 1) / max(block, (index_t)1);
  if (item >= (long)groups * chunks) return;
  USE(const STORAGE(T), x);
  USE(float, moments);
  const index_t group = (index_t)item / chunks, part = (index_t)item - group * chunks;
  const index_t begin = part * chunk, end = min(begin + chunk, count);
  float16 mean = 0, square = 0, s, q;
  for (index_t k = begin, stop; k < end; k = stop) {
    stop = min(k + max(k - begin, 128 / block), end);
    const float n = (float)(stop - k);
    float16 shift = mean;
    for (int pass = k > begin; pass < 2; pass++) { /* one call, since some compilers are slow for each */
      FN(add)(x, k, stop, group, groups, inner, block, shift, &s, &q);
      if (!pass) shift = s / n;
    }
    FN(grow)(s, q, n, (float)(k - begin), shift, &mean, &square);
  }
  float m[16], d[16];
  vstore16(mean, 0, m);
  vstore16(square, 0, d);
  for (index_t l = 0; l < min(block, channels - group * block); l++) {
    const index_t to = 2 * ((group * block + l) * chunks + part);
    moments[to] = m[l];
    moments[to + 1] = d[l];
  }
}

#ifdef WANT_batch_norm_forward_moments
KERNEL(batch_norm_forward_moments)(ARGS) {
  FN(batch_norm_forward_moments_item)((long)get_global_id(0), PASS(x), PASS(moments), channels, inner, count, chunk, chunks, block);
}
#endif
#undef ARGS
#endif

#if defined WANT_batch_norm_forward_join || defined WANT_batch_norm_forward_all
typedef struct {
  float mean, squares, rstd;
} FN(moments_of);
static inline FN(moments_of) FN(joined)(const __global float *moments, const long c, const index_t count,
                                        const index_t chunk, const index_t chunks, const float eps) {
  const float n = (float)max(count, (index_t)1);
  float s = 0, lost = 0, square = 0;
  for (index_t k = 0; k < chunks; k++) /* chunks are weighted by their sizes */
    clade_take(&s, &lost, moments[2 * (c * chunks + k)] * (float)min(chunk, count - k * chunk));
  const float m = (s + lost) / n;
  for (index_t k = 0; k < chunks; k++) {
    const float d = moments[2 * (c * chunks + k)] - m;
    square += moments[2 * (c * chunks + k) + 1] + d * d * (float)min(chunk, count - k * chunk);
  }
  square = square < 0.0f ? 0.0f : square;
  return (FN(moments_of)){m, square, 1.0f / sqrt(square / n + eps)};
}

static inline void FN(keep)(const FN(moments_of) of, const long c, const __global float *running_mean,
                            const __global float *running_var, __global float *mean, __global float *rstd,
                            __global float *next_mean, __global float *next_var, const index_t count,
                            const float momentum) {
  const float old_mean = running_mean[c], old_var = running_var[c], move = count ? momentum : 0.0f;
  mean[c] = of.mean;
  rstd[c] = of.rstd;
  next_mean[c] = (1.0f - move) * old_mean + move * of.mean;
  next_var[c] = (1.0f - move) * old_var + move * (of.squares / (float)max(count - 1, (index_t)1));
}

#define ARGS                                                                                                  \
  ARG(const float, moments), ARG(const float, running_mean), ARG(const float, running_var), ARG(float, mean), \
  ARG(float, rstd), ARG(float, next_mean), ARG(float, next_var), const index_t channels, const index_t count, \
  const index_t chunk, const index_t chunks, const float eps, const float momentum
BODY(batch_norm_forward_join_item)(const long c, ARGS) {
  if (c >= channels) return;
  USE(const float, moments);
  USE(const float, running_mean);
  USE(const float, running_var);
  USE(float, mean);
  USE(float, rstd);
  USE(float, next_mean);
  USE(float, next_var);
  FN(keep)(FN(joined)(moments, c, count, chunk, chunks, eps), c, running_mean, running_var, mean, rstd, next_mean,
           next_var, count, momentum);
}

#ifdef WANT_batch_norm_forward_join
KERNEL(batch_norm_forward_join)(ARGS) {
  FN(batch_norm_forward_join_item)((long)get_global_id(0), PASS(moments), PASS(running_mean), PASS(running_var), PASS(mean), PASS(rstd),
              PASS(next_mean), PASS(next_var), channels, count, chunk, chunks, eps, momentum);
}
#endif
#undef ARGS
#endif

#if defined WANT_batch_norm_forward_scale || defined WANT_batch_norm_forward_all
/* The epilogue's operands have y's memory order. */
#undef EPILOGUE_ELEMENT
#define EPILOGUE_AT(strides)    0
#define EPILOGUE_ELEMENT(s)     at
#define EPILOGUE_LOAD16(T, e, s) LOAD16(T, e, at)
#define ARGS                                                                                                    \
  ARG(const STORAGE(T), x), ARG(const float, weight), ARG(const float, bias), ARG(const float, mean),           \
  ARG(const float, rstd), ARG(STORAGE(T), y), const index_t total, const index_t piece, const index_t channels, \
  const index_t inner, const index_t block, const int stream EPILOGUE_ARGS
BODY(batch_norm_forward_scale_item)(const long item, ARGS) {
  const long begin = item * piece;
  if (begin >= total) return;
  USE(const STORAGE(T), x);
  USE(const float, weight);
  USE(const float, bias);
  USE(const float, mean);
  USE(const float, rstd);
  USE(STORAGE(T), y);
  EPILOGUE_USE
  const index_t end = (index_t)min(begin + piece, (long)total), plane = inner * block;
  for (index_t at = (index_t)begin; at < end;) {
    const index_t row = at / plane, c = row % ((channels + block - 1) / block) * block;
    const index_t stop = min((row + 1) * plane, end);
    const float16 m = CHANNELS(mean, c), scale = CHANNELS(rstd, c) * CHANNELS(weight, c), shift = CHANNELS(bias, c);
    for (; at + 16 <= stop; at += 16) {
      const float16 i0 = fma(LOAD16(T, x, at) - m, scale, shift);
      SOON(x + min(at + AHEAD, (row + 1) * plane - 1));
      EPILOGUE16
      STREAM16(T, y, at, r, stream);
    }
#pragma clang loop vectorize(disable) unroll(disable)
    for (; at < stop; at++) {
      const float i0 = fma(LOAD(T, x, at) - m.s0, scale.s0, shift.s0);
      EPILOGUE
      STORE(T, y, at, r);
    }
  }
}

#ifdef WANT_batch_norm_forward_scale
KERNEL(batch_norm_forward_scale)(ARGS) {
  FN(batch_norm_forward_scale_item)((long)get_global_id(0), PASS(x), PASS(weight), PASS(bias), PASS(mean), PASS(rstd), PASS(y),
            total, piece, channels, inner, block, stream EPILOGUE_PASS);
}
#endif
#undef ARGS
#endif

#ifdef WANT_batch_norm_forward_whole
#define ARGS                                                                                                      \
  ARG(const STORAGE(T), x), ARG(const float, weight), ARG(const float, bias), ARG(const float, running_mean),     \
  ARG(const float, running_var), ARG(STORAGE(T), y), ARG(float, mean), ARG(float, rstd), ARG(float, next_mean),   \
  ARG(float, next_var), ARG(float, moments), const index_t channels, const index_t inner, const index_t count,    \
  const index_t chunk, const index_t chunks, const index_t block, const float eps, const float momentum, const int stream EPILOGUE_ARGS
BODY(batch_norm_forward_whole_item)(const long group, ARGS) {
  const index_t groups = (channels + max(block, (index_t)1) - 1) / max(block, (index_t)1), plane = inner * block;
  if (group >= groups) return;
  for (index_t part = 0; part < chunks; part++)
    FN(batch_norm_forward_moments_item)(group * chunks + part, PASS(x), PASS(moments), channels, inner, count, chunk, chunks, block);
  for (long c = group * block; c < min((group + 1) * block, (long)channels); c++)
    FN(batch_norm_forward_join_item)(c, PASS(moments), PASS(running_mean), PASS(running_var), PASS(mean), PASS(rstd),
                                     PASS(next_mean), PASS(next_var), channels, count, chunk, chunks, eps, momentum);
  for (index_t sample = 0; sample * inner < count; sample++)
    FN(batch_norm_forward_scale_item)((long)sample * groups + group, PASS(x), PASS(weight), PASS(bias), PASS(mean), PASS(rstd),
                                      PASS(y), count * groups * block, plane, channels, inner, block, stream EPILOGUE_PASS);
}

KERNEL(batch_norm_forward_whole)(ARGS) {
  FN(batch_norm_forward_whole_item)((long)get_global_id(0), PASS(x), PASS(weight), PASS(bias), PASS(running_mean),
                                    PASS(running_var), PASS(y), PASS(mean), PASS(rstd), PASS(next_mean), PASS(next_var),
                                    PASS(moments), channels, inner, count, chunk, chunks, block, eps, momentum, stream EPILOGUE_PASS);
}
#undef ARGS
#endif

#ifdef WANT_batch_norm_forward_turn
/* Requires inner to be a multiple of 16, and block 1. Each turn copies a channel into a window that L2 holds, while the
 * previous channel is read from it and written; x itself is read once, bypassing L2. Turn 0 only sums. The last turn
 * only writes, and its sums are unused. */
#define SUM                                                                \
  const float16 v = LOAD16(T, x, run.at + j), d = v - off;                 \
  ONCE(x + run.soon + j);                                                  \
  s += d;                                                                  \
  q = fma(d, d, q);
#define BOTH(PUT)                                                         \
  for (index_t j = 0; j < run.count; j += 16) {                           \
    const index_t at = before + j;                                        \
    const float16 i0 = fma(LOAD16(f32, window, i + j) - m, scale, shift); \
    SUM                                                                   \
    STORE16(f32, window, i + j, v);                                       \
    EPILOGUE16                                                            \
    PUT(T, y, at, r);                                                     \
  }
#define ARGS                                                                                                    \
  ARG(const STORAGE(T), x), ARG(const float, weight), ARG(const float, bias), ARG(const float, running_mean),   \
  ARG(const float, running_var), ARG(STORAGE(T), y), ARG(float, mean), ARG(float, rstd), ARG(float, next_mean), \
  ARG(float, next_var), ARG(float, moments), const index_t channels, const index_t inner, const index_t count,  \
  const index_t chunk, const index_t chunks, const index_t block, const float eps, const float momentum,        \
  const int stream, ARG(float, window), const index_t share, const index_t turn EPILOGUE_ARGS
BODY(batch_norm_forward_turn_item)(const long item, ARGS) {
  const index_t from = (index_t)item * share, to = min(from + share, chunks), begin = from * chunk, end = min(to * chunk, count);
  if (begin >= end) return;
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
  USE(float, moments);
  USE(float, window);
  EPILOGUE_USE
  const index_t past = max(turn - 1, (index_t)0), c = min(turn, channels - 1);
  FN(moments_of) of = {0, 0, 0};
  if (turn) of = FN(joined)(moments, past, count, chunk, chunks, eps);
  const float16 m = of.mean, scale = of.rstd * weight[past], shift = bias[past];
  if (turn && item == 0)
    FN(keep)(of, past, running_mean, running_var, mean, rstd, next_mean, next_var, count, momentum);
  for (index_t part = from; part < to; part++) {
    const index_t first = part * chunk, last = min(first + chunk, end);
    float16 known = 0, square = 0;
    for (index_t k = first, stop; k < last; k = stop) {
      stop = min(k + max(k - first, (index_t)128), last);
      float16 off = known, s = 0, q = 0;
      if (k == first) {
        FN(add)(x, k, stop, c, channels, inner, 1, 0, &s, &q);
        off = s / (float)(stop - k), s = 0;
      }
      q = 0;
      clade_run run;
      for (index_t i = k; i < stop; i += run.count) {
        const index_t before = clade_pixel(i, past, inner, channels);
        run = clade_run_of(i, stop, AHEAD, begin, end, c, inner, channels);
        if (!turn)
          for (index_t j = 0; j < run.count; j += 16) {
            SUM
            STORE16(f32, window, i + j, v);
          }
        else if (((size_t)y & 63) == 0)
          BOTH(LINE16)
        else
          BOTH(STORE16)
      }
      s = clade_lanes(s, 0.0f), q = clade_lanes(q, 0.0f);
      FN(grow)(s, q, (float)(stop - k), (float)(k - first), off, &known, &square);
    }
    if (turn == channels) continue;
    moments[2 * (c * chunks + part)] = known.s0;
    moments[2 * (c * chunks + part) + 1] = square.s0;
  }
}

KERNEL(batch_norm_forward_turn)(ARGS) {
  FN(batch_norm_forward_turn_item)((long)get_global_id(0), PASS(x), PASS(weight), PASS(bias), PASS(running_mean),
                                   PASS(running_var), PASS(y), PASS(mean), PASS(rstd), PASS(next_mean), PASS(next_var),
                                   PASS(moments), channels, inner, count, chunk, chunks, block, eps, momentum, stream,
                                   PASS(window), share, turn EPILOGUE_PASS);
}
#endif

#if defined WANT_batch_norm_forward_scale || defined WANT_batch_norm_forward_all
#undef EPILOGUE_ELEMENT
#define EPILOGUE_ELEMENT(s) CLADE_EPILOGUE_ELEMENT(s)
#endif
