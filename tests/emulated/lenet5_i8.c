/* LeNet-5, trained by train.digits and quantized to int8, classifies images with array_i8 of the emulated
 * accelerator, which is replaced by the array in RTL. Sums must equal those of plain loops, and cycle counts those
 * of the formula. The bundle's kernel is empty, so only the array can have computed the results. */
#include <math.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "kit.h"
#include "model/array.h"

enum { IMAGES = 100, LAYERS = 5, CLASSES = 10, INPUT = 28, MOST = 6 * IMAGES * INPUT * INPUT };
enum { SCALE_BITS = 24 };

/* Every layer is a convolution: fc1 over the whole image, fc2 and fc3 of 1 x 1. */
typedef struct layer {
  const char *name, *tap; /* tap: name of its result in f32 */
  int out, in, kernel, pad, side;
  bool hidden, pooled;
  int8_t *weight;
  int32_t bias[120], factor[120]; /* factor: scale to the next layer's input, in units of 2^-SCALE_BITS */
} layer;
#define LAYER(name, tap, out, in, kernel, pad, side, hidden, pooled)        \
  {                                                                         \
    name, tap, out, in, kernel, pad, side, hidden, pooled, NULL, {0}, { 0 } \
  }
static layer layers[LAYERS] = {
    LAYER("conv1", "tap1", 6, 1, 5, 2, 28, true, true), LAYER("conv2", "tap2", 16, 6, 5, 0, 14, true, true),
    LAYER("fc1", "tap3", 120, 16, 5, 0, 5, true, false), LAYER("fc2", "tap4", 84, 120, 1, 0, 1, true, false),
    LAYER("fc3", "tap5", CLASSES, 84, 1, 0, 1, false, false)};

static int width(const layer *l) { return l->side + 2 * l->pad - l->kernel + 1; } /* of the result */
static int depth(const layer *l) { return l->in * l->kernel * l->kernel; }

static const char *weights; /* path of the file */

static void *room(size_t n, size_t bytes) {
  void *p = calloc(n + 1, bytes);
  assert_non_null(p);
  return p;
}

/* ---- f32 on PoCL's own device ---- */
/* Every layer's result is an output. */
static void network(clade_graph *g) {
  clade_val h = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(IMAGES, 1, INPUT, INPUT));
  for (int i = 0; i < LAYERS; i++) {
    const layer *l = &layers[i];
    if (i < 2) {
      h = clade_nn_conv2d(g, l->name, h, .out = l->out, .kernel = {l->kernel, l->kernel}, .pad = {l->pad, l->pad});
    } else {
      if (i == 2) h = clade_flatten(g, h, 1);
      h = clade_nn_linear(g, l->name, h, .out = l->out);
    }
    if (l->hidden) h = clade_relu(g, h);
    clade_output(g, l->tap, h);
    if (l->pooled) h = clade_max_pool2d(g, h, .kernel = {2, 2});
  }
}

/* Loads images of the training or the test set. */
static void load(bool training, float *x, int32_t *label) {
  clade_dataset *images;
  check_ok(clade_dataset_open("digits", training, &images));
  for (int i = 0; i < IMAGES; i++) check_ok(clade_dataset_get(images, i, x + (size_t)i * INPUT * INPUT, label + i));
  clade_dataset_release(images);
}

typedef struct net {
  clade_func *func;
  clade_vars *vars;
  clade_run *run;
} net;

static net net_new(clade_device *device) {
  net n;
  clade_graph *g;
  check_ok(clade_graph_new(&g));
  network(g);
  check_ok(clade_compile(g, device, &n.func, .prefer = "conv2d=ref,gemm=ref,max_pool2d=ref,eltwise=ref"));
  check_ok(clade_vars_new(n.func, 1, &n.vars));
  check_ok(clade_vars_load(n.vars, weights));
  check_ok(clade_run_new(n.func, n.vars, &n.run));
  clade_graph_release(g);
  return n;
}

static void net_free(net *n) {
  clade_run_free(n->run);
  clade_vars_release(n->vars);
  clade_func_release(n->func);
}

