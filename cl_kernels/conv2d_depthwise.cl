/* Depthwise convolution and its gradients on CPUs. Vectors of WIDTH floats hold channels, in blocks of 16. Blocked
 * images are read in place; for dense ones a work-item first transposes the pixels that it needs into blocks. */
#define LANES   16
#if INTEGER /* bytes, whose sums are exact in float */
#define FLOATS(n, v) CLADE_PASTE(convert_float, n)(v)
#else
#define FLOATS(n, v) v
#endif
#define GET(p)  FLOATS(WIDTH, LOADN(WIDTH, T, p, 0))
#define GETW(p) FLOATS(WIDTH, LOADN(WIDTH, TB, p, 0))
/* Places and channels that are transposed at a time. */
#if WIDTH == 16
#define TURNED_AT_ONCE 16
#define SOME(p)        GET(p)
#define TURN           clade_turn_sixteen
#else
#define TURNED_AT_ONCE 8
#define SOME(p)        FLOATS(8, LOADN(8, T, p, 0))
#define TURN           clade_turn
#endif
#if X_BLOCKED
#define SOURCE_TYPE const __global STORAGE(T)
#define READ(p)     GET(p)
#else
#define SOURCE_TYPE const float
#define READ(p)     VLOAD(0, p)
#endif

#if !X_BLOCKED
/* Transposes n places from planes to blocks; the last channel is repeated. */
APART static void FN(turn)(const __global STORAGE(T) * x, int plane, int channels, int n, float *to) {
  for (int i = 0; n >= TURNED_AT_ONCE && i < n; i += TURNED_AT_ONCE) { /* the last ones end with the line */
    const int at = min(i, n - TURNED_AT_ONCE);
#pragma unroll
    for (int c = 0; c < LANES; c += TURNED_AT_ONCE) {
      CLADE_PASTE(float, TURNED_AT_ONCE) some[TURNED_AT_ONCE];
      UNROLLED(l, TURNED_AT_ONCE) some[l] = SOME(x + min(c + l, channels - 1) * plane + at);
      TURN(some);
      UNROLLED(l, TURNED_AT_ONCE) CLADE_PASTE(vstore, TURNED_AT_ONCE)(some[l], 0, to + (at + l) * LANES + c);
    }
  }
  for (int c = 0; n < TURNED_AT_ONCE && c < LANES; c++)
    ONE_BY_ONE for (int i = 0; i < n; i++) to[i * LANES + c] = LOAD(T, x, min(c, channels - 1) * plane + i);
}
#endif

#ifdef WANT_conv2d_depthwise
/* Convolution and its gradient with respect to the input; dims and map as in conv2d.cl. The phases of a line are
 * assembled in private memory, and the line is stored as a whole. Weights are in blocks of 16 channels. taps: height and
 * width of the kernel. part: blocks of images, lines and columns of a work-item. */
#include "conv2d_phase.cl"
#include "conv2d_result.cl"

/* Computes `many` places of a phase, `apart` floats apart in `line`: sums over count.x lines of the source (`size`
 * pixels each) and count.y taps in each. The first tap of the first place is at `column`, and moves by `by` per place.
 *
 * SLIDE computes RUN places at a time for TAPS taps, UNIT pixels apart, with place p beginning at p * STEP. Each pixel
 * is loaded once and added to all sums that use it. The first and last ENDS pixels may lie outside of the line; all
 * others must exist. */
#define RUN 8
#define SLIDE_ARGS                                                                                                  \
  SOURCE_TYPE *x, int2 move, const __global STORAGE(TB) * w, int2 w_move, int2 count, int column, int by, int size, \
      int many, float *line, int apart
