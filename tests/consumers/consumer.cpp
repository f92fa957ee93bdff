// A user's program in C++17: relu(x w) on the default device, for a batch that is known late.
#include <clade/clade.h>
#include <cstdio>

static clade_status compute(clade_device *device, float (&y)[4]) {
  static const float w[] = {1, -1, 2, -2, 3, 3}, x[] = {1, 1, 1, 0, 2, -1};
  clade_graph *g = nullptr;
  clade_func *func = nullptr, *two = nullptr;
  clade_run *run = nullptr;
  clade_ticket ticket = 0;
  clade_status status = clade_graph_new(&g);
  if (status != CLADE_OK) return status;
  clade_val in = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(CLADE_DIM("batch"), 3));
  clade_gemm_opt gemm{};
  gemm.size = sizeof gemm;
  gemm.b = clade_constant(g, CLADE_F32, CLADE_SHAPE(3, 2), w);
  clade_output(g, "y", clade_relu(g, clade_gemm_(g, in, &gemm)));

  clade_compile_opt compile{};
  compile.size = sizeof compile;
  compile.out = &func;
  status = clade_compile_(g, device, &compile);
  const clade_dim_value batch{"batch", 2};
  if (status == CLADE_OK) status = clade_func_specialise(func, 1, &batch, &two);
  clade_run_opt opt{};
  opt.size = sizeof opt;
  opt.out = &run;
  if (status == CLADE_OK) status = clade_run_new_(two, nullptr, &opt);
  const clade_feed feed{"x", x, sizeof x, nullptr};
  if (status == CLADE_OK) status = clade_execute(run, 1, &feed, &ticket);
  if (status == CLADE_OK) status = clade_read(run, ticket, "y", y, sizeof y);
  clade_run_free(run);
  clade_func_release(two);
  clade_func_release(func);
  clade_graph_release(g);
  return status;
}

int main() {
  clade_device *device = nullptr;
  float y[4] = {};
  clade_status status = clade_device_find(nullptr, &device);
  if (status == CLADE_OK) status = compute(device, y);
  clade_device_release(device);
  if (status != CLADE_OK) {
    std::fprintf(stderr, "%s: %s\n", clade_status_name(status), clade_last_error());
    return 1;
  }
  std::printf("clade %s: %g %g %g %g\n", clade_version(), double(y[0]), double(y[1]), double(y[2]), double(y[3]));
  return !(y[0] == 6 && y[1] == 0 && y[2] == 1 && y[3] == 0);
}
