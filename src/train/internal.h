/* Shared by the parts of a training. */
#ifndef CLADE_TRAIN_INTERNAL_H
#define CLADE_TRAIN_INTERNAL_H

#include <clade/io.h>
#include <clade/train.h>

#include "base/base.h"
#include "io/checkpoint.h"
#include "parallel/parallel.h"

enum { CLADE__MAX_DEVICES = 16, CLADE__LOADER_QUEUE = 4, CLADE__TEST_BATCH = 256 };

typedef struct clade__training {
  clade_trainer t; /* with all defaults filled in */
  clade_dataset_info data, test_data;
  int test_batch;
  int rank, ranks;         /* of .comm; 0 and 1 without one */
  pthread_mutex_t *local;  /* lock for users' functions if ranks are devices of this process; else NULL */
  clade__grid grid;        /* layout of the ranks */
  clade__grid_place place; /* position of this rank */
  /* The ranks that differ from this one in one coordinate only; NULL: no others. */
  clade_comm *data_ranks, *tensor_ranks, *stage_ranks;
  clade__text explained; /* report of how layers and stages were cut */
  clade_graph *laid;     /* the step's graph over all stages, kept until the test is built like it; NULL: not cut */
  int *parts;            /* [ranks]: rows of the batch for each rank */
  int rows, first_row;   /* rows of this rank, and the first one */
  double *split;         /* [ranks]: shares of .split_auto, read from the checkpoint or measured; NULL: not yet */
  bool measured;
  clade__speeds speeds, kept_speeds; /* by which layers are divided; of the checkpoint, for .link_auto (0: none) */
  const char *link_from, *tflops_from;
  clade_dtype kept_precision; /* of the checkpoint, for .precision_auto; 0: unknown */
  bool precision_measured;
  int64_t *optimizer_bytes;    /* [ranks], on rank 0 */
  struct clade__piece *pieces; /* [n_pieces], on rank 0: the variables of each rank; NULL: all ranks have all */
  size_t n_pieces;
  clade__foreign foreign; /* on rank 0: variables that rank 0 does not have, or not as a whole */
  bool saves;             /* rank 0 writes checkpoints */
  clade_device *device;
  size_t sample; /* elements of an image */

  clade_func *step_func, *test_func;
  clade_vars *vars;
  clade_run *step_run, *test_run;
  clade_func *gradient_func; /* for the logs; built when first needed */
  clade_run *gradient_run;
  clade_events *events; /* NULL: no logs */
  clade_batch batch;
  clade_loader *loader, *test_loader;
  clade_checkpoint_dir *directory; /* NULL: no checkpoints are written */
  clade_checkpoint *checkpoint;    /* the checkpoint that was found, until it is applied or ignored; NULL: none */
  char *choices[2];     /* pinned choices of the checkpoint for this rank's step and for the test; NULL: none */
  char **others;        /* [ranks], on rank 0: choices of other ranks where they differ from its own */
  clade_graph *shapes;  /* shapes of a pruned model, in an otherwise empty graph; NULL: the model's own */
  char *quantization;   /* from the checkpoint, instead of t.quantization; NULL: not read */
  char *changed;        /* settings that differ from the checkpoint's; NULL: none */
  char fingerprint[33]; /* of the images; "": no checkpoints are written */
  clade__hash model_hash;

  int64_t steps, epoch_steps, at; /* steps in total, in an epoch, and done */
  int64_t begun_at;               /* value of `at` when this process started */
  bool resumed, stopped, traced;  /* traced: the run records times */
  double trace_idle;              /* clade_train_result.trace_idle */
  char *trace_path;               /* of a rank above 0; NULL: t.trace is the caller's */
  bool trace_written, incomplete; /* incomplete: writing the logs or the trace failed and was given up */
  clade_ticket pending;           /* step whose loss has not been read yet; 0: none */
  double loss, right, added;      /* of the last step that was read */
  bool adds;                      /* the model adds to the loss */
  double loss_scale;              /* of that step; 1: no scaling */
  int64_t skipped;
  bool skips; /* the last step was skipped */
  double loss_sum, right_sum, added_sum;
  int64_t summed; /* number of this epoch's steps in the sums */
  double test_loss, test_accuracy, best;
  char weights_sha256[65]; /* after the last step */
  int64_t *confusion;
  double began;                              /* start of the call, by clade__now */
  double first_step_seconds, tested_seconds; /* first step: seconds until its end; 0: not yet */
  uint32_t backward; /* first value of the step's graph after the forward pass; 0: passes are mixed */
} clade__training;

/* Whether ranks have only parts of the model. */
static inline bool clade__train_is_cut(const clade__training *tr) {
  return tr->grid.tensor > 1 || tr->grid.pipeline > 1;
}

