/* Chooses layers that stay in f32: the costliest first, until the loss of accuracy is within the budget. */
#include <stdlib.h>

#include "cli/quantize.h"

enum { MOST_HELD = 1024 };

typedef struct cost {
  int layer;
  double difference; /* of the logits, if only this layer is quantized */
} cost;

/* Recompiles job->after with the current choice of layers. */
static clade_status open_after(quantize_job *job) {
  char *text = NULL;
  quantize_side_close(&job->after);
  clade_status status = clade_quantization_text(job->quantization, &text);
  if (status == CLADE_OK) status = quantize_side_open(job, text, &job->after);
  if (status == CLADE_OK) status = clade_quantization_apply(job->quantization, job->after.vars);
  clade_text_free(text);
  return status;
}

static clade_status keep_all(const quantize_job *job, bool f32) {
  for (int i = 0; i < clade_quantization_count(job->quantization); i++)
    CLADE_TRY(clade_quantization_keep(job->quantization, i, f32));
  return CLADE_OK;
}

static int costliest_first(const void *a, const void *b) {
  const cost *x = a, *y = b;
  const int by = (x->difference < y->difference) - (x->difference > y->difference);
  return by ? by : x->layer - y->layer;
}

static clade_status find_costs(quantize_job *job, cost *costs, int n) {
  for (int i = 0; i < n; i++) {
    costs[i].layer = i;
    CLADE_TRY(keep_all(job, true));
    CLADE_TRY(clade_quantization_keep(job->quantization, i, false));
    CLADE_TRY(open_after(job));
    CLADE_TRY(quantize_difference(job, &job->before, &job->after, &costs[i].difference));
  }
  qsort(costs, (size_t)n, sizeof *costs, costliest_first);
  return keep_all(job, false);
}

/* Loss of accuracy on the held samples, relative to `right` correct answers of the f32 model. */
static clade_status find_loss(quantize_job *job, int64_t right) {
  int64_t now;
  CLADE_TRY(open_after(job));
  CLADE_TRY(quantize_count_right(job, &job->after, &now));
  job->loss = 100.0 * (double)(right - now) / (double)job->held;
  return CLADE_OK;
}

static clade_status keep_some(quantize_job *job, int64_t right) {
  const int n = clade_quantization_count(job->quantization);
  cost *costs = clade__new((size_t)n, sizeof *costs);
  if (!costs) return CLADE_NO_MEMORY;
  clade_status status = find_costs(job, costs, n);
  for (int i = 0; i < n && status == CLADE_OK && job->loss > job->budget; i++) {
    status = clade_quantization_keep(job->quantization, costs[i].layer, true);
    if (status == CLADE_OK) status = find_loss(job, right);
  }
  clade__free(costs);
  return status;
}

/* Uses samples after those of the calibration, or the same ones if the set has no more. */
static clade_status choose_held(quantize_job *job) {
  clade_dataset_info data = {.size = sizeof data};
  CLADE_TRY(clade_dataset_describe(job->train, &data));
  const int64_t used = (job->samples + job->batch - 1) / job->batch * job->batch;
  job->apart = data.count > used;
  job->held = job->apart ? CLADE_MIN(data.count - used, (int64_t)MOST_HELD) : job->samples;
  return CLADE_OK;
}

clade_status quantize_layers(quantize_job *job) {
  int64_t right;
  CLADE_TRY(choose_held(job));
  CLADE_TRY(quantize_count_right(job, &job->before, &right));
  CLADE_TRY(find_loss(job, right));
  return job->budget >= 0 && job->loss > job->budget ? keep_some(job, right) : CLADE_OK;
}
