/* Memory-bound ops of `clade bench op`: how to build each, its expected results, and how many bytes it moves. Over
 * 400 lines: one table, with what each of its rows names. */
#include <math.h>

#include "cli/bench/op.h"

const bench_key bench_op_keys[] = {
    {"n", 1, 1 << 20, 1}, {"c", 1, 1 << 20, 1}, {"h", 1, 1 << 28, 0}, {"w", 1, 1 << 28, 0}, {0}};

/* x has 64 MiB in f32. */
const char bench_op_lines[] = "relu n=16 c=64 h=128 w=128\n"
                              "gelu n=16 c=64 h=128 w=128\n"
                              "relu_grad n=16 c=64 h=128 w=128\n"
                              "gelu_grad n=16 c=64 h=128 w=128\n"
                              "add n=16 c=64 h=128 w=128\n"
                              "add_relu n=16 c=64 h=128 w=128\n"
                              "bias n=16 c=64 h=128 w=128\n"
                              "bias_last h=262144 w=64\n"
                              "bias_last@3 h=5592405 w=3\n"
                              "max_pool n=16 c=64 h=128 w=128\n"
                              "max_pool_3x3s2 n=16 c=64 h=128 w=128\n"
                              "max_pool_grad n=16 c=64 h=128 w=128\n"
                              "max_pool_3x3s2_grad n=16 c=64 h=128 w=128\n"
                              "avg_pool n=16 c=64 h=128 w=128\n"
                              "avg_pool_grad n=16 c=64 h=128 w=128\n"
                              "global_avg_pool n=16 c=64 h=128 w=128\n"
                              "softmax h=16384 w=1024\n"
                              "log_softmax h=16384 w=1024\n"
                              "softmax@10 h=1677721 w=10\n"
                              "softmax_channels n=16 c=64 h=128 w=128\n"
                              "log_softmax_channels n=16 c=64 h=128 w=128\n"
                              "softmax_grad h=16384 w=1024\n"
                              "log_softmax_grad h=16384 w=1024\n"
                              "batch_norm n=16 c=64 h=128 w=128\n"
                              "batch_norm_train n=16 c=64 h=128 w=128\n"
                              "batch_norm_grad n=16 c=64 h=128 w=128\n"
                              "layer_norm h=16384 w=1024\n"
                              "rms_norm h=16384 w=1024\n"
                              "group_norm n=16 c=64 h=128 w=128\n"
                              "instance_norm n=16 c=64 h=128 w=128\n"
                              "layer_norm_grad h=16384 w=1024\n"
                              "rms_norm_grad h=16384 w=1024\n"
                              "group_norm_grad n=16 c=64 h=128 w=128\n"
                              "instance_norm_grad n=16 c=64 h=128 w=128\n"
                              "sum n=16 c=64 h=128 w=128\n"
                              "sum_rows h=16384 w=1024\n"
                              "sum_columns h=16384 w=1024\n"
                              "bias_grad n=16 c=64 h=128 w=128\n"
                              "sum_channels n=16 c=64 h=128 w=128\n"
                              "sum_rows@10 h=1677721 w=10\n"
                              "arg_max h=16384 w=1024\n"
                              "arg_max_channels n=16 c=64 h=128 w=128\n"
                              "transpose h=4096 w=4096\n"
                              "nchw_to_nhwc n=16 c=64 h=128 w=128\n"
                              "heads n=32 c=512 h=16 w=64\n"
                              "concat n=16 c=64 h=128 w=128\n"
                              "concat_last h=16384 w=1024\n"
                              "slice n=16 c=64 h=128 w=128\n"
                              "slice_last h=16384 w=1024\n"
                              "pad n=16 c=64 h=128 w=128\n"
                              "gather h=65536 w=256\n"
                              "gather_grad h=65536 w=256\n"
                              "gather_columns h=4096 w=4096\n"
                              "embedding@64 h=262144 w=64\n"
                              "embedding@1024 h=16384 w=1024\n"
                              "embedding_grad@64 h=262144 w=64\n"
                              "embedding_grad@1024 h=16384 w=1024\n"
                              "sgd h=4096 w=4096\n"
                              "momentum h=4096 w=4096\n"
                              "adam h=4096 w=4096\n"
                              "adamw h=4096 w=4096\n";

/* ---- operands ---- */
static clade_shape image(const bench_op_work *w) { return CLADE_SHAPE(w->n, w->c, w->h, w->w); }
static int64_t rows_of(const bench_op_work *w) { return w->n * w->c * w->h; }
static clade_shape matrix(const bench_op_work *w) { return CLADE_SHAPE(rows_of(w), w->w); }
static clade_val first(const bench_op_work *w, bench_clade *c, clade_shape shape) {
  return bench_variable(c, "a", w->dtype, shape, w->raw_a, BENCH_OPERAND);
}
static clade_val second(const bench_op_work *w, bench_clade *c, clade_shape shape) {
  return bench_variable(c, "b", w->dtype, shape, w->raw_b, BENCH_OPERAND);
}
static double a_at(const bench_op_work *w, int64_t i) { return (double)w->a[i]; }
static double b_at(const bench_op_work *w, int64_t i) { return (double)w->b[i]; }
static int64_t channel_of(const bench_op_work *w, int64_t i) { return i / (w->h * w->w) % w->c; }

