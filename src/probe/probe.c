/* clade-probe KEY TWIN UNIT HASH SECONDS: probes a matrix unit of a device in a separate process. The library starts
 * it if the OpenCL compiler may abort the process (docs/porting.md).
 *
 * OpenCL is used only in a fork, and the parent waits for it: so a result is reported within the time limit, however
 * the fork ends. The result is one line on descriptor 3: "yes", "no REASON" or, if a later probe may succeed,
 * "unknown REASON". */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "cl/units.h"

typedef struct request {
  clade__hash key;
  int twin;
  const clade__unit_row *row;
  double seconds;
} request;

static void answer(const char *word, const char *reason) {
  dprintf(CLADE__CHILD_OUT, "%s%s%s\n", word, *reason ? " " : "", reason);
}

/* ---- child ---- */
/* Exits by _exit, because exit handlers of implementations may crash. */
static void probe(const request *r) {
  static const char *const words[] = {
      [CLADE__UNIT_NO] = "no", [CLADE__UNIT_YES] = "yes", [CLADE__UNIT_UNKNOWN] = "unknown"};
  clade_device *device;
  char why[512] = "";
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (clade__device_find_twin(r->key, r->twin, &device) != CLADE_OK)
    answer("unknown", clade_last_error());
  else
    answer(words[clade__unit_probe(device, r->row, why, sizeof why)], why);
  _exit(0);
}

/* ---- parent ---- */
static void tell_end(int status) {
  char why[128];
  int by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  bool from_outside = by == SIGKILL || by == SIGTERM || by == SIGINT || by == SIGHUP;
  if (by)
    snprintf(why, sizeof why, "the probe's process was ended by signal %d (%s)", by, strsignal(by));
  else
    snprintf(why, sizeof why, "the probe's process ended with status %d", WEXITSTATUS(status));
  answer(from_outside ? "unknown" : "no", why);
}

/* `over` is closed when the child ends. A child with exit status 0 has written the result itself. */
static void supervise(const request *r, pid_t fork, int over) {
  struct pollfd wait = {.fd = over, .events = POLLIN};
  int ended, status;
  do ended = poll(&wait, 1, (int)(r->seconds * 1e3));
  while (ended < 0 && errno == EINTR);
  if (ended != 1) {
    char why[128];
    snprintf(why, sizeof why, "the probe did not end within %g s", r->seconds);
    answer("no", why);
    kill(fork, SIGKILL);
  }
  while (waitpid(fork, &status, 0) < 0 && errno == EINTR) {}
  if (ended == 1 && status) tell_end(status);
}

static int run(const request *r) {
  int ends[2];
  fcntl(CLADE__CHILD_OUT, F_SETFD, FD_CLOEXEC);   /* compilers start processes, too */
  setrlimit(RLIMIT_CORE, &(struct rlimit){1, 1}); /* 1: no core dump, not even to a pipe handler */
  if (pipe2(ends, O_CLOEXEC)) return 1;
  pid_t child = fork();
  if (child < 0) return 1;
  close(ends[child ? 1 : 0]);
  if (!child) probe(r);
  supervise(r, child, ends[0]);
  return 0;
}

/* ---- arguments ---- */
static const clade__unit_row *row_of(const char *name) {
  if (strcmp(clade__assembly_row.name, name) == 0) return &clade__assembly_row;
  for (int i = 0; i < CLADE_UNITS; i++)
    if (strcmp(clade__unit_rows[i].name, name) == 0) return &clade__unit_rows[i];
  return NULL;
}

static bool parse(char **words, request *r) {
  char rest, hash[33];
  return sscanf(words[0], "%16" SCNx64 "%16" SCNx64 "%c", &r->key.hi, &r->key.lo, &rest) == 2 &&
         sscanf(words[1], "%d%c", &r->twin, &rest) == 1 && (r->row = row_of(words[2])) &&
         strcmp(words[3], clade__hash_text(clade__unit_hash(r->row), hash)) == 0 &&
         sscanf(words[4], "%lf%c", &r->seconds, &rest) == 1 && r->seconds > 0;
}

int main(int argc, char **argv) {
  request r;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (argc != 6 || fcntl(CLADE__CHILD_OUT, F_GETFD) < 0) {
    fprintf(stderr, "clade-probe %s is started by the library, and has nothing to say to anybody else\n",
            clade_version());
    return 2;
  }
  if (parse(argv + 1, &r)) return run(&r);
  answer("unknown", "clade-probe is of another version of Clade");
  return 1;
}
