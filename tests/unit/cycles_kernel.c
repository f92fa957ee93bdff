/* The cycle model of fpga/array.cl against the kernel's source, compiled as C with a counter in every pipelined
 * loop. */
#include "io_kit.h"
#include "model/cycles.h"

/* ---- OpenCL C emulation ---- */
typedef struct int4 {
  int s0, s1, s2, s3;
} int4;
typedef struct int8 {
  int s0, s1, s2, s3, s4, s5, s6, s7;
} int8;
typedef struct float16 {
  float s0;
} float16;
#define KERNEL(name)                  static void name
#define TENSOR(type, name)            type *restrict name, const int name##_at
#define PROGRAM(code, param)          (void)code, (void)param, (void)alpha;
#define program_run(codes, params, v) (v)[0]
#define min(a, b)                     CLADE_MIN(a, b)
#define max(a, b)                     CLADE_MAX(a, b)
#define WORD(sum)                     (uint)(sum)
#define UNROLL
#define PIPELINE
#define T   signed char
#define SUM int

static int64_t counted;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#define LINE      8192
#define NAME      array_8x8
#define PE_ROWS   8
#define PE_COLS   8
#define TILE_ROWS 64
#define TILE_COLS 64
#define DEPTH     32
#define LATENCY   16
#include "array_counted.h"
#undef NAME
#undef PE_ROWS
#undef PE_COLS
#undef TILE_ROWS
#undef TILE_COLS
#undef DEPTH
#undef LATENCY
#define NAME      array_3x5
#define PE_ROWS   3
#define PE_COLS   5
#define TILE_ROWS 9
#define TILE_COLS 20
#define DEPTH     7
#define LATENCY   4
#include "array_counted.h"
#pragma GCC diagnostic pop

typedef struct work {
  int8 size, map;
  int4 inner;
} work;

/* All operands refer to one element, 0. The loop over a tile's rows contains one over the columns, which takes the
 * cycles. */
static int64_t cycles_by_text(bool small, const work *w) {
  const int8 none = {0};
  const int4 zero = {0};
  int columns = w->size.s4 * w->size.s5, tile = small ? 20 : 64;
  size_t results = (size_t)w->size.s0 * (size_t)w->size.s1 * (size_t)w->size.s2 * (size_t)columns;
  uint e = 0, *y = calloc(results + 1, sizeof *y);
  signed char element = 0;
  assert_non_null(y);
  counted = 0;
  (small ? array_3x5 : array_8x8)(&element, 0, &element, 0, y, 0, w->size, w->inner, none, none, w->map, 1, none,
                                  (float16){0}, &e, 0, zero, &e, 0, zero, &e, 0, zero);
  free(y);
  return counted - (int64_t)w->size.s0 * w->size.s1 * w->size.s2 * ((columns + tile - 1) / tile);
}

static cycles_device device(bool small) {
  static const char json[] = "{\"format\":1,\"name\":\"%s\",\"kind\":\"clade\",\"fmax_mhz\":{\"value\":200,\"source\":"
                             "\"estimate\"},\"element_bytes\":1,\"bandwidth_gbs\":10,%s}";
  char text[512];
  cycles_device d;
  snprintf(text, sizeof text, json, small ? "3x5" : "8x8",
           small ? "\"rows\":3,\"columns\":5,\"tile_rows\":9,\"tile_columns\":20,\"slice\":7,\"latency\":4"
                 : "\"rows\":8,\"columns\":8");
  OK(cycles_device_parse("a device", text, strlen(text), &d));
  return d;
}

static void same(bool small, const cycles_work *c, const work *w) {
  cycles_device d = device(small);
  cycles_estimate e;
  OK(cycles_of(&d, &(cycles_call){.works = c, .n = 1}, &e));
  assert_int_equal(e.cycles, cycles_by_text(small, w));
  cycles_device_free(&d);
}

static void products(void **state) {
  (void)state;
  static const int sizes[] = {0, 1, 7, 8, 64, 65, 130}, depths[] = {0, 1, 7, 8, 31, 32, 33, 65};
  for (size_t i = 0; i < CLADE_COUNT(sizes); i++)
    for (size_t j = 0; j < CLADE_COUNT(sizes); j++)
      for (size_t l = 0; l < CLADE_COUNT(depths); l++) {
        int m = sizes[i], n = sizes[j], k = depths[l];
        cycles_work c = {.kind = CYCLES_GEMM, .gemm = {2, m, n, k}};
        work w = {{2, 1, m, 1, 1, n, k, n}, {0, 1, 0, 1, 1, 0, 0, 1}, {1, k, 1, 0}};
        same(i & 1, &c, &w);
      }
}

static void convolutions(void **state) {
  (void)state;
  static const struct {
    int size, taps, stride, pad;
  } windows[] = {{1, 1, 1, 0},  {8, 3, 1, 1},  {14, 3, 1, 0}, {14, 3, 2, 1},  {28, 5, 1, 2},
                 {28, 5, 1, 0}, {20, 7, 2, 3}, {9, 1, 2, 0},  {30, 11, 4, 2}, {5, 5, 1, 0}};
  static const int channels[] = {1, 3, 8}, filters[] = {2, 9, 70};
  for (size_t i = 0; i < CLADE_COUNT(windows); i++)
    for (size_t j = 0; j < CLADE_COUNT(channels); j++)
      for (size_t l = 0; l < CLADE_COUNT(filters); l++)
        for (int groups = 1; groups <= 2; groups++) {
          int size = windows[i].size, taps = windows[i].taps, stride = windows[i].stride, pad = windows[i].pad;
          int out = (size + 2 * pad - taps) / stride + 1;
          cycles_work c = {.kind = CYCLES_CONV,
                           .conv = {2, groups, channels[j] * groups, size, size, filters[l] * groups, out, out, taps,
                                    taps, stride, stride, pad, pad}};
          work w = {{2, groups, filters[l], 1, out, out, size, size},
                    {stride, 1, -pad, 1, stride, 1, -pad, 1},
                    {channels[j], taps, taps, 0}};
          same((i + j + l) & 1, &c, &w);
        }
}

static void reading_and_loops(void **state) {
  (void)state;
  cycles_device d = device(false);
  cycles_estimate e, slow;
  cycles_work c = {.kind = CYCLES_GEMM, .gemm = {1, 64, 64, 64}}, stream = {.kind = CYCLES_STREAM, .stream = {800}},
              huge = {.kind = CYCLES_GEMM, .gemm = {1, 1, INT32_MAX, INT32_MAX}};
  OK(cycles_of(&d, &(cycles_call){.works = &c, .n = 1}, &e));
  /* Columns, clear, first slice, all slices, store. */
  assert_int_equal(e.cycles, 64 + 64 + 2 * 32 * 64 + 64 * 64 + 64 * 64);
  assert_int_equal(e.bytes, 64 * 64 + 64 * 64 + 4 * 64 * 64);
  d.loop_cycles = 10; /* of 7: those four, plus one per slice in flight */
  OK(cycles_of(&d, &(cycles_call){.works = &c, .n = 1}, &slow));
  assert_int_equal(slow.cycles, e.cycles + 7 * 10);
  OK(cycles_of(&d, &(cycles_call){.works = &stream, .n = 1}, &e));
  assert_int_equal(e.cycles, 100);
  REFUSED(OVERFLOW, cycles_of(&d, &(cycles_call){.works = &huge, .n = 1}, &e), "too large to be walked");
  cycles_device_free(&d);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(convolutions),
                                     cmocka_unit_test(reading_and_loops)};
  return cmocka_run_group_tests(tests, io_set_up, io_tear_down);
}