#define SLIDE(NAME, STEP, TAPS, UNIT, ENDS)                                                          \
  APART static void NAME(SLIDE_ARGS) {                                                               \
    for (int i = 0; i < many; i += RUN) { /* the last run ends with the line, or behind it */        \
      const int place = max(min(i, many - RUN), 0);                                                  \
      for (int k = 0; k < LANES; k += WIDTH) {                                                       \
        float *to = line + (place * apart + k);                                                      \
        VECTOR sum[RUN];                                                                             \
        UNROLLED(p, RUN) sum[p] = (VECTOR)(0);                                                       \
        for (int tap = 0; tap < count.y; tap += TAPS) {                                              \
          const int inputs = (RUN - 1) * STEP + TAPS, at = column + place * by + tap * move.y;       \
          SOURCE_TYPE *from = x + (at * LANES + k);                                                  \
          const __global STORAGE(TB) *own = w + (tap * w_move.y + k);                                \
          for (int r = 0; r < count.x; r++, from += move.x, own += w_move.x) {                       \
            VECTOR weight[TAPS];                                                                     \
            UNROLLED(t, TAPS) weight[t] = GETW(own + t * w_move.y);                                  \
            UNROLLED(j, inputs) {                                                                    \
              if ((j < ENDS || j >= inputs - ENDS) && (uint)(at + j * UNIT) >= (uint)size) continue; \
              const VECTOR one = READ(from + j * UNIT * LANES);                                      \
              UNROLLED(t, TAPS) if (j >= t && (j - t) % STEP == 0 && (j - t) / STEP < RUN)           \
                  sum[(j - t) / STEP] = fma(one, weight[t], sum[(j - t) / STEP]);                    \
            }                                                                                        \
          }                                                                                          \
        }                                                                                            \
        UNROLLED(p, RUN) VSTORE(sum[p], 0, to + p * apart);                                          \
      }                                                                                              \
    }                                                                                                \
  }
#define EACH_SLIDE(X) X(1, 3, 2) X(1, 2, 2) X(1, 1, 2) X(1, 5, 2) X(1, 7, 3) X(2, 3, 2) X(2, 5, 2)
#define SLIDE_OF(STEP, TAPS, ENDS) SLIDE(FN(slide_##STEP##_##TAPS), STEP, TAPS, 1, ENDS)
SLIDE(FN(slide), 1, 1, by, RUN)
EACH_SLIDE(SLIDE_OF)

/* Chooses the fastest variant. Except for the first, variants need all pixels but up to two at each end (three for
 * seven taps). */
static void FN(slide_any)(SLIDE_ARGS) {
#define SLIDE_PASS x, move, w, w_move, count, column, by, size, many, line, apart
#define SLIDE_IF(STEP, TAPS, ENDS) else if (by == STEP && count.y == TAPS) FN(slide_##STEP##_##TAPS)(SLIDE_PASS);
  const int last = column + (max(many, RUN) - 1) * by + (count.y - 1) * move.y, ends = count.y == 7 ? 3 : 2;
  if (column < -ends || last >= size + ends || count.x == 0 || (move.y != 1 && count.y != 1))
    FN(slide)(SLIDE_PASS);
  EACH_SLIDE(SLIDE_IF)
  else FN(slide)(SLIDE_PASS);
}

#define ARGS                                                                                                          \
  ARG(const STORAGE(T), x), ARG(const STORAGE(TB), w), ARG(STORAGE(OUT), y), const index8_t dims, const index8_t taps, \
      const index8_t map, const index8_t part, const index8_t y_s EPILOGUE_ARGS
