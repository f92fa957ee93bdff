/* Tuning: measuring which implementations and parameters are fast on a device, and keeping that as records. No
 * candidate is measured unless it is asked for. docs/tuning.md tells how it works. */
#ifndef CLADE_TUNE_H
#define CLADE_TUNE_H

#include <clade/run.h>

CLADE_BEGIN_DECLS

typedef enum clade_tune_mode {
  CLADE_TUNE_OFF = 0,
  CLADE_TUNE_QUICK, /* within a budget: the likeliest candidates of what takes the most time */
  CLADE_TUNE_FULL   /* every candidate */
} clade_tune_mode;

/* What became of a problem; or, where choices change, of the func as a whole: then the op is "func", before and after
 * say by what it is chosen, and it comes last. Texts live as long as the call of the observer. */
typedef struct clade_tune_row {
  size_t size;
  const char *op, *problem;
  int nodes;                  /* of the func, that are this problem */
  const char *before, *after; /* "vec rows=6 depth=256": what would be taken without the record, and with it */
  double before_seconds, after_seconds; /* of one execution; 0 where nothing was measured. A problem's operands and
                                           results lie as the implementation wants them */
  int candidates, wrong;                /* measured or refused; refused because their answers were wrong */
  bool known;                           /* a record was there: nothing was measured */
  int done, total;                      /* problems */
  double seconds;                       /* since the call began */
} clade_tune_row;
typedef void clade_tune_observer(void *user, const clade_tune_row *row);

typedef struct clade_tune_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_tune_opt));
  clade_tune_mode mode CLADE_UNSET;
  double seconds CLADE_UNSET;               /* the budget; unset: 5 for quick, none for full */
  bool again CLADE_UNSET;                   /* also what there are records of */
  const volatile int *stop CLADE_UNSET;     /* not 0: no further problem is begun (a signal handler may set it) */
  clade_tune_observer *observe CLADE_UNSET; /* after each problem, on the calling thread */
  void *observe_user CLADE_UNSET;
  /* Also implementations that break the op's error bound and are never taken by cost, as products of f32 by tf32
   * (docs/tuning.md); unset: none of them is measured, or taken any more. */
  bool loose CLADE_UNSET;
} clade_tune_opt;

/* clade_tune(func, CLADE_TUNE_QUICK [, .option = …]): measures the problems of a specialized func on its devices, and
 * keeps what it finds as records; who compiles the graph again gets them. A func of one device is executed by what was
 * found, too, on numbers and variables of the tuner's, and what does not make it faster is not kept. Needs device
 * memory for some candidates' operands, and for the func once more. An implementation that gives a wrong answer is
 * passed over and told by the log. */
#define clade_tune(func, ...) clade_tune_(func, CLADE_OPT(clade_tune_opt, .mode = __VA_ARGS__))
CLADE_API clade_status clade_tune_(clade_func *func, const clade_tune_opt *opt);

/* Writes the records of a device into a file of their own; NULL: those of all devices that the cache directory knows.
 */
CLADE_API clade_status clade_tune_export(clade_device *device, const char *path);
/* Puts a file's records into the files of the devices that they are of; one that is there stays where it is of the same
 * kernels and faster. `count` may be NULL: how many were put. */
CLADE_API clade_status clade_tune_merge(const char *path, int *count);

CLADE_END_DECLS
#endif
