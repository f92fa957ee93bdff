/* Every allocation of reading and writing bundles, and of reading files of the cycle model, fails in turn. */
#include "../bundle_kit.h"
#include "io_memory_kit.h"

#include "model/cycles.h"

/* Created before, since string builders have their own failures. */
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

static void all(void **state) {
  (void)state;
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
}

static int set_up(void **state) { return fail_memory() ? -1 : io_set_up(state); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all)};
  return cmocka_run_group_tests(tests, set_up, io_tear_down);
}
