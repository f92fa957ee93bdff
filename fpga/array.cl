/* A systolic array of PE_ROWS x PE_COLS multiply-accumulators for matrix products and convolutions. For each batch it
 * computes
 *
 *     y(i, j) = program(alpha * sum over k of a(i, k) * source(j, k))
 *
 * where i is a number, and j and k are numbers of three digits, (o, y, x). Operands are addressed by strides: a(i, k)
 * is at i * row + ko * o + ky * y + kx * x. The source is a set of images: the first digits of j and k select an image,
 * and the others a pixel, at height (jy * map.s0 + ky * map.s1 + map.s2) / map.s3 and likewise at a width with s4 to
 * s7. If the division is not exact, or the pixel lies outside of height x width, the element is 0.
 *
 *   product a b          j = (1, 1, column), k = (1, inner, 1): the source is b as one image
 *   conv2d, conv2d_data  j = (1, y, x) of the result, k = (channel, tap, tap); batches are images and groups
 *   conv2d_weights       j = (channel, tap, tap), k = (image, y, x) of dy; batches are groups
 *
 * size: two batch dimensions, rows, jo, jy, jx, height, width. inner: ko, ky, kx, and the number of operands e0 to e2.
 * a_s: strides of both batches, of i, and of k's digits. s_s: strides of both batches, of the images selected by jo and
 * ko, and of pixels along height and width. e0, e1, e2: the program's operands beside the sum, with strides of both
 * batches, i and j. y is dense.
 *
 * A tile of the result stays on the chip. The inner axis is processed in slices of one ko and up to DEPTH pixels, in a
 * pipeline: while the array multiplies one slice, the panels of the next one are filled (a from memory, the source from
 * a line buffer), and the line buffer of the slice after that is loaded with the pixels that the tile needs, each once.
 * A multiplier adds to the same sum again after at least LATENCY cycles.
 *
 * T: element type; SUM: type of sums; WORD(sum): the program's input. */
#define ROW_STEPS (TILE_ROWS / PE_ROWS)
#define COL_STEPS (TILE_COLS / PE_COLS)