/* dx of y = f(x); dy is the beginning of b. */
static clade_val derived(const bench_op_work *w, bench_clade *c, clade_val x, clade_val y) {
  clade_type type;
  clade_val dx = {0};
  if (clade_val_type(c->graph, y, &type)) return dx;
  clade_val dy = second(w, c, type.shape);
  (void)clade_gradients(c->graph, y, dy, 1, &x, &dx);
  return dx;
}
/* As in a training step, the result of the forward pass is needed too. */
static clade_val stepped(const bench_op_work *w, bench_clade *c, clade_val x, clade_val y) {
  clade_output(c->graph, "y", y);
  return derived(w, c, x, y);
}

/* ---- elementwise ---- */
static clade_val relu(const bench_op_work *w, bench_clade *c) { return clade_relu(c->graph, first(w, c, image(w))); }
static double relu_of(bench_op_work *w, int64_t i) { return fmax(a_at(w, i), 0); }
static clade_val gelu(const bench_op_work *w, bench_clade *c) { return clade_gelu(c->graph, first(w, c, image(w))); }
static double gelu_of(bench_op_work *w, int64_t i) { return 0.5 * a_at(w, i) * erfc(-a_at(w, i) * sqrt(0.5)); }
static clade_val relu_grad(const bench_op_work *w, bench_clade *c) {
  clade_val x = first(w, c, image(w));
  return derived(w, c, x, clade_relu(c->graph, x));
}
static double relu_grad_of(bench_op_work *w, int64_t i) { return a_at(w, i) > 0 ? b_at(w, i) : 0; }
static clade_val gelu_grad(const bench_op_work *w, bench_clade *c) {
  clade_val x = first(w, c, image(w));
  return derived(w, c, x, clade_gelu(c->graph, x));
}
static double gelu_grad_of(bench_op_work *w, int64_t i) {
  double x = a_at(w, i);
  return b_at(w, i) * (0.5 * erfc(-x * sqrt(0.5)) + x * exp(-0.5 * x * x) / sqrt(2 * acos(-1)));
}
static clade_val add(const bench_op_work *w, bench_clade *c) {
  return clade_add(c->graph, first(w, c, image(w)), second(w, c, image(w)));
}
static double add_of(bench_op_work *w, int64_t i) { return a_at(w, i) + b_at(w, i); }
static clade_val add_relu(const bench_op_work *w, bench_clade *c) { return clade_relu(c->graph, add(w, c)); }
static double add_relu_of(bench_op_work *w, int64_t i) { return fmax(add_of(w, i), 0); }
static clade_val bias(const bench_op_work *w, bench_clade *c) {
  return clade_add(c->graph, first(w, c, image(w)), second(w, c, CLADE_SHAPE(w->c, 1, 1)));
}
static double bias_of(bench_op_work *w, int64_t i) { return a_at(w, i) + b_at(w, channel_of(w, i)); }
static clade_val bias_last(const bench_op_work *w, bench_clade *c) {
  return clade_add(c->graph, first(w, c, matrix(w)), second(w, c, CLADE_SHAPE(w->w)));
}
static double bias_last_of(bench_op_work *w, int64_t i) { return a_at(w, i) + b_at(w, i % w->w); }

