/* How kernels take tensors, and load and store their elements. Precedes every program, after clade/dtypes.h and before
 * prelude_math.cl and prelude_memory.cl. OpenCL C 1.2.
 *
 * A kernel file is compiled once per set of parameters, and one program contains many such copies. Names at file scope
 * therefore go through KERNEL() and FN(), and the macros that a file defines are undefined after it
 * (src/program/text.c). Functions named by COMMON(), between #if COMMON_FIRST and #endif, are shared by all copies that
 * differ only in the epilogue; they must not use EPILOGUE… or WIDE.
 *
 *   KERNEL(softmax_forward_ref)(ARG(STORAGE(T), x), ARG(STORAGE(T), y), const index_t rows, …)
 *   {
 *     USE(STORAGE(T), x);
 *
 * A file with several kernels may enclose each in #ifdef WANT_<name> … #endif; a copy then contains only one of them.
 *
 * If all scalar arguments are zero, a kernel accesses no memory. Programs are warmed up that way. */
#define CLADE_PASTE_(a, b) a##b
#define CLADE_PASTE(a, b)  CLADE_PASTE_(a, b)
#define FN(name)           CLADE_PASTE(name##_, SUFFIX) /* name##_: some OpenCL headers define `step` as a macro */
#define COMMON(name)       CLADE_PASTE(name##_, COMMON_SUFFIX)
#define KERNEL(name)       CLADE_ENTRY void CLADE_PASTE(name##_, SUFFIX)
#define CLADE_ENTRY        __kernel /* static if the kernel is part of a persistent kernel (persistent.cl) */

/* Precedes KERNEL: the kernel's only work-group size. Some devices take it at the launch instead. */
#ifdef CLADE_FREE_GROUP
#define GROUP(x, y, z)
#else
#define GROUP(x, y, z) __attribute__((reqd_work_group_size(x, y, z)))
#endif

/* The body of a work-item. KERNEL() determines the item's position and calls BODY(), passing PASS(name) for each ARG(…,
 * name). Some compilers process a kernel's text three times, but a called function once, which shortens the time to the
 * first result considerably. A body must not query its ids or declare local memory. Kernels whose work-items should
 * become vector lanes must not use it.
 *
 * BODY(<kernel>_item)(number of the work-item, all of the kernel's arguments) is for one-dimensional launches with
 * groups of one work-item; these may become steps of a persistent kernel (persistent.cl). */
#ifdef CLADE_CALL_BODY
#define BODY(name) __attribute__((noinline)) static void FN(name)
#else
#define BODY(name) static inline void FN(name)
#endif

/* A kernel that only calls BODY(<name>_item) with the number of the work-item, and the arguments ARGS. */
#define ITEM_KERNEL(name, ...) KERNEL(name)(ARGS) { FN(name##_item)(get_global_id(0), __VA_ARGS__); }

/* UNROLLED: an unrolled loop, i = 0 … n - 1. ONE_BY_ONE: precedes a loop that is neither vectorized nor unrolled. */
#define UNROLLED(i, n) _Pragma("unroll") for (int i = 0; i < (n); i++)
#define ONE_BY_ONE     _Pragma("clang loop vectorize(disable) unroll(disable)")

/* index_t has 64 bits if an operand has nearly 2^31 elements or more (for blocked types: bytes; src/op/emit.c). INDEX64
 * is 0 or 1 in every set of parameters. */
#define CLADE_INDEX_0  int
#define CLADE_INDEX_1  long
#define CLADE_INDEX8_0 int8
#define CLADE_INDEX8_1 long8
#define index_t        CLADE_PASTE(CLADE_INDEX_, INDEX64)
#define index8_t       CLADE_PASTE(CLADE_INDEX8_, INDEX64)

/* A tensor argument is a buffer and an offset in elements. */
#define ARG(type, name) __global type *name##_base, const index_t name##_at
#define USE(type, name) __global type *name = name##_base + name##_at
#define PASS(name)      name##_base, name##_at

/* `dims` begins with six batch dimensions. BATCHES: their product; BATCH_OFFSET: offset of batch number `at` for six
 * strides. */
