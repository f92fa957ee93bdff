/* Transposes the operand's last axis (`wide` elements, `to` apart in the result) and the result's last axis (`high`
 * elements, `from` apart in the operand), over up to six more axes. A group of 256 items transposes a tile in local
 * memory, so that both accesses are coalesced. */
#define TILE  32
#define LINES 8 /* lines of a tile that a group moves at once */
KERNEL(transpose_forward_group)
(ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index_t tiles, const index_t wide, const index_t high,
 const index_t from, const index_t to, const index8_t dims, const index8_t x_strides, const index8_t y_strides) {
  __local STORAGE(T) tile[TILE * (TILE + 1)]; /* padded, so that columns begin in different banks */
  const index_t number = (index_t)get_group_id(0);
  if (number >= tiles) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  const int column = (int)get_local_id(0) % TILE, line = (int)get_local_id(0) / TILE;
  const index_t down = (high + TILE - 1) / TILE, across = (wide + TILE - 1) / TILE;
  index_t rest = number / (down * across), i = 0, j = 0;
  const index_t block = number - rest * down * across, h0 = block / across * TILE, w0 = block % across * TILE;
  STEP_BOTH(s5) STEP_BOTH(s4) STEP_BOTH(s3) STEP_BOTH(s2) STEP_BOTH(s1) STEP_BOTH(s0)
  const int rows = (int)min(high - h0, (index_t)TILE), columns = (int)min(wide - w0, (index_t)TILE);
  i += h0 * from + w0;
  j += w0 * to + h0;
  /* counted from 0: LLVM 15 stores past the last row where loops begin at `line` and vectors are of 512 bits */
#pragma unroll
  for (int k = 0; k < TILE / LINES; k++) {
    const int h = line + k * LINES;
    if (h < rows && column < columns) tile[h * (TILE + 1) + column] = x[i + h * from + column];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
  for (int k = 0; k < TILE / LINES; k++) {
    const int w = line + k * LINES;
    if (w < columns && column < rows) y[j + w * to + column] = tile[column * (TILE + 1) + w];
  }
}
