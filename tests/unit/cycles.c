/* The cycle model: published figures within its range, the array of fpga/rtl to the cycle, its formulas by hand, and
 * files that nobody should believe. */
#include "../bundle_kit.h"
#include "io_kit.h"

#include <jansson.h>

#include "model/array.h"
#include "model/cycles.h"

static cycles_device device_of(const char *name) {
  cycles_device d;
  char path[512];
  snprintf(path, sizeof path, DEVICES "/%s.json", name);
  OK(cycles_device_read(path, &d));
  return d;
}

static cycles_device parsed(const char *json) {
  cycles_device d;
  OK(cycles_device_parse("a device", json, strlen(json), &d));
  return d;
}

static cycles_estimate of(const cycles_device *d, const cycles_work *works, size_t n) {
  cycles_estimate e;
  OK(cycles_of(d, &(cycles_call){.works = works, .n = n}, &e));
  return e;
}

static bool near(double a, double b) { return a > 0.999999 * b && a < 1.000001 * b; }

#define GEMM(...)                                \
  {                                              \
    .kind = CYCLES_GEMM, .gemm = { __VA_ARGS__ } \
  }
#define CONV(...)                                \
  {                                              \
    .kind = CYCLES_CONV, .conv = { __VA_ARGS__ } \
  }

/* ---- published figures ---- */
/* 16 images at once: batch, groups, channels, height, width, filters, height and width of the result, kernel. */
#define LAYER(groups, channels, size, filters, out, kernel) \
  CONV(16, groups, channels, size, size, filters, out, out, kernel, kernel)
static const cycles_work alexnet[] = {LAYER(1, 3, 227, 96, 55, 11),  LAYER(2, 96, 27, 256, 27, 5),
                                      LAYER(1, 256, 13, 384, 13, 3), LAYER(2, 384, 13, 384, 13, 3),
                                      LAYER(2, 384, 13, 256, 13, 3), GEMM(1, 16, 4096, 9216),
                                      GEMM(1, 16, 4096, 4096),       GEMM(1, 16, 1000, 4096)};
static const cycles_work vgg16[] = {
    LAYER(1, 3, 224, 64, 224, 3),    LAYER(1, 64, 224, 64, 224, 3), LAYER(1, 64, 112, 128, 112, 3),
    LAYER(1, 128, 112, 128, 112, 3), LAYER(1, 128, 56, 256, 56, 3), LAYER(1, 256, 56, 256, 56, 3),
    LAYER(1, 256, 56, 256, 56, 3),   LAYER(1, 256, 28, 512, 28, 3), LAYER(1, 512, 28, 512, 28, 3),
    LAYER(1, 512, 28, 512, 28, 3),   LAYER(1, 512, 14, 512, 14, 3), LAYER(1, 512, 14, 512, 14, 3),
    LAYER(1, 512, 14, 512, 14, 3),   GEMM(1, 16, 4096, 25088),      GEMM(1, 16, 4096, 4096),
    GEMM(1, 16, 1000, 4096)};
static const cycles_work arria10[] = {GEMM(1, 10240, 8192, 16384)}, stratix10[] = {GEMM(1, 14336, 16384, 16384)},
                         halves[] = {GEMM(1, 10 * 1904, 10 * 1920, 16384)},
                         singles[] = {GEMM(1, 10 * 960, 10 * 1632, 16384)},
                         doubles[] = {GEMM(1, 10 * 864, 10 * 864, 16384)};

static const struct {
  const char *device;
  const cycles_work *works;
  size_t n;
  double milliseconds, gflops; /* of an image; of a product */
} published[] = {{"pipecnn-stratix5", alexnet, CLADE_COUNT(alexnet), 15, 0},
                 {"pipecnn-stratix5", vgg16, CLADE_COUNT(vgg16), 254, 0},
                 {"pipecnn-arria10", alexnet, CLADE_COUNT(alexnet), 5, 0},
                 {"pipecnn-arria10", vgg16, CLADE_COUNT(vgg16), 110, 0},
                 {"t2sp-arria10", arria10, 1, 0, 620},
                 {"t2sp-stratix10", stratix10, 1, 0, 1790},
                 {"gemm-hls-half", halves, 1, 0, 462},
                 {"gemm-hls-single", singles, 1, 0, 301},
                 {"gemm-hls-double", doubles, 1, 0, 132}};

