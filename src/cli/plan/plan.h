/* Between the files of clade plan: what a model's layers cost when they are cut over ranks (work.c), what a step takes
 * in a layout (layout.c), which layout is the best (search.c), and how it is told (show.c, json.c). */
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
/* By --model and --side (0: the model's own); CLADE_NOT_FOUND and CLADE_INVALID are the caller's to tell. */
clade_status plan_model_of(const char *name, int64_t side, plan_model *out);
/* The forward graph of so many rows, with the output "loss". */
clade_status plan_model_graph(const plan_model *model, int64_t rows, clade_graph **out);

/* ---- what a rank has ---- */
typedef struct plan_device {
  const char *name;
  double flops, bandwidth;          /* a second; bytes a second, of its memory */
  const clade__pass_ctx *estimates; /* whose device's estimates nodes go by; NULL: by the two rates above */
} plan_device;

typedef struct plan_links {
  scale_link link; /* near_ranks: of a node; 0: each is alone */
} plan_links;
/* Of ranks whose numbers are `stride` apart, with the time between two looks at messages. */
scale_link plan_link(const plan_links *links, int stride);

/* ---- work.c: one micro-batch of one rank of each stage ---- */
typedef struct plan_pass {
  double compute, moves; /* seconds; moves: of values between tensor neighbors */
} plan_pass;
typedef struct plan_piece {
  plan_pass forward, backward;
  double parameters, others; /* bytes: learned variables, and those that are not */
  double lent;               /* bytes: parameters of other pieces */
  double kept, passing;      /* bytes of values: for the backward pass of each micro-batch under way; others, at most */
} plan_piece;
typedef enum plan_move_kind { PLAN_ALL_REDUCE, PLAN_REDUCE_SCATTER, PLAN_ALL_GATHER, PLAN_ALL_TO_ALL } plan_move_kind;
/* Of tensor neighbors, `n` times in each pass. */
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
/* `forward`: a tensor rank's part of the model for one micro-batch. It is cut as `grid` says. */
clade_status plan_work_of(const clade_graph *forward, const clade__grid *grid, const plan_device *device,
                          const plan_links *links, plan_work *out);
void plan_work_free(plan_work *work);
/* The part of a model that the first of the communicator's ranks has, as a training cuts it that is told no memory. */
clade_status plan_part(const clade_graph *whole, const plan_device *device, const plan_links *links, clade_comm *comm,
                       clade_graph **out);
/* A communicator that has a rank and a size, and carries nothing. It lives as long as what is built with it. */
clade_status plan_nobody(int ranks, clade_comm **out);

/* ---- layout.c: a step ---- */
typedef struct plan_layout {
  clade__grid grid;
  clade_shard shard;
  int64_t rows; /* of a micro-batch */
  double seconds;
  double idle;    /* share of the step in which a stage waits for others, the mean of all stages */
  double moves;   /* seconds of a step, of the stage that has most: values between tensor neighbors */
  double exposed; /* seconds of a step: sums over data ranks, and gathered parameters */
  double update;  /* seconds of a step, of the stage that has most parameters */
  double memory;  /* bytes, of the fullest rank */
  double variables, moments, gradients, values; /* bytes: what these are */
  bool fits;
  const plan_work *work;
} plan_layout;
typedef struct plan_job {
  plan_model model;
  plan_device device;
  plan_links links;
  int ranks;
  int64_t batch;
  double memory; /* bytes that a rank has */
  int moments;   /* of the optimizer, for each parameter */
} plan_job;
/* layout->grid, .shard, .rows and .work are given. */
clade_status plan_evaluate(const plan_job *job, plan_layout *layout);
/* Sums of gradients that are alive at once while micro-batches are added in pairs. */
int plan_gradient_sums(int micro_batches);

/* ---- search.c ---- */
typedef struct plan_found {
  plan_layout *layouts; /* the fastest first; those that do not fit come last, the least memory first */
  int n, n_fit;
  double alone;      /* seconds of a step of one rank, whether it would fit or not */
  plan_work **works; /* of several layouts each */
  int n_works;
  size_t capacity, work_capacity;
} plan_found;
clade_status plan_search(const plan_job *job, plan_found *found);
void plan_found_free(plan_found *found);

/* ---- show.c, json.c ---- */
void plan_show(const plan_job *job, const plan_found *found, int rows);
json_t *plan_json(const plan_job *job, const plan_found *found, int rows);

#endif
