/* A program that queries the matrix units of PoCL's device on a host that claims to have all. Its arguments select
 * signal and descriptor settings that are hostile to children. Prints the state of each unit and the children that
 * remain. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <dirent.h>
#include <unistd.h>

#include <clade/clade.h>

#include "cl/units.h"

enum { PARTS = 4, FILES = 200 };

static void check(clade_status status) {
  if (status == CLADE_OK) return;
  fprintf(stderr, "%s: %s\n", clade_status_name(status), clade_last_error());
  exit(1);
}

static int descriptors(void) {
  DIR *all = opendir("/proc/self/fd");
  int n = 0;
  while (all && readdir(all)) n++;
  if (all) closedir(all);
  return n;
}

static void *reap(void *stop) {
  while (!*(volatile int *)stop) waitpid(-1, NULL, WNOHANG);
  return NULL;
}

static void *ask(void *device) {
  check(clade_device_ask_units(device));
  return NULL;
}

static void ask_by_parts(clade_device *whole) {
  clade_device *part[PARTS];
  pthread_t thread[PARTS];
  check(clade_device_split(whole, 2, part));
  for (int i = 2; i < PARTS; i++) part[i] = clade_device_retain(whole);
  for (int i = 0; i < PARTS; i++) pthread_create(&thread[i], NULL, ask, part[i]);
  for (int i = 0; i < PARTS; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < PARTS; i++) clade_device_release(part[i]);
}

/* Compiles products that would use the units. */
static void compile(clade_device *device) {
  static const clade_dtype types[][2] = {{CLADE_U8, CLADE_I8}, {CLADE_BF16, CLADE_BF16}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    clade_graph *g;
    clade_func *func;
    check(clade_graph_new(&g));
    clade_val x = clade_input(g, "x", types[i][0], CLADE_SHAPE(5, 7)),
              y = clade_input(g, "y", types[i][1], CLADE_SHAPE(7, 3));
    clade_output(g, "z", clade_gemm(g, x, y));
    check(clade_compile(g, device, &func));
    clade_func_release(func);
    clade_graph_release(g);
  }
  puts("compiled");
}

static void tell(const clade_device *device) {
  clade_device_info info = {.size = sizeof info};
  check(clade_device_get_info(device, &info));
  for (int i = 0; i < CLADE_MAX_UNITS; i++)
    if (info.unit[i].name) printf("%s\n", info.unit[i].used ? info.unit[i].name : info.unit[i].reason);
}

int main(int argc, char **argv) {
  clade_device *device;
  pthread_t reaper;
  int stop = 0;
  bool reaps = false, parts = false, compiles = false, twice = false, init = false;
  const char *cache = NULL;
  clade__units_assumed = ~0u;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "ignore")) signal(SIGCHLD, SIG_IGN);
    reaps |= !strcmp(argv[i], "reap");
    parts |= !strcmp(argv[i], "parts");
    compiles |= !strcmp(argv[i], "compile");
    twice |= !strcmp(argv[i], "twice");
    if (!strcmp(argv[i], "clear")) check(clade_cache_clear(NULL, NULL));
    if (!strcmp(argv[i], "closed")) close(STDIN_FILENO);
    if (!strncmp(argv[i], "cache=", 6)) init = true, cache = argv[i] + 6;
    if (strstr(argv[i], "/marker"))
      for (int k = 0; k < FILES; k++)
        if (open(argv[i], O_RDWR | O_CREAT, 0600) < 0) return 2; /* inherited by executed programs */
  }
  if (init) check(clade_init(.cache_dir = cache));
  check(clade_device_find("pocl", &device));
  const int before = descriptors();
  if (reaps && pthread_create(&reaper, NULL, reap, &stop)) return 2;
  if (parts) ask_by_parts(device);
  if (compiles) compile(device);
  check(clade_device_ask_units(device));
  tell(device);
  clade_device_release(device);
  if (twice) {
    check(clade_device_find("pocl", &device));
    check(clade_device_ask_units(device));
    clade_device_release(device);
  }
  stop = 1;
  if (reaps) pthread_join(reaper, NULL);
  if (!compiles) printf("%d descriptors more\n", descriptors() - before);
  if (waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD) puts("a child is left");
  return 0;
}