/* ---- pooling: windows of 2 x 2, or of 3 x 3 with stride 2 and padding 1 ---- */
typedef struct window {
  int64_t plane, y, x; /* coordinates of the window's first element */
} window;
static window window_of(const bench_op_work *w, int64_t i, int64_t pad, int64_t kernel) {
  int64_t oh = (w->h + 2 * pad - kernel) / 2 + 1, ow = (w->w + 2 * pad - kernel) / 2 + 1;
  return (window){i / (oh * ow), i / ow % oh * 2 - pad, i % ow * 2 - pad};
}
static double largest(const bench_op_work *w, window at, int64_t kernel) {
  double best = -INFINITY;
  for (int64_t y = CLADE_MAX(at.y, 0); y < CLADE_MIN(at.y + kernel, w->h); y++)
    for (int64_t x = CLADE_MAX(at.x, 0); x < CLADE_MIN(at.x + kernel, w->w); x++)
      best = fmax(best, a_at(w, (at.plane * w->h + y) * w->w + x));
  return best;
}
static clade_val max_pool(const bench_op_work *w, bench_clade *c) {
  return clade_max_pool2d(c->graph, first(w, c, image(w)), .kernel = {2, 2});
}
static double max_pool_of(bench_op_work *w, int64_t i) { return largest(w, window_of(w, i, 0, 2), 2); }
static clade_val max_pool3(const bench_op_work *w, bench_clade *c) {
  return clade_max_pool2d(c->graph, first(w, c, image(w)), .kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1});
}
static double max_pool3_of(bench_op_work *w, int64_t i) { return largest(w, window_of(w, i, 1, 3), 3); }
static clade_val max_pool_grad(const bench_op_work *w, bench_clade *c) {
  clade_val x = first(w, c, image(w));
  return derived(w, c, x, clade_max_pool2d(c->graph, x, .kernel = {2, 2}));
}
static clade_val max_pool3_grad(const bench_op_work *w, bench_clade *c) {
  clade_val x = first(w, c, image(w));
  return derived(w, c, x, clade_max_pool2d(c->graph, x, .kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}));
}
/* Index of the largest element of a window; the first one of equal elements. */
static int64_t first_largest(const bench_op_work *w, window at, int64_t kernel) {
  double best = largest(w, at, kernel);
  for (int64_t y = CLADE_MAX(at.y, 0); y < CLADE_MIN(at.y + kernel, w->h); y++)
    for (int64_t x = CLADE_MAX(at.x, 0); x < CLADE_MIN(at.x + kernel, w->w); x++)
      if (a_at(w, (at.plane * w->h + y) * w->w + x) >= best) return (at.plane * w->h + y) * w->w + x;
  return -1;
}
/* Gradient of pixel i: the sum over all windows of stride 2 whose maximum it is. */
static double pooled_grad(const bench_op_work *w, int64_t i, int64_t pad, int64_t kernel) {
  int64_t oh = (w->h + 2 * pad - kernel) / 2 + 1, ow = (w->w + 2 * pad - kernel) / 2 + 1;
  int64_t plane = i / (w->h * w->w), y = i / w->w % w->h + pad, x = i % w->w + pad;
  double total = 0;
  for (int64_t oy = CLADE_MAX(y - kernel + 2, 0) / 2; oy <= CLADE_MIN(y / 2, oh - 1); oy++)
    for (int64_t ox = CLADE_MAX(x - kernel + 2, 0) / 2; ox <= CLADE_MIN(x / 2, ow - 1); ox++)
      if (first_largest(w, (window){plane, oy * 2 - pad, ox * 2 - pad}, kernel) == i)
        total += b_at(w, (plane * oh + oy) * ow + ox);
  return total;
}
static double max_pool_grad_of(bench_op_work *w, int64_t i) { return pooled_grad(w, i, 0, 2); }
static double max_pool3_grad_of(bench_op_work *w, int64_t i) { return pooled_grad(w, i, 1, 3); }
static clade_val avg_pool(const bench_op_work *w, bench_clade *c) {
  return clade_avg_pool2d(c->graph, first(w, c, image(w)), .kernel = {2, 2});
}
static double avg_pool_of(bench_op_work *w, int64_t i) {
  window at = window_of(w, i, 0, 2);
  int64_t from = (at.plane * w->h + at.y) * w->w + at.x;
  return 0.25 * (a_at(w, from) + a_at(w, from + 1) + a_at(w, from + w->w) + a_at(w, from + w->w + 1));
}
static clade_val avg_pool_grad(const bench_op_work *w, bench_clade *c) {
  clade_val x = first(w, c, image(w));
  return derived(w, c, x, clade_avg_pool2d(c->graph, x, .kernel = {2, 2}));
}
static double avg_pool_grad_of(bench_op_work *w, int64_t i) {
  int64_t oh = w->h / 2, ow = w->w / 2, plane = i / (w->h * w->w), y = i / w->w % w->h / 2, x = i % w->w / 2;
  return y < oh && x < ow ? 0.25 * b_at(w, (plane * oh + y) * ow + x) : 0;
}
static clade_val global_avg_pool(const bench_op_work *w, bench_clade *c) {
  return clade_global_avg_pool2d(c->graph, first(w, c, image(w)));
}
static double sum_of(const float *x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += (double)x[i];
  return sum;
}
static double global_avg_pool_of(bench_op_work *w, int64_t i) {
  return sum_of(w->a + i * w->h * w->w, w->h * w->w) / (double)(w->h * w->w);
}

