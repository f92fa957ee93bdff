/* Softmax and its gradient, arg-max, and softmax cross-entropy and its gradient. */
KERNEL(softmax)
(TENSOR(const float, x), TENSOR(float, y), const int outer, const int n, const int inner, const int logarithm) {
  for (int o = 0; o < outer; o++)
    for (int k = 0; k < inner; k++) {
      const int base = o * n * inner + k;
      float top = -INFINITY, s[LATENCY], c[LATENCY];
      sum_clear(s, c);
      PIPELINE
      for (int i = 0; i < n; i++) {
        const float v = x[x_at + base + i * inner];
        top = v > top || v != v ? v : top;
      }
      PIPELINE
      for (int i = 0; i < n; i++) sum_add(&s[i % LATENCY], &c[i % LATENCY], exp(x[x_at + base + i * inner] - top));
      sum_join(s, c);
      const float sum = s[0] + c[0], by = logarithm ? log(sum) : sum;
      PIPELINE
      for (int i = 0; i < n; i++) {
        const float v = x[x_at + base + i * inner] - top;
        y[y_at + base + i * inner] = logarithm ? v - by : exp(v) / by;
      }
    }
}

KERNEL(softmax_grad)
(TENSOR(const float, y), TENSOR(const float, dy), TENSOR(float, dx), const int outer, const int n, const int inner,
 const int logarithm) {
  for (int o = 0; o < outer; o++)
    for (int k = 0; k < inner; k++) {
      const int base = o * n * inner + k;
      float s[LATENCY], c[LATENCY];
      sum_clear(s, c);
      PIPELINE
      for (int i = 0; i < n; i++) {
        const float d = dy[dy_at + base + i * inner];
        sum_add(&s[i % LATENCY], &c[i % LATENCY], logarithm ? d : d * y[y_at + base + i * inner]);
      }
      sum_join(s, c);
      const float sum = isnan(c[0]) ? s[0] : s[0] + c[0];
      PIPELINE
      for (int i = 0; i < n; i++) {
        const float v = y[y_at + base + i * inner], d = dy[dy_at + base + i * inner];
        dx[dx_at + base + i * inner] = logarithm ? d - sum * exp(v) : (d - sum) * v;
      }
    }
}

KERNEL(arg_max)
(TENSOR(const float, x), TENSOR(int, y), const int outer, const int n, const int inner) {
  for (int o = 0; o < outer; o++)
    for (int k = 0; k < inner; k++) {
      float best = 0.0f;
      int at = 0;
      PIPELINE
      for (int i = 0; i < n; i++) {
        const float v = x[x_at + (o * n + i) * inner + k];
        if (i == 0 || v > best || (v != v && best == best)) best = v, at = i;
      }
      y[y_at + o * inner + k] = at;
    }
}

/* stats: per row, the largest logit and the sum of exp(x - largest) over the others. This sum is compensated, so that
 * the 1 of the largest logit can be subtracted without cancellation. Writes the first `results` elements of y and
 * count: the losses of the rows or, if `mean`, their mean over the labels that are not ignored. */
KERNEL(cross_entropy)
(TENSOR(const float, x), TENSOR(const int, labels), TENSOR(float, y), TENSOR(float, stats), TENSOR(float, count),
 const int results, const int rows, const int classes, const float smoothing, const int ignore, const int ignored,
 const int mean) {
  float all[LATENCY], lost[LATENCY];
  int n = 0;
  sum_clear(all, lost);
  for (int row = 0; row < rows; row++) {
    const int base = x_at + row * classes, label = labels[labels_at + row];
    float top = -INFINITY, distance = 0.0f, s[LATENCY], c[LATENCY];
    sum_clear(s, c);
    PIPELINE
    for (int i = 0; i < classes; i++) {
      const float v = x[base + i];
      top = v > top || v != v ? v : top;
    }
    PIPELINE
    for (int i = 0; i < classes; i++) {
      const float d = top - x[base + i];
      sum_add(&s[i % LATENCY], &c[i % LATENCY], exp(-d));
      distance += d;
    }
    sum_join(s, c);
    const float rest = s[0] - 1.0f + c[0], others = rest < 0.0f ? 0.0f : rest, norm = log1p(others);
    const bool skip = ignore && label == ignored;
    float loss = skip ? 0.0f : NAN;
    if (!skip && label >= 0 && label < classes) loss = (1.0f - smoothing) * (top - x[base + label]) + norm;
    if (!skip && smoothing > 0.0f) loss += smoothing * (distance / (float)classes);
    stats[stats_at + 2 * row] = top;
    stats[stats_at + 2 * row + 1] = others;
    n += !skip;
    if (mean)
      sum_add(&all[row % LATENCY], &lost[row % LATENCY], loss);
    else
      y[y_at + row] = loss;
  }
  sum_join(all, lost);
  if (results && mean) y[y_at] = (isnan(lost[0]) ? all[0] : all[0] + lost[0]) / (float)max(n, 1);
  if (results) count[count_at] = (float)n;
}

KERNEL(cross_entropy_grad)
(TENSOR(const float, x), TENSOR(const int, labels), TENSOR(const float, stats), TENSOR(const float, count),
 TENSOR(const float, dy), TENSOR(float, dx), const int rows, const int classes, const int per_sample,
 const float smoothing, const int ignore, const int ignored) {
  const float even = smoothing / (float)max(classes, 1);
  for (int row = 0; row < rows; row++) {
    const int base = row * classes, label = labels[labels_at + row];
    const float top = stats[stats_at + 2 * row], others = stats[stats_at + 2 * row + 1], scale = 1.0f / (1.0f + others);
    const bool skip = ignore && label == ignored, known = label >= 0 && label < classes;
    float d = per_sample ? dy[dy_at + row] : dy[dy_at] / fmax(count[count_at], 1.0f);
    if (!known) d = NAN;
    PIPELINE
    for (int i = 0; i < classes; i++) {
      const float v = x[x_at + base + i], p = exp(v - top) * scale;
      /* for the largest logit, 1 - softmax is known more accurately than by subtraction */
      const float own = (v == top ? -others * scale : p - 1.0f) + (smoothing - even);
      dx[dx_at + base + i] = skip ? 0.0f : (i == label ? own : p - even) * d;
    }
  }
}
