/* Every OpenCL call and every allocation of preparing kernels, failed once and from then on, with an empty cache and
 * with a full one: a status with a message or the right result, nothing held afterwards, and usable again. */
#include <setjmp.h>
#include <stdarg.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "layer/layer.h"
#include "unit/program_kernels.h"

enum { VARIANTS = 2 };
static clade_layer layer;
static char root[64];

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
  memcpy(memory, old, CLADE_MIN(old_bytes, bytes));
  release(user, old, old_bytes);
  return memory;
}
static const clade_allocator hook = {sizeof hook, NULL, allocate, resize, release};

/* ---- what is done again and again ---- */
static void empty_cache(void) {
  DIR *dir = opendir(root);
  for (struct dirent *e; dir && (e = readdir(dir));)
    if (e->d_name[0] != '.') unlinkat(dirfd(dir), e->d_name, 0);
  if (dir) closedir(dir);
}

/* From opening the device to giving it back. Wrong values count as a failure without a status. */
static clade_status work(void) {
  clade__request r[VARIANTS];
  clade__program_kernel k[VARIANTS];
  clade_device *device = NULL;
  clade_status status = clade_device_find(NULL, &device);
  if (status != CLADE_OK) return status;
  for (int i = 0; i < VARIANTS; i++) probe_request(i, &r[i]);
  status = clade__store_prepare(device, VARIANTS, r, k);
  for (int i = 0; i < VARIANTS && status == CLADE_OK; i++) {
    int value;
    status = probe_try(device, &k[i], &value);
    if (status == CLADE_OK) assert_int_equal(value, i + 2);
  }
  clade__store_flush(device);
  clade_device_release(device);
  return status;
}

/* Failing at n = 1, 2, … until nothing fails any more. */
typedef void arm_fn(long n, bool for_good);
typedef bool reached_fn(long n);
static void sweep(arm_fn *arm, reached_fn *reached, bool cold, bool for_good) {
  arm(0, false);
  empty_cache();
  assert_int_equal(work(), CLADE_OK);
  long objects = layer.live(NULL), before = atomic_load(&held), n = 0;
  for (bool more = true; more;) {
    if (cold) empty_cache();
    arm(++n, for_good);
    clade_fail(CLADE_OK, "%s", "");
    clade_status status = work();
    if (status != CLADE_OK && !*clade_last_error()) fail_msg("call %ld: status %d without a message", n, (int)status);
    more = reached(n);
    if (status != CLADE_OK && !more) fail_msg("after call %ld: %s", n - 1, clade_last_error());
    arm(0, false);
    if (layer.live(NULL) != objects) fail_msg("call %ld: %ld objects stay", n, layer.live(NULL) - objects);
    if (atomic_load(&held) != before) fail_msg("call %ld: %ld pieces stay", n, atomic_load(&held) - before);
    /* Cold, it takes as long as the rest, and the next round goes the same way up to its own fault. */
    if ((!cold || n % 4 == 0) && work() != CLADE_OK) fail_msg("after call %ld: %s", n, clade_last_error());
  }
  print_message("%ld points of failure\n", n - 1);
  assert_true(n > 15);
  assert_int_equal(layer.over(NULL), 0);
}

static void arm_call(long n, bool for_good) {
  layer.reset();
  layer.arm(&(clade_layer_fault){.nth = (uint64_t)n, .for_good = for_good});
}
static void arm_loss(long n, bool for_good) {
  layer.reset();
  layer.arm(&(clade_layer_fault){.nth = (uint64_t)n, .for_good = for_good, .error = CL_DEVICE_NOT_AVAILABLE});
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

static void cold_calls_fail(void **state) {
  (void)state;
  sweep(arm_call, call_reached, true, false);
}
static void cold_calls_fail_for_good(void **state) {
  (void)state;
  sweep(arm_call, call_reached, true, true);
}
static void warm_calls_fail(void **state) {
  (void)state;
  sweep(arm_call, call_reached, false, false);
}
static void device_is_lost(void **state) {
  (void)state;
  sweep(arm_loss, call_reached, false, false);
}
static void warm_start_has_no_source(void **state) {
  (void)state;
  arm_call(0, false);
  empty_cache();
  assert_int_equal(work(), CLADE_OK);
  assert_int_equal(layer.calls("clCreateProgramWithSource"), 1);
  layer.reset();
  assert_int_equal(work(), CLADE_OK);
  assert_int_equal(layer.calls("clCreateProgramWithSource"), 0);
  assert_int_equal(layer.calls("clCreateProgramWithBinary"), 1);
}
static void cold_allocations_fail(void **state) {
  (void)state;
  sweep(arm_allocation, allocation_reached, true, false);
}
static void warm_allocations_fail(void **state) {
  (void)state;
  sweep(arm_allocation, allocation_reached, false, false);
}
static void warm_allocations_fail_for_good(void **state) {
  (void)state;
  sweep(arm_allocation, allocation_reached, false, true);
}

static int set_up(void **state) {
  (void)state;
  strcpy(root, "/tmp/clade-faults-XXXXXX");
  if (!mkdtemp(root) || setenv("CLADE_CACHE_DIR", root, 1)) return -1;
  if (!clade_layer_open(&layer)) return -1;
  if (clade_init(.allocator = &hook) != CLADE_OK || work() != CLADE_OK || !layer.loaded()) {
    print_error("%s; loaded: %d\n", clade_last_error(), layer.loaded());
    return -1;
  }
  return 0;
}
static int tear_down(void **state) {
  (void)state;
  empty_cache();
  return rmdir(root);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cold_calls_fail),          cmocka_unit_test(cold_calls_fail_for_good),
      cmocka_unit_test(warm_calls_fail),          cmocka_unit_test(device_is_lost),
      cmocka_unit_test(warm_start_has_no_source), cmocka_unit_test(cold_allocations_fail),
      cmocka_unit_test(warm_allocations_fail),    cmocka_unit_test(warm_allocations_fail_for_good),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
