/* Settings of clade train that are lists or depend on the data: shares, layout, augmentation, optimizer, schedule. */
#include <stdlib.h>

#include "base/dtype.h"
#include "cli/train_options.h"

bool train_take_split(train_job *job) {
  const char *at = job->split_text;
  if (!strcmp(at, "auto")) return job->trainer.split_auto = true;
  for (job->n_split = 0;; at++) {
    char *end;
    double part = strtod(at, &end);
    if (end == at || !(part > 0 && part < 1e6) || job->n_split == TRAIN_MAX_SHARES || (*end && *end != ':')) break;
    job->split[job->n_split++] = part;
    at = end;
    if (*at) continue;
    job->trainer.split = job->split;
    return true;
  }
  cli_wrong(&job->args,
            "--split %s: expected auto, or positive numbers with colons between, one for each --device or rank",
            job->split_text);
  return false;
}

bool train_fits_devices(const train_job *job) {
  if (!job->trainer.split || cli_ranks_started() || job->from_run[SPLIT] || job->n_split == job->args.n_devices)
    return true;
  cli_wrong(&job->args, "--split %s: %d shares for %d --device", job->split_text, job->n_split, job->args.n_devices);
  return false;
}

clade_status train_fit_split(train_job *job) {
  const int ranks = clade_comm_size(job->trainer.comm), n = ranks > 1 ? ranks : job->args.n_devices;
  if (!job->trainer.split || job->n_split == n) return CLADE_OK;
  if (!job->from_run[SPLIT])
    return CLADE_FAIL(INVALID, "--split %s: %d shares for %d ranks", job->split_text, job->n_split, n);
  job->trainer.split = NULL;
  return CLADE_OK;
}

clade_status train_fit_layout(train_job *job) {
  clade_trainer *t = &job->trainer;
  const int ranks = t->comm ? clade_comm_size(t->comm) : CLADE_MAX(job->args.n_devices, 1);
  const int64_t cell = (int64_t)CLADE_MAX(t->tensor, 1) * CLADE_MAX(t->pipeline, 1);
  if (job->data_ranks ? cell * job->data_ranks == ranks : ranks % cell == 0) return CLADE_OK;
  if (job->from_run[PARALLEL]) {
    t->tensor = t->pipeline = t->interleave = 0;
    t->parallel_memory = 0;
    t->link_us = t->link_gbits = t->tflops = 0;
    t->link_auto = false;
    return CLADE_OK;
  }
  return CLADE_FAIL(INVALID, "--parallel %s: its product is %s of the number of %s, which is %d", job->value[PARALLEL],
                    job->data_ranks ? "none" : "no divisor", t->comm ? "ranks" : "--device", ranks);
}

bool train_take_augment(train_job *job) {
  clade_augment *a = &job->trainer.augment;
  const struct {
    const char *name;
    int *number;
    bool *flag;
    float *real;
  } parts[] = {{"shift", &a->shift, NULL, NULL},   {"crop", &a->crop, NULL, NULL},
               {"cutout", &a->cutout, NULL, NULL}, {"rotate", NULL, NULL, &a->rotate},
               {"flip", NULL, &a->flip, NULL},     {"normalize", NULL, &a->normalize, NULL}};
  for (const char *at = job->augment_text; *at;) {
    size_t length = strcspn(at, ",="), i = 0;
    while (i < CLADE_COUNT(parts) && (strlen(parts[i].name) != length || strncmp(parts[i].name, at, length)) &&
           !clade__is_old_name(parts[i].name, at, length))
      i++;
    if (i == CLADE_COUNT(parts)) break;
    char *end = (char *)(uintptr_t)at + length;
    if (parts[i].flag) *parts[i].flag = true;
    if (!parts[i].flag && *end != '=') break;
    double value = parts[i].flag ? 0 : strtod(end + 1, &end);
    if (!(value >= 0 && value <= 10000) || (*end && *end != ',')) break;
    if (parts[i].number) *parts[i].number = (int)value;
    if (parts[i].real) *parts[i].real = (float)value;
    at = *end ? end + 1 : end;
    if (!*at) return true;
  }
  cli_wrong(&job->args, "--augment %s: expected a list like shift=2,rotate=10,flip", job->augment_text);
  return false;
}

bool train_take_optimizer(train_job *job) {
  clade_optimizer *o = &job->trainer.optimizer;
  const double lr = job->lr, decay = CLADE_MAX(job->weight_decay, 0.0), momentum = CLADE_MAX(job->momentum, 0.0);
  if (!strcmp(job->optimizer, "sgd"))
    *o = clade_sgd(.lr = lr, .momentum = job->momentum < 0 ? 0.9 : momentum, .weight_decay = decay);
  else if (!strcmp(job->optimizer, "adam"))
    *o = clade_adam(.lr = lr, .weight_decay = decay);
  else if (!strcmp(job->optimizer, "adamw"))
    *o = clade_adamw(.lr = lr, .weight_decay = job->weight_decay < 0 ? 0.01 : decay);
  else if (!strcmp(job->optimizer, "rmsprop"))
    *o = clade_rmsprop(.lr = lr, .momentum = momentum, .weight_decay = decay);
  else
    return cli_wrong(&job->args, "--optimizer %s: expected sgd, adam, adamw or rmsprop", job->optimizer), false;
  if (job->momentum < 0 || strncmp(job->optimizer, "adam", 4)) return true;
  return cli_wrong(&job->args, "--momentum has no effect with --optimizer %s: it is of sgd and rmsprop",
                   job->optimizer),
         false;
}

bool train_knows_schedule(const train_job *job) {
  static const char *const names[] = {"constant", "step", "cosine", "one-cycle"};
  for (size_t i = 0; i < CLADE_COUNT(names); ++i)
    if (!strcmp(names[i], job->schedule)) return true;
  return cli_wrong(&job->args, "--schedule %s: expected constant, step, cosine or one-cycle", job->schedule), false;
}

/* `step` divides the rate by ten after each third of the training. */
clade_status train_schedule(train_job *job) {
  clade_schedule *s = &job->trainer.schedule;
  int64_t warmup = job->warmup, epoch_steps, steps;
  CLADE_TRY(clade_train_steps(&job->trainer, &epoch_steps, &steps));
  if (!strcmp(job->schedule, "step"))
    *s = clade_step_decay(.warmup = warmup, .every = CLADE_MAX(steps / 3, (int64_t)1));
  else if (!strcmp(job->schedule, "cosine"))
    *s = clade_cosine(.warmup = warmup, .steps = steps);
  else if (!strcmp(job->schedule, "one-cycle"))
    *s = clade_one_cycle(.warmup = warmup, .steps = steps);
  else
    *s = clade_constant_rate(.warmup = warmup);
  return CLADE_OK;
}
