/* Non-temporal stores, prefetches, access orders, and transposition in registers. Follows prelude.cl. */

/* Stores sixteen floats non-temporally, if the compiler supports it and they are aligned. For results that exceed the
 * caches. */
#if defined __has_builtin
#if __has_builtin(__builtin_nontemporal_store)
#define CLADE_STREAMS
#endif
#endif
static inline void clade_stream16_f32(__global float *p, float16 v) {
#ifdef CLADE_STREAMS
  if (((size_t)p & 63) == 0) {
    __builtin_nontemporal_store(v, (__global float16 *)p);
    return;
  }
  if (((size_t)p & 31) == 0) {
    __builtin_nontemporal_store(v.lo, (__global float8 *)p);
    __builtin_nontemporal_store(v.hi, (__global float8 *)p + 1);
    return;
  }
#endif
  STOREN(16, f32, p, 0, v);
}

/* Stores sixteen elements; floats non-temporally if `past`. */
static inline void clade_past_f32(__global float *p, float16 v, int past) {
  if (past)
    clade_stream16_f32(p, v);
  else
    STOREN(16, f32, p, 0, v);
}
#define CLADE_PAST_f32(T, p, i, v, past)   clade_past_f32((p) + (i), v, past)
#define CLADE_PAST_f16(T, p, i, v, past)   STOREN(16, T, p, i, v)
#define CLADE_PAST_bf16(T, p, i, v, past)  STOREN(16, T, p, i, v)
#define CLADE_PAST_small(T, p, i, v, past) STOREN(16, T, p, i, v)
#define STREAM16(T, p, i, v, past)         CLADE_ACCESS(CLADE_PAST, T)(T, p, i, v, past)

/* Non-temporal store of sixteen elements that are known to begin with a cache line. */
static inline void clade_line_f32(__global float *p, float16 v) {
#ifdef CLADE_STREAMS
  __builtin_nontemporal_store(v, (__global float16 *)p);
#else
  STOREN(16, f32, p, 0, v);
#endif
}
#define CLADE_LINE_f32(T, p, i, v)   clade_line_f32((p) + (i), v)
#define CLADE_LINE_f16(T, p, i, v)   STOREN(16, T, p, i, v)
#define CLADE_LINE_bf16(T, p, i, v)  STOREN(16, T, p, i, v)
#define CLADE_LINE_small(T, p, i, v) STOREN(16, T, p, i, v)
#define LINE16(T, p, i, v)           CLADE_ACCESS(CLADE_LINE, T)(T, p, i, v)

/* Prefetches. SPIR-V has no such instruction. */
#ifdef CLADE_PROCESSOR
#define SOON(p)  __builtin_prefetch((const void *)(size_t)(p))
#define LATER(p) __builtin_prefetch((const void *)(size_t)(p), 0, 2) /* into the L2 cache */
#ifdef CLADE_BY_PAGES
#define ONCE(p) SOON(p)
#else
#define ONCE(p) __builtin_prefetch((const void *)(size_t)(p), 0, 0) /* read once: bypasses L2 */
#endif
#else
#define SOON(p)
#define LATER(p)
#define ONCE(p)
#endif
/* Prefetch distance in elements, summed over all streams. Hardware prefetchers do not cross pages, so prefetching each
 * stream 4 or 8 KiB ahead would not suffice. */
#define AHEAD 3072

/* Number of parts of a long run that are read in turns, four vectors of sixteen from each. More than one on cores that
 * prefetch lines within each page themselves. FAR: prefetch distance of each part. */
#ifdef CLADE_BY_PAGES
#define PARTS 4
#else
#define PARTS 1
#endif
#define FAR (AHEAD / PARTS)
/* Position of the vector that is read at turn i of a run of n elements, both counted in elements. The remainder of
 * whole turns comes last, in order. */
static inline size_t clade_in_turn(size_t i, size_t n, size_t parts) {
  const size_t part = n < 1024 * parts ? 0 : n / (64 * parts) * 64;
  return i < parts * part ? i / 64 % parts * part + i / (64 * parts) * 64 + i % 64 : i;
}
#define IN_TURN(i, n) clade_in_turn(i, n, PARTS)
/* The same for n rows, with one row of each part per turn. */
#define ROW_IN_TURN(i, n) ((i) < (n) / PARTS * PARTS ? (i) % PARTS * ((n) / PARTS) + (i) / PARTS : (i))

/* Offset in [samples, channels, inner] of a channel's pixel, given its number in [samples, inner]. The host ensures
 * that offsets fit into an int (channels.c). */
