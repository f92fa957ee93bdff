/* Optimizers as nodes of a graph: gradients, clipping, update and learning-rate schedule. One func is one training
 * step. The state is in clade_vars, under names that begin with "optimizer.", which no parameter may have:
 *
 *   optimizer.step               i64: steps done
 *   optimizer.lr                 f32: learning rate before the schedule; may be set between executions
 *   optimizer.<moment>:<name>    f32, in the shape of the parameter <name>: momentum, mean, square
 *   optimizer.ema:<name>         f32: moving average of the parameter
 *   optimizer.sum:<name>         f32: sum of gradients (clade_accumulate)
 *   optimizer.count              i64: number of gradients in the sums
 *   optimizer.loss_scale         f32: loss scale
 *   optimizer.loss_scale.clean   i64: steps since the loss scale changed
 *   optimizer.loss_scale.skipped i64: steps that were skipped */
#ifndef CLADE_OPTIM_H
#define CLADE_OPTIM_H

#include <clade/comm.h>
#include <clade/graph.h>

CLADE_BEGIN_DECLS

/* ---- optimizers ----
 * An optimizer is a rule and its numbers. In formulas, p is a parameter, g its gradient, lr the learning rate. */

/* An update rule: one of Clade's, or a program's own (below). */
typedef struct clade_rule clade_rule;
/* An optimizer. Made by clade_sgd, clade_adam, clade_adamw and clade_rmsprop. */
typedef struct clade_optimizer {
  const clade_rule *rule; /* NULL: clade_adam() */
  double lr;              /* initial value of optimizer.lr */
  double weight_decay;    /* weight decay */
  double number[8];       /* numbers of the rule */
  double reserved[5];     /* zero; keeps the size of structs that hold this one */
} clade_optimizer;

/* Options of clade_sgd. */
typedef struct clade_sgd_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_sgd_opt));
  bool filled CLADE_DEFAULT(true); /* by CLADE_SGD_OPT */
  double lr CLADE_DEFAULT(0.01);   /* learning rate */
  double momentum CLADE_UNSET;     /* momentum */
  bool nesterov CLADE_UNSET;       /* Nesterov momentum; needs a momentum */
  double weight_decay CLADE_UNSET; /* times the parameter, added to the gradient */
} clade_sgd_opt;
#define CLADE_SGD_OPT CLADE_FILLED(clade_sgd_opt, .lr = 0.01)
/* Stochastic gradient descent: m = momentum m + g, p -= lr m. With Nesterov momentum: p -= lr (g + momentum m).
 * clade_sgd(.lr = 0.1, .momentum = 0.9) */
#define clade_sgd(...) CLADE_FROM_DEFAULTS(clade_sgd_(CLADE_OPT_FROM(clade_sgd_opt, CLADE_SGD_OPT, __VA_ARGS__)))
CLADE_API clade_optimizer clade_sgd_(const clade_sgd_opt *opt);

/* Options of clade_adam. */
typedef struct clade_adam_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_adam_opt));
  bool filled CLADE_DEFAULT(true);                             /* by CLADE_ADAM_OPT */
  double lr CLADE_DEFAULT(0.001);                              /* learning rate */
  double beta1 CLADE_DEFAULT(0.9), beta2 CLADE_DEFAULT(0.999); /* decay of the mean, of the mean square */
  double eps CLADE_DEFAULT(1e-8);                              /* added to the denominator */
  double weight_decay CLADE_UNSET;                             /* times the parameter, added to the gradient */
} clade_adam_opt;
#define CLADE_ADAM_OPT CLADE_FILLED(clade_adam_opt, .lr = 0.001, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8)
/* Adam: p -= lr mean / (sqrt(square) + eps), with bias-corrected moments. */
#define clade_adam(...) CLADE_FROM_DEFAULTS(clade_adam_(CLADE_OPT_FROM(clade_adam_opt, CLADE_ADAM_OPT, __VA_ARGS__)))
CLADE_API clade_optimizer clade_adam_(const clade_adam_opt *opt);

/* Options of clade_adamw. */
typedef struct clade_adamw_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_adamw_opt));
  bool filled CLADE_DEFAULT(true);                             /* by CLADE_ADAMW_OPT */
  double lr CLADE_DEFAULT(0.001);                              /* learning rate */
  double beta1 CLADE_DEFAULT(0.9), beta2 CLADE_DEFAULT(0.999); /* decay of the mean, of the mean square */
  double eps CLADE_DEFAULT(1e-8);                              /* added to the denominator */
  double weight_decay CLADE_DEFAULT(0.01);                     /* decoupled weight decay */
} clade_adamw_opt;
#define CLADE_ADAMW_OPT \
  CLADE_FILLED(clade_adamw_opt, .lr = 0.001, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01)
