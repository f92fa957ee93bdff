/* One func and one set of variables with a run per thread; all threads compute the same bits.
 *     threads [device] */
#include <pthread.h>
#include <string.h>

#include "check.h"
#include "models/mlp.h"

enum { THREADS = 4, TIMES = 20, BATCH = 16 };

typedef struct worker {
  pthread_t thread;
  clade_func *func;
  clade_vars *vars;
  const float *x;
  size_t x_bytes;
  float p[BATCH * MLP_OUT];
} worker;

static void *work(void *argument) {
  worker *w = argument;
  clade_run *run;
  clade_ticket ticket;
  CHECK(clade_run_new(w->func, w->vars, &run)); /* a run must be used by a single thread */
  for (int i = 0; i < TIMES; ++i) {
    CHECK(clade_execute(run, CLADE_FEEDS({.name = "x", .data = w->x, .bytes = w->x_bytes}), &ticket));
    CHECK(clade_read(run, ticket, "p", w->p, sizeof w->p));
  }
  clade_run_free(run);
  return NULL;
}

int main(int argc, char **argv) {
  clade_device *device;
  clade_graph *graph;
  clade_func *any, *func;
  clade_vars *vars;
  static float x[BATCH * MLP_IN];
  static worker workers[THREADS];
  CHECK(clade_device_find(argc > 1 ? argv[1] : NULL, &device));
  CHECK(mlp_graph(&graph));
  CHECK(clade_compile(graph, device, &any));
  CHECK(clade_func_specialize(any, CLADE_DIMS({"batch", BATCH}), &func));
  CHECK(clade_vars_new(func, 42, &vars));
  mlp_images(7, BATCH, x);

  for (int i = 0; i < THREADS; ++i) {
    workers[i].func = func;
    workers[i].vars = vars;
    workers[i].x = x;
    workers[i].x_bytes = sizeof x;
    EXPECT(!pthread_create(&workers[i].thread, NULL, work, &workers[i]));
  }
  for (int i = 0; i < THREADS; ++i) pthread_join(workers[i].thread, NULL);
  for (int i = 1; i < THREADS; ++i) EXPECT(!memcmp(workers[0].p, workers[i].p, sizeof workers[0].p));
  printf("%d threads, %d executions each: the same bits\n", THREADS, TIMES);

  clade_vars_release(vars);
  clade_func_release(func);
  clade_func_release(any);
  clade_graph_release(graph);
  clade_device_release(device);
  return 0;
}