BODY(conv2d_depthwise_item)(const int item, ARGS) {
  if (part.s0 == 0 || part.s1 == 0 || part.s2 == 0 || dims.s1 == 0) return;
  const int2 div = (int2)(map.s3, map.s7), delta = (int2)(map.s2, map.s6), mul = (int2)(map.s0, map.s4);
  const int2 add = (int2)(map.s1, map.s5), size = (int2)(dims.s4, dims.s5), result = (int2)(dims.s6, dims.s7);
  const int2 window = (int2)(taps.s0, taps.s1), box = (int2)(part.s1, part.s2), boxes = (result + box - 1) / box;
  const int blocks = (dims.s1 + LANES - 1) / LANES, first = item / (boxes.x * boxes.y) * part.s0;
  const int behind = min(first + (int)part.s0, (int)dims.s0 * blocks);
  const int2 from = (int2)(item / boxes.y % boxes.x, item % boxes.y) * box, to = min(from + box, result);
  FN(phase) down[PHASES], along[PHASES];
  for (int k = 0; k < div.x; k++) down[k] = FN(phase_of)(k * mul.x + add.x, delta.x, div.x, window.x);
  for (int k = 0; k < div.y; k++) along[k] = FN(phase_of)(k * mul.y + add.y, delta.y, div.y, window.y);
  USE(const STORAGE(T), x);
  USE(const STORAGE(TB), w);
  USE(STORAGE(OUT), y);
  float block[BLOCK] ALIGNED;
#if X_BLOCKED
  const int2 held0 = (int2)(0), held = size;
#else
  float source[SOURCE] ALIGNED;
  /* Range of the source that any of the places reads. */
  const int2 reach = (window - 1) * delta, low = from * mul + add + min(reach, (int2)(0));
  const int2 high = (to - 1) * mul + add + max(reach, (int2)(0));
  const int2 held0 = min(max(low, (int2)(0)) / div, size);
  const int2 held = max(min(max(high, -div) / div + 1, size) - held0, (int2)(0));
#endif
  for (int u = first; u < behind; u++) {
    const int image = u / blocks, row0 = u % blocks * LANES, rows = min(LANES, (int)dims.s1 - row0);
    const __global STORAGE(TB) *own = w + row0 * window.x * window.y;
    __global STORAGE(OUT) *out = y + image * y_s.s5;
#if X_BLOCKED
    SOURCE_TYPE *source = x + u * size.x * size.y * LANES;
#else
    const int plane = size.x * size.y, pieces = held.y == size.y ? 1 : held.x, piece = held.x * held.y / max(pieces, 1);
    for (int i = 0; i < pieces; i++)
      FN(turn)(x + (image * (int)dims.s1 + row0) * plane + (held0.x + i) * size.y + held0.y, plane, rows, piece,
               source + i * piece * LANES);
#endif
    float *line = block;
    for (int l = from.x; l < to.x; l++) {
      const FN(phase) d = down[l % div.x];
      const int at = d.shift + l / div.x * mul.x, move = max(d.move, 1);
      const int2 lines = clade_inside(at, move, size.x, d.count); /* of taps */
#if Y_BLOCKED
      for (int i = from.y; i < to.y; i++) SOON(out + (row0 / 16) * y_s.s4 + (l * result.y + i) * y_s.s7);
#endif
      for (int k = 0; k < div.y; k++) {
        const FN(phase) a = along[k];
        const int i0 = (from.y - k + div.y - 1) / div.y, i1 = (to.y - k + div.y - 1) / div.y;
        FN(slide_any)
        (source + (at + lines.x * move - held0.x) * held.y * LANES, (int2)(move * held.y * LANES, a.move),
         own + ((d.first + lines.x * d.step) * window.y + a.first) * LANES,
         (int2)(d.step * window.y * LANES, a.step * LANES), (int2)(lines.y - lines.x, a.count),
         a.shift + i0 * mul.y - held0.y, mul.y, held.y, i1 - i0, line + (i0 * div.y + k - from.y) * LANES,
         div.y * LANES);
      }
      const bool whole = !Y_BLOCKED && to.y - from.y == result.y; /* contiguous lines are stored as one */
      if (!whole || l + 1 == to.x) {
        const int first_line = whole ? from.x : l;
        FN(finish)
        (block, 1, 0, LANES, rows, (int2)(1, (l + 1 - first_line) * (to.y - from.y)), (int2)(0, 1), Y_BLOCKED, out, y_s,
         image, row0, first_line * result.y + from.y EPILOGUE_PASS);
      } else {
        line += result.y * LANES;
      }
    }
  }
}

GROUP(1, 1, 1)
ITEM_KERNEL(conv2d_depthwise, PASS(x), PASS(w), PASS(y), dims, taps, map, part, y_s EPILOGUE_PASS)
#endif

#ifdef WANT_conv2d_weights_depthwise
/* Gradient with respect to the weights; arguments as in conv2d_weights.cl. A work-item computes a block of channels for
 * part.s0 lines of y, counted over all images, part.s1 at a time. The sums of three taps in each of three lines of the
 * window stay in registers for all of these lines. */