#define BATCHES(dims) ((long)(dims).s0 * (dims).s1 * (dims).s2 * (dims).s3 * (dims).s4 * (dims).s5)
#define CLADE_OFFSET_OF(wide, index, index8)                                                               \
  static inline index CLADE_PASTE(clade_batch_offset_, wide)(index8 dims, index8 strides, index at) {      \
    index from = at % dims.s5 * strides.s5;                                                                \
    at /= dims.s5;                                                                                         \
    from += at % dims.s4 * strides.s4;                                                                     \
    at /= dims.s4;                                                                                         \
    from += at % dims.s3 * strides.s3;                                                                     \
    at /= dims.s3;                                                                                         \
    from += at % dims.s2 * strides.s2;                                                                     \
    at /= dims.s2;                                                                                         \
    return from + at % dims.s1 * strides.s1 + at / dims.s1 * strides.s0;                                   \
  }
CLADE_OFFSET_OF(0, int, int8)
CLADE_OFFSET_OF(1, long, long8)
#define BATCH_OFFSET CLADE_PASTE(clade_batch_offset_, INDEX64)

/* Columns of the table of element types (clade/dtypes.h) for a type named T. */
#define CLADE_ROW(T, column) CLADE_PASTE(CLADE_DTYPE_, T)(column)
#define CLADE_KIND_OF(NAME, number, name, bits, elements, bytes, scale, kind, ...) kind
#define CLADE_FORMAT_OF(NAME, number, name, bits, elements, bytes, scale, kind, use, exponent, fraction, infinite, ...) \
  exponent, fraction, infinite
#define CLADE_STORAGE_OF(NAME, number, name, bits, elements, bytes, scale, kind, use, exponent, fraction, infinite, \
                         storage, ...)                                                                              \
  storage
#define CLADE_COMPUTE_OF(NAME, number, name, bits, elements, bytes, scale, kind, use, exponent, fraction, infinite, \
                         storage, compute, ...)                                                                     \
  compute
#define CLADE_ACCESS_OF(NAME, number, name, bits, elements, bytes, scale, kind, use, exponent, fraction, infinite, \
                        storage, compute, access, ...)                                                             \
  access
#define CLADE_BYTES_OF(NAME, number, name, bits, elements, bytes, ...)               bytes
#define CLADE_SCALE_OF(NAME, number, name, bits, elements, bytes, scale, ...)        scale
#define STORAGE(T)      CLADE_ROW(T, CLADE_STORAGE_OF)
#define BLOCK_BYTES(T)  CLADE_ROW(T, CLADE_BYTES_OF)
#define CLADE_SCALE(T)  CLADE_ROW(T, CLADE_SCALE_OF)
#define COMPUTE(T)      CLADE_ROW(T, CLADE_COMPUTE_OF)
#define CLADE_KIND(T)   CLADE_ROW(T, CLADE_KIND_OF)
#define CLADE_FORMAT(T) CLADE_ROW(T, CLADE_FORMAT_OF) /* exponent bits, fraction bits, infinities */
/* Selects a macro of a family by the type's access, for example CLADE_LOAD_f16 for LOAD. */
#define CLADE_ACCESS(FAMILY, T) CLADE_PASTE(CLADE_PASTE(FAMILY, _), CLADE_ROW(T, CLADE_ACCESS_OF))

/* Sign-extends the lowest byte. A cast to char would do the same, but if a `?:` has only such chars and constants in
 * its branches, Mesa computes it in 8 bits, and llvmpipe crashes. */
static inline int clade_wrap_i8(int v) { return (int)((uint)v << 24) >> 24; }
static inline float clade_load_f16(const __global ushort *p, size_t i) { return vload_half(i, (const __global half *)p); }
static inline void clade_store_f16(__global ushort *p, size_t i, float v) { vstore_half_rte(v, i, (__global half *)p); }
static inline float clade_load_bf16(const __global ushort *p, size_t i) { return as_float((uint)p[i] << 16); }
static inline void clade_store_bf16(__global ushort *p, size_t i, float v) {
  uint u = as_uint(v);
  p[i] = (u & 0x7fffffffu) > 0x7f800000u ? (ushort)(u >> 16 | 64u) : (ushort)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}
