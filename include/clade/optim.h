/* Optimizers as nodes of the graph: gradients, clipping, the update and its schedule. One func is one step of training,
 * and all that it remembers is in clade_vars, under names that begin with "optimizer.", which no parameter may have:
 *
 *   optimizer.step              i64: steps done
 *   optimizer.lr                f32: the rate that the schedule multiplies; may be set between executions
 *   optimizer.<moment>:<name>   f32, of the shape of the parameter <name>: momentum, mean, square
 *   optimizer.ema:<name>    f32: the moving average of the parameter
 *   optimizer.sum:<name>        f32: what clade_accumulate summed; optimizer.count (i64): how many times
 *   optimizer.loss_scale        f32; with it optimizer.loss_scale.clean, .skipped (i64): steps since it moved, and
 * steps that were skipped */
#ifndef CLADE_OPTIM_H
#define CLADE_OPTIM_H

#include <clade/comm.h>
#include <clade/graph.h>

CLADE_BEGIN_DECLS

/* ---- optimizers ---- */
typedef struct clade_rule clade_rule;
/* A rule and its numbers, made by the functions below. */
typedef struct clade_optimizer {
  const clade_rule *rule; /* NULL: clade_adam() */
  double lr;              /* what optimizer.lr begins with */
  double weight_decay;
  double number[8];   /* the rule's own */
  double reserved[5]; /* zero; others hold this struct, so that its size stays */
} clade_optimizer;

typedef struct clade_sgd_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_sgd_opt));
  bool filled CLADE_DEFAULT(true); /* by CLADE_SGD_OPT */
  double lr CLADE_DEFAULT(0.01);
  double momentum CLADE_UNSET;
  bool nesterov CLADE_UNSET;       /* needs a momentum */
  double weight_decay CLADE_UNSET; /* times the parameter, added to the gradient */
} clade_sgd_opt;
#define CLADE_SGD_OPT CLADE_FILLED(clade_sgd_opt, .lr = 0.01)
/* m = momentum m + g, p -= lr m; Nesterov: p -= lr (g + momentum m). clade_sgd(.lr = 0.1, .momentum = 0.9) */
#define clade_sgd(...) CLADE_FROM_DEFAULTS(clade_sgd_(CLADE_OPT_FROM(clade_sgd_opt, CLADE_SGD_OPT, __VA_ARGS__)))
CLADE_API clade_optimizer clade_sgd_(const clade_sgd_opt *opt);

typedef struct clade_adam_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_adam_opt));
  bool filled CLADE_DEFAULT(true); /* by CLADE_ADAM_OPT */
  double lr CLADE_DEFAULT(0.001);
  double beta1 CLADE_DEFAULT(0.9), beta2 CLADE_DEFAULT(0.999);
  double eps CLADE_DEFAULT(1e-8);
  double weight_decay CLADE_UNSET; /* times the parameter, added to the gradient */
} clade_adam_opt;
#define CLADE_ADAM_OPT CLADE_FILLED(clade_adam_opt, .lr = 0.001, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8)
/* p -= lr mean / (sqrt(square) + eps), both without their bias towards 0. */
#define clade_adam(...) CLADE_FROM_DEFAULTS(clade_adam_(CLADE_OPT_FROM(clade_adam_opt, CLADE_ADAM_OPT, __VA_ARGS__)))
CLADE_API clade_optimizer clade_adam_(const clade_adam_opt *opt);

typedef struct clade_adamw_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_adamw_opt));
  bool filled CLADE_DEFAULT(true); /* by CLADE_ADAMW_OPT */
  double lr CLADE_DEFAULT(0.001);
  double beta1 CLADE_DEFAULT(0.9), beta2 CLADE_DEFAULT(0.999);
  double eps CLADE_DEFAULT(1e-8);
  double weight_decay CLADE_DEFAULT(0.01); /* decoupled: p -= lr weight_decay p beside the update */
} clade_adamw_opt;
#define CLADE_ADAMW_OPT \
  CLADE_FILLED(clade_adamw_opt, .lr = 0.001, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01)
