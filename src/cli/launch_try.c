/* One try of a launched command: starts it in a process group of its own, forwards signals, and ends everything that
 * it started. */
#include "cli/launch.h"

#include <dirent.h>
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* Seconds. Ranks notice within two seconds that their mpirun was killed; what is left after GRACE is killed.
 * LONGEST: then give up. LOOK: polling interval. */
static const double GRACE = 5, LONGEST = 60, LOOK = 0.05;

/* ---- signals ---- */
/* Signals that this process ignores from its start, such as SIGHUP under nohup, stay ignored. */
void launch_begin(launch_job *job) {
  static const int stops[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
  signal(SIGCHLD, SIG_DFL); /* an ignored SIGCHLD would prevent waiting for children */
  sigemptyset(&job->waited);
  sigaddset(&job->waited, SIGCHLD);
  for (size_t i = 0; i < CLADE_COUNT(stops); ++i) {
    struct sigaction action;
    if (!sigaction(stops[i], NULL, &action) && action.sa_handler != SIG_IGN) sigaddset(&job->waited, stops[i]);
  }
  sigprocmask(SIG_BLOCK, &job->waited, &job->before);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* Waits for a signal that asks to stop. 0: the time is up or a child ended. */
static int next_stop(launch_job *job, double seconds) {
  const double until = clade__now() + seconds;
  for (double left = seconds; left > 0; left = until - clade__now()) {
    const struct timespec time = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
    const int number = sigtimedwait(&job->waited, NULL, &time);
    if (number == SIGCHLD) return 0;
    if (number <= 0) continue;
    job->stopped = true;
    if (number != SIGUSR1 && number != SIGUSR2) ++job->insisted;
    return number;
  }
  return 0;
}

void launch_pause(launch_job *job, double seconds) {
  const double until = clade__now() + seconds;
  while (!job->stopped && clade__now() < until) next_stop(job, until - clade__now());
}

/* ---- left-over processes ---- */
static pid_t parent_of(pid_t pid) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
  FILE *file = fopen(path, "re");
  const size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
  if (file) fclose(file);
  text[n] = 0;
  const char *name_end = strrchr(text, ')'); /* ") S 123": state and parent */
  return name_end && strlen(name_end) > 4 ? (pid_t)strtol(name_end + 4, NULL, 10) : 0;
}

/* mpirun gives ranks process groups of their own; once it is dead, ranks are children of this process. */
static void kill_all(pid_t group) {
  DIR *processes = opendir("/proc");
  kill(-group, SIGKILL);
  for (struct dirent *e; processes && (e = readdir(processes));) {
    const pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
    if (pid > 0 && parent_of(pid) == getpid()) kill(pid, SIGKILL);
  }
  if (processes) closedir(processes);
}

static bool is_left(pid_t group) {
  pid_t found;
  while ((found = waitpid(-1, NULL, WNOHANG)) > 0) {}
  return !found || !kill(-group, 0);
}

static int clear_away(pid_t group) {
  const double begun = clade__now();
  while (is_left(group)) {
    const double waited = clade__now() - begun;
    if (waited > LONGEST) return cli_failed("launch: processes of the try are still there, and cannot be ended");
    if (waited > GRACE) kill_all(group);
    nanosleep(&(struct timespec){0, (long)(LOOK * 1e9)}, NULL);
  }
  return CLI_DONE;
}

/* ---- a try ---- */
/* Standard input is /dev/null, because a second try could not read it again. Returns an errno. */
static int start(const launch_job *job, char *const *words, pid_t *pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  int error = posix_spawn_file_actions_init(&actions);
  if (error) return error;
  error = posix_spawnattr_init(&attributes);
  if (!error) {
    error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", 0, 0);
    if (!error) error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    if (!error) error = posix_spawnattr_setpgroup(&attributes, 0);
    if (!error) error = posix_spawnattr_setsigmask(&attributes, &job->before);
    if (!error) error = posix_spawnp(pid, words[0], &actions, &attributes, words, environ);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

/* mpirun kills its ranks a second after SIGTERM, and some versions do not forward SIGUSR1, so the first signal
 * becomes SIGUSR2. The second signal is forwarded unchanged; the third kills. */
static void hand_on(const launch_job *job, pid_t pid, int number) {
  const bool hint = number == SIGUSR1 || number == SIGUSR2 || job->insisted == 1;
  if (job->insisted > 2)
    kill_all(pid);
  else
    kill(pid, hint && job->command.starts_ranks ? SIGUSR2 : number);
}

/* Reaps all ended children, including adopted ones. */
static bool has_ended(pid_t pid, int *status) {
  bool ended = false;
  int how;
  for (pid_t found; (found = waitpid(-1, &how, WNOHANG)) > 0;)
    if (found == pid) {
      ended = true;
      *status = how;
    }
  return ended;
}

int launch_try(launch_job *job, char *const *words, int *status) {
  pid_t pid;
  int how = 0;
  const int error = start(job, words, &pid);
  if (error) return cli_wrong(&job->args, "%s cannot be started: %s", words[0], strerror(error));
  while (!has_ended(pid, &how)) {
    const int number = next_stop(job, 1);
    if (number) hand_on(job, pid, number);
  }
  *status = WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
  return *status ? clear_away(pid) : CLI_DONE;
}
