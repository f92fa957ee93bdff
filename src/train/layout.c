/* Layout of a training over its ranks: which share a batch, which have parts of layers, which are stages
 * (docs/parallel.md). */
#include "train/internal.h"

static clade_status check_numbers(const clade_trainer *t) {
  const struct {
    const char *name;
    int value;
  } rows[] = {{"tensor", t->tensor},
              {"pipeline", t->pipeline},
              {"interleave", t->interleave},
              {"micro_batches", t->micro_batches}};
  for (size_t i = 0; i < CLADE_COUNT(rows); i++)
    if (rows[i].value < 1)
      return CLADE_FAIL(INVALID, "clade_train: .%s is %d; expected 1 or more", rows[i].name, rows[i].value);
  return CLADE_OK;
}

static clade_status check_grid(const clade__training *tr) {
  const clade_trainer *t = &tr->t;
  if (tr->ranks % t->tensor || tr->ranks / t->tensor % t->pipeline)
    return CLADE_FAIL(INVALID,
                      "clade_train: %d %s cannot be laid out with .tensor %d and .pipeline %d: a multiple of their "
                      "product is expected",
                      tr->ranks, tr->local ? "devices" : "ranks", t->tensor, t->pipeline);
  if (t->interleave > 1 && t->pipeline == 1)
    return CLADE_FAIL(INVALID, "clade_train: .interleave %d without .pipeline: there are no stages to interleave",
                      t->interleave);
  if (t->micro_batches > 1 && t->quantization)
    return CLADE_FAIL(UNSUPPORTED, "clade_train: quantization-aware training in %d micro-batches; expected 1",
                      t->micro_batches);
  return CLADE_OK;
}

/* Refuses options that need the whole model on a rank. */
static clade_status check_options(const clade__training *tr) {
  const clade_trainer *t = &tr->t;
  const struct {
    bool given;
    const char *name, *why;
  } rows[] = {{t->split || t->split_auto, "split", "ranks that share a batch have equal parts of it"},
              {t->low_rank, "low_rank", "it approximates whole gradients"},
              {t->pruned > CLADE_PRUNE_CHANNELS, "pruned", "weights are chosen from whole layers"},
              {t->place, "place", "stages are the devices"},
              {t->fallback, "fallback", "stages are the devices"},
              {t->precision_auto, "precision_auto", "steps of the whole model would be measured"},
              {t->tune, "tune", "tune before, in one process"}};
  for (size_t i = 0; i < CLADE_COUNT(rows) && clade__train_is_cut(tr); i++)
    if (rows[i].given)
      return CLADE_FAIL(UNSUPPORTED, "clade_train: .%s with .tensor %d and .pipeline %d: %s", rows[i].name, t->tensor,
                        t->pipeline, rows[i].why);
  return CLADE_OK;
}

/* The communicator of n ranks, from `first` on, `stride` apart. */
static clade_status group(const clade__training *tr, int n, int first, int stride, clade_comm **out) {
  if (n == 1) return CLADE_OK;
  if (n == tr->ranks) return (*out = clade_comm_retain(tr->t.comm)) ? CLADE_OK : CLADE_INVALID;
  int *ranks = clade__new((size_t)n, sizeof *ranks);
  if (!ranks) return CLADE_NO_MEMORY;
  for (int i = 0; i < n; i++) ranks[i] = first + i * stride;
  const clade_status status = clade_comm_split(tr->t.comm, n, ranks, out);
  clade__free(ranks);
  return status;
}

clade_status clade__train_lay_ranks(clade__training *tr) {
  clade_trainer *t = &tr->t;
  int *const numbers[] = {&t->tensor, &t->pipeline, &t->interleave, &t->micro_batches};
  for (size_t i = 0; i < CLADE_COUNT(numbers); i++)
    if (!*numbers[i]) *numbers[i] = 1;
  CLADE_TRY(check_numbers(t));
  CLADE_TRY(check_grid(tr));
  tr->grid = (clade__grid){.data = tr->ranks / (t->tensor * t->pipeline),
                           .tensor = t->tensor,
                           .pipeline = t->pipeline,
                           .micro_batches = t->micro_batches,
                           .interleave = t->interleave};
  tr->place = clade__place_of(&tr->grid, tr->rank);
  tr->speeds = (clade__speeds){t->link_us, t->link_gbits, t->tflops};
  CLADE_TRY(clade__speeds_check(&tr->speeds, "clade_train"));
  CLADE_TRY(check_options(tr));
  const int t_size = t->tensor, cell = t->tensor * t->pipeline;
  const clade__grid_place *at = &tr->place;
  CLADE_TRY(group(tr, tr->grid.data, tr->rank % cell, cell, &tr->data_ranks));
  CLADE_TRY(group(tr, t->pipeline, at->data * cell + at->tensor, t_size, &tr->stage_ranks));
  return group(tr, t_size, at->data * cell + at->stage * t_size, 1, &tr->tensor_ranks);
}

void clade__train_release_ranks(clade__training *tr) {
  clade_comm_release(tr->data_ranks);
  clade_comm_release(tr->stage_ranks);
  clade_comm_release(tr->tensor_ranks);
}