/* Number of correctly classified images, and the largest result of each layer. */
static int classify_f32(const net *n, const float *x, const int32_t *label, float largest[LAYERS]) {
  clade_ticket ticket;
  int right = 0;
  check_ok(clade_execute(n->run, CLADE_FEEDS({"x", x, sizeof(float) * IMAGES * INPUT * INPUT, NULL}), &ticket));
  float *y = room(MOST, sizeof *y);
  for (int i = 0; i < LAYERS; i++) {
    const size_t results = (size_t)(IMAGES * layers[i].out * width(&layers[i]) * width(&layers[i]));
    check_ok(clade_read(n->run, ticket, layers[i].tap, y, results * sizeof *y));
    largest[i] = 0;
    for (size_t j = 0; j < results; j++) largest[i] = fmaxf(largest[i], fabsf(y[j]));
  }
  for (int i = 0; i < IMAGES; i++) {
    int best = 0;
    for (int c = 1; c < CLASSES; c++)
      if (y[i * CLASSES + c] > y[i * CLASSES + best]) best = c;
    right += best == label[i];
  }
  free(y);
  return right;
}

/* ---- quantization: symmetric, per channel for weights, per layer for activations ---- */
static void quantize(layer *l, const clade_vars *vars, float scale_in, float scale_out) {
  const int k = depth(l);
  char name[32];
  float *w = room((size_t)(l->out * k), sizeof *w), bias[120];
  l->weight = room((size_t)(l->out * k), 1);
  snprintf(name, sizeof name, "%s.weight", l->name);
  check_ok(clade_vars_get(vars, name, w, sizeof *w * (size_t)(l->out * k)));
  snprintf(name, sizeof name, "%s.bias", l->name);
  check_ok(clade_vars_get(vars, name, bias, sizeof *bias * (size_t)l->out));
  for (int o = 0; o < l->out; o++) {
    float most = 1e-9f;
    for (int i = 0; i < k; i++) most = fmaxf(most, fabsf(w[o * k + i]));
    const float scale = most / 127;
    for (int i = 0; i < k; i++) l->weight[o * k + i] = (int8_t)lrintf(w[o * k + i] / scale);
    l->bias[o] = (int32_t)lrintf(bias[o] / (scale * scale_in));
    l->factor[o] = (int32_t)lrintf(scale * scale_in / scale_out * (1 << SCALE_BITS));
  }
  free(w);
}

static int8_t narrowed(const layer *l, int o, int32_t sum) {
  const int64_t v = ((int64_t)sum * l->factor[o] + (1 << (SCALE_BITS - 1))) >> SCALE_BITS;
  return (int8_t)(v > 127 ? 127 : v < -127 ? -127 : v);
}

/* ---- on the accelerator: results of all images as [channel][image][y][x] ---- */
/* im2col. */
static void unfold(const layer *l, const int8_t *x, int8_t *columns) {
  const int w = width(l), n = IMAGES * w * w;
  for (int k = 0; k < depth(l); k++)
    for (int j = 0; j < n; j++) {
      const int c = k / (l->kernel * l->kernel), image = j / (w * w);
      const int y = j / w % w + k / l->kernel % l->kernel - l->pad, at = j % w + k % l->kernel - l->pad;
      const bool inside = y >= 0 && at >= 0 && y < l->side && at < l->side;
      columns[k * n + j] = inside ? x[((c * IMAGES + image) * l->side + y) * l->side + at] : 0;
    }
}

