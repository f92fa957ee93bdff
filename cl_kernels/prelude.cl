/* Before every program: storage and compute types, and how kernels take tensors. OpenCL C 1.2.
 *
 * A kernel file is compiled once per set of parameters, many copies in one program. So names at file scope go through
 * KERNEL() and FN(), and every macro that a file defines is undefined at its end.
 *
 *   KERNEL(softmax_forward_ref)(ARG(STORAGE(T), x), ARG(STORAGE(T), y), const index_t rows, …)
 *   {
 *     USE(STORAGE(T), x);
 *
 * A file of several kernels may put each between #ifdef WANT_<name> and #endif: a copy is for one of them.
 *
 * With all scalar arguments zero a kernel touches no memory: that is how programs are warmed. */
#define CLADE_PASTE_(a, b) a##b
#define CLADE_PASTE(a, b)  CLADE_PASTE_(a, b)
#define FN(name)           CLADE_PASTE(name##_, SUFFIX) /* name##_: some implementations make `step` a macro */
#define KERNEL(name)       CLADE_ENTRY void CLADE_PASTE(name##_, SUFFIX)
#define CLADE_ENTRY        __kernel /* static where a copy of the file is a member of another kernel (chain.cl) */

/* Before KERNEL: the only work-group size that it is launched with. Some devices take it at the launch instead. */
#ifdef CLADE_FREE_GROUP
#define GROUP(x, y, z)
#else
#define GROUP(x, y, z) __attribute__((reqd_work_group_size(x, y, z)))
#endif

/* What a work-item does once it knows its place: KERNEL() finds the place and calls it, with PASS(name) for ARG(…,
 * name). Some compilers go through a kernel three times and through a function that it calls once, which is most of the
 * time until a first result. It neither asks for its ids nor declares local memory. Not for kernels whose work-items
 * are to become lanes of vectors: those are kept whole.
 * BODY(<kernel>_item)(number of the work-item, all that the kernel takes) serves launches along one axis in groups of one
 * item, which may then become steps of a chain (chain.cl). */
#ifdef CLADE_CALL_BODY
#define BODY(name) __attribute__((noinline)) static void FN(name)
#else
#define BODY(name) static inline void FN(name)
#endif

/* index_t is 64 bits wide where an operand has 2^31 elements or more; INDEX64 is 0 or 1 in every set of parameters. */
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

/* Of six batch extents, the first of `dims`: how many there are, and how far number `at` lies by six strides. */
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

/* Element types by name: f32 f16 bf16 i8 u8 i32 i64 bool. Half formats are stored in 16 bits and computed in float. */
#define CLADE_STORAGE_f32  float
#define CLADE_STORAGE_f16  ushort
#define CLADE_STORAGE_bf16 ushort
#define CLADE_STORAGE_i8   char
#define CLADE_STORAGE_u8   uchar
#define CLADE_STORAGE_i32  int
#define CLADE_STORAGE_i64  long
#define CLADE_STORAGE_bool uchar
#define CLADE_COMPUTE_f32  float
#define CLADE_COMPUTE_f16  float
#define CLADE_COMPUTE_bf16 float
#define CLADE_COMPUTE_i8   int
#define CLADE_COMPUTE_u8   int
#define CLADE_COMPUTE_i32  int
#define CLADE_COMPUTE_i64  long
#define CLADE_COMPUTE_bool int
#define STORAGE(T)         CLADE_PASTE(CLADE_STORAGE_, T)
#define COMPUTE(T)         CLADE_PASTE(CLADE_COMPUTE_, T)

/* The lowest byte with its sign. A cast to char says the same, and is the same machine code elsewhere; but where a `?:`
 * has nothing but such chars and constants in its branches, Mesa computes it in 8 bits, and its llvmpipe crashes there.
 */
