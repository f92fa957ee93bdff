/* Final report of clade train. */
#include <math.h>

#include "cli/train.h"

static json_t *confusion_json(const clade_train_result *r) {
  json_t *rows = json_array();
  for (int i = 0; i < r->classes; ++i) {
    json_t *row = json_array();
    for (int k = 0; k < r->classes; ++k) json_array_append_new(row, json_integer(r->confusion[i * r->classes + k]));
    json_array_append_new(rows, row);
  }
  return rows;
}

/* Statistics of the steps after the first one. false: no communication. */
static bool comm_stats(const train_job *job, clade_comm_stats *out) {
  const clade_comm_stats *b = &job->before;
  *out = (clade_comm_stats){.size = sizeof *out};
  if (!b->size || clade_comm_get_stats(job->trainer.comm, out) != CLADE_OK) return false;
  out->sent_bytes -= b->sent_bytes;
  out->received_bytes -= b->received_bytes;
  out->busy_seconds -= b->busy_seconds;
  out->exposed_seconds -= b->exposed_seconds;
  return out->sent_bytes || out->received_bytes;
}

static double hidden_fraction(const clade_comm_stats *s) {
  return s->busy_seconds > 0 ? fmax(0, 1 - s->exposed_seconds / s->busy_seconds) : 1;
}

static json_t *comm_json(const train_job *job) {
  clade_comm_stats s;
  if (!comm_stats(job, &s)) return json_null();
  return json_pack("{s:i, s:I, s:f, s:f, s:f}", "ranks", clade_comm_size(job->trainer.comm), "bytes",
                   (json_int_t)s.sent_bytes, "seconds", s.busy_seconds, "exposed_seconds", s.exposed_seconds,
                   "hidden_fraction", hidden_fraction(&s));
}

static json_t *done_json(const train_job *job) {
  const clade_train_result *r = &job->result;
  return json_pack("{s:s, s:f, s:f, s:I, s:I, s:i, s:f, s:f, s:f, s:f, s:s, s:o, s:o, s:s, s:f, s:I, s:o}", "event",
                   "done", "test_accuracy", r->test_accuracy, "test_loss", r->test_loss, "steps", (json_int_t)r->steps,
                   "new_steps", (json_int_t)r->new_steps, "epochs", r->epochs, "seconds", r->seconds, "images_per_s",
                   r->images_per_s, "first_step_seconds", r->first_step_seconds, "waited_seconds", r->waited,
                   "weights_sha256", r->weights_sha256, "confusion", confusion_json(r), "comm", comm_json(job),
                   "precision", clade_dtype_name(r->precision), "loss_scale", r->loss_scale, "skipped",
                   (json_int_t)r->skipped, "trace_idle", r->trace_idle < 0 ? json_null() : json_real(r->trace_idle));
}

enum { WIDEST_TABLE = 20 };

static void print_confusion(const train_job *job) {
  const clade_train_result *r = &job->result;
  if (r->classes > WIDEST_TABLE) return; /* too wide to read; --json has it */
  fprintf(job->to, "\nlabel   answered as\n     ");
  for (int k = 0; k < r->classes; ++k) fprintf(job->to, " %5d", k);
  for (int i = 0; i < r->classes; ++i) {
    fprintf(job->to, "\n%5d", i);
    for (int k = 0; k < r->classes; ++k) fprintf(job->to, " %5lld", (long long)r->confusion[i * r->classes + k]);
  }
  fputs("\n\n", job->to);
}

/* Suggests commands to try next. */
static void print_next(const train_job *job) {
  const char *p = cli_program, *directory = job->trainer.checkpoint_dir;
  fprintf(job->to, "\nnext:\n  %s train ", p);
  if (directory) {
    train_print_word(job->to, directory);
    fprintf(job->to, " --resume --epochs %d\n  %s %s ", 2 * job->result.epochs, p, job->qat ? "quantize" : "infer");
    train_print_word(job->to, directory);
    fputs(job->qat ? " --output small\n" : " --input x.npy --output y.npy\n", job->to);
  } else {
    fputs("run", job->to);
    train_print_options(job);
    fputc('\n', job->to);
  }
  fprintf(job->to, "  %s devices\n", p);
}

/* Times of this process only, without those before a resume. */
static void print_times(const train_job *job) {
  const clade_train_result *r = &job->result;
  fprintf(job->to, "%lld steps in %.1f s", (long long)r->new_steps, r->seconds);
  if (r->new_steps != r->steps) fprintf(job->to, " (%lld with those before)", (long long)r->steps);
  if (r->images_per_s > 0)
    fprintf(job->to, ", %.0f images/s without the first step, which compiles and ended after %.1f s, and without tests",
            r->images_per_s, r->first_step_seconds);
  fprintf(job->to, "; %.1f s spent waiting for data\n", r->waited);
}

static void print_comm(const train_job *job) {
  clade_comm_stats s;
  if (!comm_stats(job, &s)) return;
  fprintf(job->to,
          "rank 0 sent %.1f MB in %.1f s, of which %.0f %% were hidden behind kernels and %.1f s were waited for\n",
          1e-6 * (double)s.sent_bytes, s.busy_seconds, 100 * hidden_fraction(&s), s.exposed_seconds);
}

int train_report(train_job *job) {
  const clade_train_result *r = &job->result;
  const clade_trainer *t = &job->trainer;
  print_confusion(job);
  fprintf(job->to, "test accuracy %.2f %%, test loss %.4f\n", 100 * r->test_accuracy, r->test_loss);
  print_times(job);
  print_comm(job);
  if (r->precision == CLADE_F16)
    fprintf(job->to, "loss scale %g; %lld of %lld steps were skipped, as their gradients overflowed\n", r->loss_scale,
            (long long)r->skipped, (long long)r->steps);
  fprintf(job->to, "weights sha256 %s\n", r->weights_sha256);
  if (t->checkpoint_dir) fprintf(job->to, "checkpoints in %s\n", t->checkpoint_dir);
  if (t->log_dir) fprintf(job->to, "logs in %s: tensorboard --logdir %s\n", t->log_dir, t->log_dir);
  if (t->trace && !r->incomplete)
    fprintf(job->to, "trace in %s; from its first to its last step the device was idle for %.1f %% of the time\n",
            t->trace, 100 * r->trace_idle);
  print_next(job);
  if (job->args.json && !cli_json_line(done_json(job))) return CLI_FAILED;
  return r->incomplete ? cli_failed("the training is done, but its logs or its trace are not whole, as told above")
                       : CLI_DONE;
}

void train_stopped(const train_job *job) {
  long long step = (long long)job->result.steps;
  if (job->trainer.checkpoint_dir)
    cli_failed("interrupted after step %lld; `%s train %s --resume` goes on from there", step, cli_program,
               job->trainer.checkpoint_dir);
  else
    cli_failed("interrupted after step %lld; nothing was kept: --checkpoint-dir keeps what was reached", step);
}
