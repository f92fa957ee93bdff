/* Memory-bound ops of `clade bench op`: how to build each, its expected results, and how many bytes it moves. Over
 * 400 lines: one table, with what each of its rows names. */
#include <math.h>

#include "cli/bench/op.h"

const bench_key bench_op_keys[] = {
    {"n", 1, 1 << 20, 1}, {"c", 1, 1 << 20, 1}, {"h", 1, 1 << 28, 0}, {"w", 1, 1 << 28, 0}, {0}};

/* x has 64 MiB in f32. */
#define IMAGES " n=16 c=64 h=128 w=128\n"
#define ROWS   " h=16384 w=1024\n"
#define SQUARE " h=4096 w=4096\n"
#define OF_TEN " h=1677721 w=10\n"
#define OF_64  " h=262144 w=64\n"
static const char lines[] =
    "relu" IMAGES "gelu" IMAGES "relu_grad" IMAGES "gelu_grad" IMAGES "add" IMAGES "add_relu" IMAGES "bias" IMAGES
    "bias_last" OF_64 "bias_last@3 h=5592405 w=3\n"
    "max_pool" IMAGES "max_pool_3x3s2" IMAGES "max_pool_grad" IMAGES "max_pool_3x3s2_grad" IMAGES "avg_pool" IMAGES
    "avg_pool_grad" IMAGES "global_avg_pool" IMAGES "softmax" ROWS "log_softmax" ROWS "softmax@10" OF_TEN
    "softmax_channels" IMAGES "log_softmax_channels" IMAGES "softmax_grad" ROWS "log_softmax_grad" ROWS
    "batch_norm" IMAGES "batch_norm_train" IMAGES "batch_norm_grad" IMAGES "layer_norm" ROWS "rms_norm" ROWS
    "group_norm" IMAGES "instance_norm" IMAGES "layer_norm_grad" ROWS "rms_norm_grad" ROWS "group_norm_grad" IMAGES
    "instance_norm_grad" IMAGES "sum" IMAGES "sum_rows" ROWS "sum_columns" ROWS "bias_grad" IMAGES "sum_channels" IMAGES
    "sum_rows@10" OF_TEN "arg_max" ROWS "arg_max_channels" IMAGES "transpose" SQUARE "nchw_to_nhwc" IMAGES
    "heads n=32 c=512 h=16 w=64\n"
    "concat" IMAGES "concat_last" ROWS "slice" IMAGES "slice_last" ROWS "pad" IMAGES "gather h=65536 w=256\n"
    "gather_grad h=65536 w=256\n"
    "gather_columns" SQUARE "embedding@64" OF_64 "embedding@1024" ROWS "embedding_grad@64" OF_64
    "embedding_grad@1024" ROWS "sgd" SQUARE "momentum" SQUARE "adam" SQUARE "adamw" SQUARE;
const bench_set bench_op_sets[] = {{"64mib", lines}, {0}};

/* ---- operands ---- */
static clade_shape image(const bench_op_work *w) { return CLADE_SHAPE(w->n, w->c, w->h, w->w); }
static int64_t rows_of(const bench_op_work *w) { return w->n * w->c * w->h; }
static int64_t plane_of(const bench_op_work *w) { return w->h * w->w; }
static clade_shape matrix(const bench_op_work *w) { return CLADE_SHAPE(rows_of(w), w->w); }
static clade_val first(const bench_op_work *w, bench_clade *c, clade_shape shape) {
  return bench_variable(c, "a", w->dtype, shape, w->raw_a, BENCH_OPERAND);
}
static clade_val second(const bench_op_work *w, bench_clade *c, clade_shape shape) {
  return bench_variable(c, "b", w->dtype, shape, w->raw_b, BENCH_OPERAND);
}
static double a_at(const bench_op_work *w, int64_t i) { return (double)w->a[i]; }
static double b_at(const bench_op_work *w, int64_t i) { return (double)w->b[i]; }
static int64_t channel_of(const bench_op_work *w, int64_t i) { return i / plane_of(w) % w->c; }

