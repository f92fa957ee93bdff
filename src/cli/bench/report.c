/* Output of `clade bench`: a table line for each row as it is measured, then JSON or CSV, and Google Benchmark's
 * JSON. */
#include <math.h>
#include <stdio.h>
#include <sys/utsname.h>

#include "cli/bench/bench.h"

static double per_second(double amount, double seconds) { return seconds > 0 ? amount / seconds * 1e-9 : 0; }
static double gflops(const bench_row *row) { return per_second(row->flops, row->seconds.median); }
static double gbs(const bench_row *row) { return per_second(row->bytes, row->seconds.median); }
static double images(const bench_row *row, double seconds) { return per_second(row->items * 1e9, seconds); }
static double of_peak(const bench_job *job, const bench_row *row) { return gflops(row) * 1e9 / job->peak_flops; }
static double of_copy(const bench_job *job, const bench_row *row) {
  return row->bound > 0 ? row->bound / row->seconds.median : gbs(row) * 1e9 / job->copy_bytes;
}

/* ---- the table ---- */
/* The shown rate of a row: operations, images or bytes per second. */
static double figure(const bench_row *row, double seconds) {
  if (row->flops > 0) return per_second(row->flops, seconds);
  return row->items > 0 ? images(row, seconds) : per_second(row->bytes, seconds);
}
static const char *unit(const bench_row *row) {
  return row->flops > 0 ? "GFLOP/s" : row->items > 0 ? "images/s" : "GB/s";
}

void bench_show_device(const bench_job *job) {
  char cpu[128];
  int processors = bench_processors(cpu, sizeof cpu);
  fprintf(job->to, "%s, %d processors; device %s, %s (%s): %.1f GFLOP/s of f32 multiply-adds, copies %.1f GB/s by %s\n",
          cpu, processors, job->info.id, job->info.name, job->info.platform, job->peak_flops * 1e-9,
          job->copy_bytes * 1e-9, job->copy_by);
}

static bool has_own(const bench_row *row) { return !strcmp(row->group, "conv"); }

/* On CPUs, launches cost little, so the time in kernels adds nothing. */
static bool shows_kernels(const bench_job *job) { return job->info.device_class != CLADE_CPU; }

static void show_head(bench_job *job, const bench_row *row) {
  job->columns = row->n_peers;
  fprintf(job->to, "\n%-20s %-5s %-12s %5s %11s %11s %11s %9s %6s", row->group, "dtype", "impl", "chain", "median ms",
          "min", "max", unit(row),
          row->flops > 0   ? "peak"
          : row->items > 0 ? ""
                           : "copy");
  if (shows_kernels(job)) fprintf(job->to, " %11s", "kernels ms");
  if (has_own(row)) fprintf(job->to, " %11s", "own layouts");
  for (int i = 0; i < row->n_peers; i++) fprintf(job->to, " %14s %6s", row->peer[i].name, "ratio");
  fputc('\n', job->to);
}

static void show_row(bench_job *job, const bench_row *row) {
  const bench_row *last = job->n_rows ? &job->rows[job->n_rows - 1] : NULL;
  if (!last || strcmp(last->group, row->group) || job->columns != row->n_peers) show_head(job, row);
  fprintf(job->to, "%-20s %-5s %-12s %5d %11.4f %11.4f %11.4f %9.2f ", row->work, row->dtype, row->impl,
          CLADE_MAX(row->chain, 1), row->seconds.median * 1e3, row->seconds.min * 1e3, row->seconds.max * 1e3,
          figure(row, row->seconds.median));
  if (row->flops > 0 || row->bytes > 0)
    fprintf(job->to, "%5.0f%%", 100 * (row->flops > 0 ? of_peak(job, row) : of_copy(job, row)));
  else
    fprintf(job->to, "%6s", "");
  if (shows_kernels(job)) fprintf(job->to, " %11.4f", row->kernels * 1e3);
  if (has_own(row) && *row->own.impl) fprintf(job->to, " %11.2f", figure(row, row->own.seconds.median));
  if (has_own(row) && !*row->own.impl) fprintf(job->to, " %11s", "the same");
  for (int i = 0; i < row->n_peers; i++) {
    const bench_peer_row *p = &row->peer[i];
    fprintf(job->to, " %14.2f %6.3f", figure(row, p->seconds.median), p->ratio);
    if (p->thrown) fprintf(job->to, " (%d of %d rounds thrown out)", p->thrown, p->thrown + p->kept);
  }
  fputc('\n', job->to);
  if (job->explain && row->why) /* the chosen implementation precedes the first semicolon */
    fprintf(job->to, "    %.*s\n", (int)(job->explain_all ? strlen(row->why) : strcspn(row->why, ";")), row->why);
  if (job->explain && *row->own.impl)
    fprintf(job->to, "    in its own layouts: %s, %s\n", row->own.impl, row->own.layouts);
  fflush(job->to);
}

