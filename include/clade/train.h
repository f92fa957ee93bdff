/* Training a classifier: a loop over data, training steps, tests, checkpoints and logs. docs/training.md explains the
 * loop; a program that needs another one writes it with clade_execute. */
#ifndef CLADE_TRAIN_H
#define CLADE_TRAIN_H

#include <clade/comm.h>
#include <clade/data.h>
#include <clade/optim.h>
#include <clade/prune.h>
#include <clade/tune.h>

CLADE_BEGIN_DECLS

/* ---- callbacks ---- */
/* Builds a model: from images x [batch, channels, height, width] to logits [batch, classes]. The loss is their
 * cross-entropy, and what the model adds (clade_graph_add_loss). Called for each graph that training needs, and must
 * always make the same variables. With several devices, this function and the optimizer's rule
 * are called on the threads of the devices, by one thread at a time, in any order. */
typedef clade_val clade_model_fn(clade_graph *g, clade_val x, int classes, void *user);

/* The kind of an event. */
typedef enum clade_train_event_kind {
  CLADE_TRAIN_BEGIN,      /* everything is compiled: `resumed`, `changed` and the fields that say BEGIN */
  CLADE_TRAIN_STEP,       /* a step has ended, while the next one runs: `loss`, `accuracy` */
  CLADE_TRAIN_EPOCH,      /* an epoch was tested: its means, `test_loss`, `test_accuracy` */
  CLADE_TRAIN_CHECKPOINT, /* a checkpoint was written: `path` */
  CLADE_TRAIN_STOPPED,    /* *stop was set; a checkpoint was written if there is a directory */
  CLADE_TRAIN_DONE        /* the training has ended */
} clade_train_event_kind;

/* The state of a training. */
typedef struct clade_train_event {
  size_t size;
  clade_train_event_kind kind;        /* what happened */
  bool resumed;                       /* the training continues from a checkpoint */
  int epoch, epochs;                  /* current epoch, from 1 on; number of epochs */
  int64_t step, steps;                /* steps done; steps in total */
  int64_t epoch_step, epoch_steps;    /* steps of this epoch that are done; its steps in total */
  double loss, accuracy;              /* of the step, or means over the epoch; accuracies are fractions */
  double test_loss, test_accuracy;    /* NaN before the first test */
  double learning_rate, images_per_s; /* of the step; of this process, without compilation */
  double seconds, seconds_left;       /* since this process began; expected */
  double waited;                      /* seconds that the loop waited for the loader */
  const char *path;                   /* CHECKPOINT: the file */
  const char *changed;                /* BEGIN: "lr 0.01 (the checkpoint had 0.1), …"; NULL: nothing */
  int ranks;                          /* number of ranks or devices */
  const int64_t *optimizer_bytes;     /* BEGIN: optimizer state of each rank */
  const int *rows;                    /* BEGIN: rows of a batch that each rank has */
  bool split_measured;                /* BEGIN: .split_auto measured the rows */
  clade_dtype precision;              /* of the steps; f32 without mixed precision */
  bool precision_measured;            /* BEGIN: .precision_auto measured the precision */
  double loss_scale;                  /* STEP: loss scale; 1: none */
  int64_t skipped;                    /* steps so far that were skipped because of gradients that were not finite */
  int data, tensor, pipeline;         /* layout of the ranks */
  int micro_batches, interleave;      /* as in clade_trainer */
  const char *explained; /* BEGIN: how layers and stages are cut, a text of several lines; NULL: they are not */
  double added_loss;     /* the part of `loss` that the model added (clade_graph_add_loss) */
  /* BEGIN: the numbers by which layers are divided, and whether they are "assumed", "given", "measured" or "kept" in
   * the checkpoint; NULL: no layer is divided. */
  double link_us, link_gbits, tflops;
  const char *link_from, *tflops_from; /* of the link; of the speed */
} clade_train_event;
/* A callback for events. */
typedef void clade_train_observer(void *user, const clade_train_event *event);

