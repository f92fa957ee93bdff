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
#define KERNEL(name)       __kernel void CLADE_PASTE(name##_, SUFFIX)

/* Before KERNEL: the only work-group size that it is launched with. Some devices take it at the launch instead. */
#ifdef CLADE_FREE_GROUP
#define GROUP(x, y, z)
#else
#define GROUP(x, y, z) __attribute__((reqd_work_group_size(x, y, z)))
#endif

/* What a work-item does once it knows its place: KERNEL() finds the place and calls it, with PASS(name) for ARG(…,
 * name). Some compilers go through a kernel three times and through a function that it calls once, which is most of the
 * time until a first result. It neither asks for its ids nor declares local memory. Not for kernels whose work-items
 * are to become lanes of vectors: those are kept whole. */
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

/* N consecutive elements of the float types, in float: N is 4, 8 or 16. */
#define CLADE_LOADN_f32(n, p, i) CLADE_PASTE(vload, n)(0, (p) + (i))
#define CLADE_LOADN_f16(n, p, i) CLADE_PASTE(vload_half, n)(0, (const __global half *)((p) + (i)))
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
#define CLADE_STOREN_f32(n, p, i, v)  CLADE_PASTE(vstore, n)(v, 0, (p) + (i))
#define CLADE_STOREN_f16(n, p, i, v)  CLADE_PASTE(CLADE_PASTE(vstore_half, n), _rte)(v, 0, (__global half *)((p) + (i)))
#define CLADE_STOREN_bf16(n, p, i, v) CLADE_PASTE(CLADE_PASTE(clade_store, n), _bf16)((p) + (i), v)
#define STOREN(n, T, p, i, v)         CLADE_PASTE(CLADE_STOREN_, T)(n, p, i, v)
#define STORE16(T, p, i, v)           STOREN(16, T, p, i, v)
