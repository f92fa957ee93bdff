/* Convolution and its derivatives. Each kernel gathers; nothing is scattered.
 *
 * map: (mul, add, delta, div) of height, then of width: to a place p and a tap k belongs the place
 * (p * mul + add + k * delta) / div of the source, where that is a whole number inside of it.
 *
 * In the kernels gather_…, dims: images, groups, rows (channels of the result per group), inner (of the source), height
 * and width of the source and of the result. taps: height and width of the kernel; the weights' strides of group, row and
 * inner channel. EPILOGUE computes r from i0 at (row, column): a channel and a pixel of the image `batch`. */
#define EPILOGUE_AT(strides) (batch * (strides).s5)

#ifdef WANT_conv2d_gather_ref
KERNEL(conv2d_gather_ref)
(ARG(const STORAGE(T), x), ARG(const STORAGE(T), w), ARG(STORAGE(OUT), y), const index8_t dims, const index8_t taps,
 const index8_t map EPILOGUE_ARGS) {
  const index_t column = get_global_id(0), row = get_global_id(1), batch = get_global_id(2);
  const index_t pixels = dims.s6 * dims.s7, plane = dims.s4 * dims.s5;
  if (column >= pixels || row >= dims.s1 * dims.s2 || batch >= dims.s0) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), w);
  USE(STORAGE(OUT), y);
  EPILOGUE_USE
  const index_t group = row / dims.s2, y0 = column / dims.s7 * map.s0 + map.s1, x0 = column % dims.s7 * map.s4 + map.s5;
  x += (batch * dims.s1 + group) * dims.s3 * plane;
  w += group * taps.s2 + row % dims.s2 * taps.s3;
  float sum = 0;
  for (index_t ky = 0; ky < taps.s0; ky++) {
    const index_t py = y0 + ky * map.s2, sy = py / map.s3;
    const bool in_y = py >= 0 && sy < dims.s4 && sy * map.s3 == py;
    for (index_t kx = 0; kx < taps.s1; kx++) {
      const index_t px = x0 + kx * map.s6, sx = px / map.s7;
      const bool in = in_y && px >= 0 && sx < dims.s5 && sx * map.s7 == px;
      const index_t from = in ? sy * dims.s5 + sx : 0, by = ky * taps.s1 + kx;
      for (index_t c = 0; c < dims.s3; c++) {
        const float product = LOAD(T, x, from + c * plane) * LOAD(T, w, by + c * taps.s4);
        sum += in ? product : 0.0f;
      }
    }
  }
  const COMPUTE(T) i0 = sum;
  EPILOGUE
  STORE(OUT, y, (batch * dims.s1 * dims.s2 + row) * pixels + column, r);
}
#endif

/* In the kernels weights_…, x is the convolution's source and y its result; dims: images, groups, rows (channels of y per
 * group), inner (of x), height and width of x and of y. taps: height and width of the kernel, and how many parts the
 * sums are cut into; `out` holds them all, part by part. */
#ifdef WANT_conv2d_weights_ref
KERNEL(conv2d_weights_ref)
(ARG(const STORAGE(T), x), ARG(const STORAGE(T), y), ARG(float, out), const index8_t dims, const index8_t taps,
 const index8_t map, const index_t lines) {
  const index_t column = get_global_id(0), row = get_global_id(1), part = get_global_id(2);
  const index_t tap_count = taps.s0 * taps.s1, columns = dims.s3 * tap_count, rows = dims.s1 * dims.s2;
  if (column >= columns || row >= rows || part >= taps.s2) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), y);
  USE(float, out);
  const index_t tap = column % tap_count, channel = row / dims.s2 * dims.s3 + column / tap_count;
  const index_t y0 = tap / taps.s1 * map.s2 + map.s1, x0 = tap % taps.s1 * map.s6 + map.s5;
  const index_t end = min((part + 1) * lines, dims.s0 * dims.s6);
  float sum = 0;
  for (index_t line = part * lines; line < end; line++) {
    const index_t batch = line / dims.s6, oy = line % dims.s6, sy = oy * map.s0 + y0;
    const bool in_y = sy >= 0 && sy < dims.s4;
    const index_t from = in_y ? ((batch * dims.s1 * dims.s3 + channel) * dims.s4 + sy) * dims.s5 : 0;
    const index_t by = ((batch * rows + row) * dims.s6 + oy) * dims.s7;
    for (index_t ox = 0; ox < dims.s7; ox++) {
      const index_t sx = ox * map.s4 + x0;
      const bool in = in_y && sx >= 0 && sx < dims.s5;
      const float product = LOAD(T, x, in ? from + sx : 0) * LOAD(T, y, by + ox);
      sum += in ? product : 0.0f;
    }
  }
  out[(part * rows + row) * columns + column] = sum;
}
#endif

#ifdef WANT_conv2d_weights_join
KERNEL(conv2d_weights_join)
(ARG(const float, parts), ARG(STORAGE(T), w), const index_t outputs, const index_t count) {
  const index_t i = get_global_id(0);
  if (i >= outputs) return;
  USE(const float, parts);
  USE(STORAGE(T), w);
  float sum = 0;
  for (index_t part = 0; part < count; part++) sum += parts[part * outputs + i];
  STORE(T, w, i, sum);
}
#endif
#undef EPILOGUE_AT
