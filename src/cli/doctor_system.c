/* Checks of the doctor that need no OpenCL call: vendor libraries, directories, the linker, permissions. */
#include "cli/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "program/cache.h"

enum { PATH_BYTES = 4096, VENDOR_SECONDS = 60, FREE_BYTES = 4 << 20 };

static const char *env(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

/* ---- vendor libraries ---- */
static const char *last_part(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static bool vendor(json_t *checks, json_t *libraries, const char *file, const char *library) {
  const char *thing = last_part(file);
  cli_child_result child;
  cli_child_run((const char *[]){"vendor", library, NULL}, NULL, VENDOR_SECONDS, &child);
  const char *error = json_string_value(json_object_get(child.json, "error"));
  bool ok = child.json && !error, done;
  if (ok)
    done = doctor_check(checks, "vendor", thing, true, NULL, "%s loads", library) &&
           !json_array_append_new(libraries, cli_json_text(library));
  else if (error)
    done =
        doctor_check(checks, "vendor", thing, false,
                     "install the package that holds the library (apt-file search finds it), or remove the .icd file",
                     "%s names a library that does not load: %s", file, error);
  else
    done = doctor_check(checks, "vendor", thing, false, "reinstall the package that holds the library",
                        "%s names %s, and loading it %s%s%s", file, library,
                        child.timed_out ? "does not end" : "kills the process", *child.words ? ": " : "", child.words);
  cli_child_free(&child);
  return done;
}

static bool icd_file(json_t *checks, json_t *libraries, const char *path) {
  char line[PATH_BYTES] = "";
  FILE *file = fopen(path, "r");
  if (!file)
    return doctor_check(checks, "vendor", last_part(path), false, "make the file readable, or correct OCL_ICD_VENDORS",
                        "%s cannot be read: %s", path, strerror(errno));
  if (!fgets(line, sizeof line, file)) line[0] = 0;
  fclose(file);
  line[strcspn(line, "\r\n")] = 0;
  if (!*line)
    return doctor_check(checks, "vendor", last_part(path), false, "reinstall the package that holds the file",
                        "%s is empty: it should hold the name of a library", path);
  return vendor(checks, libraries, path, line);
}

static bool ends_with(const char *text, const char *end) {
  size_t a = strlen(text), b = strlen(end);
  return a >= b && !strcmp(text + a - b, end);
}

/* The loader's rule: OCL_ICD_VENDORS is a directory, an .icd file or a library; a bare NAME.icd is searched in the
 * vendors' directory. */
bool doctor_vendors(json_t *checks, json_t *libraries) {
  const char *folder = env("OPENCL_VENDOR_PATH") ? env("OPENCL_VENDOR_PATH") : "/etc/OpenCL/vendors";
  const char *chosen = env("OCL_ICD_VENDORS");
  char path[PATH_BYTES];
  struct stat info;
  if (chosen && (stat(chosen, &info) || !S_ISDIR(info.st_mode))) {
    snprintf(path, sizeof path, "%s%s%s", strchr(chosen, '/') ? "" : folder, strchr(chosen, '/') ? "" : "/", chosen);
    return ends_with(chosen, ".icd") ? icd_file(checks, libraries, path) : vendor(checks, libraries, chosen, chosen);
  }
  if (chosen) folder = chosen;
  snprintf(path, sizeof path, "%s/*.icd", folder);
  glob_t found = {0};
  int error = glob(path, 0, NULL, &found);
  bool done = true;
  for (size_t i = 0; done && !error && i < found.gl_pathc; ++i) done = icd_file(checks, libraries, found.gl_pathv[i]);
  if (error)
    done = doctor_check(checks, "vendors", NULL, false,
                        chosen ? "unset OCL_ICD_VENDORS, or point it to a folder with .icd files"
                               : "apt install --no-install-recommends pocl-opencl-icd",
                        "there is no OpenCL implementation: %s holds no .icd file", folder);
  else if (done)
    done = doctor_check(checks, "vendors", NULL, true, NULL, "%zu .icd file%s in %s", found.gl_pathc,
                        found.gl_pathc == 1 ? "" : "s", folder);
  globfree(&found);
  return done;
}

/* ---- directories ---- */
/* Whether `path`, or its nearest existing ancestor, is writable. */
static bool can_write(const char *path, char *nearest) {
  snprintf(nearest, PATH_BYTES, "%s", path);
  while (access(nearest, F_OK)) {
    char *slash = strrchr(nearest, '/');
    if (!slash) return false;
    if (slash == nearest)
      slash[1] = 0;
    else
      *slash = 0;
    if (!strcmp(nearest, "/")) break;
  }
  return !faccessat(AT_FDCWD, nearest, W_OK | X_OK, AT_EACCESS);
}

bool doctor_home(json_t *checks) {
  static const char *const remedy = "export POCL_CACHE_DIR=<a directory of your own that you can write>";
  char *path, nearest[PATH_BYTES];
  if (getenv("POCL_CACHE_DIR") && !env("POCL_CACHE_DIR"))
    return doctor_check(checks, "home", NULL, false, "unset POCL_CACHE_DIR",
                        "POCL_CACHE_DIR is set but empty: PoCL would abort the process, so its device is left out");
  if (clade__pocl_cache(&path) != CLADE_OK)
    return doctor_check(checks, "home", NULL, false, remedy, "%s", clade_last_error());
  bool fine = can_write(path, nearest);
  fine = fine ? doctor_check(checks, "home", NULL, true, NULL, "%s can be written", path)
              : doctor_check(checks, "home", NULL, false, remedy,
                             "%s cannot be written (%s): PoCL hides its device then", path, nearest);
  clade__free(path);
  return fine;
}

/* An absent directory is created when it is needed, so its parent is checked. */
static bool cache_check(json_t *checks, const char *path, const clade__cache_stats *stats) {
  static const char *const elsewhere = "export CLADE_CACHE_DIR=<a directory of your own>";
  char nearest[PATH_BYTES];
  struct statvfs disk;
  bool writable = can_write(path, nearest);
  if (!access(path, F_OK)) writable = stats->writable;
  if (!writable)
    return doctor_check(checks, "cache", NULL, false, elsewhere,
                        "the program cache %s cannot be written (%s): each process compiles again", path, nearest);
  if (!statvfs(nearest, &disk) && disk.f_bavail < FREE_BYTES / disk.f_frsize)
    return doctor_check(checks, "cache", NULL, false,
                        "free space there, or export CLADE_CACHE_DIR=<a directory elsewhere>",
                        "the disk of the program cache %s is full: each process compiles again", path);
  return doctor_check(checks, "cache", NULL, true, NULL, "the program cache %s holds %.1f of %.0f MB in %llu files",
                      path, (double)stats->bytes / 1e6, (double)stats->limit / 1e6, (unsigned long long)stats->files);
}

bool doctor_cache(json_t *checks) {
  char *path = NULL;
  clade__cache_stats stats;
  bool done;
  if (clade__cache_path(&path) || clade__cache_get_stats(&stats))
    done = doctor_check(checks, "cache", NULL, false, "export CLADE_CACHE_DIR=<a directory of your own>", "%s",
                        clade_last_error());
  else if (!stats.safe)
    done = doctor_check(checks, "cache", NULL, false,
                        "chmod 700 it if it is yours, or export CLADE_CACHE_DIR=<a directory of your own>", "%s",
                        clade_last_error());
  else
    done = cache_check(checks, path, &stats);
  clade__free(path);
  return done;
}

/* ---- programs and permissions ---- */
bool doctor_linker(json_t *checks) {
  const char *path = env("PATH");
  char file[PATH_BYTES];
  for (const char *at = path; at;) {
    size_t length = strcspn(at, ":");
    snprintf(file, sizeof file, "%.*s/ld", (int)length, at);
    if (length && !access(file, X_OK)) return doctor_check(checks, "linker", NULL, true, NULL, "ld is %s", file);
    at = at[length] ? at + length + 1 : NULL;
  }
  return doctor_check(checks, "linker", NULL, false, "apt install --no-install-recommends binutils, or correct PATH",
                      "there is no ld on PATH (%s): PoCL aborts the process at the first launch of a new kernel",
                      path ? path : "unset");
}

bool doctor_dri(json_t *checks) {
  glob_t found = {0};
  int error = glob("/dev/dri/renderD*", 0, NULL, &found);
  size_t n = error ? 0 : found.gl_pathc;
  const char *closed = NULL;
  for (size_t i = 0; i < n && !closed; ++i)
    if (faccessat(AT_FDCWD, found.gl_pathv[i], R_OK | W_OK, AT_EACCESS)) closed = found.gl_pathv[i];
  bool done = closed
                  ? doctor_check(checks, "dri", NULL, false, "sudo usermod -aG render,video $USER, then log in again",
                                 "%s may not be opened: a GPU stays hidden", closed)
                  : doctor_check(checks, "dri", NULL, true, NULL,
                                 n ? "%zu GPU node%s in /dev/dri may be opened" : "there are no GPU nodes in /dev/dri",
                                 n, n == 1 ? "" : "s");
  globfree(&found);
  return done;
}