/* AdamW: the update of Adam, and p -= lr weight_decay p. */
#define clade_adamw(...) \
  CLADE_FROM_DEFAULTS(clade_adamw_(CLADE_OPT_FROM(clade_adamw_opt, CLADE_ADAMW_OPT, __VA_ARGS__)))
CLADE_API clade_optimizer clade_adamw_(const clade_adamw_opt *opt);

/* Options of clade_rmsprop. */
typedef struct clade_rmsprop_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_rmsprop_opt));
  bool filled CLADE_DEFAULT(true);  /* by CLADE_RMSPROP_OPT */
  double lr CLADE_DEFAULT(0.01);    /* learning rate */
  double alpha CLADE_DEFAULT(0.99); /* decay of the mean square */
  double eps CLADE_DEFAULT(1e-8);   /* added to the denominator */
  double momentum CLADE_UNSET;      /* momentum */
  double weight_decay CLADE_UNSET;  /* times the parameter, added to the gradient */
} clade_rmsprop_opt;
#define CLADE_RMSPROP_OPT CLADE_FILLED(clade_rmsprop_opt, .lr = 0.01, .alpha = 0.99, .eps = 1e-8)
/* RMSProp: square = alpha square + (1 - alpha) g g, m = momentum m + g / (sqrt(square) + eps), p -= lr m. */
#define clade_rmsprop(...) \
  CLADE_FROM_DEFAULTS(clade_rmsprop_(CLADE_OPT_FROM(clade_rmsprop_opt, CLADE_RMSPROP_OPT, __VA_ARGS__)))
CLADE_API clade_optimizer clade_rmsprop_(const clade_rmsprop_opt *opt);

/* ---- learning-rate schedules ----
 * A schedule gives a factor of the learning rate from the number of steps done. */

/* The kind of a schedule. */
typedef enum clade_schedule_kind {
  CLADE_SCHEDULE_CONSTANT = 0, /* 1 */
  CLADE_SCHEDULE_STEP,         /* multiplied by `factor` once more every `every` steps */
  CLADE_SCHEDULE_COSINE,       /* half cosine waves: `start` to 1 at step `peak`, then to `end` at step `steps` */
  CLADE_SCHEDULE_REFUSED       /* made of options without their defaults; refused where it is used */
} clade_schedule_kind;
/* A schedule. Made by the calls below; all zero is constant. */
typedef struct clade_schedule {
  clade_schedule_kind kind; /* form of the curve */
  int64_t warmup;           /* the first steps, in which the factor is also multiplied by 1/warmup, 2/warmup, … 1 */
  int64_t every;            /* STEP: number of steps */
  double factor;            /* STEP: factor */
  int64_t steps, peak;      /* COSINE: last step; step of the maximum */
  double start, end;        /* COSINE: first and last factor */
  double reserved[4];       /* zero; keeps the size of structs that hold this one */
} clade_schedule;

/* Options of clade_constant_rate. */
typedef struct clade_constant_rate_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_constant_rate_opt));
  int64_t warmup CLADE_UNSET; /* steps of linear warm-up */
} clade_constant_rate_opt;
/* A constant learning rate after a warm-up. */
#define clade_constant_rate(...) clade_constant_rate_(CLADE_OPT(clade_constant_rate_opt, __VA_ARGS__))
CLADE_API clade_schedule clade_constant_rate_(const clade_constant_rate_opt *opt);

/* Options of clade_step_decay. */
typedef struct clade_step_decay_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_step_decay_opt));
  bool filled CLADE_DEFAULT(true);  /* by CLADE_STEP_DECAY_OPT */
  int64_t every CLADE_UNSET;        /* steps between decays, at least 1 */
  double factor CLADE_DEFAULT(0.1); /* factor of each decay */
  int64_t warmup CLADE_UNSET;       /* steps of linear warm-up */
} clade_step_decay_opt;
#define CLADE_STEP_DECAY_OPT CLADE_FILLED(clade_step_decay_opt, .factor = 0.1)
/* A step decay: clade_step_decay(.every = 1000) */
#define clade_step_decay(...) \
  CLADE_FROM_DEFAULTS(clade_step_decay_(CLADE_OPT_FROM(clade_step_decay_opt, CLADE_STEP_DECAY_OPT, __VA_ARGS__)))
