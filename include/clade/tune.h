/* Tuning: measures which implementations and configurations are fast on a device, and keeps the results as records.
 * Nothing is measured unless a program asks for it. docs/tuning.md explains the method. */
#ifndef CLADE_TUNE_H
#define CLADE_TUNE_H

#include <clade/run.h>

CLADE_BEGIN_DECLS

/* The extent of tuning. */
typedef enum clade_tune_mode {
  CLADE_TUNE_OFF = 0, /* nothing */
  CLADE_TUNE_QUICK,   /* within a budget: the most promising candidates of the most expensive problems */
  CLADE_TUNE_FULL     /* all candidates */
} clade_tune_mode;

/* The result of tuning a problem. If choices change, a last row describes the func as a whole: its op is "func", and
 * `before` and `after` say what choices are based on. Texts live until the callback returns. */
typedef struct clade_tune_row {
  size_t size;
  const char *op, *problem;   /* the op; the problem as a text */
  int nodes;                  /* nodes of the func that have this problem */
  const char *before, *after; /* choice without and with the record: "vec rows=6 depth=256" */
  /* Seconds of one execution, with operands in the layouts that the implementation asks for; 0: not measured. */
  double before_seconds, after_seconds;
  int candidates, wrong; /* candidates measured or refused; of these, refused because of wrong results */
  bool known;            /* a record exists, and nothing was measured */
  int done, total;       /* problems so far, and in total */
  double seconds;        /* since the call began */
} clade_tune_row;
/* A callback for results. */
typedef void clade_tune_observer(void *user, const clade_tune_row *row);

/* Options of clade_tune. */
typedef struct clade_tune_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_tune_opt));
  clade_tune_mode mode CLADE_UNSET; /* the extent of tuning */
  double seconds CLADE_UNSET;       /* budget; unset: 5 for quick, none for full */
  bool again CLADE_UNSET;           /* also problems that have records */
  /* Begin no further problem once *stop is not 0. A signal handler may set it. */
  const volatile int *stop CLADE_UNSET;
  clade_tune_observer *observe CLADE_UNSET; /* called after each problem, on the calling thread */
  void *observe_user CLADE_UNSET;           /* first argument of the callback */
  /* Also measure and choose implementations that exceed the op's error bound and are never chosen by cost, such as f32
   * products in tf32 (docs/tuning.md). */
  bool loose CLADE_UNSET;
} clade_tune_opt;

/* Tunes the problems of a specialized func on its devices: clade_tune(func, CLADE_TUNE_QUICK [, .option = …]). The
 * results are kept as records, which later compilations use.
 *
 * A func of one device is also executed as a whole, with the tuner's own data, and results that do not make it faster
 * are dropped. Needs device memory for operands of candidates and for a second instance of the func. An implementation
 * with wrong results is skipped and reported by the log. */
#define clade_tune(func, ...) clade_tune_(func, CLADE_OPT(clade_tune_opt, .mode = __VA_ARGS__))
CLADE_API clade_status clade_tune_(clade_func *func, const clade_tune_opt *opt);

/* Writes the records of a device to a file; NULL: those of all devices in the cache directory. */
CLADE_API clade_status clade_tune_export(clade_device *device, const char *path);
/* Merges the records of a file into those of their devices. An existing record is kept if it is faster and of the same
 * kernels. *count, which may be NULL, is the number of records merged. */
CLADE_API clade_status clade_tune_merge(const char *path, int *count);

CLADE_END_DECLS
#endif
