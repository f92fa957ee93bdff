/* Compile time is linear in the number of nodes: 10,000 nodes within 2 s (kernels cached), 20,000 within 2.2 times
 * that. */
#include <clade/clade.h>

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) { /* CPU time, since other processes share the machine */
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Many kinds of nodes and several live values; every third result is used twice. */
static clade_status build(clade_graph *g, int nodes) {
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(8, 8));
  clade_val old = x,
            w = clade_variable(g, "w", CLADE_F32, CLADE_SHAPE(8, 8), (clade_initial){CLADE_INIT_UNIFORM, 0, 1});
  for (int i = 0; i < nodes; i++) {
    clade_val y;
    switch (i % 5) {
    case 0: y = clade_gemm(g, x, w); break;
    case 1: y = clade_tanh(g, x); break;
    case 2: y = clade_add(g, x, old); break;
    case 3: y = clade_softmax(g, x, 1); break;
    default: y = clade_transpose(g, x, 2, (int[]){1, 0}); break;
    }
    if (i % 3 == 0) old = x;
    x = y;
  }
  clade_output(g, "y", x);
  return clade_graph_status(g);
}

static double compile_seconds(clade_device *device, int nodes) {
  clade_graph *g = NULL;
  clade_func *func = NULL;
  double start = 0, end = 0;
  if (clade_graph_new(&g) == CLADE_OK && build(g, nodes) == CLADE_OK) {
    start = now();
    if (clade_compile(g, device, &func) == CLADE_OK) end = now();
  }
  clade_func_release(func);
  clade_graph_release(g);
  if (end == 0) {
    fprintf(stderr, "linear: %s\n", clade_last_error());
    exit(1);
  }
  return end - start;
}

int main(void) {
  clade_device *device = NULL;
  /* Keep freed memory: returning pages to the kernel and faulting them in again costs more from some size on, and is
   * not measured here. */
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  if (clade_device_find(NULL, &device) != CLADE_OK) {
    fprintf(stderr, "linear: %s\n", clade_last_error());
    return 1;
  }
  compile_seconds(device, 10); /* compiles the kernels */
  double small = 1e9, large = 1e9;
  /* Minimum of many runs, because caches are shared. */
  for (int i = 0; i < 10 || (i < 150 && large > 2.2 * small); i++) {
    double s = compile_seconds(device, 10000), l = compile_seconds(device, 20000);
    small = s < small ? s : small;
    large = l < large ? l : large;
  }
  clade_device_release(device);
  printf("10,000 nodes %.3f s (<= 2), 20,000 nodes %.3f s: %.2f times (<= 2.2)\n", small, large, large / small);
  return small <= 2 && large <= 2.2 * small ? 0 : 1;
}
