/* Augmentation against a plain reference: each result matches one of the permitted draws, all draws occur, and equal
 * draws give equal bits. */
#include "data_unit.h"

#include <math.h>

enum { C = 2, H = 7, W = 9, N = C * H * W, TRIES = 2000 };

static const float mean[C] = {0.25f, -3}, std[C] = {0.5f, 1.7f};
static const clade_dataset_info info = {
    .size = sizeof info, .classes = 1, .shape = {3, {C, H, W}}, .mean = mean, .std = std};

static float *at(float *x, int c, int row, int col) { return &x[(c * H + row) * W + col]; }

static void fill(float *x) {
  for (int i = 0; i < N; i++) x[i] = (float)((i * 37 + 11) % 101) / 7 + 1; /* nonzero everywhere */
}

static void augmented(const clade_augment *a, uint64_t index, float *x) {
  float scratch[N];
  clade__draw draw = clade__draw_of(9, CLADE__DRAW_AUGMENT, 2, index);
  clade__augment(a, &info, &draw, x, scratch);
}

/* ---- references ---- */
static void shifted(float *from, int dy, int dx, float *to) {
  for (int c = 0; c < C; c++)
    for (int y = 0; y < H; y++)
      for (int x = 0; x < W; x++) {
        bool inside = y - dy >= 0 && y - dy < H && x - dx >= 0 && x - dx < W;
        *at(to, c, y, x) = inside ? *at(from, c, y - dy, x - dx) : 0;
      }
}

/* Crops from an explicitly padded image. */
static void cropped(float *from, int pad, int dy, int dx, float *to) {
  enum { MOST = 6 };
  static float large[H + 2 * MOST][W + 2 * MOST];
  for (int c = 0; c < C; c++) {
    for (int y = 0; y < H; y++)
      for (int x = 0; x < W; x++) large[pad + y][pad + x] = *at(from, c, y, x);
    for (int y = pad; y < pad + H; y++)
      for (int k = 1; k <= pad; k++) {
        large[y][pad - k] = large[y][pad + k];
        large[y][pad + W - 1 + k] = large[y][pad + W - 1 - k];
      }
    for (int k = 1; k <= pad; k++) {
      memcpy(large[pad - k], large[pad + k], sizeof large[0]);
      memcpy(large[pad + H - 1 + k], large[pad + H - 1 - k], sizeof large[0]);
    }
    for (int y = 0; y < H; y++)
      for (int x = 0; x < W; x++) *at(to, c, y, x) = large[pad + dy + y][pad + dx + x];
  }
}

static void flipped(float *from, float *to) {
  for (int c = 0; c < C; c++)
    for (int y = 0; y < H; y++)
      for (int x = 0; x < W; x++) *at(to, c, y, x) = *at(from, c, y, W - 1 - x);
}

static void cut(float *from, int side, int row, int col, float *to) {
  memcpy(to, from, N * sizeof *to);
  for (int c = 0; c < C; c++)
    for (int y = 0; y < H; y++)
      for (int x = 0; x < W; x++) {
        int dy = y - (row - side / 2), dx = x - (col - side / 2);
        if (dy >= 0 && dy < side && dx >= 0 && dx < side) *at(to, c, y, x) = mean[c];
      }
}

/* ---- single augmentations ---- */
static void test_nothing(void **state) {
  (void)state;
  float x[N], y[N];
  fill(x);
  fill(y);
  augmented(&(clade_augment){0}, 3, x);
  assert_memory_equal(x, y, sizeof x);
}

typedef void reference_fn(float *from, int amount, int dy, int dx, float *to);
static void shift_by(float *from, int amount, int dy, int dx, float *to) {
  (void)amount;
  shifted(from, dy, dx, to);
}