inline int clade_wrap_i8(int v) { return (int)((uint)v << 24) >> 24; }
inline float clade_load_f16(const __global ushort *p, size_t i) { return vload_half(i, (const __global half *)p); }
inline void clade_store_f16(__global ushort *p, size_t i, float v) { vstore_half_rte(v, i, (__global half *)p); }
inline float clade_load_bf16(const __global ushort *p, size_t i) { return as_float((uint)p[i] << 16); }
inline void clade_store_bf16(__global ushort *p, size_t i, float v) {
  uint u = as_uint(v);
  p[i] = (u & 0x7fffffffu) > 0x7f800000u ? (ushort)(u >> 16 | 64u) : (ushort)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}
inline float clade_round_f16(float v) {
  ushort h = 0;
  vstore_half_rte(v, 0, (half *)&h);
  return vload_half(0, (const half *)&h);
}
inline float clade_round_bf16(float v) {
  uint u = as_uint(v);
  return as_float((u & 0x7fffffffu) > 0x7f800000u ? u : (u + 0x7fffu + (u >> 16 & 1u)) & 0xffff0000u);
}
#define CLADE_LOAD_f32(p, i)      (p)[i]
#define CLADE_LOAD_f16(p, i)      clade_load_f16(p, i)
#define CLADE_LOAD_bf16(p, i)     clade_load_bf16(p, i)
#define CLADE_LOAD_i8(p, i)       clade_wrap_i8((p)[i])
#define CLADE_LOAD_u8(p, i)       (p)[i]
#define CLADE_LOAD_i32(p, i)      (p)[i]
#define CLADE_LOAD_i64(p, i)      (p)[i]
#define CLADE_LOAD_bool(p, i)     (p)[i]
#define CLADE_STORE_f32(p, i, v)  (p)[i] = (v)
#define CLADE_STORE_f16(p, i, v)  clade_store_f16(p, i, v)
#define CLADE_STORE_bf16(p, i, v) clade_store_bf16(p, i, v)
#define CLADE_STORE_i8(p, i, v)   (p)[i] = (char)(v)
#define CLADE_STORE_u8(p, i, v)   (p)[i] = (uchar)(v)
#define CLADE_STORE_i32(p, i, v)  (p)[i] = (int)(v)
#define CLADE_STORE_i64(p, i, v)  (p)[i] = (long)(v)
#define CLADE_STORE_bool(p, i, v) (p)[i] = (uchar)((v) != 0)
#define LOAD(T, p, i)             CLADE_PASTE(CLADE_LOAD_, T)(p, i)
#define STORE(T, p, i, v)         CLADE_PASTE(CLADE_STORE_, T)(p, i, v)

/* Where an epilogue's operand has the element for (row, column); a kernel file may say it otherwise. */
#define CLADE_EPILOGUE_ELEMENT(s) (row * (s).s6 + column * (s).s7)
/* Of images, whose channels, the rows, may lie in blocks of 16. */
#define CLADE_CHANNEL_ELEMENT(s)  ((row >> 4) * (s).s4 + (row & 15) * (s).s6 + column * (s).s7)
#define EPILOGUE_ELEMENT(s)       CLADE_EPILOGUE_ELEMENT(s)

/* N consecutive elements of the float types, in float: N is 4, 8 or 16. */
#define CLADE_LOADN_f32(n, p, i) CLADE_PASTE(vload, n)(0, (p) + (i))
#define CLADE_LOADN_f16(n, p, i) CLADE_PASTE(CLADE_PASTE(clade_load, n), _f16)((p) + (i))
#define CLADE_LOADN_bf16(n, p, i) \
  CLADE_PASTE(as_float, n)(CLADE_PASTE(convert_uint, n)(CLADE_PASTE(vload, n)(0, (p) + (i))) << 16)
#define LOADN(n, T, p, i) CLADE_PASTE(CLADE_LOADN_, T)(n, p, i)
#define LOAD16(T, p, i)   LOADN(16, T, p, i)
#define CLADE_ROUND_BF16(n)                                                                                     \
  inline void CLADE_PASTE(CLADE_PASTE(clade_store, n), _bf16)(__global ushort * p, CLADE_PASTE(float, n) v) {   \
    const CLADE_PASTE(uint, n) u = CLADE_PASTE(as_uint, n)(v), even = u + 0x7fffu + (u >> 16 & 1u);             \
    CLADE_PASTE(vstore, n)                                                                                      \
    (CLADE_PASTE(convert_ushort, n)(select(even, u | 0x400000u, (u & 0x7fffffffu) > 0x7f800000u) >> 16), 0, p); \
  }
