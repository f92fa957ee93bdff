/* Matrix products of few rows, where b is contiguous along the inner axis, as vectorized dot products. Arguments as in
 * gemm.cl. Only rows of a that are not contiguous are copied (plan.s3 elements). A work-item computes some columns at a
 * time, with each of at most MOST_ROWS rows; partial sums stay in vector lanes until the end. It does one of plan.s0
 * parts of a matrix. plan.s1 and plan.s2: row and column strides of the result. */
#define SLICE     512
#define MOST_SUMS (4 * MOST_ROWS)
#define ADD_4(v)  (((v).s0 + (v).s2) + ((v).s1 + (v).s3))
#define ADD_8(v)  ADD_4((v).lo + (v).hi)
#define ADD_16(v) ADD_8((v).lo + (v).hi)
#define ADD(v)    CLADE_PASTE(ADD_, WIDTH)(v)

#define GEMM_ARGS                                                                                                      \
  ARG(const STORAGE(T), a), ARG(const STORAGE(TB), b), ARG(STORAGE(OUT), y), const index8_t dims, const index_t depth, \
      const index8_t a_s, const index8_t b_s, const float alpha
#define GEMM_PASS            PASS(a), PASS(b), PASS(y), dims, depth, a_s, b_s, alpha
#define EPILOGUE_AT(strides) BATCH_OFFSET(dims, strides, batch)

/* Starts of four columns; the last one is repeated. Separate pointers, since with strides from one pointer clang splits
 * the loads. */
__attribute__((always_inline)) static inline void FN(columns)(const __global STORAGE(T) * *column,
                                                              const __global STORAGE(T) * b, const index_t b_column,
                                                              const index_t wide) {
#pragma unroll
  for (int c = 0; c < 4; c++) column[c] = b + min((index_t)c, wide - 1) * b_column;
}

/* Adds the products of `n` elements to the sums of `height` rows and four columns. Loops have constant counts, so that
 * they are unrolled and the sums stay in registers. */
__attribute__((always_inline)) static inline void FN(add)(const int height, const __global STORAGE(T) * a,
                                                          const index_t a_row, const __global STORAGE(T) * const *column,
                                                          const index_t n, VECTOR *total) {
  VECTOR sum[3][4];
#pragma unroll
  for (int i = 0; i < 12; i++)
    if (i < 4 * height) sum[i / 4][i % 4] = total[i];
  for (index_t k = 0; k < n; k += WIDTH) {
    VECTOR left[3];
#pragma unroll
    for (int r = 0; r < 3; r++)
      if (r < height) left[r] = LOADN(WIDTH, T, a, r * a_row + k);
#pragma unroll
    for (int c = 0; c < 4; c++) {
      const VECTOR right = LOADN(WIDTH, T, column[c], k);
#pragma unroll
      for (int r = 0; r < 3; r++)
        if (r < height) sum[r][c] = fma(left[r], right, sum[r][c]);
    }
  }
#pragma unroll
  for (int i = 0; i < 12; i++)
    if (i < 4 * height) total[i] = sum[i / 4][i % 4];
}

/* The same for a single row, for which b is streamed once; fewer sums keep up with it. */
__attribute__((always_inline)) static inline void FN(line)(const __global STORAGE(T) * a,
                                                           const __global STORAGE(T) * const *column, const index_t n,
                                                           VECTOR *total) {
  VECTOR sum[4][2];
#pragma unroll
  for (int c = 0; c < 4; c++) sum[c][0] = sum[c][1] = 0.0f;
  index_t k = 0;
  for (; k + 2 * WIDTH <= n; k += 2 * WIDTH) {
    const VECTOR left[2] = {LOADN(WIDTH, T, a, k), LOADN(WIDTH, T, a, k + WIDTH)};
#pragma unroll
    for (int c = 0; c < 4; c++)
#pragma unroll
      for (int h = 0; h < 2; h++) sum[c][h] = fma(left[h], LOADN(WIDTH, T, column[c], k + h * WIDTH), sum[c][h]);
  }
#pragma unroll
  for (int c = 0; c < 4; c++) {
    if (k < n) sum[c][0] = fma(LOADN(WIDTH, T, a, k), LOADN(WIDTH, T, column[c], k), sum[c][0]);
    total[c] = sum[c][0] + sum[c][1];
  }
}

