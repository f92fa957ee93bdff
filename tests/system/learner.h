/* A perceptron with training for the system tests: one func does forward, backward, clipping and update. */
#ifndef CLADE_TEST_LEARNER_H
#define CLADE_TEST_LEARNER_H

#include <clade/clade.h>

typedef struct learner_size {
  int batch, in, hidden, out;
} learner_size;

typedef struct learner {
  learner_size size;
  clade_graph *graph;
  clade_func *func;
  clade_vars *vars;
  clade_run *run;
  float *x, *begun[4]; /* a batch; initial weight and bias of both layers */
  int32_t *y;
} learner;

/* Both return the first failure; learner_free releases what was created. */
clade_status learner_new(clade_device *device, learner_size size, const clade_run_opt *opt,
                         learner *l); /* .out is unused */
void learner_free(learner *l);
/* Runs one step on the learner's batch. */
clade_status learner_step(learner *l, clade_ticket *ticket);
clade_status learner_loss(learner *l, clade_ticket ticket, float *loss);
/* Expected loss after `steps` steps, computed on the host in double. */
clade_status learner_expect(const learner *l, int steps, double *loss);

#endif
