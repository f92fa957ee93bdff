/* clade train --qat: starts quantization-aware training from another run's weights, with calibrated ranges of layer
 * inputs. */
#include <stdlib.h>

#include "base/json.h"
#include "cli/quantize.h"
#include "cli/train.h"

enum { SAMPLES = 256, BATCH = 8 };

static clade_status check_source(const train_job *job) {
  const quantize_job *from = job->from;
  const clade_trainer *t = &job->trainer;
  const char *path = clade_checkpoint_path(from->checkpoint);
  if (from->trained) return CLADE_FAIL(INVALID, "%s: it is trained for 8 bits already: --resume goes on with it", path);
  if (strcmp(from->model, t->model_name) != 0)
    return CLADE_FAIL(INVALID, "%s: it holds the model %.64s, and --model is %s", path, from->model, t->model_name);
  if (from->normalize != t->augment.normalize)
    return CLADE_FAIL(INVALID, "%s: it was trained with%s normalize in --augment, and is to be trained with%s", path,
                      from->normalize ? "" : "out", t->augment.normalize ? "" : "out");
  return CLADE_OK;
}

/* Keeps the source's pruning structure, so that pruned weights stay 0. */
static void take_pruned(train_job *job) {
  const json_t *pruned = json_object_get(job->from->state, "pruned");
  const char *name = json_string_value(json_object_get(pruned, "structure"));
  clade_trainer *t = &job->trainer;
  for (clade_prune_structure s = CLADE_PRUNE_NONE; name && s <= CLADE_PRUNE_2_4; s++)
    if (!strcmp(name, clade_prune_structure_name(s))) t->pruned = s;
  t->sparsity = json_number_value(json_object_get(pruned, "sparsity"));
}

static clade_status begin(train_job *job) {
  quantize_job *from = job->from = clade__new(1, sizeof *from);
  if (!from) return CLADE_NO_MEMORY;
  *from = (quantize_job){.args = job->args,
                         .run = job->source,
                         .data = job->data,
                         .samples = SAMPLES,
                         .batch = BATCH,
                         .seed = (int64_t)job->trainer.seed,
                         .budget = -1};
  CLADE_TRY(quantize_open(from));
  CLADE_TRY(check_source(job));
  take_pruned(job);
  CLADE_TRY(quantize_calibrate(from));
  CLADE_TRY(clade_quantization_text(from->quantization, &job->layers));
  fprintf(job->to, "%d layers for 8 bits; ranges by %lld training samples, weights of %s\n",
          clade_quantization_count(from->quantization), (long long)from->samples,
          clade_checkpoint_path(from->checkpoint));
  job->trainer.weights = from->before.vars;
  job->trainer.quantization = job->layers;
  return CLADE_OK;
}

/* Checks that the newest checkpoint belongs to a --qat training. */
static clade_status check_resumed(const train_job *job) {
  const char *directory = job->trainer.checkpoint_dir;
  clade_checkpoint *checkpoint = NULL;
  clade_status status = clade_checkpoint_open(directory, CLADE_CHECKPOINT_LATEST, &checkpoint);
  if (status == CLADE_NOT_FOUND) status = clade_checkpoint_open(directory, CLADE_CHECKPOINT_BEST, &checkpoint);
  if (status == CLADE_NOT_FOUND)
    return CLADE_FAIL(NOT_FOUND, "%s holds no checkpoint yet: begin again, with RUN and --checkpoint-dir %s", directory,
                      directory);
  CLADE_TRY(status);
  json_t *state = clade__json_load_text(clade_checkpoint_text(checkpoint));
  if (!json_is_object(json_object_get(state, "qat")))
    status = CLADE_FAIL(INVALID, "%s: it is not trained for 8 bits: --qat without --resume goes on from it, elsewhere",
                        clade_checkpoint_path(checkpoint));
  json_decref(state);
  clade_checkpoint_free(checkpoint);
  return status;
}

clade_status train_qat_begin(train_job *job) {
  if (clade_comm_size(job->trainer.comm) > 1)
    return CLADE_FAIL(UNSUPPORTED, "--qat trains on one device, and there are %d ranks",
                      clade_comm_size(job->trainer.comm));
  return job->source ? begin(job) : check_resumed(job);
}

void train_qat_end(train_job *job) {
  if (!job->from) return;
  clade_text_free(job->layers);
  quantize_close(job->from);
  clade__free(job->from);
}