BODY(gemm_forward_dot_item)(const long item, GEMM_ARGS, ARG(STORAGE(T), space), const index8_t plan EPILOGUE_ARGS) {
  const index_t parts = plan.s0;
  if (parts == 0 || item >= parts * BATCHES(dims)) return;
  const index_t batch = (index_t)(item / parts), part = (index_t)(item % parts);
  const index_t steps = (dims.s7 + 3) / 4, whole = depth / WIDTH * WIDTH;
  const index_t column1 = min((index_t)((long)steps * (part + 1) / parts) * 4, dims.s7);
  USE(const STORAGE(T), a);
  USE(const STORAGE(TB), b);
  USE(STORAGE(OUT), y);
  EPILOGUE_USE
  a += BATCH_OFFSET(dims, a_s, batch);
  b += BATCH_OFFSET(dims, b_s, batch);
  y += batch * dims.s6 * dims.s7;
  index_t a_row = a_s.s6;
  if (plan.s3) {
    USE(STORAGE(T), space);
    space += item * plan.s3;
    a_row = depth;
    for (index_t i = 0; i < dims.s6; i++)
#pragma clang loop vectorize(disable) unroll(disable)
      for (index_t k = 0; k < depth; k++) space[i * depth + k] = a[i * a_s.s6 + k * a_s.s7];
    a = space;
  }
  for (index_t c = (index_t)((long)steps * part / parts) * 4; c < column1; c += 4) {
    VECTOR total[MOST_SUMS];
    const __global STORAGE(T) *right = b + c * b_s.s7, *column[4];
    const index_t wide = min((index_t)4, column1 - c);
    if (MOST_ROWS == 1) {
      if (b_s.s7 <= SLICE) /* columns too short for hardware prefetching */
        for (index_t i = 0; i < 4 * b_s.s7; i += 16) LATER(right + 4 * SLICE + i);
      FN(columns)(column, right, b_s.s7, wide);
      FN(line)(a, column, whole, total);
    } else {
      for (index_t i = 0; i < 4 * dims.s6; i++) total[i] = 0.0f;
      for (index_t k = 0, n; k < whole; k += n, right += n) {
        const __global STORAGE(T) *left = a + k;
        VECTOR *sums = total;
        index_t rows = dims.s6;
        n = min((index_t)SLICE, whole - k);
        FN(columns)(column, right, b_s.s7, wide);
        for (; rows >= 3; rows -= 3, left += 3 * a_row, sums += 12) FN(add)(3, left, a_row, column, n, sums);
        if (rows == 2)
          FN(add)(2, left, a_row, column, n, sums);
        else if (rows == 1)
          FN(add)(1, left, a_row, column, n, sums);
      }
    }
    for (index_t i = 0; i < 4 * dims.s6; i++) {
      const index_t row = i / 4, column = c + i % 4;
      if (column >= column1) continue;
      float sum = ADD(total[i]);
#pragma clang loop vectorize(disable) unroll(disable)
      for (index_t k = whole; k < depth; k++) sum += LOAD(T, a, row * a_row + k) * LOAD(T, b, column * b_s.s7 + k);
      const COMPUTE(T) i0 = sum * alpha;
      EPILOGUE
      STORE(OUT, y, row * plan.s1 + column * plan.s2, r);
    }
  }
}

GROUP(1, 1, 1) KERNEL(gemm_forward_dot)(GEMM_ARGS, ARG(STORAGE(T), space), const index8_t plan EPILOGUE_ARGS) {
  FN(gemm_forward_dot_item)((long)get_global_id(0), GEMM_PASS, PASS(space), plan EPILOGUE_PASS);
}
