/* Fallback device: a network with ops that the bundle lacks, on the emulated accelerator with PoCL's device as
 * fallback. Trains to the losses of PoCL's device alone, with the heavy ops on the accelerator. Also forced
 * placement, measured placement, refusals, and models that need no fallback. */
#include "../unit/cl_unit.h"

#include <math.h>
#include <stdlib.h>

#include <clade/clade.h>

#include "models/models.h"
#include "squares.h"
#include "plan/plan.h"

enum { STEPS = 6, BATCH = 4, PIXELS = BATCH * SIDE * SIDE };

static clade_device *accelerator, *fallback;

/* Implementations that compile fastest. */
static const char refs[] = "conv2d=ref,conv2d_data=ref,conv2d_weights=ref,gemm=ref,reduce=ref,max_pool2d=ref,"
                           "max_pool2d_grad=ref,eltwise=ref";

/* LeNet-5 with gelu and layer_norm, which no kernel of the bundle computes. */
static clade_graph *network(bool trains) {
  clade_graph *g;
  check_ok(clade_graph_new(&g));
  clade_graph_train(g, trains);
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(BATCH, 1, SIDE, SIDE));
  clade_val label = clade_input(g, "label", CLADE_I32, CLADE_SHAPE(BATCH));
  clade_val h = clade_nn_layer_norm(g, "ln", clade_gelu(g, lenet5(g, x, 32, NULL)));
  clade_val logits = clade_nn_linear(g, "last", h, .out = 10), loss = clade_cross_entropy(g, logits, label);
  clade_output(g, "loss", loss);
  if (trains) check_ok(clade_minimize(g, loss, .optimizer = clade_adam(.lr = 0.002)));
  return g;
}

static clade_func *compile(clade_device *device, bool trains, clade_device *with, const char *place,
                           const char *prefer) {
  clade_graph *g = network(trains);
  clade_func *func;
  check_ok(clade_compile(g, device, &func, .fallback = with, .place = place, .prefer = prefer));
  clade_graph_release(g);
  return func;
}

static void run(clade_func *func, int steps, float *loss) {
  static float x[PIXELS];
  int32_t label[BATCH];
  clade_vars *vars;
  clade_run *run;
  clade_ticket ticket;
  check_ok(clade_vars_new(func, 42, &vars));
  check_ok(clade_run_new(func, vars, &run));
  for (int i = 0; i < steps; i++) {
    draw_squares(i, BATCH, x, label);
    check_ok(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}, {"label", label, sizeof label, NULL}), &ticket));
    check_ok(clade_read(run, ticket, "loss", &loss[i], sizeof *loss));
  }
  clade_run_free(run);
  clade_vars_release(vars);
}

/* Number of nodes of the op on the device; NULL: of all ops. On the accelerator, each must have a bundle kernel. */
static int nodes(const clade_func *func, const char *op, int device) {
  int count, found = 0;
  check_ok(clade_func_impl_count(func, &count));
  for (int i = 0; i < count; i++) {
    clade_impl_info info = {.size = sizeof info};
    check_ok(clade_func_impl(func, i, &info));
    assert_int_equal(strncmp(info.impl, "systolic", 8) == 0, info.device == 0);
    found += info.device == device && (!op || strcmp(info.op, op) == 0);
  }
  return found;
}

static uint64_t crossing(const clade_func *func, int from, int to, int *copies) {
  uint64_t bytes;
  check_ok(clade_func_crossing(func, from, to, copies, &bytes));
  return bytes;
}

static void trains_beside_a_fallback(void **state) {
  (void)state;
  static const char *const heavy[] = {"conv2d", "conv2d_data", "conv2d_weights", "gemm", "max_pool2d", "update"};
  float own[STEPS], both[STEPS];
  int there, back;
  char *text;
  clade_func *alone = compile(fallback, true, NULL, NULL, refs),
             *func = compile(accelerator, true, fallback, "conv2d_data=home", NULL); /* the estimates are close there */
  run(alone, STEPS, own);
  run(func, STEPS, both);
  for (int i = 0; i < STEPS; i++)
    if (fabsf(own[i] - both[i]) > 1e-5f) fail_msg("step %d: %.7f, PoCL alone %.7f", i, (double)both[i], (double)own[i]);
  assert_true(own[STEPS - 1] < own[0]);
  for (size_t i = 0; i < sizeof heavy / sizeof *heavy; i++) {
    if (!nodes(func, heavy[i], 0)) fail_msg("no %s on the accelerator", heavy[i]);
    if (nodes(func, heavy[i], 1)) fail_msg("%s on the fallback device", heavy[i]);
  }
  assert_int_equal(nodes(func, "layer_norm", 1), 1);
  assert_int_equal(nodes(func, "layer_norm_grad", 1), 1);
  assert_true(crossing(func, 0, 1, &there) > 0 && crossing(func, 1, 0, &back) > 0);
  check_ok(clade_func_explain(func, &text));
  assert_non_null(strstr(text, "on Clade emulated accelerator systolic: its kernel lacks one of the functions"));
  assert_non_null(strstr(text, "on Clade emulated accelerator: no kernel of bundles is made for it"));
  assert_non_null(strstr(text, "copies from Clade emulated accelerator to "));
  clade_text_free(text);
  clade_func_release(alone);
  clade_func_release(func);
}

