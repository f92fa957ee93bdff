/* Every OpenCL call and every allocation of loading a bundle and computing with it, failed once and from then on: a
 * status with a message or the right result, nothing held afterwards, and usable again. */
#include "kit.h"
#include "layer/layer.h"

static clade_layer layer;

/* ---- allocations that fail; counted, so that nothing stays behind ---- */
static atomic_long allocations, fail_at, held; /* fail_at: 0: none; negative: all from -fail_at on */
static bool refuse(void) {
  long n = atomic_fetch_add(&allocations, 1) + 1, at = atomic_load(&fail_at);
  return at > 0 ? n == at : at < 0 && n >= -at;
}
static void *allocate(void *user, size_t bytes, size_t align) {
  (void)user;
  void *memory = NULL;
  if (refuse() || posix_memalign(&memory, align, bytes)) return NULL;
  atomic_fetch_add(&held, 1);
  return memory;
}
static void release(void *user, void *memory, size_t bytes) {
  (void)user, (void)bytes;
  if (memory) atomic_fetch_sub(&held, 1);
  free(memory);
}
static void *resize(void *user, void *old, size_t old_bytes, size_t bytes, size_t align) {
  void *memory = allocate(user, bytes, align);
  if (!memory) return NULL;
  memcpy(memory, old, old_bytes < bytes ? old_bytes : bytes);
  release(user, old, old_bytes);
  return memory;
}
static const clade_allocator hook = {sizeof hook, NULL, allocate, resize, release};

/* From opening the accelerator to giving it back. */
static clade_status work(void) {
  clade_device *device;
  clade_func *func = NULL;
  clade_status status = clade_device_find("emulated", &device);
  if (status != CLADE_OK) return status;
  status = kit_compile_scale(device, &func);
  if (status == CLADE_OK) status = kit_run(func);
  clade_func_release(func);
  clade_device_release(device);
  return status;
}

/* Failing at n = 1, 2, … until nothing fails any more. */
typedef void arm_fn(long n, bool for_good);
typedef bool reached_fn(long n);
static void sweep(arm_fn *arm, reached_fn *reached, bool for_good) {
  arm(0, false);
  assert_int_equal(work(), CLADE_OK);
  long objects = layer.live(NULL), before = atomic_load(&held), n = 0;
  for (bool more = true; more;) {
    arm(++n, for_good);
    clade_fail(CLADE_OK, "%s", "");
    clade_status status = work();
    if (status != CLADE_OK && !*clade_last_error()) fail_msg("call %ld: status %d without a message", n, (int)status);
    more = reached(n);
    if (status != CLADE_OK && !more) fail_msg("after call %ld: %s", n - 1, clade_last_error());
    arm(0, false);
    if (layer.live(NULL) != objects) fail_msg("call %ld: %ld objects stay", n, layer.live(NULL) - objects);
    if (atomic_load(&held) != before) fail_msg("call %ld: %ld pieces stay", n, atomic_load(&held) - before);
    if (n % 4 == 0 && work() != CLADE_OK) fail_msg("after call %ld: %s", n, clade_last_error());
  }
  print_message("%ld points of failure\n", n - 1);
  assert_true(n > 15);
  assert_int_equal(layer.over(NULL), 0);
}

static void arm_call(long n, bool for_good) {
  layer.reset();
  layer.arm(&(clade_layer_fault){.nth = (uint64_t)n, .for_good = for_good});
}
static bool call_reached(long n) {
  (void)n;
  return layer.failed() > 0;
}
static void arm_allocation(long n, bool for_good) {
  atomic_store(&allocations, 0);
  atomic_store(&fail_at, for_good ? -n : n);
}
static bool allocation_reached(long n) { return atomic_load(&allocations) >= n; }

static void calls_fail(void **state) {
  (void)state;
  sweep(arm_call, call_reached, false);
  sweep(arm_call, call_reached, true);
}

static void allocations_fail(void **state) {
  (void)state;
  sweep(arm_allocation, allocation_reached, false);
  sweep(arm_allocation, allocation_reached, true);
}

static int set_up(void **state) {
  (void)state;
  if (!clade_layer_open(&layer)) return 1;
  check_ok(clade_init(.allocator = &hook));
  kit_folder_new();
  kit_binary binary = kit_compile(kit_source_text, true);
  clade__bundle_draft draft = kit_draft(binary);
  check_ok(clade__bundle_write(kit_path("one.bundle"), false, &draft));
  setenv("CLADE_BUNDLE_PATH", kit_path("one.bundle"), 1);
  clade__free(binary.data);
  return !layer.loaded();
}

static int tear_down(void **state) {
  (void)state;
  kit_folder_remove();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(calls_fail), cmocka_unit_test(allocations_fail)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