static inline int clade_pixel(int pixel, int c, int inner, int channels) {
  return (pixel / inner * (channels - 1) + c) * inner + pixel;
}
/* A contiguous run of the share [begin, end) of channel c, and the position to prefetch, `ahead` of it, which continues
 * with the next channel's share if there is one. All lengths are whole vectors. */
typedef struct {
  int count, at, soon;
} clade_run;
static inline clade_run clade_run_of(int pixel, int stop, int ahead, int begin, int end, int c, int inner, int channels) {
  const bool next = pixel + ahead >= end;
  const int later = next ? min(pixel + ahead - end + begin, end - 16) : pixel + ahead;
  const int count = min(min(stop - pixel, inner - pixel % inner), inner - later % inner);
  return (clade_run){next ? count : min(count, end - later), clade_pixel(pixel, c, inner, channels),
                     clade_pixel(later, next ? min(c + 1, channels - 1) : c, inner, channels)};
}

/* Copies n elements and prefetches n elements at `soon`. 32-bit elements are stored non-temporally if `past` and only
 * few cache lines are partial. */
static inline void clade_move_i32(const __global int *x, const __global int *soon, __global int *y, size_t n, int past) {
  size_t i = 0;
  past = past && (n >= 1024 || (((size_t)y & 63) == 0 && n % 16 == 0));
  if (past)
    for (; (size_t)(y + i) & 31; i++) y[i] = x[i];
  const size_t begin = i, whole = (n - begin) / 16 * 16;
  for (size_t turn = 0; turn < whole; turn += 16) {
    const size_t at = begin + IN_TURN(turn, whole);
    SOON(soon + at);
    clade_past_f32((__global float *)(y + at), as_float16(vload16(0, x + at)), past);
  }
  i += whole;
  if (i < n) SOON(soon + i);
  for (; i < n; i++) y[i] = x[i];
}
#define CLADE_MOVES(T)                                                                                             \
  static inline void CLADE_PASTE(clade_move_, T)(const __global STORAGE(T) * x, const __global STORAGE(T) * soon,  \
                                                 __global STORAGE(T) * y, size_t n, int past) {                    \
    for (size_t i = 0; i < n; i += 64 / sizeof(STORAGE(T))) SOON(soon + i);                                        \
    for (size_t i = 0; i < n; i++) y[i] = x[i];                                                                    \
  }
CLADE_MOVES(u8)
CLADE_MOVES(f16)
CLADE_MOVES(i64)
/* Stores sixteen elements from private memory; 32-bit ones non-temporally if `past`. */
#define CLADE_PASS_i32(y, x, past) clade_past_f32((__global float *)(y), as_float16(vload16(0, x)), past)
#define CLADE_PASS_u8(y, x, past)  vstore16(vload16(0, x), 0, y)
#define CLADE_PASS_f16             CLADE_PASS_u8
#define CLADE_PASS_i64             CLADE_PASS_u8
#define PASS16(T, y, x, past)      CLADE_PASTE(CLADE_PASS_, T)(y, x, past)
#define COPY(T, x, soon, y, n, past) CLADE_PASTE(clade_move_, T)(x, soon, y, n, past)

/* MIXED16: lanes of two vectors by constant indices, where 16 and more select from b; one instruction, whereas
 * composing a vector may take several. ANY16: true if any lane of a mask is set. */
#define MIXED16(a, b, ...) shuffle2(a, b, (uint16)(__VA_ARGS__))
#define ANY16(v)           any(v)
#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#undef MIXED16
#define MIXED16(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#endif
#if defined CLADE_PROCESSOR && __has_builtin(__builtin_reduce_or)
#undef ANY16
#define ANY16(v) __builtin_reduce_or(v)
#endif
#endif

#define EVEN16(a, b) MIXED16(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD16(a, b)  MIXED16(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
/* The first lane of a, followed by the lanes of b. */
#define BEHIND16(a, b) MIXED16(a, b, 0, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30)

/* Transposes an 8 x 8 matrix in registers: exchanges halves, and transposes within each half, in either order. If the
 * exchange comes last, halves can be stored directly, which saves an instruction per vector; but a whole-vector load
 * soon after waits for both stores (store-to-load forwarding fails). */