CLADE_ROUND_BF16(4)
CLADE_ROUND_BF16(8)
inline void clade_store16_bf16(__global ushort *p, float16 v) { /* halves: wide vectors compile slowly */
  clade_store8_bf16(p, v.lo);
  clade_store8_bf16(p + 8, v.hi);
}
/* By way of private memory, which is aligned: PoCL loads and stores vectors of halves as if they were aligned wherever
 * they lie, some by an instruction that ends the process where they are not. */
#define CLADE_HALVES(n)                                                                                     \
  typedef CLADE_PASTE(ushort, n) CLADE_PASTE(clade_halves, n) __attribute__((aligned(2)));                  \
  inline CLADE_PASTE(float, n) CLADE_PASTE(CLADE_PASTE(clade_load, n), _f16)(const __global ushort *p) {     \
    const CLADE_PASTE(ushort, n) h = *(const __global CLADE_PASTE(clade_halves, n) *)p;                     \
    return CLADE_PASTE(vload_half, n)(0, (const half *)&h);                                                 \
  }                                                                                                         \
  inline void CLADE_PASTE(CLADE_PASTE(clade_store, n), _f16)(__global ushort * p, CLADE_PASTE(float, n) v) { \
    CLADE_PASTE(ushort, n) h;                                                                               \
    CLADE_PASTE(CLADE_PASTE(vstore_half, n), _rte)(v, 0, (half *)&h);                                       \
    *(__global CLADE_PASTE(clade_halves, n) *)p = h;                                                        \
  }
CLADE_HALVES(4)
CLADE_HALVES(8)
CLADE_HALVES(16)
/* One instruction: PoCL cuts vstore16 to three. */
typedef float4 clade_floats4 __attribute__((aligned(4)));
typedef float8 clade_floats8 __attribute__((aligned(4)));
typedef float16 clade_floats16 __attribute__((aligned(4)));
#define CLADE_STOREN_f32(n, p, i, v)  (*(__global CLADE_PASTE(clade_floats, n) *)((p) + (i)) = (v))
#define CLADE_STOREN_f16(n, p, i, v)  CLADE_PASTE(CLADE_PASTE(clade_store, n), _f16)((p) + (i), v)
#define CLADE_STOREN_bf16(n, p, i, v) CLADE_PASTE(CLADE_PASTE(clade_store, n), _bf16)((p) + (i), v)
#define STOREN(n, T, p, i, v)         CLADE_PASTE(CLADE_STOREN_, T)(n, p, i, v)
#define STORE16(T, p, i, v)           STOREN(16, T, p, i, v)

/* The first n of sixteen elements, n < 16; the others are the first one again. And how so few are stored. Sixteen that
 * lie at places of their own. */
#define CLADE_PART(T)                                                                              \
  inline float16 CLADE_PASTE(clade_some_, T)(const __global STORAGE(T) * p, size_t i, size_t n) {  \
    float lane[16];                                                                                \
    for (size_t l = 0; l < 16; l++) lane[l] = LOAD(T, p, i + (l < n ? l : 0));                     \
    return vload16(0, lane);                                                                       \
  }                                                                                                \
  inline void CLADE_PASTE(clade_put_, T)(__global STORAGE(T) * p, size_t i, size_t n, float16 v) { \
    float lane[16];                                                                                \
    vstore16(v, 0, lane);                                                                          \
    for (size_t l = 0; l < n; l++) STORE(T, p, i + l, lane[l]);                                    \
  }                                                                                                \
  inline float16 CLADE_PASTE(clade_apart_, T)(const __global STORAGE(T) * p, const size_t *place,  \
                                              size_t i) {                                          \
    return (float16)(CLADE_FOUR_AT(T, 0), CLADE_FOUR_AT(T, 4), CLADE_FOUR_AT(T, 8), CLADE_FOUR_AT(T, 12));  \
  }
