/* A tile of sums by the units of dot_units.cl, included after it by gemm_mma.cl, conv2d_mma.cl and conv2d_weights_mma.cl:
 * PIECES pieces of PIECE places each, by a panel of PANEL columns.
 *
 * For each of `taps`, a place's sums add the products of `inner` words by as many lines of `w`, from tap[t] * w_tap on.
 * Piece i begins at x[at[i] + skip[t]]. Its places are BY_PLACE words apart, and the words of a place BY_WORD, in blocks
 * of WORDS that are `apart` words from each other. Sums begin with `start`; of TILES with zero.
 *
 * TILES: there are two pieces, of which the second may repeat the first; places are `line` words apart; all words of a
 * place are contiguous, and an instruction takes `step` of them. */
#define PANEL   32
#define VECTORS 2
#define PLACES  (PIECE * PIECES)

APART static void FN(sum_tile)(const __global uint *w, const int w_tap, const __global uint *x, const int *at, const long apart,
                           const int taps, const int *tap, const int *skip, const int inner, const SUM *start,
                           const int line, const int step, SUM *tile) {
#if TILES && !IMITATE
  ZERO_SUMS
  for (int t = 0; t < taps; t++) {
    const __global uint *first = x + at[0] + skip[t], *second = x + at[1] + skip[t], *weights = w + (long)tap[t] * w_tap;
    for (int k = 0; k < inner; k += step, weights += step * PANEL)
      ADD_PRODUCTS(first + k, second + k, at[0] != at[1], line, weights)
  }
  TILE_STORE(0, tile, PANEL);
  TILE_STORE(1, tile + 16, PANEL);
  TILE_STORE(2, tile + PIECE * PANEL, PANEL);
  TILE_STORE(3, tile + PIECE * PANEL + 16, PANEL);
#else
  SUMS sum[PLACES][VECTORS];
  EACH_SUM(PLACES) sum[r][v] = vload16(v, start);
  for (int t = 0; t < taps; t++) {
    const __global uint *from[PIECES], *weights = w + (long)tap[t] * w_tap;
    UNROLLED(i, PIECES) from[i] = x + at[i] + skip[t];
    for (int left = inner; left > 0; left -= WORDS) {
      const long words = min(left, WORDS);
#pragma clang loop unroll(disable)
      for (long k = 0; k < words; k++, weights += PANEL) {
        const uint16 one[VECTORS] = {vload16(0, weights) ^ FLIP, vload16(1, weights) ^ FLIP};
        EACH_SUM(PLACES) DOT(sum[r][v], from[r / PIECE][r % PIECE * BY_PLACE + k * BY_WORD], one[v]);
      }
      UNROLLED(i, PIECES) from[i] += apart;
    }
  }
  EACH_SUM(PLACES) vstore16(sum[r][v], r * VECTORS + v, tile);
#endif
}
