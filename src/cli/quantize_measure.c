/* A model as clade quantize measures it: right answers, how long a batch takes, bytes of its weights. */
#include <stdlib.h>

#include "cli/quantize.h"

enum { COMPARED = 8 /* batches */ };

clade_status quantize_side_open(quantize_job *job, const char *text, quantize_side *side) {
  CLADE_TRY(clade_compile(job->graph, job->device, &side->func, .quantization = text));
  CLADE_TRY(clade_vars_new(side->func, 0, &side->vars));
  return clade_run_new(side->func, side->vars, &side->run);
}

void quantize_side_close(quantize_side *side) {
  clade_run_free(side->run);
  clade_vars_release(side->vars);
  clade_func_release(side->func);
  *side = (quantize_side){0};
}

static clade_status answer(const quantize_job *job, quantize_side *side, const clade_batch *batch, float *y) {
  clade_ticket ticket;
  const size_t bytes = (size_t)(job->batch * job->sample) * sizeof *batch->x;
  CLADE_TRY(clade_execute(side->run, CLADE_FEEDS({"x", batch->x, bytes, NULL}), &ticket));
  return clade_read(side->run, ticket, "y", y, (size_t)(job->batch * job->classes) * sizeof *y);
}

/* Of the first `rows` of the batch. */
static int64_t count_right(const clade_batch *batch, const float *y, int64_t rows, int64_t classes) {
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

static float *room_for(const quantize_job *job) {
  return clade__new((size_t)(job->batch * job->classes), sizeof(float));
}

/* ---- the test images ---- */
static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static clade_status run_test(const quantize_job *job, quantize_side *side, clade_loader *loader, int64_t count,
                             float *y, double *seconds) {
  const int64_t batches = (count + job->batch - 1) / job->batch;
  int64_t right = 0;
  for (int64_t i = -1; i < batches; i++) { /* once more, first, so that all is loaded */
    clade_batch batch = {.size = sizeof batch};
    if (!i) CLADE_TRY(clade_loader_seek(loader, 0, 0));
    CLADE_TRY(clade_loader_next(loader, &batch));
    const double since = clade__now();
    CLADE_TRY(answer(job, side, &batch, y));
    if (i < 0) continue;
    seconds[i] = clade__now() - since;
    right += count_right(&batch, y, batch.n, job->classes);
  }
  qsort(seconds, (size_t)batches, sizeof *seconds, ascending);
  side->seconds = seconds[batches / 2];
  side->accuracy = (double)right / (double)count;
  return CLADE_OK;
}

static clade_status count_bytes(quantize_side *side) {
  side->bytes = 0;
  for (int i = 0; i < clade_vars_count(side->vars); i++) {
    clade_port_info info = {.size = sizeof info};
    size_t bytes;
    CLADE_TRY(clade_vars_describe(side->vars, i, &info));
    CLADE_TRY(clade_type_bytes(&info.type, &bytes));
    side->bytes += (int64_t)bytes;
  }
  return CLADE_OK;
}

clade_status quantize_measure(const quantize_job *job, quantize_side *side) {
  clade_dataset_info data = {.size = sizeof data};
  clade_loader *loader = NULL;
  clade_status status;
  float *y = room_for(job);
  double *seconds = NULL;
  CLADE_GOTO(y ? CLADE_OK : CLADE_NO_MEMORY);
  CLADE_GOTO(count_bytes(side));
  CLADE_GOTO(clade_dataset_describe(job->test, &data));
  if (data.count < 1) CLADE_GOTO(CLADE_FAIL(INVALID, "--data %s: it has no test samples", job->data));
  seconds = clade__new((size_t)data.count, sizeof *seconds);
  CLADE_GOTO(seconds ? CLADE_OK : CLADE_NO_MEMORY);
  CLADE_GOTO(clade_loader_new(job->test, &loader, .batch = (int)job->batch, .augment = {.normalize = job->normalize}));
  CLADE_GOTO(run_test(job, side, loader, data.count, y, seconds));
fail:
  clade_loader_free(loader);
  clade__free(seconds);
  clade__free(y);
  return status;
}

/* ---- training samples ---- */
static int64_t first_batch(const quantize_job *job) {
  return job->apart ? (job->samples + job->batch - 1) / job->batch : 0;
}

clade_status quantize_count_right(const quantize_job *job, quantize_side *side, int64_t *right) {
  clade_status status;
  float *y = room_for(job);
  *right = 0;
  CLADE_GOTO(y ? CLADE_OK : CLADE_NO_MEMORY);
  CLADE_GOTO(clade_loader_seek(job->loader, 0, first_batch(job)));
  for (int64_t seen = 0; seen < job->held;) {
    clade_batch batch = {.size = sizeof batch};
    CLADE_GOTO(clade_loader_next(job->loader, &batch));
    const int64_t rows = CLADE_MIN((int64_t)batch.n, job->held - seen);
    CLADE_GOTO(answer(job, side, &batch, y));
    *right += count_right(&batch, y, rows, job->classes);
    seen += rows;
  }
fail:
  clade__free(y);
  return status;
}

clade_status quantize_difference(const quantize_job *job, quantize_side *a, quantize_side *b, double *sum) {
  clade_status status;
  float *y[2] = {room_for(job), room_for(job)};
  *sum = 0;
  CLADE_GOTO(y[0] && y[1] ? CLADE_OK : CLADE_NO_MEMORY);
  CLADE_GOTO(clade_loader_seek(job->loader, 0, first_batch(job)));
  for (int64_t seen = 0; seen < CLADE_MIN(job->held, COMPARED * job->batch);) {
    clade_batch batch = {.size = sizeof batch};
    CLADE_GOTO(clade_loader_next(job->loader, &batch));
    CLADE_GOTO(answer(job, a, &batch, y[0]));
    CLADE_GOTO(answer(job, b, &batch, y[1]));
    for (int64_t i = 0; i < batch.n * job->classes; i++) {
      const double off = (double)y[0][i] - (double)y[1][i];
      *sum += off * off;
    }
    seen += batch.n;
  }
fail:
  clade__free(y[0]);
  clade__free(y[1]);
  return status;
}
