/* Files read whole, with a cap, and directories. */
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
static clade_status read_open(int fd, const char *path, uint64_t cap, bool beginning, clade__bytes *out) {
  struct stat st;
  if (fstat(fd, &st)) return clade__file_fail("read", path);
  if (!S_ISREG(st.st_mode)) return CLADE_FAIL(INVALID, "cannot read %s: it is no regular file", path);
  if (beginning && (uint64_t)st.st_size > cap) st.st_size = (off_t)cap;
  if ((uint64_t)st.st_size > cap || (uint64_t)st.st_size > PTRDIFF_MAX)
    return CLADE_FAIL(OVERFLOW, "%s has %" PRIu64 " bytes; at most %" PRIu64 " are read", path, (uint64_t)st.st_size,
                      cap);
  out->data = clade__new((size_t)st.st_size, 1);
  if (!out->data) return clade__fail_in(CLADE_NO_MEMORY, "%s", path);
  for (out->n = (size_t)st.st_size; st.st_size > 0;) {
    ssize_t n = read(fd, out->data + (out->n - (size_t)st.st_size), (size_t)st.st_size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return clade__file_fail("read", path);
    if (n == 0) return CLADE_FAIL(IO, "%s became shorter while it was read", path);
    st.st_size -= n;
  }
  return CLADE_OK;
}

static clade_status read_path(const char *path, uint64_t cap, bool beginning, clade__bytes *out) {
  *out = (clade__bytes){0};
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY); /* a pipe must not hang */
  if (fd < 0) return clade__file_fail("read", path);
  clade_status status = read_open(fd, path, cap, beginning, out);
  close(fd);
  if (status == CLADE_OK) return CLADE_OK;
  clade__free(out->data);
  *out = (clade__bytes){0};
  return status;
}

clade_status clade__file_read(const char *path, uint64_t cap, clade__bytes *out) {
  return read_path(path, cap, false, out);
}

clade_status clade__file_begin(const char *path, uint64_t most, clade__bytes *out) {
  return read_path(path, most, true, out);
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
  errno = failed; /* of the last one: those before may be there and forbid writing */
  if (failed) return clade__file_fail("make the directory", path);
  if (stat(path, &st)) return clade__file_fail("use the directory", path);
  if (!S_ISDIR(st.st_mode)) return CLADE_FAIL(INVALID, "%s is no directory", path);
  return CLADE_OK;
}

clade_status clade__directory_sync(const char *path) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return clade__file_fail("open the directory", path);
  /* EINVAL: a file system that has nothing to sync here. */
  clade_status status = fsync(fd) && errno != EINVAL ? clade__file_fail("sync the directory", path) : CLADE_OK;
  close(fd);
  return status;
}