static void published_figures(void **state) {
  (void)state;
  for (size_t i = 0; i < CLADE_COUNT(published); i++) {
    cycles_device d = device_of(published[i].device);
    cycles_estimate e = of(&d, published[i].works, published[i].n);
    double seconds =
        published[i].gflops > 0 ? e.flops / published[i].gflops / 1e9 : 16 * published[i].milliseconds / 1e3;
    print_message("%-18s %10.4g s published, %.4g to %.4g modelled (%.4g to %.4g GFLOP/s of %.4g)\n",
                  published[i].device, seconds, e.low, e.high, e.flops / e.high / 1e9, e.flops / e.low / 1e9,
                  cycles_peak_gflops(&d));
    assert_true(e.low <= seconds && seconds <= e.high);
    assert_true(e.high < 2 * e.low); /* the range says something */
    assert_int_equal(e.bound, CYCLES_COMPUTE);
    assert_string_equal(cycles_evidence(&d), "modelled(routed)");
    cycles_device_free(&d);
  }
}

/* Each number of a file in the tree says where it was read. */
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

/* ---- the array ---- */
static void array_to_the_cycle(void **state) {
  (void)state;
  static const int64_t sizes[] = {0, 1, 2, 7, 8, 9, 31, 64, 65, 300},
                       depths[] = {0, 1, 5, 24, 25, 26, 255, 256, 257, 65535};
  static const array_shape shapes[] = {{8, 8, 8}, {3, 5, 5}, {4, 4, 8}, {2, 4, 9}, {1, 1, 1}};
  for (size_t s = 0; s < CLADE_COUNT(shapes); s++) {
    char json[256];
    snprintf(json, sizeof json,
             "{\"format\":1,\"name\":\"array\",\"kind\":\"array\",\"fmax_mhz\":{\"value\":50,\"source\":\"estimate\"},"
             "\"rows\":%d,\"columns\":%d,\"log_depth\":%d,\"element_bytes\":1,\"bandwidth_gbs\":1}",
             shapes[s].rows, shapes[s].cols, shapes[s].log_depth);
    cycles_device d = parsed(json);
    assert_string_equal(cycles_evidence(&d), "modelled(report)");
    for (size_t i = 0; i < 1000; i++) {
      array_work w = {sizes[i / 100], sizes[i / 10 % 10], depths[i % 10]};
      cycles_work works[] = {GEMM(3, w.m, w.n, w.k), CONV(1, 1, w.k, 1, w.m, w.n, 1, w.m, 1, 1)};
      array_beats beats = array_count(&shapes[s], &w);
      int64_t bytes = beats.a * shapes[s].rows + beats.b * shapes[s].cols + beats.out * shapes[s].cols * 4;
      cycles_estimate e = of(&d, works, 2);
      assert_int_equal(e.cycles, 4 * array_cycles(&shapes[s], &w));
      assert_int_equal(e.bytes, 4 * bytes);
    }
    cycles_estimate e;
    cycles_work tall[] = {GEMM(1, 8, 8, 65536)}, stream[] = {{.kind = CYCLES_STREAM, .stream = {8}}};
    REFUSED(UNSUPPORTED, cycles_of(&d, &(cycles_call){.works = tall, .n = 1}, &e), "more than its counters hold");
    REFUSED(UNSUPPORTED, cycles_of(&d, &(cycles_call){.works = stream, .n = 1}, &e), "products and nothing else");
    cycles_device_free(&d);
  }
  cycles_device board = device_of("rtl-ecp5");
  cycles_work w[] = {GEMM(1, 64, 64, 64)};
  assert_int_equal(of(&board, w, 1).bound, CYCLES_MEMORY); /* SPI */
  cycles_device_free(&board);
}

/* ---- the grid, by hand ---- */
#define GRID                                                                                              \
  "{\"format\":1,\"name\":\"grid\",\"kind\":\"grid\",\"fmax_mhz\":{\"value\":100,\"source\":\"routed\"}," \
  "\"rows\":4,\"columns\":2,\"depth\":8,\"tile_rows\":16,\"tile_columns\":8,\"element_bytes\":4,"         \
  "\"bandwidth_gbs\":1,\"tile_cycles\":5"

