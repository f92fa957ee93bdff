/* The system tests' program: a three-layer perceptron by the public API, and its reference in double. */
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

/* Both return the first failure; perceptron_free releases what was created. */
clade_status perceptron_new(clade_device *device, perceptron *p);
/* opt->out is unused. */
clade_status perceptron_new_with(clade_device *device, const clade_run_opt *opt, perceptron *p);
void perceptron_free(perceptron *p);

/* Executes with input number `seed` and returns the output of PERCEPTRON_BATCH × PERCEPTRON_OUT. */
clade_status perceptron_compute(perceptron *p, unsigned seed, float *output);
void perceptron_input(unsigned seed, float *input);
/* The largest deviation from the reference. Outputs are probabilities: 1e-4 is a generous tolerance, 1e-2 is an
 * error. */
clade_status perceptron_error(perceptron *p, unsigned seed, const float *output, double *error);

/* x on `a`, doubled on `b`, plus one on `a`: two copies between devices. */
clade_status two_devices_compute(clade_device *a, clade_device *b, float in, float *out);

#endif
