/* Normalization of rows: a work-item does `piece` of them, and computes a row's moments while it writes the row before.
 * If L2 would lose the row meanwhile, it is copied to a `window`, which L2 keeps, as the row before is read from it; x
 * itself is read once, bypassing L2.
 *
 * Moments are computed from deviations: first from the mean of a few elements, then from the mean of all before; pieces
 * are combined with compensated sums. For RMS normalization the deviations are from zero. Each weight and bias applies
 * to `inner` consecutive elements; rows use all of them in turn, with a period of `period` rows. */
enum { FN(few) = 64, FN(most) = 1024 };
typedef struct {
  float mean, mean_lost, square, square_lost;
} FN(moments);

static inline float FN(guess)(const __global STORAGE(T) *x, const index_t at, const index_t n, const int rms) {
  float16 s = 0;
  float rest = 0;
  const index_t count = rms ? 0 : min(n, (index_t)FN(few));
  index_t i = 0;
  for (; i + 16 <= count; i += 16) s += LOAD16(T, x, at + i);
  for (; i < count; i++) rest += LOAD(T, x, at + i);
  return clade_lanes(s, rest) / (float)max(count, (index_t)1);
}

/* Adds `count` elements to `before` ones, given the sums of their deviations from `shift` and of the squares. */
static inline void FN(join)(FN(moments) *m, const float shift, const float s, const float q, const index_t before,
                            const index_t count) {
  const float off = s / (float)count, part = (float)count / (float)(before + count);
  const float move = shift + off - (m->mean + m->mean_lost);
  clade_take(&m->mean, &m->mean_lost, move * part);
  clade_take(&m->square, &m->square_lost, q - s * off + move * move * (part * (float)before));
}

/* Writes `count` elements of one row, sixteen at a time, with one weight and bias or with one each, and sums as many of
 * the next row. y is NULL if none is written. Constant conditions are outside of the loops, which keep up with memory.
 */
#define SUM(SOON, v)           \
  {                            \
    const float16 d = v - shift; \
    SOON(next + i + AHEAD);    \
    s += d;                    \
    q = fma(d, d, q);          \
  }
#define BOTH(PUT, SCALE, ADD)                                          \
  for (index_t i = 0; i < count; i += 16) {                            \
    SUM(SOON, LOAD16(T, next, i))                                      \
    PUT(T, y, i, (LOAD16(T, own, i) - mean) * (SCALE) + (ADD));        \
  }
static inline void FN(both)(const __global STORAGE(T) *own, const __global STORAGE(T) *next, __global STORAGE(T) *y,
                            const __global float *weight, const __global float *bias, const index_t count, const bool run,
                            const bool past, const float mean, const float rstd, const float shift, float16 *sum,
                            float16 *square) {
  float16 s = *sum, q = *square;
  const float16 scale = rstd * weight[0], add = bias[0];
  if (!y)
    for (index_t i = 0; i < count; i += 16) SUM(SOON, LOAD16(T, next, i))
  else if (run && past)
    BOTH(LINE16, scale, add)
  else if (run)
    BOTH(STORE16, scale, add)
  else if (past)
    BOTH(LINE16, rstd * vload16(0, weight + i), vload16(0, bias + i))
  else
    BOTH(STORE16, rstd * vload16(0, weight + i), vload16(0, bias + i))
  *sum = s;
  *square = q;
}

/* Final mean and RSTD of a row. */
static inline float2 FN(ended)(const FN(moments) *m, const index_t row, const index_t n, const float eps,
                               __global float *means, __global float *rstds) {
  const float square = (m->square + m->square_lost) / (float)max(n, (index_t)1);
  const float2 known = {m->mean + m->mean_lost, 1.0f / sqrt((square < 0.0f ? 0.0f : square) + eps)};
  means[row] = known.s0;
  rstds[row] = known.s1;
  return known;
}

#ifdef WANT_layer_norm_forward_ref
#define ARGS                                                                                      \
  ARG(const STORAGE(T), x), ARG(const float, weight), ARG(const float, bias), ARG(STORAGE(T), y), \
  ARG(float, means), ARG(float, rstds), const index_t rows, const index_t n, const index_t inner, \
  const index_t period, const index_t piece, const int rms, const float eps, const int stream