#define CLADE_FOUR_AT(T, l) \
  LOAD(T, p, place[l] + i), LOAD(T, p, place[l + 1] + i), LOAD(T, p, place[l + 2] + i), LOAD(T, p, place[l + 3] + i)
CLADE_PART(f32)
CLADE_PART(f16)
CLADE_PART(bf16)
#define SOME16(T, p, i, n)   CLADE_PASTE(clade_some_, T)(p, i, n)
#define PUT16(T, p, i, n, v) CLADE_PASTE(clade_put_, T)(p, i, n, v)
#define APART16(T, p, place, i) CLADE_PASTE(clade_apart_, T)(p, place, i)
/* Where sixteen lines of (…, n, inner) begin, from line `first` on; beyond the last one they are that one again. */
inline void clade_places(size_t *place, size_t first, size_t lines, size_t n, size_t inner) {
  size_t block = first / inner, beside = first - block * inner;
  for (int l = 0; l < 16; l++) {
    place[l] = block * n * inner + beside;
    if (first + l + 1 < lines && ++beside == inner) {
      beside = 0;
      block++;
    }
  }
}
inline float16 clade_round16_f16(float16 v) {
  ushort16 h;
  vstore_half16_rte(v, 0, (half *)&h);
  return vload_half16(0, (const half *)&h);
}
inline float16 clade_round16_bf16(float16 v) {
  const uint16 u = as_uint16(v), even = u + 0x7fffu + (u >> 16 & 1u);
  return as_float16(select(even, u, (u & 0x7fffffffu) > 0x7f800000u) & 0xffff0000u);
}
/* Machine code is made at once, for a processor of this kind. Elsewhere the compiler's own functions are better: some
 * take minutes over long expressions of vectors. */
#if defined __x86_64__ || defined __aarch64__ || defined __powerpc64__ || defined __riscv
#define CLADE_PROCESSOR
#endif

/* ---- functions of sixteen floats at once, within 2 units in the last place, denormals, infinities and NaN ----
 * erfc: within 2^-20 of itself where it is above 0.001, and within 2^-31 below.
 * exp(x) = 2^k exp(r), |r| <= ln(2) / 2: what exp(r) is more than 1, and k in two halves, each of which is a float. */
