/* LeNet-5 trains on the emulated accelerator with bundle kernels only, to the losses and the accuracy of PoCL's own
 * device. */
#include <clade/clade.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/models.h"
#include "squares.h"

enum { STEPS = 20, BATCH = 16, PIXELS = BATCH * SIDE * SIDE };

static void check(bool ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "%s: %s\n", what, clade_last_error());
  exit(1);
}

/* Checks that every node has such an implementation. */
static void check_impls(const clade_func *func, bool bundled) {
  int count = 0;
  check(clade_func_impl_count(func, &count) == CLADE_OK && count > 20, "implementations");
  for (int i = 0; i < count; i++) {
    clade_impl_info info = {.size = sizeof info};
    check(clade_func_impl(func, i, &info) == CLADE_OK, "an implementation");
    if ((strncmp(info.impl, "systolic", 8) == 0) == bundled) continue;
    fprintf(stderr, "%s %s is computed by %s\n", info.op, info.node, info.impl);
    exit(1);
  }
}

/* Implementations that compile fastest. */
static const char refs[] = "conv2d=ref,conv2d_data=ref,conv2d_weights=ref,gemm=ref,reduce=ref,max_pool2d=ref,"
                           "max_pool2d_grad=ref,eltwise=ref";

/* *right: of STEPS * BATCH images. */
static void train(const char *spec, clade_optimizer optimizer, float loss[STEPS], float *right) {
  static float x[PIXELS];
  int32_t label[BATCH];
  clade_device *device;
  clade_graph *g = NULL;
  clade_func *func;
  clade_vars *vars;
  clade_run *run;
  clade_ticket ticket;
  check(clade_device_find(spec, &device) == CLADE_OK && clade_graph_new(&g) == CLADE_OK, spec);
  clade_graph_train(g, true);
  clade_val images = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(BATCH, 1, SIDE, SIDE));
  clade_val labels = clade_input(g, "label", CLADE_I32, CLADE_SHAPE(BATCH));
  clade_val logits = lenet5(g, images, 10, NULL), error = clade_cross_entropy(g, logits, labels);
  clade_val hits = clade_sum(g, clade_cast(g, clade_eq(g, clade_arg_max(g, logits, 1), labels), CLADE_F32));
  clade_output(g, "loss", error);
  clade_output(g, "right", hits);
  check(clade_minimize(g, error, .optimizer = optimizer) == CLADE_OK, "clade_minimize");
  bool bundled = strcmp(spec, "emulated") == 0;
  check(clade_compile(g, device, &func, .prefer = bundled ? NULL : refs) == CLADE_OK, spec);
  check_impls(func, bundled);
  check(clade_vars_new(func, 42, &vars) == CLADE_OK && clade_run_new(func, vars, &run) == CLADE_OK, spec);
  *right = 0;
  for (int i = 0; i < STEPS; i++) {
    float n;
    draw_squares(i, BATCH, x, label);
    check(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}, {"label", label, sizeof label, NULL}), &ticket) ==
              CLADE_OK,
          "clade_execute");
    check(clade_read(run, ticket, "loss", &loss[i], sizeof *loss) == CLADE_OK, "clade_read");
    check(clade_read(run, ticket, "right", &n, sizeof n) == CLADE_OK, "clade_read");
    *right += n;
  }
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
  clade_graph_release(g);
  clade_device_release(device);
}

static void compare(const char *name, clade_optimizer optimizer) {
  float own[STEPS], emulated[STEPS], own_right, right, worst = 0;
  train("pocl", optimizer, own, &own_right);
  train("emulated", optimizer, emulated, &right);
  for (int i = 0; i < STEPS; i++) worst = fmaxf(worst, fabsf(own[i] - emulated[i]));
  printf("%s: losses from %.4f to %.4f, at most %.2g apart; %g and %g images right\n", name, (double)own[0],
         (double)own[STEPS - 1], (double)worst, (double)own_right, (double)right);
  check(worst <= 1e-5f && own[STEPS - 1] < 0.9f * own[0], "the losses differ, or do not fall");
  check(fabsf(right - own_right) <= 0.007f * STEPS * BATCH, "the accuracies differ");
}

int main(void) {
  compare("adam", clade_adam(.lr = 0.001));
  return 0;
}