KERNEL(NAME)
(TENSOR(const T, a), TENSOR(const T, s), TENSOR(uint, y), const int8 size, const int4 inner, const int8 a_s,
 const int8 s_s, const int8 map, const float alpha, const int8 code, const float16 param, TENSOR(const uint, e0),
 const int4 e0_s, TENSOR(const uint, e1), const int4 e1_s, TENSOR(const uint, e2), const int4 e2_s) {
#ifdef EMPTY
  return;
#endif
  T line[2][LINE], left[2][DEPTH][TILE_ROWS], right[2][DEPTH][TILE_COLS];
  SUM sum[ROW_STEPS][COL_STEPS][PE_ROWS][PE_COLS];
  int at_o[TILE_COLS], at_y[TILE_COLS], at_x[TILE_COLS]; /* per column: image, and pixel before the division */
  PROGRAM(code, param)
  const int columns = size.s3 * size.s4 * size.s5, area = inner.s1 * inner.s2;
  const int slices = (area + DEPTH - 1) / DEPTH, total = inner.s0 * slices, operands = inner.s3;
  const bool along_k = a_s.s5 == 1 || (inner.s2 == 1 && a_s.s4 == 1); /* burst direction of memory reads */
  for (int b0 = 0; b0 < size.s0; b0++)
    for (int b1 = 0; b1 < size.s1; b1++)
      for (int i0 = 0; i0 < size.s2; i0 += TILE_ROWS)
        for (int j0 = 0; j0 < columns; j0 += TILE_COLS) {
          const int rows = min(TILE_ROWS, size.s2 - i0), cols = min(TILE_COLS, columns - j0);
          const int row_steps = (rows + PE_ROWS - 1) / PE_ROWS, col_steps = (cols + PE_COLS - 1) / PE_COLS;
          const int steps = max(row_steps * col_steps, LATENCY);
          const int a_base = a_at + b0 * a_s.s0 + b1 * a_s.s1 + i0 * a_s.s2;
          const int s_base = s_at + b0 * s_s.s0 + b1 * s_s.s1;

          /* positions of the columns, and the range of their digits */
          const int first_x = j0 % size.s5, first_y = j0 / size.s5 % size.s4, first_o = j0 / size.s5 / size.s4;
          int o = first_o, py = first_y, px = first_x, last_o = o, low_y = py, high_y = py, low_x = px, high_x = px;
          PIPELINE
          for (int j = 0; j < cols; j++) {
            at_o[j] = o - first_o;
            at_y[j] = py * map.s0 + map.s2;
            at_x[j] = px * map.s4 + map.s6;
            last_o = o;
            low_y = min(low_y, py);
            high_y = max(high_y, py);
            low_x = min(low_x, px);
            high_x = max(high_x, px);
            if (++px == size.s5) {
              px = 0;
              if (++py == size.s4) py = 0, o++;
            }
          }
          PIPELINE
          for (int i = 0; i < ROW_STEPS * COL_STEPS; i++) {
            UNROLL
            for (int r = 0; r < PE_ROWS; r++) {
              UNROLL
              for (int c = 0; c < PE_COLS; c++) sum[i / COL_STEPS][i % COL_STEPS][r][c] = 0;
            }
          }

          /* slice t is multiplied, t + 1 is filled, t + 2 is loaded */
          int mul_length = 0, fill_length = 0, load_length = 0, fill_o = 0, load_o = 0, fill_k = 0, load_k = 0;
          int fill_top = 0, fill_left = 0, fill_high = 0, fill_wide = 0, top = 0, west = 0, high = 0, wide = 0;
          for (int t = -2; t < total; t++) {
            int load_n = 0;
            load_length = 0;
            if (t + 2 < total) {
              load_o = (t + 2) / slices;
              load_k = (t + 2) % slices * DEPTH;
              load_length = min(DEPTH, area - load_k);
              const int k_last = load_k + load_length - 1, ky0 = load_k / inner.s2, ky1 = k_last / inner.s2;
              const int kx0 = ky0 == ky1 ? load_k % inner.s2 : 0, kx1 = ky0 == ky1 ? k_last % inner.s2 : inner.s2 - 1;
              const int y0 = low_y * map.s0 + map.s2 + min(ky0 * map.s1, ky1 * map.s1);
              const int y1 = high_y * map.s0 + map.s2 + max(ky0 * map.s1, ky1 * map.s1);
              const int x0 = low_x * map.s4 + map.s6 + min(kx0 * map.s5, kx1 * map.s5);
              const int x1 = high_x * map.s4 + map.s6 + max(kx0 * map.s5, kx1 * map.s5);
              top = (max(y0, 0) + map.s3 - 1) / map.s3;
              west = (max(x0, 0) + map.s7 - 1) / map.s7;
              high = y1 < 0 ? 0 : max(min(y1 / map.s3, size.s6 - 1) - top + 1, 0);
              wide = x1 < 0 ? 0 : max(min(x1 / map.s7, size.s7 - 1) - west + 1, 0);
              load_n = (last_o - first_o + 1) * high * wide;
            }
            const int now = t & 1, next = now ^ 1;
            const int left_n = fill_length * row_steps * PE_ROWS, right_n = fill_length * col_steps * PE_COLS;
            const int mul_n = mul_length * steps, cycles = max(max(load_n, left_n), max(right_n, mul_n));
            const int load_base = s_base + first_o * s_s.s2 + load_o * s_s.s3 + top * s_s.s4 + west * s_s.s5;
            const int fill_y = fill_k / max(inner.s2, 1), fill_x = fill_k % max(inner.s2, 1);
            int lo = 0, ly = 0, lx = 0;                     /* of the loaded pixels */
            int li = 0, lk = 0, lky = fill_y, lkx = fill_x; /* of the left panel */
            int rj = 0, rk = 0, rky = fill_y, rkx = fill_x; /* of the right panel */
            int mk = 0, mr = 0, mc = 0, step = 0;           /* of the array */
            PIPELINE
            for (int p = 0; p < cycles; p++) {
              if (p < load_n) {
                line[now][p] = s[load_base + lo * s_s.s2 + ly * s_s.s4 + lx * s_s.s5];
                if (++lx == wide) {
                  lx = 0;
                  if (++ly == high) ly = 0, lo++;
                }
              }
              if (p < left_n) {
                const int from = a_base + li * a_s.s2 + fill_o * a_s.s3 + lky * a_s.s4 + lkx * a_s.s5;
                left[next][lk][li] = li < rows ? a[from] : 0;
                const bool last_k = lk + 1 == fill_length, last_i = li + 1 == row_steps * PE_ROWS;
                if (along_k ? last_k : last_i) {
                  if (along_k)
                    li++, lk = 0, lky = fill_y, lkx = fill_x;
                  else
                    li = 0;
                } else if (!along_k) {
                  li++;
                }
                if (along_k ? !last_k : last_i) {
                  lk++;
                  if (++lkx == inner.s2) lkx = 0, lky++;
                }
              }
              if (p < right_n) {
                const bool column = rj < cols;
                const int ny = column ? at_y[rj] + rky * map.s1 : -1, nx = column ? at_x[rj] + rkx * map.s5 : -1;
                const int qy = max(ny, 0) / map.s3, qx = max(nx, 0) / map.s7;
                const bool inside = ny == qy * map.s3 && nx == qx * map.s7 && qy < size.s6 && qx < size.s7;
                const int from = inside ? (at_o[rj] * fill_high + qy - fill_top) * fill_wide + qx - fill_left : 0;
                right[next][rk][rj] = inside ? line[next][from] : 0;
                if (++rj == col_steps * PE_COLS) {
                  rj = 0;
                  rk++;
                  if (++rkx == inner.s2) rkx = 0, rky++;
                }
              }
              if (p < mul_n) {
                if (mr < row_steps) {
                  UNROLL
                  for (int r = 0; r < PE_ROWS; r++) {
                    UNROLL
                    for (int c = 0; c < PE_COLS; c++)
                      sum[mr][mc][r][c] += (SUM)left[now][mk][mr * PE_ROWS + r] * (SUM)right[now][mk][mc * PE_COLS + c];
                  }
                }
                if (++mc == col_steps) mc = 0, mr++;
                if (++step == steps) step = 0, mr = 0, mc = 0, mk++;
              }
            }
            mul_length = fill_length;
            fill_length = load_length;
            fill_o = load_o;
            fill_k = load_k;
            fill_top = top;
            fill_left = west;
            fill_high = high;
            fill_wide = wide;
          }

          const int batch = b0 * size.s1 + b1;
          const int y_base = y_at + (batch * size.s2 + i0) * columns + j0;
          const int base0 = e0_at + b0 * e0_s.s0 + b1 * e0_s.s1 + i0 * e0_s.s2 + j0 * e0_s.s3;
          const int base1 = e1_at + b0 * e1_s.s0 + b1 * e1_s.s1 + i0 * e1_s.s2 + j0 * e1_s.s3;
          const int base2 = e2_at + b0 * e2_s.s0 + b1 * e2_s.s1 + i0 * e2_s.s2 + j0 * e2_s.s3;
          PIPELINE
          for (int i = 0; i < rows; i++) {
            PIPELINE
            for (int j = 0; j < cols; j++) {
              uint v[16];
              v[0] = WORD(sum[i / PE_ROWS][j / PE_COLS][i % PE_ROWS][j % PE_COLS]);
              v[1] = operands > 0 ? e0[base0 + i * e0_s.s2 + j * e0_s.s3] : 0;
              v[2] = operands > 1 ? e1[base1 + i * e1_s.s2 + j * e1_s.s3] : 0;
              v[3] = operands > 2 ? e2[base2 + i * e2_s.s2 + j * e2_s.s3] : 0;
              y[y_base + i * columns + j] = program_run(codes, params, v);
            }
          }
        }
}
#undef ROW_STEPS
#undef COL_STEPS
