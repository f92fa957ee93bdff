/* Memory bounds of the reader of bundles. */
#include "io_bounds_kit.h"

#include "bundle/bundle.h"

static clade_status read_bundle(const char *path) {
  clade__bundle bundle;
  return clade__bundle_read(path, &bundle);
}

static void large(void **state) {
  (void)state;
  CHEAP(FEW, CORRUPT, read_bundle(sparse("x", "", 0, GIB(1))), "no bundle");
  CHEAP(FEW, CORRUPT, read_bundle(sparse("x", "{", 1, GIB(1))), "no bundle");
}

static void fifo(void **state) {
  (void)state;
  assert_int_equal(mkfifo(io_path("fifo"), 0600), 0);
  CHEAP(FEW, INVALID, read_bundle(io_path("fifo")), "regular");
}

static int set_up(void **state) {
  count_memory();
  return io_set_up(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(large), cmocka_unit_test(fifo)};
  return cmocka_run_group_tests(tests, set_up, io_tear_down);
}
