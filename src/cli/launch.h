/* clade launch: shared by parsing of the command, running it and reporting. */
#ifndef CLADE_CLI_LAUNCH_H
#define CLADE_CLI_LAUNCH_H

#include <signal.h>

#include "cli/cli.h"

/* The command to run; it may contain `clade train`. */
typedef struct launch_command {
  char **words;
  char **again; /* the same with --resume; NULL: the command has no known checkpoints */
  const char *directory;
  bool trains;
  bool resumes;
  bool starts_ranks; /* by mpirun or the like, which do not forward every signal, or forward it too late */
} launch_command;

typedef struct launch_job {
  cli_args args;
  int64_t retries, pause; /* in seconds, the longest pause */
  launch_command command;
  /* waited: blocked signals, received one by one; before: signal mask of the command */
  sigset_t waited, before;
  bool stopped; /* a signal asked to stop */
  int insisted; /* number of signals other than SIGUSR1 and SIGUSR2 */
} launch_job;

/* ---- launch_command.c ---- */
/* Parses the command. CLI_DONE; CLI_USAGE or CLI_FAILED with the error printed; -1: help was printed. */
int launch_understand(char **words, launch_command *out);
void launch_command_free(launch_command *command);

/* ---- launch_try.c ---- */
void launch_begin(launch_job *job); /* blocks the signals and adopts orphaned processes */
/* Runs the command to its end; if it failed, also until none of its processes is left on this machine. *status: as a
 * shell reports it. CLI_USAGE: the command cannot be started; CLI_FAILED: a process cannot be ended; errors are
 * printed. */
int launch_try(launch_job *job, char *const *words, int *status);
void launch_pause(launch_job *job, double seconds); /* ends early if a signal asks to stop */

#endif
