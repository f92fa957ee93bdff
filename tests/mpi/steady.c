/* Training steps of MPI ranks allocate nothing after the second one, with sums by Clade and by MPI. MPI's own
 * allocations are not counted. */
#include <stdio.h>

#include <clade/mpi.h>

#include "../unit/steady_kit.h"

static void gate(steady_rank *r) { (void)r; /* each process counts its own allocations */ }

static int all_of(steady_rank *r, int n, const steady_case *cases, const char *by) {
  int wrong = 0;
  for (int i = 0; i < n; i++) {
    if (steady_train(r, &cases[i])) continue;
    fprintf(stderr, "rank %d: sums by %s, case %d: it failed or allocated: %s\n", clade_comm_rank(r->comm), by, i,
            clade_last_error());
    wrong++;
  }
  return wrong;
}

int main(void) {
  steady_rank r = {.gate = gate};
  if (clade_init(.allocator = &steady_counting) != CLADE_OK || clade_device_find(NULL, &r.device) != CLADE_OK ||
      clade_mpi_comm(&r.comm) != CLADE_OK) {
    fprintf(stderr, "%s\n", clade_last_error());
    return 1;
  }
  const int wrong =
      all_of(&r, STEADY_BY_CLADE, steady_by_clade, "Clade") + all_of(&r, STEADY_BY_CARRIER, steady_by_carrier, "MPI");
  clade_device_release(r.device);
  clade_comm_release(r.comm);
  return wrong != 0;
}
