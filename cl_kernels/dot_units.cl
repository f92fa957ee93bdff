/* Multiply-adds of 32-bit words by CPUs' vector units, included by gemm_mma.cl, conv2d_mma.cl and conv2d_weights_mma.cl. A
 * word holds QUAD elements: four bytes or two bf16. DOT(sum, a, b) adds the products of a word of a with a word of b to each
 * of 16 sums.
 *
 * The including file defines INTEGER; IMITATE (plain C instead of the unit's instructions, for tests); SIGNED and FLIP: with
 * both set, a is i8 and b is u8 (i8 with its sign bit flipped); with neither, a is u8 and b is i8. */
#if INTEGER
#define RAW         uchar
#define QUAD        4
#define SUM         uint
#define SUMS        uint16
#define VECTOR_NAME "vpdpbusd"
#else
#define RAW         ushort
#define QUAD        2
#define SUM         float
#define SUMS        float16
#define VECTOR_NAME "vdpbf16ps"
#endif
#define SHIFT (32 / QUAD)

#if IMITATE
#define DOT(sum, a, b) sum = FN(multiply)(sum, (uint16)(a), b)
/* sum + a * b, word by word. */
static inline SUMS FN(multiply)(SUMS sum, uint16 a, uint16 b) {
#if INTEGER
  for (int i = 0; i < QUAD; i++, a >>= SHIFT, b >>= SHIFT)
    sum += (SIGNED ? as_uint16(as_int16(a << 24) >> 24) : a & 0xffu) *
           (FLIP ? b & 0xffu : as_uint16(as_int16(b << 24) >> 24));
  return sum;
#else
  sum = fma(as_float16(a << 16), as_float16(b << 16), sum);
  return fma(as_float16(a & 0xffff0000u), as_float16(b & 0xffff0000u), sum);
#endif
}
#else
#define DOT(sum, a, b) __asm__(VECTOR_NAME DOT_ORDER ", %0" : "+v"(sum) : "v"((uint16)(a)), "v"(b))
#if SIGNED
#define DOT_ORDER " %1, %2" /* the signed operand first */
#else
#define DOT_ORDER " %2, %1"
#endif
#endif
