/* All kernels of a bundle, as one source: aoc, v++ and poclcc are given this file, and its folder by -I. */
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

#define NAME      array_i8 /* alpha is 1: sums are exact */
#define T         char
#define SUM       int
#define WORD(sum) as_uint(sum)
#ifdef ARRAY_I8_IN_RTL
#define EMPTY /* fpga/rtl computes it, behind the emulated accelerator's queue */
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
