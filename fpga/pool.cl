/* Pooling: the maximum or mean of each window, and the gradients. */
KERNEL(pool2d)
(TENSOR(const float, x), TENSOR(float, y), const int8 size, const int8 map, const int largest) {
  const int windows = size.s3 * size.s4, taps = size.s5 * size.s6;
  int wy = 0, wx = 0, plane = 0;
  for (int w = 0; w < size.s0 * windows; w++) {
    float top = -INFINITY, sum = 0.0f;
    int count = 0, ky = 0, kx = 0;
    PIPELINE
    for (int k = 0; k < taps; k++) {
      const int py = wy * map.s0 + ky * map.s1 + map.s2, px = wx * map.s4 + kx * map.s5 + map.s6;
      const bool inside = py >= 0 && py < size.s1 && px >= 0 && px < size.s2;
      const float v = inside ? x[x_at + (plane * size.s1 + py) * size.s2 + px] : 0.0f;
      top = inside && (v > top || v != v) ? v : top;
      sum += v;
      count += inside;
      if (++kx == size.s6) kx = 0, ky++;
    }
    if (size.s7) count = size.s7;
    const float mean = sum / (float)max(count, 1); /* before the choice, as in cl_kernels/layer_norm_grad.cl */
    y[y_at + w] = largest ? top : mean;
    if (++wx == size.s4) {
      wx = 0;
      if (++wy == size.s3) wy = 0, plane++;
    }
  }
}

/* The gradients of a plane are accumulated on the chip. A maximum's gradient goes to the first pixel that attains it;
 * NaN comes first. */
KERNEL(pool2d_grad)
(TENSOR(const float, x), TENSOR(const float, dy), TENSOR(float, dx), const int8 size, const int8 map,
 const int largest) {
  float grad[PLANE];
  const int pixels = size.s1 * size.s2, windows = size.s3 * size.s4, taps = size.s5 * size.s6;
  for (int plane = 0; plane < size.s0; plane++) {
    int wy = 0, wx = 0;
    PIPELINE
    for (int i = 0; i < pixels; i++) grad[i] = 0.0f;
    for (int w = 0; w < windows; w++) {
      const float d = dy[dy_at + plane * windows + w];
      float top = 0.0f;
      int count = 0, ky = 0, kx = 0, at = 0;
      for (int k = 0; k < taps; k++) {
        const int py = wy * map.s0 + ky * map.s1 + map.s2, px = wx * map.s4 + kx * map.s5 + map.s6;
        if (py >= 0 && py < size.s1 && px >= 0 && px < size.s2) {
          const int here = py * size.s2 + px;
          const float v = largest ? x[x_at + plane * pixels + here] : 0.0f;
          if (count == 0 || v > top || (v != v && top == top)) top = v, at = here;
          count++;
        }
        if (++kx == size.s6) kx = 0, ky++;
      }
      if (largest && count) grad[at] += d;
      ky = kx = 0;
      for (int k = 0; k < taps && !largest; k++) {
        const int py = wy * map.s0 + ky * map.s1 + map.s2, px = wx * map.s4 + kx * map.s5 + map.s6;
        if (py >= 0 && py < size.s1 && px >= 0 && px < size.s2)
          grad[py * size.s2 + px] += d / (float)(size.s7 ? size.s7 : count);
        if (++kx == size.s6) kx = 0, ky++;
      }
      if (++wx == size.s4) wx = 0, wy++;
    }
    PIPELINE
    for (int i = 0; i < pixels; i++) dx[dx_at + plane * pixels + i] = grad[i];
  }
}