#define AT_ONCE      3
#define VECTORS      AT_ONCE
#define SUM_AT(r, v) (sums + ((r) * across + (v)) * LANES + k)

/* Adds `many` places of each of some lines of y (`by` apart), with their pixels in three lines of x (`down` apart; from
 * line to line of y, `next`); `there` is the set of these that exist. Place p uses AT_ONCE pixels, UNIT apart, beginning
 * at p * STEP; the first one is at `column`. RUN places share their loads. Except for the first and last ENDS pixels of
 * a line (of `size`), all pixels must exist. */
#define ADD_ARGS                                                                                                  \
  SOURCE_TYPE *x, int down, int next, SOURCE_TYPE *y, int by, int lines, int many, int column, int step, int move, \
      int size, uint there, int across, float *sums
#define ENDS 3
#define USES(j, t, STEP, RUN) (RUN == 1 ? j == t : j >= t && (j - t) % STEP == 0 && (j - t) / STEP < RUN)
#define ADD(NAME, RUN, STEP, UNIT)                                                                              \
  APART static void NAME(ADD_ARGS) {                                                                      \
    for (int k = 0; k < LANES; k += WIDTH) {                                                              \
      VECTOR sum[AT_ONCE][AT_ONCE];                                                                       \
      EACH_SUM(AT_ONCE) sum[r][v] = VLOAD(0, SUM_AT(r, v));                                               \
      for (int line = 0; line < lines; line++)                                                            \
        for (int i = 0; i < many; i += RUN) {                                                             \
          const int inputs = (RUN - 1) * STEP + AT_ONCE, at = column + i * STEP;                          \
          SOURCE_TYPE *from = x + (line * next + at * LANES + k), *own = y + (line * by + i * LANES + k); \
          VECTOR one[RUN];                                                                                \
          UNROLLED(p, RUN) one[p] = READ(own + p * LANES);                                                \
          UNROLLED(r, AT_ONCE) {                                                                          \
            if (!(there >> r & 1)) continue;                                                              \
            UNROLLED(j, inputs) {                                                                         \
              if ((j < ENDS || j >= inputs - ENDS) && (uint)(at + j * UNIT) >= (uint)size) continue;      \
              const VECTOR input = READ(from + r * down + j * UNIT * LANES);                              \
              UNROLLED(t, AT_ONCE) if (USES(j, t, STEP, RUN))                                             \
                  sum[r][t] = fma(input, one[RUN == 1 ? 0 : (j - t) / STEP], sum[r][t]);                  \
            }                                                                                             \
          }                                                                                               \
        }                                                                                                 \
      EACH_SUM(AT_ONCE) VSTORE(sum[r][v], 0, SUM_AT(r, v));                                               \
    }                                                                                                     \
  }
ADD(FN(add), 7, 1, 1)
ADD(FN(add_by_2), 7, 2, 1)
ADD(FN(add_places), 1, step, move)
static void FN(add_any)(ADD_ARGS) {
  const bool near = move == 1 && step <= 2 && column >= -ENDS;
  const int runs = near ? clamp((size - AT_ONCE + ENDS - column) / step + 1, 0, many) / 7 * 7 : 0;
#define PASS_ON(from, n) \
  x, down, next, y + (from) * LANES, by, lines, n, column + (from) * step, step, move, size, there, across, sums
  if (runs && step == 1) FN(add)(PASS_ON(0, runs));
  if (runs && step == 2) FN(add_by_2)(PASS_ON(0, runs));
  if (runs < many) FN(add_places)(PASS_ON(runs, many - runs));
}

/* Stores a block's sums as weights, one channel after another. */
APART static void FN(put_sums)(const float *sums, int across, int2 window, int channels, __global float *out) {
  const int taps = window.x * window.y;
  int tap = 0;
  for (; tap + 8 <= taps; tap += 8)
    for (int c = 0; c < channels; c += 8)
      TURN_EIGHT(vload8(0, sums + ((tap + l) / window.y * across + (tap + l) % window.y) * LANES + c),
                 if (c + l < channels) vstore8(eight[l], 0, out + (c + l) * taps + tap))
  for (; tap < taps; tap++)
    for (int c = 0; c < channels; c++)
      out[c * taps + tap] = sums[(tap / window.y * across + tap % window.y) * LANES + c];
}

