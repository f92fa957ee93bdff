/* Precedes every kernel for FPGAs: hardware sizes, compiler-specific names, and the interpreter of elementwise
 * programs. OpenCL C 1.2 that aoc (INTELFPGA_CL), v++ (__xilinx__) and PoCL accept.
 *
 * A kernel is one work-item; a tensor is a pointer and an offset in elements. Old and new tensors may share memory,
 * since each element is read before it is overwritten, so that `restrict` holds nevertheless. */
#ifndef PE_ROWS /* multiply-accumulators of the array */
#define PE_ROWS 8
#endif
#ifndef PE_COLS
#define PE_COLS 8
#endif
#ifndef TILE_ROWS /* tile of the result, on the chip; multiples of the above, preferably PE_ROWS * PE_COLS */
#define TILE_ROWS (PE_ROWS * PE_COLS)
#endif
#ifndef TILE_COLS
#define TILE_COLS (PE_ROWS * PE_COLS)
#endif
#ifndef DEPTH /* slice of the inner axis, on the chip */
#define DEPTH 32
#endif
#ifndef LINE /* elements of a line buffer */
#define LINE 8192
#endif
#ifndef PLANE /* pixels of a plane whose gradients are accumulated */
#define PLANE 16384
#endif
#ifndef LATENCY /* largest number of cycles until a sum can be added to again */
#define LATENCY 16
#endif
#if TILE_ROWS % PE_ROWS || TILE_COLS % PE_COLS || TILE_COLS > 64 || DEPTH > 32 || LINE < 8192 || PLANE < 16384
#error these sizes break what fpga/interface.def says
#endif

#if defined(INTELFPGA_CL)
#define KERNEL(name) \
  __attribute__((max_global_work_dim(0))) __attribute__((reqd_work_group_size(1, 1, 1))) __kernel void name
#define UNROLL        _Pragma("unroll")
#define PRAGMA(text)  _Pragma(#text)
#define SAFELEN(most) PRAGMA(ivdep safelen(most)) /* indirect, so that the number is substituted first */
#define PIPELINE      SAFELEN(LATENCY)
#elif defined(__xilinx__)
#define KERNEL(name) __attribute__((reqd_work_group_size(1, 1, 1))) __kernel void name
#define UNROLL       __attribute__((opencl_unroll_hint))
#define PIPELINE     __attribute__((xcl_pipeline_loop(1)))
#else
#define KERNEL(name) __attribute__((reqd_work_group_size(1, 1, 1))) __kernel void name
#define UNROLL       _Pragma("unroll")
#define PIPELINE
#endif
#define TENSOR(type, name) __global type *restrict name, const int name##_at

/* ---- compensated sums (Knuth's two-sum) ---- There are LATENCY partial sums, so that each cycle adds to another one.
 */
static void sum_clear(float *s, float *c) {
  for (int l = 0; l < LATENCY; l++) s[l] = c[l] = 0.0f;
}
static void sum_add(float *s, float *c, float v) {
  const float sum = *s + v, back = sum - *s;
  *c += (*s - (sum - back)) + (v - back);
  *s = sum;
}
/* Combines all partial sums in the first one. */
static void sum_join(float *s, float *c) {
  for (int l = 1; l < LATENCY; l++) {
    sum_add(s, c, s[l]);
    *c += c[l];
  }
}

/* ---- elementwise programs ---- Values are 32-bit words: floats, ints, and bools (0 or 1). v[0] to v[7] are the
 * inputs, v[8 + k] is the result of instruction k. Bits of an instruction, from the lowest: 9 for the function's number
 * in src/op/eltwise.def; 2 for the operand that it is differentiated by, counted from 1 (0: none); 4 for each of three
 * operands; 2 for the type of its operands (for select: of the second) and 2 for that of its result: 0 float, 1 int, 2
 * bool. An instruction 0 ends the program. */
enum { KIND_FLOAT, KIND_INT, KIND_BOOL };

static float program_derivative(int f, int by, float a, float b, float p, float q) {
  switch (f) {
  case 1: return a > 0.0f ? 1.0f : 0.0f;
  case 4: return (1.0f + a / (1.0f + exp(a))) / (1.0f + exp(-a));
  case 5: return 1.0f / ((1.0f + exp(-a)) * (1.0f + exp(a)));
  case 9: return 1.0f / (cosh(a) * cosh(a));
  case 13: return a > 0.0f ? 1.0f : p;
  case 15: return a > 0.0f && a < 6.0f ? 1.0f : 0.0f;
  case 64: return exp(a);
  case 65: return 1.0f / a;
  case 66: return 0.5f / sqrt(a);
  case 68: return -1.0f / (a * a);
  case 69: return a > 0.0f ? 1.0f : a < 0.0f ? -1.0f : 0.0f;
  case 70: return -1.0f;
  case 75: return 2.0f * a;
  case 160: return 1.0f;
  case 161: return by == 1 ? 1.0f : -1.0f;
  case 162: return by == 1 ? b : a;
  case 163: return by == 1 ? 1.0f / b : -a / (b * b);
  case 165: return a == b ? 0.5f : (by == 1 ? a < b : b < a) ? 1.0f : 0.0f;
  case 166: return a == b ? 0.5f : (by == 1 ? a > b : b > a) ? 1.0f : 0.0f;
  case 272: return a >= p && a <= q ? 1.0f : 0.0f;
  case 273: return (by == 2) == (a != 0.0f) ? 1.0f : 0.0f;
  default: return NAN;
  }
}

