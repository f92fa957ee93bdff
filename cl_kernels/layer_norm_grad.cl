/* Gradients of the normalization of rows. For weight and bias: sums of dy xhat and of dy over chunks of rows, or over
 * chunks of a channel's samples, combined in order. For x: rstd (g - (sum g + xhat sum(g xhat)) / n) with g = dy
 * weight, row by row; for RMS normalization without sum g. `inner` and `period` as in layer_norm.cl. */

#ifdef WANT_layer_norm_grad_sums
/* A work-item does WIDE columns of a chunk of rows. */
#define ARGS                                                                                           \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), dy), ARG(const float, mean), ARG(const float, rstd), \
  ARG(float, sums), const index_t rows, const index_t n, const index_t chunk, const index_t chunks
BODY(layer_norm_grad_sums_item)(const long item, ARGS) {
  const index_t strips = (n + WIDE - 1) / WIDE;
  if (item >= (long)chunks * strips) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), dy);
  USE(const float, mean);
  USE(const float, rstd);
  USE(float, sums);
  const index_t part = (index_t)(item / strips), column = (index_t)(item - part * (long)strips) * WIDE;
  const index_t begin = part * chunk, end = min(begin + chunk, rows);
  const index_t width = min((index_t)WIDE, n - column), whole = width - width % 16;
  float s[WIDE], q[WIDE];
  for (index_t i = 0; i < width; i++) s[i] = q[i] = 0;
  for (index_t r = begin; r < end; r++) {
    const index_t at = r * n + column;
    const float m = mean[r], scale = rstd[r];
    for (index_t i = 0; i < whole; i += 16) {
      const float16 d = LOAD16(T, dy, at + i);
      vstore16(vload16(0, s + i) + d, 0, s + i);
      vstore16(fma(d, (LOAD16(T, x, at + i) - m) * scale, vload16(0, q + i)), 0, q + i);
    }
    for (index_t i = whole; i < width; i++) {
      const float d = LOAD(T, dy, at + i);
      s[i] += d;
      q[i] = fma(d, (LOAD(T, x, at + i) - m) * scale, q[i]);
    }
  }
  for (index_t i = 0; i < width; i++) {
    sums[part * n + column + i] = s[i];
    sums[(chunks + part) * n + column + i] = q[i];
  }
}

KERNEL(layer_norm_grad_sums)(ARGS) {
  FN(layer_norm_grad_sums_item)((long)get_global_id(0), PASS(x), PASS(dy), PASS(mean), PASS(rstd), PASS(sums), rows, n, chunk, chunks);
}
#undef ARGS
#endif

#ifdef WANT_layer_norm_grad_runs
#define ARGS                                                                                                  \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), dy), ARG(const float, mean), ARG(const float, rstd),        \
  ARG(float, sums), const index_t samples, const index_t channels, const index_t chunk, const index_t chunks, \
  const index_t inner, const index_t period
BODY(layer_norm_grad_runs_item)(const long item, ARGS) {
  if (item >= (long)channels * chunks) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), dy);
  USE(const float, mean);
  USE(const float, rstd);
  USE(float, sums);
  const index_t part = (index_t)(item / channels), channel = (index_t)(item - part * (long)channels);
  const index_t first = part * chunk, last = min(first + chunk, samples), group = channel / (channels / period);
  float s = 0, s_lost = 0, q = 0, q_lost = 0;
  for (index_t sample = first; sample < last; sample++) {
    const index_t base = (sample * channels + channel) * inner;
    const float m = mean[sample * period + group], r = rstd[sample * period + group];
    for (index_t begin = 0; begin < inner; begin += 1024) {
      const index_t end = min(begin + 1024, inner);
      float16 s16 = 0, q16 = 0;
      float s1 = 0, q1 = 0;
      index_t i = begin;
      for (; i + 16 <= end; i += 16) {
        const float16 d = LOAD16(T, dy, base + i);
        s16 += d;
        q16 += d * (LOAD16(T, x, base + i) - m);
      }
      for (; i < end; i++) {
        const float d = LOAD(T, dy, base + i);
        s1 += d;
        q1 += d * (LOAD(T, x, base + i) - m);
      }
      clade_take(&s, &s_lost, clade_lanes(s16, s1));
      clade_take(&q, &q_lost, clade_lanes(q16, q1) * r);
    }
  }
  sums[part * channels + channel] = CLADE_TOTAL(s, s_lost);
  sums[(chunks + part) * channels + channel] = CLADE_TOTAL(q, q_lost);
}

