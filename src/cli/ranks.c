/* Ranks: if mpirun started the command, loads libclade_mpi for messages between processes (the command itself is not
 * linked with MPI), and selects each rank's device. */
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

/* Recognizes Open MPI, launchers with PMI, and Slurm's srun with PMIx, which sets no size of its own. Slurm's
 * variables alone do not count: a batch script has them too. */
bool cli_ranks_started(void) {
  return number_in("OMPI_COMM_WORLD_SIZE") > 1 || number_in("PMI_SIZE") > 1 ||
         (getenv("PMIX_RANK") && number_in("SLURM_STEP_NUM_TASKS") > 1);
}

/* PoCL ignores the CPU affinity of the process. */
int cli_ranks_threads(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set)
             ? 0
             : CPU_COUNT(&set); /* 0: too many processors for the set; PoCL chooses */
}

/* Rank within its node. Slurm's variable is last, because processes that mpirun starts in a batch script inherit the
 * script's value 0. */
static int local_rank(void) {
  static const char *const variables[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK",
                                          "SLURM_LOCALID"};
  for (size_t i = 0; i < CLADE_COUNT(variables); ++i)
    if (getenv(variables[i])) return CLADE_MAX(number_in(variables[i]), 0);
  return 0;
}

/* Looks beside the command (a build) and in the system's library path. RTLD_GLOBAL, because MPI's components need
 * its symbols. */
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
  void *library = open_library(); /* never closed: MPI keeps threads and handlers */
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

/* Waits until mpirun has read the messages; rank 0, whose message is the most useful, aborts first. */
static void end_all(clade_comm *comm, int exit_status) {
  if (clade_comm_size(comm) == 1) return;
  sleep(clade_comm_rank(comm) ? 2 : 1);
  clade_comm_abort_with(comm, exit_status);
}

/* A lost rank is reported without the hint at clade doctor. */
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

/* Device number `at`, modulo their count, of the devices that match a spec. */
static clade_status find_matching(const char *spec, int at, clade_device **out) {
  char which[512];
  clade_status status = CLADE_NOT_FOUND;
  for (int last = at; status == CLADE_NOT_FOUND && last >= 0; --last) {
    snprintf(which, sizeof which, "%s:%d", spec, last);
    status = clade_device_find(which, out);
    if (status != CLADE_OK || last == at) continue;
    clade_device_release(*out); /* the device of number `last` is the last one */
    snprintf(which, sizeof which, "%s:%d", spec, at % (last + 1));
    return clade_device_find(which, out);
  }
  return status;
}

static bool alike(const clade_device_info *a, const clade_device_info *b) {
  return a->device_class == b->device_class && a->software == b->software && !strcmp(a->platform, b->platform);
}

/* Device number `at`, modulo their count, of the default device's class and platform. Other platforms are left out:
 * they may show the same device again. */
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