/* ---- rows ---- */
static clade_val softmax(const bench_op_work *w, bench_clade *c) {
  return clade_softmax(c->graph, first(w, c, matrix(w)), -1);
}
static double softmax_of(bench_op_work *w, int64_t i) {
  double sum = 0;
  for (int64_t j = i / w->w * w->w; j < (i / w->w + 1) * w->w; j++) sum += exp(a_at(w, j));
  return exp(a_at(w, i)) / sum;
}
static clade_val log_softmax(const bench_op_work *w, bench_clade *c) {
  return clade_log_softmax(c->graph, first(w, c, matrix(w)), -1);
}
static double log_softmax_of(bench_op_work *w, int64_t i) { return log(softmax_of(w, i)); }
static clade_val softmax_channels(const bench_op_work *w, bench_clade *c) {
  return clade_softmax(c->graph, first(w, c, image(w)), 1);
}
static double softmax_channels_of(bench_op_work *w, int64_t i) {
  int64_t plane = w->h * w->w, begin = i / (w->c * plane) * w->c * plane + i % plane;
  double sum = 0;
  for (int64_t ch = 0; ch < w->c; ch++) sum += exp(a_at(w, begin + ch * plane));
  return exp(a_at(w, i)) / sum;
}
static clade_val log_softmax_channels(const bench_op_work *w, bench_clade *c) {
  return clade_log_softmax(c->graph, first(w, c, image(w)), 1);
}
static double log_softmax_channels_of(bench_op_work *w, int64_t i) { return log(softmax_channels_of(w, i)); }
/* softmax: dx = y (dy - sum(dy y)); log_softmax: dx = dy - y sum(dy). */
static clade_val softmax_grad(const bench_op_work *w, bench_clade *c) {
  clade_val x = first(w, c, matrix(w));
  return stepped(w, c, x, clade_softmax(c->graph, x, -1));
}
static double softmax_grad_of(bench_op_work *w, int64_t i) {
  double sum = 0, both = 0;
  for (int64_t j = i / w->w * w->w; j < (i / w->w + 1) * w->w; j++)
    sum += exp(a_at(w, j)), both += b_at(w, j) * exp(a_at(w, j));
  return exp(a_at(w, i)) / sum * (b_at(w, i) - both / sum);
}
static clade_val log_softmax_grad(const bench_op_work *w, bench_clade *c) {
  clade_val x = first(w, c, matrix(w));
  return stepped(w, c, x, clade_log_softmax(c->graph, x, -1));
}
static double log_softmax_grad_of(bench_op_work *w, int64_t i) {
  return b_at(w, i) - softmax_of(w, i) * sum_of(w->b + i / w->w * w->w, w->w);
}

/* ---- normalization over n contiguous elements; the weights are ones and zeros ---- */
typedef struct run {
  double mean, scale, slope, slope_x; /* slope, slope_x: means of dy, and of dy times the normalized x */
} run;
static run run_of(const bench_op_work *w, int64_t i, int64_t n, bool rms) {
  const float *x = w->a + i / n * n, *dy = w->b + i / n * n;
  run r = {.mean = rms ? 0 : sum_of(x, n) / (double)n, .slope = rms ? 0 : sum_of(dy, n) / (double)n};
  double square = 0;
  for (int64_t j = 0; j < n; j++) {
    double d = (double)x[j] - r.mean;
    square += d * d, r.slope_x += (double)dy[j] * d;
  }
  r.scale = 1 / sqrt(square / (double)n + 1e-5);
  r.slope_x *= r.scale / (double)n;
  return r;
}
static double normal(const bench_op_work *w, int64_t i, int64_t n, bool rms) {
  run r = run_of(w, i, n, rms);
  return (a_at(w, i) - r.mean) * r.scale;
}
static double normal_grad(const bench_op_work *w, int64_t i, int64_t n, bool rms) {
  run r = run_of(w, i, n, rms);
  return r.scale * (b_at(w, i) - r.slope - (a_at(w, i) - r.mean) * r.scale * r.slope_x);
}
static int64_t plane_of(const bench_op_work *w) { return w->h * w->w; }
static int64_t group_of(const bench_op_work *w) { return w->c % 8 == 0 ? w->c / 8 : w->c; } /* channels in a group */
static clade_val layer_norm(const bench_op_work *w, bench_clade *c) {
  return clade_nn_layer_norm(c->graph, "ln", first(w, c, matrix(w)));
}
static double layer_norm_of(bench_op_work *w, int64_t i) { return normal(w, i, w->w, false); }
static clade_val layer_norm_grad(const bench_op_work *w, bench_clade *c) {
  clade_val x = first(w, c, matrix(w));
  return stepped(w, c, x, clade_nn_layer_norm(c->graph, "ln", x));
}
static double layer_norm_grad_of(bench_op_work *w, int64_t i) { return normal_grad(w, i, w->w, false); }
static clade_val rms_norm(const bench_op_work *w, bench_clade *c) {
  return clade_nn_rms_norm(c->graph, "rms", first(w, c, matrix(w)));
}
static double rms_norm_of(bench_op_work *w, int64_t i) { return normal(w, i, w->w, true); }
static clade_val rms_norm_grad(const bench_op_work *w, bench_clade *c) {
  clade_val x = first(w, c, matrix(w));
  return stepped(w, c, x, clade_nn_rms_norm(c->graph, "rms", x));
}
static double rms_norm_grad_of(bench_op_work *w, int64_t i) { return normal_grad(w, i, w->w, true); }
static clade_val in_groups(const bench_op_work *w, bench_clade *c, clade_val x) {
  return clade_nn_group_norm(c->graph, "gn", x, .groups = (int)(w->c / group_of(w)));
}
static clade_val group_norm(const bench_op_work *w, bench_clade *c) { return in_groups(w, c, first(w, c, image(w))); }
static double group_norm_of(bench_op_work *w, int64_t i) { return normal(w, i, group_of(w) * plane_of(w), false); }
static clade_val group_norm_grad(const bench_op_work *w, bench_clade *c) {
  clade_val x = first(w, c, image(w));
  return stepped(w, c, x, in_groups(w, c, x));
}
static double group_norm_grad_of(bench_op_work *w, int64_t i) {
  return normal_grad(w, i, group_of(w) * plane_of(w), false);
}
static clade_val instance_norm(const bench_op_work *w, bench_clade *c) {
  return clade_nn_instance_norm(c->graph, "in", first(w, c, image(w)));
}
static double instance_norm_of(bench_op_work *w, int64_t i) { return normal(w, i, plane_of(w), false); }
static clade_val instance_norm_grad(const bench_op_work *w, bench_clade *c) {
  clade_val x = first(w, c, image(w));
  return stepped(w, c, x, clade_nn_instance_norm(c->graph, "in", x));
}
static double instance_norm_grad_of(bench_op_work *w, int64_t i) { return normal_grad(w, i, plane_of(w), false); }

