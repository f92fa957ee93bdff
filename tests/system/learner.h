/* A perceptron that learns, for the system tests: one step is forward, backward, clipping and update in one func. */
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
  float *x, *begun[4]; /* a batch; what the parameters began with: weight and bias of both layers */
  int32_t *y;
} learner;

/* Each stops at the first failure and returns it; what was made so far is freed by learner_free. */
clade_status learner_new(clade_device *device, learner_size size, const clade_run_opt *opt,
                         learner *l); /* .out unused */
void learner_free(learner *l);
/* One step on the learner's batch. */
clade_status learner_step(learner *l, clade_ticket *ticket);
clade_status learner_loss(learner *l, clade_ticket ticket, float *loss);
/* The loss of the step after `steps` steps, computed on the host in double. */
clade_status learner_expect(const learner *l, int steps, double *loss);

#endif