static inline float clade_round_f16(float v) {
  ushort h = 0;
  vstore_half_rte(v, 0, (half *)&h);
  return vload_half(0, (const half *)&h);
}
static inline float clade_round_bf16(float v) {
  uint u = as_uint(v);
  return as_float((u & 0x7fffffffu) > 0x7f800000u ? u : (u + 0x7fffu + (u >> 16 & 1u)) & 0xffff0000u);
}
/* Floats of at most 8 bits, with e exponent and m fraction bits: conversion of codes to float, and of floats to codes,
 * rounding to nearest even. Values beyond the largest number become infinity, or NaN if the format has no infinity.
 * Subnormal numbers of the format are computed as differences from its smallest normal number, so float's subnormals
 * are not needed. */
#define CLADE_SMALL(n)                                                                                                \
  static inline float##n clade_small##n(uint##n code, const int e, const int m, const int infinite) {                 \
    const uint first = (129u - (1u << (e - 1))) << 23, last = infinite ? ((1u << e) - 1u) << m : (1u << (e + m)) - 1u; \
    const uint##n a = code & ((1u << (e + m)) - 1u), u = a << (23 - m);                                               \
    const uint##n tiny = as_uint##n(as_float##n(u + first) - as_float(first));                                        \
    const uint##n none = (u & (infinite ? 0x7fffffu : 0u)) | (infinite ? 0x7f800000u : 0x7fc00000u);                   \
    const uint##n number = select(u + first - (1u << 23), tiny, a < (1u << m));                                       \
    return as_float##n(select(number, none, a >= last) | code >> (e + m) << 31);                                      \
  }                                                                                                                   \
  static inline uint##n clade_small_code##n(float##n v, const int e, const int m, const int infinite) {               \
    const uint first = (129u - (1u << (e - 1))) << 23, last = infinite ? ((1u << e) - 1u) << m : (1u << (e + m)) - 1u; \
    const uint unit = (152u - (1u << (e - 1)) - (uint)m) << 23; /* adding it rounds to the smallest number's multiples */ \
    const uint##n u = as_uint##n(v), a = u & 0x7fffffffu;                                                             \
    const uint##n normal = ((a + ((1u << (22 - m)) - 1u) + (a >> (23 - m) & 1u)) >> (23 - m)) -                       \
                           ((128u - (1u << (e - 1))) << m);                                                           \
    const uint##n tiny = as_uint##n(as_float##n(a) + as_float(unit)) - unit;                                          \
    const uint##n none = infinite ? (a >> (23 - m) & ((1u << m) - 1u)) | last | 1u << (m - 1) : (uint##n)(last);       \
    const uint##n near = select(normal, tiny, a < first), code = select(near, (uint##n)(last), near > last);          \
    return select(code, none, a > 0x7f800000u) | u >> 31 << (e + m);                                                  \
  }