static void formulas(void **state) {
  (void)state;
  cycles_device whole = parsed(GRID "}"), cut = parsed(GRID ",\"edges\":\"cut\",\"ii\":3,\"result_bytes\":2}");
  cycles_work gemm[] = {GEMM(2, 17, 9, 20)};
  /* 2 x 2 tiles of 4 x 4 steps, 3 along k; or 5 x 5 of the steps. */
  assert_int_equal(of(&whole, gemm, 1).cycles, 2 * 4 * (4 * 4 * 3 + 5));
  assert_int_equal(of(&cut, gemm, 1).cycles, 2 * (5 * 5 * 3 * 3 + 4 * 5));
  assert_int_equal(of(&whole, gemm, 1).bytes, 2 * 4 * (17 * 20 * 2 + 20 * 9 * 2 + 17 * 9));
  assert_int_equal(of(&cut, gemm, 1).bytes, 2 * (4 * (17 * 20 * 2 + 20 * 9 * 2) + 2 * 17 * 9));
  assert_true(of(&whole, gemm, 1).flops == 2. * 2 * 17 * 9 * 20);
  assert_true(near(cycles_peak_gflops(&whole), 2 * 64 * 0.1));
  assert_true(near(cycles_peak_gflops(&cut), 2 * 64 * 0.1 / 3));
  cycles_device_free(&cut);

  /* 2 groups of 3 channels, 5 filters: 32 places, 27 along k, 2 x 1 tiles each. Lines of 8 x 3 elements. */
  cycles_work conv[] = {CONV(1, 2, 6, 8, 8, 10, 4, 8, 3, 3)};
  cycles_device lines = parsed(GRID ",\"line_bytes\":288}"), few = parsed(GRID ",\"line_bytes\":287}"),
                channels = parsed(GRID ",\"along\":\"channels\"}");
  assert_int_equal(of(&whole, conv, 1).cycles, 2 * 2 * (4 * 4 * 4 + 5));
  assert_int_equal(of(&channels, conv, 1).cycles, 2 * 2 * (4 * 4 * 9 + 5));
  assert_int_equal(of(&lines, conv, 1).bytes, 2 * 4 * (8 * 8 * 3 + 5 * 27 * 2 + 32 * 5));
  assert_int_equal(of(&few, conv, 1).bytes, 2 * 4 * (32 * 27 + 5 * 27 * 2 + 32 * 5));
  cycles_device_free(&lines);
  cycles_device_free(&few);
  cycles_device_free(&channels);

  cycles_estimate e;
  cycles_work odd[] = {CONV(1, 4, 6, 8, 8, 10, 4, 8, 3, 3)}, negative[] = {GEMM(1, -1, 2, 3)},
              huge[] = {GEMM(INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX)},
              places[] = {CONV(INT32_MAX, 1, 1, 1, 1, 1, INT32_MAX, INT32_MAX, 1, 1)};
  REFUSED(SHAPE, cycles_of(&whole, &(cycles_call){.works = odd, .n = 1}, &e), "4 groups");
  REFUSED(SHAPE, cycles_of(&whole, &(cycles_call){.works = negative, .n = 1}, &e), "-1");
  REFUSED(OVERFLOW, cycles_of(&whole, &(cycles_call){.works = huge, .n = 1}, &e), "too much");
  REFUSED(OVERFLOW, cycles_of(&whole, &(cycles_call){.works = places, .n = 1}, &e), "too large");
  REFUSED(SHAPE, cycles_of(&whole, &(cycles_call){.moved_bytes = -1}, &e), "-1 bytes");
  cycles_device_free(&whole);
}

