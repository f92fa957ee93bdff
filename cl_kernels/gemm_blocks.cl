/* Matrix products of f32 rows by weights (TB) in blocks of 32 along the inner axis that share a scale, vectorized.
 * Arguments as in gemm.cl; strides of b count elements. A dequantized weight (integer times scale) is exact in a float.
 * A work-item computes one of plan.s0 parts of the columns and one of plan.s1 parts of the rows. */
#define GEMM_ARGS                                                                                                      \
  ARG(const STORAGE(T), a), ARG(const STORAGE(TB), b), ARG(STORAGE(OUT), y), const index8_t dims, const index_t depth, \
      const index8_t a_s, const index8_t b_s, const float alpha
#define GEMM_PASS            PASS(a), PASS(b), PASS(y), dims, depth, a_s, b_s, alpha
#define EPILOGUE_AT(strides) BATCH_OFFSET(dims, strides, batch)
#define BLOCK                BLOCK_BYTES(TB)
/* A block's scale in all lanes, by the F16C instruction if available; converting one half otherwise takes twenty
 * instructions. */
#ifdef __F16C__
#define SCALE(block)                                                                                      \
  const float8 clade_eight = __builtin_ia32_vcvtph2ps256((short8)(*(const __global short *)(block)));     \
  const float16 scale = (float16)(clade_eight, clade_eight);
#else
#define SCALE(block) const float16 scale = clade_load_f16((const __global ushort *)(block), 0);
#endif

/* The integers of a block: the first sixteen, and the other sixteen. Subtracting 8 from a 4-bit value amounts to
 * flipping its highest bit and sign-extending. */
#define HALVES_q4_0                                                                          \
  const int16 both = convert_int16(as_char16(vload16(0, block + 2) ^ (uchar16)(0x88)));      \
  const float16 low = convert_float16(both << 28 >> 28), high = convert_float16(both >> 4);
#define HALVES_q8_0                                                          \
  const float16 low = convert_float16(as_char16(vload16(0, block + 2))),     \
                high = convert_float16(as_char16(vload16(0, block + 18)));
#define HALVES CLADE_PASTE(HALVES_, TB)

#define FINISH(sum, row_, column_)                  \
  {                                                 \
    const index_t row = (row_), column = (column_); \
    const float i0 = (sum)*alpha;                   \
    EPILOGUE                                        \
    STORE(OUT, y, row *dims.s7 + column, r);        \
  }

#ifdef WANT_gemm_forward_blocks
/* Few rows, ROWS at a time: the weights of a column are streamed once per ROWS rows. For one row a block's sum is
 * multiplied by its scale, which is less work than scaling each weight. */
BODY(gemm_forward_blocks_item)(const long item, GEMM_ARGS, const index8_t plan EPILOGUE_ARGS) {
  const index_t across = plan.s0;
  if (across == 0 || item >= across * BATCHES(dims)) return;
  const index_t batch = (index_t)(item / across), part = (index_t)(item % across);
  const index_t end = (index_t)((long)dims.s7 * (part + 1) / across);
  USE(const STORAGE(T), a);
  USE(const STORAGE(TB), b);
  USE(STORAGE(OUT), y);
  EPILOGUE_USE
  a += BATCH_OFFSET(dims, a_s, batch);
  b += (size_t)BATCH_OFFSET(dims, b_s, batch) / 32 * BLOCK;
  y += batch * dims.s6 * dims.s7;
  for (index_t c = (index_t)((long)dims.s7 * part / across); c < end; c++)
    for (index_t first = 0; first < dims.s6; first += ROWS) {
      const __global uchar *block = b + (size_t)c * b_s.s7 / 32 * BLOCK;
      const __global float *left[ROWS];
      float16 sum[ROWS];
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        left[r] = a + min(first + r, dims.s6 - 1) * a_s.s6;
        sum[r] = 0;
      }
      for (index_t k = 0; k < depth; k += 32, block += BLOCK) {
        SCALE(block)
        HALVES
#if ROWS == 1
        sum[0] = fma(fma(vload16(0, left[0] + k + 16), high, vload16(0, left[0] + k) * low), scale, sum[0]);
#else
        const float16 w[2] = {low * scale, high * scale};
#pragma unroll
        for (int r = 0; r < ROWS; r++)
          sum[r] = fma(vload16(0, left[r] + k + 16), w[1], fma(vload16(0, left[r] + k), w[0], sum[r]));
#endif
      }
#pragma unroll
      for (int r = 0; r < ROWS; r++)
        if (first + r < dims.s6) FINISH(clade_lanes(sum[r], 0.0f), first + r, c)
    }
}