/* ---- batch normalization; the weights are ones and zeros ---- */
static clade_val batch_norm(const bench_op_work *w, bench_clade *c) {
  return clade_nn_batch_norm(c->graph, "bn", first(w, c, image(w)));
}
static double batch_norm_of(bench_op_work *w, int64_t i) { return a_at(w, i) / sqrt(1 + 1e-5); }
static clade_val batch_norm_train(const bench_op_work *w, bench_clade *c) {
  clade_graph_train(c->graph, true);
  return batch_norm(w, c);
}
/* For each channel: mean and 1 / deviation of x, and the means of dy and of dy times the normalized x. */
static void channels(bench_op_work *w) {
  int64_t plane = w->h * w->w, each = w->n * plane;
  for (int64_t ch = 0; ch < w->c; ch++) {
    double mean = 0, square = 0, slope = 0, slope_x = 0;
    for (int64_t i = 0; i < each; i++) mean += a_at(w, (i / plane * w->c + ch) * plane + i % plane) / (double)each;
    for (int64_t i = 0; i < each; i++) {
      int64_t at = (i / plane * w->c + ch) * plane + i % plane;
      double d = a_at(w, at) - mean;
      square += d * d, slope += b_at(w, at), slope_x += b_at(w, at) * d;
    }
    w->mean[ch] = mean;
    w->scale[ch] = 1 / sqrt(square / (double)each + 1e-5);
    w->slope[ch] = slope / (double)each;
    w->slope_x[ch] = slope_x * w->scale[ch] / (double)each;
  }
}
static double batch_norm_train_of(bench_op_work *w, int64_t i) {
  int64_t ch = channel_of(w, i);
  if (!(w->scale[0] > 0)) channels(w);
  return (a_at(w, i) - w->mean[ch]) * w->scale[ch];
}
static clade_val batch_norm_grad(const bench_op_work *w, bench_clade *c) {
  clade_graph_train(c->graph, true);
  clade_val x = first(w, c, image(w));
  return stepped(w, c, x, clade_nn_batch_norm(c->graph, "bn", x));
}
static double batch_norm_grad_of(bench_op_work *w, int64_t i) {
  int64_t ch = channel_of(w, i);
  double x = batch_norm_train_of(w, i);
  return w->scale[ch] * (b_at(w, i) - w->slope[ch] - x * w->slope_x[ch]);
}

/* ---- sums ---- */
static clade_val sum(const bench_op_work *w, bench_clade *c) { return clade_sum(c->graph, first(w, c, image(w))); }
static double whole_sum(bench_op_work *w, int64_t i) { return i ? NAN : sum_of(w->a, w->elements); }
static clade_val sum_rows(const bench_op_work *w, bench_clade *c) {
  return clade_sum(c->graph, first(w, c, matrix(w)), .n_axes = 1, .axes = {1});
}
static double row_sum(bench_op_work *w, int64_t i) { return sum_of(w->a + i * w->w, w->w); }
static clade_val sum_columns(const bench_op_work *w, bench_clade *c) {
  return clade_sum(c->graph, first(w, c, matrix(w)), .n_axes = 1, .axes = {0});
}
static double column_sum(bench_op_work *w, int64_t i) {
  double total = 0;
  for (int64_t r = 0; r < rows_of(w); r++) total += a_at(w, r * w->w + i);
  return total;
}
static clade_val bias_grad(const bench_op_work *w, bench_clade *c) {
  return clade_sum(c->graph, first(w, c, image(w)), .n_axes = 3, .axes = {0, 2, 3});
}
static double channel_sum(bench_op_work *w, int64_t i) {
  double total = 0;
  for (int64_t n = 0; n < w->n; n++) total += sum_of(w->a + (n * w->c + i) * w->h * w->w, w->h * w->w);
  return total;
}
static clade_val sum_channels(const bench_op_work *w, bench_clade *c) {
  return clade_sum(c->graph, first(w, c, image(w)), .n_axes = 1, .axes = {1});
}
/* Element `each` of the channels that result i reduces. */
static double beside(const bench_op_work *w, int64_t i, int64_t each) {
  int64_t plane = w->h * w->w;
  return a_at(w, (i / plane * w->c + each) * plane + i % plane);
}
static double sum_channels_of(bench_op_work *w, int64_t i) {
  double total = 0;
  for (int64_t ch = 0; ch < w->c; ch++) total += beside(w, i, ch);
  return total;
}
static clade_val arg_max(const bench_op_work *w, bench_clade *c) {
  return clade_cast(c->graph, clade_arg_max(c->graph, first(w, c, matrix(w)), 1), w->dtype);
}
static double arg_max_of(bench_op_work *w, int64_t i) {
  int64_t best = 0;
  for (int64_t j = 1; j < w->w; j++)
    if (a_at(w, i * w->w + j) > a_at(w, i * w->w + best)) best = j;
  return (double)best;
}
static clade_val arg_max_channels(const bench_op_work *w, bench_clade *c) {
  return clade_cast(c->graph, clade_arg_max(c->graph, first(w, c, image(w)), 1), w->dtype);
}
static double arg_max_channels_of(bench_op_work *w, int64_t i) {
  int64_t best = 0;
  for (int64_t ch = 1; ch < w->c; ch++)
    if (beside(w, i, ch) > beside(w, i, best)) best = ch;
  return (double)best;
}

