/* Cutting a model into stages, with each allocation failing once. */
#include "memory_kit.h"
#include "pipeline_kit.h"

static clade_comm *comms[2];

static clade_status cut(const void *argument, clade_device *device) {
  clade_graph *g = NULL;
  (void)device;
  const clade_status status = step_graph(argument, comms[1], &g);
  clade_graph_release(g);
  return status;
}

static void fails(void **state) {
  const training t = {"transformer", transformer, GRID(2, 2, 2), 1, ADAM(), 0, 0};
  OK(clade_comm_new_local(2, comms));
  OK(cut(&t, *state));
  assert_true(fail_allocations(cut, &t, *state, 1) > 100);
  release_all(2, comms);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(fails)};
  return cmocka_run_group_tests(tests, open_failing, close_device);
}