GROUP(1, 1, 1) KERNEL(gemm_forward_blocks)(GEMM_ARGS, const index8_t plan EPILOGUE_ARGS) {
  FN(gemm_forward_blocks_item)((long)get_global_id(0), GEMM_PASS, plan EPILOGUE_PASS);
}
#endif

#ifdef WANT_gemm_forward_blocks_panels
/* Many rows: sixteen columns at a time are dequantized into a panel in `space`, which all rows of the part use while L2
 * holds it. Element k of column c has number 16 k + c. */
#define TM 6
static inline void FN(put_eight)(float8 *x, __global float *to) {
  clade_turn(x);
#pragma unroll
  for (int l = 0; l < 8; l++) vstore8(x[l], 0, to + l * 16);
}
static inline void FN(panel)(const __global uchar *b, const size_t apart, const index_t columns, const index_t depth,
                             __global float *to) {
  for (index_t k = 0; k < depth; k += 32, b += BLOCK, to += 32 * 16)
    for (index_t c = 0; c < 16; c += 8) {
      float8 x[4][8];
#pragma unroll
      for (int l = 0; l < 8; l++) {
        const __global uchar *block = b + (size_t)min(c + l, columns - 1) * apart;
        SCALE(block)
        HALVES
        x[0][l] = low.lo * scale.lo;
        x[1][l] = low.hi * scale.lo;
        x[2][l] = high.lo * scale.lo;
        x[3][l] = high.hi * scale.lo;
      }
#pragma unroll
      for (int h = 0; h < 4; h++) FN(put_eight)(x[h], to + h * 8 * 16 + c);
    }
}

BODY(gemm_forward_blocks_panels_item)(const long item, GEMM_ARGS, ARG(float, space), const index8_t plan EPILOGUE_ARGS) {
  const index_t across = plan.s0, down = plan.s1;
  if (across == 0 || item >= across * down * BATCHES(dims)) return;
  const index_t batch = (index_t)(item / (across * down)), part = (index_t)(item % across);
  const index_t tiles = (dims.s6 + TM - 1) / TM, panels = (dims.s7 + 15) / 16, down_at = (index_t)(item / across % down);
  const index_t row0 = (index_t)((long)tiles * down_at / down) * TM;
  const index_t row1 = min((index_t)((long)tiles * (down_at + 1) / down) * TM, dims.s6);
  const index_t end = min((index_t)((long)panels * (part + 1) / across) * 16, dims.s7);
  USE(const STORAGE(T), a);
  USE(const STORAGE(TB), b);
  USE(STORAGE(OUT), y);
  USE(float, space);
  EPILOGUE_USE
  a += BATCH_OFFSET(dims, a_s, batch);
  b += (size_t)BATCH_OFFSET(dims, b_s, batch) / 32 * BLOCK;
  y += batch * dims.s6 * dims.s7;
  space += item * depth * 16;
  const size_t apart = (size_t)b_s.s7 / 32 * BLOCK;
  for (index_t c = (index_t)((long)panels * part / across) * 16; c < end; c += 16) {
    const index_t columns = min((index_t)16, end - c);
    FN(panel)(b + (size_t)c * apart, apart, columns, depth, space);
    for (index_t first = row0; first < row1; first += TM) {
      const __global float *left[TM];
      float16 sum[TM];
#pragma unroll
      for (int r = 0; r < TM; r++) {
        left[r] = a + min(first + r, row1 - 1) * a_s.s6;
        sum[r] = 0;
      }
      for (index_t k = 0; k < depth; k++) {
        const float16 right = vload16(k, space);
#pragma unroll
        for (int r = 0; r < TM; r++) sum[r] = fma((float16)(left[r][k]), right, sum[r]);
      }
      float lane[TM * 16];
#pragma unroll
      for (int r = 0; r < TM; r++) vstore16(sum[r], r, lane);
      const index_t rows = min((index_t)TM, row1 - first);
      for (index_t r0 = 0; r0 < rows; r0++)
        for (index_t l = 0; l < columns; l++) FINISH(lane[r0 * 16 + l], first + r0, c + l)
    }
  }
}

GROUP(1, 1, 1) KERNEL(gemm_forward_blocks_panels)(GEMM_ARGS, ARG(float, space), const index8_t plan EPILOGUE_ARGS) {
  FN(gemm_forward_blocks_panels_item)((long)get_global_id(0), GEMM_PASS, PASS(space), plan EPILOGUE_PASS);
}
#endif
