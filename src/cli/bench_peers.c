/* Libraries that others made, opened where they are installed: nothing of them is needed to build or to run Clade. */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/bench.h"

const char *bench_library(const char *file, const char *package, int n, const bench_symbol *symbols) {
  static char reason[400];
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL); /* stays: its threads may not end */
  if (!library) {
    const char *why = dlerror();
    snprintf(reason, sizeof reason, "%.200s; apt-get install -y --no-install-recommends %s", why ? why : file, package);
    return reason;
  }
  for (int i = 0; i < n; i++) {
    void *function = dlsym(library, symbols[i].name);
    if (!function) {
      snprintf(reason, sizeof reason, "%s has no %s; apt-get install -y --no-install-recommends %s", file,
               symbols[i].name, package);
      return reason;
    }
    memcpy(symbols[i].to, &function, sizeof function);
  }
  return NULL;
}

int bench_threads(const bench_job *job) {
  return job->info.device_class == CLADE_CPU ? (int)job->info.compute_units : bench_processors(NULL, 0);
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
