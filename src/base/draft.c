/* Atomic file writing: a temporary file beside the target is synced and renamed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static clade_status draft_names(const char *path, clade__draft *out) {
  clade__text text = {0};
  const char *slash = strrchr(path, '/');
  out->path = clade__copy_text(path);
  if (!out->path) return CLADE_NO_MEMORY;
  if (slash == path)
    clade__text_add(&text, "/");
  else if (slash)
    clade__text_add_bytes(&text, path, (size_t)(slash - path));
  else
    clade__text_add(&text, ".");
  return clade__text_take(&text, &out->directory);
}

/* Builds a temporary name that this process has not used. */
static clade_status draft_temporary(clade__draft *draft) {
  static atomic_uint count;
  clade__text text = {0};
  clade__text_add(&text, "%s/.clade-%ld-%u.tmp", draft->directory, (long)getpid(), atomic_fetch_add(&count, 1u));
  return clade__text_take(&text, &draft->temporary);
}

static void forget_temporary(clade__draft *draft) {
  clade__free(draft->temporary);
  draft->temporary = NULL;
}

/* Retries if the name exists: a dead process with the same ID may have left a file. */
static clade_status draft_create(clade__draft *draft) {
  enum { TRIES = 1000 };
  clade_status status = CLADE_OK;
  for (int i = 0; i < TRIES; i++) {
    CLADE_TRY(draft_temporary(draft));
    draft->fd = open(draft->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (draft->fd >= 0) return CLADE_OK;
    status = clade__file_fail("write", draft->path);
    forget_temporary(draft); /* another process owns it */
    if (status != CLADE_DUPLICATE) break;
  }
  return status;
}

clade_status clade__draft_open(const char *path, clade__draft *out) {
  struct stat st;
  clade_status status;
  *out = (clade__draft){.fd = -1};
  /* A rename would replace a device or a symbolic link by a regular file. */
  if (!lstat(path, &st) && !S_ISREG(st.st_mode))
    return CLADE_FAIL(INVALID, "cannot write %s: it is there and no regular file", path);
  CLADE_GOTO(draft_names(path, out));
  CLADE_GOTO(draft_create(out));
  return CLADE_OK;
fail:
  clade__draft_close(out);
  return status;
}

clade_status clade__draft_write(clade__draft *draft, const void *data, size_t bytes) {
  for (const char *at = data; bytes;) {
    ssize_t n = write(draft->fd, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return clade__file_fail("write", draft->path);
    at += n;
    bytes -= (size_t)n;
  }
  return CLADE_OK;
}

clade_status clade__draft_write_at(clade__draft *draft, uint64_t offset, const void *data, size_t bytes) {
  if (lseek(draft->fd, (off_t)offset, SEEK_SET) < 0) return clade__file_fail("write", draft->path);
  return clade__draft_write(draft, data, bytes);
}

clade_status clade__draft_sync(clade__draft *draft) {
  if (fsync(draft->fd)) return clade__file_fail("write", draft->path);
  int fd = draft->fd;
  draft->fd = -1;
  return close(fd) ? clade__file_fail("write", draft->path) : CLADE_OK;
}

/* For file systems without hard links. */
static clade_status copy(const clade__draft *draft, const char *path) {
  clade__bytes file;
  clade__draft other;
  clade_status status;
  CLADE_TRY(clade__file_read(draft->temporary, UINT64_MAX, &file));
  CLADE_GOTO(clade__draft_open(path, &other));
  CLADE_GOTO(clade__draft_write(&other, file.data, file.n));
  CLADE_GOTO(clade__draft_sync(&other));
  CLADE_GOTO(clade__draft_place(&other));
fail:
  clade__draft_close(&other);
  clade__free(file.data);
  return status;
}

clade_status clade__draft_link(clade__draft *draft, const char *path) {
  clade__draft other = {.fd = -1};
  clade_status status;
  CLADE_GOTO(draft_names(path, &other));
  CLADE_GOTO(draft_temporary(&other));
  if (link(draft->temporary, other.temporary)) {
    bool impossible = errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS || errno == EMLINK;
    status = impossible ? copy(draft, path) : clade__file_fail("write", path);
    forget_temporary(&other); /* it is renamed already */
  } else if (rename(other.temporary, path)) {
    status = clade__file_fail("write", path);
  } else {
    forget_temporary(&other);
  }
fail:
  clade__draft_close(&other);
  return status;
}

clade_status clade__draft_rename(clade__draft *draft) {
  if (rename(draft->temporary, draft->path)) return clade__file_fail("write", draft->path);
  forget_temporary(draft);
  return CLADE_OK;
}

clade_status clade__draft_place(clade__draft *draft) {
  CLADE_TRY(clade__draft_rename(draft));
  return clade__directory_sync(draft->directory);
}

void clade__draft_close(clade__draft *draft) {
  if (draft->fd >= 0) close(draft->fd);
  if (draft->temporary) unlink(draft->temporary);
  clade__free(draft->temporary);
  clade__free(draft->directory);
  clade__free(draft->path);
  *draft = (clade__draft){.fd = -1};
}

bool clade__draft_is_temporary(const char *name) {
  static const char start[] = ".clade-", digits[] = "0123456789";
  if (strncmp(name, start, strlen(start))) return false;
  name += strlen(start);
  size_t process = strspn(name, digits);
  if (!process || name[process] != '-') return false;
  name += process + 1;
  size_t number = strspn(name, digits);
  return number && !strcmp(name + number, ".tmp");
}
