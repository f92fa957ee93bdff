/* clade train: trains a model on a set of images and shows the progress. */
#include "cli/train.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static volatile int stop;

/* The first Ctrl-C lets the current step end and writes a checkpoint; the second exits at once. */
static void interrupt(int number) {
  (void)number;
  if (stop) _exit(CLI_INTERRUPTED);
  stop = 1;
}

/* Signal of a batch system shortly before the time limit; mpirun forwards it to the ranks. */
static void stop_in_time(int number) {
  (void)number;
  stop = 1;
}

void train_install_handlers(void) {
  struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESTART}; /* restarts interrupted writes */
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  action.sa_handler = stop_in_time;
  sigaction(SIGUSR1, &action, NULL);
  sigaction(SIGUSR2, &action, NULL);
}

/* A compiler in this process may install its own handlers: LLVM takes SIGUSR1 for itself, and calls the others without
 * SA_RESTART, so that a write to a slow reader would fail. */
static void *keep_handlers(void *unused) {
  while (nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL) == 0 || errno == EINTR) train_install_handlers();
  return unused;
}

void train_catch_signals(void) {
  pthread_t thread;
  train_install_handlers();
  if (pthread_create(&thread, NULL, keep_handlers, NULL) == 0) pthread_detach(thread);
}

static clade_status find_devices(train_job *job) {
  clade_trainer *t = &job->trainer;
  t->devices = job->device;
  if (t->comm) { /* one device for each rank */
    t->n_devices = 1;
    return cli_ranks_device(t->comm, &job->args, &job->device[0]);
  }
  t->n_devices = job->args.n_devices;
  for (int i = 0; i < job->args.n_devices; ++i) CLADE_TRY(clade_device_find(job->args.device[i], &job->device[i]));
  return CLADE_OK;
}

static clade_status train(train_job *job) {
  clade_trainer *t = &job->trainer;
  clade_status status;
  CLADE_GOTO(clade_dataset_open(job->data, true, &t->train));
  CLADE_GOTO(clade_dataset_open(job->data, false, &t->test));
  CLADE_GOTO(train_schedule(job));
  CLADE_GOTO(train_fit_split(job));
  CLADE_GOTO(train_fit_layout(job));
  CLADE_GOTO(find_devices(job));
  if (job->fallback) CLADE_GOTO(clade_device_find(job->fallback, &t->fallback));
  if (job->qat) CLADE_GOTO(train_qat_begin(job));
  job->result.size = sizeof job->result;
  CLADE_GOTO(clade_train(t, &job->result, NULL));
fail:
  train_qat_end(job);
  clade_dataset_release(t->train);
  clade_dataset_release(t->test);
  for (int i = 0; i < t->n_devices; ++i) clade_device_release(job->device[i]);
  clade_device_release(t->fallback);
  return status;
}

/* Returns the exit status; rank 0 reports for all. Stopped ranks exit with 0: otherwise mpirun would kill the
 * others. */
static int finish(train_job *job, clade_status status) {
  clade_comm *comm = job->trainer.comm;
  if (status) return cli_ranks_failed(comm, status);
  if (clade_comm_rank(comm)) return CLI_DONE;
  if (!job->result.stopped) return train_report(job);
  train_stopped(job);
  return clade_comm_size(comm) == 1 ? CLI_INTERRUPTED : CLI_DONE;
}

void train_job_begin(train_job *job) {
  *job = (train_job){.args = train_description, .data = "digits", .optimizer = "adam", .schedule = "constant"};
  job->lr = 1e-3;
  job->momentum = job->weight_decay = job->timeout = -1; /* negative: not given */
  job->trainer = (clade_trainer){.size = sizeof job->trainer, .model_name = "lenet5", .seed = 42, .stop = &stop};
}

int cli_train(int argc, char **argv) {
  train_job job;
  train_job_begin(&job);
  int parsed = train_parse(&job, argc, argv);
  if (parsed) {
    json_decref(job.kept);
    return parsed < 0 ? CLI_DONE : parsed;
  }
  clade_status status = cli_ranks_open(&job.trainer.comm);
  if (job.trainer.comm && job.timeout >= 0) clade_comm_set_timeout(job.trainer.comm, job.timeout);
  const int rank = clade_comm_rank(job.trainer.comm);
  if (status == CLADE_OK && job.args.json && !rank && !cli_json_begin()) return CLI_FAILED;
  if (!rank) train_show_begin(&job);
  train_catch_signals();
  if (status == CLADE_OK) status = train(&job);
  const int result = finish(&job, status);
  clade_comm_release(job.trainer.comm);
  clade_train_result_free(&job.result);
  json_decref(job.kept);
  return result;
}