CLADE_SMALL()
CLADE_SMALL(4)
CLADE_SMALL(8)
CLADE_SMALL(16)
#define CLADE_LOAD_f32(T, p, i)         (p)[i]
#define CLADE_LOAD_f16(T, p, i)         clade_load_f16(p, i)
#define CLADE_LOAD_bf16(T, p, i)        clade_load_bf16(p, i)
#define CLADE_LOAD_small(T, p, i)       clade_small((p)[i], CLADE_FORMAT(T))
#define CLADE_LOAD_i8(T, p, i)          clade_wrap_i8((p)[i])
#define CLADE_LOAD_integer(T, p, i)     (p)[i]
#define CLADE_LOAD_truth(T, p, i)       (p)[i]
/* Types whose 32 elements share a block, which begins with its scale; p is the first block. */
#define CLADE_BLOCK(T, p, i)            ((p) + (size_t)(i) / 32 * BLOCK_BYTES(T))
static inline float clade_load_q4_0(const __global uchar *block, uint i) {
  return ((block[2 + i % 16] >> i / 16 * 4 & 15) - 8) * clade_load_f16((const __global ushort *)block, 0);
}
static inline float clade_load_q8_0(const __global uchar *block, uint i) {
  return clade_wrap_i8(block[2 + i]) * clade_load_f16((const __global ushort *)block, 0);
}
#define CLADE_LOAD_q4_0(T, p, i)        clade_load_q4_0(CLADE_BLOCK(T, p, i), (uint)((i) % 32))
#define CLADE_LOAD_q8_0(T, p, i)        clade_load_q8_0(CLADE_BLOCK(T, p, i), (uint)((i) % 32))
#define CLADE_STORE_f32(T, p, i, v)     (p)[i] = (v)
#define CLADE_STORE_f16(T, p, i, v)     clade_store_f16(p, i, v)
#define CLADE_STORE_bf16(T, p, i, v)    clade_store_bf16(p, i, v)
#define CLADE_STORE_small(T, p, i, v)   (p)[i] = (STORAGE(T))clade_small_code(v, CLADE_FORMAT(T))
#define CLADE_STORE_i8(T, p, i, v)      (p)[i] = (char)(v)
#define CLADE_STORE_integer(T, p, i, v) (p)[i] = (STORAGE(T))(v)
#define CLADE_STORE_truth(T, p, i, v)   (p)[i] = (uchar)((v) != 0)
#define LOAD(T, p, i)                   CLADE_ACCESS(CLADE_LOAD, T)(T, p, i)
#define STORE(T, p, i, v)               CLADE_ACCESS(CLADE_STORE, T)(T, p, i, v)

/* Rounds a value as storing and loading would; integers keep their lowest bits. */
#define CLADE_ROUND_f16(T, v)     clade_round_f16(v)
#define CLADE_ROUND_bf16(T, v)    clade_round_bf16(v)
#define CLADE_ROUND_small(T, v)   clade_small(clade_small_code(v, CLADE_FORMAT(T)), CLADE_FORMAT(T))
#define CLADE_ROUND_i8(T, v)      clade_wrap_i8(v)
#define CLADE_ROUND_q4_0(T, v)    (v) /* rounded when the block is stored */
#define CLADE_ROUND_q8_0(T, v)    (v)
#define CLADE_ROUND_integer(T, v) (COMPUTE(T))(STORAGE(T))(v)
#define ROUND(T, v)               CLADE_ACCESS(CLADE_ROUND, T)(T, v)

/* Position of an epilogue operand's element for (row, column). A kernel file may redefine it. */
#define CLADE_EPILOGUE_ELEMENT(s) (row * (s).s6 + column * (s).s7)
/* For images, where rows are channels, which may be in blocks of 16. */
#define CLADE_CHANNEL_ELEMENT(s)  ((row >> 4) * (s).s4 + (row & 15) * (s).s6 + column * (s).s7)
#define EPILOGUE_ELEMENT(s)       CLADE_EPILOGUE_ELEMENT(s)

/* A vector of WIDTH floats, its load and its store, for kernels written for one vector width. */
#define VECTOR CLADE_PASTE(float, WIDTH)
#define VLOAD  CLADE_PASTE(vload, WIDTH)
#define VSTORE CLADE_PASTE(vstore, WIDTH)
/* A register tile of such kernels: VECTOR sum[lines][VECTORS]. EACH_SUM: a loop over all sum[r][v]. MULTIPLY_TILE adds
 * the products of a step: the number `left` of each line r by the vectors `right`, numbered v. */
#define EACH_SUM(lines) UNROLLED(r, lines) UNROLLED(v, VECTORS)
#define MULTIPLY_TILE(lines, left, right)                                            \
  {                                                                                  \
    VECTOR one[VECTORS];                                                             \
    UNROLLED(v, VECTORS) one[v] = right;                                             \
    EACH_SUM(lines) sum[r][v] = fma((VECTOR)(left), one[v], sum[r][v]);              \
  }

/* The range of the `many` places, `step` apart from `shift` on, that lie within [0, size). */
static inline int2 clade_inside(int shift, int step, int size, int many) {
  const int first = shift < 0 ? min((step - 1 - shift) / step, many) : 0;
  return (int2)(first, size > shift ? clamp((size - shift + step - 1) / step, first, many) : first);
}

