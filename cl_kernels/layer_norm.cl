/* Normalisation of rows: a work-item does `piece` of them. A row's moments are found while the one before it is written.
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
  float mean = 0, rstd = 0;
  for (index_t row = (index_t)(item * piece) - 1; row < last; row++) { /* at first none is written */
    const bool writes = row >= item * piece;
    const index_t base = writes ? row * n : 0, next = (row + 1 < last ? row + 1 : row) * n;
    const index_t first = writes ? row % max(period, (index_t)1) * (n / max(inner, (index_t)1)) : 0;
    if (writes) {
      const float square = (m.square + m.square_lost) / (float)max(n, (index_t)1);
      means[row] = mean = m.mean + m.mean_lost;
      rstds[row] = rstd = 1.0f / sqrt((square < 0.0f ? 0.0f : square) + eps);
    }
    m = (FN(moments)){0, 0, 0, 0};
    float shift = FN(guess)(x, next, n, rms), s1 = 0, q1 = 0;
    float16 s16 = 0, q16 = 0;
    for (index_t i = 0, begin = 0, run = 0, w = first - 1; i < n;) {
      if (i == run) {
        run += inner > 1 && writes ? inner : n;
        w++;
      }
      const index_t stop = min(run, begin + FN(most));
      const float scale = rstd * weight[w], add = bias[w];
      if (writes)
        for (; i + 16 <= stop; i += 16) {
          const float16 own = inner > 1 ? (float16)scale : rstd * vload16(0, weight + first + i);
          const float16 v = (LOAD16(T, x, base + i) - mean) * own + (inner > 1 ? (float16)add : vload16(0, bias + first + i));
          const float16 d = LOAD16(T, x, next + i) - shift;
          SOON(x + next + i + AHEAD); /* in time for rows whose moments hold everything up at their ends */
          s16 += d;
          q16 = fma(d, d, q16);
          STREAM16(T, y, base + i, v, stream);
        }
      else
        for (; i + 16 <= stop; i += 16) {
          const float16 d = LOAD16(T, x, next + i) - shift;
          s16 += d;
          q16 = fma(d, d, q16);
        }
      for (; i < stop; i++) {
        const float d = LOAD(T, x, next + i) - shift;
        s1 += d;
        q1 = fma(d, d, q1);
        if (writes) {
          const index_t at = inner > 1 ? w : first + i;
          STORE(T, y, base + i, (LOAD(T, x, base + i) - mean) * rstd * weight[at] + bias[at]);
        }
      }
      if (i - begin >= FN(most) || i == n) {
        FN(join)(&m, shift, rms ? 0 : clade_lanes(s16, s1), clade_lanes(q16, q1), begin, i - begin);
        shift = rms ? 0 : m.mean + m.mean_lost;
        s16 = q16 = 0;
        s1 = q1 = 0;
        begin = i;
      }
    }
  }
}

KERNEL(layer_norm_forward_ref)(ARGS) {
  FN(layer_norm_forward_ref_item)((long)get_global_id(0), PASS(x), PASS(weight), PASS(bias), PASS(y), PASS(means), PASS(rstds), rows, n, inner,
           period, piece, rms, eps, stream);
}
#undef ARGS
