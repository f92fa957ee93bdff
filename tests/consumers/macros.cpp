// C's macros with options or lists compiled as C++20, and a graph that computes with some of them.
#define X "a macro of the user's own"
#include <clade/clade.h>
#include <cstdio>
#include <cstring>

// Must compile; the results of the calls do not matter.
static void all(clade_graph *g, clade_val x, clade_val w, clade_val y, clade_func *f, clade_vars *v, clade_dataset *set,
                clade_loader *l) {
  clade_val made[] = {clade_sum(g, x),
                      clade_mean(g, x, .n_axes = 1, .axes = {1}),
                      clade_reduce_max(g, x, .keep = true),
                      clade_reduce_min(g, x),
                      clade_gather(g, x, y, .axis = 1),
                      clade_scatter_add(g, x, y, x, .axis = 1),
                      clade_gemm(g, x, w, .trans_b = true, .bias = y, .beta = 0),
                      clade_fft(g, x),
                      clade_ifft(g, x),
                      clade_rfft(g, x, .n_axes = 2, .axes = {-2, -1}),
                      clade_irfft(g, x, .n = 8),
                      clade_conv1d(g, x, w, .stride = 2),
                      clade_conv1d_transpose(g, x, w, .output_pad = 1),
                      clade_conv2d(g, x, w, .stride = {2, 2}, .pad = {1, 1}),
                      clade_conv2d_transpose(g, x, w, .stride = {2, 2}),
                      clade_conv3d(g, x, w, .pad = {1, 1, 1}),
                      clade_conv3d_transpose(g, x, w),
                      clade_max_pool2d(g, x, .kernel = {2, 2}),
                      clade_avg_pool2d(g, x, .kernel = {2, 2}, .count_pad = true),
                      clade_cross_entropy(g, x, y, .smoothing = 0.1f),
                      clade_nn_linear(g, "a", x, .out = 8, .no_bias = true),
                      clade_nn_conv1d(g, "b", x, .out = 8, .kernel = 3),
                      clade_nn_conv1d_transpose(g, "c", x, .out = 8, .kernel = 3),
                      clade_nn_conv2d(g, "d", x, .out = 8, .kernel = {3, 3}),
                      clade_nn_conv2d_transpose(g, "e", x, .out = 8, .kernel = {3, 3}),
                      clade_nn_conv3d(g, "f", x, .out = 8, .kernel = {3, 3, 3}),
                      clade_nn_conv3d_transpose(g, "g", x, .out = 8, .kernel = {3, 3, 3}),
                      clade_nn_batch_norm(g, "h", x, .eps = 0, .momentum = 0),
                      clade_nn_layer_norm(g, "i", x, .n_axes = 2),
                      clade_nn_rms_norm(g, "j", x, .eps = 0),
                      clade_nn_group_norm(g, "k", x, .groups = 2),
                      clade_nn_instance_norm(g, "l", x),
                      clade_nn_embedding(g, "m", x, .count = 10, .width = 4),
                      clade_nn_dropout(g, "n", x, .p = 0.5f)};
  (void)made;
  clade_minimize(g, x, .optimizer = clade_adam(.lr = 0, .beta1 = 0), .schedule = clade_cosine(.steps = 9));
  clade_minimize_sums(g, g, .optimizer = clade_adamw(.weight_decay = 0), .schedule = clade_step_decay(.every = 9));
  clade_minimize(g, x, .optimizer = clade_sgd(.lr = 0), .schedule = clade_one_cycle(.steps = 9, .end = 0));
  clade_minimize(g, x, .optimizer = clade_rmsprop(), .schedule = clade_constant_rate(.warmup = 3));
  clade_tune(f, CLADE_TUNE_QUICK, .seconds = 1);
  clade_vars_save(v, "none", .weights_only = true);
  clade_vars_load(v, "none");
  clade_checkpoint_save(nullptr, v, 1, "text", .keep = 2);
  clade_loader_new(set, &l, .batch = 8, .augment = {.shift = 2, .flip = true});
  clade_init(.cache_dir = "none");
}

static clade_status compute(float *y) {
  static const float w[] = {1, -1, 2, -2, 3, 3}, x[] = {1, 1, 1, 0, 2, -1};
  clade_device *device = nullptr;
  clade_graph *g = nullptr;
  clade_func *func = nullptr, *two = nullptr;
  clade_run *run = nullptr;
  clade_ticket ticket = 0;
  clade_status status = clade_device_find(nullptr, &device);
  if (status == CLADE_OK) status = clade_graph_new(&g);
  clade_val in = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(CLADE_DIM("batch"), 3));
  clade_val product = clade_gemm(g, in, clade_constant(g, CLADE_F32, CLADE_SHAPE(3, 2), w), .alpha = 2);
  clade_output(g, "y", clade_relu(g, product));
  if (status == CLADE_OK) status = clade_compile(g, device, &func, .strict = true);
  if (status == CLADE_OK) status = clade_func_specialize(func, CLADE_DIMS({"batch", 2}), &two);
  if (status == CLADE_OK) status = clade_run_new(two, nullptr, &run, .slots = 1);
  if (status == CLADE_OK)
    status = clade_execute(run, CLADE_FEEDS({.name = "x", .data = x, .bytes = sizeof x}), &ticket);
  if (status == CLADE_OK) status = clade_read(run, ticket, "y", y, 4 * sizeof *y);
  clade_run_free(run);
  clade_func_release(two);
  clade_func_release(func);
  clade_graph_release(g);
  clade_device_release(device);
  return status;
}

int main() {
  float y[4] = {};
  all(nullptr, {}, {}, {}, nullptr, nullptr, nullptr, nullptr);
  if (compute(y) != CLADE_OK) return std::fprintf(stderr, "%s\n", clade_last_error()), 1;
  std::printf("%g %g %g %g, %s\n", double(y[0]), double(y[1]), double(y[2]), double(y[3]), X);
  return !(y[0] == 12 && y[1] == 0 && y[2] == 2 && y[3] == 0 && !std::strcmp(X, "a macro of the user's own"));
}