#define ARGS                                                                                                     \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), y), ARG(float, out), const index8_t dims, const index8_t taps, \
      const index8_t map, const index8_t part
BODY(conv2d_weights_depthwise_item)(const int item, ARGS) {
  const int blocks = max((int)(dims.s1 + LANES - 1) / LANES, 1), block = item % blocks, own = item / blocks;
  const int channels = dims.s1, row0 = block * LANES, rows = min(LANES, channels - row0);
  const int2 window = (int2)(taps.s0, taps.s1), size = (int2)(dims.s4, dims.s5), grid = (int2)(dims.s6, dims.s7);
  const int last = min((own + 1) * (int)part.s0, (int)(dims.s0 * dims.s6)), across = (window.y + 2) / AT_ONCE * AT_ONCE;
  if (own >= taps.s2 || part.s1 == 0) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), y);
  USE(float, out);
  float sums[SUMS_ROOM] ALIGNED;
#if !X_BLOCKED
  float source[SOURCE] ALIGNED, result[BLOCK] ALIGNED;
#endif
  for (int i = 0; i < (window.x + 2) / AT_ONCE * AT_ONCE * across * LANES; i += WIDTH) VSTORE((VECTOR)(0), 0, sums + i);
  for (int u = own * part.s0, many; u < last; u += many) {
    const int image = u / grid.x, high = u % grid.x, low = high * (int)map.s0 + (int)map.s1;
    many = min(min(last - u, grid.x - high), (int)part.s1);
#if X_BLOCKED
    const int held0 = 0;
    SOURCE_TYPE *source = x + (image * blocks + block) * size.x * size.y * LANES;
    SOURCE_TYPE *result = y + ((image * blocks + block) * grid.x + high) * grid.y * LANES;
#else
    const int held0 = clamp(low, 0, size.x), plane = size.x * size.y;
    const int end = clamp(low + (many - 1) * (int)map.s0 + (window.x - 1) * (int)map.s2 + 1, held0, size.x);
    FN(turn)(x + (image * channels + row0) * plane + held0 * size.y, plane, rows, (end - held0) * size.y, source);
    FN(turn)(y + ((image * channels + row0) * grid.x + high) * grid.y, grid.x * grid.y, rows, many * grid.y, result);
#endif
    for (int r = 0; r < window.x; r += AT_ONCE) {
      const int lines = min(AT_ONCE, window.x - r);
      for (int l = 0, n = 1; l < many; l += n) {
        const int at = low + l * (int)map.s0 + r * (int)map.s2, reach = (lines - 1) * (int)map.s2;
        uint there = 0;
        for (int k = 0; k < lines; k++) there |= (uint)(at + k * (int)map.s2) < (uint)size.x ? 1u << k : 0;
        /* several lines for which all lines of the window exist, or one line for which some do not */
        n = there == (1u << lines) - 1 ? clamp((size.x - 1 - at - reach) / (int)map.s0 + 1, 1, many - l) : 1;
        for (int t = 0; there && t < window.y; t += AT_ONCE)
          FN(add_any)
        (source + (at - held0) * size.y * LANES, (int)map.s2 * size.y * LANES, (int)map.s0 * size.y * LANES,
         result + l * grid.y * LANES, grid.y * LANES, n, grid.y, (int)map.s5 + t * (int)map.s6, (int)map.s4,
         (int)map.s6, size.y, there, across, sums + (r * across + t) * LANES);
      }
    }
  }
  FN(put_sums)(sums, across, window, rows, out + (own * channels + row0) * window.x * window.y);
}

GROUP(1, 1, 1)
ITEM_KERNEL(conv2d_weights_depthwise, PASS(x), PASS(y), PASS(out), dims, taps, map, part)
#endif
