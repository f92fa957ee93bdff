/* Sets whose samples lie in memory. */
#include "data/data.h"

static clade_status get(void *user, int64_t index, float *x, int32_t *label) {
  const clade__samples *s = user;
  size_t from = (size_t)index * s->elements;
  if (s->bytes)
    for (size_t i = 0; i < s->elements; i++) x[i] = (float)s->bytes[from + i] / 255.0f;
  else
    memcpy(x, s->floats + from, s->elements * sizeof *x);
  *label = s->labels[index];
  return CLADE_OK;
}

void clade__samples_free(clade__samples *samples) {
  for (size_t i = 0; i < CLADE_COUNT(samples->owner); i++) clade__free(samples->owner[i]);
  *samples = (clade__samples){0};
}

static void release(void *user) {
  clade__samples_free(user);
  clade__free(user);
}

clade_status clade__samples_set(const clade_dataset_def *def, clade__samples *samples, clade_dataset **out) {
  clade__samples *kept = clade__new(1, sizeof *kept);
  if (!kept) {
    clade__samples_free(samples);
    return CLADE_NO_MEMORY;
  }
  *kept = *samples;
  *samples = (clade__samples){0};
  clade_dataset_def d = *def;
  d.size = sizeof d;
  d.count = kept->count;
  d.get = get;
  d.release = release;
  return clade_dataset_new(&d, kept, out);
}
