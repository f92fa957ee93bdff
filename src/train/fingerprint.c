/* A hash of the training's images, so that a checkpoint is not resumed with another set of the same size. */
#include "train/internal.h"

/* Samples of each part, at even distances, or all if there are fewer. */
enum { SAMPLES = 512 };

static clade_status add_part(clade_dataset *part, const clade_dataset_info *info, size_t sample, float *x,
                             clade__hash *hash) {
  const int64_t n = CLADE_MIN(info->count, (int64_t)SAMPLES);
  const int64_t head[3] = {info->count, info->classes, info->shape.rank};
  clade__hash h = clade__hash_more(*hash, head, sizeof head);
  h = clade__hash_more(h, info->shape.dim, (size_t)info->shape.rank * sizeof *info->shape.dim);
  for (int64_t i = 0; i < n; i++) {
    int32_t label;
    CLADE_TRY(clade_dataset_get(part, n > 1 ? i * (info->count - 1) / (n - 1) : 0, x, &label));
    h = clade__hash_more(clade__hash_more(h, x, sample * sizeof *x), &label, sizeof label);
  }
  *hash = h;
  return CLADE_OK;
}

clade_status clade__train_fingerprint(clade__training *tr) {
  clade__hash hash = {0};
  float *x = clade__new(CLADE_MAX(tr->sample, (size_t)1), sizeof *x);
  if (!x) return CLADE_NO_MEMORY;
  clade_status status = add_part(tr->t.train, &tr->data, tr->sample, x, &hash);
  if (status == CLADE_OK) status = add_part(tr->t.test, &tr->test_data, tr->sample, x, &hash);
  clade__free(x);
  clade__hash_text(hash, tr->fingerprint);
  return status;
}
