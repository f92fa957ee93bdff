/* Output of `clade bench compare`: rows as JSON, and the table. */
#include <math.h>
#include <stdio.h>

#include "cli/compare/compare.h"
#include "cli/compare/page.h"

static json_t *figure(double value) { return isfinite(value) ? json_real(value) : json_null(); }
static double giga(double amount, double seconds) { return amount > 0 ? amount / seconds * 1e-9 : NAN; }

json_t *compare_row_json(const compare_side *side, const compare_work *work, const compare_demand *demand,
                         const compare_row *row) {
  char name[80];
  double gflops = giga(demand->flops, row->p50),
         peak = work->bytes && !side->modeled && !side->simulated ? 0 : side->bench.peak_flops * 1e-9;
  const struct {
    const char *name;
    double value;
  } figures[] = {{"p50", row->p50},
                 {"p99", row->p99},
                 {"low", row->low},
                 {"high", row->high},
                 {"p50_least", row->least},
                 {"p50_most", row->most},
                 {"items_per_s", (double)work->batch / row->p50},
                 {"gflops", gflops},
                 {"fraction_of_peak", peak > 0 ? gflops / peak : NAN},
                 {"flops", demand->flops},
                 {"bytes", demand->bytes},
                 {"moved_bytes", row->moved},
                 {"transfer_seconds", row->transfer},
                 {"compute_seconds", row->compute},
                 {"other_seconds", row->other},
                 {"programming_seconds", row->programming},
                 {"first_seconds", row->first},
                 {"max_error", row->error},
                 {"accuracy", row->accuracy},
                 {"joules", row->joules},
                 {"cycles", row->cycles}};
  compare_work_name(work, name, sizeof name);
  json_t *out = json_pack(
      "{s:o, s:s, s:s, s:o, s:I, s:s, s:s, s:o, s:o, s:i, s:o, s:o}", "device", cli_json_text(side->spec), "work", name,
      "group", work->group, "model", cli_json_text(compare_model_name(work)), "batch", (json_int_t)work->batch, "dtype",
      compare_dtype(side, work), "evidence", compare_evidence_names[side->evidence], "bundle_evidence",
      cli_json_text(side->told), "refused", cli_json_text(*row->refused ? row->refused : NULL), "calls", row->calls,
      "bound", cli_json_text(row->bound), "fallback", cli_json_text(row->fallback));
  for (size_t i = 0; i < CLADE_COUNT(figures); i++)
    cli_json_set(out, figures[i].name, *row->refused ? json_null() : figure(figures[i].value));
  return out;
}

void compare_show_devices(const compare_job *job) {
  for (int i = 0; i < job->n; i++) {
    const bench_job *b = &job->side[i].bench;
    fprintf(job->to, "%s: ", job->side[i].spec);
    if (b->info.id) fprintf(job->to, "device %s, ", b->info.id);
    fprintf(job->to, "%s, %s", compare_side_name(&job->side[i]), compare_evidence_names[job->side[i].evidence]);
    if (b->peak_flops > 0)
      fprintf(job->to, ", %.1f GFLOP/s of multiply-adds, memory %.1f GB/s", b->peak_flops * 1e-9, b->copy_bytes * 1e-9);
    fputc('\n', job->to);
  }
  fprintf(job->to, "\n%-26s %-22s %10s %9s %9s %9s %10s %9s %5s %9s %9s %9s %8s %5s %-9s  %s\n", "work", "device",
          "p50 ms", "least", "most", "p99", "items/s", "GFLOP/s", "peak", "copies ms", "kernels", "program s", "error",
          "right", "bundle", "evidence");
}

static void cell(FILE *to, const json_t *row, const char *key, int width, int digits, double scale) {
  const double value = page_number(row, key);
  if (isnan(value))
    fprintf(to, " %*s", width, "-");
  else
    fprintf(to, " %*.*f", width, digits, value * scale);
}

void compare_show_row(const compare_job *job, const json_t *row) {
  static const struct {
    const char *key;
    int width, digits;
    double scale;
  } cells[] = {{"p50", 10, 3, 1e3},
               {"p50_least", 9, 3, 1e3},
               {"p50_most", 9, 3, 1e3},
               {"p99", 9, 3, 1e3},
               {"items_per_s", 10, 1, 1},
               {"gflops", 9, 2, 1},
               {"fraction_of_peak", 5, 2, 1},
               {"transfer_seconds", 9, 3, 1e3},
               {"compute_seconds", 9, 3, 1e3},
               {"programming_seconds", 9, 3, 1}};
  const char *refused = page_string(row, "refused");
  fprintf(job->to, "%-26s %-22s", page_string(row, "work"), page_string(row, "device"));
  if (refused) {
    fprintf(job->to, " %s\n", refused);
    return;
  }
  for (size_t i = 0; i < CLADE_COUNT(cells); i++)
    cell(job->to, row, cells[i].key, cells[i].width, cells[i].digits, cells[i].scale);
  if (json_is_number(json_object_get(row, "max_error")))
    fprintf(job->to, " %8.1e", page_number(row, "max_error"));
  else
    fprintf(job->to, " %8s", "-");
  cell(job->to, row, "accuracy", 5, 2, 1);
  const char *told = page_string(row, "bundle_evidence");
  fprintf(job->to, " %-9s  %s\n", told ? told : "-", page_string(row, "evidence"));
  fflush(job->to);
}

void compare_show_answers(const compare_job *job, const json_t *answers) {
  const json_t *answer;
  size_t i;
  fputc('\n', job->to);
  json_array_foreach(answers, i, answer) if (!job->answer || !strcmp(job->answer, page_string(answer, "question")))
      fprintf(job->to, "%s\n", page_string(answer, "text"));
}
