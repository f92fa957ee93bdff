/* Runs this program again as a child process and collects its output, so that a crash in an OpenCL library ends only
 * the child. */
#include "cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { MAX_ARGUMENTS = 20, OUTPUT_BYTES = 1 << 20, STEP_MS = 2 };

/* The environment with an entry added in front. A previous entry of the same name is dropped: C libraries differ in
 * which of two getenv finds. */
static char **environment_with(const char *entry) {
  size_t n = 0, at = 0, name = strcspn(entry, "=") + 1;
  while (environ[n]) ++n;
  char **list = clade__new(n + 2, sizeof *list);
  if (!list) return NULL;
  list[at++] = (char *)(uintptr_t)entry;
  for (size_t i = 0; i < n; ++i)
    if (strncmp(environ[i], entry, name)) list[at++] = environ[i];
  return list;
}

/* false: the time is up and the child was killed. */
static bool wait_for(pid_t pid, int seconds, int *status) {
  int left = seconds * 1000;
  struct timespec step = {0, STEP_MS * 1000000};
  for (;;) {
    pid_t done = waitpid(pid, status, WNOHANG);
    if (done == pid) return true;
    if (done < 0 && errno != EINTR) return false;
    if (left <= 0) {
      kill(pid, SIGKILL);
      while (waitpid(pid, status, 0) < 0 && errno == EINTR) {}
      return false;
    }
    nanosleep(&step, NULL);
    left -= STEP_MS;
  }
}

static char *read_all(int fd, size_t *length) {
  char *text = clade__new(OUTPUT_BYTES, 1);
  *length = 0;
  if (!text) return NULL;
  ssize_t got;
  while (*length < OUTPUT_BYTES - 1 &&
         (got = pread(fd, text + *length, OUTPUT_BYTES - 1 - *length, (off_t)*length)) > 0)
    *length += (size_t)got;
  return text;
}

static void last_line(const char *text, size_t length, char *words, size_t size) {
  while (length && (text[length - 1] == '\n' || text[length - 1] == ' ')) --length;
  size_t start = length;
  while (start && text[start - 1] != '\n') --start;
  snprintf(words, size, "%.*s", (int)CLADE_MIN(length - start, size - 1), text + start);
}

static bool start(char *const *argv, char **environment, int out, int err, pid_t *pid) {
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions)) return false;
  bool ok = !posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", 0, 0) &&
            !posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO) &&
            !posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO) &&
            !posix_spawn(pid, "/proc/self/exe", &actions, NULL, argv, environment);
  posix_spawn_file_actions_destroy(&actions);
  return ok;
}

static void collect(int out, int err, cli_child_result *result) {
  size_t length;
  char *text = read_all(out, &length);
  if (text && length) result->json = json_loadb(text, length, 0, NULL);
  clade__free(text);
  text = read_all(err, &length);
  if (text) last_line(text, length, result->words, sizeof result->words);
  clade__free(text);
}

void cli_child_run(const char *const *arguments, const char *environment, int seconds, cli_child_result *result) {
  *result = (cli_child_result){0};
  char *argv[MAX_ARGUMENTS + 3] = {"clade", "__child"};
  for (int i = 0; i < MAX_ARGUMENTS && arguments[i]; ++i) argv[i + 2] = (char *)(uintptr_t)arguments[i];
  char **list = environment ? environment_with(environment) : NULL;
  /* files instead of pipes, so that a child with much output never blocks */
  int out = memfd_create("clade-out", MFD_CLOEXEC), err = memfd_create("clade-err", MFD_CLOEXEC), status = 0;
  pid_t pid;
  if (out >= 0 && err >= 0 && (list || !environment) && start(argv, list ? list : environ, out, err, &pid)) {
    result->started = true;
    result->timed_out = !wait_for(pid, seconds, &status);
    if (WIFSIGNALED(status)) result->signal = WTERMSIG(status);
    if (WIFEXITED(status)) result->status = WEXITSTATUS(status);
    collect(out, err, result);
  } else {
    snprintf(result->words, sizeof result->words, "cannot start a child process: %s", strerror(errno));
  }
  if (out >= 0) close(out);
  if (err >= 0) close(err);
  clade__free(list);
}

void cli_child_free(cli_child_result *result) {
  json_decref(result->json);
  result->json = NULL;
}
