/* One optimizer step on one tensor, with the rules of src/op/update/update.h: 0 SGD, 1 with momentum, 2 Adam, 3 RMSProp, 4
 * with momentum, 5 moving average, 6 sum. */
KERNEL(update)
(TENSOR(const float, lr), TENSOR(const long, number), TENSOR(const float, before), TENSOR(const float, after),
 TENSOR(const float, g), TENSOR(const float, a), TENSOR(float, new_a), TENSOR(const float, b), TENSOR(float, new_b),
 TENSOR(const float, c), TENSOR(float, new_c), const int n, const int rule, const float8 numbers) {
  if (n < 1) return;
  const bool has_b = rule >= 1 && rule <= 4, has_c = rule == 2 || rule == 4, first = number[number_at] == 1;
  const float rate = lr[lr_at], scale = before[before_at], rescale = after[after_at], t = (float)number[number_at];
  const float clip = numbers.s0, l2 = numbers.s1, decay = rate * numbers.s2;
  const float p = numbers.s3, q = numbers.s4, r = numbers.s5;
  const float bias1 = -1.0f / expm1(t * numbers.s6), bias2 = -1.0f / expm1(t * numbers.s7);
  PIPELINE
  for (int i = 0; i < n; i++) {
    const float old = a[a_at + i];
    float d = g[g_at + i] * scale, x = old, y = has_b ? b[b_at + i] : 0.0f, z = has_c ? c[c_at + i] : 0.0f;
    d = (d < -clip ? -clip : d > clip ? clip : d) * rescale; /* NaN is preserved */
    if (rule <= 4) {
      d += l2 * old;
      x -= decay * old;
    }
    switch (rule) {
    case 0: x -= rate * d; break;
    case 1:
      y = p * y + d;
      x -= rate * (r != 0.0f ? d + p * y : y);
      break;
    case 2:
      y += (d - y) * p;
      z += (d * d - z) * q;
      x -= rate * bias1 * y / (sqrt(z * bias2) + r);
      break;
    case 3:
    case 4:
      y += (d * d - y) * q;
      d /= sqrt(y) + r;
      z = p * z + d;
      x -= rate * (rule == 3 ? d : z);
      break;
    case 5: x = first ? d : old + (d - old) * p; break;
    default: x = first ? d : old + d;
    }
    new_a[new_a_at + i] = x;
    if (has_b) new_b[new_b_at + i] = y;
    if (has_c) new_c[new_c_at + i] = z;
  }
}