KERNEL(layer_norm_grad_runs)(ARGS) {
  FN(layer_norm_grad_runs_item)((long)get_global_id(0), PASS(x), PASS(dy), PASS(mean), PASS(rstd), PASS(sums), samples, channels, chunk,
          chunks, inner, period);
}
#undef ARGS
#endif

#ifdef WANT_layer_norm_grad_join
#define ARGS ARG(const float, sums), ARG(float, dweight), ARG(float, dbias), const index_t n, const index_t chunks
BODY(layer_norm_grad_join_item)(const long item, ARGS) {
  if (item * 16 >= n) return;
  USE(const float, sums);
  USE(float, dweight);
  USE(float, dbias);
  const index_t at = (index_t)item * 16, left = n - at;
  float16 s = 0, s_lost = 0, q = 0, q_lost = 0;
  for (index_t k = 0; k < chunks; k++) { /* Knuth's two-sum */
    const index_t from = k * n + at;
    const float16 a = left < 16 ? SOME16(f32, sums, from, left) : vload16(0, sums + from);
    const float16 b = left < 16 ? SOME16(f32, sums, chunks * n + from, left) : vload16(0, sums + chunks * n + from);
    const float16 s_sum = s + a, s_back = s_sum - s, q_sum = q + b, q_back = q_sum - q;
    s_lost += (s - (s_sum - s_back)) + (a - s_back);
    q_lost += (q - (q_sum - q_back)) + (b - q_back);
    s = s_sum;
    q = q_sum;
  }
  PUT16(f32, dbias, at, min(left, (index_t)16), CLADE_TOTAL(s, s_lost));
  PUT16(f32, dweight, at, min(left, (index_t)16), CLADE_TOTAL(q, q_lost));
}

KERNEL(layer_norm_grad_join)(ARGS) {
  FN(layer_norm_grad_join_item)((long)get_global_id(0), PASS(sums), PASS(dweight), PASS(dbias), n, chunks);
}
#undef ARGS
#endif

#ifdef WANT_layer_norm_grad_rows
/* A work-item does a chunk of rows. With `keep` it also computes the sums for weight and bias, so that x and dy are
 * read from memory once: by columns, or for each run of a row. */
#define ARGS                                                                                             \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), dy), ARG(const float, weight), ARG(const float, mean), \
  ARG(const float, rstd), ARG(STORAGE(T), dx), ARG(float, sums), const index_t rows, const index_t n,    \
  const index_t inner, const index_t period, const index_t chunk, const index_t chunks, const int rms,   \
  const int keep, const int stream
