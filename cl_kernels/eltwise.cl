/* Elementwise programs. ELT_ARGS, ELT_USE, ELT_LOAD, ELT_BODY and ELT_OUT describe the program: its tensors x0, x1, …,
 * their elements i0, i1, … at an index, and the result r. RANK 0: all operands have the result's shape. Otherwise RANK
 * is the number of axes after merging, and a stride of 0 repeats an operand along an axis. An operand and the result
 * may share memory. */
#if RANK
#if RANK == 2
#define AT(s) (x * (size_t)(s).s0 + c1 * (size_t)(s).s1)
#elif RANK == 4
#define AT(s) (x * (size_t)(s).s0 + c1 * (size_t)(s).s1 + c2 * (size_t)(s).s2 + c3 * (size_t)(s).s3)
#else
#define AT(s)                                                                                      \
  (x * (size_t)(s).s0 + c1 * (size_t)(s).s1 + c2 * (size_t)(s).s2 + c3 * (size_t)(s).s3 +          \
   c4 * (size_t)(s).s4 + c5 * (size_t)(s).s5 + c6 * (size_t)(s).s6 + c7 * (size_t)(s).s7)
#endif
#define SPLIT(c, rest, d)                         \
  c = rest % (size_t)max(d, (index_t)1); \
  rest /= (size_t)max(d, (index_t)1);
/* Indices of the other axes, for a row. */
#if RANK == 2
#define PLACES size_t c1;
#define PLACE  c1 = row;
#elif RANK == 4
#define PLACES size_t rest, c1, c2, c3;
#define PLACE  rest = row; SPLIT(c1, rest, dim.s1) SPLIT(c2, rest, dim.s2) c3 = rest;
#else
#define PLACES size_t rest, c1, c2, c3, c4, c5, c6, c7;
#define PLACE                                                                                      \
  rest = row; SPLIT(c1, rest, dim.s1) SPLIT(c2, rest, dim.s2) SPLIT(c3, rest, dim.s3)              \
  SPLIT(c4, rest, dim.s4) SPLIT(c5, rest, dim.s5) SPLIT(c6, rest, dim.s6) c7 = rest;
#endif

#endif

#ifdef WANT_eltwise_forward_group
/* A work-item computes four consecutive elements of a row: ELT_ROW loads them, and ELT_LOAD selects number l of each
 * operand. `total` is the number of elements, or of pieces of rows, `fours` per row. */
