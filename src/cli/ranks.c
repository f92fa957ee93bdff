/* Ranks: where mpirun started the command, libclade_mpi carries bytes between its processes. The command is not linked
 * with MPI, and needs it only then. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <clade/mpi.h>

#include "cli/cli.h"

static const char LIBRARY[] = "libclade_mpi.so.0";

/* As Open MPI, and others by PMI, tell their processes. */
static bool started_by_mpirun(void) {
  static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
  for (size_t i = 0; i < CLADE_COUNT(variables); ++i) {
    const char *size = getenv(variables[i]);
    if (size && atoi(size) > 1) return true;
  }
  return false;
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
  if (!started_by_mpirun()) return CLADE_OK;
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
void cli_ranks_abort(clade_comm *comm) {
  if (clade_comm_size(comm) == 1) return;
  sleep(clade_comm_rank(comm) ? 2 : 1);
  clade_comm_abort(comm);
}
