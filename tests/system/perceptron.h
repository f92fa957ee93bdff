/* The program of the system tests: a three-layer perceptron through the public API, and its answer in double. */
#ifndef CLADE_TEST_PERCEPTRON_H
#define CLADE_TEST_PERCEPTRON_H

#include <clade/clade.h>

enum { PERCEPTRON_IN = 784, PERCEPTRON_H1 = 256, PERCEPTRON_H2 = 128, PERCEPTRON_OUT = 10, PERCEPTRON_BATCH = 16 };

typedef struct perceptron {
  clade_graph *graph;
  clade_func *func;
  clade_vars *vars;
  clade_run *run;
} perceptron;

/* Each stops at the first failure and returns it; what was made so far is freed by perceptron_free. */
clade_status perceptron_new(clade_device *device, perceptron *p);
clade_status perceptron_new_with(clade_device *device, const clade_run_opt *opt, perceptron *p); /* opt->out unused */
void perceptron_free(perceptron *p);

/* One execution on input number `seed`, and its output of PERCEPTRON_BATCH × PERCEPTRON_OUT. */
clade_status perceptron_compute(perceptron *p, unsigned seed, float *output);
void perceptron_input(unsigned seed, float *input);
/* The largest difference from the answer in double. Outputs are probabilities: 1e-4 is generous, 1e-2 is wrong. */
clade_status perceptron_error(perceptron *p, unsigned seed, const float *output, double *error);

/* x on `a`, doubled on `b`, plus one on `a` again: two copies between devices. */
clade_status two_devices_compute(clade_device *a, clade_device *b, float in, float *out);

#endif
