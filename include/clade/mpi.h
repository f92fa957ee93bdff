/* Communicators on MPI: libclade_mpi, which is built where MPI is (docs/distributed.md). */
#ifndef CLADE_MPI_H
#define CLADE_MPI_H

#include <clade/comm.h>

CLADE_BEGIN_DECLS

/* Initializes MPI, if nobody has, for threads that take turns (MPI_THREAD_SERIALIZED), and takes a copy of
 * MPI_COMM_WORLD. UNSUPPORTED: whoever initialized it asked for less. The library is linked with MPI alone, so the
 * communicator is made by whichever libclade the program has: clade_mpi_comm. */
CLADE_API clade_status clade_mpi_open(const clade_comm_impl **impl, void **user, int *rank, int *size);

/* The communicator of all processes that mpirun started. MPI is finalized with it, if it was initialized for it. */
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
