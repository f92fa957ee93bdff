/* Results that no cache holds are written past the caches, and turned over in larger blocks: to the bit what the host
 * makes, with lines that begin anywhere and ends that fill none. */
#include "op/dims.h"
#include "plan_kit.h"

enum { CHANNELS = 45, WIDE = 20 };

/* So many rows of `columns` floats that clade__streams holds. */
static int rows_of(const clade_device_info *info, int columns) {
  uint64_t bytes = info->cache_bytes > 1u << 22 ? info->cache_bytes : 1u << 22;
  return (int)(bytes * 2 / 3 / (4 * (uint64_t)columns)) + 7;
}

static uint32_t *run_of(clade_graph *g, clade_device *device, const uint32_t *x, size_t n) {
  clade_func *func = compiled(g, device);
  uint32_t *y = malloc(n * sizeof *y);
  clade_run *run;
  clade_ticket ticket;
  assert_non_null(y);
  OK(clade_run_new(func, NULL, &run));
  OK(clade_execute(run, CLADE_FEEDS({"x", x, n * sizeof *x, NULL}), &ticket));
  OK(clade_read(run, ticket, "y", y, n * sizeof *y));
  clade_run_free(run);
  clade_func_release(func);
  return y;
}

/* Images of `channels` by `pixels`, channels last: `images` 1 is a matrix turned over. */
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
  uint32_t *y = run_of(g, device, x, n);
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
  turned(*state, 1, rows_of(info, 1029), 1029); /* lines begin anywhere */
  turned(*state, 1, 1040, rows_of(info, 1040)); /* at sixteens: past the caches */
  turned(*state, rows_of(info, CHANNELS * WIDE * WIDE), CHANNELS, WIDE * WIDE);
  turned(*state, rows_of(info, 64 * 28 * 28), 64, 28 * 28); /* in strips */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(transposes)};
  return cmocka_run_group_tests_name("results past the caches", tests, open_device, close_device);
}
