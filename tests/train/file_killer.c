/* Preloaded library: kills the process with SIGKILL at its n-th modification of files below a directory, before or
 * during the call. CLADE_KILL_BELOW is the directory, CLADE_KILL_AT the number, from 1. Without a number, counts the
 * modifications and writes the count to CLADE_KILL_COUNT at exit. */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *below;
static long at, seen;

__attribute__((constructor)) static void begin(void) {
  const char *number = getenv("CLADE_KILL_AT");
  below = getenv("CLADE_KILL_BELOW");
  at = number ? strtol(number, NULL, 10) : 0;
}

__attribute__((destructor)) static void end(void) {
  const char *path = getenv("CLADE_KILL_COUNT");
  FILE *file = path ? fopen(path, "w") : NULL;
  if (!file) return;
  fprintf(file, "%ld\n", seen);
  fclose(file);
}

static int is_below(const char *path) { return below && strncmp(path, below, strlen(below)) == 0; }

static int fd_is_below(int fd) {
  char link[64], path[PATH_MAX];
  if (!below || fd < 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  path[n > 0 ? n : 0] = 0;
  return is_below(path);
}

static int due(void) { return ++seen == at; }
static void die(void) { kill(getpid(), SIGKILL); }

#define NEXT(name) ((__typeof__(&name))(uintptr_t)dlsym(RTLD_NEXT, #name))

/* Writes half of the data before dying. */
ssize_t write(int fd, const void *data, size_t n) {
  if (fd_is_below(fd) && due()) {
    NEXT(write)(fd, data, n / 2);
    die();
  }
  return NEXT(write)(fd, data, n);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t offset) {
  if (fd_is_below(fd) && due()) {
    NEXT(pwrite)(fd, data, n / 2, offset);
    die();
  }
  return NEXT(pwrite)(fd, data, n, offset);
}

int fsync(int fd) {
  if (fd_is_below(fd) && due()) die();
  return NEXT(fsync)(fd);
}

int rename(const char *from, const char *to) {
  if (is_below(to) && due()) die();
  return NEXT(rename)(from, to);
}

int link(const char *from, const char *to) {
  if (is_below(to) && due()) die();
  return NEXT(link)(from, to);
}

int unlink(const char *path) {
  if (is_below(path) && due()) die();
  return NEXT(unlink)(path);
}
