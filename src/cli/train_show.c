/* Progress of a training: a bar on a terminal, plain lines elsewhere, JSON events with --json. */
#include <math.h>
#include <unistd.h>

#include "cli/train.h"

enum { BAR = 24, QUIET_SECONDS = 5 };

void train_show_begin(train_job *job) {
  job->to = job->args.json ? stderr : stdout;
  job->terminal = isatty(fileno(job->to)) == 1;
  job->trainer.observe = train_show;
  job->trainer.observe_user = job;
}

/* ---- text ---- */
static void draw_bar(train_job *job, const clade_train_event *e) {
  char bar[BAR + 1];
  int done = (int)(e->epoch_step * BAR / e->epoch_steps);
  for (int i = 0; i < BAR; ++i) bar[i] = i < done ? '=' : i == done ? '>' : ' ';
  bar[BAR] = 0;
  fprintf(job->to, "\r\033[Kepoch %d/%d [%s] %lld/%lld  %.0f images/s  loss %.4f  accuracy %.3f  %.0f s left", e->epoch,
          e->epochs, bar, (long long)e->epoch_step, (long long)e->epoch_steps, e->images_per_s, e->loss, e->accuracy,
          e->seconds_left);
  fflush(job->to);
  job->bar_shown = true;
}

static void clear_bar(train_job *job) {
  if (job->bar_shown) fputs("\r\033[K", job->to);
  job->bar_shown = false;
}

static void plain_step(train_job *job, const clade_train_event *e) {
  if (e->seconds - job->told < QUIET_SECONDS) return;
  job->told = e->seconds;
  fprintf(job->to, "epoch %d/%d step %lld/%lld: %.0f images/s, loss %.4f, accuracy %.3f, %.0f s left\n", e->epoch,
          e->epochs, (long long)e->epoch_step, (long long)e->epoch_steps, e->images_per_s, e->loss, e->accuracy,
          e->seconds_left);
  fflush(job->to);
}

static void tell_split(const train_job *job, const clade_train_event *e) {
  for (int time = 0; time < 2; time++) {
    fputs(time ? " measured; --split " : "split ", job->to);
    for (int i = 0; i < e->ranks; i++) fprintf(job->to, "%s%d", i ? ":" : "", e->rows[i]);
  }
  fputs(" gives the same\n", job->to);
}

static void tell_link(const train_job *job, const clade_train_event *e) {
  fprintf(job->to, "layers are divided by a link of %g us and %g Gbit/s (%s), and %g TFLOP/s (%s)", e->link_us,
          e->link_gbits, e->link_from, e->tflops, e->tflops_from);
  if (!strcmp(e->link_from, "measured") || !strcmp(e->tflops_from, "measured"))
    fprintf(job->to, "; --link %g,%g --flops %g gives the same", e->link_us, e->link_gbits, e->tflops);
  fputc('\n', job->to);
}

static void people(train_job *job, const clade_train_event *e) {
  switch (e->kind) {
  case CLADE_TRAIN_BEGIN:
    fprintf(job->to, "%s on %s: %lld steps of %d images\n", job->trainer.model_name, job->data, (long long)e->steps,
            job->trainer.batch ? job->trainer.batch : 64);
    if (e->resumed)
      fprintf(job->to, "resuming at step %lld%s%s\n", (long long)e->step, e->changed ? " with " : "",
              e->changed ? e->changed : "");
    if (e->link_from) tell_link(job, e);
    if (job->explain && e->explained) fputs(e->explained, job->to);
    if (e->split_measured) tell_split(job, e);
    if (e->precision_measured)
      fprintf(job->to, "precision %s, as measured; --precision %s gives the same\n", clade_dtype_name(e->precision),
              clade_dtype_name(e->precision));
    break;
  case CLADE_TRAIN_STEP:
    if (job->terminal)
      draw_bar(job, e);
    else
      plain_step(job, e);
    break;
  case CLADE_TRAIN_EPOCH:
    clear_bar(job);
    fprintf(job->to, "epoch %d/%d: loss %.4f, accuracy %.4f; test loss %.4f, test accuracy %.4f\n", e->epoch, e->epochs,
            e->loss, e->accuracy, e->test_loss, e->test_accuracy);
    break;
  case CLADE_TRAIN_CHECKPOINT: snprintf(job->checkpoint, sizeof job->checkpoint, "%s", e->path); break;
  case CLADE_TRAIN_STOPPED:
  case CLADE_TRAIN_DONE: clear_bar(job); break;
  }
  fflush(job->to);
}

