/* What the parts of a training share. */
#ifndef CLADE_TRAIN_INTERNAL_H
#define CLADE_TRAIN_INTERNAL_H

#include <clade/io.h>
#include <clade/train.h>

#include "base/base.h"
#include "io/checkpoint.h"
#include "parallel/parallel.h"

enum { CLADE__MAX_DEVICES = 16, CLADE__LOADER_QUEUE = 4, CLADE__TEST_BATCH = 256 };

typedef struct clade__training {
  clade_trainer t; /* with everything that was unset */
  clade_dataset_info data, test_data;
  int test_batch;
  int rank, ranks;         /* of .comm; 0 and 1 without one */
  pthread_mutex_t *local;  /* ranks are devices of this process, which call users' functions under it; NULL: not so */
  clade__grid grid;        /* how the ranks are laid out */
  clade__grid_place place; /* of this one */
  clade_comm *data_ranks, *tensor_ranks, *stage_ranks; /* those that differ from this one in that alone; NULL: none */
  clade__text explained;                               /* how layers and stages were cut */
  clade_graph *laid;   /* the step's graph of all stages, until the test has one like it; NULL: nothing was cut */
  int *parts;          /* [ranks]: rows of a batch */
  int rows, first_row; /* this rank's, and where they begin */
  double *split;       /* [ranks]: shares by .split_auto, from the checkpoint or measured; NULL: none yet */
  bool measured;       /* these were */
  clade_dtype kept_precision; /* the checkpoint's, for .precision_auto; 0: none is known */
  bool precision_measured;
  int64_t *optimizer_bytes;    /* [ranks], on rank 0 */
  struct clade__piece *pieces; /* [n_pieces]: what each rank has, on rank 0, where not all have all */
  size_t n_pieces;
  clade__foreign foreign; /* what rank 0 has not, or not as a whole, on rank 0 */
  bool saves;             /* rank 0 writes checkpoints */
  clade_device *device;
  size_t sample; /* elements of an image */

  clade_func *step_func, *test_func;
  clade_vars *vars;
  clade_run *step_run, *test_run;
  clade_func *gradient_func; /* for the logs, when they are first wanted */
  clade_run *gradient_run;
  clade_events *events; /* NULL: no logs */
  clade_batch batch;    /* the last one */
  clade_loader *loader, *test_loader;
  clade_checkpoint_dir *directory; /* NULL: no checkpoints are written */
  clade_checkpoint *checkpoint;    /* that was there, until it is taken or left; NULL: none */
  char *choices[2];                /* that it holds: of this rank's step and of the test; NULL: none */
  char **others;                   /* [ranks], on rank 0: of those ranks' steps that have others than its own */
  clade_graph *shapes;             /* that a pruned model is built in: it holds nothing else; NULL: the model's own */
  char *quantization;              /* the checkpoint's, in place of t.quantization; NULL: none was read */
  char *changed;                   /* settings that are not as the checkpoint's training had them; NULL: none */
  char fingerprint[33];            /* of the images; "" where no checkpoints are written */
  clade__hash model_hash;          /* of the forward pass over a whole batch */

  int64_t steps, epoch_steps, at; /* in all, of an epoch, done */
  int64_t begun_at;               /* what this process began with */
  bool resumed, stopped, traced;  /* traced: the run keeps times */
  char *trace_path;               /* of a rank beyond the first one; NULL: t.trace is the caller's */
  bool trace_written, incomplete; /* incomplete: logs or the trace were given up */
  clade_ticket pending;           /* the step whose loss is not read yet; 0: none */
  double loss, right;             /* of the last step that was read */
  double loss_scale;              /* of that step; 1: none */
  int64_t skipped;                /* steps that changed nothing */
  bool skips;                     /* the last one did not */
  double loss_sum, right_sum;
  int64_t summed; /* steps of this epoch that the sums hold */
  double test_loss, test_accuracy, best;
  char weights_sha256[65]; /* at the end */
  int64_t *confusion;
  double began;                              /* the call, by clade__now */
  double first_step_seconds, tested_seconds; /* first step: until its end; 0 before */
  uint32_t backward; /* the number of the step graph's first value that is no part of the forward pass; 0: both mix */
} clade__training;

/* Whether a rank has parts of layers, or some of them. */
static inline bool clade__train_is_cut(const clade__training *tr) {
  return tr->grid.tensor > 1 || tr->grid.pipeline > 1;
}

/* A training on one device, which may be one of several ranks; `local`: of this process, or NULL (train.c). */
clade_status clade__train_rank(const clade_trainer *t, pthread_mutex_t *local, clade_train_result *result,
                               clade_vars **vars);
