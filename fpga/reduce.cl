/* Sum, mean, maximum and minimum: four kept and four reduced axes, outermost first. NaN wins in maximum and minimum. */
KERNEL(reduce)
(TENSOR(const float, x), TENSOR(float, y), const int outputs, const int8 size, const int8 stride, const int kind,
 const float count) {
  const int n = size.s4 * size.s5 * size.s6 * size.s7;
  int k0 = 0, k1 = 0, k2 = 0, k3 = 0;
  for (int out = 0; out < outputs; out++) {
    float s[LATENCY], c[LATENCY], best = kind == 2 ? -INFINITY : INFINITY;
    const int from = x_at + k0 * stride.s0 + k1 * stride.s1 + k2 * stride.s2 + k3 * stride.s3;
    int r0 = 0, r1 = 0, r2 = 0, r3 = 0;
    sum_clear(s, c);
    PIPELINE
    for (int i = 0; i < n; i++) {
      const float v = x[from + r0 * stride.s4 + r1 * stride.s5 + r2 * stride.s6 + r3 * stride.s7];
      sum_add(&s[i % LATENCY], &c[i % LATENCY], v);
      best = (kind == 2 ? v > best : v < best) || v != v ? v : best;
      if (++r3 == size.s7) {
        r3 = 0;
        if (++r2 == size.s6) {
          r2 = 0;
          if (++r1 == size.s5) r1 = 0, r0++;
        }
      }
    }
    sum_join(s, c);
    y[y_at + out] = kind >= 2 ? best : (isnan(c[0]) ? s[0] : s[0] + c[0]) / count; /* an infinity makes c NaN */
    if (++k3 == size.s3) {
      k3 = 0;
      if (++k2 == size.s2) {
        k2 = 0;
        if (++k1 == size.s1) k1 = 0, k0++;
      }
    }
  }
}
