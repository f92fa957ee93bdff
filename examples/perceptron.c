/* A perceptron from models/mlp.c: compiled once, specialized for two batch sizes, with weights replaced without
 * another compilation.
 *     perceptron [device] */
#include <string.h>

#include "check.h"
#include "models/mlp.h"

static void run(clade_func *any, clade_vars *vars, int64_t batch, float *p) {
  clade_func *func;
  clade_run *execution;
  clade_ticket ticket;
  size_t bytes = (size_t)batch * MLP_IN * sizeof(float);
  float *x = malloc(bytes);
  EXPECT(x);
  mlp_images(1, batch, x);
  CHECK(clade_func_specialize(any, CLADE_DIMS({"batch", batch}), &func)); /* cached in `any`: a second call is cheap */
  CHECK(clade_run_new(func, vars, &execution));
  CHECK(clade_execute(execution, CLADE_FEEDS({.name = "x", .data = x, .bytes = bytes}), &ticket));
  CHECK(clade_read(execution, ticket, "p", p, (size_t)batch * MLP_OUT * sizeof(float)));
  clade_run_free(execution);
  clade_func_release(func);
  free(x);
}

static void print_first(const char *what, const float *p) {
  printf("%-22s", what);
  for (int i = 0; i < MLP_OUT; ++i) printf(" %.3f", (double)p[i]);
  printf("\n");
}

int main(int argc, char **argv) {
  clade_device *device;
  clade_device_info info = {.size = sizeof info};
  CHECK(clade_device_find(argc > 1 ? argv[1] : NULL, &device));
  CHECK(clade_device_get_info(device, &info));
  printf("on %s (%s)\n", info.name, info.platform);

  clade_graph *graph;
  clade_func *any;
  clade_vars *vars;
  CHECK(mlp_graph(&graph));
  CHECK(clade_compile(graph, device, &any));
  CHECK(clade_vars_new(any, 42, &vars));

  float one[MLP_OUT], many[100 * MLP_OUT], changed[MLP_OUT];
  run(any, vars, 1, one);
  print_first("batch 1:", one);
  run(any, vars, 100, many);
  print_first("batch 100, the first:", many);

  float zeros[MLP_OUT * 128] = {0}, bias[MLP_OUT] = {0};
  bias[3] = 4;
  CHECK(clade_vars_set(vars, "fc3.weight", zeros, sizeof zeros));
  CHECK(clade_vars_set(vars, "fc3.bias", bias, sizeof bias));
  run(any, vars, 1, changed);
  print_first("other weights:", changed);
  for (int i = 0; i < MLP_OUT; ++i) EXPECT(i == 3 ? changed[i] > 0.8f : changed[i] < 0.03f);

  clade_vars_release(vars);
  clade_func_release(any);
  clade_graph_release(graph);
  clade_device_release(device);
  return 0;
}
