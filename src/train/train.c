/* The training loop: a step is enqueued before the loss of the previous one is read, so that the device never idles. */
#include <inttypes.h>

#include "comm/comm.h"
#include "plan/trace.h"
#include "train/internal.h"

double clade__train_seconds(const clade__training *tr) { return clade__now() - tr->began; }

static clade_status read_scale(clade__training *tr) {
  float scale;
  int64_t skipped;
  if (!clade__train_scales(tr)) return CLADE_OK;
  CLADE_TRY(clade_read(tr->step_run, tr->pending, "loss_scale", &scale, sizeof scale));
  CLADE_TRY(clade_read(tr->step_run, tr->pending, "skipped", &skipped, sizeof skipped));
  tr->skips = skipped > tr->skipped;
  tr->skipped = skipped;
  tr->loss_scale = (double)scale;
  return CLADE_OK;
}

/* Waits for the pending step and reads its loss. */
static clade_status settle(clade__training *tr) {
  float loss, right, added = 0, stop = 0;
  if (!tr->pending) return CLADE_OK;
  CLADE_TRY(read_scale(tr));
  CLADE_TRY(clade_read(tr->step_run, tr->pending, "loss", &loss, sizeof loss));
  CLADE_TRY(clade_read(tr->step_run, tr->pending, "right", &right, sizeof right));
  if (tr->adds) CLADE_TRY(clade_read(tr->step_run, tr->pending, "added", &added, sizeof added));
  if (tr->ranks > 1) CLADE_TRY(clade_read(tr->step_run, tr->pending, "stop", &stop, sizeof stop));
  CLADE_TRY(clade__train_check(tr, loss));
  tr->pending = 0;
  if (stop > 0) tr->stopped = true;
  if (tr->first_step_seconds == 0) tr->first_step_seconds = clade__train_seconds(tr);
  tr->loss = (double)loss;
  tr->right = (double)right;
  tr->added = (double)added;
  tr->loss_sum += tr->loss;
  tr->added_sum += tr->added;
  tr->right_sum += tr->right;
  tr->summed++;
  clade__train_tell(tr, CLADE_TRAIN_STEP, NULL);
  return CLADE_OK;
}

static clade_status step(clade__training *tr) {
  clade_batch *batch = &tr->batch;
  clade_ticket ticket;
  const size_t rows = (size_t)tr->rows;
  const bool asks = !tr->local || !tr->rank; /* only one rank if all would read the same flag */
  const float stop = asks && tr->t.stop && *tr->t.stop;
  batch->size = sizeof *batch;
  if (tr->loader) CLADE_TRY(clade_loader_next(tr->loader, batch));
  clade_feed feed[] = {{"x", batch->x, rows * tr->sample * sizeof *batch->x, NULL},
                       {"y", batch->y, rows * sizeof *batch->y, NULL},
                       {"stop", &stop, sizeof stop, NULL}};
  CLADE_TRY(clade_execute(tr->step_run, clade__train_feeds(tr->step_func, CLADE_COUNT(feed), feed), feed, &ticket));
  CLADE_TRY(settle(tr));
  tr->pending = ticket;
  tr->at++;
  return CLADE_OK;
}

/* As for logs, a failed write does not end the training. */
static void write_trace(clade__training *tr) {
  tr->trace_written = true;
  if (clade__run_trace(tr->step_run, tr->t.trace, tr->rank, &tr->trace_idle) == CLADE_OK) return;
  clade__log(CLADE_LOG_WARNING, "%s; the training goes on without a trace", clade_last_error());
  tr->incomplete = true;
}

/* Before the first traced step the run is replaced by one that records times; after the last one the trace is
 * written and the run is replaced again. */
static clade_status trace(clade__training *tr) {
  const clade_trainer *t = &tr->t;
  bool begin = t->trace && tr->at + 1 == t->trace_from, end = t->trace && tr->at == t->trace_to;
  if (!begin && !(end && tr->traced)) return CLADE_OK;
  CLADE_TRY(settle(tr));
  if (tr->traced) write_trace(tr);
  clade_run_free(tr->step_run);
  tr->step_run = NULL;
  tr->traced = begin;
  return clade_run_new(tr->step_func, tr->vars, &tr->step_run, .profile = begin);
}

