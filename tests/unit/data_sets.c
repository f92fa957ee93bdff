/* Datasets: users' sets, sets by name, and directories of files, both valid and malicious. Over 400 lines: all cases
 * write their files by the same few functions. */
#include "data_unit.h"

#include <math.h>

#include "io_kit.h"

#ifdef CLADE_WITH_ZLIB
#include <zlib.h>
#endif

/* ---- users' sets ---- */
static void test_own(void **state) {
  (void)state;
  static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g"};
  static const float mean[] = {1, 2}, std[] = {3, 4};
  telling t = {.bad = 3};
  clade_dataset_def def = {.size = sizeof def, .name = "mine", .count = 5, .classes = 7, .channels = 2, .height = 6};
  def.width = 6;
  def.class_names = names;
  def.mean = mean;
  def.std = std;
  def.get = telling_get;
  def.release = telling_release;
  clade_dataset *set;
  clade_dataset_info info = {.size = sizeof info};
  float x[72];
  int32_t label;
  check_ok(clade_dataset_new(&def, &t, &set));
  check_ok(clade_dataset_describe(set, &info));
  assert_string_equal(info.name, "mine");
  assert_string_equal(info.class_names[6], "g");
  assert_true(info.class_names != names && info.mean != mean);
  assert_true(info.mean[1] == 2 && info.std[0] == 3);
  check_ok(clade_dataset_get(set, 4, x, &label));
  assert_true(x[71] == 471 && label == 4);
  check_fails(clade_dataset_get(set, 3, x, &label), CLADE_IO, "mine: sample 3: the disk is gone");
  check_fails(clade_dataset_get(set, 5, x, &label), CLADE_INVALID, "sample 5; mine has 5 samples");
  check_fails(clade_dataset_get(set, -1, x, &label), CLADE_INVALID, "sample -1");
  check_fails(clade_dataset_get(set, 0, NULL, &label), CLADE_INVALID, "x is NULL");
  check_fails(clade_dataset_get(NULL, 0, x, &label), CLADE_INVALID, "dataset is NULL");
  t.bad_label = -2;
  check_fails(clade_dataset_get(set, 3, x, &label), CLADE_CORRUPT, "sample 3: label -2; labels are 0 to 6");
  clade_dataset_release(clade_dataset_retain(set));
  assert_int_equal(atomic_load(&t.released), 0);
  clade_dataset_release(set);
  assert_int_equal(atomic_load(&t.released), 1);
  clade_dataset_release(NULL);
  assert_null(clade_dataset_retain(NULL));
}

static clade_status silent(void *user, int64_t index, float *x, int32_t *label) {
  (void)user, (void)index, (void)x, (void)label;
  return CLADE_PERMISSION;
}

