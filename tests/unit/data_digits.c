/* The generated digits: reproducible bits, balanced classes, and fast generation. */
#include "data_unit.h"

#include <math.h>
#include <time.h>

/* Hash of all pixels of both parts: a change would invalidate users' comparisons. */
static void test_bits(void **state) {
  (void)state;
  clade__hash hash = {0};
  unsigned char pixel[CLADE__DIGIT_PIXELS];
  for (uint64_t i = 0; i < 14000; i++) {
    assert_int_equal(clade__digit_draw(20, i, pixel), (int)(i % 10));
    hash = clade__hash_more(hash, pixel, sizeof pixel);
  }
  char text[33];
  assert_string_equal(clade__hash_text(hash, text), "b1f7df3c94a11b89d0769da9b84198fc");
}

/* The set contains what is drawn, its test part continues after the training part, and its description is correct. */
static void check_part(bool train, int64_t count) {
  clade_dataset *set;
  clade_dataset_info info = {.size = sizeof info};
  const clade_shape shape = CLADE_SHAPE(1, 28, 28);
  double sum = 0, square = 0, n = (double)count * CLADE__DIGIT_PIXELS;
  check_ok(clade_dataset_open("digits", train, &set));
  check_ok(clade_dataset_describe(set, &info));
  assert_string_equal(info.name, "digits");
  assert_int_equal(info.count, count);
  assert_int_equal(info.classes, 10);
  assert_true(clade_shape_equal(&info.shape, &shape));
  assert_string_equal(info.class_names[7], "7");
  for (int64_t i = 0; i < count; i++) {
    float x[CLADE__DIGIT_PIXELS];
    unsigned char pixel[CLADE__DIGIT_PIXELS];
    int32_t label;
    check_ok(clade_dataset_get(set, i, x, &label));
    for (int k = 0; k < CLADE__DIGIT_PIXELS; k++) sum += (double)x[k], square += (double)x[k] * (double)x[k];
    if (i % 37) continue;
    assert_int_equal(label, clade__digit_draw(20, (uint64_t)(i + (train ? 0 : 12000)), pixel));
    for (int k = 0; k < CLADE__DIGIT_PIXELS; k++) assert_true(x[k] == (float)pixel[k] / 255.0f);
  }
  double mean = sum / n, allowed = train ? 1e-4 : 3e-3;
  assert_true(fabs(mean - (double)info.mean[0]) < allowed);
  assert_true(fabs(sqrt(square / n - mean * mean) - (double)info.std[0]) < allowed);
  clade_dataset_release(set);
}
static void test_samples(void **state) {
  (void)state;
  check_part(true, 12000);
  check_part(false, 2000);
}

/* Different seeds give different sets; adjacent samples differ. */
static void test_seeds(void **state) {
  (void)state;
  unsigned char a[CLADE__DIGIT_PIXELS], b[CLADE__DIGIT_PIXELS];
  clade__digit_draw(20, 5, a);
  clade__digit_draw(21, 5, b);
  assert_memory_not_equal(a, b, sizeof a);
  clade__digit_draw(20, 15, b);
  assert_memory_not_equal(a, b, sizeof a);
}

/* Images have bright pixels, and the border is nearly empty. */
static void test_ink(void **state) {
  (void)state;
  enum { SIDE = CLADE__DIGIT_SIDE, N = 3000 };
  double border = 0, inner = 0;
  unsigned char pixel[CLADE__DIGIT_PIXELS];
  for (uint64_t i = 0; i < N; i++) {
    int bright = 0;
    clade__digit_draw(20, i, pixel);
    for (int y = 0; y < SIDE; y++) {
      for (int x = 0; x < SIDE; x++) {
        bool edge = y == 0 || x == 0 || y == SIDE - 1 || x == SIDE - 1;
        *(edge ? &border : &inner) += pixel[y * SIDE + x];
        bright += pixel[y * SIDE + x] > 110;
      }
    }
    if (bright < 15 || bright > 400) fail_msg("image %d has %d bright pixels", (int)i, bright);
  }
  assert_true(border / (N * 4 * (SIDE - 1)) < 0.5 * inner / (N * (SIDE - 2) * (SIDE - 2)));
}

static void test_speed(void **state) {
  (void)state;
  unsigned char pixel[CLADE__DIGIT_PIXELS];
  clock_t since = clock();
  for (uint64_t i = 0; i < 2000; i++) clade__digit_draw(20, i, pixel);
  printf("%.0f images/s on one core\n", 2000 / ((double)(clock() - since) / CLOCKS_PER_SEC));
}

static clade_status open_and_close(void *user) {
  (void)user;
  clade_dataset *set = NULL;
  clade_status status = clade_dataset_open("digits", false, &set);
  clade_dataset_release(set);
  return status;
}
static void test_no_memory(void **state) {
  (void)state;
  check_failing_allocations(open_and_close, NULL);
}

int main(void) {
  count_allocations();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bits), cmocka_unit_test(test_samples), cmocka_unit_test(test_seeds),
      cmocka_unit_test(test_ink),  cmocka_unit_test(test_speed),   cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