/* N consecutive elements: of float types as floats, of i8, u8 and i32 as ints; N is 4, 8 or 16. */
#define CLADE_LOADN_f32(T, n, p, i) CLADE_PASTE(vload, n)(0, (p) + (i))
#define CLADE_LOADN_f16(T, n, p, i) CLADE_PASTE(CLADE_PASTE(clade_load, n), _f16)((p) + (i))
#define CLADE_LOADN_bf16(T, n, p, i) \
  CLADE_PASTE(as_float, n)(CLADE_PASTE(convert_uint, n)(CLADE_PASTE(vload, n)(0, (p) + (i))) << 16)
#define CLADE_LOADN_small(T, n, p, i) \
  CLADE_PASTE(clade_small, n)(CLADE_PASTE(convert_uint, n)(CLADE_PASTE(vload, n)(0, (p) + (i))), CLADE_FORMAT(T))
#define CLADE_LOADN_i8(T, n, p, i)      CLADE_PASTE(convert_int, n)(CLADE_PASTE(vload, n)(0, (p) + (i)))
#define CLADE_LOADN_integer(T, n, p, i) CLADE_LOADN_i8(T, n, p, i)
#define LOADN(n, T, p, i) CLADE_ACCESS(CLADE_LOADN, T)(T, n, p, i)
#define LOAD16(T, p, i)   LOADN(16, T, p, i)
#define CLADE_ROUND_BF16(n)                                                                                     \
  static inline void CLADE_PASTE(CLADE_PASTE(clade_store, n), _bf16)(__global ushort * p, CLADE_PASTE(float, n) v) {   \
    const CLADE_PASTE(uint, n) u = CLADE_PASTE(as_uint, n)(v), even = u + 0x7fffu + (u >> 16 & 1u);             \
    CLADE_PASTE(vstore, n)                                                                                      \
    (CLADE_PASTE(convert_ushort, n)(select(even, u | 0x400000u, (u & 0x7fffffffu) > 0x7f800000u) >> 16), 0, p); \
  }
CLADE_ROUND_BF16(4)
CLADE_ROUND_BF16(8)
static inline void clade_store16_bf16(__global ushort *p, float16 v) { /* in halves: wide vectors compile slowly */
  clade_store8_bf16(p, v.lo);
  clade_store8_bf16(p + 8, v.hi);
}
/* Uses private memory, which is aligned: PoCL treats vectors of halves in global memory as aligned even if they are
 * not, and some of its instructions then fault. */
#define CLADE_HALVES(n)                                                                                     \
  static inline CLADE_PASTE(float, n) CLADE_PASTE(CLADE_PASTE(clade_load, n), _f16)(const __global ushort *p) {     \
    const CLADE_PASTE(ushort, n) h = CLADE_PASTE(vload, n)(0, p);                                           \
    return CLADE_PASTE(vload_half, n)(0, (const half *)&h);                                                 \
  }                                                                                                         \
  static inline void CLADE_PASTE(CLADE_PASTE(clade_store, n), _f16)(__global ushort * p, CLADE_PASTE(float, n) v) { \
    CLADE_PASTE(ushort, n) h;                                                                               \
    CLADE_PASTE(CLADE_PASTE(vstore_half, n), _rte)(v, 0, (half *)&h);                                       \
    CLADE_PASTE(vstore, n)(h, 0, p);                                                                        \
  }
CLADE_HALVES(4)
CLADE_HALVES(8)
CLADE_HALVES(16)
#define CLADE_STOREN_f32(T, n, p, i, v)  CLADE_PASTE(vstore, n)(v, 0, (p) + (i))
#define CLADE_STOREN_f16(T, n, p, i, v)  CLADE_PASTE(CLADE_PASTE(clade_store, n), _f16)((p) + (i), v)
#define CLADE_STOREN_bf16(T, n, p, i, v) CLADE_PASTE(CLADE_PASTE(clade_store, n), _bf16)((p) + (i), v)
#define CLADE_STOREN_small(T, n, p, i, v)                                                      \
  CLADE_PASTE(vstore, n)                                                                       \
  (CLADE_PASTE(convert_uchar, n)(CLADE_PASTE(clade_small_code, n)(v, CLADE_FORMAT(T))), 0, (p) + (i))