#define clade_adamw(...) \
  CLADE_FROM_DEFAULTS(clade_adamw_(CLADE_OPT_FROM(clade_adamw_opt, CLADE_ADAMW_OPT, __VA_ARGS__)))
CLADE_API clade_optimizer clade_adamw_(const clade_adamw_opt *opt);

typedef struct clade_rmsprop_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_rmsprop_opt));
  bool filled CLADE_DEFAULT(true); /* by CLADE_RMSPROP_OPT */
  double lr CLADE_DEFAULT(0.01);
  double alpha CLADE_DEFAULT(0.99);
  double eps CLADE_DEFAULT(1e-8);
  double momentum CLADE_UNSET;
  double weight_decay CLADE_UNSET; /* times the parameter, added to the gradient */
} clade_rmsprop_opt;
#define CLADE_RMSPROP_OPT CLADE_FILLED(clade_rmsprop_opt, .lr = 0.01, .alpha = 0.99, .eps = 1e-8)
/* square = alpha square + (1 - alpha) g g, m = momentum m + g / (sqrt(square) + eps), p -= lr m. */
#define clade_rmsprop(...) \
  CLADE_FROM_DEFAULTS(clade_rmsprop_(CLADE_OPT_FROM(clade_rmsprop_opt, CLADE_RMSPROP_OPT, __VA_ARGS__)))
CLADE_API clade_optimizer clade_rmsprop_(const clade_rmsprop_opt *opt);

/* ---- schedules: what the rate is multiplied by, from the number of steps done ---- */
typedef enum clade_schedule_kind {
  CLADE_SCHEDULE_CONSTANT = 0,
  CLADE_SCHEDULE_STEP,   /* factor, each `every` steps once more */
  CLADE_SCHEDULE_COSINE, /* from start up to 1 until `peak`, then down to `end` until `steps`; half waves both */
  CLADE_SCHEDULE_REFUSED /* made from options that lack their defaults: refused where it is used */
} clade_schedule_kind;
/* Made by the calls below; all zero is constant. In the first `warmup` steps it is multiplied by 1/warmup, 2/warmup,
 * up to 1. */
typedef struct clade_schedule {
  clade_schedule_kind kind;
  int64_t warmup;
  int64_t every;       /* STEP */
  double factor;       /* STEP */
  int64_t steps, peak; /* COSINE */
  double start, end;   /* COSINE */
  double reserved[4];  /* zero; others hold this struct, so that its size stays */
} clade_schedule;

typedef struct clade_constant_rate_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_constant_rate_opt));
  int64_t warmup CLADE_UNSET;
} clade_constant_rate_opt;
#define clade_constant_rate(...) clade_constant_rate_(CLADE_OPT(clade_constant_rate_opt, __VA_ARGS__))
CLADE_API clade_schedule clade_constant_rate_(const clade_constant_rate_opt *opt);

typedef struct clade_step_decay_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_step_decay_opt));
  bool filled CLADE_DEFAULT(true); /* by CLADE_STEP_DECAY_OPT */
  int64_t every CLADE_UNSET;       /* steps; 1 or more */
  double factor CLADE_DEFAULT(0.1);
  int64_t warmup CLADE_UNSET;
} clade_step_decay_opt;
#define CLADE_STEP_DECAY_OPT CLADE_FILLED(clade_step_decay_opt, .factor = 0.1)
#define clade_step_decay(...) \
  CLADE_FROM_DEFAULTS(clade_step_decay_(CLADE_OPT_FROM(clade_step_decay_opt, CLADE_STEP_DECAY_OPT, __VA_ARGS__)))
CLADE_API clade_schedule clade_step_decay_(const clade_step_decay_opt *opt);

typedef struct clade_cosine_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_cosine_opt));
  int64_t steps CLADE_UNSET;  /* of the whole training, warm-up included */
  int64_t warmup CLADE_UNSET; /* the cosine begins after it */
  double floor CLADE_UNSET;   /* what it ends at */
} clade_cosine_opt;
#define clade_cosine(...) clade_cosine_(CLADE_OPT(clade_cosine_opt, __VA_ARGS__))
CLADE_API clade_schedule clade_cosine_(const clade_cosine_opt *opt);

