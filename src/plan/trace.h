/* Traces of runs, for modules that do not know the structs of funcs, variables and runs. */
#ifndef CLADE_PLAN_TRACE_H
#define CLADE_PLAN_TRACE_H

#include <clade/run.h>

/* As clade_run_trace; `process` is the number of the first device's rows, so that traces of several processes can be
 * joined. `idle`, unless NULL, receives the share of time in which the first device ran no step. */
clade_status clade__run_trace(clade_run *run, const char *path, int process, double *idle);

#endif
