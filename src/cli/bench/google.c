/* Writes the results in the JSON format of Google Benchmark, for tools that compare runs: one benchmark for each row
 * and contestant. */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "cli/bench/bench.h"

static json_t *benchmark(const bench_row *row, const char *who, bench_stat s, int rounds) {
  char name[256];
  snprintf(name, sizeof name, "%s/%s/%s/%s/%s", row->group, row->pass, row->dtype, row->work, who);
  return json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:f, s:f, s:s, s:f, s:f}", "name", name, "run_name", name,
                   "run_type", "iteration", "repetitions", 1, "repetition_index", 0, "threads", 1, "iterations", rounds,
                   "real_time", s.median * 1e9, "cpu_time", s.median * 1e9, "time_unit", "ns", "items_per_second",
                   s.median > 0 ? row->flops / s.median : 0, "bytes_per_second",
                   s.median > 0 ? row->bytes / s.median : 0);
}

static json_t *document(const bench_job *job) {
  char date[40] = "", cpu[128];
  time_t now = time(NULL);
  struct tm local;
  if (localtime_r(&now, &local)) strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S%z", &local);
  int processors = bench_processors(cpu, sizeof cpu);
  json_t *list = json_array();
  for (size_t i = 0; i < job->n_rows; i++) {
    const bench_row *row = &job->rows[i];
    json_array_append_new(list, benchmark(row, "clade", row->seconds, row->rounds));
    if (*row->own.impl) json_array_append_new(list, benchmark(row, "clade_own", row->own.seconds, row->rounds));
    for (int p = 0; p < row->n_peers; p++)
      json_array_append_new(list, benchmark(row, row->peer[p].name, row->peer[p].seconds, row->peer[p].kept));
  }
  return json_pack("{s:{s:s, s:s, s:i, s:i, s:b, s:s}, s:o}", "context", "date", date, "executable", "clade",
                   "num_cpus", processors, "mhz_per_cpu", (int)job->info.clock_mhz, "cpu_scaling_enabled", 0,
                   "library_build_type", "release", "benchmarks", list);
}

bool bench_google(const bench_job *job) {
  json_t *whole = document(job);
  FILE *file = fopen(job->google, "w");
  bool written = file && whole && !json_dumpf(whole, file, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
  int error = errno;
  if (file && fclose(file)) {
    written = false;
    error = errno;
  }
  json_decref(whole);
  if (!written) cli_failed("%s cannot be written: %s", job->google, strerror(error));
  return written;
}