clade_status bench_row_add(bench_job *job, const bench_row *row) {
  clade_status status = clade__grow(&job->rows, &job->row_capacity, job->n_rows + 1, sizeof *job->rows);
  if (status != CLADE_OK) {
    clade__free(row->why);
    return status;
  }
  show_row(job, row);
  job->rows[job->n_rows++] = *row;
  return CLADE_OK;
}

void bench_missing(bench_job *job, const char *peer, const char *reason) {
  int i = 0;
  while (i < BENCH_MAX_SIDES && job->told[i] && strcmp(job->told[i], peer)) i++;
  if (i == BENCH_MAX_SIDES || job->told[i]) return;
  job->told[i] = peer;
  fprintf(stderr, "clade: without %s: %s\n", peer, reason);
}

/* ---- summary of each peer over all its rows ---- */
typedef struct total {
  const bench_peer_row *first;
  double logs, min;
  int n;
} total;

static int totals_of(const bench_job *job, total totals[BENCH_MAX_SIDES]) {
  int n = 0;
  for (size_t r = 0; r < job->n_rows; r++)
    for (int i = 0; i < job->rows[r].n_peers; i++) {
      const bench_peer_row *p = &job->rows[r].peer[i];
      int at = 0;
      while (at < n && strcmp(totals[at].first->name, p->name)) at++;
      if (at == n && n == BENCH_MAX_SIDES) continue;
      if (at == n) totals[n++] = (total){.first = p, .min = INFINITY};
      totals[at].logs += log(p->ratio);
      totals[at].min = fmin(totals[at].min, p->ratio);
      totals[at].n++;
    }
  return n;
}

static void show_summary(const bench_job *job) {
  total totals[BENCH_MAX_SIDES];
  int n = totals_of(job, totals);
  if (n) fputc('\n', job->to);
  for (int i = 0; i < n; i++) {
    const bench_peer_row *p = totals[i].first;
    fprintf(job->to, "%s (%s, %s, %d threads): geometric mean %.3f, least %.3f, of %d; above 1 Clade is faster\n",
            p->name, p->kernel, p->isa, p->threads, exp(totals[i].logs / totals[i].n), totals[i].min, totals[i].n);
  }
}

/* ---- JSON ---- */
json_t *bench_machine_json(const bench_watcher *watcher) {
  struct utsname system = {0};
  char cpu[128];
  int processors = bench_processors(cpu, sizeof cpu);
  uname(&system);
  return json_pack("{s:o, s:i, s:s, s:s, s:o}", "cpu", cli_json_text(cpu), "processors", processors, "system",
                   system.sysname, "architecture", system.machine, "busy",
                   watcher->known ? json_real(bench_busy(watcher)) : json_null());
}

static json_t *device_json(const bench_job *job) {
  return json_pack("{s:s, s:o, s:o, s:o, s:i, s:i, s:f, s:f, s:s}", "id", job->info.id, "name",
                   cli_json_text(job->info.name), "platform", cli_json_text(job->info.platform), "driver",
                   cli_json_text(job->info.driver), "compute_units", (int)job->info.compute_units, "vector_f32",
                   (int)job->info.vector_f32, "peak_gflops", job->peak_flops * 1e-9, "copy_gbs", job->copy_bytes * 1e-9,
                   "copy_by", job->copy_by);
}

static json_t *peers_json(const bench_row *row) {
  json_t *peers = json_object();
  for (int i = 0; i < row->n_peers; i++) {
    const bench_peer_row *p = &row->peer[i];
    json_t *peer =
        json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:i, s:i, s:o, s:o}", "against", p->against, "gflops",
                  per_second(row->flops, p->seconds.median), "gbs", per_second(row->bytes, p->seconds.median), "ratio",
                  p->ratio, "seconds", p->seconds.median, "seconds_min", p->seconds.min, "seconds_max", p->seconds.max,
                  "rounds_kept", p->kept, "rounds_thrown", p->thrown, "threads", p->threads, "kernel",
                  cli_json_text(p->kernel), "isa", cli_json_text(p->isa));
    cli_json_set(peers, p->name, peer);
  }
  return peers;
}