static void test_own_refused(void **state) {
  (void)state;
  telling t = {.bad = -1};
  clade_dataset *set = NULL;
  static const float zero[] = {1, 0};
  static const char *const hole[] = {"a", NULL};
  const clade_dataset_def good = {.size = sizeof good,
                                  .count = 1,
                                  .classes = 2,
                                  .channels = 2,
                                  .height = 1,
                                  .width = 1,
                                  .get = silent,
                                  .release = telling_release};
  clade_dataset_def d;
  int32_t label;
  float x[2];
  check_fails(clade_dataset_new(NULL, &t, &set), CLADE_INVALID, "def is NULL");
  check_fails(clade_dataset_new(&good, &t, NULL), CLADE_INVALID, "out is NULL");
  assert_int_equal(atomic_load(&t.released), 1); /* ownership is taken even if the call fails */
#define BAD(field, value, code, words) \
  d = good;                            \
  d.field = value;                     \
  check_fails(clade_dataset_new(&d, &t, &set), CLADE_##code, words)
  BAD(size, 3, INVALID, "size is 3");
  BAD(get, NULL, INVALID, ".get is NULL");
  BAD(count, 0, INVALID, "0 samples");
  BAD(count, INT64_MAX, OVERFLOW, "too many");
  BAD(classes, 0, INVALID, "0 classes");
  BAD(height, 0, BAD_SHAPE, "2x0x1");
  BAD(width, INT32_MAX, OVERFLOW, "too large");
  BAD(std, zero, INVALID, ".std of channel 1");
  BAD(class_names, hole, INVALID, ".class_names[1]");
#undef BAD
  assert_null(set);
  check_ok(clade_dataset_new(&good, &t, &set));
  check_fails(clade_dataset_get(set, 0, x, &label), CLADE_PERMISSION, "user: sample 0: not permitted");
  check_fails(clade_dataset_describe(set, NULL), CLADE_INVALID, "info is NULL");
  check_fails(clade_dataset_describe(NULL, NULL), CLADE_INVALID, "dataset is NULL");
  clade_dataset_release(set);
}

/* ---- specs ---- */
static void test_specs(void **state) {
  (void)state;
  clade_dataset *set = NULL;
  check_fails(clade_dataset_open(NULL, true, &set), CLADE_INVALID, "spec is NULL");
  check_fails(clade_dataset_open("digits", true, NULL), CLADE_INVALID, "out is NULL");
  check_fails(clade_dataset_open("letters", true, &set), CLADE_NOT_FOUND,
              "no dataset is called \"letters\"; there are digits, fashion-mnist[:DIR], mnist:DIR");
  check_fails(clade_dataset_open("digit", true, &set), CLADE_NOT_FOUND, "\"digit\"");
  check_fails(clade_dataset_open("", true, &set), CLADE_NOT_FOUND, "\"\"");
  check_fails(clade_dataset_open("digits:/tmp", true, &set), CLADE_INVALID, "takes no directory");
  check_fails(clade_dataset_open("mnist", true, &set), CLADE_INVALID, "mnist:DIR, where DIR holds train-images");
  check_fails(clade_dataset_open("npy:", true, &set), CLADE_INVALID, "npy:DIR");
  assert_null(set);
}

/* Messages say which files are expected where. */
static void test_missing(void **state) {
  (void)state;
  static const struct {
    const char *name, *file, *others;
  } rows[] = {{"mnist", "t10k-images-idx3-ubyte", "train-labels-idx1-ubyte"},
              {"fashion-mnist", "t10k-images-idx3-ubyte", "Debian's package dataset-fashion-mnist"},
              {"cifar10", "test_batch.bin", "data_batch_1.bin to data_batch_5.bin"},
              {"cifar100", "test.bin", "train.bin and test.bin"},
              {"npy", "x_test.npy", "y_train.npy"}};
  for (size_t i = 0; i < CLADE_COUNT(rows); i++) {
    char spec[128], words[256];
    clade_dataset *set = NULL;
    snprintf(spec, sizeof spec, "%s:%s/no/such", rows[i].name, io_room);
    snprintf(words, sizeof words, "%s/no/such/%s is not there; the directory must hold", io_room, rows[i].file);
    check_fails(clade_dataset_open(spec, false, &set), CLADE_NOT_FOUND, words);
    assert_non_null(strstr(clade_last_error(), rows[i].others));
    assert_null(set);
  }
}

/* ---- directories ---- */
static unsigned char bytes_of[1 << 16];

static const char *spec_of(const char *name) {
  static char spec[128];
  snprintf(spec, sizeof spec, "%s:%s", name, io_room);
  return spec;
}

static size_t put_idx(unsigned char *to, int rank, const int *dim, int first) {
  size_t n = 1, at = 4;
  memcpy(to, (unsigned char[]){0, 0, 8, (unsigned char)rank}, 4);
  for (int i = 0; i < rank; i++, at += 4) {
    memcpy(to + at, (unsigned char[]){0, 0, (unsigned char)(dim[i] >> 8), (unsigned char)dim[i]}, 4);
    n *= (size_t)dim[i];
  }
  for (size_t i = 0; i < n; i++) to[at + i] = (unsigned char)((size_t)first + (rank == 1 ? i % 10 : i * 7));
  return at + n;
}

static void write_mnist(const char *part, int images, int labels, int height) {
  char name[64];
  size_t n = put_idx(bytes_of, 3, (int[]){images, height, 5}, 0);
  snprintf(name, sizeof name, "%s-images-idx3-ubyte", part);
  io_file(name, bytes_of, n);
  n = put_idx(bytes_of, 1, &labels, 0);
  snprintf(name, sizeof name, "%s-labels-idx1-ubyte", part);
  io_file(name, bytes_of, n);
}

static clade_dataset *open_checked(const char *name, bool train, int64_t count, int classes, clade_shape shape) {
  clade_dataset *set;
  clade_dataset_info info = {.size = sizeof info};
  check_ok(clade_dataset_open(spec_of(name), train, &set));
  check_ok(clade_dataset_describe(set, &info));
  assert_string_equal(info.name, name);
  assert_int_equal(info.count, count);
  assert_int_equal(info.classes, classes);
  assert_true(clade_shape_equal(&info.shape, &shape));
  return set;
}

static void test_mnist(void **state) {
  (void)state;
  float x[20];
  int32_t label;
  write_mnist("train", 13, 13, 4);
  write_mnist("t10k", 7, 7, 4);
  for (int train = 0; train < 2; train++) {
    clade_dataset *set = open_checked("mnist", train, train ? 13 : 7, 10, CLADE_SHAPE(1, 4, 5));
    check_ok(clade_dataset_get(set, 6, x, &label));
    assert_int_equal(label, 6);
    for (int i = 0; i < 20; i++) assert_true(x[i] == (float)((120 + i) * 7 % 256) / 255.0f);
    clade_dataset_release(set);
  }
}

#ifdef CLADE_WITH_ZLIB
static void zip(const char *name) {
  char zipped[128];
  FILE *f = fopen(io_path(name), "rb");
  size_t n = fread(bytes_of, 1, sizeof bytes_of, f);
  fclose(f);
  snprintf(zipped, sizeof zipped, "%s.gz", name);
  gzFile z = gzopen(io_path(zipped), "wb");
  assert_int_equal(gzwrite(z, bytes_of, (unsigned)n), n);
  gzclose(z);
  remove(io_path(name));
}

static void test_mnist_compressed(void **state) {
  (void)state;
  write_mnist("train", 13, 13, 4);
  zip("train-images-idx3-ubyte"); /* the labels stay uncompressed */
  clade_dataset *set = open_checked("mnist", true, 13, 10, CLADE_SHAPE(1, 4, 5));
  clade_dataset_release(set);
  remove(io_path("train-images-idx3-ubyte.gz"));
}
#endif

static void test_mnist_hostile(void **state) {
  (void)state;
  clade_dataset *set = NULL;
  const char *spec = spec_of("mnist");
  write_mnist("train", 13, 12, 4);
  check_fails(clade_dataset_open(spec, true, &set), CLADE_CORRUPT, "idx3-ubyte holds 13 samples, but");
  write_mnist("train", 0, 0, 4);
  check_fails(clade_dataset_open(spec, true, &set), CLADE_INVALID, "mnist: 0 samples");
  write_mnist("train", 3, 3, 0);
  check_fails(clade_dataset_open(spec, true, &set), CLADE_BAD_SHAPE, "1x0x5");
  write_mnist("train", 3, 3, 4);
  size_t n = put_idx(bytes_of, 1, (int[]){3}, 8); /* 8, 9, 10 */
  io_file("train-labels-idx1-ubyte", bytes_of, n);
  check_fails(clade_dataset_open(spec, true, &set), CLADE_CORRUPT, "label 10 of sample 2; labels are 0 to 9");
  n = put_idx(bytes_of, 2, (int[]){3, 1}, 0);
  io_file("train-labels-idx1-ubyte", bytes_of, n);
  check_fails(clade_dataset_open(spec, true, &set), CLADE_BAD_SHAPE, "expected [count]");
  n = put_idx(bytes_of, 2, (int[]){3, 20}, 0);
  io_file("train-images-idx3-ubyte", bytes_of, n);
  check_fails(clade_dataset_open(spec, true, &set), CLADE_BAD_SHAPE, "expected [count, height, width]");
  write_mnist("train", 3, 3, 4);
  n = put_idx(bytes_of, 3, (int[]){3, 4, 5}, 0);
  bytes_of[2] = 9;
  io_file("train-images-idx3-ubyte", bytes_of, n);
  check_fails(clade_dataset_open(spec, true, &set), CLADE_DTYPE, "elements of type i8; expected u8");
  io_file("train-images-idx3-ubyte", bytes_of, n - 1);
  check_fails(clade_dataset_open(spec, true, &set), CLADE_CORRUPT, "mnist: ");
  memset(bytes_of + 4, 0xff, 12);
  io_file("train-images-idx3-ubyte", bytes_of, n);
  check_fails(clade_dataset_open(spec, true, &set), CLADE_OVERFLOW, "mnist: ");
  remove(io_path("train-images-idx3-ubyte"));
  assert_int_equal(mkdir(io_path("train-images-idx3-ubyte"), 0700), 0);
  check_fails(clade_dataset_open(spec, true, &set), CLADE_INVALID, "not a regular file");
  remove(io_path("train-images-idx3-ubyte"));
  assert_null(set);
}

/* ---- CIFAR ---- */
enum { CIFAR = 3 * 32 * 32 };
static void write_cifar(const char *name, int n, int label_bytes, int first) {
  size_t record = (size_t)label_bytes + CIFAR;
  for (size_t i = 0; i < (size_t)n; i++) {
    unsigned char *to = bytes_of + i * record;
    for (size_t k = 0; k < record; k++) to[k] = (unsigned char)(i + k);
    to[0] = to[label_bytes - 1] = (unsigned char)((size_t)first + i);
    if (label_bytes == 2) to[0] = 99;
  }
  io_file(name, bytes_of, (size_t)n * record);
}

static void test_cifar(void **state) {
  (void)state;
  float x[CIFAR];
  int32_t label;
  char name[32];
  clade_dataset *set = NULL;
  for (int i = 1; i <= 5; i++) {
    snprintf(name, sizeof name, "data_batch_%d.bin", i);
    write_cifar(name, i, 1, i);
  }
  write_cifar("test_batch.bin", 2, 1, 3);
  set = open_checked("cifar10", true, 15, 10, CLADE_SHAPE(3, 32, 32));
  check_ok(clade_dataset_get(set, 14, x, &label)); /* the last sample of the fifth file */
  assert_int_equal(label, 9);
  for (int i = 0; i < CIFAR; i++) assert_true(x[i] == (float)((4 + 1 + i) % 256) / 255.0f);
  clade_dataset_release(set);
  set = open_checked("cifar10", false, 2, 10, CLADE_SHAPE(3, 32, 32));
  clade_dataset_release(set);
  write_cifar("data_batch_4.bin", 4, 1, 7);
  set = NULL;
  check_fails(clade_dataset_open(spec_of("cifar10"), true, &set), CLADE_CORRUPT,
              "data_batch_4.bin: label 10 of sample 3");
  remove(io_path("data_batch_3.bin"));
  check_fails(clade_dataset_open(spec_of("cifar10"), true, &set), CLADE_NOT_FOUND, "data_batch_3.bin is not there");
  io_file("data_batch_3.bin", bytes_of, 3072);
  check_fails(clade_dataset_open(spec_of("cifar10"), true, &set), CLADE_CORRUPT, "data_batch_3.bin");
  assert_null(set);
  write_cifar("train.bin", 6, 2, 94);
  set = open_checked("cifar100", true, 6, 100, CLADE_SHAPE(3, 32, 32));
  check_ok(clade_dataset_get(set, 2, x, &label)); /* the fine label */
  assert_int_equal(label, 96);
  clade_dataset_release(set);
}

/* ---- NPY ---- */
static void write_npy(const char *name, clade_dtype dtype, clade_shape shape, const void *data, size_t bytes) {
  const clade_array a = {.dtype = dtype, .shape = shape, .data = (void *)(uintptr_t)data, .bytes = bytes};
  check_ok(clade_npy_write(io_path(name), &a));
}

static void test_npy(void **state) {
  (void)state;
  unsigned char bytes[3 * 2 * 2 * 2];
  float floats[24], x[8];
  int32_t label;
  clade_dataset *set;
  for (int i = 0; i < 24; i++) bytes[i] = (unsigned char)(i * 10), floats[i] = (float)i / 3 - 4;
  write_npy("y_train.npy", CLADE_I64, CLADE_SHAPE(3), (int64_t[]){0, 4, 1}, 24);
  write_npy("y_test.npy", CLADE_U8, CLADE_SHAPE(3), (unsigned char[]){0, 6, 1}, 3);
  write_npy("x_train.npy", CLADE_U8, CLADE_SHAPE(3, 2, 2, 2), bytes, sizeof bytes);
  set = open_checked("npy", true, 3, 7, CLADE_SHAPE(2, 2, 2)); /* the test part has label 6 */
  check_ok(clade_dataset_get(set, 1, x, &label));
  assert_true(x[7] == 150.0f / 255.0f && label == 4);
  clade_dataset_release(set);
  write_npy("x_test.npy", CLADE_F32, CLADE_SHAPE(3, 8), floats, sizeof floats);
  check_fails(clade_dataset_open(spec_of("npy"), false, &set), CLADE_BAD_SHAPE, "expected samples of one shape");
  write_npy("x_train.npy", CLADE_U8, CLADE_SHAPE(3, 8), bytes, sizeof bytes);
  set = open_checked("npy", false, 3, 7, CLADE_SHAPE(1, 1, 8));
  check_ok(clade_dataset_get(set, 2, x, &label));
  assert_memory_equal(x, floats + 16, sizeof x);
  clade_dataset_release(set);
  write_npy("x_test.npy", CLADE_F32, CLADE_SHAPE(3, 4, 2), floats, sizeof floats);
  write_npy("x_train.npy", CLADE_U8, CLADE_SHAPE(3, 4, 2), bytes, sizeof bytes);
  set = open_checked("npy", false, 3, 7, CLADE_SHAPE(1, 4, 2));
  clade_dataset_release(set);
}

/* Mean and standard deviation per channel come from the training part, whichever part is opened. */
static void test_npy_moments(void **state) {
  (void)state;
  float trained[8] = {1, 3, 5, 5, 3, 5, 5, 5}, tested[4] = {9, 9, 9, 9}; /* shapes [2, 2, 1, 2] and [1, 2, 1, 2] */
  write_npy("y_train.npy", CLADE_U8, CLADE_SHAPE(2), (unsigned char[]){0, 1}, 2);
  write_npy("y_test.npy", CLADE_U8, CLADE_SHAPE(1), (unsigned char[]){0}, 1);
  write_npy("x_train.npy", CLADE_F32, CLADE_SHAPE(2, 2, 1, 2), trained, sizeof trained);
  write_npy("x_test.npy", CLADE_F32, CLADE_SHAPE(1, 2, 1, 2), tested, sizeof tested);
  for (int train = 0; train < 2; train++) {
    clade_dataset *set;
    clade_dataset_info info = {.size = sizeof info};
    check_ok(clade_dataset_open(spec_of("npy"), train, &set));
    check_ok(clade_dataset_describe(set, &info));
    assert_true(info.mean[0] == 3 && info.std[0] == sqrtf(2)); /* of 1 3 3 5 */
    assert_true(info.mean[1] == 0 && info.std[1] == 1);        /* constant channel: not normalized */
    clade_dataset_release(set);
  }
}

static void test_npy_hostile(void **state) {
  (void)state;
  clade_dataset *set = NULL;
  const char *spec = spec_of("npy");
  float floats[24] = {0};
  write_npy("x_train.npy", CLADE_F32, CLADE_SHAPE(3, 8), floats, sizeof floats);
  write_npy("y_test.npy", CLADE_U8, CLADE_SHAPE(1), (unsigned char[]){0}, 1);
  write_npy("y_train.npy", CLADE_I64, CLADE_SHAPE(3), (int64_t[]){0, -1, 1}, 24);
  check_fails(clade_dataset_open(spec, true, &set), CLADE_CORRUPT, "label -1 of sample 1");
  write_npy("y_train.npy", CLADE_I64, CLADE_SHAPE(3), (int64_t[]){0, 1, INT64_MAX}, 24);
  check_fails(clade_dataset_open(spec, true, &set), CLADE_CORRUPT, "label 9223372036854775807 of sample 2");
  write_npy("y_train.npy", CLADE_F32, CLADE_SHAPE(3), floats, 12);
  check_fails(clade_dataset_open(spec, true, &set), CLADE_DTYPE, "labels of type f32; expected integers");
  write_npy("y_train.npy", CLADE_I32, CLADE_SHAPE(2), (int32_t[]){0, 1}, 8);
  check_fails(clade_dataset_open(spec, true, &set), CLADE_CORRUPT, "x_train.npy holds 3 samples, but");
  write_npy("x_train.npy", CLADE_I32, CLADE_SHAPE(2, 3), floats, 24);
  check_fails(clade_dataset_open(spec, true, &set), CLADE_DTYPE, "elements of type i32; expected u8 or f32");
  write_npy("x_train.npy", CLADE_F32, CLADE_SHAPE(2), floats, 8);
  check_fails(clade_dataset_open(spec, true, &set), CLADE_BAD_SHAPE, "shape [2]; expected [count, width]");
  remove(io_path("y_test.npy"));
  check_fails(clade_dataset_open(spec, true, &set), CLADE_NOT_FOUND, "y_test.npy is not there");
  io_file("y_test.npy", "\x93NUMPY", 6);
  check_fails(clade_dataset_open(spec, true, &set), CLADE_CORRUPT, "npy: ");
  assert_null(set);
}

static clade_status open_and_close(void *spec) {
  clade_dataset *set = NULL;
  clade_status status = clade_dataset_open(spec, true, &set);
  clade_dataset_release(set);
  return status;
}
static void test_no_memory(void **state) {
  (void)state;
  write_mnist("train", 3, 3, 4);
  check_failing_allocations(open_and_close, (void *)(uintptr_t)spec_of("mnist"));
  for (int i = 1; i <= 5; i++) {
    char name[32];
    snprintf(name, sizeof name, "data_batch_%d.bin", i);
    write_cifar(name, 1, 1, 0);
  }
  check_failing_allocations(open_and_close, (void *)(uintptr_t)spec_of("cifar10"));
  write_npy("x_train.npy", CLADE_U8, CLADE_SHAPE(1, 4), bytes_of, 4);
  write_npy("y_train.npy", CLADE_U8, CLADE_SHAPE(1), (unsigned char[]){0}, 1);
  write_npy("y_test.npy", CLADE_U8, CLADE_SHAPE(1), (unsigned char[]){0}, 1);
  check_failing_allocations(open_and_close, (void *)(uintptr_t)spec_of("npy"));
}

/* ---- Debian's package, required by the tests ---- */
static void test_fashion(void **state) {
  (void)state;
  clade_dataset *set = NULL;
#ifndef CLADE_WITH_ZLIB
  check_fails(clade_dataset_open("fashion-mnist", true, &set), CLADE_UNSUPPORTED, "CLADE_ZLIB");
#else
  float x[784];
  int32_t label;
  for (int train = 0; train < 2; train++) {
    double sum = 0, square = 0;
    int count[10] = {0};
    clade_dataset_info info = {.size = sizeof info};
    check_ok(clade_dataset_open("fashion-mnist", train, &set));
    check_ok(clade_dataset_describe(set, &info));
    assert_int_equal(info.count, train ? 60000 : 10000);
    assert_string_equal(info.class_names[9], "Ankle boot");
    for (int64_t i = 0; i < info.count; i++) {
      check_ok(clade_dataset_get(set, i, x, &label));
      count[label]++;
      for (int k = 0; k < 784; k++) sum += (double)x[k], square += (double)x[k] * (double)x[k];
    }
    for (int i = 0; i < 10; i++) assert_int_equal(count[i], info.count / 10);
    double n = (double)info.count * 784, mean = sum / n, variance = square / n - mean * mean;
    assert_float_equal((float)mean, info.mean[0], 2e-3f);
    assert_float_equal((float)variance, info.std[0] * info.std[0], 2e-3f);
    clade_dataset_release(set);
  }
#endif
}

int main(void) {
  count_allocations();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_own),
      cmocka_unit_test(test_own_refused),
      cmocka_unit_test(test_specs),
      cmocka_unit_test(test_missing),
      cmocka_unit_test(test_mnist),
#ifdef CLADE_WITH_ZLIB
      cmocka_unit_test(test_mnist_compressed),
#endif
      cmocka_unit_test(test_mnist_hostile),
      cmocka_unit_test(test_cifar),
      cmocka_unit_test(test_npy),
      cmocka_unit_test(test_npy_moments),
      cmocka_unit_test(test_npy_hostile),
      cmocka_unit_test(test_no_memory),
      cmocka_unit_test(test_fashion),
  };
  return cmocka_run_group_tests(tests, io_set_up, io_tear_down);
}
