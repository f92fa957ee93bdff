/* Passes of Stockham's FFT algorithm. Rows of `length` times `inner` values are transformed along their first axis.
 * After passes whose radices multiply to `done`, position k * (length / done) + j of a row holds output k of the
 * transform of the inputs j, j + length / done, j + 2 length / done, …. A pass combines `radix` positions that are
 * length / (done radix) apart. `inner` scales all distances. A pass of a work-group consists of such passes itself.
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

#ifndef WANT_fft_sum_ref
/* Transforms of 1 to 5 values, in place; in work-groups also of 7 and 8. TURN multiplies by -i, or by i if inverse. */
static inline void FN(transform)(float2 *b, const int radix, const float sign) {
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
#ifdef WANT_fft_pass_group
  if (radix == 7) {
    const float c1 = 0.62348980186f, c2 = -0.22252093396f, c3 = -0.90096886790f;
    const float s1 = 0.78183148247f, s2 = 0.97492791218f, s3 = 0.43388373912f;
    const float2 a1 = b[1] + b[6], a2 = b[2] + b[5], a3 = b[3] + b[4];
    const float2 d1 = TURN(b[1] - b[6]), d2 = TURN(b[2] - b[5]), d3 = TURN(b[3] - b[4]);
    const float2 m1 = b[0] + c1 * a1 + c2 * a2 + c3 * a3, e1 = s1 * d1 + s2 * d2 + s3 * d3;
    const float2 m2 = b[0] + c2 * a1 + c3 * a2 + c1 * a3, e2 = s2 * d1 - s3 * d2 - s1 * d3;
    const float2 m3 = b[0] + c3 * a1 + c1 * a2 + c2 * a3, e3 = s3 * d1 - s1 * d2 + s2 * d3;
    b[0] += a1 + a2 + a3;
    b[1] = m1 + e1;
    b[2] = m2 + e2;
    b[3] = m3 + e3;
    b[4] = m3 - e3;
    b[5] = m2 - e2;
    b[6] = m1 - e1;
  } else if (radix == 8) {
    const float2 s0 = b[0] + b[4], d0 = b[0] - b[4], s1 = b[2] + b[6], d1 = TURN(b[2] - b[6]);
    const float2 s2 = b[1] + b[5], d2 = b[1] - b[5], s3 = b[3] + b[7], d3 = TURN(b[3] - b[7]);
    const float2 e0 = s0 + s1, e1 = d0 + d1, e2 = s0 - s1, e3 = d0 - d1, o0 = s2 + s3, o2 = TURN(s2 - s3);
    const float2 o1 = (d2 + d3 + TURN(d2 + d3)) * 0.70710678119f, o3 = (TURN(d2 - d3) - (d2 - d3)) * 0.70710678119f;
    b[0] = e0 + o0;
    b[1] = e1 + o1;
    b[2] = e2 + o2;
    b[3] = e3 + o3;
    b[4] = e0 - o0;
    b[5] = e1 - o1;
    b[6] = e2 - o2;
    b[7] = e3 - o3;
  }
#endif
}
#endif

#ifdef WANT_fft_butterfly_ref
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

#ifdef WANT_fft_pass_group
/* A work-group transforms `piece` of the `items` lines, line i being the positions of butterfly i of a pass of radix
 * sizes.s3. Values lie in local memory, line by line, in one half while a step reads them and in the other when it has
 * written them. In global memory `reads` lines that follow each other are neighbors, and `writes` of the result; these
 * divide `piece`, so that consecutive work-items have consecutive values. AT spreads values that are 2, 4 or 8 apart
 * over the banks of local memory. */
#define ROOM 2048
#define AT(i) ((i) ^ ((i) >> 4 & 15))
/* Butterflies with a number of inputs that the compiler knows. */
#define STEP(R)                                                                                        \
  for (int i = me; i < count / R; i += team) {                                                         \
    const int rest = i / apart, s = i - rest * apart, line = rest / done, k = rest - line * done;      \
    const int at = line * length + k * R * apart + s, put = line * length + k * apart + s;             \
    float2 b[R];                                                                                       \
    _Pragma("unroll") for (int p = 0; p < R; p++) {                                                    \
      const float2 v = room[now + AT(at + p * apart)];                                                \
      b[p] = p && k ? FN(times)(v, FN(root)(roots, (index_t)(p * k * apart) * turn, sign)) : v;        \
    }                                                                                                  \
    FN(transform)(b, R, sign);                                                                         \
    _Pragma("unroll") for (int p = 0; p < R; p++) room[ROOM - now + AT(put + done * p * apart)] = b[p]; \
  }
KERNEL(fft_pass_group)(ARGS, const int reads, const int writes, const int steps, const index8_t radices) {
  __local float2 room[2 * ROOM];
  const long first = (long)get_group_id(0) * piece;
  if (first >= items) return;
  USE(const float, x);
  USE(float, y);
  USE(const float, roots);
  const int me = (int)get_local_id(0), team = (int)get_local_size(0);
  const int length = (int)sizes.s3, lines = (int)min((long)piece, items - first), count = lines * length;
  const index_t before = sizes.s2, turn = sizes.s0 / length, run = turn / before * sizes.s1;
  int radix_of[8] = {(int)radices.s0, (int)radices.s1, (int)radices.s2, (int)radices.s3,
                     (int)radices.s4, (int)radices.s5, (int)radices.s6, (int)radices.s7};
  for (int i = me; i < (int)piece * length; i += team) {
    const int rest = i / reads, p = rest % length, line = rest / length * reads + i % reads;
    if (line >= lines) continue;
    const index_t all = (index_t)(first + line), places = all / run, row = places / before, k = places - row * before;
    const float2 v = FN(get)(x, from, row, (k * length + p) * run + all - places * run, sizes);
    room[AT(line * length + p)] = p && k ? FN(times)(v, FN(root)(roots, k * p * (turn / before), sign)) : v;
  }
  int now = 0, done = 1;
  for (int step = 0; step < steps; step++) {
    const int radix = radix_of[step], apart = length / (done * radix);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (radix == 8) {
      STEP(8)
    } else if (radix == 4) {
      STEP(4)
    } else if (radix == 2) {
      STEP(2)
    } else if (radix == 3) {
      STEP(3)
    } else if (radix == 5) {
      STEP(5)
    } else if (radix == 7) {
      STEP(7)
    } else {
      const int all = done * radix;
      for (int i = me; i < count; i += team) {
        const int rest = i / apart, s = i - rest * apart, line = rest / all, k = rest - line * all;
        const int at = line * length + k % done * radix * apart + s;
        float2 sum = 0;
        for (int p = 0, turns = 0; p < radix; p++) {
          sum += FN(times)(room[now + AT(at + p * apart)], FN(root)(roots, (index_t)(turns * apart) * turn, sign));
          turns += k;
          if (turns >= all) turns -= all;
        }
        room[ROOM - now + AT(line * length + k * apart + s)] = sum;
      }
    }
    now = ROOM - now;
    done *= radix;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = me; i < (int)piece * length; i += team) {
    const int rest = i / writes, p = rest % length, line = rest / length * writes + i % writes;
    if (line >= lines) continue;
    const index_t all = (index_t)(first + line), places = all / run, row = places / before, k = places - row * before;
    FN(put)(y, to, row, (k + before * p) * run + all - places * run, sizes, room[now + AT(line * length + p)] * scale);
  }
}
#endif