__attribute__((always_inline)) static inline void clade_turn_apart(float8 *x) {
#pragma unroll
  for (int l = 0; l < 4; l++) {
    const float8 low = x[l], high = x[l + 4];
    x[l] = (float8)(low.lo, high.lo);
    x[l + 4] = (float8)(low.hi, high.hi);
  }
}
__attribute__((always_inline)) static inline void clade_turn_within(float8 *x) {
  float8 y[8];
#pragma unroll
  for (int l = 0; l < 8; l += 2) {
    y[l] = (float8)(x[l].s0, x[l + 1].s0, x[l].s1, x[l + 1].s1, x[l].s4, x[l + 1].s4, x[l].s5, x[l + 1].s5);
    y[l + 1] = (float8)(x[l].s2, x[l + 1].s2, x[l].s3, x[l + 1].s3, x[l].s6, x[l + 1].s6, x[l].s7, x[l + 1].s7);
  }
#pragma unroll
  for (int l = 0; l < 8; l += 4)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      x[l + 2 * h] = (float8)(y[l + h].s01, y[l + 2 + h].s01, y[l + h].s45, y[l + 2 + h].s45);
      x[l + 2 * h + 1] = (float8)(y[l + h].s23, y[l + 2 + h].s23, y[l + h].s67, y[l + 2 + h].s67);
    }
}
__attribute__((always_inline)) static inline void clade_turn(float8 *x) {
  clade_turn_apart(x);
  clade_turn_within(x);
}
/* Every second of the fifteen elements from i on. */
#define SECONDS8(T, p, i) ((float8)(LOADN(8, T, p, i).even, LOADN(8, T, p, (i) + 7).odd))
/* Transposes eight vectors of eight: `read` gives line l, and `write` stores column l, eight[l]. */
#define TURN_EIGHT(read, write)        \
  {                                    \
    float8 eight[8];                   \
    UNROLLED(l, 8) eight[l] = read;    \
    clade_turn(eight);                 \
    UNROLLED(l, 8) write;              \
  }

/* Eight columns of sixteen rows at a distance of `apart`, as one vector per column. */
#define CLADE_COLUMNS(T)                                                                                              \
  __attribute__((always_inline)) static inline void CLADE_PASTE(clade_columns_, T)(                                   \
      float16 * column, const __global STORAGE(T) * p, size_t i, size_t apart) {                                      \
    float8 low[8], high[8];                                                                                           \
    _Pragma("unroll") for (int l = 0; l < 8; l++) {                                                                   \
      low[l] = LOADN(8, T, p, i + l * apart);                                                                         \
      high[l] = LOADN(8, T, p, i + (l + 8) * apart);                                                                  \
    }                                                                                                                 \
    clade_turn(low);                                                                                                  \
    clade_turn(high);                                                                                                 \
    _Pragma("unroll") for (int l = 0; l < 8; l++) column[l] = (float16)(low[l], high[l]);                             \
  }
#define CLADE_COLUMNS_real(T)     CLADE_PASTE(CLADE_COLUMNS_real_, CLADE_SCALE(T))(T)
#define CLADE_COLUMNS_real_none(T) CLADE_COLUMNS(T)
#define CLADE_COLUMNS_real_f16(T)
#define CLADE_COLUMNS_whole(T)
#define CLADE_COLUMNS_natural(T)
#define CLADE_COLUMNS_truth(T)
#define CLADE_COLUMNS_OF(T, with) CLADE_PASTE(CLADE_COLUMNS_, CLADE_KIND(T))(T)
CLADE_DTYPE_EACH(CLADE_COLUMNS_OF, )
#define COLUMNS8(T, column, p, i, apart) CLADE_PASTE(clade_columns_, T)(column, p, i, apart)
/* True if reading columns from row `first` on stays within `rows` of n elements. */
#define COLUMNS_INSIDE(first, n, rows) (((size_t)(first) + 15) * (n) + ((n) + 7) / 8 * 8 <= (size_t)(rows) * (n))

