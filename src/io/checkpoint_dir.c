/* The directory of checkpoints: its lock, the names of files, and cleaning up. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "io/checkpoint.h"

clade_status clade__checkpoint_path(const char *directory, const char *name, char **out) {
  clade__text text = {0};
  clade__text_add(&text, "%s/%s", directory, name);
  return clade__text_take(&text, out);
}

char *clade__checkpoint_name(int64_t step, char name[CLADE__CHECKPOINT_NAME]) {
  snprintf(name, CLADE__CHECKPOINT_NAME, "step-%010" PRId64 ".safetensors", step);
  return name;
}

/* Step of a file's name; -1: not the name of a checkpoint. */
static int64_t step_of(const char *name) {
  char exact[CLADE__CHECKPOINT_NAME];
  if (strncmp(name, "step-", strlen("step-"))) return -1;
  int64_t step = strtoll(name + strlen("step-"), NULL, 10);
  return step >= 0 && !strcmp(clade__checkpoint_name(step, exact), name) ? step : -1;
}

static int newest_first(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x > y ? -1 : x < y;
}

clade_status clade__steps_list(const char *directory, clade__steps *out) {
  size_t capacity = 0;
  *out = (clade__steps){0};
  DIR *dir = opendir(directory);
  if (!dir) return clade__file_fail("list", directory);
  clade_status status = CLADE_OK;
  for (struct dirent *e; status == CLADE_OK && (e = readdir(dir));) {
    int64_t step = step_of(e->d_name);
    if (step < 0) continue;
    status = clade__grow(&out->at, &capacity, out->n + 1, sizeof step);
    if (status == CLADE_OK) out->at[out->n++] = step;
  }
  closedir(dir);
  if (status == CLADE_OK) {
    if (out->n) qsort(out->at, out->n, sizeof *out->at, newest_first);
    return CLADE_OK;
  }
  clade__free(out->at);
  *out = (clade__steps){0};
  return status;
}

/* Removes temporary files. Under the lock their writers are dead; errors are ignored. */
static void sweep(const char *path) {
  DIR *dir = opendir(path);
  for (struct dirent *e; dir && (e = readdir(dir));)
    if (clade__draft_is_temporary(e->d_name) && unlinkat(dirfd(dir), e->d_name, 0))
      clade__log(CLADE_LOG_WARNING, "cannot remove %s/%s, which a writer left that died: %s", path, e->d_name,
                 strerror(errno));
  if (dir) closedir(dir);
}

static clade_status in_use(const char *path, int fd) {
  char process[24] = "";
  ssize_t n = pread(fd, process, sizeof process - 1, 0);
  process[n > 0 ? strspn(process, "0123456789") : 0] = '\0';
  return CLADE_FAIL(BUSY, "%s: another training writes there%s%s; give this one a directory of its own", path,
                    *process ? ": process " : "", process);
}

static clade_status lock(clade_checkpoint_dir *dir) {
  char *file, process[24];
  CLADE_TRY(clade__checkpoint_path(dir->path, "lock", &file));
  dir->lock = open(file, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  clade_status status = dir->lock < 0 ? clade__file_fail("write", file) : CLADE_OK;
  clade__free(file);
  CLADE_TRY(status);
  if (flock(dir->lock, LOCK_EX | LOCK_NB)) {
    if (errno == EWOULDBLOCK) return in_use(dir->path, dir->lock);
    clade__log(CLADE_LOG_WARNING, "%s cannot be locked (%s): let no other training write there", dir->path,
               strerror(errno));
  }
  int n = snprintf(process, sizeof process, "%ld\n", (long)getpid()); /* for messages: the disk may be full */
  if (ftruncate(dir->lock, 0) || pwrite(dir->lock, process, (size_t)n, 0) != n)
    clade__log(CLADE_LOG_INFO, "%s/lock does not name this process: %s", dir->path, strerror(errno));
  return CLADE_OK;
}

clade_status clade_checkpoint_dir_open(const char *path, clade_checkpoint_dir **out) {
  clade_status status;
  if (!out) return CLADE_FAIL(INVALID, "clade_checkpoint_dir_open: there is no place for the directory (NULL)");
  *out = NULL;
  if (!path) return CLADE_FAIL(INVALID, "clade_checkpoint_dir_open: the path is NULL");
  CLADE_TRY(clade__directory_make(path, 0777));
  clade_checkpoint_dir *dir = clade__new(1, sizeof *dir);
  if (!dir) return CLADE_NO_MEMORY;
  dir->lock = -1;
  dir->path = clade__copy_text(path);
  if (!dir->path) CLADE_GOTO(CLADE_NO_MEMORY);
  CLADE_GOTO(lock(dir));
  sweep(path);
  *out = dir;
  return CLADE_OK;
fail:
  clade_checkpoint_dir_close(dir);
  return status;
}

void clade_checkpoint_dir_close(clade_checkpoint_dir *dir) {
  if (!dir) return;
  if (dir->lock >= 0) {
    flock(dir->lock, LOCK_UN); /* a child process may have inherited the descriptor */
    close(dir->lock);
  }
  clade__free(dir->path);
  clade__free(dir);
}
