/* The cycle model: published measurements within its range, the array of fpga/rtl exactly, and its formulas by hand. */
#include "cycles_kit.h"
#include "model/array.h"

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

#define GEMM(...)                                \
  {                                              \
    .kind = CYCLES_GEMM, .gemm = { __VA_ARGS__ } \
  }
#define CONV(...)                                \
  {                                              \
    .kind = CYCLES_CONV, .conv = { __VA_ARGS__ } \
  }

/* ---- published measurements ---- */
/* 16 images: batch, groups, channels, height, width, filters, height and width of the result, kernel. */
#define LAYER(groups, channels, size, filters, out, kernel) \
  CONV(16, groups, channels, size, size, filters, out, out, kernel, kernel, 1, 1, 0, 0)
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
  double milliseconds, gflops; /* per image; of a product */
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
    print_message("%-18s %10.4g s published, %.4g to %.4g modeled (%.4g to %.4g GFLOP/s of %.4g)\n",
                  published[i].device, seconds, e.low, e.high, e.flops / e.high / 1e9, e.flops / e.low / 1e9,
                  cycles_peak_gflops(&d));
    assert_true(e.low <= seconds && seconds <= e.high);
    assert_true(e.high < 2 * e.low); /* the range is narrow enough to be useful */
    assert_int_equal(e.bound, CYCLES_COMPUTE);
    assert_string_equal(cycles_evidence(&d), "modeled(routed)");
    cycles_device_free(&d);
  }
}

/* ---- array ---- */
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
    assert_string_equal(cycles_evidence(&d), "modeled(report)");
    for (size_t i = 0; i < 1000; i++) {
      array_work w = {sizes[i / 100], sizes[i / 10 % 10], depths[i % 10]};
      cycles_work works[] = {GEMM(3, w.m, w.n, w.k), CONV(1, 1, w.k, 1, w.m, w.n, 1, w.m, 1, 1, 1, 1, 0, 0)};
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

/* ---- grid, by hand ---- */
static void formulas(void **state) {
  (void)state;
  cycles_device whole = parsed(GRID "}"), cut = parsed(GRID ",\"edges\":\"cut\",\"ii\":3,\"result_bytes\":2}");
  cycles_work gemm[] = {GEMM(2, 17, 9, 20)};
  /* 2 x 2 tiles of 4 x 4 steps, 3 along k; or 5 x 5 steps. */
  assert_int_equal(of(&whole, gemm, 1).cycles, 2 * 4 * (4 * 4 * 3 + 5));
  assert_int_equal(of(&cut, gemm, 1).cycles, 2 * (5 * 5 * 3 * 3 + 4 * 5));
  assert_int_equal(of(&whole, gemm, 1).bytes, 2 * 4 * (17 * 20 * 2 + 20 * 9 * 2 + 17 * 9));
  assert_int_equal(of(&cut, gemm, 1).bytes, 2 * (4 * (17 * 20 * 2 + 20 * 9 * 2) + 2 * 17 * 9));
  assert_true(of(&whole, gemm, 1).flops == 2. * 2 * 17 * 9 * 20);
  assert_true(near(cycles_peak_gflops(&whole), 2 * 64 * 0.1));
  assert_true(near(cycles_peak_gflops(&cut), 2 * 64 * 0.1 / 3));
  cycles_device_free(&cut);

  /* 2 groups of 3 channels, 5 filters: 32 positions, 27 along k, 2 x 1 tiles each. Lines of 8 x 3 elements. */
  cycles_work conv[] = {CONV(1, 2, 6, 8, 8, 10, 4, 8, 3, 3, 1, 1, 0, 0)};
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
  cycles_work odd[] = {CONV(1, 4, 6, 8, 8, 10, 4, 8, 3, 3, 1, 1, 0, 0)}, negative[] = {GEMM(1, -1, 2, 3)},
              huge[] = {GEMM(INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX)},
              places[] = {CONV(INT32_MAX, 1, 1, 1, 1, 1, INT32_MAX, INT32_MAX, 1, 1, 1, 1, 0, 0)};
  REFUSED(BAD_SHAPE, cycles_of(&whole, &(cycles_call){.works = odd, .n = 1}, &e), "4 groups");
  REFUSED(BAD_SHAPE, cycles_of(&whole, &(cycles_call){.works = negative, .n = 1}, &e), "-1");
  REFUSED(OVERFLOW, cycles_of(&whole, &(cycles_call){.works = huge, .n = 1}, &e), "too much");
  REFUSED(OVERFLOW, cycles_of(&whole, &(cycles_call){.works = places, .n = 1}, &e), "too large");
  REFUSED(BAD_SHAPE, cycles_of(&whole, &(cycles_call){.moved_bytes = -1}, &e), "-1 bytes");
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
  assert_true(near(e.low, compute + 0.002)); /* 64 of 80 DSPs: the grid may be optimal */
  assert_true(near(e.high, compute / 0.55 + 0.002));
  d.bandwidth_gbs = 1;
  assert_int_equal(of(&d, gemm, 1).bound, CYCLES_MEMORY);
  e = of(&d, stream, 1);
  assert_int_equal(e.cycles, 10000);
  assert_int_equal(e.bound, CYCLES_TRANSFER); /* launch time */
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
  d.dsps = 64; /* all of them: 0.99 is the maximum */
  assert_true(near(of(&d, gemm, 1).low, compute / 0.99));
  cycles_device_free(&d);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(published_figures), cmocka_unit_test(array_to_the_cycle),
                                     cmocka_unit_test(formulas), cmocka_unit_test(ranges_and_bounds)};
  return cmocka_run_group_tests(tests, io_set_up, io_tear_down);
}
