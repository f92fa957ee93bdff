/* Libraries of others, opened at run time; neither the build nor the other commands need them. Also the number and
 * use of processors. */
#include <stdio.h>
#include <sys/times.h>
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

/* Clock ticks of this process and of its children that have ended, such as the processes of peers. */
static double own_ticks(void) {
  struct tms t;
  if (times(&t) == (clock_t)-1) return 0;
  return (double)(t.tms_utime + t.tms_stime + t.tms_cutime + t.tms_cstime);
}

void bench_watch(bench_watcher *w) {
  w->known = ticks(&w->all, &w->idle);
  w->own = own_ticks();
}

double bench_busy(const bench_watcher *w) {
  double all, idle;
  if (!w->known || !ticks(&all, &idle) || all <= w->all) return 0;
  return CLADE_MAX(1 - (idle - w->idle + own_ticks() - w->own) / (all - w->all), 0.0);
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