/* relu(weight columns + bias), with bias and ReLU in the array's epilogue. */
static void multiply(clade_device *device, const layer *l, const int8_t *columns, int32_t *y) {
  const int64_t m = l->out, k = depth(l), n = (int64_t)IMAGES * width(l) * width(l);
  clade_graph *g;
  clade_func *func;
  clade_run *run;
  clade_ticket ticket;
  check_ok(clade_graph_new(&g));
  clade_val w = clade_input(g, "w", CLADE_I8, CLADE_SHAPE(m, k)), x = clade_input(g, "x", CLADE_I8, CLADE_SHAPE(k, n));
  clade_val b = clade_input(g, "b", CLADE_I32, CLADE_SHAPE(m, 1)), sum = clade_gemm(g, w, x, .bias = b);
  clade_output(g, "y", l->hidden ? clade_relu(g, sum) : sum);
  check_ok(clade_compile(g, device, &func));
  int count = 0;
  check_ok(clade_func_impl_count(func, &count));
  assert_int_equal(count, 1);
  clade_impl_info info = {.size = sizeof info};
  check_ok(clade_func_impl(func, 0, &info));
  assert_string_equal(info.impl, "systolic_i8");
  check_ok(clade_run_new(func, NULL, &run));
  check_ok(clade_execute(run,
                         CLADE_FEEDS({"w", l->weight, (size_t)(m * k), NULL}, {"x", columns, (size_t)(k * n), NULL},
                                     {"b", l->bias, sizeof(int32_t) * (size_t)m, NULL}),
                         &ticket));
  check_ok(clade_read(run, ticket, "y", y, sizeof *y * (size_t)(m * n)));
  clade_run_free(run);
  clade_func_release(func);
  clade_graph_release(g);
}

/* ---- reference for one image ---- */
static int32_t reference(const layer *l, const int8_t *x, int image, int o, int y0, int x0) {
  int32_t sum = l->bias[o];
  for (int c = 0; c < l->in; c++)
    for (int y = y0 - l->pad; y < y0 - l->pad + l->kernel; y++)
      for (int at = x0 - l->pad; at < x0 - l->pad + l->kernel; at++) {
        if (y < 0 || at < 0 || y >= l->side || at >= l->side) continue;
        const int tap = (y - y0 + l->pad) * l->kernel + at - x0 + l->pad;
        sum += l->weight[(o * l->in + c) * l->kernel * l->kernel + tap] *
               x[((c * IMAGES + image) * l->side + y) * l->side + at];
      }
  return l->hidden && sum < 0 ? 0 : sum;
}

static void compare(const layer *l, const int8_t *x, const int32_t *y) {
  const int w = width(l);
  for (int o = 0; o < l->out; o++)
    for (int image = 0; image < IMAGES; image++)
      for (int p = 0; p < w * w; p++) {
        const int32_t got = y[(o * IMAGES + image) * w * w + p], want = reference(l, x, image, o, p / w, p % w);
        if (got != want) fail_msg("%s: image %d, channel %d, pixel %d: %d, not %d", l->name, image, o, p, got, want);
      }
}

/* Input of the next layer: max-pooled if required, and requantized. */
static void pass_on(const layer *l, const int32_t *y, int8_t *x) {
  const int w = width(l), step = l->pooled ? 2 : 1, side = w / step;
  for (int plane = 0; plane < l->out * IMAGES; plane++)
    for (int p = 0; p < side * side; p++) {
      int32_t most = INT32_MIN;
      for (int t = 0; t < step * step; t++) {
        const int32_t v = y[(plane * w + p / side * step + t / step) * w + p % side * step + t % step];
        most = v > most ? v : most;
      }
      x[plane * side * side + p] = narrowed(l, plane / IMAGES, most);
    }
}

/* The log must have the self-test first, then the layers. */
static int64_t check_log(void) {
  const array_shape shape = {8, 8, 5};
  const char *path = getenv("CLADE_RTL_LOG");
  assert_non_null(path);
  FILE *log = fopen(path, "r");
  assert_non_null(log);
  int64_t all = 0;
  for (int i = -1; i < LAYERS; i++) {
    const layer *l = &layers[i < 0 ? 0 : i];
    const array_work w = i < 0 ? (array_work){2, 2, 3} : (array_work){l->out, IMAGES * width(l) * width(l), depth(l)};
    long long batches, m, n, k, cycles;
    assert_int_equal(
        fscanf(log, "array_i8 batches %lld m %lld n %lld k %lld cycles %lld\n", &batches, &m, &n, &k, &cycles), 5);
    assert_true(batches == 1 && m == w.m && n == w.n && k == w.k);
    assert_int_equal(cycles, array_cycles(&shape, &w));
    if (i >= 0) all += cycles;
  }
  assert_int_equal(fgetc(log), EOF);
  fclose(log);
  return all;
}

