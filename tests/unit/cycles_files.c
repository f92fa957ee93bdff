/* Device files of the cycle model: those in the repository, bundles and manifests, and invalid files. */
#include "../bundle_kit.h"
#include "cycles_kit.h"

#include <jansson.h>

/* Each number in the repository's files names its source. */
static void sources_named(void **state) {
  (void)state;
  static const char *const names[] = {"gemm-hls-double",  "gemm-hls-half", "gemm-hls-single", "pipecnn-arria10",
                                      "pipecnn-stratix5", "rtl-ecp5",      "t2sp-arria10",    "t2sp-stratix10"};
  assert_int_equal(io_entries(DEVICES), CLADE_COUNT(names));
  for (size_t i = 0; i < CLADE_COUNT(names); i++) {
    char path[512];
    const char *key;
    json_t *value, *root;
    snprintf(path, sizeof path, DEVICES "/%s.json", names[i]);
    root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    json_object_foreach(root, key, value) {
      if (json_is_number(value) && strcmp(key, "format") && !json_object_get(json_object_get(root, "from"), key))
        fail_msg("%s: where was %s read?", names[i], key);
    }
    assert_non_null(json_object_get(json_object_get(root, "fmax_mhz"), "from"));
    json_decref(root);
  }
}

/* ---- manifests and bundles ---- */
static void refused_with(const clade__bundle_draft *draft, const char *words) {
  cycles_device d;
  const char *path = io_path("refused.bundle");
  OK(clade__bundle_write(path, false, draft));
  REFUSED(CORRUPT, cycles_device_read(path, &d), words);
  cycles_device_free(&d);
}

static clade_status of_manifest(const clade__manifest *manifest, cycles_device *d) {
  char *text;
  OK(clade__manifest_print(manifest, &text));
  clade_status status = cycles_device_parse("a manifest", text, strlen(text), d);
  clade__free(text);
  return status;
}

static void bundles(void **state) {
  (void)state;
  clade__text binary = kit_aocx();
  char *name = memmem(binary.data, binary.length, "relu_f32", 8);
  assert_non_null(name);
  memcpy(name, "array_i8", 8);
  clade__bundle_draft draft = {kit_manifest(CLADE__TARGET_INTEL, CLADE__AOCX), binary.data, binary.length, NULL};
  clade__bundle_define defines[] = {{"PE_ROWS", "16"}, {"DEPTH", "20"}};
  clade__bundle_kernel kernels[] = {kit_kernels[0], kit_kernels[0]};
  kernels[1].name = "array_i8";
  kernels[1].report.bandwidth_gbs = (clade__figure){34.1, CLADE__ESTIMATE, NULL};
  draft.manifest.kernels = kernels;
  draft.manifest.n_kernels = 2;
  draft.manifest.defines = defines;
  draft.manifest.n_defines = 2;
  cycles_device d;
  for (int form = 0; form < 3; form++) { /* a file, a directory, and the manifest in it */
    char path[256];
    snprintf(path, sizeof path, "%s", io_path(form ? "folder.bundle" : "file.bundle"));
    if (form < 2)
      OK(clade__bundle_write(path, form, &draft));
    else
      strcat(path, "/manifest.json");
    OK(cycles_device_read(path, &d));
    assert_string_equal(d.name, KIT_BOARD);
    assert_true(near(cycles_peak_gflops(&d), 2 * 16 * 8 * 0.2185));
    assert_string_equal(cycles_evidence(&d), "modeled(routed)");
    assert_string_equal(d.evidence, "simulated"); /* which does not concern times */
    assert_int_equal(d.tile_columns, 128);
    assert_int_equal(d.slice, 20);
    assert_int_equal(d.latency, 16);
    assert_int_equal(d.element_bytes, 1);
    cycles_device_free(&d);
  }
  kernels[1].name = "array_f32";
  draft.manifest.binary.bytes = binary.length;
  OK(of_manifest(&draft.manifest, &d));
  assert_int_equal(d.element_bytes, 4);
  cycles_device_free(&d);
  kernels[1].name = "array_i8";
  defines[0].text = "16 or so";
  refused_with(&draft, "a number from 1");
  defines[0].text = "0";
  refused_with(&draft, "a number from 1");
  defines[0].text = "999999999";
  refused_with(&draft, "rows is 1e+09");
  draft.manifest.n_kernels = 1;
  refused_with(&draft, "array_f32 or array_i8");
  clade__text_free(&binary);

  draft = (clade__bundle_draft){kit_manifest(CLADE__TARGET_RTL, CLADE__NOTHING), NULL, 0, NULL};
  clade__bundle_define parameters[] = {{"ROWS", "8"}, {"COLS", "4"}, {"LOG_DEPTH", "5"}};
  draft.manifest.kernels = kernels;
  draft.manifest.n_kernels = 2;
  draft.manifest.defines = parameters;
  draft.manifest.n_defines = 2;
  refused_with(&draft, "defines.LOG_DEPTH is missing");
  draft.manifest.n_defines = 3;
  OK(clade__bundle_write(io_path("rtl.bundle"), false, &draft));
  OK(cycles_device_read(io_path("rtl.bundle"), &d));
  assert_int_equal(d.kind, CYCLES_ARRAY);
  assert_int_equal(d.columns, 4);
  cycles_device_free(&d);
  REFUSED(NOT_FOUND, cycles_device_read(io_path("nowhere"), &d), "nowhere");
}

