/* Sets whose samples lie in memory. */
#include "data/data.h"

static clade_status get(void *user, int64_t index, float *x, int32_t *label) {
  const clade__samples *s = user;
  size_t n = 1;
  for (int i = 1; i < s->x.shape.rank; i++) n *= (size_t)s->x.shape.dim[i];
  const unsigned char *bytes = s->x.data;
  const float *floats = s->x.data;
  if (s->x.dtype == CLADE_U8)
    for (size_t i = 0; i < n; i++) x[i] = (float)bytes[(size_t)index * n + i] / 255.0f;
  else
    memcpy(x, floats + (size_t)index * n, n * sizeof *x);
  *label = s->labels[index];
  return CLADE_OK;
}

void clade__samples_free(clade__samples *samples) {
  clade_array_free(&samples->x);
  clade__free(samples->labels);
  *samples = (clade__samples){0};
}

static void release(void *user) {
  clade__samples_free(user);
  clade__free(user);
}

/* Dimension `from_end` of a sample, or 1 where it has fewer. */
static int extent(const clade_shape *shape, int from_end) {
  int at = shape->rank - from_end;
  return at < 1 ? 1 : (int)CLADE_MIN(shape->dim[at], INT32_MAX);
}

clade_status clade__samples_set(const clade__source *source, int classes, clade__samples *samples,
                                clade_dataset **out) {
  clade__samples *kept = clade__new(1, sizeof *kept);
  if (!kept) {
    clade__samples_free(samples);
    return CLADE_NO_MEMORY;
  }
  *kept = *samples;
  *samples = (clade__samples){0};
  const clade_shape *shape = &kept->x.shape;
  clade_dataset_def def = {.size = sizeof def, .name = source->name, .get = get, .release = release};
  def.count = shape->dim[0];
  def.classes = source->classes ? source->classes : classes;
  def.channels = extent(shape, 3);
  def.height = extent(shape, 2);
  def.width = extent(shape, 1);
  def.class_names = source->class_names;
  if (source->std[0] > 0) {
    def.mean = source->mean;
    def.std = source->std;
  }
  return clade_dataset_new(&def, kept, out);
}
