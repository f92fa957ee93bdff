/* The program cache's directory: location, permission checks, and a lock across processes. */
#include "program/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT_MIB = 1024, LOCK_SECONDS = 300 };

static const char *variable(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

/* clade_init's setting precedes the environment. */
static const char *given_path(void) {
  const char *given = clade__settings_get()->cache_dir;
  return given && *given ? given : variable("CLADE_CACHE_DIR");
}

static bool switched_off(void) {
  const char *given = given_path();
  return given && strcmp(given, "off") == 0;
}

bool clade__cache_wanted(void) { return !clade__settings_get()->no_cache && !switched_off(); }

clade_status clade__cache_path(char **path) {
  clade__text text = {0};
  const char *given = given_path(), *home = variable("HOME"), *xdg = variable("XDG_CACHE_HOME");
  if (switched_off()) return CLADE_FAIL(NOT_FOUND, "CLADE_CACHE_DIR=off: there is no program cache");
  if (given)
    clade__text_add(&text, "%s", given);
  else if (xdg && *xdg == '/')
    clade__text_add(&text, "%s/clade", xdg);
  else if (home)
    clade__text_add(&text, "%s/.cache/clade", home);
  else
    return CLADE_FAIL(NOT_FOUND, "no place for the program cache: set CLADE_CACHE_DIR or HOME");
  return clade__text_take(&text, path);
}

/* Creates missing parents too, accessible to the user only. */
static clade_status make(char *path) {
  for (char *slash = path + 1;; slash++) {
    slash = strchr(slash, '/');
    if (slash) *slash = '\0';
    int failed = mkdir(path, 0700) && errno != EEXIST ? errno : 0;
    if (slash) *slash = '/';
    /* Only the result for the last directory counts: existing parents may be read-only. */
    if (!slash) return failed ? CLADE_FAIL(IO, "program cache: cannot make %s: %s", path, strerror(failed)) : CLADE_OK;
  }
}

uint64_t clade__cache_limit(void) {
  const char *text = variable("CLADE_CACHE_MIB");
  char *end;
  unsigned long long mib = text ? strtoull(text, &end, 10) : LIMIT_MIB;
  if (text && (*end || *text < '0' || *text > '9' || mib > UINT32_MAX)) {
    clade__log(CLADE_LOG_WARNING, "CLADE_CACHE_MIB=%s is no number of MiB: %d is used", text, LIMIT_MIB);
    mib = LIMIT_MIB;
  }
  return (uint64_t)mib << 20;
}

clade_status clade__cache_open(const char *path, bool create, clade__cache *out) {
  struct stat st;
  clade_status status;
  *out = (clade__cache){.dir = -1, .limit = clade__cache_limit()};
  out->path = clade__copy_text(path);
  if (!out->path) return CLADE_NO_MEMORY;
  out->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (out->dir < 0 && errno == ENOENT && create) {
    CLADE_GOTO(make(out->path));
    out->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  }
  if (out->dir < 0) {
    bool absent = errno == ENOENT;
    status = clade_fail(absent ? CLADE_NOT_FOUND : CLADE_IO, "program cache: %s: %s", path, strerror(errno));
    goto fail;
  }
  if (fstat(out->dir, &st)) CLADE_GOTO(CLADE_FAIL(IO, "program cache: %s: %s", path, strerror(errno)));
  if (st.st_uid != geteuid())
    CLADE_GOTO(CLADE_FAIL(PERMISSION, "program cache: %s belongs to user %u, not to %u: it is not used", path,
                          (unsigned)st.st_uid, (unsigned)geteuid()));
  if (st.st_mode & (S_IWGRP | S_IWOTH))
    CLADE_GOTO(CLADE_FAIL(PERMISSION, "program cache: others may write to %s (mode %04o): it is not used; chmod 700 it",
                          path, (unsigned)st.st_mode & 07777u));
  out->writable = !faccessat(out->dir, ".", W_OK | X_OK, AT_EACCESS);
  return CLADE_OK;
fail:
  clade__cache_close(out);
  return status;
}

clade_status clade__cache_open_configured(bool create, clade__cache *out) {
  char *path;
  *out = (clade__cache){.dir = -1};
  CLADE_TRY(clade__cache_path(&path));
  clade_status status = clade__cache_open(path, create, out);
  clade__free(path);
  return status;
}

void clade__cache_close(clade__cache *cache) {
  if (cache->path && cache->dir >= 0) close(cache->dir);
  clade__free(cache->path);
  *cache = (clade__cache){.dir = -1};
}

static int lockable(const clade__cache *cache) {
  int fd = -1;
  if (cache && cache->dir >= 0) {
    fd = openat(cache->dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0) fd = openat(cache->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* the file system is read-only */
  }
  const char *home = variable("HOME");
  if (fd < 0 && home) fd = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return fd;
}

int clade__cache_lock(const clade__cache *cache) {
  int fd = lockable(cache);
  if (fd < 0) return -1;
  /* Poll instead of blocking: the lock's owner may be a stopped process. */
  long waited = 0, step = 1;
  while (flock(fd, LOCK_EX | LOCK_NB)) {
    if ((errno != EWOULDBLOCK && errno != EINTR) || waited > LOCK_SECONDS * 1000L) {
      clade__log(CLADE_LOG_WARNING, "program cache: going on without its lock: %s", strerror(errno));
      close(fd);
      return -1;
    }
    clade__writers_hurry(); /* another device of this process may own it */
    nanosleep(&(struct timespec){0, step * 1000000L}, NULL);
    waited += step;
    if (step < 16) step *= 2;
  }
  return fd;
}

void clade__cache_unlock(int lock) {
  if (lock < 0) return;
  flock(lock, LOCK_UN); /* unlock explicitly: a child may have inherited a copy of the descriptor */
  close(lock);
}
