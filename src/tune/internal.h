/* What the files of the tuner share: a problem, its candidates, and the small funcs that they are tried in. */
#ifndef CLADE_TUNE_INTERNAL_H
#define CLADE_TUNE_INTERNAL_H

#include <clade/tune.h>

#include "plan/plan.h"

/* What is left of a budget. A compilation cannot be broken off, so none is begun that would end after the deadline, by
 * the most that a kernel took so far: drivers have caches too, and what was found there says nothing of the next one.
 */
typedef struct clade__clock {
  double deadline; /* INFINITY: none */
  double most;     /* seconds that compiling a kernel took; 0: none was compiled */
} clade__clock;
bool clade__is_time(const clade__clock *clock, double seconds); /* for so much; 0: is there any left */
typedef struct clade__mark {
  clade_device *device;
  double at;
  uint64_t compiled;
} clade__mark;
clade__mark clade__clock_mark(clade_device *device);
void clade__clock_learn(clade__clock *clock, const clade__mark *since); /* of what was compiled since */
enum { CLADE__TUNE_SAMPLES = 16 };
double clade__tune_median(const double *at, int n); /* of 1 to CLADE__TUNE_SAMPLES */

/* A node of a func, away from it. Types and attributes are the func's. */
typedef struct clade__problem {
  clade_device *device;
  const clade_op *op;
  const void *attrs;
  int n_in, n_out;
  clade_type in[CLADE_MAX_OPERANDS];
  int impl;              /* what would be taken now */
  const int32_t *config; /* NULL: it has none */
  char *text;
  int nodes;
  double weight; /* seconds that it takes in the func, by estimate */
} clade__problem;

typedef enum clade__trial_state {
  CLADE__TRIAL_OPEN,
  CLADE__TRIAL_RIGHT,
  CLADE__TRIAL_REFUSED, /* does not take the problem, or its kernels do not compile */
  CLADE__TRIAL_WRONG
} clade__trial_state;

/* What a candidate is compiled for: tails and the whole problem, to be checked; and the whole, its results left in the
 * layouts that it gives, to be timed (where they are dense it is the same). */
typedef enum clade__scale { CLADE__TAILS, CLADE__WHOLE, CLADE__BARE, CLADE__SCALES } clade__scale;

enum { CLADE__TUNE_ROUNDS = 9 };
typedef struct clade__trial {
  int impl;
  bool has_config;
  int32_t config[CLADE_MAX_PARAMS];
  clade__trial_state state;
  clade_func *func[CLADE__SCALES];
  clade_run *run;
  int n_feeds; /* of each execution */
  const clade_feed *feeds;
  int rounds;
  double seconds[CLADE__TUNE_ROUNDS], median; /* median: of an execution; 0: not timed */
  double before;                              /* the median of the turns before these */
} clade__trial;
void clade__trial_close(clade__trial *c);                                /* what it holds of the device */
char *clade__trial_text(const clade__problem *p, const clade__trial *c); /* "vec TM=6"; by clade__free */

/* A problem at one size: its graph of one node, whose operands are variables. What is packed of them is kept, and no
 * part of what is timed. */
typedef struct clade__stage {
  clade_graph *graph;
  clade_type out[CLADE_MAX_OPERANDS];
  size_t out_bytes[CLADE_MAX_OPERANDS];
  clade_vars *vars; /* made with the first candidate */
  void **right;     /* [n_out]: the answer that is to be given; NULL: not known yet */
} clade__stage;

/* ---- stages (stage.c) ---- */
/* The sizes of a small problem that divide nothing, as far as the op lets them change; others are as they were. */
void clade__tails(const clade__problem *p, clade_type in[CLADE_MAX_OPERANDS]);
/* `out` NULL: results are dense. */
clade_status clade__stage_open(const clade__problem *p, const clade_type *in, const clade_type *out, clade__stage *s);
clade__id clade__stage_node(const clade__problem *p); /* that the problem is, in the stage's graph */
void clade__stage_close(const clade__problem *p, clade__stage *s);
/* A func of this candidate, without kernels; CLADE_UNSUPPORTED: it does not take it. */
clade_status clade__stage_func(const clade__problem *p, const clade__stage *s, const clade__trial *c, clade_func **out);
/* Its results left as the candidate gives them; *out stays NULL where that is dense. */
clade_status clade__stage_bare(const clade__problem *p, const clade__trial *c, clade_func **out);
/* Random numbers, the same in every process; `positive`: for those who take roots. By clade__free. */
clade_status clade__draw(const clade_type *type, bool positive, void **data, size_t *bytes);
clade_status clade__stage_fill(const clade__problem *p, clade__stage *s, clade_func *func, bool positive);

/* ---- answers (check.c) ---- */
/* A run whose memory is filled with NaN, executed once; *out: its results on the host. */
clade_status clade__answer(const clade__problem *p, const clade__stage *s, clade_func *func, clade_run **run,
                           void ***out);
void clade__answer_free(const clade__problem *p, void **answer);
bool clade__answers_agree(const clade__problem *p, const clade__stage *s, void *const *right, void *const *given);
bool clade__answer_has_nan(const clade__problem *p, const clade__stage *s, void *const *answer);

/* ---- time (time.c) ---- */
/* Rounds in which those that are right take turns, until `deadline`; medians. `round_seconds` of each one's turn. Where
 * the clock leaves no time for a first round medians stay as they were. */
clade_status clade__take_turns(clade__trial **at, int n, int rounds, double round_seconds, double deadline,
                               const clade__clock *clock);

/* ---- the search (search.c) ---- */
typedef struct clade__found { /* candidates without device objects */
  clade__trial before, after;
  clade__trial best[CLADE__PICKED_IMPLS]; /* of each implementation that was timed */
  int n_best, candidates, wrong;
  bool complete; /* every candidate was tried */
  double ready;  /* seconds until the first ones could be timed: with empty caches they are compiled */
} clade__found;
/* Until `deadline`; the first candidates may take until that of the clock, at which nothing goes on. Where not even the
 * first two could be timed until then nothing is found. */
clade_status clade__search(const clade__problem *p, const clade_tune_opt *how, double deadline, clade__clock *clock,
                           clade__found *out);

/* ---- the func as a whole (whole.c) ---- */
/* What it was compiled with, what it would be by the `fresh` records, and by their configurations alone, in turns: the
 * records of the fastest are kept; all of them where there is no time to tell. *row tells it; without seconds where
 * nothing changes, or it cannot be told. */
clade_status clade__whole_judge(clade_func *func, clade__records *fresh, clade__clock *clock, clade_tune_row *row);

/* Multiply-adds that a core begins in a cycle: 1, or 2 for two or more; 0: not told, as of devices that are no CPUs
 * (probe.c). It goes by how many are begun while one is on its way. */
uint32_t clade__core_units(double begun);
clade_status clade__probe_core(clade_device *device, uint32_t *units);
/* How long copies to a func's fallback device take, and changes of programs, kept with the records of the devices that
 * have one (link.c). What is known is measured again where `again` says so. */
clade_status clade__probe_links(const clade_func *func, bool again);

#endif