#ifdef CLADE_PROCESSOR
typedef struct {
  float16 more, one, other, lack; /* exp(r) - 1, 2^(k / 2), 2^(k - k / 2), 2^-(k - k / 2) */
} clade_exp_parts;
static inline float16 clade_power(int16 k) { return as_float16((k + 127) << 23); }
/* 1.5 * 2^23: a float that is this much more than k has k in its low bits. */
#define CLADE_LOW 12582912.0f
#define CLADE_LOG2E ((float16)(1.44269504f))
static inline clade_exp_parts clade_exp_split(float16 x) {
  const float16 t = fma(x, CLADE_LOG2E, (float16)(CLADE_LOW)), k = t - CLADE_LOW;
  const float16 r = fma(k, (float16)(-1.42860677e-6f), fma(k, (float16)(-0.693145752f), x)), s = r * r;
  const float16 high = fma(s, (float16)(1.38824791e-3f), fma(r, (float16)(8.36673012e-3f), (float16)(4.16672066e-2f)));
  const float16 more = fma(fma(high, s, fma(r, (float16)(1.66665421e-1f), (float16)(4.99999981e-1f))), s, r);
  const int16 n = as_int16(t) - 0x4b400000, m = n >> 1;
  return (clade_exp_parts){more, clade_power(m), clade_power(n - m), clade_power(m - n)};
}
/* NaN stays. */
static inline float16 clade_within(float16 x, float low, float high) {
  x = x > high ? (float16)(high) : x;
  return x < low ? (float16)(low) : x;
}
static inline float16 clade_exp(float16 x) {
  const clade_exp_parts e = clade_exp_split(clade_within(x, -104.0f, 89.0f));
  return fma(e.more, e.one, e.one) * e.other;
}
/* 2^(k + f), |f| <= 1/2, where t holds k + 127 in its low bits; 0 where that is 0. */
static inline float16 clade_exp2(float16 t, float16 f) {
  const float16 s = f * f, high = fma(f, (float16)(1.32647199e-3f), (float16)(9.67151317e-3f));
  const float16 low = fma(high, s, fma(f, (float16)(5.55073377e-2f), (float16)(2.40222421e-1f)));
  return fma(low, s, fma(f, (float16)(6.93146978e-1f), (float16)(1.0f))) * as_float16(as_int16(t) << 23);
}
/* Of numbers that are not above 0, within 2 + |x| / 8 units; what would be below 2^-126.5 is 0. */
static inline float16 clade_exp_below(float16 x) {
  const float low = CLADE_LOW + 127.0f;
  x = x < -88.0f ? (float16)(-88.0f) : x;
  const float16 t = fma(x, CLADE_LOG2E, (float16)(low));
  return clade_exp2(t, fma(x, CLADE_LOG2E, low - t));
}
static inline float16 clade_expm1(float16 x) {
  const clade_exp_parts e = clade_exp_split(clade_within(x, -40.0f, 89.0f));
  return fma(e.more, e.one, e.one - e.lack) * e.other;
}
static inline float16 clade_tanh(float16 x) {
  const float16 size = fabs(x), e = clade_expm1(2.0f * (size > 10.0f ? (float16)(10.0f) : size));
  return copysign(e / (e + 2.0f), x);
}
static inline float16 clade_log(float16 x) {
  const int16 tiny = x < 1.17549435e-38f, i = as_int16(tiny ? x * 8388608.0f : x) - 0x3f3504f3;
  const float16 k = convert_float16((i >> 23) - (tiny & 23));
  const float16 f = as_float16((i & 0x7fffff) + 0x3f3504f3) - 1.0f, z = f * f; /* of 0.7 to 1.4 */
  float16 p = fma(f, (float16)(7.0376836292e-2f), (float16)(-1.1514610310e-1f));
  p = fma(p, f, (float16)(1.1676998740e-1f));
  p = fma(p, f, (float16)(-1.2420140846e-1f));
  p = fma(p, f, (float16)(1.4249322787e-1f));
  p = fma(p, f, (float16)(-1.6668057665e-1f));
  p = fma(p, f, (float16)(2.0000714765e-1f));
  p = fma(p, f, (float16)(-2.4999993993e-1f));
  p = fma(p, f, (float16)(3.3333331174e-1f));
  p = fma((float16)(-0.5f), z, fma(k, (float16)(-2.12194440e-4f), p * f * z));
  const float16 y = fma(k, (float16)(0.693359375f), f + p);
  return x > 0.0f ? (x == INFINITY ? x : y) : (x == 0.0f ? (float16)(-INFINITY) : (float16)(NAN));
}
static inline float16 clade_log1p(float16 x) {
  const float16 u = x + 1.0f, y = clade_log(u), lost = (x - (u - 1.0f)) / u;
  return u == 1.0f ? x : (u > 0.0f && u < INFINITY) ? y + lost : y;
}
static inline float16 clade_erf(float16 x) {
  const float16 size = fabs(x), t = size > 4.0f ? (float16)(4.0f) : size, s = t * t;
  float16 r = fma(t, (float16)(-1.72853470e-5f), (float16)(3.83197126e-4f));
  r = fma(r, s, fma(t, (float16)(-3.88396438e-3f), (float16)(2.42546219e-2f)));
  r = fma(r, t, (float16)(-1.06777877e-1f));
  r = fma(r, t, (float16)(-6.34846687e-1f));
  r = fma(r, t, (float16)(-1.28717512e-1f));
  r = copysign(1.0f - clade_exp_below(fma(r, t, -t)), x);
  float16 p = fma(s, (float16)(-5.96761703e-4f), (float16)(4.99119423e-3f));
  p = fma(p, s, (float16)(-2.67681349e-2f));
  p = fma(p, s, (float16)(1.12819925e-1f));
  p = fma(p, s, (float16)(-3.76125336e-1f));
  p = fma(p, s, (float16)(1.28379166e-1f));
  return size > 0.927734375f ? r : fma(p, x, x);
}
static inline float16 clade_erfc(float16 x) {
  const float16 size = fabs(x), t = size > 10.06f ? (float16)(10.06f) : size, s = t * t; /* in pairs: a short chain */
  const float16 a = fma(t, (float16)(-6.3632572602e-1f), (float16)(-1.12840479668f));
  const float16 b = fma(t, (float16)(2.13674150186e-2f), (float16)(-1.03933234653e-1f));
  const float16 c = fma(t, (float16)(-1.74609334439e-4f), (float16)(-2.2089466988e-3f));
  const float16 d = fma(t, (float16)(-7.31084499299e-6f), (float16)(8.19636677861e-5f));
  const float16 e = clade_exp_below(fma(fma(d, s, c), s * s, fma(b, s, a)) * t);
  return x < 0.0f ? 2.0f - e : e;
}
/* x where it is above 0, less |x| erfc(|x| / sqrt(2)) / 2, whose logarithm by 2 is a polynomial: off by 2^-18 of itself or
 * by 5e-10. */