BODY(layer_norm_forward_ref_item)(const long item, ARGS) {
  if (item * piece >= rows) return;
  USE(const STORAGE(T), x);
  USE(const float, weight);
  USE(const float, bias);
  USE(STORAGE(T), y);
  USE(float, means);
  USE(float, rstds);
  const index_t last = (index_t)min((item + 1) * piece, (long)rows);
  FN(moments) m = {0, 0, 0, 0};
  float2 known = 0;
  for (index_t row = (index_t)(item * piece) - 1; row < last; row++) { /* the first only sums, the last only writes */
    const bool writes = row >= item * piece, adds = row + 1 < last;
    const index_t base = writes ? row * n : 0, from = (adds ? row + 1 : row) * n;
    const index_t first = writes ? row % max(period, (index_t)1) * (n / max(inner, (index_t)1)) : 0;
    if (writes) known = FN(ended)(&m, row, n, eps, means, rstds);
    m = (FN(moments)){0, 0, 0, 0};
    float shift = adds ? FN(guess)(x, from, n, rms) : 0;
    /* run by run even if none is written, so that a row's sums do not depend on its position */
    for (index_t i = 0, run = 0, w = first - 1, begin; i < n;) {
      const index_t stop = min(i + FN(most), n);
      float s1 = 0, q1 = 0;
      float16 s = 0, q = 0;
      begin = i;
      while (i < stop) {
        if (i == run) {
          run += inner > 1 ? inner : n;
          w++;
        }
        const index_t part = min(run, stop), whole = (part - i) / 16 * 16, at = inner > 1 ? w : first + i;
        FN(both)(x + base + i, x + from + i, writes ? y + base + i : NULL, weight + at, bias + at, whole, inner > 1,
                 stream && ((size_t)(y + base + i) & 63) == 0, known.s0, known.s1, shift, &s, &q);
        for (i += whole; i < part; i++) {
          const float d = LOAD(T, x, from + i) - shift;
          const index_t own = inner > 1 ? w : first + i;
          s1 += d;
          q1 = fma(d, d, q1);
          if (writes)
            STORE(T, y, base + i, (LOAD(T, x, base + i) - known.s0) * known.s1 * weight[own] + bias[own]);
        }
      }
      if (!adds) continue;
      FN(join)(&m, shift, rms ? 0 : clade_lanes(s, s1), clade_lanes(q, q1), begin, stop - begin);
      shift = rms ? 0 : m.mean + m.mean_lost;
    }
  }
}

KERNEL(layer_norm_forward_ref)(ARGS) {
  FN(layer_norm_forward_ref_item)((long)get_global_id(0), PASS(x), PASS(weight), PASS(bias), PASS(y), PASS(means), PASS(rstds), rows, n, inner,
           period, piece, rms, eps, stream);
}
#undef ARGS
#endif

#ifdef WANT_layer_norm_forward_window
/* For floats in runs of whole vectors, with non-temporal stores. Same order of sums, so the same bits. */
#define ARGS                                                                                      \
  ARG(const STORAGE(T), x), ARG(const float, weight), ARG(const float, bias), ARG(STORAGE(T), y), \
  ARG(float, means), ARG(float, rstds), const index_t rows, const index_t n, const index_t inner, \
  const index_t period, const index_t piece, const int rms, const float eps, ARG(float, windows)
BODY(layer_norm_forward_window_item)(const long item, ARGS) {
  if (item * piece >= rows) return;
  USE(const STORAGE(T), x);
  USE(const float, weight);
  USE(const float, bias);
  USE(STORAGE(T), y);
  USE(float, means);
  USE(float, rstds);
  USE(float, windows);
  const index_t last = (index_t)min((item + 1) * piece, (long)rows), before = (index_t)(item * piece) - 1;
  __global float *window = windows + item * n;
  FN(moments) m = {0, 0, 0, 0};
  float2 known = 0;
  for (index_t row = before; row < last; row++) { /* the first turn only sums, the last one only writes */
    const bool adds = row + 1 < last;
    const __global STORAGE(T) *next = adds ? x + (row + 1) * n : (const __global STORAGE(T) *)window;
    const index_t first = row % period * (n / inner);
    if (row > before) known = FN(ended)(&m, row, n, eps, means, rstds);
    m = (FN(moments)){0, 0, 0, 0};
    float shift = adds ? FN(guess)(next, 0, n, rms) : 0;
    for (index_t i = 0, begin; i < n;) {
      const index_t stop = min(i + FN(most), n);
      float16 s = 0, q = 0;
      for (begin = i; i < stop;) {
        const index_t w = i / inner, end = min((w + 1) * inner, stop);
        if (row == before)
          for (; i < end; i += 16) {
            const float16 v = LOAD16(T, next, i);
            SUM(ONCE, v)
            STORE16(f32, window, i, v);
          }
        else
          for (const float scale = known.s1 * weight[first + w], add = bias[first + w]; i < end; i += 16) {
            const float16 v = LOAD16(T, next, i), was = vload16(0, window + i);
            SUM(ONCE, v)
            STORE16(f32, window, i, v);
            LINE16(T, y, row * n + i, (was - known.s0) * scale + add);
          }
      }
      if (!adds) continue;
      FN(join)(&m, shift, rms ? 0 : clade_lanes(s, 0.0f), clade_lanes(q, 0.0f), begin, stop - begin);
      shift = rms ? 0 : m.mean + m.mean_lost;
    }
  }
}

KERNEL(layer_norm_forward_window)(ARGS) {
  FN(layer_norm_forward_window_item)((long)get_global_id(0), PASS(x), PASS(weight), PASS(bias), PASS(y), PASS(means), PASS(rstds), rows, n,
           inner, period, piece, rms, eps, PASS(windows));
}
#endif
