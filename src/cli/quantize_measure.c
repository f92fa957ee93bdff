/* Measures a model for clade quantize: accuracy, seconds of a batch, bytes of its weights. */
#include "cli/answers.h"
#include "cli/quantize.h"

enum { COMPARED = 8 /* number of batches */ };

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

static float *room_for(const quantize_job *job) {
  return clade__new((size_t)(job->batch * job->classes), sizeof(float));
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

static answers_test test_of(const quantize_job *job) {
  return (answers_test){job->test, job->data, job->batch, job->classes, job->normalize};
}

clade_status quantize_measure(const quantize_job *job, quantize_side *side) {
  const answers_test test = test_of(job);
  CLADE_TRY(count_bytes(side));
  return answers_measure(&test, side->run, &side->accuracy, &side->seconds);
}

static int64_t first_batch(const quantize_job *job) {
  return job->apart ? (job->samples + job->batch - 1) / job->batch : 0;
}

clade_status quantize_count_right(const quantize_job *job, quantize_side *side, int64_t *right) {
  clade_status status;
  const answers_test test = test_of(job);
  float *y = room_for(job);
  *right = 0;
  CLADE_GOTO(y ? CLADE_OK : CLADE_NO_MEMORY);
  CLADE_GOTO(clade_loader_seek(job->loader, 0, first_batch(job)));
  for (int64_t seen = 0; seen < job->held;) {
    clade_batch batch = {.size = sizeof batch};
    CLADE_GOTO(clade_loader_next(job->loader, &batch));
    const int64_t rows = CLADE_MIN((int64_t)batch.n, job->held - seen);
    CLADE_GOTO(answers_of(&test, side->run, &batch, y));
    *right += answers_right(&batch, y, rows, job->classes);
    seen += rows;
  }
fail:
  clade__free(y);
  return status;
}

clade_status quantize_difference(const quantize_job *job, quantize_side *a, quantize_side *b, double *sum) {
  clade_status status;
  const answers_test test = test_of(job);
  float *y[2] = {room_for(job), room_for(job)};
  *sum = 0;
  CLADE_GOTO(y[0] && y[1] ? CLADE_OK : CLADE_NO_MEMORY);
  CLADE_GOTO(clade_loader_seek(job->loader, 0, first_batch(job)));
  for (int64_t seen = 0; seen < CLADE_MIN(job->held, COMPARED * job->batch);) {
    clade_batch batch = {.size = sizeof batch};
    CLADE_GOTO(clade_loader_next(job->loader, &batch));
    CLADE_GOTO(answers_of(&test, a->run, &batch, y[0]));
    CLADE_GOTO(answers_of(&test, b->run, &batch, y[1]));
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