#if RANK
#define ARGS ELT_ARGS ARG(STORAGE(ELT_OUT), y), const index8_t dim, ELT_STRIDES const index_t fours, const index_t total
#define PASS_STRIDES dim, ELT_PASS_STRIDES fours,
BODY(eltwise_forward_group_item)(const long number, ARGS) {
  const size_t item = (size_t)number;
  if (item >= (size_t)total) return;
  const size_t row = item / (size_t)fours, x = (item - row * (size_t)fours) * 4, at = row * (size_t)dim.s0 + x;
  const int left = (int)min((size_t)dim.s0 - x, (size_t)4);
  PLACES
  PLACE
#else
#define ARGS ELT_ARGS ARG(STORAGE(ELT_OUT), y), const index_t total
#define PASS_STRIDES
BODY(eltwise_forward_group_item)(const long number, ARGS) {
  const size_t at = (size_t)number * 4;
  if (at >= (size_t)total) return;
  const int left = (int)min((size_t)total - at, (size_t)4);
#endif
  ELT_USE
  USE(STORAGE(ELT_OUT), y);
  ELT_ROW
  COMPUTE(ELT_OUT) four[4];
#pragma unroll
  for (int l = 0; l < 4; l++)
    if (l < left) {
      ELT_LOAD
      ELT_BODY
      four[l] = r;
    }
  FOUR_STORE(ELT_OUT, y, at, left, four)
}

KERNEL(eltwise_forward_group)(ARGS) {
  FN(eltwise_forward_group_item)((long)get_global_id(0), ELT_PASS PASS(y), PASS_STRIDES total);
}
#undef ARGS
#undef PASS_STRIDES
#elif defined WANT_eltwise_blocks_ref
/* A work-item quantizes a block of 32 elements exactly as src/base/blocks.c does; elements behind the last one count as
 * 0. Quotients are corrected to the nearest float, since devices may divide less exactly. */
static inline float FN(quotient)(const float x, const float y) {
  const float near = x / y, inverse = 1.0f / y;
  return fma(fma(-y, near, x), inverse, near);
}
/* The first element of largest magnitude; NaN if any element is not finite. */
static inline float FN(largest)(const float *v) {
  float most = 0;
  for (int l = 0; l < 32; l++) {
    if (!(fabs(v[l]) < INFINITY)) return NAN;
    if (fabs(v[l]) > fabs(most)) most = v[l];
  }
  return most;
}
static inline float FN(put_scale)(__global uchar *block, const float scale) {
  clade_store_f16((__global ushort *)block, 0, scale);
  const float stored = clade_load_f16((const __global ushort *)block, 0);
  if (fabs(stored) < INFINITY) return stored != 0 ? FN(quotient)(1.0f, scale) : 0.0f;
  *(__global ushort *)block = 0x7e00;
  return 0;
}
static inline int FN(nibble)(const float x, const float factor) {
#pragma OPENCL FP_CONTRACT OFF
  const float levels = x * factor;
  return fabs(levels) < INFINITY ? min((int)(levels + 8.5f), 15) : 8;
}
#define BLOCK_q4_0(block, v)                                                                                        \
  const float factor = FN(put_scale)(block, FN(largest)(v) / -8);                                                   \
  for (int l = 0; l < 16; l++) (block)[2 + l] = (uchar)(FN(nibble)(v[l], factor) | FN(nibble)(v[l + 16], factor) << 4);
#define BLOCK_q8_0(block, v)                                                       \
  const float factor = FN(put_scale)(block, FN(quotient)(fabs(FN(largest)(v)), 127.0f)); \
  for (int l = 0; l < 32; l++) {                                                   \
    const float levels = v[l] * factor;                                            \
    (block)[2 + l] = (uchar)(fabs(levels) < INFINITY ? (int)round(levels) : 0);           \
  }
KERNEL(eltwise_blocks_ref)(ELT_ARGS ARG(STORAGE(ELT_OUT), y), const index_t n) {
  const size_t item = get_global_id(0);
  if (item * 32 >= (size_t)n) return;
  ELT_USE
  USE(STORAGE(ELT_OUT), y);
  float v[32];
  for (size_t l = 0; l < 32; l++) {
    const size_t at = item * 32 + l;
    v[l] = 0;
    if (at < (size_t)n) {
      ELT_LOAD
      ELT_BODY
      v[l] = r;
    }
  }
  __global uchar *block = y + item * BLOCK_BYTES(ELT_OUT);
  CLADE_PASTE(BLOCK_, ELT_OUT)(block, v)
}
#elif !defined WANT_eltwise_forward_vec
#if RANK == 0
KERNEL(eltwise_flat_ref)(ELT_ARGS ARG(STORAGE(ELT_OUT), y), const index_t n) {
  ELT_USE
  USE(STORAGE(ELT_OUT), y);
  const size_t at = get_global_id(0);
  if (at < (size_t)n) {
    ELT_LOAD
    ELT_BODY
    STORE(ELT_OUT, y, at, r);
  }
}
#else

/* A work-group computes a piece of a row, for which the other axes' indices are computed once. */
KERNEL(eltwise_strided_ref)
(ELT_ARGS ARG(STORAGE(ELT_OUT), y), const index8_t dim, ELT_STRIDES const index_t groups_per_row) {
  ELT_USE
  USE(STORAGE(ELT_OUT), y);
  const size_t per_row = (size_t)max(groups_per_row, (index_t)1);
  const size_t row = get_group_id(0) / per_row;
  const size_t x = (get_group_id(0) - row * per_row) * get_local_size(0) + get_local_id(0);
  PLACES
  PLACE
  if (x < (size_t)dim.s0) {
    ELT_LOAD
    ELT_BODY
    STORE(ELT_OUT, y, row * (size_t)dim.s0 + x, r);
  }
}
#endif
#else

/* Floats only: a work-item computes a piece of the result, sixteen elements at a time along runs of the innermost axis.
 * ELT_ROW: start of each operand's run (o0, o1, …), and values that are constant along it. STREAM: non-temporal stores,
 * with prefetching (ELT_SOON). LIGHT: memory bandwidth is the limit, and long runs are read in turns; with more
 * computation, turns would be slower. */
#if RANK
#define ARGS                                                                                               \
  ELT_ARGS ARG(STORAGE(ELT_OUT), y), const index8_t dim, ELT_STRIDES const index_t period, const index_t total, \
      const index_t piece
#define PASS_STRIDES dim, ELT_PASS_STRIDES period,
#else
#define ARGS ELT_ARGS ARG(STORAGE(ELT_OUT), y), const index_t total, const index_t piece
#define PASS_STRIDES
#endif
#if STREAM
#define ELT_SOON(p)     SOON((p) + (LIGHT ? FAR : AHEAD))
#define ELT_STORE(p, v) clade_stream16_f32(p, v)
#define ELT_TURN(i, n)  (LIGHT ? IN_TURN(i, n) : (i))
#else
#define ELT_SOON(p)
#define ELT_STORE(p, v) STORE16(ELT_OUT, p, 0, v)
#define ELT_TURN(i, n)  (i)
#endif
/* Computes the elements from i on, of which n exist. */
#define SIXTEEN(place)                  \
  {                                     \
    ELT_LOAD                            \
    ELT_BODY                            \
    if (n < 16)                         \
      PUT16(ELT_OUT, y, place, n, r);   \
    else                                \
      ELT_STORE(y + (place), r);        \
  }
BODY(eltwise_forward_vec_item)(const long item, ARGS) {
  if (item * piece >= total) return;
  ELT_USE
  USE(STORAGE(ELT_OUT), y);
  const size_t end = (size_t)min((item + 1) * piece, (long)total);
#if REPEATED /* operands in another memory order are gathered once, since they repeat after a period */
  size_t row = 0, x = 0, phase = (size_t)(item * piece) % (size_t)period;
  const size_t step = 16 % (size_t)period;
  PLACES
  PLACE
  ELT_LANES
  for (size_t l = 0; l < min((size_t)period + 15, (size_t)total); l++) {
    ELT_ROW
    if (++x == (size_t)dim.s0) {
      x = 0;
      row++;
      PLACE
    }
  }
  const size_t begin = (size_t)(item * piece), run = end - begin;
  for (size_t turn = 0; turn < run; turn += 16) {
    const size_t at = begin + ELT_TURN(turn, run), i = 0, n = run - turn;
    if (STREAM && LIGHT && PARTS > 1 && turn % 64 == 0) phase = at % (size_t)period;
    SIXTEEN(at)
    phase += step;
    if (phase >= (size_t)period) phase -= (size_t)period;
  }
#elif SHORT /* runs of less than sixteen: such operands are gathered for each vector */
  size_t row = (size_t)(item * piece) / (size_t)dim.s0, x = (size_t)(item * piece) - row * (size_t)dim.s0;
  PLACES
  PLACE
  for (size_t at = (size_t)(item * piece); at < end; at += 16) {
    const size_t i = 0, phase = 0, n = end - at;
    ELT_LANES
    for (size_t l = 0; l < 16; l++) {
      ELT_ROW
      if (l + 1 < n && ++x == (size_t)dim.s0) {
        x = 0;
        row++;
        PLACE
      }
    }
    SIXTEEN(at)
  }
#else
  for (size_t at = (size_t)(item * piece), run; at < end; at += run) {
#if RANK
    const size_t row = at / (size_t)dim.s0, x = at - row * (size_t)dim.s0;
    run = min((size_t)dim.s0 - x, end - at);
    PLACES
    PLACE
#else
    run = end - at;
#endif
    ELT_ROW
    for (size_t turn = 0; turn < run; turn += 16) {
      const size_t i = ELT_TURN(turn, run), n = run - turn;
      SIXTEEN(at + i)
    }
  }
#endif
}

KERNEL(eltwise_forward_vec)(ARGS) {
  FN(eltwise_forward_vec_item)((long)get_global_id(0), ELT_PASS PASS(y), PASS_STRIDES total, piece);
}
#endif
#if RANK
#endif
