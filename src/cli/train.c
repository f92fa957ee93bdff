/* clade train: trains a model on images, and tells how it goes. */
#include "cli/train.h"

#include <signal.h>
#include <unistd.h>

enum { INTERRUPTED = 130 }; /* as shells say it of a Ctrl-C */

static volatile int stop;

/* The first one lets the step under way end and a checkpoint be written; the second leaves at once. */
static void interrupt(int number) {
  (void)number;
  if (stop) _exit(INTERRUPTED);
  stop = 1;
}

/* Again with every event: a compiler in this process may have put handlers of its own before these, which call them but
 * let a write that waits for a reader fail. */
void train_catch_signals(void) {
  struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESTART}; /* what waits for a reader goes on */
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

static clade_status train(train_job *job) {
  clade_trainer *t = &job->trainer;
  clade_status status;
  CLADE_GOTO(clade_dataset_open(job->data, true, &t->train));
  CLADE_GOTO(clade_dataset_open(job->data, false, &t->test));
  CLADE_GOTO(train_schedule(job));
  for (int i = 0; i < job->args.n_devices; ++i) CLADE_GOTO(clade_device_find(job->args.device[i], &job->device[i]));
  if (job->fallback) CLADE_GOTO(clade_device_find(job->fallback, &t->fallback));
  t->n_devices = job->args.n_devices;
  t->devices = job->device;
  job->result.size = sizeof job->result;
  CLADE_GOTO(clade_train(t, &job->result, NULL));
fail:
  clade_dataset_release(t->train);
  clade_dataset_release(t->test);
  for (int i = 0; i < job->args.n_devices; ++i) clade_device_release(job->device[i]);
  clade_device_release(t->fallback);
  return status;
}

int cli_train(int argc, char **argv) {
  train_job job = {.args = train_description, .data = "digits", .optimizer = "adam", .schedule = "constant"};
  job.lr = 1e-3;
  job.momentum = job.weight_decay = -1; /* not given */
  job.trainer = (clade_trainer){.size = sizeof job.trainer, .model_name = "lenet5", .seed = 42, .stop = &stop};
  int parsed = train_parse(&job, argc, argv);
  if (parsed) {
    json_decref(job.kept);
    return parsed < 0 ? CLI_DONE : parsed;
  }
  if (job.args.json && !cli_json_begin()) return CLI_FAILED;
  train_show_begin(&job);
  train_catch_signals();
  clade_status status = train(&job);
  int result = CLI_DONE;
  if (status)
    result = cli_failed_status(status);
  else if (job.result.stopped)
    train_stopped(&job), result = INTERRUPTED;
  else
    result = train_report(&job);
  clade_train_result_free(&job.result);
  json_decref(job.kept);
  return result;
}