/* ---- result ---- */
enum { CLADE_TRAIN_MAX_CLASSES = 1000 }; /* most classes of a data set */
/* The result of a training. */
typedef struct clade_train_result {
  size_t size;
  bool stopped;                    /* *stop was set */
  int epochs;                      /* epochs done */
  int64_t steps;                   /* steps done, those before a resume included */
  double test_accuracy, test_loss; /* of the last test */
  /* Seconds of the training; its speed; seconds from the call to the end of the first step, with compilation. */
  double seconds, images_per_s, first_step_seconds;
  double waited;           /* seconds that the loop waited for the loader */
  char weights_sha256[65]; /* of the parameters (clade_vars_sha256) */
  int classes;             /* number of classes */
  int64_t *confusion;      /* [classes][classes] of the last test, by label and answer; clade_train_result_free */
  int64_t new_steps;       /* steps of this call, to which `seconds` and `images_per_s` refer */
  bool incomplete;         /* logs or the trace could not be written completely; the log says why */
  clade_dtype precision;   /* of the steps */
  double loss_scale;       /* of the last step; 1: none */
  int64_t skipped;         /* steps that were skipped */
  double trace_idle;       /* share of the traced time in which the first device ran no step; below 0: no trace */
} clade_train_result;
CLADE_API void clade_train_result_free(clade_train_result *result); /* frees the contents; NULL may be freed */