#define CLADE_STOREN_i8(T, n, p, i, v) \
  CLADE_PASTE(vstore, n)(CLADE_PASTE(CLADE_PASTE(convert_, STORAGE(T)), n)(v), 0, (p) + (i))
#define CLADE_STOREN_integer(T, n, p, i, v) CLADE_STOREN_i8(T, n, p, i, v)
#define STOREN(n, T, p, i, v) CLADE_ACCESS(CLADE_STOREN, T)(T, n, p, i, v)
#define STORE16(T, p, i, v)   STOREN(16, T, p, i, v)

/* SOME16: the first n (< 16) of sixteen elements, with the first one repeated in the other lanes. PUT16: stores n
 * elements. APART16: sixteen elements at separate positions. */
#define CLADE_PART(T)                                                                              \
  static inline float16 CLADE_PASTE(clade_some_, T)(const __global STORAGE(T) * p, size_t i, size_t n) {  \
    float lane[16];                                                                                \
    for (size_t l = 0; l < 16; l++) lane[l] = LOAD(T, p, i + (l < n ? l : 0));                     \
    return vload16(0, lane);                                                                       \
  }                                                                                                \
  static inline void CLADE_PASTE(clade_put_, T)(__global STORAGE(T) * p, size_t i, size_t n, float16 v) { \
    float lane[16];                                                                                \
    vstore16(v, 0, lane);                                                                          \
    _Pragma("clang loop vectorize(disable) unroll(disable)")                                       \
    for (size_t l = 0; l < n; l++) STORE(T, p, i + l, lane[l]);                                    \
  }                                                                                                \
  static inline float16 CLADE_PASTE(clade_apart_, T)(const __global STORAGE(T) * p, const size_t *place,  \
                                              size_t i) {                                          \
    return (float16)(CLADE_FOUR_AT(T, 0), CLADE_FOUR_AT(T, 4), CLADE_FOUR_AT(T, 8), CLADE_FOUR_AT(T, 12));  \
  }
#define CLADE_WHOLE_PART(T)                                                                        \
  static inline int16 CLADE_PASTE(clade_some_, T)(const __global STORAGE(T) * p, size_t i, size_t n) {  \
    int lane[16];                                                                                  \
    for (size_t l = 0; l < 16; l++) lane[l] = (int)LOAD(T, p, i + (l < n ? l : 0));                \
    return vload16(0, lane);                                                                       \
  }                                                                                                \
  static inline void CLADE_PASTE(clade_put_, T)(__global STORAGE(T) * p, size_t i, size_t n, int16 v) { \
    int lane[16];                                                                                  \
    vstore16(v, 0, lane);                                                                          \
    _Pragma("clang loop vectorize(disable) unroll(disable)")                                       \
    for (size_t l = 0; l < n; l++) STORE(T, p, i + l, lane[l]);                                    \
  }
#define CLADE_FOUR_AT(T, l) \
  LOAD(T, p, place[l] + i), LOAD(T, p, place[l + 1] + i), LOAD(T, p, place[l + 2] + i), LOAD(T, p, place[l + 3] + i)
