/* A graph over two devices: the first layer on one, the second on the other.
 *     two_devices [device device]      by default: two halves of a CPU */
#include <math.h>

#include "check.h"

enum { ROWS = 8, IN = 64, HIDDEN = 32 };

static void open_devices(int argc, char **argv, clade_device *devices[2]) {
  if (argc > 2) {
    CHECK(clade_device_find(argv[1], &devices[0]));
    CHECK(clade_device_find(argv[2], &devices[1]));
  } else {
    clade_device *cpu;
    CHECK(clade_device_find(argc > 1 ? argv[1] : NULL, &cpu));
    CHECK(clade_device_split(cpu, 2, devices));
    clade_device_release(cpu); /* the sub-devices retain it */
  }
}

static clade_graph *build(void) {
  clade_graph *g;
  CHECK(clade_graph_new(&g));
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(ROWS, IN));
  clade_val h = clade_relu(g, clade_nn_linear(g, "first", x, .out = HIDDEN));
  clade_graph_place(g, 1); /* the following nodes run on device 1; h is copied */
  clade_output(g, "y", clade_nn_linear(g, "second", h, .out = 1));
  return g;
}

static double reference(const float *x, const float *w1, const float *b1, const float *w2, float b2) {
  double y = (double)b2;
  for (int o = 0; o < HIDDEN; ++o) {
    double h = (double)b1[o];
    for (int i = 0; i < IN; ++i) h += (double)w1[o * IN + i] * (double)x[i];
    y += (double)w2[o] * fmax(h, 0);
  }
  return y;
}

int main(int argc, char **argv) {
  clade_device *devices[2];
  clade_func *func;
  clade_vars *vars;
  clade_run *run;
  clade_ticket ticket;
  open_devices(argc, argv, devices);
  clade_graph *g = build();
  CHECK(clade_compile(g, devices[0], &func, .n_devices = 1, .devices = &devices[1])); /* devices after the first */
  CHECK(clade_vars_new(func, 42, &vars));
  CHECK(clade_run_new(func, vars, &run));

  float x[ROWS * IN], y[ROWS], w1[HIDDEN * IN], b1[HIDDEN], w2[HIDDEN], b2;
  for (int i = 0; i < ROWS * IN; ++i) x[i] = (float)(i % 17) * 0.125f - 1;
  CHECK(clade_execute(run, CLADE_FEEDS({.name = "x", .data = x, .bytes = sizeof x}), &ticket));
  CHECK(clade_read(run, ticket, "y", y, sizeof y));
  CHECK(clade_vars_get(vars, "first.weight", w1, sizeof w1));
  CHECK(clade_vars_get(vars, "first.bias", b1, sizeof b1));
  CHECK(clade_vars_get(vars, "second.weight", w2, sizeof w2));
  CHECK(clade_vars_get(vars, "second.bias", &b2, sizeof b2));
  double worst = 0;
  for (int r = 0; r < ROWS; ++r) worst = fmax(worst, fabs(y[r] - reference(x + r * IN, w1, b1, w2, b2)));
  printf("two devices: at most %.2g from the C reference\n", worst);
  EXPECT(worst < 1e-5);

  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
  clade_graph_release(g);
  for (int i = 0; i < 2; ++i) clade_device_release(devices[i]);
  return 0;
}
