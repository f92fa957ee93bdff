/* Reading whole files up to a size limit, and making directories. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

clade_status clade__file_fail(const char *what, const char *path) {
  int error = errno;
  clade_status status = error == ENOENT || error == ENOTDIR                   ? CLADE_NOT_FOUND
                        : error == EACCES || error == EPERM || error == EROFS ? CLADE_PERMISSION
                        : error == EEXIST                                     ? CLADE_DUPLICATE
                        : error == ENOMEM                                     ? CLADE_NO_MEMORY
                                                                              : CLADE_IO;
  return clade_fail(status, "cannot %s %s: %s", what, path, strerror(error));
}

/* ---- reading ---- */
static clade_status file_open(const char *path, clade__file *out) {
  struct stat st;
  *out = (clade__file){.path = path};
  out->fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY); /* do not block on a FIFO */
  if (out->fd < 0) return clade__file_fail("read", path);
  clade_status status = fstat(out->fd, &st)   ? clade__file_fail("read", path)
                        : S_ISREG(st.st_mode) ? CLADE_OK
                                              : CLADE_FAIL(INVALID, "cannot read %s: it is not a regular file", path);
  out->bytes = (uint64_t)st.st_size;
  if (status != CLADE_OK) close(out->fd);
  return status;
}

static clade_status fill(const clade__file *file, clade__bytes *out) {
  for (size_t at = 0; at < out->n;) {
    ssize_t n = pread(file->fd, out->data + at, out->n - at, (off_t)at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return clade__file_fail("read", file->path);
    if (n == 0) return CLADE_FAIL(IO, "%s became shorter while it was read", file->path);
    at += (size_t)n;
  }
  return CLADE_OK;
}

clade_status clade__file_head(const clade__file *file, uint64_t most, clade__bytes *out) {
  *out = (clade__bytes){.n = (size_t)CLADE_MIN(file->bytes, most)};
  out->data = clade__new(out->n, 1);
  clade_status status = out->data ? fill(file, out) : clade__fail_in(CLADE_NO_MEMORY, "%s", file->path);
  if (status == CLADE_OK) return CLADE_OK;
  clade__free(out->data);
  *out = (clade__bytes){0};
  return status;
}

static clade_status read_whole(const clade__file *file, uint64_t cap, clade__file_judge *judge, const void *what,
                               clade__bytes *out) {
  if (judge) CLADE_TRY(judge(file, what));
  if (file->bytes > cap || file->bytes > PTRDIFF_MAX)
    return CLADE_FAIL(OVERFLOW, "%s has %" PRIu64 " bytes; at most %" PRIu64 " are read", file->path, file->bytes, cap);
  return clade__file_head(file, file->bytes, out);
}

clade_status clade__file_read_judged(const char *path, uint64_t cap, clade__file_judge *judge, const void *what,
                                     clade__bytes *out) {
  clade__file file;
  *out = (clade__bytes){0};
  CLADE_TRY(file_open(path, &file));
  clade_status status = read_whole(&file, cap, judge, what, out);
  close(file.fd);
  return status;
}

clade_status clade__file_read(const char *path, uint64_t cap, clade__bytes *out) {
  return clade__file_read_judged(path, cap, NULL, NULL, out);
}

clade_status clade__file_begin(const char *path, uint64_t most, clade__bytes *out) {
  clade__file file;
  *out = (clade__bytes){0};
  CLADE_TRY(file_open(path, &file));
  clade_status status = clade__file_head(&file, most, out);
  close(file.fd);
  return status;
}

/* ---- directories ---- */
clade_status clade__directory_make(const char *path, unsigned mode) {
  struct stat st;
  char *copy = clade__copy_text(path);
  if (!copy) return CLADE_NO_MEMORY;
  int failed = *copy ? 0 : ENOENT;
  for (char *slash = copy; slash && *copy;) {
    slash = strchr(slash + 1, '/');
    if (slash) *slash = '\0';
    failed = mkdir(copy, (mode_t)mode) && errno != EEXIST ? errno : 0;
    if (slash) *slash = '/';
  }
  clade__free(copy);
  errno = failed; /* of the last mkdir: parents may exist and be read-only */
  if (failed) return clade__file_fail("make the directory", path);
  if (stat(path, &st)) return clade__file_fail("use the directory", path);
  if (!S_ISDIR(st.st_mode)) return CLADE_FAIL(INVALID, "%s is no directory", path);
  return CLADE_OK;
}

clade_status clade__directory_sync(const char *path) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return clade__file_fail("open the directory", path);
  /* EINVAL: the file system cannot sync directories. */
  clade_status status = fsync(fd) && errno != EINVAL ? clade__file_fail("sync the directory", path) : CLADE_OK;
  close(fd);
  return status;
}
