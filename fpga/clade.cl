/* All kernels of a bundle as one source file, for aoc, v++ and poclcc, with its folder as -I. */
#include "prelude.cl"

#define NAME      array_f32
#define T         float
#define SUM       float
#define WORD(sum) as_uint(alpha *(sum))
#include "array.cl"
#undef NAME
#undef T
#undef SUM
#undef WORD

#define NAME      array_i8 /* alpha is 1, since sums are exact */
#define T         char
#define SUM       int
#define WORD(sum) as_uint(sum)
#ifdef ARRAY_I8_IN_RTL
#define EMPTY /* computed by fpga/rtl, behind the emulated accelerator's queue */
#endif
#include "array.cl"
#undef EMPTY
#undef NAME
#undef T
#undef SUM
#undef WORD

#include "eltwise.cl"
#include "norm.cl"
#include "pool.cl"
#include "reduce.cl"
#include "rows.cl"
#include "update.cl"
