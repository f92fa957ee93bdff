/* The table of element types: one row per type. The library, the kernels and the tests derive their handling of a type
 * from its row (docs/adding-a-type.md). This file is also the beginning of every OpenCL program: macros only. */
#ifndef CLADE_DTYPES_H
#define CLADE_DTYPES_H

/* The rows. A program's macro takes the first six columns and `...`, because columns may be appended.
 *
 *   NAME, number, name  the constant CLADE_NAME = number, which is never reused; the name in texts and kernels
 *   bits                bits per element
 *   elements, bytes     elements and bytes per block, the smallest unit that is stored. Formats with a scale per block
 *                       have more than one element per block
 *   scale               type of the scale in front of a block's elements; none
 *   kind                real, whole (signed integer), natural (unsigned integer) or truth (bool)
 *   use                 computed: every op takes the type. stored: casts, elementwise functions, products, copies and
 *                       files take it, all other ops refuse it
 *   exponent, fraction  bits of the float's exponent and fraction; 0, 0 if a single element is not a float
 *   infinite            1 if the float has infinities. Without them, the code with all bits set is NaN, and the code
 *                       below is the largest number
 *   storage, compute    OpenCL C types: of an element in memory (of a byte, in a block), and of its value
 *   access              suffix of the macros in prelude.cl that load, store and round an element; `small` serves 8-bit
 *                       floats. Elements in blocks are only loaded (docs/adding-a-type.md)
 *   product             NAME of the accumulator type of products; NONE: there are no products
 *   npy                 NPY type; values are converted if its size differs
 *   tensors             type name in safetensors; for types with blocks, in Clade's additional key (docs/formats.md)
 *   tolerance           largest difference between two implementations, relative to the largest result (tuner) */
/* clang-format off */
#define CLADE_DTYPE_f32(ROW) \
  ROW(F32,    1, f32,    32, 1, 4, none, real,    computed, 8, 23, 1, float,  float, f32,     F32,  "<f4", "F32",     2e-3)
#define CLADE_DTYPE_f16(ROW) \
  ROW(F16,    2, f16,    16, 1, 2, none, real,    computed, 5, 10, 1, ushort, float, f16,     F16,  "<f2", "F16",     1e-2)
#define CLADE_DTYPE_bf16(ROW) \
  ROW(BF16,   3, bf16,   16, 1, 2, none, real,    computed, 8,  7, 1, ushort, float, bf16,    BF16, "<f4", "BF16",    4e-2)
#define CLADE_DTYPE_i8(ROW) \
  ROW(I8,     4, i8,      8, 1, 1, none, whole,   computed, 0,  0, 0, char,   int,   i8,      I32,  "|i1", "I8",      0)
#define CLADE_DTYPE_u8(ROW) \
  ROW(U8,     5, u8,      8, 1, 1, none, natural, computed, 0,  0, 0, uchar,  int,   integer, I32,  "|u1", "U8",      0)
#define CLADE_DTYPE_i32(ROW) \
  ROW(I32,    6, i32,    32, 1, 4, none, whole,   computed, 0,  0, 0, int,    int,   integer, I32,  "<i4", "I32",     0)
#define CLADE_DTYPE_i64(ROW) \
  ROW(I64,    7, i64,    64, 1, 8, none, whole,   computed, 0,  0, 0, long,   long,  integer, NONE, "<i8", "I64",     0)
#define CLADE_DTYPE_bool(ROW) \
  ROW(BOOL,   8, bool,    8, 1, 1, none, truth,   computed, 0,  0, 0, uchar,  int,   truth,   NONE, "|b1", "BOOL",    0)
#define CLADE_DTYPE_f8e4m3(ROW) \
  ROW(F8E4M3, 9, f8e4m3,  8, 1, 1, none, real,    stored,   4,  3, 0, uchar,  float, small,   F32,  "<f4", "F8_E4M3", 2e-1)
#define CLADE_DTYPE_q4_0(ROW) \
  ROW(Q4_0,  10, q4_0,    4, 32, 18, f16, real,   stored,   0,  0, 0, uchar,  float, q4_0,    NONE, "<f4", "Q4_0",    2e-1)
#define CLADE_DTYPE_q8_0(ROW) \
  ROW(Q8_0,  11, q8_0,    8, 32, 34, f16, real,   stored,   0,  0, 0, uchar,  float, q8_0,    NONE, "<f4", "Q8_0",    2e-2)

/* DO(name, with) of each type. */
#define CLADE_DTYPE_EACH(DO, with) \
  DO(f32, with)    \
  DO(f16, with)    \
  DO(bf16, with)   \
  DO(i8, with)     \
  DO(u8, with)     \
  DO(i32, with)    \
  DO(i64, with)    \
  DO(bool, with)   \
  DO(f8e4m3, with) \
  DO(q4_0, with)   \
  DO(q8_0, with)   \
  /* the end */
/* clang-format on */

/* The row of one type, and the rows of all types: CLADE_DTYPE_MAP(ROW) calls ROW(NAME, number, name, …) for each. */
#define CLADE_DTYPE_ROW_OF(name, ROW) CLADE_DTYPE_##name(ROW)
#define CLADE_DTYPE_MAP(ROW)          CLADE_DTYPE_EACH(CLADE_DTYPE_ROW_OF, ROW)

#endif