/* ---- training ---- */
/* A training. The members .model, .train and .test are mandatory. */
typedef struct clade_trainer {
  size_t size CLADE_DEFAULT(sizeof(struct clade_trainer));
  clade_model_fn *model CLADE_UNSET;                   /* builds the model */
  void *model_user CLADE_UNSET;                        /* argument of the model's function */
  const char *model_name CLADE_UNSET;                  /* kept in checkpoints; another name is refused on resume */
  clade_dataset *train CLADE_UNSET, *test CLADE_UNSET; /* training set, test set */
  /* Up to 16 devices, which share each batch as ranks do. Each has a thread of this process, the first one the
   * caller's, and all variables. The first failure ends all, and its message names the device. Unset:
   * clade_device_find(NULL). */
  int n_devices CLADE_UNSET;
  clade_device *const *devices CLADE_UNSET;  /* these devices */
  clade_device *fallback CLADE_UNSET;        /* as in clade_compile */
  const char *place CLADE_UNSET;             /* as in clade_compile */
  const double *split CLADE_UNSET;           /* shares of a batch, of devices or .comm's ranks; unset: equal */
  int epochs CLADE_UNSET, batch CLADE_UNSET; /* unset: 3, 64 */
  int threads CLADE_UNSET;                   /* threads of the loader of each rank or device; unset: 1 */
  uint64_t seed CLADE_UNSET;                 /* of weights, order and augmentation */
  clade_optimizer optimizer CLADE_UNSET;     /* unset: Adam, 0.001 */
  clade_schedule schedule CLADE_UNSET;       /* unset: constant */
  /* As in clade_minimize, and the smoothing of clade_cross_entropy. */
  double clip_norm CLADE_UNSET, clip_value CLADE_UNSET, smoothing CLADE_UNSET, ema CLADE_UNSET;
  clade_augment augment CLADE_UNSET;      /* of training images */
  const char *checkpoint_dir CLADE_UNSET; /* created if necessary; unset: no checkpoints */
  int64_t checkpoint_steps CLADE_UNSET;   /* steps between checkpoints, besides those after each epoch; unset: none */
  int keep CLADE_UNSET;                   /* checkpoints to keep besides the best; unset: 3 */
  bool resume CLADE_UNSET;                /* continue from the newest checkpoint, if there is one */
  const char *log_dir CLADE_UNSET;        /* for TensorBoard's event file and a CSV file; unset: none */
  bool detect_anomaly CLADE_UNSET;        /* find the node that made a loss that is not finite */
  /* File for a Chrome trace of the steps trace_from to trace_to, for rank 3 "run/trace.rank3.json" instead of
   * "run/trace.json". */
  const char *trace CLADE_UNSET;
  int64_t trace_from CLADE_UNSET, trace_to CLADE_UNSET; /* unset: 2, 6 */
  const char *prefer CLADE_UNSET;                       /* as in clade_compile */
  bool strict CLADE_UNSET;                              /* as in clade_compile */
  clade_tune_mode tune CLADE_UNSET;     /* tune before the first step, unless the training is resumed; unset: off */
  const volatile int *stop CLADE_UNSET; /* stop after the current step once *stop is not 0; for signal handlers */
  clade_train_observer *observe CLADE_UNSET; /* called for each event, on the calling thread */
  void *observe_user CLADE_UNSET;            /* first argument of the callback */
  /* Start over in a .checkpoint_dir that has checkpoints, and replace them. Unset: refused. */
  bool overwrite CLADE_UNSET;
  /* Ranks that share each batch, with one device each; unset: none. Rank 0 tests, logs and writes checkpoints; the
   * others begin with its variables (docs/distributed.md). */
  clade_comm *comm CLADE_UNSET;
  /* As in clade_minimize, among ranks or devices. Checkpoints are as without it; the variables of clade_train have what
   * rank 0 owns. */
  clade_shard shard CLADE_UNSET;
  clade_dtype compress CLADE_UNSET; /* as in clade_minimize */
  bool sync_batch_norm CLADE_UNSET; /* batch normalization over all ranks or devices (clade_graph_sync) */
  int low_rank CLADE_UNSET;         /* as in clade_minimize; checkpoints hold the errors of all ranks */
  /* Instead of .split: rows in proportion to the measured speed of each rank or device, in coarse steps. A resumed
   * training keeps the checkpoint's rows if the number of ranks is the same. */
  bool split_auto CLADE_UNSET;
  clade_reduce_by reduce CLADE_UNSET; /* as in clade_minimize */
  /* Initial variables. The model is built in their shapes, and they must include all but the optimizer's. A resumed
   * training takes the checkpoint's. Unset: initial values. */
  const clade_vars *weights CLADE_UNSET;
  /* The pruning of the model. With CLADE_PRUNE_CHANNELS, .weights are pruned already. Otherwise weights are set to 0
   * before the first step, and stay 0. Kept in checkpoints, and taken from there on resume. */
  clade_prune_structure pruned CLADE_UNSET;
  double sparsity CLADE_UNSET; /* of CLADE_PRUNE_WEIGHTS */
  bool cubic CLADE_UNSET; /* prune gradually: more before each epoch, by a cubic schedule, all before the last one */
  bool begin_only CLADE_UNSET; /* no step: only a test, and a checkpoint of the initial variables */
  /* As in clade_compile, for steps and tests. With f16 the loss scale begins at 65536 (docs/mixed-precision.md). */
  clade_dtype precision CLADE_UNSET;
  /* Instead of .precision: bf16 if its step is measured to be faster than a step in f32. A resumed training keeps the
   * checkpoint's precision. */
  bool precision_auto CLADE_UNSET;
  const char *types CLADE_UNSET; /* as in clade_compile */
  /* Quantization-aware training (docs/quantization.md): the layers, the types of their inputs and the initial scales,
   * from clade_quantization_text. In f32, on one device. Tests are those of the quantized model. Kept in checkpoints,
   * and taken from there on resume. */
  const char *quantization CLADE_UNSET;
  int freeze_ranges CLADE_UNSET; /* ranges are fixed from this epoch on, counted from 1; unset: never */
  /* The layout of ranks or devices (docs/parallel.md): how many have parts of each layer, and how many have a stage of
   * the model each. The ranks divided by both share a batch. Unset: 1. */
  int tensor CLADE_UNSET, pipeline CLADE_UNSET;
  int interleave CLADE_UNSET; /* pieces of the model per stage; unset: 1 */
  /* Parts of each rank's rows that are computed one after the other before an update. Activations are kept for one
   * part, or for as many as there are stages. Unset: 1. */
  int micro_batches CLADE_UNSET;
  /* With .tensor: bytes that a rank's part of each layer should fit in, which goes before speed. Unset: any. */
  uint64_t parallel_memory CLADE_UNSET;
  /* With .tensor: latency of a message and bandwidth between ranks, and speed of a device, by which layers are divided
   * or stay whole; the same on all ranks. Unset: 10 us, 80 Gbit/s, 1 TFLOP/s. */
  double link_us CLADE_UNSET, link_gbits CLADE_UNSET, tflops CLADE_UNSET;
  /* Measure those of the three that are unset, and round them to powers of two. A resumed training takes the
   * checkpoint's. */
  bool link_auto CLADE_UNSET;
} clade_trainer;

/* Counts the steps of an epoch and of the whole training, for schedules, from .train, .batch and .epochs. */
CLADE_API clade_status clade_train_steps(const clade_trainer *trainer, int64_t *epoch_steps, int64_t *steps);

/* Trains a model. Both results may be NULL; *vars, the trained variables, are released by the caller.
 *
 *     clade_train(&(clade_trainer){.size = sizeof(clade_trainer), .model = lenet5, .train = train, .test = test},
 *                 &result, NULL); */
CLADE_API clade_status clade_train(const clade_trainer *trainer, clade_train_result *result, clade_vars **vars);

CLADE_END_DECLS
#endif
