/* How well a model answers to the test images, and how long it takes: what commands that make models smaller compare.
 */
#ifndef CLADE_CLI_ANSWERS_H
#define CLADE_CLI_ANSWERS_H

#include "cli/cli.h"

/* Of a run whose input "x" is a batch of images and whose output "y" its logits. */
typedef struct answers_test {
  clade_dataset *images;
  const char *data; /* their name, for messages */
  int64_t batch, classes;
  bool normalize;
} answers_test;

/* One batch, into y [batch, classes]. */
clade_status answers_of(const answers_test *test, clade_run *run, const clade_batch *batch, float *y);
/* Right ones among the first `rows`. */
int64_t answers_right(const clade_batch *batch, const float *y, int64_t rows, int64_t classes);
/* All images: the fraction of right answers, and the median time of a batch. */
clade_status answers_measure(const answers_test *test, clade_run *run, double *accuracy, double *seconds);

#endif