/* Each result matches the reference for exactly one (dy, dx); all occur about equally often. */
static void check_moves(const clade_augment *a, int amount, int y0, int y1, int x0, int x1, reference_fn *reference) {
  int places = (y1 - y0 + 1) * (x1 - x0 + 1), count[H * W] = {0};
  for (uint64_t i = 0; i < TRIES; i++) {
    float from[N], got[N], want[N];
    int found = 0;
    fill(from);
    fill(got);
    augmented(a, i, got);
    for (int dy = y0; dy <= y1; dy++)
      for (int dx = x0; dx <= x1; dx++) {
        reference(from, amount, dy, dx, want);
        if (memcmp(want, got, sizeof got) != 0) continue;
        count[(dy - y0) * (x1 - x0 + 1) + dx - x0]++;
        found++;
      }
    assert_int_equal(found, 1);
  }
  for (int i = 0; i < places; i++)
    if (count[i] < TRIES / places / 3 || count[i] > TRIES * 3 / places)
      fail_msg("place %d of %d came %d times of %d", i, places, count[i], TRIES);
}

static void test_shift(void **state) {
  (void)state;
  check_moves(&(clade_augment){.shift = 2}, 2, -2, 2, -2, 2, shift_by);
}
static void test_crop(void **state) {
  (void)state;
  check_moves(&(clade_augment){.crop = 3}, 3, -3, 3, -3, 3, cropped);
}
static void test_cutout(void **state) {
  (void)state;
  check_moves(&(clade_augment){.cutout = 3}, 3, 0, H - 1, 0, W - 1, cut);
  check_moves(&(clade_augment){.cutout = 2}, 2, 0, H - 1, 0, W - 1, cut);
}

static void test_flip(void **state) {
  (void)state;
  int turned = 0;
  float from[N], got[N], want[N];
  fill(from);
  flipped(from, want);
  for (uint64_t i = 0; i < TRIES; i++) {
    fill(got);
    augmented(&(clade_augment){.flip = true}, i, got);
    bool is = memcmp(got, want, sizeof got) == 0;
    assert_true(is || memcmp(got, from, sizeof got) == 0);
    turned += is;
  }
  assert_true(turned > TRIES * 2 / 5 && turned < TRIES * 3 / 5);
}

static void test_normalize(void **state) {
  (void)state;
  float from[N], got[N];
  fill(from);
  fill(got);
  augmented(&(clade_augment){.normalize = true}, 0, got);
  for (int i = 0; i < N; i++) assert_true(got[i] == (from[i] - mean[i / (H * W)]) / std[i / (H * W)]);
}

/* Bilinear interpolation maps planes to planes: a y + b x, rotated, has rotated slopes inside. The angle is derived
 * from two pixels and must fit the others. Outside is 0. */
static void test_rotate(void **state) {
  (void)state;
  enum { SIDE = 31, HALF = SIDE / 2 };
  const clade_dataset_info large = {.shape = {3, {1, SIDE, SIDE}}, .mean = mean, .std = std};
  static float x[SIDE * SIDE], scratch[SIDE * SIDE];
  double least = 0, most = 0, sum = 0;
  for (uint64_t i = 0; i < 500; i++) {
    for (int k = 0; k < SIDE * SIDE; k++) x[k] = (float)(100 + 2 * (k / SIDE - HALF) + 1 * (k % SIDE - HALF));
    clade__draw draw = clade__draw_of(9, CLADE__DRAW_AUGMENT, 2, i);
    clade__augment(&(clade_augment){.rotate = 40}, &large, &draw, x, scratch);
    double middle = (double)x[HALF * SIDE + HALF];
    double down = (double)x[(HALF + 1) * SIDE + HALF] - middle, right = (double)x[HALF * SIDE + HALF + 1] - middle;
    double angle = atan2(down, right) - atan2(2, 1);
    assert_true(fabs(middle - 100) < 1e-3 && fabs(hypot(down, right) - hypot(2, 1)) < 1e-3);
    assert_true(fabs(angle) < 40 * M_PI / 180 + 1e-3);
    for (int dy = -9; dy <= 9; dy++)
      for (int dx = -9; dx <= 9; dx++) {
        double want = 100 + dy * down + dx * right, got = (double)x[(HALF + dy) * SIDE + HALF + dx];
        assert_true(fabs(got - want) < 0.02);
      }
    if (fabs(angle) > 0.35) assert_true(x[0] == 0 && x[SIDE * SIDE - 1] == 0);
    least = CLADE_MIN(least, angle), most = CLADE_MAX(most, angle), sum += angle;
  }
  assert_true(least < -0.6 && most > 0.6 && fabs(sum / 500) < 0.06);
}