BODY(layer_norm_grad_rows_item)(const long item, ARGS) {
  if (item * chunk >= rows) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), dy);
  USE(const float, weight);
  USE(const float, mean);
  USE(const float, rstd);
  USE(STORAGE(T), dx);
  USE(float, sums);
  const index_t runs = n / inner, wide = runs * period, last = (index_t)min((item + 1) * chunk, (long)rows);
  /* short rows fit into L1: each pass prefetches half of a later row, of both operands */
  const index_t short_row = n <= 4096, far = short_row ? max(n, (index_t)AHEAD / 2) : AHEAD / 2;
  for (index_t row = (index_t)(item * chunk); row < last; row++) {
    const index_t base = row * n, first = row % period * runs, own = (index_t)(item / period) * wide + first;
    const index_t own_x = chunks * wide + own;
    const float m = mean[row], r = rstd[row];
    float s = 0, s_lost = 0, q = 0, q_lost = 0;
    if (keep && inner == 1 && row == item * chunk)
      for (index_t i = 0; i < n; i++) sums[own + i] = sums[own_x + i] = 0;
    for (index_t begin = 0; inner == 1 && begin < n; begin += 1024) {
      const index_t end = min(begin + 1024, n);
      float16 s16 = 0, q16 = 0;
      float s1 = 0, q1 = 0;
      index_t i = begin;
      for (; i + 16 <= end; i += 16) {
        const float16 d = LOAD16(T, dy, base + i), off = LOAD16(T, x, base + i) - m;
        const float16 g = d * vload16(0, weight + first + i);
        SOON(x + base + far + (i >> short_row));
        SOON(dy + base + far + (i >> short_row));
        s16 += g;
        q16 = fma(g, off, q16);
        if (keep) {
          STORE16(f32, sums, own + i, vload16(0, sums + own + i) + d);
          STORE16(f32, sums, own_x + i, fma(d, off * r, vload16(0, sums + own_x + i)));
        }
      }
      for (; i < end; i++) {
        const float d = LOAD(T, dy, base + i), off = LOAD(T, x, base + i) - m, g = d * weight[first + i];
        s1 += g;
        q1 = fma(g, off, q1);
        if (keep) {
          sums[own + i] += d;
          sums[own_x + i] = fma(d, off * r, sums[own_x + i]);
        }
      }
      clade_take(&s, &s_lost, clade_lanes(s16, s1));
      clade_take(&q, &q_lost, clade_lanes(q16, q1));
    }
    for (index_t w = 0; inner > 1 && w < runs; w++) {
      float a = 0, a_lost = 0, b = 0, b_lost = 0;
      for (index_t begin = w * inner; begin < (w + 1) * inner; begin += 1024) {
        const index_t end = min(begin + 1024, (w + 1) * inner);
        float16 s16 = 0, q16 = 0;
        float s1 = 0, q1 = 0;
        index_t i = begin;
        for (; i + 16 <= end; i += 16) {
          const float16 d = LOAD16(T, dy, base + i);
          SOON(x + base + far + (i >> short_row));
          SOON(dy + base + far + (i >> short_row));
          s16 += d;
          q16 = fma(d, LOAD16(T, x, base + i) - m, q16);
        }
        for (; i < end; i++) {
          const float d = LOAD(T, dy, base + i);
          s1 += d;
          q1 = fma(d, LOAD(T, x, base + i) - m, q1);
        }
        clade_take(&a, &a_lost, clade_lanes(s16, s1));
        clade_take(&b, &b_lost, clade_lanes(q16, q1));
      }
      if (keep) {
        sums[own + w] = CLADE_TOTAL(a, a_lost);
        sums[own_x + w] = CLADE_TOTAL(b, b_lost) * r;
      }
      clade_take(&s, &s_lost, CLADE_TOTAL(a, a_lost) * weight[first + w]);
      clade_take(&q, &q_lost, CLADE_TOTAL(b, b_lost) * weight[first + w]);
    }
    /* a select rather than a branch: for the branch LLVM 19 in PoCL 6.0 aborts ("did not reach a fixpoint") */
    const float g = CLADE_TOTAL(s, s_lost) / (float)n, even = rms ? 0.0f : g;
    const float slope = CLADE_TOTAL(q, q_lost) * r * r / (float)n;
    for (index_t begin = 0, w = first; begin < n; w++) {
      const index_t end = inner > 1 ? begin + inner : n;
      const float scale = weight[w];
      index_t i = begin;
      for (; i + 16 <= end; i += 16) {
        const float16 d = LOAD16(T, dy, base + i) * (inner > 1 ? (float16)scale : vload16(0, weight + first + i));
        const float16 v = (d - even - (LOAD16(T, x, base + i) - m) * slope) * r;
        SOON(x + base + far + ((short_row * n + i) >> short_row));
        SOON(dy + base + far + ((short_row * n + i) >> short_row));
        STREAM16(T, dx, base + i, v, stream);
      }
      for (; i < end; i++) {
        const float d = LOAD(T, dy, base + i) * weight[inner > 1 ? w : first + i];
        STORE(T, dx, base + i, (d - even - (LOAD(T, x, base + i) - m) * slope) * r);
      }
      begin = end;
    }
  }
}

KERNEL(layer_norm_grad_rows)(ARGS) {
  FN(layer_norm_grad_rows_item)((long)get_global_id(0), PASS(x), PASS(dy), PASS(weight), PASS(mean), PASS(rstd), PASS(dx),
                                PASS(sums), rows, n, inner, period, chunk, chunks, rms, keep, stream);
}
#undef ARGS
#endif