/* On several devices of this process (devices.c). */
clade_status clade__train_devices(const clade_trainer *t, clade_train_result *result, clade_vars **vars);

/* Whether all ranks train the same; names what does not agree (ranks.c). */
clade_status clade__train_agree(clade__training *tr);
const char *clade__train_reduced_by(const clade__training *tr); /* "clade", or the carrier's name */
/* Rank 0's state on all ranks. */
clade_status clade__train_join(clade__training *tr);
enum { CLADE__RANK_0_ALONE = 10 /* times as long as a step, a test or a checkpoint may take */ };
/* All ranks are here. All wait for ever after the first step, since others may compile still, and later those wait
 * longer than usual that wait for rank 0, which tests and writes alone. */
clade_status clade__train_meet(clade__training *tr);

/* Around users' functions that build graphs, models and rules of optimizers: they need not know of threads. */
static inline void clade__train_lock(const clade__training *tr) {
  if (tr->local) pthread_mutex_lock(tr->local);
}
static inline void clade__train_unlock(const clade__training *tr) {
  if (tr->local) pthread_mutex_unlock(tr->local);
}

double clade__train_seconds(const clade__training *tr); /* since the call */

/* ---- anomaly.c: refuses a loss that is not finite, naming the image that is not, or the first value that is not where
 * that is asked for ---- */
clade_status clade__train_check(clade__training *tr, float loss);
/* Refuses images that are not finite; `part`: "training" or "test". */
clade_status clade__train_check_images(const clade__training *tr, const clade_batch *batch, const char *part);

/* ---- layout.c ---- */
/* Refuses layouts that do not fit; the communicators of the ranks' groups. */
clade_status clade__train_lay_ranks(clade__training *tr);
void clade__train_release_ranks(clade__training *tr);

/* ---- prepare.c: defaults and refusals; runs, loaders ---- */
clade_status clade__train_options(const clade_trainer *given, clade__training *tr);
clade_status clade__train_load(const clade__training *tr, clade_loader **out); /* this rank's rows */
/* Rows of each rank, in proportion to the shares; NULL: equal ones. */
clade_status clade__train_cut(clade__training *tr, const double *shares);
clade_status clade__train_build(clade__training *tr);
void clade__train_release(clade__training *tr);

/* ---- step.c: graphs and funcs ---- */
typedef struct clade__outcome {
  clade_val logits, loss, right;
  clade__hash model; /* of the graph up to the logits */
} clade__outcome;
/* The model over `rows` images "x", its loss by labels "y", and how many answers are right (a float: counts are exact
 * up to 2^24). */
clade__outcome clade__train_loss(const clade__training *tr, clade_graph *g, int rows, double smoothing);
/* The step of this rank's rows, up to the update; `comm`: over whose ranks gradients are summed; NULL: none. */
clade_status clade__train_add_step(const clade__training *tr, clade_graph *g, clade_comm *comm, clade__outcome *part);
clade_status clade__train_compile(const clade__training *tr, clade_graph *g, clade_func **out);
int clade__train_micro_rows(const clade__training *tr, int index); /* of this rank's, those of a micro-batch */
/* Whether a rank's graph is less than the model, or in another order. */
bool clade__train_cuts(const clade__training *tr);
/* Replaces a forward graph by this rank's part of each layer, on stages. */
clade_status clade__train_lay_out(const clade__training *tr, clade_graph **g, clade__text *explain);
/* Replaces a graph by this rank's stage of it. */
clade_status clade__train_cut_stages(const clade__training *tr, const clade__grid *grid, clade_graph **g);
clade_status clade__train_build_step(clade__training *tr);
/* Of these feeds those that the func has inputs for, which go to the front; how many. */
int clade__train_feeds(const clade_func *func, int n, clade_feed *feeds);

/* ---- test.c: loss, accuracy and confusion over the test images ---- */
/* Builds what the test needs, if it is not there yet: after the first step, which need not wait for it, and long before
 * the test, so that what cannot be tested is not trained for an epoch. */
clade_status clade__train_test_ready(clade__training *tr);
clade_status clade__train_test(clade__training *tr);

/* ---- fingerprint.c: of the images, as far as they decide the course ---- */
clade_status clade__train_fingerprint(clade__training *tr);

/* ---- resume.c: what a checkpoint says beside the variables ---- */
/* Looks for the newest one, and what it says of choices, which the funcs are compiled with. Refuses to replace any
 * where neither .resume nor .overwrite is set. */
