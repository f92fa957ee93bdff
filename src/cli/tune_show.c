/* Progress and report of clade tune: a bar, a table of the gains, or JSON. */
#include <unistd.h>

#include "cli/infer.h"
#include "cli/tune.h"

enum { BAR = 24 };

void tune_show_begin(tune_job *job) {
  job->to = job->args.json ? stderr : stdout;
  job->terminal = isatty(fileno(job->to)) == 1;
  job->rows = job->args.json ? json_array() : NULL;
  job->begun = clade__now();
}

static void clear_bar(tune_job *job) {
  if (job->bar_shown) fputs("\r\033[K", job->to);
  job->bar_shown = false;
}

/* Each work counts equally. */
static void draw_bar(tune_job *job, const clade_tune_row *row) {
  char bar[BAR + 1];
  int done = (int)(((double)job->at + (double)row->done / row->total) / (double)job->n_works * BAR);
  if (!job->terminal) return;
  for (int i = 0; i < BAR; ++i) bar[i] = i < done ? '=' : i == done ? '>' : ' ';
  bar[BAR] = 0;
  fprintf(job->to, "%s [%s] %d/%d problems", job->works[job->at].name, bar, row->done, row->total);
  if (job->n_works > 1) fprintf(job->to, " of %zu/%zu", job->at + 1, job->n_works);
  fprintf(job->to, ", %.1f s", clade__now() - job->begun);
  job->bar_shown = true;
}

static void print_row(tune_job *job, const clade_tune_row *row) {
  if (row->known || row->after_seconds <= 0) return;
  if (!job->told) fprintf(job->to, "%10s %10s %6s  %s\n", "before", "after", "gain", "problem: what is taken");
  job->told = true;
  fprintf(job->to, "%8.1fus %8.1fus %5.2fx  %s %s: %s%s\n", row->before_seconds * 1e6, row->after_seconds * 1e6,
          row->before_seconds > 0 ? row->before_seconds / row->after_seconds : 1, row->op, row->problem, row->after,
          strcmp(row->before, row->after) == 0 ? ", as before" : "");
}

static json_t *row_json(const tune_job *job, const clade_tune_row *row) {
  return json_pack("{s:s, s:s, s:s, s:i, s:s, s:s, s:f, s:f, s:i, s:i, s:b}", "target", job->works[job->at].name, "op",
                   row->op, "problem", row->problem, "nodes", row->nodes, "before", row->before, "after", row->after,
                   "before_seconds", row->before_seconds, "after_seconds", row->after_seconds, "candidates",
                   row->candidates, "wrong", row->wrong, "known", row->known);
}

void tune_show(void *user, const clade_tune_row *row) {
  tune_job *job = user;
  clear_bar(job);
  print_row(job, row);
  draw_bar(job, row);
  fflush(job->to);
  if (row->done == row->total && job->at + 1 == job->n_works) clear_bar(job);
  if (job->rows) json_array_append_new(job->rows, row_json(job, row));
  if (strcmp(row->op, "func") == 0) return; /* the sum over all problems */
  job->problems++;
  job->known += row->known;
  if (row->after_seconds <= 0) return;
  job->measured++;
  job->before += row->nodes * (row->before_seconds > 0 ? row->before_seconds : row->after_seconds);
  job->after += row->nodes * row->after_seconds;
}

int tune_report(tune_job *job) {
  clear_bar(job);
  double seconds = clade__now() - job->begun;
  if (job->args.json) {
    json_t *summary = json_pack("{s:i, s:i, s:i, s:f, s:f}", "problems", job->problems, "measured", job->measured,
                                "known", job->known, "before_seconds", job->before, "after_seconds", job->after);
    return cli_json_end(json_pack("{s:o, s:s, s:f, s:f, s:o, s:o}", "device", infer_device_json(job->device), "mode",
                                  job->mode == CLADE_TUNE_FULL ? "full" : "quick", "seconds", seconds,
                                  "compile_seconds", job->compiled, "rows", job->rows, "summary", summary));
  }
  fprintf(job->to, "%d problems looked at in %.1f s, after %.1f s of compiling: %d measured, %d known already\n",
          job->problems, seconds - job->compiled, job->compiled, job->measured, job->known);
  if (job->measured)
    fprintf(job->to, "what was measured took %.3f ms and takes %.3f ms\n", job->before * 1e3, job->after * 1e3);
  else if (job->problems && job->known == job->problems)
    fprintf(job->to, "nothing is left to measure; --again measures what is known, too\n");
  return CLI_DONE;
}

int tune_verdict(const tune_job *job) {
  clade_device_info info = {.size = sizeof info};
  if (job->measured || (job->problems && job->known == job->problems)) return CLI_DONE;
  if (clade_device_get_info(job->device, &info)) return cli_failed_status(CLADE_INTERNAL);
  if (!job->problems && !info.sources && !job->fallback)
    return cli_failed("nothing was measured: the kernels of device %s come from a bundle, which leaves no choice; name "
                      "a --fallback that could take some of the work",
                      info.id);
  if (job->budget > 0 || job->mode == CLADE_TUNE_QUICK)
    return cli_failed("nothing was measured: compiling and timing the first candidate takes longer than the budget; "
                      "give a larger --budget (seconds)");
  return cli_failed("nothing was measured: device %s has no candidate that could be timed; CLADE_LOG=info tells more",
                    info.id);
}
