/* Libraries of others, opened at run time; neither the build nor the other commands need them. Also the number and
 * use of processors. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cli/bench/bench.h"

const char *bench_library(const char *file, const char *package, int n, const clade__symbol *symbols) {
  static char reason[400];
  char why[200];
  if (!clade__symbols_open(file, n, symbols, why, sizeof why)) return NULL;
  snprintf(reason, sizeof reason, "%s; apt-get install -y --no-install-recommends %s", why, package);
  return reason;
}

bool bench_wants(const bench_job *job, const char *peer) { return job->peer ? !strcmp(job->peer, peer) : job->peers; }

int bench_threads(const bench_job *job) {
  return job->info.device_class == CLADE_CPU ? (int)job->info.compute_units : bench_processors(NULL, 0);
}

/* Clock ticks of all processors since boot: total and idle. */
static bool ticks(double *all, double *idle) {
  double t[8] = {0};
  FILE *file = fopen("/proc/stat", "r");
  if (!file) return false;
  int n = fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]);
  fclose(file);
  *all = *idle = 0;
  for (int i = 0; i < 8; i++) *all += t[i];
  *idle = t[3] + t[4];
  return n == 8;
}

static double own_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void bench_watch(bench_watcher *w) {
  w->known = ticks(&w->all, &w->idle);
  w->own = own_seconds();
}

double bench_busy(const bench_watcher *w) {
  double all, idle, own = (own_seconds() - w->own) * (double)sysconf(_SC_CLK_TCK);
  if (!w->known || !ticks(&all, &idle) || all <= w->all) return 0;
  return CLADE_MAX(1 - (idle - w->idle + own) / (all - w->all), 0.0);
}

int bench_processors(char *name, size_t size) {
  char line[256];
  FILE *file = size ? fopen("/proc/cpuinfo", "r") : NULL;
  if (size) snprintf(name, size, "unknown");
  while (file && fgets(line, sizeof line, file)) {
    const char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) || !colon) continue;
    snprintf(name, size, "%.*s", (int)strcspn(colon + 1 + strspn(colon + 1, " "), "\n"),
             colon + 1 + strspn(colon + 1, " "));
    break;
  }
  if (file) fclose(file);
  return (int)CLADE_MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L);
}
