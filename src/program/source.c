/* The texts of kernel files: embedded at build time, or read once from CLADE_KERNEL_DIR. */
#include "base/file.h"
#include "program/store.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { LARGEST = 16 << 20 };

/* Files that were read, kept as long as the process: texts are handed out without a count. */
typedef struct held {
  struct held *next;
  char *stem, *text;
} held;
static held *first;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const char *const clade__preludes[] = {"dtypes", "prelude", "prelude_math", "prelude_memory", "prelude_group", NULL};

static const char *embedded(const char *stem) {
  for (const clade__embedded *e = clade__embedded_kernels; e->stem; e++)
    if (!strcmp(e->stem, stem)) return e->text;
  return NULL;
}

/* *text stays NULL where the directory has no such file. */
static clade_status read_file(const char *directory, const char *stem, char **text) {
  char path[4096];
  clade__text all = {0};
  clade__bytes file;
  if ((size_t)snprintf(path, sizeof path, "%s/%s.cl", directory, stem) >= sizeof path)
    return CLADE_FAIL(INVALID, "CLADE_KERNEL_DIR is too long");
  clade_status status = clade__file_read(path, LARGEST, &file);
  if (status == CLADE_NOT_FOUND) {
    DIR *dir = opendir(directory);
    if (!dir) return CLADE_FAIL(NOT_FOUND, "CLADE_KERNEL_DIR=%s: %s", directory, strerror(errno));
    closedir(dir);
    return CLADE_OK;
  }
  if (status != CLADE_OK) return clade__fail_in(status, "CLADE_KERNEL_DIR");
  if (file.n && memchr(file.data, 0, file.n))
    status = CLADE_FAIL(INVALID, "CLADE_KERNEL_DIR: %s holds a zero byte: it is no text", path);
  else
    clade__text_add_bytes(&all, (const char *)file.data, file.n);
  clade__free(file.data);
  return status == CLADE_OK ? clade__text_take(&all, text) : status;
}

static clade_status overridden(const char *directory, const char *stem, const char **text) {
  for (held *h = first; h; h = h->next)
    if (!strcmp(h->stem, stem)) {
      *text = h->text;
      return CLADE_OK;
    }
  held *h = clade__new(1, sizeof *h);
  if (!h) return CLADE_NO_MEMORY;
  clade_status status;
  h->stem = clade__copy_text(stem);
  CLADE_GOTO(h->stem ? CLADE_OK : CLADE_NO_MEMORY);
  CLADE_GOTO(read_file(directory, stem, &h->text));
  h->next = first;
  first = h;
  *text = h->text;
  return CLADE_OK;
fail:
  clade__free(h->stem);
  clade__free(h);
  return status;
}

clade_status clade__kernel_source(const char *stem, const char **text) {
  const char *directory = getenv("CLADE_KERNEL_DIR");
  *text = NULL;
  if (directory && *directory) {
    pthread_mutex_lock(&lock);
    clade_status status = overridden(directory, stem, text);
    pthread_mutex_unlock(&lock);
    CLADE_TRY(status);
  }
  if (!*text) *text = embedded(stem);
  return *text ? CLADE_OK : CLADE_FAIL(NOT_FOUND, "there is no kernel file %s.cl", stem);
}