/* Runs to the end of the current epoch, or until a stop is requested. */
static clade_status run_epoch(clade__training *tr) {
  const clade_trainer *t = &tr->t;
  tr->loss_sum = tr->right_sum = tr->added_sum = 0;
  tr->summed = 0;
  do {
    CLADE_TRY(trace(tr));
    CLADE_TRY(step(tr));
    if (tr->first_step_seconds == 0) CLADE_TRY(settle(tr)); /* the first step is timed separately */
    if (!tr->place.data) CLADE_TRY(clade__train_test_ready(tr));
    if (tr->at == tr->begun_at + 1) CLADE_TRY(clade__train_meet(tr));
    if (tr->ranks == 1 && t->stop && *t->stop) tr->stopped = true;
    bool end = tr->at % tr->epoch_steps == 0, due = t->checkpoint_steps && tr->at % t->checkpoint_steps == 0;
    if (end || due || tr->stopped) CLADE_TRY(settle(tr));
    if (end || !(due || tr->stopped)) continue;
    CLADE_TRY(clade__train_save(tr, false));
    CLADE_TRY(clade__train_hand_in(tr));
    CLADE_TRY(clade__train_meet(tr));
  } while (tr->at % tr->epoch_steps && !tr->stopped);
  return CLADE_OK;
}

static clade_status finish_epoch(clade__training *tr) {
  double begun = clade__train_seconds(tr);
  if (!tr->place.data) CLADE_TRY(clade__train_test(tr));
  if (tr->rank) {
    CLADE_TRY(clade__train_hand_in(tr));
    return clade__train_meet(tr);
  }
  clade__train_log_histograms(tr);
  tr->tested_seconds += clade__train_seconds(tr) - begun;
  bool best = tr->test_accuracy > tr->best;
  if (best) tr->best = tr->test_accuracy;
  clade__train_tell(tr, CLADE_TRAIN_EPOCH, NULL);
  CLADE_TRY(clade__train_save(tr, best));
  CLADE_TRY(clade__train_hand_in(tr));
  return clade__train_meet(tr);
}

static clade_status begin_alone(clade__training *tr) {
  if (!tr->resumed) CLADE_TRY(clade__train_sparsify(tr));
  if (!tr->place.data) CLADE_TRY(clade__train_test(tr));
  tr->best = tr->test_accuracy;
  if (!tr->resumed) CLADE_TRY(clade__train_save(tr, true));
  if (!tr->resumed) CLADE_TRY(clade__train_hand_in(tr));
  return clade__train_meet(tr);
}

static clade_status run(clade__training *tr) {
  clade__train_tell(tr, CLADE_TRAIN_BEGIN, NULL);
  if (tr->t.begin_only) return begin_alone(tr);
  while (tr->at < tr->steps && !tr->stopped) {
    if (tr->at % tr->epoch_steps == 0) CLADE_TRY(clade__train_sparsify(tr));
    if (tr->at % tr->epoch_steps == 0) CLADE_TRY(clade__train_freeze(tr));
    CLADE_TRY(run_epoch(tr));
    if (tr->at % tr->epoch_steps == 0) CLADE_TRY(finish_epoch(tr));
  }
  if (tr->traced) write_trace(tr); /* the training ended before the last traced step */
  if (tr->t.trace && !tr->trace_written && !tr->rank) {
    clade__log(CLADE_LOG_WARNING, "%s is not written: steps %" PRId64 " to %" PRId64 " were none of this training's",
               tr->t.trace, tr->t.trace_from, tr->t.trace_to);
    tr->incomplete = true;
  }
  if (tr->at == tr->begun_at && !tr->place.data)
    CLADE_TRY(clade__train_test(tr)); /* no step was left: test the resumed model */
  return CLADE_OK;
}

