/* Runs a child process for one line of output. Completion is detected by the pipe alone, since the program may
 * ignore SIGCHLD or wait for any child itself. */
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined __GLIBC__ && __GLIBC_PREREQ(2, 34)
static int close_others(posix_spawn_file_actions_t *files) {
  return posix_spawn_file_actions_addclosefrom_np(files, CLADE__CHILD_OUT + 1);
}
#else
static int close_others(posix_spawn_file_actions_t *files) { return files ? ENOSYS : EINVAL; }
#endif

/* Duplicate the pipe first: its descriptor may be 0 to 2 if the program closed a standard stream. */
static int set_files(posix_spawn_file_actions_t *files, int out) {
  int error = posix_spawn_file_actions_adddup2(files, out, CLADE__CHILD_OUT);
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO && !error; fd++)
    error = posix_spawn_file_actions_addopen(files, fd, "/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY, 0);
  return error ? error : close_others(files);
}

/* Reset the signal mask and ignored signals, which a child would inherit. */
static int set_attributes(posix_spawnattr_t *attributes) {
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  int error =
      posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  if (!error) error = posix_spawnattr_setpgroup(attributes, 0);
  if (!error) error = posix_spawnattr_setsigmask(attributes, &none);
  return error ? error : posix_spawnattr_setsigdefault(attributes, &all);
}

static int start(const char *path, char *const argv[], int out, pid_t *child) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  int error = posix_spawn_file_actions_init(&files);
  if (error) return error;
  error = posix_spawnattr_init(&attributes);
  if (!error) {
    error = set_files(&files, out);
    if (!error) error = set_attributes(&attributes);
    if (!error) error = posix_spawn(child, path, &files, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_destroy(&files);
  return error;
}

/* Reads until end of file; false on timeout. */
static bool listen_to(int in, double until, char *line, size_t bytes) {
  size_t n = 0;
  for (double left; (left = until - clade__now()) > 0;) {
    struct pollfd wait = {.fd = in, .events = POLLIN};
    int ready = poll(&wait, 1, (int)(left * 1e3) + 1);
    if (ready < 0 && errno != EINTR) return false;
    if (ready <= 0) continue;
    char text[256];
    ssize_t got = read(in, text, sizeof text);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      line[n] = '\0';
      line[strcspn(line, "\n")] = '\0';
      return true;
    }
    size_t some = CLADE_MIN((size_t)got, bytes - 1 - n);
    memcpy(line + n, text, some);
    n += some;
  }
  return false;
}

clade_status clade__child_ask(const char *path, char *const argv[], double seconds, char *line, size_t bytes) {
  int ends[2];
  pid_t child;
  line[0] = '\0';
  if (pipe2(ends, O_CLOEXEC)) return CLADE_FAIL(IO, "%s cannot be started: %s", path, strerror(errno));
  int error = start(path, argv, ends[1], &child);
  close(ends[1]);
  if (error) {
    close(ends[0]);
    return CLADE_FAIL(IO, "%s cannot be started: %s", path, strerror(error));
  }
  bool heard = listen_to(ends[0], clade__now() + seconds, line, bytes);
  close(ends[0]);
  /* A child that still holds the pipe has not exited, so its process ID cannot have been reused, even if other
   * threads wait for our children. */
  if (!heard) kill(-child, SIGKILL);
  while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {}
  if (!heard) return CLADE_FAIL(IO, "%s did not answer within %g s", path, seconds);
  return *line ? CLADE_OK : CLADE_FAIL(IO, "%s ended without an answer", path);
}