static void ranges_and_bounds(void **state) {
  (void)state;
  cycles_device d =
      parsed(GRID ",\"link_gbs\":2,\"programming_seconds\":3,\"launch_seconds\":0.002,\"stream_bytes\":100,"
                  "\"dsps\":80,\"dsps_per_mac\":1}");
  cycles_work gemm[] = {GEMM(1, 1600, 800, 8000)}, stream[] = {{.kind = CYCLES_STREAM, .stream = {1000000}}};
  d.bandwidth_gbs = 1000;
  cycles_estimate e = of(&d, gemm, 1);
  double compute = (100. * 100 * (16 * 1000 + 5)) / 100e6;
  assert_int_equal(e.bound, CYCLES_COMPUTE);
  assert_true(near(e.compute_seconds, compute) && e.memory_seconds == 0);
  assert_true(near(e.low, compute + 0.002)); /* 64 of 80 DSPs: the grid itself may be at its best */
  assert_true(near(e.high, compute / 0.55 + 0.002));
  d.bandwidth_gbs = 1;
  assert_int_equal(of(&d, gemm, 1).bound, CYCLES_MEMORY);
  e = of(&d, stream, 1);
  assert_int_equal(e.cycles, 10000);
  assert_int_equal(e.bound, CYCLES_TRANSFER); /* the launch */
  assert_true(near(e.low, 1e-3 / 0.99 + 2e-3) && near(e.high, 1e-3 / 0.55 + 2e-3));
  d.launch_seconds = 0;
  assert_int_equal(of(&d, stream, 1).bound, CYCLES_MEMORY);
  OK(cycles_of(&d, &(cycles_call){stream, 1, 20000000, 0.001}, &e));
  assert_int_equal(e.bound, CYCLES_TRANSFER);
  assert_true(near(e.transfer_seconds, 0.01) && near(e.programming_seconds, 0.003));
  assert_true(near(e.low, 0.011 / 0.99 + 0.003) && near(e.high, 0.011 / 0.55 + 0.003));
  OK(cycles_of(&d, &(cycles_call){stream, 1, 0, 1}, &e));
  assert_int_equal(e.bound, CYCLES_REPROGRAMMING);
  d.bandwidth_gbs = 1000;
  d.dsps = 64; /* all of them: 0.99 is the most */
  assert_true(near(of(&d, gemm, 1).low, compute / 0.99));
  cycles_device_free(&d);
}

/* ---- manifests and bundles ---- */
static void refused_with(const clade__bundle_draft *draft, const char *words) {
  cycles_device d;
  const char *path = io_path("refused.bundle");
  OK(clade__bundle_write(path, false, draft));
  REFUSED(CORRUPT, cycles_device_read(path, &d), words);
  cycles_device_free(&d);
}

static void bundles(void **state) {
  (void)state;
  clade__text binary = kit_xclbin();
  clade__bundle_draft draft = {kit_manifest(CLADE__TARGET_XILINX, CLADE__XCLBIN), binary.data, binary.length, NULL};
  cycles_device d;
  for (int form = 0; form < 3; form++) { /* a file, a directory, the manifest in it */
    char path[256];
    snprintf(path, sizeof path, "%s", io_path(form ? "folder.bundle" : "file.bundle"));
    if (form < 2)
      OK(clade__bundle_write(path, form, &draft));
    else
      strcat(path, "/manifest.json");
    OK(cycles_device_read(path, &d));
    assert_string_equal(d.name, KIT_VBNV);
    assert_true(near(cycles_peak_gflops(&d), 2 * 16 * 8 * 0.2185));
    assert_string_equal(cycles_evidence(&d), "modelled(routed)");
    assert_int_equal(d.tile_columns, 64);
    assert_int_equal(d.result_bytes, 4);
    cycles_device_free(&d);
  }
  clade__bundle_define defines[CLADE_COUNT(kit_defines)];
  memcpy(defines, kit_defines, sizeof defines);
  draft.manifest.defines = defines;
  draft.manifest.n_defines--;
  refused_with(&draft, "defines.ELEMENT_BYTES is missing");
  draft.manifest.n_defines++;
  defines[0].text = "16 or so";
  refused_with(&draft, "whole number");
  defines[0].text = "999999999";
  refused_with(&draft, "rows is 1e+09");
  clade__bundle_kernel kernel = kit_kernels[0];
  kernel.report.bandwidth_gbs = (clade__figure){0};
  draft.manifest.kernels = &kernel;
  refused_with(&draft, "bandwidth_gbs");
  REFUSED(NOT_FOUND, cycles_device_read(io_path("nowhere"), &d), "nowhere");
  clade__text_free(&binary);
}

/* ---- files that nobody should believe ---- */
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
                  (!strcmp(key, "link_gbs") && i == 8); /* slow, and a number */
      if (wrong)
        json_object_set_new(one, key, wrong);
      else
        json_object_del(one, key); /* a number that JSON's own reader refuses */
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
  assert_true(refused > 500); /* the rest changed a letter of a text, or a digit */
  clade__free(file.data);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(published_figures),  cmocka_unit_test(sources_named),
                                     cmocka_unit_test(array_to_the_cycle), cmocka_unit_test(formulas),
                                     cmocka_unit_test(ranges_and_bounds),  cmocka_unit_test(bundles),
                                     cmocka_unit_test(wrong_values),       cmocka_unit_test(damaged)};
  return cmocka_run_group_tests(tests, io_set_up, io_tear_down);
}
