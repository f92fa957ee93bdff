/* The numbers of the options of clade train, and checks of values that depend on several of them. */
#ifndef CLADE_CLI_TRAIN_OPTIONS_H
#define CLADE_CLI_TRAIN_OPTIONS_H

#include "cli/train.h"

enum {
  MODEL,
  DATA,
  EPOCHS,
  BATCH,
  LR,
  OPTIMIZER,
  MOMENTUM,
  SCHEDULE,
  WARMUP,
  WEIGHT_DECAY,
  CLIP_NORM,
  CLIP_VALUE,
  SMOOTHING,
  AUGMENT,
  SEED,
  THREADS,
  SPLIT,
  FALLBACK,
  PLACE,
  CHECKPOINT_DIR,
  CHECKPOINT_STEPS,
  KEEP,
  RESUME,
  OVERWRITE,
  LOG_DIR,
  TRACE,
  TRACE_STEPS,
  DETECT_ANOMALY,
  TUNE,
  STRICT,
  TIMEOUT,
  SHARD,
  COMPRESS,
  SYNC_BATCH_NORM,
  REDUCE,
  PRECISION,
  TYPES,
  QAT,
  FREEZE_RANGES,
  PARALLEL,
  MICRO_BATCHES,
  INTERLEAVE,
  MEMORY,
  LINK,
  FLOPS,
  EXPLAIN
};

/* ---- train_settings.c; false: a usage error, printed ---- */
/* "3:1", or "auto" */
bool train_take_split(train_job *job);
/* With ranks, shares are checked once MPI has started. */
bool train_fits_devices(const train_job *job);
bool train_take_augment(train_job *job);
bool train_take_optimizer(train_job *job);
bool train_knows_schedule(const train_job *job);

#endif
