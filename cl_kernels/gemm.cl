/* Matrix products: y = epilogue(alpha * a b), over batches.
 *
 * dims: six batch extents, rows, columns. a_s: six batch strides, those of rows and of the inner axis. b_s: six batch
 * strides, those of the inner axis and of columns. ACC: float, or uint for integers, which wrap. OUT: the stored type of y. EPILOGUE computes r from i0 at (row,
 * column); EPILOGUE_ARGS, EPILOGUE_PASS and EPILOGUE_USE bring its operands in. */
static inline index_t FN(offset)(index8_t dims, index8_t strides, index_t at) {
  index_t from = at % dims.s5 * strides.s5;
  at /= dims.s5;
  from += at % dims.s4 * strides.s4;
  at /= dims.s4;
  from += at % dims.s3 * strides.s3;
  at /= dims.s3;
  from += at % dims.s2 * strides.s2;
  at /= dims.s2;
  return from + at % dims.s1 * strides.s1 + at / dims.s1 * strides.s0;
}
static inline long FN(batches)(index8_t dims) { return (long)dims.s0 * dims.s1 * dims.s2 * dims.s3 * dims.s4 * dims.s5; }

#define GEMM_ARGS                                                                                              \
  ARG(const STORAGE(T), a), ARG(const STORAGE(T), b), ARG(STORAGE(OUT), y), const index8_t dims, const index_t depth, \
      const index8_t a_s, const index8_t b_s, const float alpha
#define GEMM_PASS PASS(a), PASS(b), PASS(y), dims, depth, a_s, b_s, alpha
#define EPILOGUE_AT(strides) FN(offset)(dims, strides, batch)
/* Pointers to the batch's matrices. */
#define GEMM_USE                          \
  USE(const STORAGE(T), a);               \
  USE(const STORAGE(T), b);               \
  USE(STORAGE(OUT), y);                   \
  a += FN(offset)(dims, a_s, batch);       \
  b += FN(offset)(dims, b_s, batch);       \
  y += batch * (index_t)dims.s6 * dims.s7; \
  EPILOGUE_USE
#define GEMM_STORE(result, row_, column_)           \
  {                                                 \
    const index_t row = (row_), column = (column_); \
    const COMPUTE(T) i0 = (result);                 \
    EPILOGUE                                        \
    STORE(OUT, y, row * dims.s7 + column, r);       \
  }

#ifdef WANT_gemm_forward_ref
BODY(result)(const index_t row0, const index_t column0, const index_t batch, GEMM_ARGS EPILOGUE_ARGS) {
  GEMM_USE
  a += row0 * a_s.s6;
  b += column0 * b_s.s7;
  ACC sum = 0;
  for (index_t k = 0; k < depth; k++) sum += (ACC)LOAD(T, a, k * a_s.s7) * (ACC)LOAD(T, b, k * b_s.s6);
  GEMM_STORE((COMPUTE(T))(sum * (ACC)alpha), row0, column0)
}

KERNEL(gemm_forward_ref)(GEMM_ARGS EPILOGUE_ARGS) {
  const index_t column0 = get_global_id(0), row0 = get_global_id(1), batch = get_global_id(2);
  if (row0 < dims.s6 && column0 < dims.s7 && batch < FN(batches)(dims))
    FN(result)(row0, column0, batch, GEMM_PASS EPILOGUE_PASS);
}
#endif

#ifdef WANT_gemm_forward_vec
/* For a core with vectors of WIDTH floats. A block of `rows` x BLOCK_COLUMNS is one work-item's. For every DEPTH of the
 * inner axis the slice of b is copied to private memory in panels two vectors wide, and for every ROWS rows that of a.
 * Beyond the edges the last row and column are copied again, so that the inner loop knows whole tiles only; what comes
 * of them is not stored. */
#define VECTOR  CLADE_PASTE(float, WIDTH)
#define VLOAD   CLADE_PASTE(vload, WIDTH)
#define VSTORE  CLADE_PASTE(vstore, WIDTH)
#define PANEL   (2 * WIDTH)
#define A_PITCH (DEPTH + 16)

/* The elements from k on, of a row or a column. */
static inline void FN(copy)(const __global STORAGE(T) *from, index_t stride, index_t k, index_t depth, float *to, int step) {
#pragma clang loop vectorize(disable)
  for (; k < depth; k++) to[k * step] = LOAD(T, from, k * stride);
}

static inline void FN(copy_a)(const __global STORAGE(T) *a, const index8_t a_s, index_t rows, index_t depth, float *to) {
  for (int r = 0; r < ROWS; r++, to += A_PITCH) {
    const __global STORAGE(T) *row = a + min((index_t)r, rows - 1) * a_s.s6;
    index_t k = 0;
    if (a_s.s7 == 1)
      for (; k + WIDTH <= depth; k += WIDTH) VSTORE(LOADN(WIDTH, T, row, k), 0, to + k);
    FN(copy)(row, a_s.s7, k, depth, to, 1);
  }
}

static inline void FN(copy_b)(const __global STORAGE(T) *b, const index8_t b_s, index_t columns, index_t depth, float *to) {
  for (index_t c = 0; c < columns; c += PANEL, to += DEPTH * PANEL) {
    if (c + PANEL <= columns && b_s.s7 == 1) {
      for (index_t k = 0; k < depth; k++) {
        VSTORE(LOADN(WIDTH, T, b, k * b_s.s6 + c), 0, to + k * PANEL);
        VSTORE(LOADN(WIDTH, T, b, k * b_s.s6 + c + WIDTH), 1, to + k * PANEL);
      }
    } else {
      for (int l = 0; l < PANEL; l++)
        FN(copy)(b + min(c + l, columns - 1) * b_s.s7, b_s.s6, 0, depth, to + l, PANEL);
    }
  }
}