CLADE_API clade_schedule clade_step_decay_(const clade_step_decay_opt *opt);

/* Options of clade_cosine. */
typedef struct clade_cosine_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_cosine_opt));
  int64_t steps CLADE_UNSET;  /* steps of the training, warm-up included */
  int64_t warmup CLADE_UNSET; /* steps of linear warm-up, before the cosine */
  double floor CLADE_UNSET;   /* last factor */
} clade_cosine_opt;
/* A cosine decay: clade_cosine(.steps = 10000, .warmup = 500) */
#define clade_cosine(...) clade_cosine_(CLADE_OPT(clade_cosine_opt, __VA_ARGS__))
CLADE_API clade_schedule clade_cosine_(const clade_cosine_opt *opt);

/* Options of clade_one_cycle. */
typedef struct clade_one_cycle_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_one_cycle_opt));
  bool filled CLADE_DEFAULT(true);                           /* by CLADE_ONE_CYCLE_OPT */
  int64_t steps CLADE_UNSET;                                 /* steps of the training */
  double peak_at CLADE_DEFAULT(0.3);                         /* where the factor is 1, as a fraction of the steps */
  double start CLADE_DEFAULT(0.04), end CLADE_DEFAULT(4e-6); /* first and last factor */
  int64_t warmup CLADE_UNSET;                                /* steps of linear warm-up */
} clade_one_cycle_opt;
#define CLADE_ONE_CYCLE_OPT CLADE_FILLED(clade_one_cycle_opt, .peak_at = 0.3, .start = 0.04, .end = 4e-6)
/* The one-cycle schedule, up to 1 and down again: clade_one_cycle(.steps = 10000) */
#define clade_one_cycle(...) \
  CLADE_FROM_DEFAULTS(clade_one_cycle_(CLADE_OPT_FROM(clade_one_cycle_opt, CLADE_ONE_CYCLE_OPT, __VA_ARGS__)))
CLADE_API clade_schedule clade_one_cycle_(const clade_one_cycle_opt *opt);
/* The factor of a step before which `step` steps were done, as the graph computes it in f32. NULL: 1. */
CLADE_API double clade_schedule_at(const clade_schedule *schedule, int64_t step);

/* ---- training steps ---- */
/* The state that ranks share out. Each rank owns some parameters, of about equally many bytes, updates them, and alone
 * has their optimizer state; then all ranks get the new parameters. The bits are the same as without sharding. */
typedef enum clade_shard {
  CLADE_SHARD_NONE = 0,  /* nothing */
  CLADE_SHARD_OPTIMIZER, /* optimizer state; gradients are summed on all ranks */
  /* Optimizer state and gradients: each gradient is summed by its owner only. So is the norm of .clip_norm, which may
   * therefore differ in the last bits. */
  CLADE_SHARD_GRADIENTS
} clade_shard;
/* The name: "none", "optimizer" or "gradients"; "?" for an unknown number. */
CLADE_API const char *clade_shard_name(clade_shard shard);

/* The code that sums gradients over ranks. */
typedef enum clade_reduce_by {
  CLADE_REDUCE_BY_CLADE = 0, /* the library, in pairs of ranks: the bits of one process with as many devices */
  /* The communicator's implementation (MPI_Iallreduce), if it has sums of its own: of f32, for all ranks. The order of
   * summation is its own, and reproducible with the same number of ranks. */
  CLADE_REDUCE_BY_CARRIER
} clade_reduce_by;

