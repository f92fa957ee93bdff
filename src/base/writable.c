/* Checks that a file can be written before a long computation begins. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static clade_status refused(const char *path, int error) {
  return CLADE_FAIL(IO, "%s cannot be written: %s", path, strerror(error));
}

clade_status clade__file_can_write(const char *path) {
  struct stat there;
  if (stat(path, &there) != 0) { /* the file, or the target of its link, is absent */
    const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return refused(path, errno);
    close(file);
    char *made = realpath(path, NULL);
    if (made) unlink(made);
    free(made);
    return CLADE_OK;
  }
  if (access(path, W_OK) != 0) return refused(path, errno);
  if (S_ISDIR(there.st_mode)) return refused(path, EISDIR);
  if (S_ISFIFO(there.st_mode) || S_ISSOCK(there.st_mode)) /* opening would wait for a reader */
    return CLADE_FAIL(IO, "%s cannot be written: it is not a regular file", path);
  return CLADE_OK;
}
