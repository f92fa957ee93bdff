/* A process of the system tests: opens devices, computes, and prints the outcome as one JSON line.
 *
 *   first_result [--two | --train] [--start NANOSECONDS] [--repeat N] [--fail-allocation N[+]]
 *                [--allocation-sites FILE] [SPEC]
 *   first_result --leak
 *   first_result --serve FOLDER LIBRARY
 *
 * Exit status: 0 correct result, 3 error status (message in "error"), 4 wrong result. "again" is the outcome of a
 * second attempt in the same process after an error. --start is the monotonic time at which the caller started the
 * process. --leak only leaks memory. --serve loads an OpenCL implementation, which takes most of a warm process's
 * time, and forks for each line of stdin, before any OpenCL call. A line has tab-separated words: NAME=value sets
 * the child's environment, others are its arguments. The child's output is in FOLDER/stdout and FOLDER/stderr; its
 * wait status is printed. */
#include "failing_allocator.h"
#include "learner.h"
#include "perceptron.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (long long)t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int warnings;
static char platform[256]; /* with its version */
static void on_log(void *user, clade_log_level level, const char *message) {
  (void)user;
  if (level <= CLADE_LOG_WARNING) warnings++;
  fprintf(stderr, "log %d: %s\n", (int)level, message);
}

static unsigned long long hash(const void *data, size_t n) {
  unsigned long long h = 1469598103934665603ULL;
  for (size_t i = 0; i < n; i++) h = (h ^ ((const unsigned char *)data)[i]) * 1099511628211ULL;
  return h;
}

static void print_text(const char *text) {
  putchar('"');
  for (; *text; text++) {
    if (*text == '"' || *text == '\\')
      printf("\\%c", *text);
    else if ((unsigned char)*text < 32)
      printf("\\u%04x", (unsigned)(unsigned char)*text);
    else
      putchar(*text);
  }
  putchar('"');
}

/* Leaks memory and reports whether a leak checker is active. */
static int leak(void) {
  static void *volatile lost;
  for (int i = 0; i < 4; i++) lost = malloc(1000);
  if (lost) lost = NULL;
#ifdef CLADE_ASAN
  puts("{\"leak_sanitizer\":true}");
#else
  puts("{\"leak_sanitizer\":false}");
#endif
  fflush(stdout); /* LeakSanitizer ends the process before exit flushes */
  return 0;
}

static long long first; /* time of the first result */

/* Three training steps; compares the last loss with the host's. */
static clade_status train(clade_device *device, unsigned long long *bits, bool *wrong) {
  enum { STEPS = 3 };
  const learner_size size = {.batch = 12, .in = 10, .hidden = 9, .out = 4};
  const clade_run_opt opt = {.size = sizeof opt};
  learner l;
  clade_ticket ticket = 0;
  double want = 0;
  float loss = 0;
  clade_status s = learner_new(device, size, &opt, &l);
  for (int i = 0; s == CLADE_OK && i < STEPS; i++) s = learner_step(&l, &ticket);
  if (s == CLADE_OK) s = learner_loss(&l, ticket, &loss);
  if (s == CLADE_OK) s = clade_run_status(l.run); /* errors of steps that were not waited for */
  if (s == CLADE_OK) s = learner_expect(&l, STEPS - 1, &want);
  if (s == CLADE_OK) {
    *wrong = !(fabs((double)loss - want) <= 1e-5 * want);
    *bits = hash(&loss, sizeof loss);
  }
  learner_free(&l);
  return s;
}

/* Correct result, error status or, with CLADE_OK and *wrong, a wrong result. */
static clade_status compute(const char *spec, bool two, bool learn, int repeat, unsigned long long *bits, bool *wrong) {
  clade_device *device = NULL, *parts[2] = {NULL, NULL};
  perceptron p = {0};
  float output[PERCEPTRON_BATCH * PERCEPTRON_OUT];
  double error = 0;
  clade_device_info info = {.size = sizeof info};
  clade_status s = clade_device_find(spec, &device);
  if (s == CLADE_OK && clade_device_get_info(device, &info) == CLADE_OK)
    snprintf(platform, sizeof platform, "%s", info.platform_version);
  if (s == CLADE_OK && two) {
    float y = 0;
    s = clade_device_split(device, 2, parts);
    if (s == CLADE_OK) s = two_devices_compute(parts[0], parts[1], 3, &y);
    if (s == CLADE_OK) {
      *wrong = y != 7;
      *bits = hash(&y, sizeof y);
    }
  } else if (s == CLADE_OK && learn) {
    s = train(device, bits, wrong);
  } else if (s == CLADE_OK) {
    s = perceptron_new(device, &p);
    for (int i = 0; s == CLADE_OK && i < repeat; i++) {
      s = perceptron_compute(&p, 1, output);
      if (!first) first = now();
    }
    if (s == CLADE_OK) s = perceptron_error(&p, 1, output, &error);
    if (s == CLADE_OK) {
      *wrong = !(error < 1e-4);
      *bits = hash(output, sizeof output);
    }
  }
  perceptron_free(&p);
  clade_device_release(parts[0]);
  clade_device_release(parts[1]);
  clade_device_release(device);
  return s;
}