/* ---- invalid files ---- */
static clade_status tried(const char *json, size_t bytes) {
  cycles_device d;
  clade_status status = cycles_device_parse("a device", json, bytes, &d);
  cycles_device_free(&d);
  return status;
}

static void wrong_values(void **state) {
  (void)state;
  static const char *const wrongs[] = {"null", "true", "\"much\"", "-1", "1e300", "99999999999999999999",
                                       "[1]",  "{}",   "1e-30"};
  json_t *good = json_load_file(DEVICES "/pipecnn-arria10.json", 0, NULL), *value;
  const char *key;
  assert_non_null(good);
  json_object_set_new(good, "ii", json_integer(1));
  json_object_set_new(good, "tile_cycles", json_integer(1));
  json_object_set_new(good, "link_gbs", json_integer(1));
  json_object_foreach(good, key, value) {
    for (size_t i = 0; i < CLADE_COUNT(wrongs); i++) {
      json_t *one = json_copy(good), *wrong = json_loads(wrongs[i], JSON_DECODE_ANY, NULL);
      bool fits = (!strcmp(key, "name") && json_is_string(wrong)) || (!strcmp(key, "from") && json_is_object(wrong)) ||
                  (!strcmp(key, "link_gbs") && i == 8); /* slow, but a valid number */
      if (wrong)
        json_object_set_new(one, key, wrong);
      else
        json_object_del(one, key); /* a number that the JSON parser refuses */
      char *text = json_dumps(one, 0);
      bool optional = !wrong && !strstr("format name kind fmax_mhz rows columns tile_rows tile_columns element_bytes "
                                        "bandwidth_gbs dsps_per_mac",
                                        key);
      if ((tried(text, strlen(text)) == CLADE_OK) != (fits || optional)) fail_msg("%s = %s", key, wrongs[i]);
      free(text);
      json_decref(one);
    }
  }
  json_object_set_new(good, "frequency", json_integer(1));
  char *text = json_dumps(good, 0);
  REFUSED(CORRUPT, tried(text, strlen(text)), "frequency is not known");
  free(text);
  json_decref(good);
  static const struct {
    const char *json, *words;
  } more[] = {{GRID ",\"rows\":4}", "duplicate"},
              {GRID ",\"log_depth\":3}", "log_depth"},
              {GRID ",\"dsps\":63,\"dsps_per_mac\":1}", "need 64 DSPs"},
              {GRID ",\"dsps\":63}", "dsps_per_mac"},
              {GRID ",\"latency\":4}", "of kind grid does not have"},
              {GRID ",\"programming_seconds\":99999999999999999999}", "no JSON"},
              {"", "no JSON"},
              {"[]", "an object is expected"},
              {"{\"interface\":1}", "format"}};
  for (size_t i = 0; i < CLADE_COUNT(more); i++)
    REFUSED(CORRUPT, tried(more[i].json, strlen(more[i].json)), more[i].words);
  char *deep = malloc(CLADE__BUNDLE_MANIFEST_BYTES + 1);
  assert_non_null(deep);
  memset(deep, '[', CLADE__BUNDLE_MANIFEST_BYTES + 1);
  REFUSED(CORRUPT, tried(deep, 1 << 16), "no JSON");
  REFUSED(CORRUPT, tried(deep, CLADE__BUNDLE_MANIFEST_BYTES + 1), "at most");
  free(deep);
}

static void damaged(void **state) {
  (void)state;
  clade__bytes file;
  OK(clade__file_read(DEVICES "/t2sp-stratix10.json", 1 << 20, &file));
  assert_int_equal(tried((char *)file.data, file.n), CLADE_OK);
  for (size_t n = 0; n < file.n - 2; n++) assert_int_equal(tried((char *)file.data, n), CLADE_CORRUPT);
  unsigned refused = 0;
  for (uint32_t i = 0; i < 2000; i++) {
    uint32_t out[4];
    clade__philox(1, i, 0, out);
    unsigned char *at = &file.data[out[0] % file.n], before = *at;
    *at ^= (unsigned char)(1u << out[1] % 8);
    refused += tried((char *)file.data, file.n) != CLADE_OK;
    *at = before;
  }
  assert_true(refused > 500); /* others changed a letter of a string or a digit */
  clade__free(file.data);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sources_named), cmocka_unit_test(bundles),
                                     cmocka_unit_test(wrong_values), cmocka_unit_test(damaged)};
  return cmocka_run_group_tests(tests, io_set_up, io_tear_down);
}