static clade_status result_of(clade__training *tr, clade_train_result *result) {
  clade_train_result all = {0};
  all.stopped = tr->stopped;
  all.epochs = (int)(tr->at / tr->epoch_steps);
  all.steps = tr->at;
  all.test_accuracy = tr->test_accuracy;
  all.test_loss = tr->test_loss;
  all.seconds = clade__train_seconds(tr);
  all.images_per_s = clade__train_speed(tr);
  all.first_step_seconds = tr->first_step_seconds;
  all.waited = clade__train_waited(tr);
  all.classes = tr->data.classes;
  memcpy(all.weights_sha256, tr->weights_sha256, sizeof all.weights_sha256);
  all.confusion = tr->confusion;
  tr->confusion = NULL;
  all.new_steps = tr->at - tr->begun_at;
  all.incomplete = tr->incomplete;
  all.precision = tr->t.precision;
  all.loss_scale = tr->loss_scale;
  all.skipped = tr->skipped;
  all.trace_idle = tr->trace_idle;
  all.size = CLADE_MIN(result->size, sizeof all);
  memcpy(result, &all, all.size);
  return CLADE_OK;
}

void clade_train_result_free(clade_train_result *result) {
  if (!result) return;
  clade__free(result->confusion);
  result->confusion = NULL;
}

clade_status clade__train_rank(const clade_trainer *t, pthread_mutex_t *local, clade_train_result *result,
                               clade_vars **vars) {
  clade__training tr = {.began = clade__now(), .local = local, .loss_scale = 1, .trace_idle = -1};
  clade_status status;
  CLADE_GOTO(clade__train_options(t, &tr));
  CLADE_GOTO(clade__train_build(&tr));
  CLADE_GOTO(run(&tr));
  CLADE_GOTO(clade__train_hash_weights(&tr));
  if (result) CLADE_GOTO(result_of(&tr, result));
  clade__train_tell(&tr, tr.stopped ? CLADE_TRAIN_STOPPED : CLADE_TRAIN_DONE, NULL);
  if (vars) *vars = clade_vars_retain(tr.vars);
fail:;
  char *why = status == CLADE_OK ? NULL : clade__copy_text(clade_last_error());
  if (status != CLADE_OK && local)
    clade_comm_abort(t->comm); /* pending operations fail instead of waiting for other ranks */
  clade__train_release(&tr);
  clade__comm_be_patient(t->comm, 1);
  if (why) clade__fail_again(status, why);
  clade__free(why);
  return status;
}

static clade_status check(const clade_trainer *t) {
  const int ranks = clade_comm_size(t->comm);
  if (!t->model) return CLADE_FAIL(INVALID, "clade_train: .model is NULL");
  if (t->n_devices && !t->devices)
    return CLADE_FAIL(INVALID, "clade_train: .n_devices is %d and .devices is NULL", t->n_devices);
  if (t->n_devices < 0 || t->n_devices > CLADE__MAX_DEVICES)
    return CLADE_FAIL(INVALID, "clade_train: %d devices; up to %d are expected", t->n_devices, CLADE__MAX_DEVICES);
  if (t->split && t->split_auto) return CLADE_FAIL(INVALID, "clade_train: .split and .split_auto: set one of them");
  if (ranks > 1 && t->n_devices > 1)
    return CLADE_FAIL(UNSUPPORTED, "clade_train: %d devices in one of %d ranks: each rank has one", t->n_devices,
                      ranks);
  if (ranks > 1 && t->tune != CLADE_TUNE_OFF)
    return CLADE_FAIL(UNSUPPORTED,
                      "clade_train: .tune with %d ranks, which would choose each by its own measurements: "
                      "tune before, in one process",
                      ranks);
  return CLADE_OK;
}

clade_status clade_train(const clade_trainer *trainer, clade_train_result *result, clade_vars **vars) {
  clade_trainer t;
  if (vars) *vars = NULL;
  if (!trainer) return CLADE_FAIL(INVALID, "clade_train: the trainer is NULL");
  if (result && result->size < sizeof result->size)
    return CLADE_FAIL(INVALID, "clade_train: result->size is %zu; set it to sizeof(clade_train_result)", result->size);
  CLADE_TRY(clade__opt_copy(&t, sizeof t, trainer, "clade_train"));
  CLADE_TRY(check(&t));
  return t.n_devices > 1 ? clade__train_devices(&t, result, vars) : clade__train_rank(&t, NULL, result, vars);
}
