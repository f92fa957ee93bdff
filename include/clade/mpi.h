/* A communicator on MPI, from the library libclade_mpi, which is built if MPI is installed (docs/distributed.md). */
#ifndef CLADE_MPI_H
#define CLADE_MPI_H

#include <clade/comm.h>

CLADE_BEGIN_DECLS

/* Opens a copy of MPI_COMM_WORLD, and returns the arguments of clade_comm_new. Initializes MPI with
 * MPI_THREAD_SERIALIZED if it is not initialized; CLADE_UNSUPPORTED if it was initialized with less. libclade_mpi is
 * linked with MPI only, so that the communicator is made by whichever libclade the program uses: see clade_mpi_comm. */
CLADE_API clade_status clade_mpi_open(const clade_comm_impl **impl, void **user, int *rank, int *size);

/* Makes the communicator of all processes that mpirun started. Releasing it finalizes MPI,
 * if this call initialized MPI. */
static inline clade_status clade_mpi_comm(clade_comm **out) {
  const clade_comm_impl *impl = NULL;
  void *user = NULL;
  int rank = 0, size = 1;
  clade_status status = clade_mpi_open(&impl, &user, &rank, &size);
  if (status != CLADE_OK) return clade_fail(status, "clade_mpi_comm: %s", clade_status_text(status));
  status = clade_comm_new(impl, user, rank, size, out);
  if (status != CLADE_OK) impl->release(user);
  return status;
}

CLADE_END_DECLS
#endif
