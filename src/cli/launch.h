/* clade launch: what understanding the command, running it and telling share. */
#ifndef CLADE_CLI_LAUNCH_H
#define CLADE_CLI_LAUNCH_H

#include <signal.h>

#include "cli/cli.h"

/* A command, of which `clade train` may be a part. */
typedef struct launch_command {
  char **words;          /* as given */
  char **again;          /* the same, going on with its checkpoints; NULL: it keeps none that are known of */
  const char *directory; /* of these */
  bool trains;           /* `clade train` is a part of it */
  bool resumes;          /* as it is given */
  bool starts_ranks;     /* by mpirun or the like, which do not hand on every signal, or not in time */
} launch_command;

typedef struct launch_job {
  cli_args args;
  int64_t retries, pause; /* seconds, the longest one */
  launch_command command;
  sigset_t waited, before; /* signals that are taken one by one; the mask that the command is to have */
  bool stopped;            /* it was told to stop */
  int insisted;            /* by how many signals that are no mere hint */
} launch_job;

/* ---- launch_command.c ---- */
/* CLI_DONE; CLI_USAGE or CLI_FAILED, told; -1: the command's help was printed. */
int launch_understand(char **words, launch_command *out);
void launch_command_free(launch_command *command);

/* ---- launch_try.c ---- */
void launch_begin(launch_job *job); /* signals wait from here on, and what the command leaves becomes a child */
/* Until the command ends and, unless that was a success, nothing of it is left on this machine. *status: as a shell has
 * it. CLI_DONE; CLI_USAGE, told: it cannot be started; CLI_FAILED, told: something of it cannot be ended. */
int launch_try(launch_job *job, char *const *words, int *status);
void launch_pause(launch_job *job, double seconds); /* ends early where the job is told to stop */

#endif