/* A tiny rotation changes little, and the center stays fixed for any angle. */
static void test_rotate_angles(void **state) {
  (void)state;
  float from[N], got[N];
  int moved = 0;
  fill(from);
  for (uint64_t i = 0; i < TRIES; i++) {
    fill(got);
    augmented(&(clade_augment){.rotate = 1e-6f}, i, got);
    for (int k = 0; k < N; k++) assert_true(fabsf(got[k] - from[k]) < 1e-4f);
    fill(got);
    augmented(&(clade_augment){.rotate = 180}, i, got);
    moved += fabsf(*at(got, 0, H / 2, W / 2) - *at(from, 0, H / 2, W / 2)) > 1e-4f;
  }
  assert_int_equal(moved, 0);
}

/* ---- combinations ---- */
/* Each augmentation depends on its own draw only: all at once equal one after the other. */
static void test_order(void **state) {
  (void)state;
  static const clade_augment all = {.crop = 2, .shift = 1, .flip = true, .rotate = 20, .cutout = 3, .normalize = true};
  const clade_augment one[] = {{.crop = 2},    {.shift = 1},  {.flip = true},
                               {.rotate = 20}, {.cutout = 3}, {.normalize = true}};
  for (uint64_t i = 0; i < 300; i++) {
    float got[N], want[N];
    fill(got);
    fill(want);
    augmented(&all, i, got);
    for (size_t k = 0; k < CLADE_COUNT(one); k++) augmented(&one[k], i, want);
    assert_memory_equal(got, want, sizeof got);
  }
}

/* The same bits with every compiler and machine. */
static void test_bits(void **state) {
  (void)state;
  clade__hash hash = {0};
  for (uint64_t i = 0; i < 500; i++) {
    float x[N];
    fill(x);
    augmented(&(clade_augment){.crop = 2, .shift = 1, .rotate = 170, .cutout = 3, .normalize = true}, i, x);
    hash = clade__hash_more(hash, x, sizeof x);
  }
  char text[33];
  assert_string_equal(clade__hash_text(hash, text), "ad8ccea2d5d97dfda7185da29cab8da5");
}

/* The loader's draws depend on (seed, epoch, index) only. */
static void test_key(void **state) {
  (void)state;
  enum { SIZE = 2 * 6 * 6 };
  static const clade_augment a = {.crop = 2, .shift = 2, .flip = true, .rotate = 30, .cutout = 2};
  telling t = {.bad = -1};
  clade_dataset *set;
  clade_loader *l;
  clade_dataset_info telling_info = {.size = sizeof telling_info};
  int same = 0;
  check_ok(telling_new(&t, 30, &set));
  check_ok(clade_dataset_describe(set, &telling_info));
  check_ok(clade_loader_new(set, &l, .batch = 7, .seed = 77, .shuffle = true, .augment = a));
  for (int i = 0; i < 15; i++) {
    clade_batch b = {.size = sizeof b};
    check_ok(clade_loader_next(l, &b));
    for (int k = 0; k < b.n; k++) {
      float want[SIZE], other[SIZE], scratch[SIZE];
      for (int turn = 0; turn < 2; turn++) {
        int32_t label;
        float *x = turn ? other : want;
        clade__draw draw = clade__draw_of(77, CLADE__DRAW_AUGMENT, (uint64_t)(b.epoch + turn), (uint64_t)b.samples[k]);
        check_ok(clade_dataset_get(set, b.samples[k], x, &label));
        clade__augment(&a, &telling_info, &draw, x, scratch);
      }
      assert_memory_equal(b.x + k * SIZE, want, sizeof want);
      same += memcmp(want, other, sizeof want) == 0;
    }
  }
  assert_true(same < 5); /* another epoch has other draws */
  clade_loader_free(l);
  clade_dataset_release(set);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nothing),       cmocka_unit_test(test_shift), cmocka_unit_test(test_crop),
      cmocka_unit_test(test_cutout),        cmocka_unit_test(test_flip),  cmocka_unit_test(test_normalize),
      cmocka_unit_test(test_rotate),        cmocka_unit_test(test_order), cmocka_unit_test(test_key),
      cmocka_unit_test(test_rotate_angles), cmocka_unit_test(test_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