static inline void FN(multiply)(const float *a, const float *b, index_t depth, float *c) {
  VECTOR left[ROWS], right[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    left[r] = VLOAD(0, c + r * BLOCK_COLUMNS);
    right[r] = VLOAD(1, c + r * BLOCK_COLUMNS);
  }
  for (index_t k = 0; k < depth; k++) {
    const VECTOR b0 = VLOAD(0, b + k * PANEL), b1 = VLOAD(1, b + k * PANEL);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const VECTOR one = a[r * A_PITCH + k];
      left[r] = one * b0 + left[r];
      right[r] = one * b1 + right[r];
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    VSTORE(left[r], 0, c + r * BLOCK_COLUMNS);
    VSTORE(right[r], 1, c + r * BLOCK_COLUMNS);
  }
}

BODY(block)(const long item, GEMM_ARGS, const index_t rows EPILOGUE_ARGS) {
  const long across = ((long)dims.s7 + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS;
  if (rows == 0 || across == 0) return;
  const long down = ((long)dims.s6 + rows - 1) / rows;
  if (item >= across * down * FN(batches)(dims)) return;
  const index_t batch = (index_t)(item / (across * down));
  const index_t row0 = (index_t)(item / across % down) * rows, column0 = (index_t)(item % across) * BLOCK_COLUMNS;
  const index_t n_rows = min(rows, dims.s6 - row0), n_columns = min((index_t)BLOCK_COLUMNS, dims.s7 - column0);
  GEMM_USE
  float a_part[ROWS * A_PITCH], b_part[DEPTH * BLOCK_COLUMNS], result[BLOCK_ROWS * BLOCK_COLUMNS];
  for (index_t i = 0; i < (n_rows + ROWS - 1) / ROWS * ROWS * BLOCK_COLUMNS; i++) result[i] = 0;
  for (index_t k = 0; k < depth; k += DEPTH) {
    const index_t part = min((index_t)DEPTH, depth - k);
    FN(copy_b)(b + k * b_s.s6 + column0 * b_s.s7, b_s, n_columns, part, b_part);
    for (index_t r = 0; r < n_rows; r += ROWS) {
      FN(copy_a)(a + (row0 + r) * a_s.s6 + k * a_s.s7, a_s, n_rows - r, part, a_part);
      for (index_t c = 0; c < n_columns; c += PANEL)
        FN(multiply)(a_part, b_part + c * DEPTH, part, result + r * BLOCK_COLUMNS + c);
    }
  }
  for (index_t r = 0; r < n_rows; r++)
    for (index_t c = 0; c < n_columns; c++) GEMM_STORE(result[r * BLOCK_COLUMNS + c] * alpha, row0 + r, column0 + c)
}

GROUP(1, 1, 1) KERNEL(gemm_forward_vec)(GEMM_ARGS, const index_t rows EPILOGUE_ARGS) {
  FN(block)((long)get_global_id(0), GEMM_PASS, rows EPILOGUE_PASS);
}
#undef VECTOR
#undef VLOAD
#undef VSTORE
#undef PANEL
#undef A_PITCH
#endif

#ifdef WANT_gemm_forward_simt
/* A group of 16 x 16 work-items does 64 x 64 results, each work-item 4 x 4 of them, 16 apart. */
#define TILE  64
#define SLICE 16
GROUP(16, 16, 1) KERNEL(gemm_forward_simt)(GEMM_ARGS EPILOGUE_ARGS) {
  __local float a_tile[SLICE][TILE + 1], b_tile[SLICE][TILE + 1];
  const index_t batch = (index_t)get_group_id(2);
  if (batch >= FN(batches)(dims)) return; /* the whole group */
  GEMM_USE
  const int x = (int)get_local_id(0), y_id = (int)get_local_id(1), id = y_id * 16 + x;
  const index_t row0 = (index_t)get_group_id(1) * TILE, column0 = (index_t)get_group_id(0) * TILE;
  float sum[4][4];
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) sum[i][j] = 0;
  for (index_t k0 = 0; k0 < depth; k0 += SLICE) {
    for (int i = id; i < TILE * SLICE; i += 256) {
      /* neighbours read what is contiguous */
      const int ka = a_s.s7 == 1 ? i % SLICE : i / TILE, m = a_s.s7 == 1 ? i / SLICE : i % TILE;
      const int kb = b_s.s7 == 1 ? i / TILE : i % SLICE, n = b_s.s7 == 1 ? i % TILE : i / SLICE;
      const bool a_in = row0 + m < dims.s6 && k0 + ka < depth, b_in = column0 + n < dims.s7 && k0 + kb < depth;
      a_tile[ka][m] = a_in ? LOAD(T, a, (row0 + m) * a_s.s6 + (k0 + ka) * a_s.s7) : 0.0f;
      b_tile[kb][n] = b_in ? LOAD(T, b, (k0 + kb) * b_s.s6 + (column0 + n) * b_s.s7) : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < SLICE; k++) {
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) sum[i][j] += a_tile[k][y_id + 16 * i] * b_tile[k][x + 16 * j];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const index_t to_row = row0 + y_id + 16 * i, to_column = column0 + x + 16 * j;
      if (to_row < dims.s6 && to_column < dims.s7) GEMM_STORE(sum[i][j] * alpha, to_row, to_column)
    }
}
#undef TILE
#undef SLICE
#endif
#undef GEMM_ARGS
#undef GEMM_PASS
#undef GEMM_USE
#undef EPILOGUE_AT
#undef GEMM_STORE