static json_t *own_json(const bench_row *row) {
  const bench_own_row *own = &row->own;
  if (!*own->impl) return json_null();
  return json_pack("{s:s, s:s, s:f, s:f, s:f, s:f}", "impl", own->impl, "layouts", own->layouts, "gflops",
                   per_second(row->flops, own->seconds.median), "seconds", own->seconds.median, "seconds_min",
                   own->seconds.min, "seconds_max", own->seconds.max);
}

static json_t *row_json(const bench_job *job, const bench_row *row) {
  return json_pack(
      "{s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o}", "group",
      row->group, "work", row->work, "shape", row->shape, "dtype", row->dtype, "pass", row->pass, "impl", row->impl,
      "why", cli_json_text(row->why), "chain", CLADE_MAX(row->chain, 1), "rounds", row->rounds, "seconds",
      row->seconds.median, "seconds_min", row->seconds.min, "seconds_max", row->seconds.max, "kernel_seconds",
      row->kernels, "gflops", gflops(row), "gbs", gbs(row), "fraction_of_peak", of_peak(job, row), "fraction_of_copy",
      of_copy(job, row), "images_per_s", images(row, row->seconds.median), "own", own_json(row), "peers",
      peers_json(row));
}

static json_t *summary_json(const bench_job *job) {
  total totals[BENCH_MAX_SIDES];
  int n = totals_of(job, totals);
  json_t *summary = json_object();
  for (int i = 0; i < n; i++)
    cli_json_set(summary, totals[i].first->name,
                 json_pack("{s:f, s:f, s:i}", "geomean", exp(totals[i].logs / totals[i].n), "min", totals[i].min, "n",
                           totals[i].n));
  return summary;
}

static int report_json(const bench_job *job) {
  json_t *rows = json_array();
  for (size_t i = 0; i < job->n_rows; i++) json_array_append_new(rows, row_json(job, &job->rows[i]));
  return cli_json_end(json_pack("{s:o, s:o, s:o, s:o}", "machine", bench_machine_json(&job->watcher), "device",
                                device_json(job), "rows", rows, "summary", summary_json(job)));
}

/* ---- CSV: a line for each row and contestant ---- */
static void csv_text(const char *text) {
  if (!strpbrk(text, ",\"\n")) {
    printf("%s,", text);
    return;
  }
  putchar('"');
  for (; *text; text++) printf(*text == '"' ? "\"\"" : "%c", *text);
  printf("\",");
}

static void csv_line(const bench_job *job, const bench_row *row, const char *who, const char *impl, bench_stat s,
                     double ratio) {
  const char *const texts[] = {row->group, row->work, row->shape, row->dtype, row->pass, who, impl};
  for (size_t i = 0; i < CLADE_COUNT(texts); i++) csv_text(texts[i]);
  printf("%d,%.9g,%.9g,%.9g,%.6g,%.6g,%.6g,", CLADE_MAX(row->chain, 1), s.median, s.min, s.max,
         per_second(row->flops, s.median), per_second(row->bytes, s.median),
         per_second(row->flops, s.median) * 1e9 / job->peak_flops);
  printf(ratio > 0 ? "%.6g\n" : "\n", ratio);
}

static int report_csv(const bench_job *job) {
  puts("group,work,shape,dtype,pass,who,impl,chain,seconds,seconds_min,seconds_max,gflops,gbs,fraction_of_peak,ratio");
  for (size_t i = 0; i < job->n_rows; i++) {
    const bench_row *row = &job->rows[i];
    csv_line(job, row, "clade", row->impl, row->seconds, 0);
    if (*row->own.impl) csv_line(job, row, "clade_own", row->own.impl, row->own.seconds, 0);
    for (int p = 0; p < row->n_peers; p++)
      csv_line(job, row, row->peer[p].name, row->peer[p].kernel, row->peer[p].seconds, row->peer[p].ratio);
  }
  return fflush(stdout) || ferror(stdout) ? cli_failed("cannot write CSV to standard output") : CLI_DONE;
}

int bench_report(bench_job *job) {
  double busy = bench_busy(&job->watcher);
  show_summary(job);
  if (busy > 0.1)
    fprintf(stderr, "clade: other processes used %.0f %% of the processors: these figures are not worth quoting\n",
            100 * busy);
  if (job->google && !bench_google(job)) return CLI_FAILED;
  if (job->csv) return report_csv(job);
  return job->args.json ? report_json(job) : CLI_DONE;
}
