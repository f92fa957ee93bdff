/* Every allocation of reading and writing files, including jansson's, fails in turn: the failure is reported,
 * nothing leaks, and nothing is modified. */
#include "../bundle_kit.h"
#include "../failing_memory.h"
#include "io_vars_kit.h"

#include <jansson.h>

#include "model/cycles.h"

static bool json_refused; /* the failed allocation was jansson's */

static void *json_allocate(size_t bytes) {
  void *memory = allocate(NULL, bytes, sizeof(void *));
  json_refused |= !memory;
  return memory;
}
static void json_release(void *memory) {
  if (memory) release(NULL, memory, 0);
}

/* ---- operations ---- */
static clade_vars *vars, *other;
static const io_var model[] = {{"w", CLADE_F32, {2, {3, 4}}, true}, {"optimizer.w", CLADE_U8, {1, {5}}, false}};

static clade_status save(void) { return clade_vars_save(vars, io_path("save")); }
static clade_status load(void) { return clade_vars_load(other, io_path("load")); }
static clade_status load_wrong(void) {
  clade_status status = clade_vars_load(other, io_path("wrong"));
  return status == CLADE_NOT_FOUND && strstr(clade_last_error(), "does not fit") ? CLADE_OK : status;
}
static clade_status hash(void) {
  char text[65];
  return clade_vars_sha256(vars, text);
}
static clade_status checkpoint(void) {
  clade_checkpoint_dir *dir = NULL;
  clade_status status = clade_checkpoint_dir_open(io_path("checkpoints"), &dir);
  for (int step = 1; step <= 2 && status == CLADE_OK; step++)
    status = clade_checkpoint_save(dir, vars, step, "text", .keep = 1, .best = true);
  clade_checkpoint_dir_close(dir);
  return status;
}
static clade_status resume(void) {
  clade_checkpoint *c = NULL;
  clade_status status = clade_checkpoint_open(io_path("kept"), CLADE_CHECKPOINT_BEST, &c);
  if (status == CLADE_OK) status = clade_checkpoint_apply(c, other);
  clade_checkpoint_free(c);
  return status;
}
static clade_status tell(void) {
  clade_events *events = NULL;
  clade_status status = clade_events_open(io_path("logs"), 1, &events);
  if (status == CLADE_OK) status = clade_events_scalar(events, 1, "a,b", 0.5);
  if (status == CLADE_OK) status = clade_events_histogram(events, 1, "h", (float[]){1, 2}, 2);
  clade_events_close(events);
  return status;
}
static clade_status numpy(void) {
  clade_array array = {CLADE_F32, {2, {2, 3}}, (float[6]){0}, 24, NULL}, back = {0};
  clade_status status = clade_npy_write(io_path("x.npy"), &array);
  if (status == CLADE_OK) status = clade_npy_read(io_path("x.npy"), &back);
  clade_array_free(&back);
  return status;
}
static clade_status numpy_turned(void) {
  clade_array back = {0};
  clade_status status = clade_npy_read(io_path("turned.npy"), &back);
  clade_array_free(&back);
  return status;
}
static clade_status mnist(void) {
  clade_array array = {0};
  clade_status status = clade__idx_read(io_path("x.idx"), 100, &array);
  clade_array_free(&array);
  return status;
}
static clade_status cifar(void) {
  clade_array images, labels;
  clade_status status = clade__cifar_read(io_path("x.bin"), 1, &images, &labels);
  clade_array_free(&images);
  clade_array_free(&labels);
  return status;
}

/* ---- bundles; the binary is created before, since string builders have their own failures ---- */
static clade__text xclbin;
static clade_status bundle_write(void) {
  clade__bundle_draft draft = {kit_manifest(CLADE__TARGET_XILINX, CLADE__XCLBIN), xclbin.data, xclbin.length,
                               io_path("key.pem")};
  return clade__bundle_write(io_path("bundle"), false, &draft);
}
static clade_status bundle_directory(void) {
  clade__bundle_draft draft = {kit_manifest(CLADE__TARGET_XILINX, CLADE__XCLBIN), xclbin.data, xclbin.length, NULL};
  io_remove(io_path("bundles"));
  clade_status status = clade__bundle_write(io_path("bundles"), true, &draft);
  if (status != CLADE_OK && !access(io_path("bundles"), F_OK)) fail_msg("half a bundle is there");
  return status;
}
static clade_status bundle_read_from(const char *name) {
  clade__bundle bundle;
  clade_status status = clade__bundle_read(io_path(name), &bundle);
  clade__bundle_free(&bundle);
  return status;
}
static clade_status bundle_read(void) { return bundle_read_from("bundle"); }
static clade_status bundle_read_directory(void) { return bundle_read_from("bundles"); }
static clade_status keys(void) {
  clade__keys found;
  clade_status status = clade__keys_read(io_path("keys.pem"), &found);
  clade__keys_free(&found);
  return status;
}

