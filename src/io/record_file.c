/* Files that grow by whole records: readers and a killed writer see whole records only. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/io.h"

clade_status clade__records_open(const char *path, bool anew, clade__record_file *out) {
  struct stat st;
  *out = (clade__record_file){.fd = -1};
  int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK | (anew ? O_CREAT | O_EXCL : 0), 0666);
  if (fd < 0) return clade__file_fail("write", path);
  clade_status status = fstat(fd, &st) ? clade__file_fail("write", path) : CLADE_OK;
  if (status == CLADE_OK && !S_ISREG(st.st_mode)) status = CLADE_FAIL(INVALID, "%s is no regular file", path);
  char *copy = status == CLADE_OK ? clade__copy_text(path) : NULL;
  if (!copy) {
    close(fd);
    return status == CLADE_OK ? CLADE_NO_MEMORY : status;
  }
  *out = (clade__record_file){fd, copy, (uint64_t)st.st_size};
  return CLADE_OK;
}

clade_status clade__records_add(clade__record_file *file, const void *data, size_t bytes) {
  for (size_t at = 0; at < bytes;) {
    ssize_t n = write(file->fd, (const char *)data + at, bytes - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      clade_status status = clade__file_fail("write", file->path);
      if (at && ftruncate(file->fd, (off_t)file->bytes))
        clade__log(CLADE_LOG_WARNING, "%s ends in half a record: %s", file->path, strerror(errno));
      return status;
    }
    at += (size_t)n;
  }
  file->bytes += bytes;
  return CLADE_OK;
}

void clade__records_close(clade__record_file *file) {
  if (file->fd >= 0) close(file->fd);
  clade__free(file->path);
  *file = (clade__record_file){.fd = -1};
}