/* dx of y = f(x); dy is the beginning of b. */
static clade_val derived(const bench_op_work *w, bench_clade *c, clade_val x, clade_val y) {
  clade_type type;
  clade_val dx = {0};
  if (clade_val_type(c->graph, y, &type)) return dx;
  clade_val dy = second(w, c, type.shape);
  (void)clade_gradients(c->graph, y, dy, 1, &x, &dx);
  return dx;
}

clade_val bench_op_build(const bench_op_work *w, bench_clade *c) {
  const bench_op *op = w->op;
  clade_val x = {0};
  if (op->x != BENCH_NONE) x = first(w, c, op->x == BENCH_IMAGE ? image(w) : matrix(w));
  clade_val y = op->build(w, c, x);
  if (op->of == BENCH_STEP) clade_output(c->graph, "y", y);
  return op->of == BENCH_RESULT ? y : derived(w, c, x, y);
}

/* Lines along axis 1 of x: a row of a matrix, or the channels of a pixel. */
typedef struct line {
  int64_t n, begin, stride;
} line;
/* The line of result i of a reduction along axis 1. */
static line reduced(const bench_op_work *w, int64_t i) {
  const int64_t plane = plane_of(w);
  return w->op->x == BENCH_MATRIX ? (line){w->w, i * w->w, 1}
                                  : (line){w->c, i / plane * w->c * plane + i % plane, plane};
}
/* The line that contains element i. */
static line line_of(const bench_op_work *w, int64_t i) {
  const int64_t plane = plane_of(w);
  return reduced(w, w->op->x == BENCH_MATRIX ? i / w->w : i / (w->c * plane) * plane + i % plane);
}

/* Defines how y is built from x. */
#define BUILD(name, ...)                                                       \
  static clade_val name(const bench_op_work *w, bench_clade *c, clade_val x) { \
    (void)w, (void)x;                                                          \
    return __VA_ARGS__;                                                        \
  }

/* ---- elementwise ---- */
BUILD(relu, clade_relu(c->graph, x))
static double relu_of(const bench_op_work *w, int64_t i) { return fmax(a_at(w, i), 0); }
static double relu_grad_of(const bench_op_work *w, int64_t i) { return a_at(w, i) > 0 ? b_at(w, i) : 0; }
BUILD(gelu, clade_gelu(c->graph, x))
static double gelu_of(const bench_op_work *w, int64_t i) { return 0.5 * a_at(w, i) * erfc(-a_at(w, i) * sqrt(0.5)); }
static double gelu_grad_of(const bench_op_work *w, int64_t i) {
  double x = a_at(w, i);
  return b_at(w, i) * (0.5 * erfc(-x * sqrt(0.5)) + x * exp(-0.5 * x * x) / sqrt(2 * acos(-1)));
}
BUILD(add, clade_add(c->graph, x, second(w, c, image(w))))
static double add_of(const bench_op_work *w, int64_t i) { return a_at(w, i) + b_at(w, i); }
BUILD(add_relu, clade_relu(c->graph, add(w, c, x)))
static double add_relu_of(const bench_op_work *w, int64_t i) { return fmax(add_of(w, i), 0); }
BUILD(bias, clade_add(c->graph, x, second(w, c, CLADE_SHAPE(w->c, 1, 1))))
static double bias_of(const bench_op_work *w, int64_t i) { return a_at(w, i) + b_at(w, channel_of(w, i)); }
BUILD(bias_last, clade_add(c->graph, x, second(w, c, CLADE_SHAPE(w->w))))
static double bias_last_of(const bench_op_work *w, int64_t i) { return a_at(w, i) + b_at(w, i % w->w); }

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
BUILD(max_pool, clade_max_pool2d(c->graph, x, .kernel = {2, 2}))
static double max_pool_of(const bench_op_work *w, int64_t i) { return largest(w, window_of(w, i, 0, 2), 2); }
BUILD(max_pool3, clade_max_pool2d(c->graph, x, .kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}))
static double max_pool3_of(const bench_op_work *w, int64_t i) { return largest(w, window_of(w, i, 1, 3), 3); }
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
static double max_pool_grad_of(const bench_op_work *w, int64_t i) { return pooled_grad(w, i, 0, 2); }
static double max_pool3_grad_of(const bench_op_work *w, int64_t i) { return pooled_grad(w, i, 1, 3); }
BUILD(avg_pool, clade_avg_pool2d(c->graph, x, .kernel = {2, 2}))
static double avg_pool_of(const bench_op_work *w, int64_t i) {
  window at = window_of(w, i, 0, 2);
  int64_t from = (at.plane * w->h + at.y) * w->w + at.x;
  return 0.25 * (a_at(w, from) + a_at(w, from + 1) + a_at(w, from + w->w) + a_at(w, from + w->w + 1));
}
static double avg_pool_grad_of(const bench_op_work *w, int64_t i) {
  int64_t oh = w->h / 2, ow = w->w / 2, plane = i / (w->h * w->w), y = i / w->w % w->h / 2, x = i % w->w / 2;
  return y < oh && x < ow ? 0.25 * b_at(w, (plane * oh + y) * ow + x) : 0;
}
BUILD(global_avg_pool, clade_global_avg_pool2d(c->graph, x))
static double sum_of(const float *x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += (double)x[i];
  return sum;
}
static double global_avg_pool_of(const bench_op_work *w, int64_t i) {
  return sum_of(w->a + i * w->h * w->w, w->h * w->w) / (double)(w->h * w->w);
}