/* ---- movement ---- */
static clade_val transpose(const bench_op_work *w, bench_clade *c) {
  return clade_transpose(c->graph, first(w, c, matrix(w)), 2, (int[]){1, 0});
}
static double transposed(bench_op_work *w, int64_t i) { return a_at(w, i % rows_of(w) * w->w + i / rows_of(w)); }
static clade_val nhwc(const bench_op_work *w, bench_clade *c) {
  return clade_transpose(c->graph, first(w, c, image(w)), 4, (int[]){0, 2, 3, 1});
}
static double nhwc_of(bench_op_work *w, int64_t i) {
  int64_t ch = i % w->c, pixel = i / w->c % (w->h * w->w), n = i / (w->c * w->h * w->w);
  return a_at(w, (n * w->c + ch) * w->h * w->w + pixel);
}
/* Attention's transpose of n sentences of c words, each with h heads of w numbers. */
static clade_val heads(const bench_op_work *w, bench_clade *c) {
  return clade_transpose(c->graph, first(w, c, image(w)), 4, (int[]){0, 2, 1, 3});
}
static double heads_of(bench_op_work *w, int64_t i) {
  int64_t in = i % w->w, word = i / w->w % w->c, head = i / (w->w * w->c) % w->h, n = i / (w->w * w->c * w->h);
  return a_at(w, ((n * w->c + word) * w->h + head) * w->w + in);
}
/* Concatenates two tensors with half of the channels each. */
static int64_t half(const bench_op_work *w) { return CLADE_MAX(w->c / 2, 1); }
static clade_shape half_image(const bench_op_work *w) { return CLADE_SHAPE(w->n, half(w), w->h, w->w); }
static clade_val concat(const bench_op_work *w, bench_clade *c) {
  return clade_concat(c->graph, 2, (clade_val[]){first(w, c, half_image(w)), second(w, c, half_image(w))}, 1);
}
static double concat_of(bench_op_work *w, int64_t i) {
  int64_t part = half(w) * w->h * w->w, n = i / (2 * part), in = i % (2 * part);
  return in < part ? a_at(w, n * part + in) : b_at(w, n * part + in - part);
}
static int64_t half_row(const bench_op_work *w) { return CLADE_MAX(w->w / 2, 1); }
static clade_val concat_last(const bench_op_work *w, bench_clade *c) {
  clade_shape shape = CLADE_SHAPE(rows_of(w), half_row(w));
  return clade_concat(c->graph, 2, (clade_val[]){first(w, c, shape), second(w, c, shape)}, 1);
}
static double concat_last_of(bench_op_work *w, int64_t i) {
  int64_t part = half_row(w), row = i / (2 * part), in = i % (2 * part);
  return in < part ? a_at(w, row * part + in) : b_at(w, row * part + in - part);
}
static clade_val slice(const bench_op_work *w, bench_clade *c) {
  return clade_slice(c->graph, first(w, c, image(w)), CLADE_SHAPE(0, w->c - half(w), 0, 0), half_image(w));
}
static double slice_of(bench_op_work *w, int64_t i) {
  int64_t plane = w->h * w->w, part = half(w) * plane;
  return a_at(w, i / part * w->c * plane + (w->c - half(w)) * plane + i % part);
}
static clade_val slice_last(const bench_op_work *w, bench_clade *c) {
  return clade_slice(c->graph, first(w, c, matrix(w)), CLADE_SHAPE(0, w->w - half_row(w)),
                     CLADE_SHAPE(rows_of(w), half_row(w)));
}
static double slice_last_of(bench_op_work *w, int64_t i) {
  return a_at(w, i / half_row(w) * w->w + w->w - half_row(w) + i % half_row(w));
}
static clade_val pad(const bench_op_work *w, bench_clade *c) {
  return clade_pad(c->graph, first(w, c, image(w)), CLADE_SHAPE(0, 0, 1, 1), CLADE_SHAPE(0, 0, 1, 1), 0);
}
static double pad_of(bench_op_work *w, int64_t i) {
  int64_t x = i % (w->w + 2) - 1, y = i / (w->w + 2) % (w->h + 2) - 1, plane = i / ((w->w + 2) * (w->h + 2));
  return x < 0 || y < 0 || x >= w->w || y >= w->h ? 0 : a_at(w, (plane * w->h + y) * w->w + x);
}
static clade_val numbers(const bench_op_work *w, bench_clade *c, int64_t n) {
  return bench_variable(c, "ids", CLADE_I32, CLADE_SHAPE(n), w->ids, BENCH_OPERAND);
}
static clade_val gather(const bench_op_work *w, bench_clade *c) {
  return clade_gather(c->graph, first(w, c, matrix(w)), numbers(w, c, rows_of(w)));
}
static double gather_of(bench_op_work *w, int64_t i) { return a_at(w, w->ids[i / w->w] * w->w + i % w->w); }
static clade_val gather_grad(const bench_op_work *w, bench_clade *c) {
  clade_val x = first(w, c, matrix(w));
  return derived(w, c, x, clade_gather(c->graph, x, numbers(w, c, rows_of(w))));
}
static double gather_grad_of(bench_op_work *w, int64_t i) {
  double total = 0;
  for (int64_t r = 0; r < rows_of(w); r++)
    if (w->ids[r] == i / w->w) total += b_at(w, r * w->w + i % w->w);
  return total;
}
static clade_val gather_columns(const bench_op_work *w, bench_clade *c) {
  int64_t n = CLADE_MIN(w->w, rows_of(w));
  for (int64_t i = 0; i < n; i++) w->ids[i] = (int32_t)(w->ids[i] % w->w); /* valid column numbers */
  clade_val picked = numbers(w, c, n);
  return clade_gather(c->graph, first(w, c, matrix(w)), picked, .axis = 1);
}
static double gather_columns_of(bench_op_work *w, int64_t i) {
  int64_t n = CLADE_MIN(w->w, rows_of(w));
  return a_at(w, i / n * w->w + w->ids[i % n]);
}