clade_status clade__train_find(clade__training *tr);
/* Takes it where .resume says so. */
clade_status clade__train_resume(clade__training *tr);
/* What this training, and not the checkpoint, says of variables, once they are there. */
clade_status clade__train_go_on(clade__training *tr);
clade_status clade__train_save(clade__training *tr, bool best);

/* ---- speed.c ---- */
/* Cuts by .split_auto, where that is set. All ranks call it. */
clade_status clade__train_split(clade__training *tr);
/* In proportion to speeds (which are lost), in whole numbers from 1 on; little noise changes nothing. */
void clade__train_shares(int n, int batch, double *speeds, double *shares);
/* Rows a second of this rank, in the trainer's precision, while all ranks do the same. */
clade_status clade__train_measure(clade__training *tr, double *speed);

/* ---- precision.c ---- */
/* Settles .precision where .precision_auto asks for it. All ranks call it. */
clade_status clade__train_find_precision(clade__training *tr);
bool clade__train_scales(const clade__training *tr);                               /* losses */
void clade__train_precision_text(const clade_trainer *t, char *text, size_t size); /* "bf16, fc3=f32" */

/* ---- pruned.c: models that were pruned, and are ---- */
clade_status clade__train_check_pruned(const clade__training *tr);
/* The shapes of .weights. */
clade_status clade__train_take_shapes(clade__training *tr);
/* What a checkpoint says of it: null, or how the model was pruned. */
struct json_t *clade__train_pruned(const clade__training *tr);
clade_status clade__train_read_pruned(clade__training *tr, const char *path, const struct json_t *pruned);
/* From rank 0 to each, before they build a graph. All ranks call it. */
clade_status clade__train_hand_pruned(clade__training *tr);
/* To a graph, before the model is built in it. */
void clade__train_give_shapes(const clade__training *tr, clade_graph *g);
clade_status clade__train_take_weights(clade__training *tr); /* the values of .weights */
/* Before an epoch: sets weights to 0, as many as its place in the training asks for. */
clade_status clade__train_sparsify(clade__training *tr);

/* ---- quantized.c: layers that are trained for 8 bits ---- */
clade_status clade__train_check_quantized(const clade__training *tr);
/* What a checkpoint says of it: null, or the layers. */
struct json_t *clade__train_quantized(const clade__training *tr);
clade_status clade__train_read_quantized(clade__training *tr, const char *path, const struct json_t *quantized);
/* The model over an input "x", its layers simulated where that is asked for. */
clade_val clade__train_model(const clade__training *tr, clade_graph *g, clade_shape x);
/* Over a value, in a graph that was given its shapes; nothing is simulated. */
clade_val clade__train_model_of(const clade__training *tr, clade_graph *g, clade_val x);
/* Before an epoch: ranges stay, or not. */
clade_status clade__train_freeze(clade__training *tr);

/* ---- choices.c: what the steps of several ranks are compiled with ---- */
clade_status clade__train_put_text(const clade__training *tr, int to, const char *text); /* NULL: none */
clade_status clade__train_get_text(const clade__training *tr, int from, char **out);     /* to be freed */
/* From the checkpoint on rank 0 to each, before they compile. All ranks call both. */
clade_status clade__train_hand_choices(clade__training *tr);
/* From each to rank 0, which keeps them. */
clade_status clade__train_gather_choices(clade__training *tr);

/* ---- logs.c ---- */
clade_status clade__train_open_logs(clade__training *tr);
void clade__train_log(clade__training *tr, const clade_train_event *event);
void clade__train_log_histograms(clade__training *tr); /* of weights and gradients, after an epoch */
void clade__train_close_logs(clade__training *tr);

/* ---- remote.c: the state that ranks have parts of. All ranks call these ---- */
/* On rank 0: who has what, and how many bytes of the optimizer each. */
clade_status clade__train_find_foreign(clade__training *tr);
/* What rank 0 has, and the checkpoint on it, to one rank at least of those that have the same. */
clade_status clade__train_hand_out(clade__training *tr);
/* Whether all ranks that share a batch have the variable. */
bool clade__train_is_everywhere(const clade__training *tr, const char *name);
/* What rank 0 reads while it writes a checkpoint; on rank 0, once it is written. */
clade_status clade__train_hand_in(clade__training *tr);
clade_status clade__train_hash_weights(clade__training *tr); /* of whole parameters, on each rank */

/* ---- tell.c: the observer and the logs ---- */
double clade__train_waited(const clade__training *tr); /* seconds, for the loader */
double clade__train_speed(const clade__training *tr);  /* images a second */
void clade__train_tell(clade__training *tr, clade_train_event_kind kind, const char *path);

#endif
