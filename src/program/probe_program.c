/* Locates clade-probe: beside the library or program that contains this code, or at its installed path. */
#include "program/parts.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char NAME[] = "clade-probe";
static const char MISSING[] = "clade-probe, which is installed with the library, is missing";

/* Directory of the shared library or program that contains this code; false if unknown. */
static bool own_directory(char out[PATH_MAX]) {
  static const char here;
  Dl_info info;
  struct link_map *map = NULL;
  if (!dladdr1(&here, &info, (void **)&map, RTLD_DL_LINKMAP) || !map) return false;
  if (*map->l_name) {
    snprintf(out, PATH_MAX, "%s", map->l_name);
  } else { /* the main program */
    ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);
    if (n < 0) return false;
    out[n] = '\0';
  }
  char *slash = strrchr(out, '/');
  if (*out != '/' || !slash) return false;
  *slash = '\0';
  return true;
}

/* Only the user and root may be able to write or replace the file. A group whose ID equals its owner's user ID is a
 * private group, as distributions with umask 002 create them. */
static clade_status check_owner(const char *path) {
  struct stat st;
  if (stat(path, &st)) return CLADE_FAIL(NOT_FOUND, "%s: %s", path, strerror(errno));
  if (st.st_uid && st.st_uid != geteuid())
    return CLADE_FAIL(PERMISSION, "%s belongs to user %u: it is not run", path, (unsigned)st.st_uid);
  if ((st.st_mode & S_IWOTH) || (st.st_mode & S_IWGRP && st.st_gid != st.st_uid))
    return CLADE_FAIL(PERMISSION, "others may write to %s (mode %04o): it is not run; chmod go-w it", path,
                      (unsigned)st.st_mode & 07777u);
  return CLADE_OK;
}

static clade_status check(char *path) {
  CLADE_TRY(check_owner(path));
  char *slash = strrchr(path, '/');
  *slash = '\0';
  clade_status status = check_owner(slash == path ? "/" : path);
  *slash = '/';
  return status;
}

/* CLADE_NOT_FOUND: no file there. Any other result is final. */
static clade_status try(const char *directory, const char *below, char **path) {
  char given[2 * PATH_MAX], real[PATH_MAX];
  snprintf(given, sizeof given, "%s/%s%s", directory, below, NAME);
  if (!realpath(given, real)) return CLADE_FAIL(NOT_FOUND, "%s", MISSING);
  CLADE_TRY(check(real));
  *path = clade__copy_text(real);
  return *path ? CLADE_OK : CLADE_NO_MEMORY;
}

clade_status clade__probe_program(char **path) {
  const char *given = secure_getenv("CLADE_PROBE_DIR");
  char own[PATH_MAX];
  if (given && *given) return try(given, "", path);
  clade_status status = CLADE_NOT_FOUND;
  if (own_directory(own)) { /* in the build directory, beside the library, or beside an installed program */
    static const char *const below[] = {"", "clade/", CLADE_PROBE_FROM_PROGRAMS "/"};
    for (size_t i = 0; i < CLADE_COUNT(below) && status == CLADE_NOT_FOUND; i++) status = try(own, below[i], path);
  }
  return status == CLADE_NOT_FOUND ? try(CLADE_PROBE_DIR, "", path) : status;
}
