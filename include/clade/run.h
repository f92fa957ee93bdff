/* Runs: a func bound to variables. One per thread; executing only enqueues: it allocates, creates and compiles nothing.
 */
#ifndef CLADE_RUN_H
#define CLADE_RUN_H

#include <clade/func.h>

CLADE_BEGIN_DECLS

typedef struct clade_run clade_run;
typedef uint64_t clade_ticket; /* names one execution of one run; never 0 */

typedef struct clade_run_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_run_opt));
  clade_run **out CLADE_UNSET;
  int slots CLADE_UNSET;    /* executions under way at once; unset: 2 */
  bool nowait CLADE_UNSET;  /* clade_execute returns CLADE_BUSY instead of waiting for a slot */
  bool profile CLADE_UNSET; /* keep each step's time, for clade_run_trace; each is a launch of its own then */
} clade_run_opt;

/* clade_run_new(func, vars, &run [, .option = …]): everything that an execution needs is created here. Retains both;
 * vars is NULL where the func has no variables. Runs that share vars take turns: one refuses to execute (CLADE_BUSY)
 * while executions of another one that assigns are under way: wait for them. Before one that assigns goes on, wait for
 * those that read, or let them read a snapshot. */
#define clade_run_new(func, vars, ...) clade_run_new_(func, vars, CLADE_OPT(clade_run_opt, .out = __VA_ARGS__))
CLADE_API clade_status clade_run_new_(clade_func *func, clade_vars *vars, const clade_run_opt *opt);
CLADE_API void clade_run_free(clade_run *run); /* waits for what is under way; NULL is fine */

/* An input of an execution: host memory (copied before clade_execute returns) or a tensor (which must stay unchanged
 * until the execution is done). */
typedef struct clade_feed {
  const char *name CLADE_UNSET;
  const void *data CLADE_UNSET;
  size_t bytes CLADE_UNSET;
  clade_tensor *tensor CLADE_UNSET;
} clade_feed;

/* Every input must be fed. Returns as soon as all is enqueued. `ticket` may be NULL.
 *     clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}, {"y", y, sizeof y, NULL}), &ticket); */
#define CLADE_FEEDS(...) CLADE_LIST(clade_feed, __VA_ARGS__)
CLADE_API clade_status clade_execute(clade_run *run, int n, const clade_feed *feeds, clade_ticket *ticket);
/* Waits for that execution and copies its output. A ticket is readable until its slot is used again. */
CLADE_API clade_status clade_read(clade_run *run, clade_ticket ticket, const char *name, void *dst, size_t bytes);
CLADE_API clade_status clade_wait(clade_run *run, clade_ticket ticket); /* 0: all */
/* Executions of which nothing is enqueued yet, those that wait for the host step of an op (clade/op.h), and one that
 * waits for a slot, end with CLADE_CANCELED; may be called
 * from any thread. (A func of one device is enqueued whole by clade_execute.) */
CLADE_API clade_status clade_cancel(clade_run *run);
CLADE_API clade_status clade_run_status(const clade_run *run); /* the first error that came after clade_execute */

/* Steps of the executions so far as a Chrome trace (needs .profile). */
CLADE_API clade_status clade_run_trace(clade_run *run, const char *path);

/* Called on the thread that waits, once per finished step, when .profile is set. */
typedef struct clade_step_time {
  size_t size;
  clade_ticket ticket;
  int step;                                           /* -1: an input on its way, beside the steps */
  const char *name;                                   /* of the node, or the input */
  const char *kernel;                                 /* "" for copies and host steps */
  uint64_t queued_ns, submitted_ns, start_ns, end_ns; /* the device's clock */
  int device;                                         /* of the func */
  int host; /* 1: what the host did between the copies of a host step's operands, which have times of their own */
} clade_step_time;
typedef void clade_observer_fn(void *user, const clade_step_time *time);
CLADE_API clade_status clade_run_observe(clade_run *run, clade_observer_fn *fn, void *user);

CLADE_END_DECLS
#endif
