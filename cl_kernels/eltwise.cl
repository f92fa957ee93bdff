/* Elementwise programs. ELT_ARGS, ELT_USE, ELT_LOAD, ELT_BODY and ELT_OUT are the program: its tensors x0, x1, …, their
 * elements i0, i1, … at an index, and the result r. RANK 0: all operands have the result's shape. Otherwise it is the
 * number of axes that are told apart; operands repeat along those where their stride is 0. An operand and the result
 * may be the same memory. */
#if RANK == 0
KERNEL(eltwise_flat_ref)(ELT_ARGS ARG(STORAGE(ELT_OUT), y), const index_t n) {
  ELT_USE
  USE(STORAGE(ELT_OUT), y);
  const size_t at = get_global_id(0);
  if (at < (size_t)n) {
    ELT_LOAD
    ELT_BODY
    STORE(ELT_OUT, y, at, r);
  }
}
#else

/* One work-group computes a piece of a row; the other axes' indices are the same for all of it. */
#if RANK == 2
#define AT(s) (x * (size_t)(s).s0 + c1 * (size_t)(s).s1)
#elif RANK == 4
#define AT(s) (x * (size_t)(s).s0 + c1 * (size_t)(s).s1 + c2 * (size_t)(s).s2 + c3 * (size_t)(s).s3)
#else
#define AT(s)                                                                                      \
  (x * (size_t)(s).s0 + c1 * (size_t)(s).s1 + c2 * (size_t)(s).s2 + c3 * (size_t)(s).s3 +          \
   c4 * (size_t)(s).s4 + c5 * (size_t)(s).s5 + c6 * (size_t)(s).s6 + c7 * (size_t)(s).s7)
#endif
#define SPLIT(c, rest, d)                               \
  const size_t c = rest % (size_t)max(d, (index_t)1); \
  rest /= (size_t)max(d, (index_t)1);

KERNEL(eltwise_strided_ref)
(ELT_ARGS ARG(STORAGE(ELT_OUT), y), const index8_t dim, ELT_STRIDES const index_t groups_per_row) {
  ELT_USE
  USE(STORAGE(ELT_OUT), y);
  const size_t per_row = (size_t)max(groups_per_row, (index_t)1);
  const size_t row = get_group_id(0) / per_row;
  const size_t x = (get_group_id(0) - row * per_row) * get_local_size(0) + get_local_id(0);
#if RANK == 2
  const size_t c1 = row;
#else
  size_t rest = row;
  SPLIT(c1, rest, dim.s1)
  SPLIT(c2, rest, dim.s2)
#if RANK == 4
  const size_t c3 = rest;
#else
  SPLIT(c3, rest, dim.s3)
  SPLIT(c4, rest, dim.s4)
  SPLIT(c5, rest, dim.s5)
  SPLIT(c6, rest, dim.s6)
  const size_t c7 = rest;
#endif
#endif
  if (x < (size_t)dim.s0) {
    ELT_LOAD
    ELT_BODY
    STORE(ELT_OUT, y, row * (size_t)dim.s0 + x, r);
  }
}
#undef AT
#undef SPLIT
#endif
