/* One try of a command that is launched: started in a process group of its own, told what this process is told, and
 * gone with all that it started when the try is over. */
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

/* Ranks whose mpirun was killed notice it within two seconds; what is still there after GRACE is killed. */
static const double GRACE = 5, LONGEST = 60, LOOK = 0.05;

/* ---- signals ---- */
/* What this process was started to ignore, as nohup does with SIGHUP, stays ignored. */
void launch_begin(launch_job *job) {
  static const int stops[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
  signal(SIGCHLD, SIG_DFL); /* where it was ignored no child could be waited for */
  sigemptyset(&job->waited);
  sigaddset(&job->waited, SIGCHLD);
  for (size_t i = 0; i < CLADE_COUNT(stops); ++i) {
    struct sigaction action;
    if (!sigaction(stops[i], NULL, &action) && action.sa_handler != SIG_IGN) sigaddset(&job->waited, stops[i]);
  }
  sigprocmask(SIG_BLOCK, &job->waited, &job->before);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* 0: none came within so many seconds that tells to stop. */
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

/* ---- what is left ---- */
static pid_t parent_of(pid_t pid) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
  FILE *file = fopen(path, "re");
  const size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
  if (file) fclose(file);
  text[n] = 0;
  const char *name_end = strrchr(text, ')'); /* ") S 123": its state, its parent */
  return name_end && strlen(name_end) > 4 ? (pid_t)strtol(name_end + 4, NULL, 10) : 0;
}

/* Ranks are in groups of their own, which mpirun gives them; once it is dead they are children of this process. */
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
/* Without input, of which a second try would find nothing more. Returns errno's number. */
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

/* mpirun kills its ranks a second after a SIGTERM, and some versions keep SIGUSR1 for themselves; SIGUSR2 reaches them.
 * Who insists gets what he sends, and then an end. */
static void hand_on(const launch_job *job, pid_t pid, int number) {
  const bool hint = number == SIGUSR1 || number == SIGUSR2 || job->insisted == 1;
  if (job->insisted > 2)
    kill_all(pid);
  else
    kill(pid, hint && job->command.starts_ranks ? SIGUSR2 : number);
}

/* Whatever ended is no more, also what was left to this process. */
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