static clade_status cycles_read(void) {
  cycles_device device;
  clade_status status = cycles_device_read(io_path("device.json"), &device);
  cycles_device_free(&device);
  return status;
}

static void each(const char *name, clade_status (*act)(void)) {
  long failures = 0;
  for (long n = 1;; n++) {
    const long before = atomic_load(&held);
    json_refused = false;
    arm_allocation(n, false);
    clade_status status = act();
    const bool refused = allocation_reached(n);
    arm_allocation(0, false);
    if (atomic_load(&held) != before)
      fail_msg("%s, allocation %ld: %ld pieces stay behind", name, n, atomic_load(&held) - before);
    if (!refused) {
      if (status != CLADE_OK) fail_msg("%s: %s", name, clade_last_error());
      break;
    }
    /* After a failed allocation, jansson may report malformed input. */
    if (status != CLADE_OK && status != CLADE_NO_MEMORY && !(json_refused && status == CLADE_CORRUPT))
      fail_msg("%s, allocation %ld: %s (%s)", name, n, clade_status_name(status), clade_last_error());
    failures += status == CLADE_NO_MEMORY;
  }
  assert_true(failures > 0);
}

static void all(void **state) {
  (void)state;
  static const unsigned char idx[] = {0, 0, 12, 1, 0, 0, 0, 1, 1, 2, 3, 4}, image[3073];
  static const char turned[] = "\x93NUMPY\1\0\x3c\0{'descr': '|i2', 'fortran_order': True, 'shape': (1, 2)}   \n....";
  const io_var wrong[] = {{"v", CLADE_F32, {1, {2}}, true}};
  clade_checkpoint_dir *dir;
  clade_vars *strange = io_vars(1, wrong, 0);
  OK(clade_vars_save(vars, io_path("load")));
  OK(clade_vars_save(strange, io_path("wrong")));
  OK(clade_checkpoint_dir_open(io_path("kept"), &dir));
  OK(clade_checkpoint_save(dir, vars, 1, "text", .best = true));
  clade_checkpoint_dir_close(dir);
  io_file("x.idx", idx, sizeof idx);
  io_file("x.bin", image, sizeof image);
  io_file("turned.npy", turned, sizeof turned - 1);
  each("save", save);
  each("load", load);
  each("load_wrong", load_wrong);
  each("hash", hash);
  each("checkpoint", checkpoint);
  each("resume", resume);
  each("tell", tell);
  each("numpy", numpy);
  each("numpy_turned", numpy_turned);
  each("mnist", mnist);
  each("cifar", cifar);
  xclbin = kit_xclbin();
  io_file("key.pem", KIT_PRIVATE_KEY, strlen(KIT_PRIVATE_KEY));
  io_file("keys.pem", KIT_PUBLIC_KEY, strlen(KIT_PUBLIC_KEY));
  each("bundle_write", bundle_write);
  each("bundle_directory", bundle_directory);
  each("bundle_read", bundle_read);
  each("bundle_read_directory", bundle_read_directory);
  each("keys", keys);
  /* Short strings: jansson 2.14 aborts if an allocation for a longer one fails. */
  static const char device[] =
      "{\"format\":1,\"name\":\"grid\",\"kind\":\"grid\",\"fmax_mhz\":{\"value\":100,\"source\":\"routed\"},"
      "\"rows\":4,\"columns\":2,\"tile_rows\":16,\"tile_columns\":8,\"element_bytes\":4,"
      "\"bandwidth_gbs\":1,\"from\":{\"rows\":\"a guess\"}}";
  io_file("device.json", device, sizeof device - 1);
  each("cycles_read", cycles_read);
  clade__text_free(&xclbin);
  assert_true(io_same(vars, other));
  assert_int_equal(io_entries(io_path("checkpoints")), 3); /* step 2, the best, the lock */
  clade_vars_release(strange);
}

static int set_up(void **state) {
  json_set_alloc_funcs(json_allocate, json_release);
  if (clade_init(.allocator = &hook) || io_device_set_up(state)) return -1;
  vars = io_vars(2, model, 1);
  other = io_vars(2, model, 2);
  return 0;
}
static int tear_down(void **state) {
  clade_vars_release(vars);
  clade_vars_release(other);
  return io_device_tear_down(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