#ifdef WANT_layer_norm_grad_groups
/* A work-item does `piece` rows made of whole vectors: x and dy of a row are read from memory and summed, while the row
 * before is written from L2. Sums are in the order of layer_norm_grad_rows, so the bits are the same. */
#define ADD                                                                            \
  {                                                                                    \
    const float16 d = LOAD16(T, dy, next + i), off = LOAD16(T, x, next + i) - m;       \
    SOON(x + next + AHEAD / 2 + i);                                                    \
    SOON(dy + next + AHEAD / 2 + i);                                                   \
    s16 += d;                                                                          \
    q16 = fma(d, off, q16);                                                            \
  }
#define DERIVE                                               \
  const float16 g = LOAD16(T, dy, base + i) * scale_was;     \
  const float16 v = (g - even - (LOAD16(T, x, base + i) - mean_was) * slope) * rstd_was;
#define ARGS                                                                                             \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), dy), ARG(const float, weight), ARG(const float, mean), \
  ARG(const float, rstd), ARG(STORAGE(T), dx), ARG(float, sums), const index_t rows, const index_t n,    \
  const index_t inner, const index_t period, const index_t piece, const index_t chunks
BODY(layer_norm_grad_groups_item)(const long item, ARGS) {
  if (item * piece >= rows) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), dy);
  USE(const float, weight);
  USE(const float, mean);
  USE(const float, rstd);
  USE(STORAGE(T), dx);
  USE(float, sums);
  const index_t runs = n / inner, begin = (index_t)(item * piece), last = (index_t)min((item + 1) * piece, (long)rows);
  float even = 0, slope = 0, mean_was = 0, rstd_was = 0;
  for (index_t row = begin - 1; row < last; row++) { /* the first turn only sums, the last one only writes */
    const bool adds = row + 1 < last, both = adds && row >= begin && ((size_t)dx & 63) == 0;
    const index_t base = row * n, next = (row + 1) * n, own = (row + 1) * runs;
    const float m = adds ? mean[row + 1] : 0, r = adds ? rstd[row + 1] : 0;
    float s = 0, s_lost = 0, q = 0, q_lost = 0;
    for (int pass = both; pass < 2; pass++) { /* or one after the other */
      const bool writes = row >= begin && (both || !pass);
      if (!writes && !(adds && pass)) continue;
      for (index_t w = 0; w < runs; w++) {
        const float scale = weight[(row + 1) % period * runs + w], scale_was = writes ? weight[row % period * runs + w] : 0;
        float a = 0, a_lost = 0, b = 0, b_lost = 0;
        for (index_t i = w * inner, end; i < (w + 1) * inner;) {
          float16 s16 = 0, q16 = 0;
          end = min(i + 1024, (w + 1) * inner);
          if (both)
            for (; i < end; i += 16) {
              ADD
              DERIVE
              LINE16(T, dx, base + i, v);
            }
          else if (writes)
            for (; i < end; i += 16) {
              DERIVE
              STREAM16(T, dx, base + i, v, 1);
            }
          else
            for (; i < end; i += 16) ADD
          clade_take(&a, &a_lost, clade_lanes(s16, 0.0f));
          clade_take(&b, &b_lost, clade_lanes(q16, 0.0f));
        }
        if (!adds || !pass) continue;
        sums[own + w] = CLADE_TOTAL(a, a_lost);
        sums[chunks * runs * period + own + w] = CLADE_TOTAL(b, b_lost) * r;
        clade_take(&s, &s_lost, CLADE_TOTAL(a, a_lost) * scale);
        clade_take(&q, &q_lost, CLADE_TOTAL(b, b_lost) * scale);
      }
    }
    even = CLADE_TOTAL(s, s_lost) / (float)n;
    slope = CLADE_TOTAL(q, q_lost) * r * r / (float)n;
    mean_was = m;
    rstd_was = r;
  }
}

KERNEL(layer_norm_grad_groups)(ARGS) {
  FN(layer_norm_grad_groups_item)((long)get_global_id(0), PASS(x), PASS(dy), PASS(weight), PASS(mean), PASS(rstd), PASS(dx),
                                  PASS(sums), rows, n, inner, period, piece, chunks);
}
#endif
