/* Checks the results of a trial, computed in poisoned memory, against reference results. */
#include <math.h>
#include <stdio.h>

#include "plan/run.h"
#include "tune/internal.h"

enum { LARGE_OUTPUT = 4 << 20 }; /* bytes; larger outputs get a single slot */

/* All bits are 1: NaN in every float type, and an unlikely integer. */
static clade_status poison(clade_device *device, clade__buffer *buffer) {
  const unsigned char ones = 0xFF;
  clade__queue *queue = clade__device_transfer_queue(device);
  if (!queue) return CLADE_OPENCL;
  CLADE_TRY(clade__queue_fill(queue, buffer, 0, clade__buffer_bytes(buffer), &ones, 1, (clade__wait){0}, NULL));
  return clade__queue_finish(queue);
}

static clade_status poison_run(const clade__problem *p, clade_run *run) {
  for (int s = 0; s < run->n_slots; s++)
    for (size_t i = 0; i < run->func->graph->outputs.count; i++)
      if (run->slots[s].outputs[i]) CLADE_TRY(poison(p->device, run->slots[s].outputs[i]));
  for (size_t i = 0; i < run->func->slabs.count; i++)
    if (run->arena[i]) CLADE_TRY(poison(p->device, run->arena[i]));
  return CLADE_OK;
}

void clade__answer_free(const clade__problem *p, void **answer) {
  for (int i = 0; answer && i < p->n_out; i++) clade__free(answer[i]);
  clade__free(answer);
}

static clade_status read_all(const clade__problem *p, const clade__stage *s, clade_run *run, clade_ticket ticket,
                             void **answer) {
  char name[16];
  for (int i = 0; i < p->n_out; i++) {
    snprintf(name, sizeof name, "y%d", i);
    answer[i] = clade__new(s->out_bytes[i], 1);
    if (!answer[i]) return CLADE_NO_MEMORY;
    CLADE_TRY(clade_read(run, ticket, name, answer[i], s->out_bytes[i]));
  }
  return CLADE_OK;
}

clade_status clade__answer(const clade__problem *p, const clade__stage *s, clade_func *func, clade_run **run,
                           void ***out) {
  clade_ticket ticket;
  clade_status status;
  size_t bytes = 0;
  for (int i = 0; i < p->n_out; i++) bytes += s->out_bytes[i];
  *out = clade__new((size_t)p->n_out, sizeof(void *));
  if (!*out) return CLADE_NO_MEMORY;
  CLADE_GOTO(clade_run_new(func, s->vars, run, .slots = bytes > LARGE_OUTPUT ? 1 : 2));
  CLADE_GOTO(poison_run(p, *run));
  CLADE_GOTO(clade_execute(*run, 0, NULL, &ticket));
  CLADE_GOTO(read_all(p, s, *run, ticket, *out));
  return CLADE_OK;
fail:
  clade__answer_free(p, *out);
  *out = NULL;
  return status;
}

/* Relative to the largest result: larger than errors of another summation order, smaller than a missing term. */
static double tolerance(clade_dtype t) { return clade__dtype_row(t)->tolerance; }

static float value(clade_dtype dtype, const void *data, size_t i, size_t element) {
  float f = 0;
  if (dtype == CLADE_F32)
    memcpy(&f, (const char *)data + i * element, sizeof f);
  else
    (void)clade_convert(CLADE_F32, &f, dtype, (const char *)data + i * element, 1);
  return f;
}

static bool floats_agree(clade_dtype dtype, size_t bytes, const void *right, const void *given) {
  size_t element = clade__dtype_row(dtype)->bytes, n = bytes / element;
  double largest = 0, worst = 0;
  for (size_t i = 0; i < n; i++) {
    double a = (double)value(dtype, right, i, element), b = (double)value(dtype, given, i, element);
    if (isnan(a) || isnan(b) || isinf(a) || isinf(b)) {
      if (isnan(a) != isnan(b) || (!isnan(a) && a != b)) return false;
      continue;
    }
    largest = fmax(largest, fabs(a));
    worst = fmax(worst, fabs(a - b));
  }
  return worst <= tolerance(dtype) * largest;
}

bool clade__answers_agree(const clade__problem *p, const clade__stage *s, void *const *right, void *const *given) {
  for (int i = 0; i < p->n_out; i++) {
    bool same = clade__is_float(s->out[i].dtype) ? floats_agree(s->out[i].dtype, s->out_bytes[i], right[i], given[i])
                                                 : !memcmp(right[i], given[i], s->out_bytes[i]);
    if (!same) return false;
  }
  return true;
}

bool clade__answer_has_nan(const clade__problem *p, const clade__stage *s, void *const *answer) {
  for (int i = 0; i < p->n_out; i++) {
    size_t element = clade__dtype_row(s->out[i].dtype)->bytes;
    for (size_t k = 0; clade__is_float(s->out[i].dtype) && k < s->out_bytes[i] / element; k++)
      if (isnan(value(s->out[i].dtype, answer[i], k, element))) return true;
  }
  return false;
}
