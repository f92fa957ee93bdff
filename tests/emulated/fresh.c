/* A fresh process: opens the emulated accelerator, loads its bundle, computes a 16 x 16 product, and prints the
 * seconds since its start (fresh START, the monotonic time in nanoseconds). */
#include <clade/clade.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { N = 16 };

static clade_status compute(clade_device *device, float *y) {
  float x[N * N], w[N * N];
  clade_graph *g = NULL;
  clade_func *func = NULL;
  clade_run *run = NULL;
  clade_ticket ticket;
  for (int i = 0; i < N * N; i++) x[i] = (float)(i % 7), w[i] = (float)(i % 5);
  clade_status status = clade_graph_new(&g);
  if (status != CLADE_OK) return status;
  clade_val a = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N, N));
  clade_output(g, "y", clade_gemm(g, a, clade_constant(g, CLADE_F32, CLADE_SHAPE(N, N), w)));
  status = clade_compile(g, device, &func);
  if (status == CLADE_OK) status = clade_run_new(func, NULL, &run, .slots = 1);
  if (status == CLADE_OK) status = clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket);
  if (status == CLADE_OK) status = clade_read(run, ticket, "y", y, sizeof x);
  clade_run_free(run);
  clade_func_release(func);
  clade_graph_release(g);
  return status;
}

static bool right(const float *y) {
  for (int i = 0; i < N * N; i++) {
    int sum = 0;
    for (int k = 0; k < N; k++) sum += (i / N * N + k) % 7 * ((k * N + i % N) % 5);
    if (y[i] != (float)sum) return false;
  }
  return true;
}

int main(int argc, char **argv) {
  clade_device *device = NULL;
  struct timespec now;
  float y[N * N];
  if (argc != 2) return 2;
  clade_status status = clade_device_find("emulated", &device);
  if (status == CLADE_OK) status = compute(device, y);
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (status != CLADE_OK) fprintf(stderr, "%s\n", clade_last_error());
  clade_device_release(device);
  if (status != CLADE_OK || !right(y)) return 1;
  printf("%.6f\n", (double)((long long)now.tv_sec * 1000000000 + now.tv_nsec - atoll(argv[1])) * 1e-9);
  return 0;
}