/* Trains on one device, which may be a rank. local: the lock of this process' ranks, or NULL (train.c). */
clade_status clade__train_rank(const clade_trainer *t, pthread_mutex_t *local, clade_train_result *result,
                               clade_vars **vars);
/* Trains on several devices of this process (devices.c). */
clade_status clade__train_devices(const clade_trainer *t, clade_train_result *result, clade_vars **vars);

/* Checks that all ranks train the same; the error names the difference (ranks.c). */
clade_status clade__train_agree(clade__training *tr);
const char *clade__train_reduced_by(const clade__training *tr); /* "clade", or the communicator's name */
/* Copies rank 0's state to all ranks. */
clade_status clade__train_join(clade__training *tr);
enum { CLADE__RANK_0_ALONE = 10 /* factor on timeouts while rank 0 alone tests or writes a checkpoint */ };
/* A barrier of all ranks. After the first step it has no timeout, since others may still compile; later, ranks that
 * wait for rank 0, which tests and writes alone, wait longer than usual. */
clade_status clade__train_meet(clade__training *tr);

/* Lock around users' functions (models, rules of optimizers), which need not be thread-safe. */
static inline void clade__train_lock(const clade__training *tr) {
  if (tr->local) pthread_mutex_lock(tr->local);
}
static inline void clade__train_unlock(const clade__training *tr) {
  if (tr->local) pthread_mutex_unlock(tr->local);
}

double clade__train_seconds(const clade__training *tr); /* since the start of the call */

/* ---- anomaly.c: refuses a loss that is not finite, and names the cause: an image, or with .detect_anomaly the
 * first value that is not finite ---- */
clade_status clade__train_check(clade__training *tr, float loss);
/* Refuses images that are not finite. part: "training" or "test". */
clade_status clade__train_check_images(const clade__training *tr, const clade_batch *batch, const char *part);

/* ---- layout.c ---- */
/* Checks the layout and creates the communicators of the groups of ranks. */
clade_status clade__train_lay_ranks(clade__training *tr);
void clade__train_release_ranks(clade__training *tr);

/* ---- prepare.c: defaults and checks; runs and loaders ---- */
clade_status clade__train_options(const clade_trainer *given, clade__training *tr);
clade_status clade__train_load(const clade__training *tr, clade_loader **out); /* for this rank's rows */
/* Sets the rows of each rank by the shares; NULL: equal shares. */
clade_status clade__train_cut(clade__training *tr, const double *shares);
clade_status clade__train_build(clade__training *tr);
void clade__train_release(clade__training *tr);

/* ---- step.c: graphs and funcs ---- */
typedef struct clade__outcome {
  clade_val logits, loss, right;
  clade_val added;   /* the part of the loss that the model added; invalid: none */
  clade__hash model; /* hash of the graph up to the logits */
} clade__outcome;
/* Builds the model over `rows` images "x", its loss with labels "y", and the number of correct answers (a float,
 * exact up to 2^24). */
clade__outcome clade__train_loss(const clade__training *tr, clade_graph *g, int rows, double smoothing);
/* Builds the step for this rank's rows up to the update. comm: ranks over which gradients are summed; NULL: none. */
clade_status clade__train_add_step(const clade__training *tr, clade_graph *g, clade_comm *comm, clade__outcome *part);
clade_status clade__train_compile(const clade__training *tr, clade_graph *g, clade_func **out);
int clade__train_micro_rows(const clade__training *tr, int index); /* rows of a micro-batch of this rank */
/* Whether a rank's graph is only a part of the model, or reordered for micro-batches. */
bool clade__train_cuts(const clade__training *tr);
/* Replaces a forward graph by this rank's part of each layer, assigned to stages. */
clade_status clade__train_lay_out(const clade__training *tr, clade_graph **g, clade__text *explain);
/* Replaces a graph by this rank's stage. */
clade_status clade__train_cut_stages(const clade__training *tr, const clade__grid *grid, clade_graph **g);
clade_status clade__train_build_step(clade__training *tr);
/* Moves the feeds for which the func has inputs to the front; returns their number. */
int clade__train_feeds(const clade_func *func, int n, clade_feed *feeds);

/* ---- test.c: loss, accuracy and confusion over the test images ---- */
/* Builds the func of the test, unless it exists. Called after the first step, so that this step does not wait and an
 * unusable test fails early. */
clade_status clade__train_test_ready(clade__training *tr);
clade_status clade__train_test(clade__training *tr);

/* ---- fingerprint.c: hash of the images, as far as they determine the training ---- */
clade_status clade__train_fingerprint(clade__training *tr);

/* ---- resume.c: state of the training in checkpoints ---- */
/* Finds the newest checkpoint and reads its choices for the compilation. Without .resume and .overwrite any
 * checkpoint is an error. */