static inline float16 clade_gelu(float16 x) {
  const float low = CLADE_LOW + 126.0f; /* half of the power */
  const float16 size = fabs(x), t = size > 6.5f ? (float16)(0.0f) : size, s = t * t; /* beyond it nothing is taken off */
  const float16 d = fma(t, (float16)(4.41326541e-5f), (float16)(-8.28456473e-4f));
  const float16 c = fma(t, (float16)(8.21421960e-3f), (float16)(-5.35289572e-2f));
  const float16 b = fma(t, (float16)(-4.58765912e-1f), (float16)(-1.15116944f));
  const float16 u = fma(fma(fma(s, (float16)(-6.68575627e-7f), d), s, c), s, b) * t, k = u + low;
  return fma(-t, clade_exp2(k, u - (k - low)), x > 0.0f ? x : (float16)(0.0f));
}
/* Its derivative, exp(-x^2 / 2) times a polynomial in |x| or 1 less that: off by 2^-21, below 0 by 2^-16 of itself or 3e-9. */
static inline float16 clade_gelu_grad(float16 x) {
  const float low = CLADE_LOW + 127.0f;
  const float16 size = fabs(x), t = size > 13.25f ? (float16)(13.25f) : size, s = t * t, v = s * s;
  const float16 k = fma(s, (float16)(-0.72134752f), (float16)(low));
  const float16 a = fma(t, (float16)(-0.797867298f), (float16)(0.499999762f));
  const float16 b = fma(t, (float16)(-0.131956741f), (float16)(0.249786764f));
  const float16 c = fma(t, (float16)(-2.29077265e-2f), (float16)(5.99723905e-2f));
  const float16 d = fma(t, (float16)(-1.55235175e-3f), (float16)(6.94716861e-3f));
  const float16 e = fma(s, (float16)(8.23394942e-7f), fma(t, (float16)(-2.08546189e-5f), (float16)(2.33840823e-4f)));
  const float16 p = fma(fma(e, v, fma(d, s, c)), v, fma(b, s, a));
  const float16 r = p * clade_exp2(k, fma(s, (float16)(-0.72134752f), low - k));
  return x < 0.0f ? r : 1.0f - r;
}
/* Beside an infinity or a number that is as large, PoCL 3.1 computes a whole vector of these wrongly: such are taken one
 * by one. */
#define CLADE_TURNS(name)                                                            \
  static inline float16 clade_##name(float16 x) {                                    \
    const int16 far = fabs(x) > 65536.0f;                                            \
    const float16 y = name(far ? (float16)(0.0f) : x);                               \
    if (!any(far)) return y;                                                         \
    float of[16], is[16];                                                            \
    vstore16(x, 0, of);                                                              \
    vstore16(y, 0, is);                                                              \
    for (int i = 0; i < 16; i++)                                                     \
      if (fabs(of[i]) > 65536.0f) is[i] = name(of[i]);                               \
    return vload16(0, is);                                                           \
  }
