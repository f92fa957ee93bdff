/* Shared by the files of the tuner: a problem, its trials, and the small funcs in which they run. */
#ifndef CLADE_TUNE_INTERNAL_H
#define CLADE_TUNE_INTERNAL_H

#include <clade/tune.h>

#include "plan/plan.h"

/* The remaining budget. A compilation cannot be interrupted, so none is started that might end after the deadline.
 * The estimate is the longest compilation of a kernel so far; a fast one may have come from a driver's cache and
 * says nothing about the next. */
typedef struct clade__clock {
  double deadline; /* INFINITY: no limit */
  double most;     /* longest compilation of a kernel, in seconds; 0: none yet */
} clade__clock;
bool clade__is_time(const clade__clock *clock, double seconds); /* seconds 0: any time */
typedef struct clade__mark {
  clade_device *device;
  double at;
  uint64_t compiled;
} clade__mark;
clade__mark clade__clock_mark(clade_device *device);
void clade__clock_learn(clade__clock *clock, const clade__mark *since); /* learns from compilations since */

/* A node taken out of a func. Types and attributes are borrowed from the func. */
typedef struct clade__problem {
  clade_device *device;
  const clade_op *op;
  const void *attrs;
  int n_in, n_out;
  clade_type in[CLADE_MAX_OPERANDS];
  int impl;              /* current choice */
  const int32_t *config; /* NULL: no configuration */
  char *text;
  int nodes;
  double weight; /* estimated seconds in the func */
} clade__problem;

typedef enum clade__trial_state {
  CLADE__TRIAL_OPEN,
  CLADE__TRIAL_RIGHT,
  CLADE__TRIAL_REFUSED, /* refuses the problem, or kernels do not compile */
  CLADE__TRIAL_WRONG
} clade__trial_state;

/* Variants of a trial: sizes with tails and the whole problem, for the check; the whole problem with results in the
 * trial's layouts, for timing (the same as WHOLE if they are dense). */
typedef enum clade__scale { CLADE__TAILS, CLADE__WHOLE, CLADE__BARE, CLADE__SCALES } clade__scale;

enum { CLADE__TUNE_ROUNDS = 9 };
typedef struct clade__trial {
  int impl;
  bool has_config;
  int32_t config[CLADE_MAX_PARAMS];
  clade__trial_state state;
  clade_func *func[CLADE__SCALES];
  clade_run *run;
  int n_feeds; /* in each execution */
  const clade_feed *feeds;
  int rounds;
  double seconds[CLADE__TUNE_ROUNDS], median; /* median: seconds of an execution; 0: not timed */
  double before;                              /* median of previous turns */
} clade__trial;
void clade__trial_close(clade__trial *c);                                /* releases device objects */
char *clade__trial_text(const clade__problem *p, const clade__trial *c); /* "vec TM=6"; by clade__free */

/* A problem with given sizes, as a graph of one node whose operands are variables. Packed copies of variables are
 * kept, so packing is not timed. */
typedef struct clade__stage {
  clade_graph *graph;
  clade_type out[CLADE_MAX_OPERANDS];
  size_t out_bytes[CLADE_MAX_OPERANDS];
  clade_vars *vars; /* created with the first trial */
  void **right;     /* [n_out]: reference results; NULL: not computed yet */
} clade__stage;

/* ---- stages (stage.c) ---- */
/* Sizes that leave tails in every tile, as far as the op allows to change them. */
void clade__tails(const clade__problem *p, clade_type in[CLADE_MAX_OPERANDS]);
/* out NULL: dense results. */
clade_status clade__stage_open(const clade__problem *p, const clade_type *in, const clade_type *out, clade__stage *s);
clade__id clade__stage_node(const clade__problem *p); /* id of the problem's node in the stage's graph */
void clade__stage_close(const clade__problem *p, clade__stage *s);
/* Makes a func of the trial, without kernels. CLADE_UNSUPPORTED: the trial refuses the problem. */
clade_status clade__stage_func(const clade__problem *p, const clade__stage *s, const clade__trial *c, clade_func **out);
/* The same with results in the trial's layouts; *out is NULL if these are dense. */
clade_status clade__stage_bare(const clade__problem *p, const clade__trial *c, clade_func **out);
/* Random values, equal in every process; positive: for ops such as square roots. By clade__free. */
clade_status clade__draw(const clade_type *type, bool positive, void **data, size_t *bytes);
clade_status clade__stage_fill(const clade__problem *p, clade__stage *s, clade_func *func, bool positive);

/* ---- results (check.c) ---- */
/* Creates a run with memory full of NaN and executes it once; *out: results on the host. */
clade_status clade__answer(const clade__problem *p, const clade__stage *s, clade_func *func, clade_run **run,
                           void ***out);
void clade__answer_free(const clade__problem *p, void **answer);
bool clade__answers_agree(const clade__problem *p, const clade__stage *s, void *const *right, void *const *given);
bool clade__answer_has_nan(const clade__problem *p, const clade__stage *s, void *const *answer);

/* ---- time (time.c) ---- */
/* Times trials with correct results in turns until `deadline`; fills in medians. round_seconds: length of a turn. If
 * there is no time for a first round, medians stay unchanged. */
clade_status clade__take_turns(clade__trial **at, int n, int rounds, double round_seconds, double deadline,
                               const clade__clock *clock);

/* ---- the search (search.c) ---- */
typedef struct clade__found { /* trials without device objects */
  clade__trial before, after;
  clade__trial best[CLADE__PICKED_IMPLS * CLADE_MAX_ALTERNATIVES]; /* fastest of each implementation and alternative */
  int n_best, candidates, wrong;
  bool complete; /* all trials were timed */
  double ready;  /* seconds until the first trials were compiled; depends on the state of caches */
} clade__found;
/* Searches until `deadline`. The first trials may take until the clock's deadline, which is final. Finds nothing if
 * the first two trials cannot be timed by then. */
clade_status clade__search(const clade__problem *p, const clade_tune_opt *how, double deadline, clade__clock *clock,
                           clade__found *out);

/* ---- the func as a whole (whole.c) ---- */
/* Times the func in turns as it was compiled, with the fresh records, and with their configurations only, and keeps
 * the records of the fastest. Without time for this, all fresh records are kept. *row reports the result; without
 * seconds if nothing changes or nothing was timed. */
clade_status clade__whole_judge(clade_func *func, clade__records *fresh, clade__clock *clock, clade_tune_row *row);

/* Number of multiply-adds that a CPU core starts in a cycle: 1, or 2 for two or more; 0: unknown, for example on
 * GPUs (probe.c). begun: number started during the latency of one. */
uint32_t clade__core_units(double begun);
clade_status clade__probe_core(clade_device *device, uint32_t *units);
/* Measures copies to a func's fallback device and changes of programs; keeps the results in the records of devices
 * with a bundle (link.c). again: also if there is a record. */
clade_status clade__probe_links(const clade_func *func, bool again);

#endif