/* ---- along axis 1 ---- */
BUILD(softmax, clade_softmax(c->graph, x, 1))
static double softmax_of(const bench_op_work *w, int64_t i) {
  const line l = line_of(w, i);
  double sum = 0;
  for (int64_t j = 0; j < l.n; j++) sum += exp(a_at(w, l.begin + j * l.stride));
  return exp(a_at(w, i)) / sum;
}
BUILD(log_softmax, clade_log_softmax(c->graph, x, 1))
static double log_softmax_of(const bench_op_work *w, int64_t i) { return log(softmax_of(w, i)); }
/* softmax: dx = y (dy - sum(dy y)); log_softmax: dx = dy - y sum(dy); of rows. */
static double softmax_grad_of(const bench_op_work *w, int64_t i) {
  double sum = 0, both = 0;
  for (int64_t j = i / w->w * w->w; j < (i / w->w + 1) * w->w; j++)
    sum += exp(a_at(w, j)), both += b_at(w, j) * exp(a_at(w, j));
  return exp(a_at(w, i)) / sum * (b_at(w, i) - both / sum);
}
static double log_softmax_grad_of(const bench_op_work *w, int64_t i) {
  return b_at(w, i) - softmax_of(w, i) * sum_of(w->b + i / w->w * w->w, w->w);
}

