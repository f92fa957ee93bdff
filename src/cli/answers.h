/* Accuracy and speed of a model on test images, for the commands that make models smaller. */
#ifndef CLADE_CLI_ANSWERS_H
#define CLADE_CLI_ANSWERS_H

#include "cli/cli.h"

/* The test images and how to feed them. The run has an input "x" with a batch of images and an output "y" with
 * logits. */
typedef struct answers_test {
  clade_dataset *images;
  const char *data;
  int64_t batch, classes;
  bool normalize;
} answers_test;

/* Runs one batch; y: [batch, classes]. */
clade_status answers_of(const answers_test *test, clade_run *run, const clade_batch *batch, float *y);
/* Number of correct answers in the first `rows` rows. */
int64_t answers_right(const clade_batch *batch, const float *y, int64_t rows, int64_t classes);
/* Runs all images: fraction of correct answers, and median seconds of a batch. */
clade_status answers_measure(const answers_test *test, clade_run *run, double *accuracy, double *seconds);

#endif
