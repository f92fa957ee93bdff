/* A data set: its description and access to samples. */
#include <inttypes.h>

#include "data/data.h"

struct clade_dataset {
  clade__ref ref;
  clade_dataset_info info;
  clade_dataset_def def;
  void *user;
  clade__arena arena; /* owns texts and arrays of info */
};

static clade_status check(const clade_dataset_def *d) {
  const char *name = d->name ? d->name : "user";
  if (!d->get) return CLADE_FAIL(INVALID, "clade_dataset_new: %s: .get is NULL", name);
  if (d->count < 1) return CLADE_FAIL(INVALID, "%s: %" PRId64 " samples; a set has at least one", name, d->count);
  if (d->count > (int64_t)1 << 44) return CLADE_FAIL(OVERFLOW, "%s: %" PRId64 " samples are too many", name, d->count);
  if (d->classes < 1) return CLADE_FAIL(INVALID, "%s: %d classes; a set has at least one", name, d->classes);
  if (d->channels < 1 || d->height < 1 || d->width < 1)
    return CLADE_FAIL(BAD_SHAPE, "%s: samples of %dx%dx%d: channels, height and width are at least 1", name,
                      d->channels, d->height, d->width);
  size_t n;
  if (!clade__mul((size_t)d->channels, (size_t)d->height, &n) || !clade__mul(n, (size_t)d->width, &n) || n > INT32_MAX)
    return CLADE_FAIL(OVERFLOW, "%s: samples of %dx%dx%d are too large", name, d->channels, d->height, d->width);
  for (int c = 0; d->std && c < d->channels; c++)
    if (!(d->std[c] > 0)) return CLADE_FAIL(INVALID, "%s: .std of channel %d is not above 0", name, c);
  return CLADE_OK;
}

static const float *keep_floats(clade__arena *arena, const float *from, int n, float otherwise) {
  float *to = clade__arena_new(arena, (size_t)n * sizeof *to);
  for (int i = 0; to && i < n; i++) to[i] = from ? from[i] : otherwise;
  return to;
}

static clade_status keep_names(clade__arena *arena, const clade_dataset_def *d, const char *const **out) {
  *out = NULL;
  if (!d->class_names) return CLADE_OK;
  const char **names = clade__arena_new(arena, (size_t)d->classes * sizeof *names);
  if (!names) return CLADE_NO_MEMORY;
  for (int i = 0; i < d->classes; i++) {
    if (!d->class_names[i]) return CLADE_FAIL(INVALID, "clade_dataset_new: .class_names[%d] is NULL", i);
    names[i] = clade__arena_text(arena, d->class_names[i]);
    if (!names[i]) return CLADE_NO_MEMORY;
  }
  *out = names;
  return CLADE_OK;
}

static clade_status fill(clade_dataset *s, const clade_dataset_def *d) {
  clade_dataset_info *info = &s->info;
  CLADE_TRY(check(d));
  info->size = sizeof *info;
  info->count = d->count;
  info->classes = d->classes;
  info->shape = CLADE_SHAPE(d->channels, d->height, d->width);
  info->name = clade__arena_text(&s->arena, d->name ? d->name : "user");
  info->mean = keep_floats(&s->arena, d->mean, d->channels, 0);
  info->std = keep_floats(&s->arena, d->std, d->channels, 1);
  if (!info->name || !info->mean || !info->std) return CLADE_NO_MEMORY;
  return keep_names(&s->arena, d, &info->class_names);
}

static void destroy(clade_dataset *s) {
  if (s->def.release) s->def.release(s->user);
  clade__arena_free(&s->arena);
  clade__free(s);
}

clade_status clade_dataset_new(const clade_dataset_def *def, void *user, clade_dataset **out) {
  const char *function = "clade_dataset_new";
  clade_dataset_def d;
  if (!def) return CLADE_FAIL(INVALID, "%s: def is NULL", function);
  CLADE_TRY(clade__opt_copy(&d, sizeof d, def, function));
  clade_dataset *s = out ? clade__new(1, sizeof *s) : NULL;
  if (!s) {
    if (d.release) d.release(user);
    return out ? CLADE_NO_MEMORY : CLADE_FAIL(INVALID, "%s: out is NULL", function);
  }
  clade__ref_init(&s->ref);
  s->def = d;
  s->user = user;
  clade_status status = fill(s, &d);
  if (status == CLADE_OK)
    *out = s;
  else
    destroy(s);
  return status;
}

clade_status clade__dataset_tell_spec(clade_dataset **dataset, const char *spec) {
  (*dataset)->info.spec = clade__arena_text(&(*dataset)->arena, spec);
  if ((*dataset)->info.spec) return CLADE_OK;
  clade_dataset_release(*dataset);
  *dataset = NULL;
  return CLADE_NO_MEMORY;
}

clade_dataset *clade_dataset_retain(clade_dataset *dataset) {
  if (dataset) clade__ref_up(&dataset->ref);
  return dataset;
}

void clade_dataset_release(clade_dataset *dataset) {
  if (dataset && clade__ref_down(&dataset->ref)) destroy(dataset);
}

clade_status clade_dataset_describe(const clade_dataset *dataset, clade_dataset_info *info) {
  const char *function = "clade_dataset_describe";
  if (!dataset) return CLADE_FAIL(INVALID, "%s: dataset is NULL", function);
  return clade__info_give(info, &dataset->info, sizeof *info, function);
}

clade_status clade_dataset_get(const clade_dataset *dataset, int64_t index, float *x, int32_t *label) {
  if (!dataset || !x || !label)
    return CLADE_FAIL(INVALID, "clade_dataset_get: %s is NULL", !dataset ? "dataset" : !x ? "x" : "label");
  const clade_dataset_info *info = &dataset->info;
  if (index < 0 || index >= info->count)
    return CLADE_FAIL(INVALID, "clade_dataset_get: sample %" PRId64 "; %s has %" PRId64 " samples", index, info->name,
                      info->count);
  unsigned before = clade__failures();
  clade_status status = dataset->def.get(dataset->user, index, x, label);
  if (status != CLADE_OK) {
    if (clade__failures() == before) clade_fail(status, NULL);
    return clade__fail_in(status, "%s: sample %" PRId64, info->name, index);
  }
  if (*label < 0 || *label >= info->classes)
    return CLADE_FAIL(CORRUPT, "%s: sample %" PRId64 ": label %" PRId32 "; labels are 0 to %d", info->name, index,
                      *label, info->classes - 1);
  return CLADE_OK;
}
