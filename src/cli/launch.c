/* clade launch: runs a command and restarts it after failures that another try may overcome. */
#include "cli/launch.h"

#include <getopt.h>
#include <stdio.h>
#include <sys/stat.h>

enum { RETRIES, PAUSE };
enum { DEFAULT_RETRIES = 3, MOST_RETRIES = 1000000, DEFAULT_PAUSE = 30, MOST_PAUSE = 86400, SIGNALED = 128 };

static const cli_args description = {
    .command = "launch",
    .synopsis = "[--] COMMAND ...",
    .about = "Runs COMMAND, such as `mpirun -np 4 clade train RUN`, and restarts it from its last checkpoint if a\n"
             "process was killed, or a rank or a device was lost (docs/cluster.md).",
    .runs_command = true,
    .options = (const cli_option[]){[RETRIES] = {"retries", "N", "number of restarts (3)"},
                                    [PAUSE] = {"pause", "SECONDS",
                                               "longest pause before a restart; pauses are 1, 2, 4, … (30)"},
                                    {0}},
};

/* The newest checkpoint: its step, and its file, since an earlier run may have reached the same step. */
typedef struct mark {
  int64_t step; /* -1: none */
  struct stat file;
} mark;

static mark newest(const char *directory) {
  mark found = {.step = -1};
  clade_checkpoint *checkpoint = NULL;
  if (!directory || clade_checkpoint_open(directory, CLADE_CHECKPOINT_LATEST, &checkpoint) != CLADE_OK) return found;
  if (!stat(clade_checkpoint_path(checkpoint), &found.file)) found.step = clade_checkpoint_step(checkpoint);
  clade_checkpoint_free(checkpoint);
  return found;
}

static bool same(const mark *a, const mark *b) {
  return a->step == b->step && a->file.st_ino == b->file.st_ino && a->file.st_mtim.tv_sec == b->file.st_mtim.tv_sec &&
         a->file.st_mtim.tv_nsec == b->file.st_mtim.tv_nsec;
}

/* Shells and mpirun report a process that was killed as 128 + signal; mpirun also uses numbers above 128 for a lost
 * node. No retry after SIGILL: the processor lacks an instruction, or mpirun cannot start the program. */
static bool may_be_mended(int status) {
  return status == CLI_LOST || (status > SIGNALED && status != CLI_INTERRUPTED && status != SIGNALED + SIGILL);
}

static const char *what_ended(const launch_job *job, int status, char *text, size_t size) {
  const int number = status - SIGNALED;
  int n = snprintf(text, size, "%s ended with status %d", job->command.words[0], status);
  n = CLADE_MIN(n, (int)size - 1);
  if (status == CLI_LOST)
    snprintf(text + n, size - (size_t)n, " (a rank or a device was lost)");
  else if (number > 0 && number < 32)
    snprintf(text + n, size - (size_t)n, " (signal %d: %s)", number, strsignal(number));
  return text;
}

/* The command of the next try, with a message when it starts and from where. Without a new checkpoint the command
 * stays as given: the directory may hold another run, which --overwrite replaces. */
static char **next_words(const launch_job *job, const mark *begun, int64_t next, int status, double pause) {
  const launch_command *c = &job->command;
  const mark now = newest(c->directory);
  const bool goes_on = c->again && now.step >= 0 && (c->resumes || !same(begun, &now));
  char what[512], where[512];
  snprintf(where, sizeof where, "%s", c->trains ? "begins anew" : "as before");
  if (goes_on) snprintf(where, sizeof where, "resumes at step %lld of %s", (long long)now.step, c->directory);
  cli_failed("launch: try %lld of %lld in %g s: %s; %s", (long long)next, (long long)job->retries + 1, pause,
             what_ended(job, status, what, sizeof what), where);
  return goes_on ? c->again : c->words;
}

/* Whether to try again; prints a message if retries are exhausted. */
static bool goes_on(const launch_job *job, int64_t tries, int status) {
  char what[512];
  if (!status || job->stopped) return false;
  what_ended(job, status, what, sizeof what);
  if (!may_be_mended(status))
    cli_failed("launch: %s, which another try does not mend", what);
  else if (tries > job->retries)
    cli_failed("launch: %s; no more tries after %lld", what, (long long)tries);
  return may_be_mended(status) && tries <= job->retries;
}

static int run(launch_job *job) {
  const mark begun = newest(job->command.directory);
  char **words = job->command.words;
  int status = CLI_DONE;
  for (int64_t tries = 1;; ++tries) {
    const int result = launch_try(job, words, &status);
    if (result != CLI_DONE) return result;
    if (!goes_on(job, tries, status)) return status;
    const double pause = (double)CLADE_MIN((int64_t)1 << CLADE_MIN(tries - 1, (int64_t)30), job->pause);
    words = next_words(job, &begun, tries + 1, status, pause);
    launch_pause(job, pause);
    if (job->stopped) return status;
  }
}

int cli_launch(int argc, char **argv) {
  launch_job job = {.args = description, .retries = DEFAULT_RETRIES, .pause = DEFAULT_PAUSE};
  const char *value;
  for (int next; (next = cli_next(&job.args, argc, argv, &value)) != CLI_NEXT_END;) {
    if (next < 0) return next == CLI_NEXT_HELP ? CLI_DONE : CLI_USAGE;
    const bool right = next == RETRIES ? cli_number(&job.args, "retries", value, 0, MOST_RETRIES, &job.retries)
                                       : cli_number(&job.args, "pause", value, 0, MOST_PAUSE, &job.pause);
    if (!right) return CLI_USAGE;
  }
  if (optind == argc) return cli_wrong(&job.args, "COMMAND is missing");
  int result = launch_understand(argv + optind, &job.command);
  if (result) return result < 0 ? CLI_DONE : result;
  if (job.command.trains && !job.command.directory)
    cli_failed("launch: without --checkpoint-dir nothing is kept, and each try begins anew");
  launch_begin(&job);
  result = run(&job);
  launch_command_free(&job.command);
  return result;
}