/* 16 x 16, for wide vectors: exchanges groups of four, and transposes within each group. */
#define CLADE_FOURS(at)  (float16)(x[l].s##at, x[l + 4].s##at, x[l + 8].s##at, x[l + 12].s##at)
#define CLADE_PAIRS(a, b, c, d, e, f, g, h)                                                                        \
  (float16)(y[l].s##a, y[l + 1].s##a, y[l].s##b, y[l + 1].s##b, y[l].s##c, y[l + 1].s##c, y[l].s##d, y[l + 1].s##d, \
            y[l].s##e, y[l + 1].s##e, y[l].s##f, y[l + 1].s##f, y[l].s##g, y[l + 1].s##g, y[l].s##h, y[l + 1].s##h)
#define CLADE_TWOS(low, high, a, b, c, d) \
  (float16)(low.s##a, high.s##a, low.s##b, high.s##b, low.s##c, high.s##c, low.s##d, high.s##d)
__attribute__((always_inline)) static inline void clade_turn_sixteen(float16 *x) {
  float16 y[16], z[16];
#pragma unroll
  for (int l = 0; l < 4; l++) {
    y[l] = CLADE_FOURS(0123);
    y[l + 4] = CLADE_FOURS(4567);
    y[l + 8] = CLADE_FOURS(89ab);
    y[l + 12] = CLADE_FOURS(cdef);
  }
#pragma unroll
  for (int l = 0; l < 16; l += 2) {
    z[l] = CLADE_PAIRS(0, 1, 4, 5, 8, 9, c, d);
    z[l + 1] = CLADE_PAIRS(2, 3, 6, 7, a, b, e, f);
  }
#pragma unroll
  for (int l = 0; l < 16; l += 4)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      x[l + 2 * h] = CLADE_TWOS(z[l + h], z[l + 2 + h], 01, 45, 89, cd);
      x[l + 2 * h + 1] = CLADE_TWOS(z[l + h], z[l + 2 + h], 23, 67, ab, ef);
    }
}

/* Transposes 16 x 16 tiles of 32-bit elements: y[j * to + i] = x[i * from + j]. With wide registers each line is one
 * store, since loads of lines that were just stored in halves would wait (store-to-load forwarding fails). */
__attribute__((noinline)) static void clade_tile(const __global int *x, size_t from, __global int *y, size_t to,
                                                 int past) {
  /* alignment is tested once, since a branch per line would cost as much as the store */
#ifdef __AVX512F__
  if (past && (((size_t)y | to * 4) & 63) == 0) {
    __global float *line = (__global float *)y;
    float16 v[16];
#pragma unroll
    for (int l = 0; l < 16; l++) v[l] = as_float16(vload16(0, x + l * from));
    clade_turn_sixteen(v);
#pragma unroll
    for (int l = 0; l < 16; l++, line += to) clade_line_f32(line, v[l]);
    return;
  }
#endif
#pragma unroll
  for (int j = 0; j < 16; j += 8) {
    float8 low[8], high[8];
#pragma unroll
    for (int l = 0; l < 8; l++) {
      low[l] = as_float8(vload8(0, x + l * from + j));
      high[l] = as_float8(vload8(0, x + (l + 8) * from + j));
    }
    clade_turn(low);
    clade_turn(high);
    __global float *line = (__global float *)(y + j * to);
#ifdef CLADE_STREAMS
    if (past && (((size_t)line | to * 4) & 31) == 0) {
#pragma unroll
      for (int l = 0; l < 8; l++, line += to) {
        __builtin_nontemporal_store(low[l], (__global float8 *)line);
        __builtin_nontemporal_store(high[l], (__global float8 *)line + 1);
      }
      continue;
    }
#endif
#pragma unroll
    for (int l = 0; l < 8; l++, line += to) STOREN(16, f32, line, 0, (float16)(low[l], high[l]));
  }
}
/* The same for 16-bit and 8-bit elements, which are transposed as 32-bit words. */
#define CLADE_TILE(T)                                                                                              \
  __attribute__((noinline)) static void CLADE_PASTE(clade_tile_, T)(const __global T *x, size_t from, __global T *y, \
                                                                    size_t to, int past) {                         \
    (void)past;                                                                                                    \
    for (int j = 0; j < 16; j += 8) {                                                                              \
      float8 low[8], high[8];                                                                                      \
      _Pragma("unroll") for (int l = 0; l < 8; l++) {                                                              \
        low[l] = as_float8(convert_uint8(vload8(0, x + l * from + j)));                                            \
        high[l] = as_float8(convert_uint8(vload8(0, x + (l + 8) * from + j)));                                     \
      }                                                                                                            \
      clade_turn(low);                                                                                             \
      clade_turn(high);                                                                                            \
      _Pragma("unroll") for (int l = 0; l < 8; l++)                                                                \
        vstore16(CLADE_PASTE(CLADE_PASTE(convert_, T), 16)(as_uint16((float16)(low[l], high[l]))), 0,              \
                 y + (j + l) * to);                                                                                \
    }                                                                                                              \
  }
CLADE_TILE(ushort)
CLADE_TILE(uchar)
#undef CLADE_TILE
#define CLADE_TILE_i32 clade_tile
#define CLADE_TILE_f16 clade_tile_ushort
#define CLADE_TILE_u8  clade_tile_uchar
#define TURN_TILE(T)   CLADE_PASTE(CLADE_TILE_, T)