clade_status clade__train_find(clade__training *tr);
/* Applies the checkpoint if .resume is set. */
clade_status clade__train_resume(clade__training *tr);
/* Sets variables whose values come from this training instead of the checkpoint. */
clade_status clade__train_go_on(clade__training *tr);
clade_status clade__train_save(clade__training *tr, bool best);

/* ---- speed.c ---- */
/* Applies .split_auto. Collective. */
clade_status clade__train_split(clade__training *tr);
/* Shares in proportion to speeds (overwritten), as whole numbers from 1 on; robust against small noise. */
void clade__train_shares(int n, int batch, double *speeds, double *shares);
/* Measures this rank's rows per second in the trainer's precision. Collective: ranks measure at the same time. */
clade_status clade__train_measure(clade__training *tr, double *speed);

/* ---- link.c ---- */
/* Finds the numbers by which layers are divided, the same on all ranks. Collective. */
clade_status clade__train_find_speeds(clade__training *tr);

/* ---- precision.c ---- */
/* Decides .precision_auto. Collective. */
clade_status clade__train_find_precision(clade__training *tr);
bool clade__train_scales(const clade__training *tr);                               /* whether losses are scaled */
void clade__train_precision_text(const clade_trainer *t, char *text, size_t size); /* "bf16, fc3=f32" */

/* ---- pruned.c: pruned models, and pruning during the training ---- */
clade_status clade__train_check_pruned(const clade__training *tr);
/* Takes the shapes of .weights. */
clade_status clade__train_take_shapes(clade__training *tr);
/* The pruning entry of a checkpoint: null or an object. */
struct json_t *clade__train_pruned(const clade__training *tr);
clade_status clade__train_read_pruned(clade__training *tr, const char *path, const struct json_t *pruned);
/* Sends rank 0's pruning settings to all ranks before they build a graph. Collective. */
clade_status clade__train_hand_pruned(clade__training *tr);
/* Sets the shapes in a graph before the model is built in it. */
void clade__train_give_shapes(const clade__training *tr, clade_graph *g);
clade_status clade__train_take_weights(clade__training *tr); /* sets the values of .weights */
/* Before an epoch: sets further weights to 0, as many as the schedule asks for. */
clade_status clade__train_sparsify(clade__training *tr);

/* ---- quantized.c: quantization-aware training ---- */
clade_status clade__train_check_quantized(const clade__training *tr);
/* The quantization entry of a checkpoint: null or an object. */
struct json_t *clade__train_quantized(const clade__training *tr);
clade_status clade__train_read_quantized(clade__training *tr, const char *path, const struct json_t *quantized);
/* Builds the model over an input "x", with quantization simulated if asked for. */
clade_val clade__train_model(const clade__training *tr, clade_graph *g, clade_shape x);
/* Builds the model over a value, without quantization, in a graph whose shapes are set. */
clade_val clade__train_model_of(const clade__training *tr, clade_graph *g, clade_val x);
/* Before an epoch: freezes the ranges, or lets them move. */
clade_status clade__train_freeze(clade__training *tr);

/* ---- choices.c: pinned choices of the ranks' steps ---- */
clade_status clade__train_put_text(const clade__training *tr, int to, const char *text); /* NULL: none */
clade_status clade__train_get_text(const clade__training *tr, int from, char **out);     /* to be freed */
/* Sends the checkpoint's choices from rank 0 to all ranks before they compile. Collective, as the next. */
clade_status clade__train_hand_choices(clade__training *tr);
/* Collects the choices of all ranks on rank 0. */
clade_status clade__train_gather_choices(clade__training *tr);

/* ---- logs.c ---- */
clade_status clade__train_open_logs(clade__training *tr);
void clade__train_log(clade__training *tr, const clade_train_event *event);
void clade__train_log_histograms(clade__training *tr); /* histograms of weights and gradients after an epoch */
void clade__train_close_logs(clade__training *tr);

/* ---- remote.c: state of which each rank has only a part. These calls are collective ---- */
/* On rank 0: which rank has which variables, and the size of each rank's optimizer state. */
clade_status clade__train_find_foreign(clade__training *tr);
/* Sends the values of rank 0 and of its checkpoint to at least one rank of each group that holds the same. */
clade_status clade__train_hand_out(clade__training *tr);
/* Whether all ranks that share a batch have the variable. */
bool clade__train_is_everywhere(const clade__training *tr, const char *name);
/* Sends to rank 0 what it reads while it writes a checkpoint. Rank 0 calls this after writing. */
clade_status clade__train_hand_in(clade__training *tr);
clade_status clade__train_hash_weights(clade__training *tr); /* of whole parameters; the same result on all ranks */

/* ---- tell.c: events and logs ---- */
double clade__train_waited(const clade__training *tr); /* seconds of waiting for the loader */
double clade__train_speed(const clade__training *tr);  /* images per second */
void clade__train_tell(clade__training *tr, clade_train_event_kind kind, const char *path);

#endif