CLADE_TURNS(sin)
CLADE_TURNS(cos)
CLADE_TURNS(tan)
#undef CLADE_TURNS
#else
#define clade_exp   exp
#define clade_exp_below exp
#define clade_expm1 expm1
#define clade_tanh  tanh
#define clade_log   log
#define clade_log1p log1p
#define clade_erf   erf
#define clade_erfc  erfc
#define clade_gelu  gelu
#define clade_gelu_grad gelu_grad
#define clade_sin   sin
#define clade_cos   cos
#define clade_tan   tan
#endif
#define gelu(x) (0.5f * fmax(x, -15.0f) * erfc((x) * -0.70710678f)) /* 0 beyond; infinity times 0 is none */
#define gelu_grad(x) (0.5f * erfc((x) * -0.70710678f) + clade_gelu_slope(clamp(x, -15.0f, 15.0f)))
#define clade_gelu_slope(x) (0.39894228f * (x) * exp(-0.5f * (x) * (x)))

/* Sixteen floats past the caches, where the compiler can and they are aligned: for results larger than these. */
#if defined __has_builtin
#if __has_builtin(__builtin_nontemporal_store)
#define CLADE_STREAMS
#endif
#endif
inline void clade_stream16_f32(__global float *p, float16 v) {
#ifdef CLADE_STREAMS
  if (((size_t)p & 31) == 0) {
    __builtin_nontemporal_store(v.lo, (__global float8 *)p);
    __builtin_nontemporal_store(v.hi, (__global float8 *)p + 1);
    return;
  }
#endif
  CLADE_STOREN_f32(16, p, 0, v);
}

/* Stores sixteen elements, floats past the caches where `past` says so. */
inline void clade_past_f32(__global float *p, float16 v, int past) {
  if (past)
    clade_stream16_f32(p, v);
  else
    CLADE_STOREN_f32(16, p, 0, v);
}
#define CLADE_PAST_f32(p, i, v, past)  clade_past_f32((p) + (i), v, past)
#define CLADE_PAST_f16(p, i, v, past)  CLADE_STOREN_f16(16, p, i, v)
#define CLADE_PAST_bf16(p, i, v, past) CLADE_STOREN_bf16(16, p, i, v)
#define STREAM16(T, p, i, v, past)     CLADE_PASTE(CLADE_PAST_, T)(p, i, v, past)

/* Of a function: compiled once, however often the compiler copies the kernel. */
#define APART __attribute__((noinline))

/* Takes the fastest axis that is left off `rest`, and adds its places in two tensors to i and j. */
#define STEP_BOTH(k)                                     \
  {                                                      \
    const index_t next = rest / max(dims.k, (index_t)1); \
    i += (rest - next * dims.k) * x_strides.k;           \
    j += (rest - next * dims.k) * y_strides.k;           \
    rest = next;                                         \
  }
/* What lies there will be read soon. SPIR-V has no word for it. */
#ifdef CLADE_PROCESSOR
#define SOON(p)  __builtin_prefetch((const void *)(size_t)(p))
#define LATER(p) __builtin_prefetch((const void *)(size_t)(p), 0, 2) /* but not at once: into the second cache */
#else
#define SOON(p)
#define LATER(p)
#endif
/* So many elements from end to end are on their way while memory answers, of all that is read together: where each is asked
 * for 4 or 8 KiB ahead instead, memory waits. Processors look ahead within a page alone. */
#define AHEAD 3072

/* Copies n elements; those of 32 bits past the caches where `past` says so and few lines are begun or ended. As many from
 * `soon` on will be read soon. */
