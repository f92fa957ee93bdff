/* Declarations of the OpenCL functions that kernels use, with the attributes of the standard header. Precedes the
 * prelude on compilers that parse the whole header for each program unless told to omit it. OpenCL C 1.2. */
#define OVER  __attribute__((overloadable))
#define CONST __attribute__((overloadable, const))
#define PURE  __attribute__((overloadable, pure))

/* X(width, …) for vectors, or also for scalars; X(type, …) for integers; X(address space, …). */
#define VECTORS(X, ...) X(2, __VA_ARGS__) X(4, __VA_ARGS__) X(8, __VA_ARGS__) X(16, __VA_ARGS__)
#define WIDTHS(X, ...)  X(, __VA_ARGS__) VECTORS(X, __VA_ARGS__)
#define INTEGERS(X)     X(char) X(uchar) X(short) X(ushort) X(int) X(uint) X(long) X(ulong)
#define SPACES(X, ...)  X(__global, __VA_ARGS__) X(__local, __VA_ARGS__) X(__private, __VA_ARGS__)

/* ---- work-items ---- */
CONST size_t get_global_id(uint);
CONST size_t get_local_id(uint);
CONST size_t get_group_id(uint);
CONST size_t get_global_size(uint);
CONST size_t get_local_size(uint);
CONST size_t get_num_groups(uint);
__attribute__((overloadable, convergent)) void barrier(cl_mem_fence_flags);
OVER void mem_fence(cl_mem_fence_flags);
OVER int atomic_inc(volatile __global int *);
OVER int atomic_cmpxchg(volatile __global int *, int, int);

/* ---- functions of floats ---- */
#define ONE(n, name)   CONST float##n name(float##n);
#define TWO(n, name)   CONST float##n name(float##n, float##n);
#define THREE(n, name) CONST float##n name(float##n, float##n, float##n);
#define TEST(n, name)  CONST int##n name(float##n);
WIDTHS(ONE, exp) WIDTHS(ONE, exp2) WIDTHS(ONE, expm1) WIDTHS(ONE, log) WIDTHS(ONE, log2) WIDTHS(ONE, log1p)
WIDTHS(ONE, sqrt) WIDTHS(ONE, rsqrt) WIDTHS(ONE, erf) WIDTHS(ONE, erfc)
WIDTHS(ONE, sin) WIDTHS(ONE, cos) WIDTHS(ONE, tan) WIDTHS(ONE, sinpi) WIDTHS(ONE, cospi)
WIDTHS(ONE, asin) WIDTHS(ONE, acos) WIDTHS(ONE, atan)
WIDTHS(ONE, sinh) WIDTHS(ONE, cosh) WIDTHS(ONE, tanh) WIDTHS(ONE, asinh) WIDTHS(ONE, acosh) WIDTHS(ONE, atanh)
WIDTHS(ONE, fabs) WIDTHS(ONE, floor) WIDTHS(ONE, ceil) WIDTHS(ONE, rint) WIDTHS(ONE, round) WIDTHS(ONE, trunc)
WIDTHS(TWO, fmin) WIDTHS(TWO, fmax) WIDTHS(TWO, min) WIDTHS(TWO, max) WIDTHS(TWO, fmod) WIDTHS(TWO, pow)
WIDTHS(TWO, atan2) WIDTHS(TWO, copysign) WIDTHS(THREE, fma) WIDTHS(THREE, mad) WIDTHS(THREE, clamp)
WIDTHS(TEST, isnan) WIDTHS(TEST, isinf)
#undef ONE
#undef TWO
#undef THREE
#undef TEST

/* ---- functions of integers ---- */
#define OF_WIDTH(n, T)             \
  CONST T##n min(T##n, T##n);      \
  CONST T##n max(T##n, T##n);      \
  CONST T##n mul_hi(T##n, T##n);   \
  CONST T##n clamp(T##n, T##n, T##n);
#define OF_TYPE(T) WIDTHS(OF_WIDTH, T)
INTEGERS(OF_TYPE)
#undef OF_WIDTH
#undef OF_TYPE

/* ---- select: masks have the width of the elements ---- */
#define OF_WIDTH(n, T, S, U)                    \
  CONST T##n select(T##n, T##n, S##n);          \
  CONST T##n select(T##n, T##n, U##n);
WIDTHS(OF_WIDTH, char, char, uchar) WIDTHS(OF_WIDTH, uchar, char, uchar)
WIDTHS(OF_WIDTH, short, short, ushort) WIDTHS(OF_WIDTH, ushort, short, ushort)
WIDTHS(OF_WIDTH, int, int, uint) WIDTHS(OF_WIDTH, uint, int, uint) WIDTHS(OF_WIDTH, float, int, uint)
WIDTHS(OF_WIDTH, long, long, ulong) WIDTHS(OF_WIDTH, ulong, long, ulong)
#undef OF_WIDTH
#define ANY(n, T) CONST int any(T##n);
WIDTHS(ANY, char) WIDTHS(ANY, short) WIDTHS(ANY, int) WIDTHS(ANY, long)
#undef ANY

/* ---- conversions ---- */
#define FROM(n, T, S) CONST T##n convert_##T##n(S##n);
#define TO(T)                                                                                                   \
  VECTORS(FROM, T, char) VECTORS(FROM, T, uchar) VECTORS(FROM, T, short) VECTORS(FROM, T, ushort)               \
  VECTORS(FROM, T, int) VECTORS(FROM, T, uint) VECTORS(FROM, T, long) VECTORS(FROM, T, ulong) VECTORS(FROM, T, float)
INTEGERS(TO) TO(float)
#undef FROM
#undef TO

/* ---- memory ---- Unaligned vectors by one instruction each. Library versions are composed of parts, which are inlined
 * into every kernel and only partly recombined by the optimizer, and would double the compile time. */
#define MOVES __attribute__((overloadable, always_inline)) static inline
#define OF_WIDTH(n, SPACE, T)                                                                               \
  MOVES T##n vload##n(size_t i, const SPACE T *p) { return *(const SPACE clade_loose_##T##n *)(p + i * n); } \
  MOVES void vstore##n(T##n v, size_t i, SPACE T *p) { *(SPACE clade_loose_##T##n *)(p + i * n) = v; }
#define LOOSE(n, T)        typedef T##n clade_loose_##T##n __attribute__((aligned(sizeof(T))));
#define OF_SPACE(SPACE, T) VECTORS(OF_WIDTH, SPACE, T)
#define OF_TYPE(T)         VECTORS(LOOSE, T) SPACES(OF_SPACE, T)
OF_TYPE(char) OF_TYPE(uchar) OF_TYPE(ushort) OF_TYPE(int) OF_TYPE(uint) OF_TYPE(long) OF_TYPE(float)
#undef MOVES
#undef OF_WIDTH
#undef LOOSE
#undef OF_SPACE
#undef OF_TYPE
#define OF_WIDTH(n, SPACE)                                    \
  PURE float##n vload_half##n(size_t, const SPACE half *);    \
  OVER void vstore_half##n(float##n, size_t, SPACE half *);   \
  OVER void vstore_half##n##_rte(float##n, size_t, SPACE half *);
#define OF_SPACE(SPACE, ...) WIDTHS(OF_WIDTH, SPACE)
SPACES(OF_SPACE, )
#undef OF_WIDTH
#undef OF_SPACE

#undef OVER
#undef CONST
#undef PURE
#undef VECTORS
#undef WIDTHS
#undef INTEGERS
#undef SPACES
