/* Training steps of thread ranks allocate nothing after the second one, for all kinds of communication; tests/mpi
 * has the same for MPI. */
#include "comm_kit.h"
#include "steady_kit.h"

enum { RANKS = 3 };

static pthread_barrier_t all;
static const steady_case *how;

static void gate(steady_rank *r) {
  (void)r;
  pthread_barrier_wait(&all);
}

static void *train(void *user) {
  rank *r = user;
  r->right = steady_train(&(steady_rank){r->comm, r->device, gate}, how);
  return NULL;
}

static void steady(void **state) {
  assert_int_equal(pthread_barrier_init(&all, NULL, RANKS), 0);
  for (int i = 0; i < STEADY_BY_CLADE; i++) {
    how = &steady_by_clade[i];
    run_ranks(RANKS, *state, train, NULL);
  }
  pthread_barrier_destroy(&all);
}

static int open_counting(void **state) {
  OK(clade_init(.allocator = &steady_counting));
  return open_device(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(steady)};
  return cmocka_run_group_tests(tests, open_counting, close_device);
}
