/* User program in C11: relu(x w) on the default device, for a symbolic batch size. */
#include <clade/clade.h>
#include <stdio.h>

static clade_status compute(clade_device *device, float y[2][2]) {
  static const float w[3][2] = {{1, -1}, {2, -2}, {3, 3}}, x[2][3] = {{1, 1, 1}, {0, 2, -1}};
  clade_graph *g = NULL;
  clade_func *func = NULL, *two = NULL;
  clade_run *run = NULL;
  clade_ticket ticket;
  clade_status status = clade_graph_new(&g);
  if (status != CLADE_OK) return status;
  clade_val in = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(CLADE_DIM("batch"), 3));
  clade_val weight = clade_constant(g, CLADE_F32, CLADE_SHAPE(3, 2), w);
  clade_output(g, "y", clade_relu(g, clade_gemm(g, in, weight)));
  status = clade_compile(g, device, &func);
  if (status == CLADE_OK) status = clade_func_specialize(func, CLADE_DIMS({"batch", 2}), &two);
  if (status == CLADE_OK) status = clade_run_new(two, NULL, &run, .slots = 1);
  if (status == CLADE_OK) status = clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket);
  if (status == CLADE_OK) status = clade_read(run, ticket, "y", y, 4 * sizeof(float));
  clade_run_free(run);
  clade_func_release(two);
  clade_func_release(func);
  clade_graph_release(g);
  return status;
}

int main(void) {
  clade_device *device = NULL;
  float y[2][2] = {{0}};
  clade_status status = clade_device_find(NULL, &device);
  if (status == CLADE_OK) status = compute(device, y);
  clade_device_release(device);
  if (status != CLADE_OK) {
    fprintf(stderr, "%s: %s\n", clade_status_name(status), clade_last_error());
    return 1;
  }
  printf("clade %s: %g %g %g %g\n", clade_version(), (double)y[0][0], (double)y[0][1], (double)y[1][0],
         (double)y[1][1]);
  return !(y[0][0] == 6 && y[0][1] == 0 && y[1][0] == 1 && y[1][1] == 0);
}
