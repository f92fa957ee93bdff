/* Math functions of float16 vectors, within 2 units in the last place, including subnormals, infinities and NaN. erfc
 * is within 2^-20 of itself above 0.001, and within 2^-31 below. Follows prelude.cl.
 *
 * exp(x) = 2^k exp(r), |r| <= ln(2) / 2. The parts are exp(r) - 1, and 2^k as a product of two floats. */
#ifdef CLADE_PROCESSOR
typedef struct {
  float16 more, one, other, lack; /* exp(r) - 1, 2^(k / 2), 2^(k - k / 2), 2^-(k - k / 2) */
} clade_exp_parts;
static inline float16 clade_power(int16 k) { return as_float16((k + 127) << 23); }
/* 1.5 * 2^23. A float that exceeds it by an integer k has k in its low bits. */
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
/* Clamps x; NaN is preserved. */
static inline float16 clade_within(float16 x, float low, float high) {
  x = x > high ? (float16)(high) : x;
  return x < low ? (float16)(low) : x;
}
static inline float16 clade_exp(float16 x) {
  const clade_exp_parts e = clade_exp_split(clade_within(x, -104.0f, 89.0f));
  return fma(e.more, e.one, e.one) * e.other;
}
/* 2^(k + f), |f| <= 1/2, where the low bits of t hold k + 127; 0 if these are 0. */
static inline float16 clade_exp2(float16 t, float16 f) {
  const float16 s = f * f, high = fma(f, (float16)(1.32647199e-3f), (float16)(9.67151317e-3f));
  const float16 low = fma(high, s, fma(f, (float16)(5.55073377e-2f), (float16)(2.40222421e-1f)));
  return fma(low, s, fma(f, (float16)(6.93146978e-1f), (float16)(1.0f))) * as_float16(as_int16(t) << 23);
}
/* exp(x) for x <= 0, within 2 + |x| / 8 units; results below 2^-126.5 are 0. */
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
  const float16 f = as_float16((i & 0x7fffff) + 0x3f3504f3) - 1.0f, z = f * f; /* from 0.7 to 1.4 */
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
  const float16 size = fabs(x), t = size > 10.06f ? (float16)(10.06f) : size, s = t * t; /* in pairs: shorter chains */
  const float16 a = fma(t, (float16)(-6.3632572602e-1f), (float16)(-1.12840479668f));
  const float16 b = fma(t, (float16)(2.13674150186e-2f), (float16)(-1.03933234653e-1f));
  const float16 c = fma(t, (float16)(-1.74609334439e-4f), (float16)(-2.2089466988e-3f));
  const float16 d = fma(t, (float16)(-7.31084499299e-6f), (float16)(8.19636677861e-5f));
  const float16 e = clade_exp_below(fma(fma(d, s, c), s * s, fma(b, s, a)) * t);
  return x < 0.0f ? 2.0f - e : e;
}
/* max(x, 0) - |x| erfc(|x| / sqrt(2)) / 2, where the second term is |x| times the sixteenth power of a polynomial,
 * which has a shorter dependency chain than a logarithm and a power. The error is 2^-18 of the result, or 3e-10. */
static inline float16 clade_gelu(float16 x) {
  const float16 size = fabs(x), t = size > 14.0f ? (float16)(14.0f) : size, s = t * t; /* second term: 1e-36 */
  const float16 a = fma(t, (float16)(5.20760641e-2f), (float16)(1.04427373f));
  const float16 b = fma(t, (float16)(3.43139935e-3f), (float16)(2.20727995e-2f));
  const float16 c = fma(t, (float16)(5.14172207e-5f), (float16)(3.2527536e-5f));
  const float16 d = fma(s, (float16)(1.63243044e-7f), fma(t, (float16)(-1.19132142e-6f), (float16)(8.12003964e-6f)));
  const float16 p = fma(fma(d, s, c), s * s, fma(b, s, a)), p2 = p * p, p4 = p2 * p2, p8 = p4 * p4;
  return (x > 0.0f ? x : (float16)(0.0f)) - t / (p8 * p8);
}
/* The derivative of gelu: exp(-x^2 / 2) times a polynomial in |x|, or 1 minus that. The error is 2^-21; for negative x
 * 2^-16 of the result, or 3e-9. */
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
/* If one lane is infinite or very large, PoCL 3.1 computes all lanes wrongly; such vectors are computed lane by lane.
 */
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
/* Round to nearest even: one instruction, where the library's function may take thirty. */
#define clade_rint rint
#if defined CLADE_PROCESSOR && defined __has_builtin
#if __has_builtin(__builtin_elementwise_roundeven)
#undef clade_rint
#define clade_rint(x) __builtin_elementwise_roundeven(x)
#endif
#endif
#define gelu(x) (0.5f * fmax(x, -15.0f) * erfc((x) * -0.70710678f)) /* clamped, since infinity times 0 is NaN */
#define gelu_grad(x) (0.5f * erfc((x) * -0.70710678f) + clade_gelu_slope(clamp(x, -15.0f, 15.0f)))
#define clade_gelu_slope(x) (0.39894228f * (x) * exp(-0.5f * (x) * (x)))