/* ---- updates of a parameter whose gradient is b ---- */
static clade_val update(const bench_op_work *w, bench_clade *c, clade_optimizer optimizer) {
  clade_val p = bench_parameter(c, "a", w->dtype, matrix(w), w->raw_a);
  clade_val loss = clade_sum(c->graph, clade_mul(c->graph, p, second(w, c, matrix(w))));
  (void)clade_minimize(c->graph, loss, .optimizer = optimizer);
  return p;
}
static clade_val sgd(const bench_op_work *w, bench_clade *c) { return update(w, c, clade_sgd(.lr = 0.1)); }
static double sgd_of(bench_op_work *w, int64_t i) { return a_at(w, i) - 0.1 * b_at(w, i); }
static clade_val momentum(const bench_op_work *w, bench_clade *c) {
  return update(w, c, clade_sgd(.lr = 0.1, .momentum = 0.9));
}
static clade_val adam(const bench_op_work *w, bench_clade *c) { return update(w, c, clade_adam(.lr = 0.1)); }
static double adam_of(bench_op_work *w, int64_t i) { /* after the first step */
  return a_at(w, i) - 0.1 * b_at(w, i) / (fabs(b_at(w, i)) + 1e-8);
}
static clade_val adamw(const bench_op_work *w, bench_clade *c) { return update(w, c, clade_adamw(.lr = 0.1)); }
static double adamw_of(bench_op_work *w, int64_t i) { return adam_of(w, i) - 0.1 * 0.01 * a_at(w, i); }

