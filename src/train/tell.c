/* Events for the observer, and the same numbers for the logs. */
#include "train/internal.h"

double clade__train_waited(const clade__training *tr) {
  clade_loader_info info = {.size = sizeof info};
  return tr->loader && clade_loader_stats(tr->loader, &info) == CLADE_OK ? info.waited : 0;
}

/* Excludes the first step and tests, during which kernels are compiled or loaded. */
double clade__train_speed(const clade__training *tr) {
  double images = (double)(tr->at - tr->begun_at - 1) * tr->t.batch;
  double seconds = clade__train_seconds(tr) - tr->first_step_seconds - tr->tested_seconds;
  return tr->first_step_seconds > 0 && images > 0 && seconds > 0 ? images / seconds : 0;
}

static double seconds_left(const clade__training *tr) {
  double speed = clade__train_speed(tr);
  return speed > 0 ? (double)(tr->steps - tr->at) * tr->t.batch / speed : 0;
}

/* Steps as the schedule counts them, without skipped ones. */
static int64_t steps_before(const clade__training *tr) {
  return CLADE_MAX(tr->at - tr->skipped - !tr->skips, (int64_t)0);
}

void clade__train_tell(clade__training *tr, clade_train_event_kind kind, const char *path) {
  if (!tr->t.observe && !tr->events) return;
  bool mean = kind != CLADE_TRAIN_STEP;
  double n = (double)CLADE_MAX(tr->summed, (int64_t)1);
  int64_t inside = tr->at ? (tr->at - 1) % tr->epoch_steps + 1 : 0; /* an epoch's last step is part of it */
  clade_train_event event = {
      .size = sizeof event,
      .kind = kind,
      .resumed = tr->resumed,
      .epoch = (int)(CLADE_MAX(tr->at - 1, (int64_t)0) / tr->epoch_steps) + 1,
      .epochs = tr->t.epochs,
      .step = tr->at,
      .steps = tr->steps,
      .epoch_step = inside,
      .epoch_steps = tr->epoch_steps,
      .loss = mean ? tr->loss_sum / n : tr->loss,
      .accuracy = (mean ? tr->right_sum / n : tr->right) / tr->t.batch,
      .test_loss = tr->test_loss,
      .test_accuracy = tr->test_accuracy,
      .learning_rate = tr->t.optimizer.lr * clade_schedule_at(&tr->t.schedule, steps_before(tr)),
      .images_per_s = clade__train_speed(tr),
      .seconds = clade__train_seconds(tr),
      .seconds_left = seconds_left(tr),
      .waited = clade__train_waited(tr),
      .path = path,
      .changed = kind == CLADE_TRAIN_BEGIN ? tr->changed : NULL,
      .ranks = tr->ranks,
      .optimizer_bytes = kind == CLADE_TRAIN_BEGIN ? tr->optimizer_bytes : NULL,
      .rows = kind == CLADE_TRAIN_BEGIN ? tr->parts : NULL,
      .split_measured = kind == CLADE_TRAIN_BEGIN && tr->measured,
      .precision = tr->t.precision,
      .precision_measured = kind == CLADE_TRAIN_BEGIN && tr->precision_measured,
      .loss_scale = tr->loss_scale,
      .skipped = tr->skipped,
      .data = tr->grid.data,
      .tensor = tr->grid.tensor,
      .pipeline = tr->grid.pipeline,
      .micro_batches = tr->grid.micro_batches,
      .interleave = tr->grid.interleave,
      .link_us = tr->speeds.link_us,
      .link_gbits = tr->speeds.link_gbits,
      .tflops = tr->speeds.tflops,
      .link_from = kind == CLADE_TRAIN_BEGIN ? tr->link_from : NULL,
      .tflops_from = kind == CLADE_TRAIN_BEGIN ? tr->tflops_from : NULL,
      .added_loss = mean ? tr->added_sum / n : tr->added,
      .explained = kind == CLADE_TRAIN_BEGIN && tr->explained.length ? tr->explained.data : NULL,
  };
  clade__train_log(tr, &event);
  if (tr->t.observe) tr->t.observe(tr->t.observe_user, &event);
}
