/* Accuracy and speed of a model on test images. */
#include "cli/answers.h"

clade_status answers_of(const answers_test *t, clade_run *run, const clade_batch *batch, float *y) {
  clade_dataset_info data = {.size = sizeof data};
  clade_ticket ticket;
  int64_t sample;
  CLADE_TRY(clade_dataset_describe(t->images, &data));
  CLADE_TRY(clade_shape_elements(&data.shape, &sample));
  const size_t bytes = (size_t)(t->batch * sample) * sizeof *batch->x;
  CLADE_TRY(clade_execute(run, CLADE_FEEDS({"x", batch->x, bytes, NULL}), &ticket));
  return clade_read(run, ticket, "y", y, (size_t)(t->batch * t->classes) * sizeof *y);
}

int64_t answers_right(const clade_batch *batch, const float *y, int64_t rows, int64_t classes) {
  int64_t right = 0;
  for (int64_t i = 0; i < rows; i++) {
    const float *row = y + i * classes;
    int64_t best = 0;
    for (int64_t k = 1; k < classes; k++)
      if (row[k] > row[best]) best = k;
    right += best == batch->y[i];
  }
  return right;
}

/* Batch -1 warms up: it is the first batch, not counted. */
static clade_status answer_all(const answers_test *t, clade_run *run, clade_loader *loader, int64_t batches, float *y,
                               double *seconds, int64_t *right) {
  for (int64_t i = -1; i < batches; i++) {
    clade_batch batch = {.size = sizeof batch};
    if (!i) CLADE_TRY(clade_loader_seek(loader, 0, 0));
    CLADE_TRY(clade_loader_next(loader, &batch));
    const double since = clade__now();
    CLADE_TRY(answers_of(t, run, &batch, y));
    if (i < 0) continue;
    seconds[i] = clade__now() - since;
    *right += answers_right(&batch, y, batch.n, t->classes);
  }
  return CLADE_OK;
}

clade_status answers_measure(const answers_test *t, clade_run *run, double *accuracy, double *seconds) {
  clade_dataset_info data = {.size = sizeof data};
  clade_loader *loader = NULL;
  int64_t right = 0;
  clade_status status;
  CLADE_TRY(clade_dataset_describe(t->images, &data));
  if (data.count < 1) return CLADE_FAIL(INVALID, "--data %s: it has no test samples", t->data);
  const int64_t batches = (data.count + t->batch - 1) / t->batch;
  float *y = clade__new((size_t)(t->batch * t->classes), sizeof *y);
  double *all = clade__new((size_t)batches, sizeof *all);
  CLADE_GOTO(y && all ? CLADE_OK : CLADE_NO_MEMORY);
  CLADE_GOTO(clade_loader_new(t->images, &loader, .batch = (int)t->batch, .augment = {.normalize = t->normalize}));
  CLADE_GOTO(answer_all(t, run, loader, batches, y, all, &right));
  *seconds = clade__median(all, (int)batches);
  *accuracy = (double)right / (double)data.count;
fail:
  clade_loader_free(loader);
  clade__free(all);
  clade__free(y);
  return status;
}