#define CLADE_PART_real(T)     CLADE_PASTE(CLADE_PART_real_, CLADE_SCALE(T))(T)
#define CLADE_PART_real_none(T) CLADE_PART(T)
#define CLADE_PART_real_f16(T)
#define CLADE_PART_whole(T)    CLADE_WHOLE_PART(T)
#define CLADE_PART_natural(T)  CLADE_WHOLE_PART(T)
#define CLADE_PART_truth(T)
#define CLADE_PART_OF(T, with) CLADE_PASTE(CLADE_PART_, CLADE_KIND(T))(T)
CLADE_DTYPE_EACH(CLADE_PART_OF, )
#define SOME16(T, p, i, n)   CLADE_PASTE(clade_some_, T)(p, i, n)
#define PUT16(T, p, i, n, v) CLADE_PASTE(clade_put_, T)(p, i, n, v)
#define APART16(T, p, place, i) CLADE_PASTE(clade_apart_, T)(p, place, i)
/* Start offsets of sixteen lines of (…, n, inner), from line `first` on; the last line is repeated. */
static inline void clade_places(size_t *place, size_t first, size_t lines, size_t n, size_t inner) {
  size_t block = first / inner, beside = first - block * inner;
  for (int l = 0; l < 16; l++) {
    place[l] = block * n * inner + beside;
    if (first + l + 1 < lines && ++beside == inner) {
      beside = 0;
      block++;
    }
  }
}
static inline float16 clade_round16_f16(float16 v) {
  ushort16 h;
  vstore_half16_rte(v, 0, (half *)&h);
  return vload_half16(0, (const half *)&h);
}
static inline float16 clade_round16_bf16(float16 v) {
  const uint16 u = as_uint16(v), even = u + 0x7fffu + (u >> 16 & 1u);
  return as_float16(select(even, u, (u & 0x7fffffffu) > 0x7f800000u) & 0xffff0000u);
}
/* Cut towards zero, saturated, and 0 of NaN. */
static inline int16 clade_whole16(float16 v, float low, float high) {
  return convert_int16(fmin(fmax(select(v, (float16)(0.0f), v != v), low), high));
}
#define CLADE_ROUND16_f16(T, v)   clade_round16_f16(v)
#define CLADE_ROUND16_bf16(T, v)  clade_round16_bf16(v)
#define CLADE_ROUND16_small(T, v) clade_small16(clade_small_code16(v, CLADE_FORMAT(T)), CLADE_FORMAT(T))
#define ROUND16(T, v)             CLADE_ACCESS(CLADE_ROUND16, T)(T, v)

/* Per-channel values for the lanes of a vector: of channel c, or of sixteen channels from c on if channels are blocked.
 */
static inline float16 clade_channels(const __global float *p, long c, long channels, long block) {
  if (block == 1) return (float16)(p[c]);
  return c + 16 <= channels ? vload16(0, p + c) : SOME16(f32, p, (size_t)c, (size_t)(channels - c));
}
#define CHANNELS(p, c) clade_channels(p, c, channels, block)

/* Sum of sixteen lanes and a remainder in a fixed order; and compensated addition (Knuth's two-sum), which accumulates
 * the rounding errors in *lost. */
static inline float clade_lanes(float16 v, float rest) {
  const float8 a = v.lo + v.hi;
  const float4 b = a.lo + a.hi;
  const float2 c = b.lo + b.hi;
  return c.s0 + c.s1 + rest;
}
static inline void clade_take(float *s, float *lost, float v) {
  const float sum = *s + v, back = sum - *s;
  *lost += (*s - (sum - back)) + (v - back);
  *s = sum;
}
/* Sum plus its compensation. If the compensation is NaN, the sum has met an infinity and is right without it. */
#define CLADE_TOTAL(s, lost) (isnan(lost) ? (s) : (s) + (lost))

/* The maximum, or b if either is NaN; and the maximum of sixteen lanes. */
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
static inline float clade_largest(float16 v) {
  const float8 a = LARGER(v.lo, v.hi);
  const float4 b = LARGER(a.lo, a.hi);
  const float2 c = LARGER(b.lo, b.hi);
  return LARGER(c.s0, c.s1);
}

/* Splits the innermost remaining axis off `rest`, and adds its offsets in two tensors to i and j. */
#define STEP_BOTH(k)                                     \
  {                                                      \
    const index_t next = rest / max(dims.k, (index_t)1); \
    i += (rest - next * dims.k) * x_strides.k;           \
    j += (rest - next * dims.k) * y_strides.k;           \
    rest = next;                                         \
  }

/* An array whose vectors are aligned. */
#define ALIGNED __attribute__((aligned(64)))

/* The function is compiled once, even if the compiler duplicates the kernel. */
#define APART __attribute__((noinline))

/* The target is a CPU, for which machine code is generated directly. Other compilers do better with built-in functions;
 * some take minutes for long vector expressions. */
#if defined __x86_64__ || defined __aarch64__ || defined __powerpc64__ || defined __riscv
#define CLADE_PROCESSOR
#endif
