/* Shared by the parts of clade plan: cost of layers cut over ranks (work.c), time of a step in a layout (layout.c),
 * search for the best layout (search.c), output (show.c, json.c). */
#ifndef CLADE_CLI_PLAN_H
#define CLADE_CLI_PLAN_H

#include <clade/optim.h>

#include "cli/bench/scale_model.h"
#include "cli/cli.h"
#include "cli/plan/schedule.h"
#include "models/gpt.h"
#include "parallel/parallel.h"
#include "pass/pass.h"

/* ---- the model (model.c) ---- */
typedef struct plan_model {
  const char *name;
  clade_model_fn *images; /* NULL: a GPT */
  gpt_sizes sizes;
  int64_t channels, side, classes;
} plan_model;
#define PLAN_MODELS MODEL_NAMES ", or gpt:layers=12,width=768,heads=12,vocab=50257,length=1024"
/* Finds a model by --model and --side (0: the model's default). CLADE_NOT_FOUND and CLADE_INVALID have no message;
 * the caller writes it. */
clade_status plan_model_of(const char *name, int64_t side, plan_model *out);
/* The forward graph for this number of rows, with output "loss". */
clade_status plan_model_graph(const plan_model *model, int64_t rows, clade_graph **out);

/* ---- a rank's device and links ---- */
typedef struct plan_device {
  const char *name;
  double flops, bandwidth;          /* per second; memory bandwidth in bytes per second */
  const clade__pass_ctx *estimates; /* device whose estimates are used; NULL: the two rates */
  double scale;                     /* of estimated seconds: those measured, by those estimated; 1: not measured */
} plan_device;

typedef struct plan_links {
  scale_link link; /* near_ranks: ranks of a node; 0: one rank per node */
} plan_links;
/* Link between ranks whose numbers differ by `stride`, with the polling interval included. */
scale_link plan_link(const plan_links *links, int stride);

/* ---- work.c: one micro-batch on one rank of each stage ---- */
typedef struct plan_pass {
  double compute, moves; /* seconds; moves: communication between tensor ranks */
} plan_pass;
typedef struct plan_piece {
  plan_pass forward, backward;
  double parameters, others; /* bytes of parameters, and of other variables */
  double lent;               /* bytes of parameters borrowed from other pieces */
  int n_sizes;
  size_t *sizes, size_capacity; /* bytes of each parameter */
  /* Bytes of values. kept: for the backward pass, of each micro-batch in flight; passing: largest size of the
   * others. */
  double kept, passing;
} plan_piece;
typedef enum plan_move_kind { PLAN_ALL_REDUCE, PLAN_REDUCE_SCATTER, PLAN_ALL_GATHER, PLAN_ALL_TO_ALL } plan_move_kind;
/* Communication between tensor ranks, `n` times in each pass. */
typedef struct plan_move {
  int piece, n;
  bool backward;
  plan_move_kind kind;
  double bytes;
} plan_move;
typedef struct plan_work {
  int n_pieces, n_messages, n_moves;
  size_t message_capacity, move_capacity;
  plan_piece *pieces;
  schedule_message *messages;
  plan_move *moves;
} plan_work;
/* forward: a tensor rank's part of the model for one micro-batch, which is cut into pieces by `grid`. */
clade_status plan_work_of(const clade_graph *forward, const clade__grid *grid, const plan_device *device,
                          const plan_links *links, plan_work *out);
void plan_work_free(plan_work *work);
/* The part of the model on the communicator's rank, cut as in a training without a memory limit. */
clade_status plan_part(const clade_graph *whole, const plan_device *device, const plan_links *links, clade_comm *comm,
                       clade_graph **out);
/* The output "loss". */
clade_val plan_loss(const clade_graph *g);
/* A communicator with a rank and a size but no transport. It must outlive what is built with it. */
clade_status plan_nobody(int ranks, clade_comm **out);

/* ---- layout.c: a step ---- */
typedef struct plan_layout {
  clade__grid grid;
  clade_shard shard;
  int64_t rows;
  double seconds;
  double idle;    /* fraction of the step in which stages wait, averaged over stages */
  double moves;   /* seconds of a step for communication between tensor ranks, on the slowest stage */
  double exposed; /* seconds of a step for all-reduces and gathered parameters that nothing hides */
  double update;  /* seconds of a step for the update, on the stage with most parameters */
  double memory;  /* bytes of the fullest rank */
  double variables, moments, gradients, values; /* bytes; the parts of `memory` */
  bool fits;
  const plan_work *work;
} plan_layout;
typedef struct plan_job {
  plan_model model;
  plan_device device;
  plan_links links;
  int ranks;
  int64_t batch;
  double memory; /* bytes available on a rank */
  int moments;
  int64_t measured_rows;      /* of a step on one rank that was measured; 0: none */
  double measured, estimated; /* its seconds */
} plan_job;
/* Fills in the estimates; layout->grid, .shard, .rows and .work are given. */
clade_status plan_evaluate(const plan_job *job, plan_layout *layout);
/* Number of gradient sums in memory at once, while micro-batches are added in pairs. */
int plan_gradient_sums(int micro_batches);

/* ---- search.c ---- */
typedef struct plan_found {
  plan_layout *layouts; /* sorted: those that fit, fastest first; then the others, least memory first */
  int n, n_fit;
  double alone;      /* seconds of a step on one rank, regardless of memory */
  plan_work **works; /* each is shared by several layouts */
  int n_works;
  size_t capacity, work_capacity;
} plan_found;
clade_status plan_search(const plan_job *job, plan_found *found);
/* A step of one rank, in one micro-batch: its seconds, and those of them for the update. */
clade_status plan_alone(const plan_job *job, int64_t rows, double *seconds, double *update);
void plan_found_free(plan_found *found);

/* ---- measure.c ---- */
clade_status plan_measure(const plan_job *job, clade_device *device, int64_t rows, double *seconds);

/* ---- show.c, json.c ---- */
void plan_show(const plan_job *job, const plan_found *found, int rows);
json_t *plan_json(const plan_job *job, const plan_found *found, int rows);

#endif