static float program_float(int f, float a, float b, float p, float q) {
  switch (f) {
  case 1: return a < 0.0f ? 0.0f : a;
  case 4: return a / (1.0f + exp(-a));
  case 5: return 1.0f / (1.0f + exp(-a));
  case 9: return tanh(a);
  case 13: return a < 0.0f ? p * a : a;
  case 15: return a < 0.0f ? 0.0f : a > 6.0f ? 6.0f : a;
  case 64: return exp(a);
  case 65: return log(a);
  case 66: return sqrt(a);
  case 67: return rsqrt(a);
  case 68: return 1.0f / a;
  case 69: return fabs(a);
  case 70: return -a;
  case 75: return a * a;
  case 130: return rint(a);
  case 160: return a + b;
  case 161: return a - b;
  case 162: return a * b;
  case 163: return a / b;
  case 165: return a < b || a != a ? a : b;
  case 166: return a > b || a != a ? a : b;
  case 272: return a < p ? p : a > q ? q : a;
  default: return NAN;
  }
}

/* Unsigned arithmetic where overflow may occur. */
static int program_int(int f, int a, int b) {
  switch (f) {
  case 1: return a < 0 ? 0 : a;
  case 69: return a < 0 ? (int)(0u - (uint)a) : a;
  case 70: return (int)(0u - (uint)a);
  case 75: return (int)((uint)a * (uint)a);
  case 160: return (int)((uint)a + (uint)b);
  case 161: return (int)((uint)a - (uint)b);
  case 162: return (int)((uint)a * (uint)b);
  case 165: return a < b ? a : b;
  case 166: return a > b ? a : b;
  default: return 0;
  }
}

static uint program_compare(int f, bool less, bool equal, bool greater) {
  switch (f) {
  case 224: return equal;
  case 225: return !equal;
  case 226: return less;
  case 227: return less || equal;
  case 228: return greater;
  default: return greater || equal;
  }
}

static uint program_cast(int from, int to, uint v) {
  const float f = from == KIND_FLOAT ? as_float(v) : (float)as_int(v);
  if (to == KIND_FLOAT) return as_uint(f);
  if (to == KIND_BOOL) return from == KIND_FLOAT ? f != 0.0f : v != 0;
  return from == KIND_FLOAT ? (f != f ? 0u : as_uint(convert_int_sat(f))) : v;
}

static uint program_step(int insn, float p, float q, const uint *v) {
  const int f = insn & 511, by = insn >> 9 & 3, from = insn >> 23 & 3, to = insn >> 25 & 3;
  const uint a = v[insn >> 11 & 15], b = v[insn >> 15 & 15], c = v[insn >> 19 & 15];
  const float fa = as_float(a), fb = as_float(b);
  const int ia = as_int(a), ib = as_int(b);
  if (by) return as_uint(program_derivative(f, by, f == 273 ? (float)a : fa, fb, p, q));
  if (f == 273) return a ? b : c;
  if (f == 274) return program_cast(from, to, a);
  if (f >= 224 && f <= 229)
    return from == KIND_FLOAT ? program_compare(f, fa<fb, fa == fb, fa> fb)
                              : program_compare(f, ia<ib, ia == ib, ia> ib);
  return from == KIND_FLOAT ? as_uint(program_float(f, fa, fb, p, q)) : as_uint(program_int(f, ia, ib));
}

static uint program_run(const int *code, const float *param, uint *v) {
  uint r = v[0];
  for (int k = 0; k < 8 && code[k]; k++) {
    r = program_step(code[k], param[2 * k], param[2 * k + 1], v);
    v[8 + k] = r;
  }
  return r;
}

/* The program in a kernel's arguments, as program_run takes it. */
#define PROGRAM(code, param)                                                                                \
  const int codes[8] = {code.s0, code.s1, code.s2, code.s3, code.s4, code.s5, code.s6, code.s7};            \
  const float params[16] = {param.s0, param.s1, param.s2, param.s3, param.s4, param.s5, param.s6, param.s7, \
                            param.s8, param.s9, param.sa, param.sb, param.sc, param.sd, param.se, param.sf};