/* ---- normalization over n contiguous elements; the weights are ones and zeros ---- */
BUILD(layer_norm, clade_nn_layer_norm(c->graph, "ln", x))
BUILD(rms_norm, clade_nn_rms_norm(c->graph, "rms", x))
static int64_t groups_of(const bench_op_work *w) { return w->c % 8 ? 1 : 8; }
BUILD(group_norm, clade_nn_group_norm(c->graph, "gn", x, .groups = (int)groups_of(w)))
BUILD(instance_norm, clade_nn_instance_norm(c->graph, "in", x))
static int64_t span_of(const bench_op_work *w) {
  if (w->op->x == BENCH_MATRIX) return w->w;
  return plane_of(w) * (w->op->build == group_norm ? w->c / groups_of(w) : 1);
}
typedef struct run {
  double mean, scale, slope, slope_x; /* slope, slope_x: means of dy, and of dy times the normalized x */
} run;
static run run_of(const bench_op_work *w, int64_t i) {
  const int64_t n = span_of(w);
  const bool rms = w->op->build == rms_norm;
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
static double norm_of(const bench_op_work *w, int64_t i) {
  const run r = run_of(w, i);
  return (a_at(w, i) - r.mean) * r.scale;
}
static double norm_grad_of(const bench_op_work *w, int64_t i) {
  const run r = run_of(w, i);
  return r.scale * (b_at(w, i) - r.slope - (a_at(w, i) - r.mean) * r.scale * r.slope_x);
}

/* ---- batch normalization; the weights are ones and zeros ---- */
BUILD(batch_norm, clade_nn_batch_norm(c->graph, "bn", x))
static double batch_norm_of(const bench_op_work *w, int64_t i) { return a_at(w, i) / sqrt(1 + 1e-5); }
static clade_val batch_norm_train(const bench_op_work *w, bench_clade *c, clade_val x) {
  clade_graph_train(c->graph, true);
  return batch_norm(w, c, x);
}
/* For each channel: mean and 1 / deviation of x, and the means of dy and of dy times the normalized x. */
static void channels(const bench_op_work *w) {
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
static double batch_norm_train_of(const bench_op_work *w, int64_t i) {
  int64_t ch = channel_of(w, i);
  if (!(w->scale[0] > 0)) channels(w);
  return (a_at(w, i) - w->mean[ch]) * w->scale[ch];
}
static double batch_norm_grad_of(const bench_op_work *w, int64_t i) {
  int64_t ch = channel_of(w, i);
  double x = batch_norm_train_of(w, i);
  return w->scale[ch] * (b_at(w, i) - w->slope[ch] - x * w->slope_x[ch]);
}

/* ---- sums ---- */
BUILD(sum, clade_sum(c->graph, x))
static double whole_sum(const bench_op_work *w, int64_t i) { return i ? NAN : sum_of(w->a, w->elements); }
BUILD(sum_along, clade_sum(c->graph, x, .n_axes = 1, .axes = {1}))
static double sum_along_of(const bench_op_work *w, int64_t i) {
  const line l = reduced(w, i);
  double total = 0;
  for (int64_t j = 0; j < l.n; j++) total += a_at(w, l.begin + j * l.stride);
  return total;
}
BUILD(sum_columns, clade_sum(c->graph, x, .n_axes = 1, .axes = {0}))
static double column_sum(const bench_op_work *w, int64_t i) {
  double total = 0;
  for (int64_t r = 0; r < rows_of(w); r++) total += a_at(w, r * w->w + i);
  return total;
}
BUILD(bias_grad, clade_sum(c->graph, x, .n_axes = 3, .axes = {0, 2, 3}))
static double channel_sum(const bench_op_work *w, int64_t i) {
  double total = 0;
  for (int64_t n = 0; n < w->n; n++) total += sum_of(w->a + (n * w->c + i) * w->h * w->w, w->h * w->w);
  return total;
}
BUILD(arg_max, clade_cast(c->graph, clade_arg_max(c->graph, x, 1), w->dtype))
static double arg_max_of(const bench_op_work *w, int64_t i) {
  const line l = reduced(w, i);
  int64_t best = 0;
  for (int64_t j = 1; j < l.n; j++)
    if (a_at(w, l.begin + j * l.stride) > a_at(w, l.begin + best * l.stride)) best = j;
  return (double)best;
}

/* ---- movement ---- */
BUILD(transpose, clade_transpose(c->graph, x, 2, (int[]){1, 0}))
static double transposed(const bench_op_work *w, int64_t i) { return a_at(w, i % rows_of(w) * w->w + i / rows_of(w)); }
BUILD(nhwc, clade_transpose(c->graph, x, 4, (int[]){0, 2, 3, 1}))
static double nhwc_of(const bench_op_work *w, int64_t i) {
  int64_t ch = i % w->c, pixel = i / w->c % (w->h * w->w), n = i / (w->c * w->h * w->w);
  return a_at(w, (n * w->c + ch) * w->h * w->w + pixel);
}
/* Attention's transpose of n sentences of c words, each with h heads of w numbers. */
BUILD(heads, clade_transpose(c->graph, x, 4, (int[]){0, 2, 1, 3}))
static double heads_of(const bench_op_work *w, int64_t i) {
  int64_t in = i % w->w, word = i / w->w % w->c, head = i / (w->w * w->c) % w->h, n = i / (w->w * w->c * w->h);
  return a_at(w, ((n * w->c + word) * w->h + head) * w->w + in);
}
/* Concatenates two tensors with half of the channels, or of the columns. */
/* Concatenates two tensors with half of the channels each. */
static int64_t half(const bench_op_work *w) { return CLADE_MAX(w->c / 2, 1); }
static clade_shape half_image(const bench_op_work *w) { return CLADE_SHAPE(w->n, half(w), w->h, w->w); }
static int64_t half_row(const bench_op_work *w) { return CLADE_MAX(w->w / 2, 1); }
static clade_shape half_matrix(const bench_op_work *w) { return CLADE_SHAPE(rows_of(w), half_row(w)); }
BUILD(concat, clade_concat(c->graph, 2, (clade_val[]){first(w, c, half_image(w)), second(w, c, half_image(w))}, 1))
static double joined(const bench_op_work *w, int64_t i, int64_t part) {
  const int64_t n = i / (2 * part), in = i % (2 * part);
  return in < part ? a_at(w, n * part + in) : b_at(w, n * part + in - part);
}
static double concat_of(const bench_op_work *w, int64_t i) { return joined(w, i, half(w) * plane_of(w)); }
BUILD(concat_last,
      clade_concat(c->graph, 2, (clade_val[]){first(w, c, half_matrix(w)), second(w, c, half_matrix(w))}, 1))
static double concat_last_of(const bench_op_work *w, int64_t i) { return joined(w, i, half_row(w)); }
BUILD(slice, clade_slice(c->graph, x, CLADE_SHAPE(0, w->c - half(w), 0, 0), half_image(w)))
static double slice_of(const bench_op_work *w, int64_t i) {
  int64_t plane = w->h * w->w, part = half(w) * plane;
  return a_at(w, i / part * w->c * plane + (w->c - half(w)) * plane + i % part);
}
BUILD(slice_last, clade_slice(c->graph, x, CLADE_SHAPE(0, w->w - half_row(w)), half_matrix(w)))
static double slice_last_of(const bench_op_work *w, int64_t i) {
  return a_at(w, i / half_row(w) * w->w + w->w - half_row(w) + i % half_row(w));
}
BUILD(pad, clade_pad(c->graph, x, CLADE_SHAPE(0, 0, 1, 1), CLADE_SHAPE(0, 0, 1, 1), 0))
static double pad_of(const bench_op_work *w, int64_t i) {
  int64_t x = i % (w->w + 2) - 1, y = i / (w->w + 2) % (w->h + 2) - 1, plane = i / ((w->w + 2) * (w->h + 2));
  return x < 0 || y < 0 || x >= w->w || y >= w->h ? 0 : a_at(w, (plane * w->h + y) * w->w + x);
}
static clade_val numbers(const bench_op_work *w, bench_clade *c, int64_t n) {
  return bench_variable(c, "ids", CLADE_I32, CLADE_SHAPE(n), w->ids, BENCH_OPERAND);
}
BUILD(gather, clade_gather(c->graph, x, numbers(w, c, rows_of(w))))
static double gather_of(const bench_op_work *w, int64_t i) { return a_at(w, w->ids[i / w->w] * w->w + i % w->w); }
static double gather_grad_of(const bench_op_work *w, int64_t i) {
  double total = 0;
  for (int64_t r = 0; r < rows_of(w); r++)
    if (w->ids[r] == i / w->w) total += b_at(w, r * w->w + i % w->w);
  return total;
}
static clade_val gather_columns(const bench_op_work *w, bench_clade *c, clade_val x) {
  int64_t n = CLADE_MIN(w->w, rows_of(w));
  for (int64_t i = 0; i < n; i++) w->ids[i] = (int32_t)(w->ids[i] % w->w); /* valid column numbers */
  return clade_gather(c->graph, x, numbers(w, c, n), .axis = 1);
}
static double gather_columns_of(const bench_op_work *w, int64_t i) {
  int64_t n = CLADE_MIN(w->w, rows_of(w));
  return a_at(w, i / n * w->w + w->ids[i % n]);
}

/* ---- updates of a parameter whose gradient is b ---- */
/* ---- updates of a parameter whose gradient is b ---- */
static clade_val update(const bench_op_work *w, bench_clade *c, clade_optimizer optimizer) {
  clade_val p = bench_parameter(c, "a", w->dtype, matrix(w), w->raw_a);
  clade_val loss = clade_sum(c->graph, clade_mul(c->graph, p, second(w, c, matrix(w))));
  (void)clade_minimize(c->graph, loss, .optimizer = optimizer);
  return p;
}
BUILD(sgd, update(w, c, clade_sgd(.lr = 0.1)))
static double sgd_of(const bench_op_work *w, int64_t i) { return a_at(w, i) - 0.1 * b_at(w, i); }
BUILD(momentum, update(w, c, clade_sgd(.lr = 0.1, .momentum = 0.9)))
BUILD(adam, update(w, c, clade_adam(.lr = 0.1)))
static double adam_of(const bench_op_work *w, int64_t i) { /* after the first step */
  return a_at(w, i) - 0.1 * b_at(w, i) / (fabs(b_at(w, i)) + 1e-8);
}
BUILD(adamw, update(w, c, clade_adamw(.lr = 0.1)))
static double adamw_of(const bench_op_work *w, int64_t i) { return adam_of(w, i) - 0.1 * 0.01 * a_at(w, i); }

/* The errors allowed for sums over x are those of a random walk of 2^24 steps. */
const bench_op bench_op_table[] = {
    {"relu", "eltwise", 2, BENCH_IMAGE, BENCH_RESULT, relu, relu_of, 0, BENCH_COPY},
    {"gelu", "eltwise", 2, BENCH_IMAGE, BENCH_RESULT, gelu, gelu_of, 1e-6, BENCH_COPY},
    {"relu_grad", "eltwise", 3, BENCH_IMAGE, BENCH_GRAD, relu, relu_grad_of, 0, BENCH_COPY},
    {"gelu_grad", "eltwise", 3, BENCH_IMAGE, BENCH_GRAD, gelu, gelu_grad_of, 1e-6, BENCH_COPY},
    {"add", "eltwise", 3, BENCH_IMAGE, BENCH_RESULT, add, add_of, 1e-6, BENCH_COPY},
    {"add_relu", "eltwise", 3, BENCH_IMAGE, BENCH_RESULT, add_relu, add_relu_of, 1e-6, BENCH_COPY},
    {"bias", "eltwise", 2, BENCH_IMAGE, BENCH_RESULT, bias, bias_of, 1e-6, BENCH_COPY},
    {"bias_last", "eltwise", 2, BENCH_MATRIX, BENCH_RESULT, bias_last, bias_last_of, 1e-6, BENCH_COPY},
    {"max_pool", "max_pool2d", 1.25, BENCH_IMAGE, BENCH_RESULT, max_pool, max_pool_of, 0, BENCH_COPY},
    {"max_pool_3x3s2", "max_pool2d", 1.25, BENCH_IMAGE, BENCH_RESULT, max_pool3, max_pool3_of, 0, BENCH_COPY},
    {"max_pool_grad", "max_pool2d_grad", 2.25, BENCH_IMAGE, BENCH_GRAD, max_pool, max_pool_grad_of, 0, BENCH_COPY},
    {"max_pool_3x3s2_grad", "max_pool2d_grad", 2.25, BENCH_IMAGE, BENCH_GRAD, max_pool3, max_pool3_grad_of, 1e-6,
     BENCH_COPY},
    {"avg_pool", "avg_pool2d", 1.25, BENCH_IMAGE, BENCH_RESULT, avg_pool, avg_pool_of, 1e-6, BENCH_COPY},
    {"avg_pool_grad", "avg_pool2d_grad", 1.25, BENCH_IMAGE, BENCH_GRAD, avg_pool, avg_pool_grad_of, 1e-6, BENCH_SPREAD},
    {"global_avg_pool", "reduce", 1, BENCH_IMAGE, BENCH_RESULT, global_avg_pool, global_avg_pool_of, 1e-5, BENCH_READ},
    {"softmax", "softmax", 2, BENCH_MATRIX, BENCH_RESULT, softmax, softmax_of, 1e-6, BENCH_COPY},
    {"log_softmax", "softmax", 2, BENCH_MATRIX, BENCH_RESULT, log_softmax, log_softmax_of, 1e-5, BENCH_COPY},
    {"softmax_channels", "softmax", 2, BENCH_IMAGE, BENCH_RESULT, softmax, softmax_of, 1e-6, BENCH_COPY},
    {"log_softmax_channels", "softmax", 2, BENCH_IMAGE, BENCH_RESULT, log_softmax, log_softmax_of, 1e-5, BENCH_COPY},
    {"softmax_grad", "softmax", 5, BENCH_MATRIX, BENCH_STEP, softmax, softmax_grad_of, 1e-6, BENCH_COPY},
    {"log_softmax_grad", "softmax", 5, BENCH_MATRIX, BENCH_STEP, log_softmax, log_softmax_grad_of, 1e-4, BENCH_COPY},
    {"batch_norm", "eltwise", 2, BENCH_IMAGE, BENCH_RESULT, batch_norm, batch_norm_of, 1e-5, BENCH_COPY},
    {"batch_norm_train", "batch_norm", 2, BENCH_IMAGE, BENCH_RESULT, batch_norm_train, batch_norm_train_of, 1e-4,
     BENCH_COPY},
    {"batch_norm_grad", "batch_norm_grad", 5, BENCH_IMAGE, BENCH_STEP, batch_norm_train, batch_norm_grad_of, 1e-3,
     BENCH_COPY},
    {"layer_norm", "layer_norm", 2, BENCH_MATRIX, BENCH_RESULT, layer_norm, norm_of, 1e-4, BENCH_COPY},
    {"rms_norm", "layer_norm", 2, BENCH_MATRIX, BENCH_RESULT, rms_norm, norm_of, 1e-4, BENCH_COPY},
    {"group_norm", "layer_norm", 2, BENCH_IMAGE, BENCH_RESULT, group_norm, norm_of, 1e-4, BENCH_COPY},
    {"instance_norm", "layer_norm", 2, BENCH_IMAGE, BENCH_RESULT, instance_norm, norm_of, 1e-4, BENCH_COPY},
    {"layer_norm_grad", "layer_norm_grad", 5, BENCH_MATRIX, BENCH_STEP, layer_norm, norm_grad_of, 1e-4, BENCH_COPY},
    {"rms_norm_grad", "layer_norm_grad", 5, BENCH_MATRIX, BENCH_STEP, rms_norm, norm_grad_of, 1e-4, BENCH_COPY},
    {"group_norm_grad", "layer_norm_grad", 5, BENCH_IMAGE, BENCH_STEP, group_norm, norm_grad_of, 1e-4, BENCH_COPY},
    {"instance_norm_grad", "layer_norm_grad", 5, BENCH_IMAGE, BENCH_STEP, instance_norm, norm_grad_of, 1e-4,
     BENCH_COPY},
    {"sum", "reduce", 1, BENCH_IMAGE, BENCH_RESULT, sum, whole_sum, 0.1, BENCH_READ},
    {"sum_rows", "reduce", 1, BENCH_MATRIX, BENCH_RESULT, sum_along, sum_along_of, 1e-3, BENCH_READ},
    {"sum_columns", "reduce", 1, BENCH_MATRIX, BENCH_RESULT, sum_columns, column_sum, 1e-2, BENCH_READ},
    {"bias_grad", "reduce", 1, BENCH_IMAGE, BENCH_RESULT, bias_grad, channel_sum, 1e-2, BENCH_READ},
    {"sum_channels", "reduce", 1, BENCH_IMAGE, BENCH_RESULT, sum_along, sum_along_of, 1e-3, BENCH_READ},
    {"arg_max", "arg_max", 1, BENCH_MATRIX, BENCH_RESULT, arg_max, arg_max_of, 0, BENCH_READ},
    {"arg_max_channels", "arg_max", 1, BENCH_IMAGE, BENCH_RESULT, arg_max, arg_max_of, 0, BENCH_READ},
    {"transpose", "transpose", 2, BENCH_MATRIX, BENCH_RESULT, transpose, transposed, 0, BENCH_COPY},
    {"nchw_to_nhwc", "transpose", 2, BENCH_IMAGE, BENCH_RESULT, nhwc, nhwc_of, 0, BENCH_COPY},
    {"heads", "transpose", 2, BENCH_IMAGE, BENCH_RESULT, heads, heads_of, 0, BENCH_COPY},
    {"concat", "frame", 2, BENCH_NONE, BENCH_RESULT, concat, concat_of, 0, BENCH_COPY},
    {"concat_last", "frame", 2, BENCH_NONE, BENCH_RESULT, concat_last, concat_last_of, 0, BENCH_COPY},
    {"slice", "frame", 1, BENCH_IMAGE, BENCH_RESULT, slice, slice_of, 0, BENCH_COPY},
    {"slice_last", "frame", 1, BENCH_MATRIX, BENCH_RESULT, slice_last, slice_last_of, 0, BENCH_COPY},
    {"pad", "frame", 2, BENCH_IMAGE, BENCH_RESULT, pad, pad_of, 0, BENCH_COPY},
    {"gather", "gather", 2, BENCH_MATRIX, BENCH_RESULT, gather, gather_of, 0, BENCH_ROWS},
    {"gather_grad", "scatter_add", 2, BENCH_MATRIX, BENCH_GRAD, gather, gather_grad_of, 1e-5, BENCH_ROWS},
    {"gather_columns", "gather", 2, BENCH_MATRIX, BENCH_RESULT, gather_columns, gather_columns_of, 0, BENCH_COPY},
    {"embedding", "gather", 2, BENCH_MATRIX, BENCH_RESULT, gather, gather_of, 0, BENCH_ROWS},
    {"embedding_grad", "scatter_add", 2, BENCH_MATRIX, BENCH_GRAD, gather, gather_grad_of, 1e-5, BENCH_ROWS},
    {"sgd", "update", 3, BENCH_NONE, BENCH_RESULT, sgd, sgd_of, 1e-6, BENCH_COPY},
    {"momentum", "update", 5, BENCH_NONE, BENCH_RESULT, momentum, sgd_of, 1e-6, BENCH_COPY},
    {"adam", "update", 7, BENCH_NONE, BENCH_RESULT, adam, adam_of, 1e-5, BENCH_COPY},
    {"adamw", "update", 7, BENCH_NONE, BENCH_RESULT, adamw, adamw_of, 1e-5, BENCH_COPY},
    {0}};