/* The errors allowed for sums over x are those of a random walk of 2^24 steps. */
const bench_op bench_op_table[] = {
    {"relu", "eltwise", 2, relu, relu_of, 0, BENCH_COPY},
    {"gelu", "eltwise", 2, gelu, gelu_of, 1e-6, BENCH_COPY},
    {"relu_grad", "eltwise", 3, relu_grad, relu_grad_of, 0, BENCH_COPY},
    {"gelu_grad", "eltwise", 3, gelu_grad, gelu_grad_of, 1e-6, BENCH_COPY},
    {"add", "eltwise", 3, add, add_of, 1e-6, BENCH_COPY},
    {"add_relu", "eltwise", 3, add_relu, add_relu_of, 1e-6, BENCH_COPY},
    {"bias", "eltwise", 2, bias, bias_of, 1e-6, BENCH_COPY},
    {"bias_last", "eltwise", 2, bias_last, bias_last_of, 1e-6, BENCH_COPY},
    {"max_pool", "max_pool2d", 1.25, max_pool, max_pool_of, 0, BENCH_COPY},
    {"max_pool_3x3s2", "max_pool2d", 1.25, max_pool3, max_pool3_of, 0, BENCH_COPY},
    {"max_pool_grad", "max_pool2d_grad", 2.25, max_pool_grad, max_pool_grad_of, 0, BENCH_COPY},
    {"max_pool_3x3s2_grad", "max_pool2d_grad", 2.25, max_pool3_grad, max_pool3_grad_of, 1e-6, BENCH_COPY},
    {"avg_pool", "avg_pool2d", 1.25, avg_pool, avg_pool_of, 1e-6, BENCH_COPY},
    {"avg_pool_grad", "avg_pool2d_grad", 1.25, avg_pool_grad, avg_pool_grad_of, 1e-6, BENCH_SPREAD},
    {"global_avg_pool", "reduce", 1, global_avg_pool, global_avg_pool_of, 1e-5, BENCH_READ},
    {"softmax", "softmax", 2, softmax, softmax_of, 1e-6, BENCH_COPY},
    {"log_softmax", "softmax", 2, log_softmax, log_softmax_of, 1e-5, BENCH_COPY},
    {"softmax_channels", "softmax", 2, softmax_channels, softmax_channels_of, 1e-6, BENCH_COPY},
    {"log_softmax_channels", "softmax", 2, log_softmax_channels, log_softmax_channels_of, 1e-5, BENCH_COPY},
    {"softmax_grad", "softmax", 5, softmax_grad, softmax_grad_of, 1e-6, BENCH_COPY},
    {"log_softmax_grad", "softmax", 5, log_softmax_grad, log_softmax_grad_of, 1e-4, BENCH_COPY},
    {"batch_norm", "eltwise", 2, batch_norm, batch_norm_of, 1e-5, BENCH_COPY},
    {"batch_norm_train", "batch_norm", 2, batch_norm_train, batch_norm_train_of, 1e-4, BENCH_COPY},
    {"batch_norm_grad", "batch_norm_grad", 5, batch_norm_grad, batch_norm_grad_of, 1e-3, BENCH_COPY},
    {"layer_norm", "layer_norm", 2, layer_norm, layer_norm_of, 1e-4, BENCH_COPY},
    {"rms_norm", "layer_norm", 2, rms_norm, rms_norm_of, 1e-4, BENCH_COPY},
    {"group_norm", "layer_norm", 2, group_norm, group_norm_of, 1e-4, BENCH_COPY},
    {"instance_norm", "layer_norm", 2, instance_norm, instance_norm_of, 1e-4, BENCH_COPY},
    {"layer_norm_grad", "layer_norm_grad", 5, layer_norm_grad, layer_norm_grad_of, 1e-4, BENCH_COPY},
    {"rms_norm_grad", "layer_norm_grad", 5, rms_norm_grad, rms_norm_grad_of, 1e-4, BENCH_COPY},
    {"group_norm_grad", "layer_norm_grad", 5, group_norm_grad, group_norm_grad_of, 1e-4, BENCH_COPY},
    {"instance_norm_grad", "layer_norm_grad", 5, instance_norm_grad, instance_norm_grad_of, 1e-4, BENCH_COPY},
    {"sum", "reduce", 1, sum, whole_sum, 0.1, BENCH_READ},
    {"sum_rows", "reduce", 1, sum_rows, row_sum, 1e-3, BENCH_READ},
    {"sum_columns", "reduce", 1, sum_columns, column_sum, 1e-2, BENCH_READ},
    {"bias_grad", "reduce", 1, bias_grad, channel_sum, 1e-2, BENCH_READ},
    {"sum_channels", "reduce", 1, sum_channels, sum_channels_of, 1e-3, BENCH_READ},
    {"arg_max", "arg_max", 1, arg_max, arg_max_of, 0, BENCH_READ},
    {"arg_max_channels", "arg_max", 1, arg_max_channels, arg_max_channels_of, 0, BENCH_READ},
    {"transpose", "transpose", 2, transpose, transposed, 0, BENCH_COPY},
    {"nchw_to_nhwc", "transpose", 2, nhwc, nhwc_of, 0, BENCH_COPY},
    {"heads", "transpose", 2, heads, heads_of, 0, BENCH_COPY},
    {"concat", "frame", 2, concat, concat_of, 0, BENCH_COPY},
    {"concat_last", "frame", 2, concat_last, concat_last_of, 0, BENCH_COPY},
    {"slice", "frame", 1, slice, slice_of, 0, BENCH_COPY},
    {"slice_last", "frame", 1, slice_last, slice_last_of, 0, BENCH_COPY},
    {"pad", "frame", 2, pad, pad_of, 0, BENCH_COPY},
    {"gather", "gather", 2, gather, gather_of, 0, BENCH_ROWS},
    {"gather_grad", "scatter_add", 2, gather_grad, gather_grad_of, 1e-5, BENCH_ROWS},
    {"gather_columns", "gather", 2, gather_columns, gather_columns_of, 0, BENCH_COPY},
    {"embedding", "gather", 2, gather, gather_of, 0, BENCH_ROWS},
    {"embedding_grad", "scatter_add", 2, gather_grad, gather_grad_of, 1e-5, BENCH_ROWS},
    {"sgd", "update", 3, sgd, sgd_of, 1e-6, BENCH_COPY},
    {"momentum", "update", 5, momentum, sgd_of, 1e-6, BENCH_COPY},
    {"adam", "update", 7, adam, adam_of, 1e-5, BENCH_COPY},
    {"adamw", "update", 7, adamw, adamw_of, 1e-5, BENCH_COPY},
    {0}};