/* ---- JSON ---- */
static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *step_json(const clade_train_event *e) {
  return json_pack("{s:s, s:i, s:I, s:o, s:o, s:o, s:o, s:o, s:f, s:I}", "event", "step", "epoch", e->epoch, "step",
                   (json_int_t)e->step, "loss", number(e->loss), "added_loss", number(e->added_loss), "accuracy",
                   number(e->accuracy), "learning_rate", number(e->learning_rate), "images_per_s",
                   number(e->images_per_s), "loss_scale", e->loss_scale, "skipped", (json_int_t)e->skipped);
}

static json_t *bytes_json(const clade_train_event *e) {
  json_t *list = json_array();
  for (int i = 0; i < e->ranks; i++) json_array_append_new(list, json_integer((json_int_t)e->optimizer_bytes[i]));
  return list;
}

static json_t *rows_json(const clade_train_event *e) {
  json_t *list = json_array();
  for (int i = 0; i < e->ranks; i++) json_array_append_new(list, json_integer(e->rows[i]));
  return list;
}

static json_t *layout_json(const clade_train_event *e) {
  return json_pack("{s:i, s:i, s:i, s:i, s:i}", "data", e->data, "tensor", e->tensor, "pipeline", e->pipeline,
                   "micro_batches", e->micro_batches, "interleave", e->interleave);
}

static json_t *link_json(const clade_train_event *e) {
  if (!e->link_from) return json_null();
  return json_pack("{s:f, s:f, s:f, s:s, s:s}", "us", e->link_us, "gbits", e->link_gbits, "tflops", e->tflops, "from",
                   e->link_from, "tflops_from", e->tflops_from);
}

static json_t *event_json(const train_job *job, const clade_train_event *e) {
  switch (e->kind) {
  case CLADE_TRAIN_BEGIN:
    return json_pack("{s:s, s:i, s:s, s:s, s:I, s:I, s:b, s:s?, s:o, s:o, s:b, s:s, s:b, s:b, s:o, s:o}", "event",
                     "begin", "schema", 1, "model", job->trainer.model_name, "data", job->data, "step",
                     (json_int_t)e->step, "steps", (json_int_t)e->steps, "resumed", e->resumed, "changed", e->changed,
                     "optimizer_bytes", bytes_json(e), "split", rows_json(e), "split_measured", e->split_measured,
                     "precision", clade_dtype_name(e->precision), "precision_measured", e->precision_measured, "qat",
                     job->qat, "parallel", layout_json(e), "link", link_json(e));
  case CLADE_TRAIN_STEP: return step_json(e);
  case CLADE_TRAIN_EPOCH:
    return json_pack("{s:s, s:i, s:I, s:o, s:o, s:o, s:o, s:o}", "event", "epoch", "epoch", e->epoch, "step",
                     (json_int_t)e->step, "loss", number(e->loss), "accuracy", number(e->accuracy), "test_loss",
                     number(e->test_loss), "test_accuracy", number(e->test_accuracy), "seconds", number(e->seconds));
  case CLADE_TRAIN_CHECKPOINT:
    return json_pack("{s:s, s:I, s:o}", "event", "checkpoint", "step", (json_int_t)e->step, "path",
                     cli_json_text(e->path));
  case CLADE_TRAIN_STOPPED: return json_pack("{s:s, s:I}", "event", "stopped", "step", (json_int_t)e->step);
  case CLADE_TRAIN_DONE: break; /* printed with the result */
  }
  return NULL;
}

/* Written once the training has started and its directory is locked. */
static void keep_options(const train_job *job) {
  const char *directory = job->trainer.checkpoint_dir;
  if (directory && train_run_write(job, directory) != CLADE_OK)
    cli_failed("%s: to go on with this run will need its options again", clade_last_error());
}

/* Counts from the end of the first step, which waits for the compilation of all ranks. */
static void count_from_here(train_job *job) {
  if (job->before.size || !job->trainer.comm) return;
  job->before.size = sizeof job->before;
  if (clade_comm_get_stats(job->trainer.comm, &job->before) != CLADE_OK) job->before.size = 0;
}

void train_show(void *user, const clade_train_event *event) {
  train_job *job = user;
  train_install_handlers(); /* LLVM's would interrupt the output that follows */
  if (event->kind == CLADE_TRAIN_STEP) count_from_here(job);
  if (event->kind == CLADE_TRAIN_BEGIN) keep_options(job);
  json_t *line = job->args.json ? event_json(job, event) : NULL;
  if (line) cli_json_line(line);
  people(job, event);
}
