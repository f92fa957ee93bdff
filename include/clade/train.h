/* Training a classifier: the loop over data, optimizer, tests, checkpoints and logs. docs/training.md tells how it
 * works; a program that wants another loop writes it over clade_execute. */
#ifndef CLADE_TRAIN_H
#define CLADE_TRAIN_H

#include <clade/comm.h>
#include <clade/data.h>
#include <clade/optim.h>
#include <clade/prune.h>
#include <clade/tune.h>

CLADE_BEGIN_DECLS

/* Builds a model's nodes: from images x [batch, channels, height, width] to logits [batch, classes]. Called for each
 * graph that training needs, always to build the same variables. With several devices it and an optimizer's rule are
 * called on each one's thread, by one of them at a time, in any order. */
typedef clade_val clade_model_fn(clade_graph *g, clade_val x, int classes, void *user);

typedef enum clade_train_event_kind {
  CLADE_TRAIN_BEGIN, /* compiled; `resumed` says whether a checkpoint goes on, `changed` what is no more as it was */
  CLADE_TRAIN_STEP,  /* loss, accuracy of a step's images; of the step before the one under way */
  CLADE_TRAIN_EPOCH, /* after an epoch's test: means over the epoch, test_loss, test_accuracy */
  CLADE_TRAIN_CHECKPOINT, /* one was written: path */
  CLADE_TRAIN_STOPPED,    /* *stop was set; a checkpoint was written where there is a directory for it */
  CLADE_TRAIN_DONE
} clade_train_event_kind;

typedef struct clade_train_event {
  size_t size;
  clade_train_event_kind kind;
  bool resumed;
  int epoch, epochs;                  /* from 1 on */
  int64_t step, steps;                /* done so far, and in all */
  int64_t epoch_step, epoch_steps;    /* of this epoch */
  double loss, accuracy;              /* accuracies are fractions */
  double test_loss, test_accuracy;    /* NaN before the first test */
  double learning_rate, images_per_s; /* of this process, compiling left out */
  double seconds, seconds_left;       /* since this process began; expected */
  double waited;                      /* seconds that the loop waited for the loader */
  const char *path;
  const char *changed;            /* BEGIN: "lr 0.01 (the checkpoint had 0.1), …"; NULL: nothing */
  int ranks;                      /* or devices */
  const int64_t *optimizer_bytes; /* BEGIN: of each rank's moments and averages */
  const int *rows;                /* BEGIN: of a batch, that each rank has */
  bool split_measured;            /* BEGIN: .split_auto measured these now */
  clade_dtype precision;          /* that steps are computed in, f32 where nothing is narrowed */
  bool precision_measured;        /* BEGIN: .precision_auto measured now */
  double loss_scale;              /* STEP: of its gradients; 1: none */
  int64_t skipped;                /* steps so far whose gradients were not finite, and which changed nothing */
  int data, tensor, pipeline;     /* how the ranks are laid out */
  int micro_batches, interleave;
  const char *explained; /* BEGIN: how layers and stages were cut, in lines; NULL: they were not */
} clade_train_event;
typedef void clade_train_observer(void *user, const clade_train_event *event);

enum { CLADE_TRAIN_MAX_CLASSES = 1000 };
typedef struct clade_train_result {
  size_t size;
  bool stopped;
  int epochs;
  int64_t steps;
  double test_accuracy, test_loss;
  double seconds, images_per_s, first_step_seconds; /* first step: from the call to its end, compiling included */
  double waited;
  char weights_sha256[65]; /* of the parameters: clade_vars_sha256 */
  int classes;
  int64_t *confusion; /* [classes][classes]: row: label, column: answer, of the last test; clade_train_result_free */
  int64_t new_steps;  /* of `steps`, those of this call: what `seconds` and `images_per_s` are about */
  bool incomplete;    /* logs or the trace could not be written to their end: the log told why */
  clade_dtype precision;
  double loss_scale; /* of the last step; 1: none */
  int64_t skipped;   /* of `steps`, those that were skipped */
} clade_train_result;
CLADE_API void clade_train_result_free(clade_train_result *result); /* NULL is fine */

