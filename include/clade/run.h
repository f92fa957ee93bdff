/* Runs: a func bound to variables, for one thread. An execution only enqueues work: nothing is allocated, created or
 * compiled. */
#ifndef CLADE_RUN_H
#define CLADE_RUN_H

#include <clade/func.h>

CLADE_BEGIN_DECLS

/* ---- runs ---- */
/* A func with its variables and everything that executions need. */
typedef struct clade_run clade_run;
/* The number of an execution of a run; never 0. */
typedef uint64_t clade_ticket;

/* Options of clade_run_new. */
typedef struct clade_run_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_run_opt));
  clade_run **out CLADE_UNSET; /* the new run */
  int slots CLADE_UNSET;       /* executions under way at once; unset: 2 */
  bool nowait CLADE_UNSET;     /* clade_execute returns CLADE_BUSY instead of waiting for a slot */
  bool profile CLADE_UNSET;    /* record the time of each step, which is then a launch of its own */
} clade_run_opt;

/* Makes a run: clade_run_new(func, vars, &run [, .option = …]). The run holds references to both. `vars` is NULL if the
 * func has no variables.
 *
 * Runs that share variables take turns: while executions of a run that assigns variables are under way, clade_execute
 * of another run returns CLADE_BUSY. Before a run that assigns continues, wait for the runs that read, or let those
 * read a snapshot (clade_vars_snapshot). */
#define clade_run_new(func, vars, ...) clade_run_new_(func, vars, CLADE_OPT(clade_run_opt, .out = __VA_ARGS__))
CLADE_API clade_status clade_run_new_(clade_func *func, clade_vars *vars, const clade_run_opt *opt);
CLADE_API void clade_run_free(clade_run *run); /* waits for executions under way; NULL may be freed */

/* ---- executions ---- */
/* The value of an input for an execution: host memory, which is copied before clade_execute returns, or a tensor, which
 * must stay unchanged until the execution has ended. */
typedef struct clade_feed {
  const char *name CLADE_UNSET;     /* the input */
  const void *data CLADE_UNSET;     /* host memory */
  size_t bytes CLADE_UNSET;         /* its size */
  clade_tensor *tensor CLADE_UNSET; /* or a tensor */
} clade_feed;

/* Enqueues an execution and returns. Every input must be fed. `ticket` may be NULL.
 *
 *     clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}, {"y", y, sizeof y, NULL}), &ticket); */
#define CLADE_FEEDS(...) CLADE_LIST(clade_feed, __VA_ARGS__)
CLADE_API clade_status clade_execute(clade_run *run, int n, const clade_feed *feeds, clade_ticket *ticket);
/* Waits for an execution and copies one of its outputs. A ticket can be read until its slot is used again. */
CLADE_API clade_status clade_read(clade_run *run, clade_ticket ticket, const char *name, void *dst, size_t bytes);
CLADE_API clade_status clade_wait(clade_run *run, clade_ticket ticket); /* waits for an execution; 0: for all */
/* Cancels executions, which then end with CLADE_CANCELED: those that are not enqueued yet, those that wait for a host
 * step (<clade/op.h>), and one that waits for a slot. May be called from any thread. A func of one device is enqueued
 * whole by clade_execute. */
CLADE_API clade_status clade_cancel(clade_run *run);
CLADE_API clade_status clade_run_status(const clade_run *run); /* the first error after clade_execute returned */

/* ---- profiling, for runs with .profile ---- */
/* Writes the steps of all executions so far as a Chrome trace, with the share of time in which each device was idle. */
CLADE_API clade_status clade_run_trace(clade_run *run, const char *path);

/* The times of a step of an execution. */
typedef struct clade_step_time {
  size_t size;
  clade_ticket ticket; /* the execution */
  int step;            /* index of the step; -1: the transfer of an input */
  const char *name;    /* name of the node, or of the input */
  const char *kernel;  /* name of the kernel; "" for copies and host steps */
  /* When the step was enqueued and submitted, and when it started and ended, by the device's clock. */
  uint64_t queued_ns, submitted_ns, start_ns, end_ns;
  int device; /* index of the func's device */
  int host;   /* 1: the host's part of a host step, without the copies of operands, which have times of their own */
} clade_step_time;
/* A callback for the times of steps. */
typedef void clade_observer_fn(void *user, const clade_step_time *time);
/* Sets the callback, which is called once per step that ended, on the thread that waits. */
CLADE_API clade_status clade_run_observe(clade_run *run, clade_observer_fn *fn, void *user);

CLADE_END_DECLS
#endif
