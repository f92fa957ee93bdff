/* Batch normalization in training mode, and its gradients. x is (samples, channels, inner); the other operands have one
 * number per channel. */
KERNEL(batch_norm)
(TENSOR(const float, x), TENSOR(const float, weight), TENSOR(const float, bias), TENSOR(const float, old_mean),
 TENSOR(const float, old_var), TENSOR(float, y), TENSOR(float, mean), TENSOR(float, rstd), TENSOR(float, new_mean),
 TENSOR(float, new_var), const int samples, const int channels, const int inner, const float eps,
 const float momentum) {
  const int count = samples * inner, skip = (channels - 1) * inner;
  const float n = (float)max(count, 1), move = count ? momentum : 0.0f;
  for (int c = 0; c < channels; c++) {
    float s[LATENCY], s_lost[LATENCY], q[LATENCY], q_lost[LATENCY];
    int at = c * inner, k = 0;
    sum_clear(s, s_lost);
    PIPELINE
    for (int i = 0; i < count; i++) {
      sum_add(&s[i % LATENCY], &s_lost[i % LATENCY], x[x_at + at++]);
      if (++k == inner) k = 0, at += skip;
    }
    sum_join(s, s_lost);
    const float about = (s[0] + s_lost[0]) / n; /* the mean, except for its last bits */
    sum_clear(s, s_lost);
    sum_clear(q, q_lost);
    at = c * inner;
    PIPELINE
    for (int i = 0; i < count; i++) {
      const float d = x[x_at + at++] - about;
      sum_add(&s[i % LATENCY], &s_lost[i % LATENCY], d);
      sum_add(&q[i % LATENCY], &q_lost[i % LATENCY], d * d);
      if (++k == inner) k = 0, at += skip;
    }
    sum_join(s, s_lost);
    sum_join(q, q_lost);
    const float off = (s[0] + s_lost[0]) / n, m = about + off, all = q[0] + q_lost[0] - off * off * n;
    const float square = all < 0.0f ? 0.0f : all, r = 1.0f / sqrt(square / n + eps);
    const float scale = r * weight[weight_at + c], shift = bias[bias_at + c];
    mean[mean_at + c] = m;
    rstd[rstd_at + c] = r;
    new_mean[new_mean_at + c] = (1.0f - move) * old_mean[old_mean_at + c] + move * m;
    new_var[new_var_at + c] =
        (1.0f - move) * old_var[old_var_at + c] + move * (square / (float)max(count - 1, 1));
    at = c * inner;
    PIPELINE
    for (int i = 0; i < count; i++) {
      y[y_at + at] = (x[x_at + at] - m) * scale + shift;
      at++;
      if (++k == inner) k = 0, at += skip;
    }
  }
}

KERNEL(batch_norm_grad)
(TENSOR(const float, x), TENSOR(const float, dy), TENSOR(const float, weight), TENSOR(const float, mean),
 TENSOR(const float, rstd), TENSOR(float, dx), TENSOR(float, dweight), TENSOR(float, dbias), const int samples,
 const int channels, const int inner) {
  const int count = samples * inner, skip = (channels - 1) * inner;
  const float n = (float)max(count, 1);
  for (int c = 0; c < channels; c++) {
    const float m = mean[mean_at + c], r = rstd[rstd_at + c], scale = r * weight[weight_at + c];
    float s[LATENCY], s_lost[LATENCY], q[LATENCY], q_lost[LATENCY];
    int at = c * inner, k = 0;
    sum_clear(s, s_lost);
    sum_clear(q, q_lost);
    PIPELINE
    for (int i = 0; i < count; i++) {
      const float d = dy[dy_at + at];
      sum_add(&s[i % LATENCY], &s_lost[i % LATENCY], d);
      sum_add(&q[i % LATENCY], &q_lost[i % LATENCY], d * (x[x_at + at++] - m));
      if (++k == inner) k = 0, at += skip;
    }
    sum_join(s, s_lost);
    sum_join(q, q_lost);
    const float by_bias = s[0] + s_lost[0], by_weight = (q[0] + q_lost[0]) * r;
    const float even = by_bias / n, slope = r * by_weight / n;
    dbias[dbias_at + c] = by_bias;
    dweight[dweight_at + c] = by_weight;
    at = c * inner;
    PIPELINE
    for (int i = 0; i < count; i++) {
      dx[dx_at + at] = (dy[dy_at + at] - even - (x[x_at + at] - m) * slope) * scale;
      at++;
      if (++k == inner) k = 0, at += skip;
    }
  }
}
