/* Normalisation of rows: a work-item does `piece` of them. A row's moments are found while the one before it is written:
 * all, or half of them where both rows are more than its second cache holds, and the other half behind it.
 * They are of deviations from what is known of the mean, at first that of a few elements, then that of all before; each
 * piece joins these with what is lost beside the sums. Without a mean (rms) the deviations are from zero. A weight and a
 * bias are for `inner` elements on end, and rows go through all of them in `period` turns. */
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

/* Of `count` elements after `before` ones: sums of deviations from `shift` and of their squares. */
static inline void FN(join)(FN(moments) *m, const float shift, const float s, const float q, const index_t before,
                            const index_t count) {
  const float off = s / (float)count, part = (float)count / (float)(before + count);
  const float move = shift + off - (m->mean + m->mean_lost);
  clade_take(&m->mean, &m->mean_lost, move * part);
  clade_take(&m->square, &m->square_lost, q - s * off + move * move * (part * (float)before));
}

/* `count` elements, sixteen at a time, of the row that is written, by one weight and bias or by one each; and as many of the next
 * one, or half as many, are summed. What is known before does not stand in the loops: these keep up with memory. */
#define SUM(i)                                    \
  {                                               \
    const float16 d = LOAD16(T, next, i) - shift; \
    SOON(next + (i) + AHEAD);                     \
    s += d;                                       \
    q = fma(d, d, q);                             \
  }
#define WRITE(PUT, i, SCALE, ADD) PUT(T, y, i, (LOAD16(T, own, i) - mean) * (SCALE) + (ADD))
#define BOTH(PUT, SCALE, ADD)                    \
  for (index_t i = 0; i < count; i += 16) {      \
    SUM(i)                                       \
    WRITE(PUT, i, SCALE, ADD);                   \
  }
static inline void FN(both)(const __global STORAGE(T) *own, const __global STORAGE(T) *next, __global STORAGE(T) *y,
                            const __global float *weight, const __global float *bias, const index_t count, const bool run,
                            const index_t pace, const bool past, const float mean, const float rstd, const float shift,
                            float16 *sum, float16 *square) {
  float16 s = *sum, q = *square;
  const float16 scale = rstd * weight[0], add = bias[0];
  if (pace > 1)
    for (index_t i = 0; i < count; i += 32) {
      SUM(i / 2)
      WRITE(LINE16, i, scale, add);
      WRITE(LINE16, i + 16, scale, add);
    }
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
#undef BOTH
#undef WRITE

#define ARGS                                                                                      \
  ARG(const STORAGE(T), x), ARG(const float, weight), ARG(const float, bias), ARG(STORAGE(T), y), \
  ARG(float, means), ARG(float, rstds), const index_t rows, const index_t n, const index_t inner, \
  const index_t period, const index_t piece, const int rms, const float eps, const int stream, const int half_pace
BODY(layer_norm_forward_ref_item)(const long item, ARGS) {
  if (item * piece >= rows) return;
  USE(const STORAGE(T), x);
  USE(const float, weight);
  USE(const float, bias);
  USE(STORAGE(T), y);
  USE(float, means);
  USE(float, rstds);
  const index_t last = (index_t)min((item + 1) * piece, (long)rows);
  const bool halves = half_pace && ((size_t)y & 63) == 0; /* inner is a multiple of 32, y past the caches */
  FN(moments) m = {0, 0, 0, 0};
  float mean = 0, rstd = 0;
  for (index_t row = (index_t)(item * piece) - 1; row < last; row++) { /* at first none is written, at last none summed */
    const bool writes = row >= item * piece, adds = row + 1 < last;
    const index_t base = writes ? row * n : 0, from = (adds ? row + 1 : row) * n, pace = writes && halves ? 2 : 1;
    const index_t first = writes ? row % max(period, (index_t)1) * (n / max(inner, (index_t)1)) : 0;
    const __global STORAGE(T) *next = x + from;
    if (writes) {
      const float square = (m.square + m.square_lost) / (float)max(n, (index_t)1);
      means[row] = mean = m.mean + m.mean_lost;
      rstds[row] = rstd = 1.0f / sqrt((square < 0.0f ? 0.0f : square) + eps);
    }
    m = (FN(moments)){0, 0, 0, 0};
    float shift = adds ? FN(guess)(x, from, n, rms) : 0;
    /* i is written, k summed: by runs also where none is written, so that a row's sums are the same in any place */
    for (index_t i = 0, k = 0, run = 0, w = first - 1, begin; (adds ? k : i) < n;) {
      const index_t stop = min(i + pace * FN(most), n), end = min(k + FN(most), n);
      float s1 = 0, q1 = 0;
      float16 s = 0, q = 0;
      begin = k;
      while (i < stop) {
        if (i == run) {
          run += inner > 1 ? inner : n;
          w++;
        }
        const index_t part = min(run, stop), whole = (part - i) / 16 * 16, at = inner > 1 ? w : first + i;
        if (writes)
          FN(both)(x + base + i, next + k, y + base + i, weight + at, bias + at, whole, inner > 1, pace,
                   stream && ((size_t)(y + base + i) & 63) == 0, mean, rstd, shift, &s, &q);
        else
          for (index_t j = k; j < k + whole; j += 16) SUM(j)
        i += whole;
        k += whole / pace;
        for (; i < part; i++, k++) {
          const float d = LOAD(T, next, k) - shift;
          const index_t own = inner > 1 ? w : first + i;
          s1 += d;
          q1 = fma(d, d, q1);
          if (writes) STORE(T, y, base + i, (LOAD(T, x, base + i) - mean) * rstd * weight[own] + bias[own]);
        }
      }
      if (!adds) continue;
      for (; k < end; k += 16) SUM(k) /* the other half */
      FN(join)(&m, shift, rms ? 0 : clade_lanes(s, s1), clade_lanes(q, q1), begin, end - begin);
      shift = rms ? 0 : m.mean + m.mean_lost;
    }
  }
}

KERNEL(layer_norm_forward_ref)(ARGS) {
  FN(layer_norm_forward_ref_item)((long)get_global_id(0), PASS(x), PASS(weight), PASS(bias), PASS(y), PASS(means), PASS(rstds), rows, n, inner,
           period, piece, rms, eps, stream, half_pace);
}
#undef ARGS
#undef SUM