/* Nodes that the accelerator supports are forced to the fallback device, and back. Planned only, not compiled. */
static void forced(void **state) {
  (void)state;
  int free_there, free_back, there, back;
  clade__plan_only = true;
  clade_func *chosen = compile(accelerator, false, fallback, "conv2d=home,max_pool2d=home,gemm=home", NULL);
  clade_func *func = compile(accelerator, false, fallback, "conv2d=home,max_pool2d=fallback,gemm=home", NULL);
  assert_int_equal(nodes(chosen, "max_pool2d", 1), 0);
  assert_int_equal(nodes(func, "max_pool2d", 1), 2);
  assert_int_equal(nodes(func, "conv2d", 1), 0);
  uint64_t bytes = crossing(func, 0, 1, &there) - crossing(chosen, 0, 1, &free_there);
  assert_int_equal(there - free_there, 2);
  assert_int_equal(bytes, BATCH * 4 * (6 * 28 * 28 + 16 * 10 * 10));
  bytes = crossing(func, 1, 0, &back) - crossing(chosen, 1, 0, &free_back);
  assert_int_equal(back - free_back, 2);
  assert_int_equal(bytes, BATCH * 4 * (6 * 14 * 14 + 16 * 5 * 5));
  clade_func_release(chosen);
  clade_func_release(func);
  clade__plan_only = false;
}

/* Inference needs no fallback device for any model. ResNet-18 gives the results of PoCL's device. */
static clade_func *inference(clade_device *device, clade_model_fn *model, clade_shape images, const char *prefer) {
  clade_graph *g;
  clade_func *func;
  check_ok(clade_graph_new(&g));
  clade_val x = clade_input(g, "x", CLADE_F32, images);
  clade_output(g, "p", clade_softmax(g, model(g, x, 10, NULL), 1));
  check_ok(clade_compile(g, device, &func, .prefer = prefer));
  clade_graph_release(g);
  return func;
}

static void answer(clade_func *func, clade_vars *vars, const float *x, size_t bytes, float p[10]) {
  clade_run *run;
  clade_ticket ticket;
  check_ok(clade_run_new(func, vars, &run));
  check_ok(clade_execute(run, CLADE_FEEDS({"x", x, bytes, NULL}), &ticket));
  check_ok(clade_read(run, ticket, "p", p, 10 * sizeof *p));
  clade_run_free(run);
}

static void models_are_whole(void **state) {
  (void)state;
  static float x[3 * 32 * 32];
  const clade_shape small = CLADE_SHAPE(1, 3, 32, 32), large = CLADE_SHAPE(1, 3, 224, 224);
  float p[10], want[10];
  clade_vars *vars[2];
  clade_model_fn *const models[] = {mobilenetv2, vgg16};
  clade__plan_only = true;
  for (size_t i = 0; i < 2; i++) {
    clade_func *func = inference(accelerator, models[i], large, NULL);
    assert_int_equal(nodes(func, NULL, 1), 0);
    clade_func_release(func);
  }
  clade__plan_only = false;
  clade_func *func = inference(accelerator, resnet18, small, NULL), *own = inference(fallback, resnet18, small, refs);
  assert_true(nodes(func, "conv2d", 0) == 20 && nodes(func, NULL, 1) == 0);
  for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)(i * 7 % 256) / 255;
  check_ok(clade_vars_new(func, 42, &vars[0]));
  check_ok(clade_vars_new(own, 42, &vars[1]));
  answer(func, vars[0], x, sizeof x, p);
  answer(own, vars[1], x, sizeof x, want);
  for (int i = 0; i < 10; i++) assert_true(fabsf(p[i] - want[i]) <= 1e-5f);
  for (int i = 0; i < 2; i++) clade_vars_release(vars[i]);
  clade_func_release(func);
  clade_func_release(own);
}

/* Two steps of ResNet-18 with batch normalization on the accelerator. The array's line buffer is too small for the
 * weight gradients of strided 1 x 1 convolutions. */