/* Options of clade_minimize and clade_minimize_sums. */
typedef struct clade_minimize_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_minimize_opt));
  clade_val loss CLADE_UNSET;            /* clade_minimize: the loss */
  const clade_graph *model CLADE_UNSET;  /* clade_minimize_sums: the graph of the model */
  clade_optimizer optimizer CLADE_UNSET; /* unset: clade_adam() */
  clade_schedule schedule CLADE_UNSET;   /* learning-rate schedule; unset: constant */
  double clip_value CLADE_UNSET;         /* clip each element of the gradients to ± this; unset: none */
  double clip_norm CLADE_UNSET;          /* scale the gradients to at most this norm in total; unset: none */
  double ema CLADE_UNSET;                /* decay of a moving average of the parameters, such as 0.999; unset: none */
  bool decay_all CLADE_UNSET; /* apply weight decay also to parameters of fewer than two dimensions (biases, scales) */
  bool report CLADE_UNSET;    /* add f32 outputs "lr" and "grad_norm": learning rate, and norm before clipping */
  /* Sum the gradients over the ranks of this communicator (clade_all_reduce), in buckets, the last layers' first.
   * Unset: no sums. */
  clade_comm *comm CLADE_UNSET;
  clade_shard shard CLADE_UNSET;    /* the state that .comm's ranks share out */
  clade_dtype compress CLADE_UNSET; /* type of gradients in messages (clade_all_reduce); unset: f32 */
  /* Send matrices as approximations of this rank (PowerSGD, docs/distributed.md) where that takes less than half of
   * their bytes. The error is kept in optimizer.low_rank.error.<rank>:<name> and added to the next gradient. Unset:
   * none. */
  int low_rank CLADE_UNSET;
  clade_reduce_by reduce CLADE_UNSET; /* the code that sums the gradients */
  /* Mask the gradients of weights that are 0, so that pruned weights stay 0 (docs/pruning.md). For parameters of two
   * dimensions or more. */
  bool keep_zeros CLADE_UNSET;
  /* Initial loss scale for f16, such as 65536 (docs/mixed-precision.md). The scale doubles after 2000 steps with finite
   * gradients. After a step with gradients that are not finite it is halved, and the step is skipped: all variables
   * keep their values. Unset: none. */
  double loss_scale CLADE_UNSET;
} clade_minimize_opt;
/* Adds a training step to the graph: the gradients of the scalar `loss` with respect to all parameters that it depends
 * on, clipping, and the update. Other parameters stay as they are. At most once per graph.
 *
 *     clade_minimize(g, loss, .optimizer = clade_adam(.lr = 1e-3), .schedule = clade_cosine(.steps = 10000)); */
#define clade_minimize(g, ...) clade_minimize_(g, CLADE_OPT(clade_minimize_opt, .loss = __VA_ARGS__))
CLADE_API clade_status clade_minimize_(clade_graph *g, const clade_minimize_opt *opt);

/* Gradient accumulation: the gradients of several batches, then one update, by two funcs over one clade_vars.
 *
 *     clade_accumulate(g, loss);                  // in the graph of the model
 *     clade_minimize_sums(u, g, .optimizer = …);  // in a new, empty graph
 *
 * Each execution of the first func adds the gradients of its batch to sums in f32. An execution of the second one
 * updates by their mean since the last update, of at least one batch. The second graph gets all variables of the first,
 * so clade_vars_new of its func makes the variables of both. The runs take turns: wait for the executions of one before
 * the other continues. */
CLADE_API clade_status clade_accumulate(clade_graph *g, clade_val loss);
#define clade_minimize_sums(g, ...) clade_minimize_(g, CLADE_OPT(clade_minimize_opt, .model = __VA_ARGS__))

/* ---- update rules of a program ---- */
/* The arguments of a rule: n parameters on one device, of one element type, with gradients of one type. */
typedef struct clade_update {
  size_t size;
  clade_graph *graph;                      /* where nodes are added */
  const clade_optimizer *optimizer;        /* the optimizer's numbers */
  int n;                                   /* number of parameters */
  const clade_val *parameters;             /* their values */
  const clade_val *gradients;              /* unscaled and not clipped; use clade_update_gradient instead */
  const clade_val *moments;                /* the rule's moments of the first parameter, then of the second, … */
  const bool *decays;                      /* [n]: whether weight decay applies */
  clade_val lr;                            /* f32 scalar: learning rate of this step */
  clade_val step;                          /* i64 scalar: number of this step, from 1 on */
  clade_val scale, clip_scale;             /* f32 scalars: factors of gradients before and after clipping by value */
  double clip_value;                       /* 0: none */
  clade_val *new_parameters, *new_moments; /* results, to be filled */
  bool skips; /* steps may be skipped (.loss_scale); `step` is then 0, and the results are discarded */
} clade_update;
/* The i-th gradient, scaled and clipped, in the type of the parameter. */
CLADE_API clade_val clade_update_gradient(const clade_update *update, int i);

enum { CLADE_MAX_MOMENTS = 4 }; /* most moments of a rule */
/* A rule. The struct must live until the graph is built. Clade's own rules are such structs, too. */
struct clade_rule {
  size_t size;
  const char *name; /* name of the rule */
  /* Names of the moments, ending in NULL. Each is an f32 variable in the shape of the parameter, initially 0. */
  const char *moments[CLADE_MAX_MOMENTS];
  clade_status (*check)(const clade_optimizer *optimizer); /* refuses wrong numbers; NULL: all are accepted */
  clade_status (*update)(const clade_update *update);      /* adds nodes that compute the results */
};

CLADE_END_DECLS
#endif