static inline void clade_move_i32(const __global int *x, const __global int *soon, __global int *y, size_t n, int past) {
  size_t i = 0;
  past = past && (n >= 1024 || (((size_t)y & 63) == 0 && n % 16 == 0));
  if (past)
    for (; (size_t)(y + i) & 31; i++) y[i] = x[i];
  for (; i + 16 <= n; i += 16) {
    SOON(soon + i);
    clade_past_f32((__global float *)(y + i), as_float16(vload16(0, x + i)), past);
  }
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
/* Sixteen elements from private memory, those of 32 bits past the caches where `past` says so. */
#define CLADE_PASS_i32(y, x, past) clade_past_f32((__global float *)(y), as_float16(vload16(0, x)), past)
#define CLADE_PASS_u8(y, x, past)  vstore16(vload16(0, x), 0, y)
#define CLADE_PASS_f16(y, x, past) *(__global clade_halves16 *)(y) = *(const clade_halves16 *)(x) /* not one by one */
#define CLADE_PASS_i64             CLADE_PASS_u8
#define PASS16(T, y, x, past)      CLADE_PASTE(CLADE_PASS_, T)(y, x, past)
#define COPY(T, x, soon, y, n, past) CLADE_PASTE(clade_move_, T)(x, soon, y, n, past)

/* Eight vectors of eight become those of the other axis, in registers: halves change places, and each half is turned in
 * itself, in any order. What ends in an exchange of halves is stored by halves: that is one instruction less for each
 * vector, but who then reads whole vectors waits for both to arrive in the cache. */
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

/* Eight columns of sixteen rows that lie `apart` from each other, a vector for each column. */
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
CLADE_COLUMNS(f32)
CLADE_COLUMNS(f16)
CLADE_COLUMNS(bf16)
#undef CLADE_COLUMNS
#define COLUMNS8(T, column, p, i, apart) CLADE_PASTE(clade_columns_, T)(column, p, i, apart)
/* Whether nothing behind `rows` of n elements is read, from row `first` on. */
#define COLUMNS_INSIDE(first, n, rows) (((size_t)(first) + 15) * (n) + ((n) + 7) / 8 * 8 <= (size_t)(rows) * (n))

/* Sixteen of sixteen, where vectors are so wide: fours change places, and each is turned in itself. */
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

/* Tiles of 16 x 16 elements of 32 bits, turned over: y[j * to + i] = x[i * from + j]. Whole lines go by, out of registers:
 * who reads lines that were just written in halves waits until these are in the cache, and memory waits with him. */
__attribute__((noinline)) static void clade_tile(const __global int *x, size_t from, __global int *y, size_t to,
                                                 int past) {
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
    if (past && (((size_t)line | to * 4) & 31) == 0) { /* asked once: a branch for each line would take as long as it */
#pragma unroll
      for (int l = 0; l < 8; l++, line += to) {
        __builtin_nontemporal_store(low[l], (__global float8 *)line);
        __builtin_nontemporal_store(high[l], (__global float8 *)line + 1);
      }
      continue;
    }
#endif
#pragma unroll
    for (int l = 0; l < 8; l++, line += to) CLADE_STOREN_f32(16, line, 0, (float16)(low[l], high[l]));
  }
}

/* What belongs to each lane, of an array with a number for each of so many channels: of channel c, or where channels
 * lie in blocks of 16, of those from c on. */
inline float16 clade_channels(const __global float *p, long c, long channels, long block) {
  if (block == 1) return (float16)(p[c]);
  return c + 16 <= channels ? vload16(0, p + c) : SOME16(f32, p, (size_t)c, (size_t)(channels - c));
}
#define CHANNELS(p, c) clade_channels(p, c, channels, block)

/* Sums: of sixteen lanes and a rest, in a fixed order; and of one more number, with what is lost beside it (Knuth). */
inline float clade_lanes(float16 v, float rest) {
  const float8 a = v.lo + v.hi;
  const float4 b = a.lo + a.hi;
  const float2 c = b.lo + b.hi;
  return c.s0 + c.s1 + rest;
}
inline void clade_take(float *s, float *lost, float v) {
  const float sum = *s + v, back = sum - *s;
  *lost += (*s - (sum - back)) + (v - back);
  *s = sum;
}
