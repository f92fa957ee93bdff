/* Shared by the file tests: a temporary directory, files with given bytes, and checks of error messages. */
#ifndef IO_KIT_H
#define IO_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/io.h"

#define OK(expression)                                                            \
  do {                                                                            \
    clade_status status_ = (expression);                                          \
    if (status_ != CLADE_OK) fail_msg("%s: %s", #expression, clade_last_error()); \
  } while (0)

/* Must fail with this status and these words in the message. */
#define REFUSED(code, expression, words)                                                                               \
  do {                                                                                                                 \
    clade_status status_ = (expression);                                                                               \
    if (status_ != CLADE_##code) fail_msg("%s: %s (%s)", #expression, clade_status_name(status_), clade_last_error()); \
    if (!strstr(clade_last_error(), words)) fail_msg("\"%s\" does not hold \"%s\"", clade_last_error(), words);        \
  } while (0)

static char io_room[64];

static inline int io_set_up(void **state) {
  (void)state;
  /* In memory if possible: thousands of files are synced. */
  strcpy(io_room, access("/dev/shm", W_OK) ? "/tmp/clade-io-XXXXXX" : "/dev/shm/clade-io-XXXXXX");
  return mkdtemp(io_room) ? 0 : -1;
}
static inline void io_remove(const char *path) {
  DIR *dir = opendir(path);
  for (struct dirent *e; dir && (e = readdir(dir));) {
    char *inner;
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    if (asprintf(&inner, "%s/%s", path, e->d_name) < 0) continue;
    io_remove(inner);
    free(inner);
  }
  if (dir) closedir(dir);
  remove(path);
}
static inline int io_tear_down(void **state) {
  (void)state;
  io_remove(io_room);
  return 0;
}

/* Valid until the fourth following call. */
static inline const char *io_path(const char *name) {
  static char paths[4][256];
  static int turn;
  turn = (turn + 1) % 4;
  snprintf(paths[turn], sizeof paths[turn], "%s/%s", io_room, name);
  return paths[turn];
}
static inline const char *io_file(const char *name, const void *data, size_t bytes) {
  const char *path = io_path(name);
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(data, 1, bytes, f), bytes);
  assert_int_equal(fclose(f), 0);
  return path;
}
static inline int io_entries(const char *path) {
  int n = 0;
  DIR *dir = opendir(path);
  assert_non_null(dir);
  while (readdir(dir)) n++;
  closedir(dir);
  return n - 2;
}

#endif