typedef struct clade_trainer {
  size_t size CLADE_DEFAULT(sizeof(struct clade_trainer));
  clade_model_fn *model CLADE_UNSET;
  void *model_user CLADE_UNSET;
  const char *model_name CLADE_UNSET; /* kept in checkpoints: another model's is refused */
  clade_dataset *train CLADE_UNSET, *test CLADE_UNSET;
  /* Up to 16, which share each batch as ranks do: each has a thread of this process, the first one the caller's, and
   * all variables. Unset: one, by clade_device_find(NULL). The first that fails ends all; its message names it. */
  int n_devices CLADE_UNSET;
  clade_device *const *devices CLADE_UNSET;
  clade_device *fallback CLADE_UNSET; /* as in clade_compile; unset: none */
  const char *place CLADE_UNSET;      /* as in clade_compile */
  const double *split CLADE_UNSET;    /* shares of a batch: of each device, or of each of .comm's ranks; unset: equal */
  int epochs CLADE_UNSET, batch CLADE_UNSET; /* unset: 3, 64 */
  int threads CLADE_UNSET;                   /* of each rank's or device's loader; unset: 1 */
  uint64_t seed CLADE_UNSET;
  clade_optimizer optimizer CLADE_UNSET; /* unset: Adam, 0.001 */
  clade_schedule schedule CLADE_UNSET;   /* unset: constant */
  double clip_norm CLADE_UNSET, clip_value CLADE_UNSET, smoothing CLADE_UNSET, ema CLADE_UNSET;
  clade_augment augment CLADE_UNSET;
  const char *checkpoint_dir CLADE_UNSET; /* created where it is missing; unset: no checkpoints */
  int64_t checkpoint_steps CLADE_UNSET;   /* one every so many steps besides those after an epoch; unset: none */
  int keep CLADE_UNSET;                   /* checkpoints beside the best; unset: 3 */
  bool resume CLADE_UNSET;                /* goes on from the newest checkpoint; afresh where there is none */
  const char *log_dir CLADE_UNSET;        /* TensorBoard's event file and a CSV; unset: none */
  bool detect_anomaly CLADE_UNSET;        /* a loss that is not finite: find the node that made it */
  const char *trace CLADE_UNSET;          /* Chrome trace of rank 0's steps trace_from to trace_to; unset: 2 to 6 */
  int64_t trace_from CLADE_UNSET, trace_to CLADE_UNSET;
  const char *prefer CLADE_UNSET;       /* as in clade_compile */
  bool strict CLADE_UNSET;              /* the same */
  clade_tune_mode tune CLADE_UNSET;     /* measure the step's problems first, where nothing was resumed; unset: off */
  const volatile int *stop CLADE_UNSET; /* not 0: stop after the step under way (a signal handler may set it) */
  clade_train_observer *observe CLADE_UNSET; /* on the calling thread alone */
  void *observe_user CLADE_UNSET;
  bool overwrite
      CLADE_UNSET; /* begins afresh where .checkpoint_dir holds checkpoints, and replaces them; unset: refused */
  /* Ranks that share each batch, a device each; unset: none. Rank 0 tests, logs and writes checkpoints; the others
   * begin with its variables (docs/distributed.md). */
  clade_comm *comm CLADE_UNSET;
  clade_shard shard CLADE_UNSET; /* as in clade_minimize, among ranks or devices; checkpoints are as without it, `vars`
                                    has what rank 0 owns */
  clade_dtype compress CLADE_UNSET; /* as in clade_minimize */
  bool sync_batch_norm CLADE_UNSET; /* by the batch of all ranks or devices (clade_graph_sync); unset: by each one's */
  int low_rank CLADE_UNSET;         /* as in clade_minimize; errors of all ranks are in checkpoints */
  /* In place of .split: rows in proportion to how fast each rank or device computes a step, which is measured before
   * the first one, in coarse steps. What is resumed keeps the checkpoint's rows where it has as many ranks. */
  bool split_auto CLADE_UNSET;
  clade_reduce_by reduce CLADE_UNSET; /* as in clade_minimize */
  /* What a training begins with instead of initial values: the model is built in the shapes of these variables, of
   * which it must have all but those of optimizers. What is resumed has the checkpoint's. Unset: initial values */
  const clade_vars *weights CLADE_UNSET;
  /* How the model was or is pruned; kept in checkpoints, which what is resumed goes by. Of CLADE_PRUNE_CHANNELS
   * .weights were; of the others weights become 0 before the first step, and stay so */
  clade_prune_structure pruned CLADE_UNSET;
  double sparsity CLADE_UNSET; /* of CLADE_PRUNE_WEIGHTS */
  bool cubic CLADE_UNSET;      /* before each epoch more of them, by a cubic schedule: all before the last */
  bool begin_only CLADE_UNSET; /* no step: a test, and a checkpoint of what the training begins with */
  /* As in clade_compile, of steps and tests; f16 has the loss scaled, from 65536 on (docs/mixed-precision.md) */
  clade_dtype precision CLADE_UNSET;
  /* In place of .precision: bf16 where a step of it is measured to be faster than one of f32, else f32. What is resumed
   * keeps the checkpoint's */
  bool precision_auto CLADE_UNSET;
  const char *types CLADE_UNSET; /* as in clade_compile */
  /* Quantization-aware training (docs/quantization.md): layers, with the types of their inputs and the scales that
   * their ranges begin with, as clade_quantization_text gives it; in f32, on one device. Kept in checkpoints, which
   * what is resumed goes by. Tests are those of the quantized model */
  const char *quantization CLADE_UNSET;
  int freeze_ranges CLADE_UNSET; /* from this epoch on, the first one 1, ranges stay; unset: none */
  /* How ranks or devices are laid out (docs/parallel.md): so many have parts of each layer, and so many have a stage of
   * the model each; a batch is shared by as many as their product leaves. Unset: 1 */
  int tensor CLADE_UNSET, pipeline CLADE_UNSET;
  int interleave CLADE_UNSET; /* pieces of the model on each stage; unset: 1 */
  /* Parts of each rank's rows that are computed one after the other, before one update: what is kept for the backward
   * pass is that of one of them, or of as many as there are stages. Unset: 1 */
  int micro_batches CLADE_UNSET;
  /* Bytes that a rank's part of each layer should fit in, with .tensor: weighed before time; unset: any */
  uint64_t parallel_memory CLADE_UNSET;
} clade_trainer;

/* Steps of an epoch and of the whole training: for schedules. Of `trainer`, .train, .batch and .epochs are looked at.
 */
CLADE_API clade_status clade_train_steps(const clade_trainer *trainer, int64_t *epoch_steps, int64_t *steps);

/* Trains as `trainer` says. Variables, if wanted, are the trained ones, to be released. `result` or `vars` may be NULL.
 *     clade_train(&(clade_trainer){.size = sizeof(clade_trainer), .model = lenet5, .train = train, .test = test},
 *                 &result, NULL); */
CLADE_API clade_status clade_train(const clade_trainer *trainer, clade_train_result *result, clade_vars **vars);

CLADE_END_DECLS
#endif