static void train_resnet(clade_device *device, clade_device *with, const char *prefer, float loss[2]) {
  static float x[2 * 3 * 32 * 32];
  const int32_t label[2] = {3, 7};
  clade_graph *g;
  clade_func *func;
  clade_vars *vars;
  clade_run *run;
  clade_ticket ticket;
  check_ok(clade_graph_new(&g));
  clade_graph_train(g, true);
  clade_val images = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2, 3, 32, 32));
  clade_val labels = clade_input(g, "label", CLADE_I32, CLADE_SHAPE(2));
  clade_val error = clade_cross_entropy(g, resnet18(g, images, 10, NULL), labels);
  clade_output(g, "loss", error);
  check_ok(clade_minimize(g, error, .optimizer = clade_sgd(.lr = 0.001)));
  check_ok(clade_compile(g, device, &func, .fallback = with, .prefer = prefer,
                         .place = with ? "batch_norm=home,batch_norm_grad=home" : NULL));
  if (with) assert_int_equal(nodes(func, "batch_norm", 0) + nodes(func, "batch_norm_grad", 0), 40);
  for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)(i * 7 % 256) / 255;
  check_ok(clade_vars_new(func, 42, &vars));
  check_ok(clade_run_new(func, vars, &run));
  for (int i = 0; i < 2; i++) {
    check_ok(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}, {"label", label, sizeof label, NULL}), &ticket));
    check_ok(clade_read(run, ticket, "loss", &loss[i], sizeof *loss));
  }
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
  clade_graph_release(g);
}

static void resnet_trains(void **state) {
  (void)state;
  float loss[2], want[2];
  train_resnet(accelerator, fallback, NULL, loss);
  train_resnet(fallback, NULL, refs, want);
  for (int i = 0; i < 2; i++)
    if (!(fabsf(loss[i] - want[i]) <= 1e-3f)) fail_msg("step %d: %g, not %g", i, (double)loss[i], (double)want[i]);
  assert_true(loss[1] < loss[0]);
}

/* The cycle model estimates that a product on the array is faster than two copies. The emulation of the array is
 * much slower than the fallback device, so measuring moves the product there. */
static void what_was_measured(void **state) {
  (void)state;
  enum { N = 256 };
  for (int tuned = 0; tuned < 2; tuned++) {
    clade_graph *g;
    clade_func *func;
    check_ok(clade_graph_new(&g));
    clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N, N)),
              w = clade_input(g, "w", CLADE_F32, CLADE_SHAPE(N, N));
    clade_output(g, "y", clade_gemm(g, x, w));
    check_ok(clade_compile(g, accelerator, &func, .fallback = fallback));
    assert_int_equal(nodes(func, "gemm", 1), tuned);
    /* Time limit: compiles while other tests run. */
    if (!tuned) check_ok(clade_tune(func, CLADE_TUNE_QUICK, .seconds = 20));
    clade_func_release(func);
    clade_graph_release(g);
  }
}

static clade_status refused(clade_device *with, const char *place) {
  clade_graph *g = network(false);
  clade_func *func;
  clade_status status = clade_compile(g, accelerator, &func, .fallback = with, .place = place);
  if (status == CLADE_OK) clade_func_release(func);
  clade_graph_release(g);
  return status;
}

static void refusals(void **state) {
  (void)state;
  check_fails(refused(NULL, NULL), CLADE_UNSUPPORTED, "on Clade emulated accelerator: no implementation takes it");
  check_fails(refused(NULL, NULL), CLADE_UNSUPPORTED, "a fallback device, one that compiles, may take it (.fallback");
  check_fails(refused(accelerator, NULL), CLADE_UNSUPPORTED,
              "nor does the fallback device, Clade emulated accelerator");
  check_fails(refused(fallback, "layer_norm=home"), CLADE_UNSUPPORTED, "; the fallback device, ");
  check_fails(refused(NULL, "gemm=fallback"), CLADE_INVALID, "there is no fallback device to be placed on");
  check_fails(refused(fallback, "gem=fallback"), CLADE_NOT_FOUND,
              "\"gem=fallback\": the graph computes no node of that name, and");
  check_fails(refused(fallback, "gemm=home,gemm=fallback"), CLADE_INVALID, "once for each");
  check_fails(refused(fallback, "gemm=here"), CLADE_INVALID, "NAME=home or NAME=fallback is expected");
  check_fails(refused(fallback, "gemm"), CLADE_INVALID, "NAME=home or NAME=fallback is expected");
}

static int set_up(void **state) {
  (void)state;
  check_ok(clade_device_find("emulated", &accelerator));
  check_ok(clade_device_find("pocl", &fallback));
  return 0;
}
static int tear_down(void **state) {
  (void)state;
  clade_device_release(accelerator);
  clade_device_release(fallback);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(trains_beside_a_fallback),
                                     cmocka_unit_test(forced),
                                     cmocka_unit_test(models_are_whole),
                                     cmocka_unit_test(resnet_trains),
                                     cmocka_unit_test(refusals),
                                     cmocka_unit_test(what_was_measured)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
