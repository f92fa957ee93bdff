/* Kernel file texts: embedded at build time, or read once from CLADE_KERNEL_DIR. A line `#include "stem.cl"` is
 * replaced by that file. */
#include "base/file.h"
#include "program/store.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { LARGEST = 16 << 20 };

/* Texts that were read or assembled. They are never freed, since callers hold no references. */
typedef struct held {
  struct held *next;
  bool overridden;   /* loaded while CLADE_KERNEL_DIR was set */
  char *stem, *text; /* text NULL: use the embedded file */
} held;
static held *first;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const char *const clade__preludes[] = {"dtypes", "prelude", "prelude_math", "prelude_memory", "prelude_group", NULL};

static const char *embedded(const char *stem) {
  for (const clade__embedded *e = clade__embedded_kernels; e->stem; e++)
    if (!strcmp(e->stem, stem)) return e->text;
  return NULL;
}

/* *text stays NULL if the directory has no such file. */
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

/* ---- include lines ---- */
#define INCLUDE "#include \""

static bool includes(const char *text) {
  return text && (!strncmp(text, INCLUDE, strlen(INCLUDE)) || strstr(text, "\n" INCLUDE));
}

/* Parses a line `#include "stem.cl"`; false: another line. */
static bool included(const char *line, size_t n, char *stem, size_t bytes) {
  static const char end[] = ".cl\"";
  const size_t before = strlen(INCLUDE), after = strlen(end);
  if (n < before + after || strncmp(line, INCLUDE, before) != 0 || strncmp(line + n - after, end, after) != 0)
    return false;
  return (size_t)snprintf(stem, bytes, "%.*s", (int)(n - before - after), line + before) < bytes;
}

static clade_status add_included(const char *directory, const char *stem, clade__text *all) {
  char *read = NULL;
  if (directory) CLADE_TRY(read_file(directory, stem, &read));
  const char *text = read ? read : embedded(stem);
  if (text) clade__text_add(all, "#line 1 \"%s.cl\"\n%s\n", stem, text);
  clade__free(read);
  return text ? CLADE_OK : CLADE_FAIL(NOT_FOUND, "there is no kernel file %s.cl", stem);
}

/* Expands the include lines of a file. Included files must not include others. */
static clade_status assemble(const char *directory, const char *stem, const char *text, char **out) {
  clade__text all = {0};
  clade_status status = CLADE_OK;
  for (int line = 1; *text && status == CLADE_OK; line++) {
    const size_t n = strcspn(text, "\n"), whole = n + (text[n] == '\n');
    char other[64];
    if (included(text, n, other, sizeof other)) {
      status = add_included(directory, other, &all);
      clade__text_add(&all, "#line %d \"%s.cl\"\n", line + 1, stem);
    } else {
      clade__text_add_bytes(&all, text, whole);
    }
    text += whole;
  }
  if (status == CLADE_OK) return clade__text_take(&all, out);
  clade__text_free(&all);
  return clade__fail_in(status, "%s.cl", stem);
}

static clade_status fill(held *h, const char *directory, const char *stem) {
  char *whole = NULL;
  h->overridden = directory != NULL;
  h->stem = clade__copy_text(stem);
  if (!h->stem) return CLADE_NO_MEMORY;
  if (directory) CLADE_TRY(read_file(directory, stem, &h->text));
  const char *text = h->text ? h->text : embedded(stem);
  if (!includes(text)) return CLADE_OK;
  CLADE_TRY(assemble(directory, stem, text, &whole));
  clade__free(h->text);
  h->text = whole;
  return CLADE_OK;
}

static clade_status find(const char *directory, const char *stem, const char **text) {
  for (held *h = first; h; h = h->next)
    if (h->overridden == (directory != NULL) && !strcmp(h->stem, stem)) {
      *text = h->text;
      return CLADE_OK;
    }
  held *h = clade__new(1, sizeof *h);
  if (!h) return CLADE_NO_MEMORY;
  clade_status status = fill(h, directory, stem);
  if (status != CLADE_OK) {
    clade__free(h->text);
    clade__free(h->stem);
    clade__free(h);
    return status;
  }
  h->next = first;
  first = h;
  *text = h->text;
  return CLADE_OK;
}

clade_status clade__kernel_source(const char *stem, const char **text) {
  const char *directory = getenv("CLADE_KERNEL_DIR");
  const char *own = embedded(stem);
  *text = NULL;
  if (directory && !*directory) directory = NULL;
  if (directory || includes(own)) {
    pthread_mutex_lock(&lock);
    clade_status status = find(directory, stem, text);
    pthread_mutex_unlock(&lock);
    CLADE_TRY(status);
  }
  if (!*text) *text = own;
  return *text ? CLADE_OK : CLADE_FAIL(NOT_FOUND, "there is no kernel file %s.cl", stem);
}
