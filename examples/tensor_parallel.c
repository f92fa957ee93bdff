/* Tensor parallelism in a training loop of one's own: two ranks, each of which has half of each layer, and one rank
 * that has all. Here ranks are threads; with processes, clade_mpi_comm makes the communicator, and the rest is the
 * same. tensor_parallel [device] */
#include <math.h>
#include <pthread.h>

#include "check.h"

enum { RANKS = 2, ROWS = 64, IN = 256, HIDDEN = 1024, CLASSES = 10, STEPS = 10 };

typedef struct rank {
  pthread_t thread;
  clade_device *device;
  clade_comm *comm; /* NULL: the only rank */
  const float *x;
  const int32_t *y;
  float loss[STEPS];
} rank;

static clade_val model(clade_graph *g) {
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(ROWS, IN));
  clade_val y = clade_input(g, "y", CLADE_I32, CLADE_SHAPE(ROWS));
  x = clade_relu(g, clade_nn_linear(g, "first", x, .out = HIDDEN));
  return clade_cross_entropy(g, clade_nn_linear(g, "second", x, .out = CLASSES), y);
}

static void *train(void *argument) {
  rank *r = argument;
  clade_graph *g;
  clade_func *func;
  clade_vars *vars;
  clade_run *run;
  clade_part part = {.size = sizeof part};
  CHECK(clade_graph_new(&g));
  clade_graph_train(g, true);
  clade_val loss = model(g);
  /* The only line that one rank does not need. By the speed of a CPU these layers are worth dividing. */
  CHECK(clade_parallelize(g, r->comm, .n = 1, .values = &loss, .tflops = 0.1));
  CHECK(clade_minimize(g, loss, .optimizer = clade_sgd(.lr = 0.1)));
  clade_output(g, "loss", loss);
  CHECK(clade_compile(g, r->device, &func));
  CHECK(clade_vars_new(func, 42, &vars)); /* the values that the whole variables have here */
  CHECK(clade_run_new(func, vars, &run));

  for (int i = 0; i < STEPS; ++i) { /* each rank is fed the whole batch */
    clade_ticket ticket;
    CHECK(clade_execute(run,
                        CLADE_FEEDS({.name = "x", .data = r->x, .bytes = ROWS * IN * sizeof *r->x},
                                    {.name = "y", .data = r->y, .bytes = ROWS * sizeof *r->y}),
                        &ticket));
    CHECK(clade_read(run, ticket, "loss", &r->loss[i], sizeof r->loss[i]));
  }

  CHECK(clade_vars_part(vars, "first.weight", &part));
  EXPECT(part.is_part == (r->comm != NULL));
  if (part.is_part)
    printf("rank %d has rows %d to %d of first.weight\n", clade_comm_rank(r->comm), (int)part.begin,
           (int)part.begin + HIDDEN / RANKS - 1);
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
  clade_graph_release(g);
  return NULL;
}

int main(int argc, char **argv) {
  static float x[ROWS * IN];
  static int32_t y[ROWS];
  clade_device *device;
  clade_comm *comm[RANKS];
  CHECK(clade_device_find(argc > 1 ? argv[1] : NULL, &device));
  for (int i = 0; i < ROWS * IN; ++i) x[i] = sinf((float)i);
  for (int i = 0; i < ROWS; ++i) y[i] = i % CLASSES;

  rank one = {.device = device, .x = x, .y = y}, ranks[RANKS];
  train(&one);
  CHECK(clade_comm_new_local(RANKS, comm));
  for (int i = 0; i < RANKS; ++i) {
    ranks[i] = one;
    ranks[i].comm = comm[i];
    EXPECT(!pthread_create(&ranks[i].thread, NULL, train, &ranks[i]));
  }
  for (int i = 0; i < RANKS; ++i) pthread_join(ranks[i].thread, NULL);

  printf("loss %.5f to %.5f; with two ranks %.5f to %.5f\n", one.loss[0], one.loss[STEPS - 1], ranks[0].loss[0],
         ranks[0].loss[STEPS - 1]);
  for (int i = 0; i < STEPS; ++i) {
    EXPECT(ranks[0].loss[i] == ranks[1].loss[i]);
    EXPECT(fabsf(ranks[0].loss[i] - one.loss[i]) < 1e-4f * one.loss[i]);
  }
  for (int i = 0; i < RANKS; ++i) clade_comm_release(comm[i]);
  clade_device_release(device);
  return 0;
}
