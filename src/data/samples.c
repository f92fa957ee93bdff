/* Sets whose samples are in memory. */
#include <math.h>

#include "data/data.h"

/* Bytes are scaled to 0 to 1. */
static float element(const clade_array *x, size_t i) {
  return x->dtype == CLADE_U8 ? (float)((const unsigned char *)x->data)[i] / 255.0f : ((const float *)x->data)[i];
}

static clade_status get(void *user, int64_t index, float *x, int32_t *label) {
  const clade__samples *s = user;
  size_t n = 1;
  for (int i = 1; i < s->x.shape.rank; i++) n *= (size_t)s->x.shape.dim[i];
  for (size_t i = 0; i < n; i++) x[i] = element(&s->x, (size_t)index * n + i);
  *label = s->labels[index];
  return CLADE_OK;
}

void clade__samples_free(clade__samples *samples) {
  clade_array_free(&samples->x);
  clade__free(samples->labels);
  clade__free(samples->moments);
  *samples = (clade__samples){0};
}

static void release(void *user) {
  clade__samples_free(user);
  clade__free(user);
}

/* Dimension of a sample, counted from the end, or 1 if it has fewer. */
static int extent(const clade_shape *shape, int from_end) {
  int at = shape->rank - from_end;
  return at < 1 ? 1 : (int)CLADE_MIN(shape->dim[at], INT32_MAX);
}

/* Mean and deviation of a channel, summed image by image in a fixed order. */
static void moments_of(const clade_array *x, size_t channels, size_t c, float *mean, float *std) {
  size_t images = (size_t)x->shape.dim[0], pixels = 1;
  for (int i = x->shape.rank == 4 ? 2 : 1; i < x->shape.rank; i++) pixels *= (size_t)x->shape.dim[i];
  double n = (double)images * (double)pixels, sum = 0, squares = 0;
  for (size_t i = 0; i < images; i++)
    for (size_t j = 0; j < pixels; j++) sum += (double)element(x, (i * channels + c) * pixels + j);
  double middle = n > 0 ? sum / n : 0;
  for (size_t i = 0; i < images; i++)
    for (size_t j = 0; j < pixels; j++) {
      double d = (double)element(x, (i * channels + c) * pixels + j) - middle;
      squares += d * d;
    }
  double deviation = n > 0 ? sqrt(squares / n) : 0;
  bool some = isfinite((float)middle) && isfinite((float)deviation) && (float)deviation > 0;
  *mean = some ? (float)middle : 0;
  *std = some ? (float)deviation : 1;
}

clade_status clade__samples_moments(const clade_array *x, float **moments) {
  size_t channels = (size_t)extent(&x->shape, 3);
  *moments = clade__new(2 * channels, sizeof **moments);
  if (!*moments) return CLADE_NO_MEMORY;
  for (size_t c = 0; c < channels; c++) moments_of(x, channels, c, *moments + c, *moments + channels + c);
  return CLADE_OK;
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
  def.mean = kept->moments ? kept->moments : source->mean;
  def.std = kept->moments ? kept->moments + def.channels : source->std;
  return clade_dataset_new(&def, kept, out);
}