/* ---- bundle ---- */
static clade__bundle_kernel array_i8(void) {
  size_t n;
  const clade__bundle_kernel *kernels = clade__interface_kernels(&n);
  for (size_t i = 0; i < n; i++)
    if (strcmp(kernels[i].name, "array_i8") == 0) return kernels[i];
  fail_msg("the interface has no array_i8");
  return kernels[0];
}

static void write_bundle(void) {
  clade__bundle_kernel kernel = array_i8();
  clade__text source = {0};
  char *text;
  clade__text_add(&source, "__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void array_i8(");
  for (size_t i = 0; i < kernel.n_arguments; i++)
    clade__text_add(&source, "%s%s %s", i ? ", " : "", kernel.arguments[i].type, kernel.arguments[i].name);
  clade__text_add(&source, ") {}\n");
  check_ok(clade__text_take(&source, &text));
  kit_binary binary = kit_compile(text, false);
  clade__bundle_draft draft = kit_draft(binary);
  draft.manifest.kernels = &kernel;
  check_ok(clade__bundle_write(kit_path("rtl.bundle"), false, &draft));
  setenv("CLADE_BUNDLE_PATH", kit_path("rtl.bundle"), 1);
  clade__free(binary.data);
  clade__free(text);
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void it_classifies(void **state) {
  (void)state;
  static float x[IMAGES * INPUT * INPUT], largest[LAYERS], unused[LAYERS];
  static int8_t now[MOST], columns[25 * IMAGES * INPUT * INPUT];
  static int32_t y[MOST];
  int32_t label[IMAGES];
  clade_device *pocl, *emulated;
  check_ok(clade_device_find("pocl", &pocl));
  net trained = net_new(pocl);
  load(true, x, label);
  classify_f32(&trained, x, label, largest);
  load(false, x, label);
  const int right_f32 = classify_f32(&trained, x, label, unused);
  float scale = 1.0f / 127; /* pixels are in [0, 1] */
  for (int i = 0; i < LAYERS; i++) {
    const float next = largest[i] / 127;
    quantize(&layers[i], trained.vars, scale, next);
    scale = next;
  }
  for (int i = 0; i < IMAGES * INPUT * INPUT; i++) now[i] = (int8_t)lrintf(x[i] * 127);
  unlink(getenv("CLADE_RTL_LOG"));
  write_bundle();
  check_ok(clade_device_find("emulated", &emulated));
  const double begun = seconds();
  for (int i = 0; i < LAYERS; i++) {
    unfold(&layers[i], now, columns);
    multiply(emulated, &layers[i], columns, y);
    compare(&layers[i], now, y);
    pass_on(&layers[i], y, now);
  }
  int right = 0;
  for (int i = 0; i < IMAGES; i++) {
    int best = 0;
    for (int c = 1; c < CLASSES; c++) {
      const float a = (float)y[c * IMAGES + i] * (float)layers[4].factor[c],
                  b = (float)y[best * IMAGES + i] * (float)layers[4].factor[best];
      if (a > b) best = c;
    }
    right += best == label[i];
  }
  const double took = seconds() - begun;
  printf("%d images of %d right in int8, %d in f32; %lld cycles, simulated and compared in %.1f s\n", right, IMAGES,
         right_f32, (long long)check_log(), took);
  assert_true(took < 60);
  assert_true(abs(right - right_f32) * 100 <= IMAGES);
  assert_true(right >= 95);
  for (int i = 0; i < LAYERS; i++) free(layers[i].weight);
  net_free(&trained);
  clade_device_release(pocl);
  clade_device_release(emulated);
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  weights = argv[1];
  const struct CMUnitTest tests[] = {cmocka_unit_test(it_classifies)};
  return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
