/* Ranks: where mpirun started the command, libclade_mpi carries bytes between its processes. The command is not linked
 * with MPI, and needs it only then. And which device of its node a rank takes. */
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <clade/mpi.h>

#include "cli/cli.h"

static const char LIBRARY[] = "libclade_mpi.so.0";

static int number_in(const char *variable) {
  const char *text = getenv(variable);
  return text ? atoi(text) : 0;
}

/* As Open MPI, and others by PMI, tell their processes; or Slurm's srun by PMIx, which sets no size of its own. A batch
 * script has Slurm's variables too, but no rank. */
bool cli_ranks_started(void) {
  return number_in("OMPI_COMM_WORLD_SIZE") > 1 || number_in("PMI_SIZE") > 1 ||
         (getenv("PMIX_RANK") && number_in("SLURM_STEP_NUM_TASKS") > 1);
}

/* PoCL does not look at what a process is bound to. */
int cli_ranks_threads(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set)
             ? 0
             : CPU_COUNT(&set); /* 0: more processors than fit, it is PoCL's choice */
}

/* Among the ranks of this node. Slurm's comes last: what mpirun starts in a batch script has the script's, 0. */
static int local_rank(void) {
  static const char *const variables[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK",
                                          "SLURM_LOCALID"};
  for (size_t i = 0; i < CLADE_COUNT(variables); ++i)
    if (getenv(variables[i])) return CLADE_MAX(number_in(variables[i]), 0);
  return 0;
}

/* Beside the command, as in a build, or where the system's libraries are. Its components look for MPI's symbols. */
static void *open_library(void) {
  char path[4096];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - sizeof LIBRARY - 1);
  if (n > 0) {
    path[n] = 0;
    char *name = strrchr(path, '/');
    strcpy(name ? name + 1 : path, LIBRARY);
    void *library = access(path, R_OK) ? NULL : dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (library) return library;
  }
  return dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL);
}

clade_status cli_ranks_open(clade_comm **out) {
  *out = NULL;
  if (!cli_ranks_started()) return CLADE_OK;
  void *library = open_library(); /* stays: MPI has threads and handlers of its own */
  if (!library)
    return CLADE_FAIL(NOT_FOUND, "mpirun started this, but %s is not there: %s; build Clade where libopenmpi-dev is",
                      LIBRARY, dlerror());
  const clade_comm_impl *impl = NULL;
  void *user = NULL;
  int rank = 0, size = 1;
  clade_status (*open)(const clade_comm_impl **, void **, int *, int *);
  *(void **)&open = dlsym(library, "clade_mpi_open");
  if (!open) return CLADE_FAIL(NOT_FOUND, "%s: it has no clade_mpi_open", LIBRARY);
  clade_status status = open(&impl, &user, &rank, &size);
  if (status != CLADE_OK) return CLADE_FAIL(IO, "%s: MPI does not begin: %s", LIBRARY, clade_status_text(status));
  status = clade_comm_new(impl, user, rank, size, out);
  if (status != CLADE_OK) impl->release(user);
  return status;
}

/* What was printed is lost if mpirun ends before it has read it; rank 0's message tells most. */
static void end_all(clade_comm *comm, int exit_status) {
  if (clade_comm_size(comm) == 1) return;
  sleep(clade_comm_rank(comm) ? 2 : 1);
  clade_comm_abort_with(comm, exit_status);
}

/* A lost rank is nothing that OpenCL's doctor finds. */
int cli_ranks_failed(clade_comm *comm, clade_status status) {
  const int rank = clade_comm_rank(comm), result = status == CLADE_LOST ? CLI_LOST : CLI_FAILED;
  if (rank)
    cli_failed("rank %d: %s", rank, clade_last_error());
  else if (comm && status == CLADE_LOST)
    cli_failed("%s", clade_last_error());
  else
    cli_failed_status(status);
  end_all(comm, result);
  return result;
}

/* ---- devices ---- */
/* Of those that a spec matches, the one of number `at`, counted around. */
static clade_status find_matching(const char *spec, int at, clade_device **out) {
  char which[512];
  clade_status status = CLADE_NOT_FOUND;
  for (int last = at; status == CLADE_NOT_FOUND && last >= 0; --last) {
    snprintf(which, sizeof which, "%s:%d", spec, last);
    status = clade_device_find(which, out);
    if (status != CLADE_OK || last == at) continue;
    clade_device_release(*out); /* the last of them: there are last + 1 */
    snprintf(which, sizeof which, "%s:%d", spec, at % (last + 1));
    return clade_device_find(which, out);
  }
  return status;
}

static bool alike(const clade_device_info *a, const clade_device_info *b) {
  return a->device_class == b->device_class && a->software == b->software && !strcmp(a->platform, b->platform);
}

/* Of those that are of the default one's class and platform, the one of number `at`, counted around. Another platform
 * may show the same device again. */
static clade_status find_alike(const clade_device_info *first, int at, clade_device **out) {
  int count, n = 0;
  clade_device_info other = {.size = sizeof other};
  CLADE_TRY(clade_device_count(&count));
  for (int i = 0; i < count; ++i)
    if (clade_device_describe(i, &other) == CLADE_OK) n += alike(first, &other);
  at %= CLADE_MAX(n, 1);
  for (int i = 0; i < count; ++i)
    if (clade_device_describe(i, &other) == CLADE_OK && alike(first, &other) && !at--)
      return clade_device_find(other.id, out);
  return clade_device_find(NULL, out);
}

static clade_status find_default(int at, clade_device **out) {
  clade_device_info info = {.size = sizeof info};
  CLADE_TRY(clade_device_find(NULL, out));
  clade_status status = clade_device_get_info(*out, &info);
  if (status == CLADE_OK && !at) return CLADE_OK;
  clade_device_release(*out);
  *out = NULL;
  return status == CLADE_OK ? find_alike(&info, at, out) : status;
}

static clade_status find(int at, const cli_args *args, clade_device **out) {
  const char *spec = args->n_devices ? args->device[at % args->n_devices] : getenv("CLADE_DEVICE");
  if (!spec || !*spec) return find_default(at, out);
  clade_status status = clade_device_find(args->n_devices ? spec : NULL, out);
  return status == CLADE_AMBIGUOUS ? find_matching(spec, at, out) : status;
}

clade_status cli_ranks_device(const clade_comm *comm, const cli_args *args, clade_device **out) {
  clade_device_info info = {.size = sizeof info};
  if (!comm) return clade_device_find(args->n_devices ? args->device[0] : NULL, out);
  CLADE_TRY(find(local_rank(), args, out));
  if (clade_device_get_info(*out, &info) == CLADE_OK)
    clade__log(CLADE_LOG_INFO, "rank %d, number %d of its node, computes on device %s \"%s\"", clade_comm_rank(comm),
               local_rank(), info.id, info.name);
  return CLADE_OK;
}
