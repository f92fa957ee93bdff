/* Large results, written with non-temporal stores, and blocked transposes: exact, for lines with any alignment and
 * partial ends. */
#include "op/dims.h"
#include "plan_kit.h"

enum { CHANNELS = 45, WIDE = 20 };

/* Number of rows of `columns` floats for which clade__streams holds. */
static int rows_of(const clade_device_info *info, int columns) {
  return (int)(clade__last_cache(info) * 2 / 3 / (4 * (uint64_t)columns)) + 7;
}

static bool uses(const clade_func *func, const char *kernel) {
  bool found = false;
  for (size_t i = 0; i < func->n_steps; i++)
    found |= func->steps[i].launch && strcmp(func->steps[i].launch->kernel, kernel) == 0;
  return found;
}

/* Must use that kernel on a CPU; NULL: any. */
static uint32_t *run_of(clade_graph *g, clade_device *device, const char *kernel, const uint32_t *x, size_t n,
                        size_t results) {
  clade_func *func = compiled(g, device);
  if (kernel && clade__device_info(device)->device_class == CLADE_CPU) assert_true(uses(func, kernel));
  uint32_t *y = malloc(results * sizeof *y);
  clade_run *run;
  clade_ticket ticket;
  assert_non_null(y);
  OK(clade_run_new(func, NULL, &run));
  OK(clade_execute(run, CLADE_FEEDS({"x", x, n * sizeof *x, NULL}), &ticket));
  OK(clade_read(run, ticket, "y", y, results * sizeof *y));
  clade_run_free(run);
  clade_func_release(func);
  return y;
}

/* Images of `channels` by `pixels` to channels last; with one image, a matrix transpose. */
static void turned(clade_device *device, int images, int channels, int pixels) {
  const size_t n = (size_t)images * (size_t)channels * (size_t)pixels;
  uint32_t *x = malloc(n * sizeof *x);
  clade_graph *g = graph_new();
  assert_non_null(x);
  const clade_device_info *info = clade__device_info(device);
  const clade_type type = {.dtype = CLADE_I32, .shape = CLADE_SHAPE(images, pixels, channels)};
  if (info->device_class == CLADE_CPU) assert_true(clade__streams(info, &type));
  for (size_t i = 0; i < n; i++) x[i] = (uint32_t)i;
  clade_val v = clade_input(g, "x", CLADE_I32, CLADE_SHAPE(images, channels, pixels));
  clade_output(g, "y", clade_transpose(g, v, 3, (int[]){0, 2, 1}));
  uint32_t *y = run_of(g, device, NULL, x, n, n);
  size_t wrong = 0;
  for (size_t i = 0; i < n; i++) {
    size_t image = i / ((size_t)channels * (size_t)pixels), at = i % ((size_t)channels * (size_t)pixels);
    size_t from = (image * (size_t)channels + at % (size_t)channels) * (size_t)pixels + at / (size_t)channels;
    wrong += y[i] != x[from];
  }
  if (wrong) fail_msg("%zu of %zu elements are wrong: %d of %d x %d", wrong, n, images, channels, pixels);
  free(x);
  free(y);
}

static void transposes(void **state) {
  const clade_device_info *info = clade__device_info(*state);
  turned(*state, 1, rows_of(info, 1029), 1029); /* unaligned lines */
  turned(*state, 1, 1040, rows_of(info, 1040)); /* aligned to sixteen: non-temporal */
  turned(*state, rows_of(info, CHANNELS * WIDE * WIDE), CHANNELS, WIDE * WIDE);
  turned(*state, rows_of(info, 64 * 28 * 28), 64, 28 * 28); /* in strips */
  turned(*state, rows_of(info, 64 * 70 * 70), 64, 70 * 70); /* two strips per row, which end within a tile */
}

/* 1 x 1 convolution, dense, of integers, so that any summation order gives the same bits. */
static void convolved(clade_device *device, int side) {
  enum { INNER = 16, ROWS = 96 };
  const size_t places = (size_t)side * (size_t)side;
  const int images = rows_of(clade__device_info(device), ROWS * (int)places);
  const size_t nx = (size_t)images * INNER * places, ny = (size_t)images * ROWS * places;
  float *x = malloc(nx * sizeof *x), w[ROWS * INNER];
  clade_graph *g = graph_new();
  assert_non_null(x);
  for (size_t i = 0; i < nx; i++) x[i] = (float)(i % 13) - 6;
  for (size_t i = 0; i < CLADE_COUNT(w); i++) w[i] = (float)(i % 5) - 2;
  clade_val weights = clade_constant(g, CLADE_F32, CLADE_SHAPE(ROWS, INNER, 1, 1), w);
  clade_val y = clade_conv2d(g, clade_input(g, "x", CLADE_F32, CLADE_SHAPE(images, INNER, side, side)), weights);
  clade_output(g, "y", y);
  float *got = (float *)run_of(g, device, "conv2d_flat_dense", (const uint32_t *)x, nx, ny);
  size_t wrong = 0;
  for (size_t i = 0; i < ny; i++) {
    const size_t row = i / places % ROWS, from = i / places / ROWS * INNER * places + i % places;
    float want = 0;
    for (size_t k = 0; k < INNER; k++) want += x[from + k * places] * w[row * INNER + k];
    wrong += got[i] != want;
  }
  if (wrong) fail_msg("%zu of %zu results are wrong: %d images of %d x %d", wrong, ny, images, side, side);
  free(x);
  free(got);
}

static void convolutions(void **state) {
  convolved(*state, 28); /* whole lines: non-temporal */
  convolved(*state, 21);
}

/* A far last-level cache counts as twice the L2 caches, if it is larger. */
static void far_caches(void **state) {
  (void)state;
  clade_device_info info = {
      .device_class = CLADE_CPU, .compute_units = 2, .cache_bytes = 48 << 20, .l2_bytes = 5 << 18};
  const clade_type small = {.dtype = CLADE_F32, .shape = CLADE_SHAPE(3, 1 << 20)},
                   large = {.dtype = CLADE_F32, .shape = CLADE_SHAPE(9, 1 << 20)};
  assert_true(clade__last_cache(&info) == 48 << 20 && clade__streams(&info, &large) && !clade__streams(&info, &small));
  info.far_cache = true;
  assert_true(clade__last_cache(&info) == 5 << 20 && clade__streams(&info, &small));
  info.compute_units = 40;
  assert_true(clade__last_cache(&info) == 48 << 20 && !clade__streams(&info, &small));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(transposes), cmocka_unit_test(convolutions),
                                     cmocka_unit_test(far_caches)};
  return cmocka_run_group_tests_name("results past the caches", tests, open_device, close_device);
}
