/* Passes of Stockham's FFT algorithm. Rows of `length` times `inner` values are transformed along their first axis.
 * After passes whose radices multiply to `done`, position k * (length / done) + j of a row holds output k of the
 * transform of the inputs j, j + length / done, j + 2 length / done, …. A pass combines `radix` positions that are
 * length / (done radix) apart. `inner` scales all distances.
 *
 * sizes: length, inner, done, radix. Format of input and output (`from`, `to`): 0 complex values, 1 real values, 2 a
 * half spectrum, 3 a half spectrum whose elements count twice, except the first and the middle one of an even length.
 */
static float2 FN(times)(const float2 a, const float2 b) {
  return (float2)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

static float FN(weight)(const int kind, const index_t at, const index8_t sizes) {
  const index_t place = at / max(sizes.s1, (index_t)1);
  return kind == 3 && place != 0 && place != sizes.s0 - place ? 2.0f : 1.0f;
}

static float2 FN(get)(const __global float *x, const int from, const index_t row, const index_t at, const index8_t sizes) {
  if (from == 1) return (float2)(x[row * sizes.s0 * sizes.s1 + at], 0);
  if (from == 0) return vload2((size_t)(row * sizes.s0 * sizes.s1 + at), x);
  const index_t held = (sizes.s0 / 2 + 1) * sizes.s1;
  return at < held ? vload2((size_t)(row * held + at), x) * FN(weight)(from, at, sizes) : (float2)(0);
}

static void FN(put)(__global float *y, const int to, const index_t row, const index_t at, const index8_t sizes,
                    const float2 v) {
  if (to == 1) {
    y[row * sizes.s0 * sizes.s1 + at] = v.x;
  } else if (to == 0) {
    vstore2(v, (size_t)(row * sizes.s0 * sizes.s1 + at), y);
  } else {
    const index_t held = (sizes.s0 / 2 + 1) * sizes.s1;
    if (at < held) vstore2(v * FN(weight)(to, at, sizes), (size_t)(row * held + at), y);
  }
}

/* exp(-2 pi i k / length), or its conjugate where `sign` is -1. */
static float2 FN(root)(const __global float *roots, const index_t k, const float sign) {
  const float2 w = vload2((size_t)k, roots);
  return (float2)(w.x, w.y * sign);
}

#define ARGS                                                                                             \
  ARG(const float, x), ARG(float, y), ARG(const float, roots), const index_t items, const index_t piece, \
  const index8_t sizes, const int from, const int to, const float sign, const float scale
#define PASSED PASS(x), PASS(y), PASS(roots), items, piece, sizes, from, to, sign, scale

#ifdef WANT_fft_butterfly_ref
/* Transforms of 1 to 5 values, in place. TURN multiplies by -i, or by i if inverse. */
static void FN(transform)(float2 *b, const int radix, const float sign) {
#define TURN(v) ((float2)((v).y * sign, -(v).x * sign))
  if (radix == 2) {
    const float2 d = b[0] - b[1];
    b[0] += b[1];
    b[1] = d;
  } else if (radix == 3) {
    const float2 s = b[1] + b[2], m = b[0] - 0.5f * s, d = TURN(b[1] - b[2]) * 0.86602540378f;
    b[0] += s;
    b[1] = m + d;
    b[2] = m - d;
  } else if (radix == 4) {
    const float2 s0 = b[0] + b[2], d0 = b[0] - b[2], s1 = b[1] + b[3], d1 = TURN(b[1] - b[3]);
    b[0] = s0 + s1;
    b[1] = d0 + d1;
    b[2] = s0 - s1;
    b[3] = d0 - d1;
  } else if (radix == 5) {
    const float2 s0 = b[1] + b[4], s1 = b[2] + b[3], d0 = TURN(b[1] - b[4]), d1 = TURN(b[2] - b[3]);
    const float2 m0 = b[0] + 0.30901699437f * s0 - 0.80901699437f * s1;
    const float2 m1 = b[0] - 0.80901699437f * s0 + 0.30901699437f * s1;
    const float2 e0 = 0.95105651629f * d0 + 0.58778525229f * d1, e1 = 0.58778525229f * d0 - 0.95105651629f * d1;
    b[0] += s0 + s1;
    b[1] = m0 + e0;
    b[2] = m1 + e1;
    b[3] = m1 - e1;
    b[4] = m0 - e0;
  }
#undef TURN
}

BODY(fft_butterfly_ref_item)(const long item, ARGS) {
  const long begin = item * piece;
  if (begin >= items) return;
  USE(const float, x);
  USE(float, y);
  USE(const float, roots);
  const index_t end = (index_t)min(begin + piece, (long)items), radix = sizes.s3, done = sizes.s2;
  const index_t apart = sizes.s0 / (done * radix), run = apart * sizes.s1;
  for (index_t i = (index_t)begin; i < end; i++) {
    const index_t rest = i / run, s = i - rest * run, row = rest / done, k = rest - row * done;
    float2 b[5];
    for (index_t q = 0; q < radix; q++) {
      const float2 v = FN(get)(x, from, row, (k * radix + q) * run + s, sizes);
      b[q] = q && k ? FN(times)(v, FN(root)(roots, q * k * apart, sign)) : v;
    }
    FN(transform)(b, (int)radix, sign);
    for (index_t p = 0; p < radix; p++) FN(put)(y, to, row, (k + done * p) * run + s, sizes, b[p] * scale);
  }
}

KERNEL(fft_butterfly_ref)(ARGS) {
  FN(fft_butterfly_ref_item)((long)get_global_id(0), PASSED);
}
#endif

#ifdef WANT_fft_sum_ref
BODY(fft_sum_ref_item)(const long item, ARGS) {
  const long begin = item * piece;
  if (begin >= items) return;
  USE(const float, x);
  USE(float, y);
  USE(const float, roots);
  const index_t end = (index_t)min(begin + piece, (long)items), radix = sizes.s3, done = sizes.s2, all = done * radix;
  const index_t apart = sizes.s0 / all, run = apart * sizes.s1;
  for (index_t i = (index_t)begin; i < end; i++) {
    const index_t rest = i / run, s = i - rest * run, row = rest / all, k = rest - row * all;
    const index_t first = k % done * radix;
    float2 sum = 0;
    index_t turns = 0;
    for (index_t q = 0; q < radix; q++) {
      const float2 v = FN(get)(x, from, row, (first + q) * run + s, sizes);
      sum += FN(times)(v, FN(root)(roots, turns * apart, sign));
      turns += k;
      if (turns >= all) turns -= all;
    }
    FN(put)(y, to, row, k * run + s, sizes, sum * scale);
  }
}

KERNEL(fft_sum_ref)(ARGS) {
  FN(fft_sum_ref_item)((long)get_global_id(0), PASSED);
}
#endif
#undef ARGS
#undef PASSED