static int once(int argc, char **argv) {
  long long start = now();
  bool two = false, learn = false, wrong = false;
  int repeat = 1;
  const char *spec = NULL, *plan = NULL, *sites = NULL;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--two"))
      two = true;
    else if (!strcmp(argv[i], "--train"))
      learn = true;
    else if (!strcmp(argv[i], "--start") && i + 1 < argc)
      start = atoll(argv[++i]);
    else if (!strcmp(argv[i], "--repeat") && i + 1 < argc)
      repeat = atoi(argv[++i]);
    else if (!strcmp(argv[i], "--fail-allocation") && i + 1 < argc)
      plan = argv[++i];
    else if (!strcmp(argv[i], "--allocation-sites") && i + 1 < argc)
      sites = argv[++i];
    else if (!strcmp(argv[i], "--leak"))
      return leak();
    else
      spec = argv[i];
  }
  clade_allocator hook = failing_allocator(plan, sites);
  unsigned long long bits = 0;
  char message[4096] = "";
  clade_status s = clade_init(.log = on_log, .allocator = &hook);
  if (s == CLADE_OK) s = compute(spec, two, learn, repeat, &bits, &wrong);
  double seconds = (double)((first ? first : now()) - start) * 1e-9;
  if (s != CLADE_OK) snprintf(message, sizeof message, "%s", clade_last_error());

  /* After an error, a second attempt must succeed or fail with a status. */
  bool again_wrong = false;
  clade_status again = s == CLADE_OK ? CLADE_OK : compute(spec, two, learn, repeat, &bits, &again_wrong);
  printf("{\"status\":\"%s\",\"error\":", clade_status_name(s));
  print_text(message);
  printf(",\"platform\":");
  print_text(platform);
  printf(",\"again\":\"%s\",\"seconds\":%.6f,\"bits\":\"%016llx\",\"right\":%s,\"warnings\":%d,\"allocation_failed\":%"
         "s}\n",
         clade_status_name(again), seconds, bits, wrong || again_wrong ? "false" : "true", warnings,
         failing_allocator_failed() ? "true" : "false");
  return wrong || again_wrong ? 4 : s == CLADE_OK ? 0 : 3;
}

/* Runs in the forked child with the given environment and arguments. */
static int answer(const char *folder, char *line) {
  enum { MOST = 32, HANGS = 300 };
  char *argv[MOST] = {"first_result"}, path[4096];
  int argc = 1;
  alarm(HANGS);
  for (char *word = strtok(line, "\t\n"); word && argc < MOST; word = strtok(NULL, "\t\n")) {
    if (strchr(word, '='))
      putenv(word);
    else
      argv[argc++] = word;
  }
  snprintf(path, sizeof path, "%s/stdout", folder);
  bool open = freopen("/dev/null", "r", stdin) && freopen(path, "w", stdout);
  snprintf(path, sizeof path, "%s/stderr", folder);
  return open && freopen(path, "w", stderr) ? once(argc, argv) : 2;
}

static int serve(const char *folder, const char *library) {
  char line[16384];
  int status = 0;
  if (!dlopen(library, RTLD_NOW)) return fprintf(stderr, "%s\n", dlerror()), 2;
  while (fgets(line, sizeof line, stdin)) {
    pid_t child = fork();
    if (child == 0) return answer(folder, line);
    if (child < 0 || waitpid(child, &status, 0) != child) return perror("a child"), 2;
    printf("%d\n", status);
    fflush(stdout);
  }
  return 0;
}

int main(int argc, char **argv) {
  return argc == 4 && !strcmp(argv[1], "--serve") ? serve(argv[2], argv[3]) : once(argc, argv);
}
