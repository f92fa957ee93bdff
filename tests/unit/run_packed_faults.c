/* Fault injection: every OpenCL call and every allocation of an execution that packs a variable fails in turn.
 * Required: an error with a message or the correct result, then a correct result, and no leaks. With the layer, on
 * PoCL. */
#include <stdatomic.h>

#include "layout_ops.h"

#include "layer.h"

enum { BATCH = 2, DEPTH = 7, OUT = 6 };

static clade_layer layer;
static atomic_long countdown; /* the failing allocation; 0: none */

static void *allocate(void *user, size_t bytes, size_t align) {
  (void)user;
  void *memory = NULL;
  if (atomic_load(&countdown) > 0 && atomic_fetch_sub(&countdown, 1) == 1) return NULL;
  return posix_memalign(&memory, align, bytes) == 0 ? memory : NULL;
}
static void *resize(void *user, void *old, size_t old_bytes, size_t bytes, size_t align) {
  void *memory = allocate(user, bytes, align);
  if (!memory) return NULL;
  memcpy(memory, old, old_bytes < bytes ? old_bytes : bytes);
  free(old);
  return memory;
}
static void release(void *user, void *memory, size_t bytes) {
  (void)user, (void)bytes;
  free(memory);
}

static void set(clade_vars *vars, float w) {
  float data[OUT * DEPTH];
  for (int i = 0; i < OUT * DEPTH; i++) data[i] = w;
  OK(clade_vars_set(vars, "w", data, sizeof data));
}

/* Reads the result if the execution succeeded. */
static clade_status execute(clade_run *run, float w) {
  float x[BATCH * DEPTH], y[BATCH * OUT];
  clade_ticket ticket;
  for (int i = 0; i < BATCH * DEPTH; i++) x[i] = 2;
  CLADE_TRY(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket));
  CLADE_TRY(clade_read(run, ticket, "y", y, sizeof y));
  for (int i = 0; i < BATCH * OUT; i++)
    if (y[i] != 2 * w * DEPTH) fail_msg("%g with weights of %g", (double)y[i], (double)w);
  return CLADE_OK;
}

static clade_func *product(clade_device *device) {
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(BATCH, DEPTH));
  clade_val w = clade_variable(g, "w", CLADE_F32, CLADE_SHAPE(OUT, DEPTH), (clade_initial){CLADE_INIT_FILL, 1, 0});
  clade_output(g, "y", lay2(g, x, w));
  return compiled(g, device);
}

static void faults(void **state) {
  clade_func *func = product(*state);
  clade_vars *vars;
  int called = 0, allocated = 0;
  OK(clade_vars_new(func, 0, &vars));
  long live = layer.live(NULL);
  for (int calls = 0; calls < 2; calls++)
    for (int n = 1, more = 1; more; n++) { /* until no call is left to fail */
      clade_run *run;
      OK(clade_run_new(func, vars, &run));
      set(vars, (float)n + 1);
      if (calls)
        layer.arm(&(clade_layer_fault){.nth = (uint64_t)n, .error = -6});
      else
        atomic_store(&countdown, n);
      clade_status status = execute(run, (float)n + 1);
      more = calls ? layer.failed() > 0 : atomic_load(&countdown) <= 0;
      layer.reset();
      atomic_store(&countdown, 0);
      if (status != CLADE_OK) assert_true(strlen(clade_last_error()) > 0);
      *(calls ? &called : &allocated) += status != CLADE_OK;
      OK(execute(run, (float)n + 1));
      set(vars, -1);
      OK(execute(run, -1));
      clade_run_free(run);
    }
  assert_true(called > 5 && allocated > 0);
  clade_vars_release(vars);
  clade_func_release(func);
  assert_true(layer.live(NULL) <= live + 8); /* the pool keeps some memory */
}

static int setup(void **state) {
  clade_allocator hook = {sizeof hook, NULL, allocate, resize, release};
  if (!clade_layer_open(&layer) || clade_init(.allocator = &hook) != CLADE_OK) return -1;
  return open_device(state);
}

/* Releasing the device frees everything. */
static int teardown(void **state) {
  close_device(state);
  return layer.live("mem") == 0 && layer.live("kernel") == 0 && layer.live("event") == 0 ? 0 : -1;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(faults)};
  return cmocka_run_group_tests_name("run_packed_faults", tests, setup, teardown);
}