typedef struct clade_one_cycle_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_one_cycle_opt));
  bool filled CLADE_DEFAULT(true);                           /* by CLADE_ONE_CYCLE_OPT */
  int64_t steps CLADE_UNSET;                                 /* of the whole training */
  double peak_at CLADE_DEFAULT(0.3);                         /* where in them it is 1 */
  double start CLADE_DEFAULT(0.04), end CLADE_DEFAULT(4e-6); /* what it begins and ends at */
  int64_t warmup CLADE_UNSET;
} clade_one_cycle_opt;
#define CLADE_ONE_CYCLE_OPT CLADE_FILLED(clade_one_cycle_opt, .peak_at = 0.3, .start = 0.04, .end = 4e-6)
#define clade_one_cycle(...) \
  CLADE_FROM_DEFAULTS(clade_one_cycle_(CLADE_OPT_FROM(clade_one_cycle_opt, CLADE_ONE_CYCLE_OPT, __VA_ARGS__)))
CLADE_API clade_schedule clade_one_cycle_(const clade_one_cycle_opt *opt);
/* The factor of the step before which `step` were done; what the graph computes in f32. NULL: 1. */
CLADE_API double clade_schedule_at(const clade_schedule *schedule, int64_t step);

/* ---- a step of training ---- */
/* What ranks share out among them: each owns some of the parameters, of about as many bytes as the others', updates
 * these and alone has their optimizer.<moment>:<name> and optimizer.ema:<name>; then all get the new parameters. The
 * bits are those of ranks that have all of it. */
typedef enum clade_shard {
  CLADE_SHARD_NONE = 0,
  CLADE_SHARD_OPTIMIZER, /* the optimizer's state; gradients are summed on all ranks */
  CLADE_SHARD_GRADIENTS /* each gradient, too, is summed by its owner alone. The norm of .clip_norm is summed by owners,
                           so that it, and what is clipped by it, may be off in the last bits */
} clade_shard;
CLADE_API const char *
clade_shard_name(clade_shard shard); /* "none", "optimizer", "gradients"; "?" for a number that is none */

/* Who sums the gradients over ranks. */
typedef enum clade_reduce_by {
  CLADE_REDUCE_BY_CLADE = 0, /* the library, in pairs of ranks: to the bits of one process with as many devices */
  CLADE_REDUCE_BY_CARRIER /* the communicator's implementation, if it has sums of its own (MPI_Iallreduce), of f32 and
                             for all ranks: in an order of its own, the same each time with as many ranks */
} clade_reduce_by;

typedef struct clade_minimize_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_minimize_opt));
  clade_val loss CLADE_UNSET;           /* clade_minimize */
  const clade_graph *model CLADE_UNSET; /* clade_minimize_sums */
  clade_optimizer optimizer CLADE_UNSET;
  clade_schedule schedule CLADE_UNSET;
  double clip_value CLADE_UNSET; /* unset: none; elements of gradients are cut at this and its negative */
  double clip_norm CLADE_UNSET; /* unset: none; gradients are scaled so that the norm of all together is at most this */
  double ema CLADE_UNSET;       /* unset: none; the decay of the parameters' moving average, as 0.999 */
  bool decay_all CLADE_UNSET;   /* weight decay for parameters of fewer than two dimensions (biases, scales) too */
  bool report
      CLADE_UNSET; /* outputs "lr" and "grad_norm", f32 scalars: this step's rate, the norm before it was clipped */
  /* Gradients are summed over its ranks (clade_all_reduce), in buckets, the last layers' first; unset: they are not */
  clade_comm *comm CLADE_UNSET;
  clade_shard shard CLADE_UNSET;    /* of .comm's ranks */
  clade_dtype compress CLADE_UNSET; /* what gradients travel as between them (clade_all_reduce); unset: f32 */
  /* Matrices travel between .comm's ranks as approximations of this rank (PowerSGD, docs/distributed.md), where that is
   * less than half their bytes; what these leave out is optimizer.low_rank.error.<rank>:<name>, and is added to the
   * rank's next gradient. Unset: as they are */
  int low_rank CLADE_UNSET;
  clade_reduce_by reduce CLADE_UNSET;
  /* Weights that are 0 get no gradient, so that what was pruned stays 0 (docs/pruning.md): of parameters of two
   * dimensions and more */
  bool keep_zeros CLADE_UNSET;
  /* For f16 (docs/mixed-precision.md): gradients are computed times this, as 65536, and divided by it where they are
   * used. It doubles after 2000 steps whose gradients were finite; where they are not it is halved, and the step is
   * skipped: variables stay as they are, those too that the model assigns. Unset: none */
  double loss_scale CLADE_UNSET;
} clade_minimize_opt;
/* clade_minimize(g, loss, .optimizer = clade_adam(.lr = 1e-3), .schedule = clade_cosine(.steps = 10000)) adds to the
 * graph: the gradients of the scalar `loss` by all parameters that it depends on, clipping, and the update that
 * assigns them. Other parameters stay as they are. Once per graph. */
#define clade_minimize(g, ...) clade_minimize_(g, CLADE_OPT(clade_minimize_opt, .loss = __VA_ARGS__))
CLADE_API clade_status clade_minimize_(clade_graph *g, const clade_minimize_opt *opt);

/* Gradients of several batches, then one update: two funcs over one clade_vars. The first one's graph holds the model;
 * each of its executions adds the gradients of its batch to the sums, in f32. The second one's graph, new and empty,
 * gets all variables of the first (so that clade_vars_new of its func makes those of both) and an update by the mean of
 * the gradients since the last one, of which there must be one at least. Their runs take turns: wait for one's
 * executions before the other one goes on. clade_accumulate(g, loss); clade_minimize_sums(u, g, .optimizer = …); */
CLADE_API clade_status clade_accumulate(clade_graph *g, clade_val loss);
#define clade_minimize_sums(g, ...) clade_minimize_(g, CLADE_OPT(clade_minimize_opt, .model = __VA_ARGS__))

/* ---- a rule of one's own ---- */
/* What a rule gets: n parameters on one device and of one element type, with gradients of one type. */
typedef struct clade_update {
  size_t size;
  clade_graph *graph;
  const clade_optimizer *optimizer;
  int n;
  const clade_val *parameters;
  const clade_val *gradients;  /* as they come: clade_update_gradient gives those to be used */
  const clade_val *moments;    /* the rule's moments of the first parameter, of the second, … */
  const bool *decays;          /* [n]: weight decay is for this one */
  clade_val lr;                /* f32 scalar: this step's rate */
  clade_val step;              /* i64 scalar: this step's number, from 1 on */
  clade_val scale, clip_scale; /* f32 scalars: gradients are multiplied by one, cut, and multiplied by the other */
  double clip_value;           /* 0: not cut */
  clade_val *new_parameters, *new_moments; /* to be filled */
  bool skips; /* steps may be skipped (.loss_scale); `step` is 0 in these. What the rule then computes is left aside */
} clade_update;
/* The i-th gradient, scaled and clipped, in the type of the parameter. */
CLADE_API clade_val clade_update_gradient(const clade_update *update, int i);

enum { CLADE_MAX_MOMENTS = 4 };
/* Must outlive the graph's building. Clade's own are the same table. */
struct clade_rule {
  size_t size;
  const char *name;
  const char *moments[CLADE_MAX_MOMENTS]; /* NULL ends them; each is a variable, f32, of the parameter's shape, 0 at
                                             first */
  clade_status (*check)(const clade_optimizer *optimizer); /* refuses numbers; NULL: takes all */
  clade_status (*update)(const clade_update *update);      /* adds nodes */
};

CLADE_END_DECLS
#endif
