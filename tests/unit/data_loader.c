/* The data loader: the same batches for any timing of threads, from any position, without allocation. Over 400
 * lines: all cases load the same small set. */
#include "data_unit.h"

#include <sys/wait.h>
#include <time.h>

/* ---- order of an epoch ---- */
static void test_permutation(void **state) {
  (void)state;
  static const int64_t sizes[] = {1, 2, 3, 5, 16, 17, 100, 1000, 12345};
  static bool seen[12345];
  for (size_t k = 0; k < CLADE_COUNT(sizes); k++) {
    int64_t n = sizes[k], moved = 0, differ = 0;
    memset(seen, 0, sizeof seen);
    for (int64_t i = 0; i < n; i++) {
      int64_t at = clade__shuffled(7, 3, n, i);
      assert_true(at >= 0 && at < n && !seen[at]);
      seen[at] = true;
      moved += at != i;
      differ += at != clade__shuffled(7, 4, n, i) && at != clade__shuffled(8, 3, n, i);
    }
    if (n >= 100) assert_true(moved > n * 9 / 10 && differ > n * 9 / 10);
  }
}

/* A sample's position is uniform over epochs: chi-squared with 99 degrees of freedom exceeds 160 in one of ten
 * thousand cases; the seed is fixed. */
static void test_uniform(void **state) {
  (void)state;
  enum { N = 100, EPOCHS = 10000 };
  for (int64_t sample = 0; sample < N; sample += 33) {
    int count[N] = {0};
    double chi = 0;
    for (int64_t e = 0; e < EPOCHS; e++) count[clade__shuffled(11, e, N, sample)]++;
    for (int i = 0; i < N; i++) chi += (count[i] - EPOCHS / N) * (count[i] - EPOCHS / N) / ((double)EPOCHS / N);
    if (chi > 160 || chi < 50) fail_msg("chi squared of position %d is %g", (int)sample, chi);
  }
}

/* ---- reproducible batches ---- */
static clade__hash hash_of(const clade_batch *b, int batch) {
  clade__hash h = clade__hash_bytes(b->x, (size_t)batch * 72 * sizeof *b->x);
  h = clade__hash_more(h, b->y, (size_t)batch * sizeof *b->y);
  h = clade__hash_more(h, b->samples, (size_t)b->n * sizeof *b->samples);
  int64_t place[4] = {b->epoch, b->index, b->n, b->last};
  return clade__hash_more(h, place, sizeof place);
}

#define EVERYTHING \
  { .crop = 2, .shift = 1, .flip = true, .rotate = 20, .cutout = 2, .normalize = true }
enum { BATCH = 8, COUNT = 43, BATCHES = 6, EPOCHS = 3 };

static clade_loader *loader_of(clade_dataset *set, int threads, int queue) {
  clade_loader *l;
  check_ok(clade_loader_new(set, &l, .batch = BATCH, .threads = threads, .queue = queue, .seed = 5, .shuffle = true,
                            .epochs = EPOCHS, .augment = EVERYTHING));
  return l;
}

static clade_batch next_of(clade_loader *l) {
  clade_batch b = {.size = sizeof b};
  check_ok(clade_loader_next(l, &b));
  return b;
}

static void reference(clade_dataset *set, clade__hash want[BATCHES * EPOCHS]) {
  clade_loader *l = loader_of(set, 1, 1);
  for (int i = 0; i < BATCHES * EPOCHS; i++) {
    clade_batch b = next_of(l);
    assert_int_equal(b.epoch, i / BATCHES);
    assert_int_equal(b.index, i % BATCHES);
    assert_int_equal(b.n, b.last ? COUNT % BATCH : BATCH);
    want[i] = hash_of(&b, BATCH);
  }
  clade_batch end = next_of(l);
  assert_int_equal(end.n, 0);
  assert_int_equal(end.epoch, EPOCHS);
  clade_loader_free(l);
}

static void test_threads(void **state) {
  (void)state;
  telling t = {.bad = -1, .slow_us = 300};
  clade__hash want[BATCHES * EPOCHS];
  clade_dataset *set;
  check_ok(telling_new(&t, COUNT, &set));
  reference(set, want);
  for (int threads = 1; threads <= 4; threads++) {
    for (int queue = 1; queue <= 5; queue += 2) {
      clade_loader *l = loader_of(set, threads, queue);
      for (int i = 0; i < BATCHES * EPOCHS; i++) {
        clade_batch b = next_of(l);
        assert_true(clade__hash_equal(hash_of(&b, BATCH), want[i]));
      }
      assert_int_equal(next_of(l).n, 0);
      clade_loader_free(l);
    }
  }
  clade_dataset_release(set);
  assert_int_equal(atomic_load(&t.released), 1);
}

static void test_seek(void **state) {
  (void)state;
  telling t = {.bad = -1};
  clade__hash want[BATCHES * EPOCHS];
  clade_dataset *set;
  check_ok(telling_new(&t, COUNT, &set));
  reference(set, want);
  clade_loader *l = loader_of(set, 2, 3);
  for (int i = 0; i < 200; i++) {
    int at = i * 7 % (BATCHES * EPOCHS);
    check_ok(clade_loader_seek(l, at / BATCHES, at % BATCHES));
    for (int k = at; k < CLADE_MIN(at + i % 4, BATCHES * EPOCHS); k++) {
      clade_batch b = next_of(l);
      assert_true(clade__hash_equal(hash_of(&b, BATCH), want[k]));
    }
  }
  check_ok(clade_loader_seek(l, 1, BATCHES)); /* the end of an epoch equals the beginning of the next */
  clade_batch b = next_of(l);
  assert_int_equal(b.epoch, 2);
  assert_int_equal(b.index, 0);
  check_ok(clade_loader_seek(l, EPOCHS, 0));
  assert_int_equal(next_of(l).n, 0);
  check_fails(clade_loader_seek(l, 0, BATCHES + 1), CLADE_INVALID, "batch 7 of epoch 0; an epoch has 6");
  check_fails(clade_loader_seek(l, -1, 0), CLADE_INVALID, "epoch -1");
  check_fails(clade_loader_seek(l, EPOCHS, 1), CLADE_OVERFLOW, "beyond the last");
  check_fails(clade_loader_seek(l, INT64_MAX / 2, 0), CLADE_OVERFLOW, "beyond the last");
  clade_loader_free(l);
  clade_dataset_release(set);
}

/* Rows of a part equal those of the whole batch, with the same augmentation. */
static void test_part(void **state) {
  static const int parts[][2] = {{0, 3}, {3, 5}, {2, 4}, {7, 1}, {1, 0}};
  telling t = {.bad = -1};
  clade_dataset *set;
  (void)state;
  check_ok(telling_new(&t, COUNT, &set));
  for (size_t k = 0; k < CLADE_COUNT(parts); k++) {
    const int first = parts[k][0], rows = parts[k][1] ? parts[k][1] : BATCH - first;
    clade_loader *whole = loader_of(set, 2, 2), *part;
    check_ok(clade_loader_new(set, &part, .batch = BATCH, .threads = 2, .queue = 2, .seed = 5, .shuffle = true,
                              .epochs = EPOCHS, .augment = EVERYTHING, .first_row = first, .rows = parts[k][1]));
    for (int i = 0; i < BATCHES * EPOCHS; i++) {
      clade_batch all = next_of(whole), b = next_of(part);
      assert_int_equal(b.n, CLADE_MAX(CLADE_MIN(all.n - first, rows), 0));
      assert_memory_equal(b.x, all.x + first * 72, (size_t)rows * 72 * sizeof *b.x);
      assert_memory_equal(b.y, all.y + first, (size_t)rows * sizeof *b.y);
      for (int row = 0; row < b.n; row++) assert_int_equal(b.samples[row], all.samples[first + row]);
      assert_true(b.epoch == all.epoch && b.index == all.index && b.last == all.last);
    }
    clade_loader_free(whole);
    clade_loader_free(part);
  }
  clade_dataset_release(set);
}

/* ---- contents of batches ---- */
static void test_order(void **state) {
  (void)state;
  telling t = {.bad = -1};
  clade_dataset *set;
  clade_loader *l;
  check_ok(telling_new(&t, 10, &set));
  check_ok(clade_loader_new(set, &l, .batch = 4));
  for (int i = 0; i < 6; i++) {
    clade_batch b = next_of(l);
    assert_int_equal(b.n, i % 3 == 2 ? 2 : 4);
    for (int k = 0; k < 4; k++) {
      int64_t sample = i % 3 * 4 + k;
      assert_int_equal(b.y[k], k < b.n ? sample % 7 : -1);
      for (int p = 0; p < 72; p++) assert_true(b.x[k * 72 + p] == (k < b.n ? (float)(sample * 100 + p) : 0));
      if (k < b.n) assert_int_equal(b.samples[k], sample);
    }
  }
  clade_loader_free(l);
  check_ok(clade_loader_new(set, &l, .batch = 4, .drop_last = true, .epochs = 1));
  assert_int_equal(next_of(l).n, 4);
  clade_batch b = next_of(l);
  assert_true(b.n == 4 && b.last);
  assert_int_equal(next_of(l).n, 0);
  clade_loader_free(l);
  clade_dataset_release(set);
}

/* ---- failing samples ---- */
static void test_failing_sample(void **state) {
  (void)state;
  telling t = {.bad = 21, .slow_us = 200};
  clade_dataset *set;
  clade_loader *l;
  check_ok(telling_new(&t, 40, &set));
  check_ok(clade_loader_new(set, &l, .batch = 4, .threads = 3));
  clade_batch b = {.size = sizeof b};
  for (int i = 0; i < 5; i++) check_ok(clade_loader_next(l, &b)); /* earlier batches are not lost */
  for (int i = 0; i < 2; i++) check_fails(clade_loader_next(l, &b), CLADE_IO, "telling: sample 21: the disk is gone");
  check_ok(clade_loader_seek(l, 0, 6));
  check_ok(clade_loader_next(l, &b));
  assert_int_equal(b.samples[0], 24);
  t.bad_label = 7;
  check_ok(clade_loader_seek(l, 1, 5));
  check_fails(clade_loader_next(l, &b), CLADE_CORRUPT, "sample 21: label 7; labels are 0 to 6");
  clade_loader_free(l);
  clade_dataset_release(set);
}

/* ---- life cycle ---- */
static void test_free_at_any_time(void **state) {
  (void)state;
  telling t = {.bad = -1, .slow_us = 40};
  clade_dataset *set;
  check_ok(telling_new(&t, COUNT, &set));
  for (int i = 0; i < 150; i++) {
    clade_loader *l = loader_of(set, 1 + i % 4, 1 + i % 3);
    for (int k = 0; k < i % 5; k++) next_of(l);
    if (i % 3 == 0) check_ok(clade_loader_seek(l, i % 2, i % 4));
    if (i % 7 == 0) check_ok(clade_loader_cancel(l));
    clade_loader_free(l);
  }
  clade_dataset_release(set);
  clade_loader_free(NULL);
}

static void *wait_for_batch(void *loader) {
  clade_batch b = {.size = sizeof b};
  return (void *)(uintptr_t)clade_loader_next(loader, &b);
}

static void test_cancel(void **state) {
  (void)state;
  atomic_bool gate = false;
  telling t = {.bad = -1, .gate = &gate};
  clade_dataset *set;
  check_ok(telling_new(&t, COUNT, &set));
  clade_loader *l = loader_of(set, 2, 2);
  pthread_t thread;
  void *result;
  assert_int_equal(pthread_create(&thread, NULL, wait_for_batch, l), 0);
  usleep(2000);
  check_ok(clade_loader_cancel(l)); /* while samples are still blocked */
  pthread_join(thread, &result);
  assert_int_equal((int)(uintptr_t)result, CLADE_CANCELED);
  atomic_store(&gate, true);
  clade_batch b = {.size = sizeof b};
  check_fails(clade_loader_next(l, &b), CLADE_CANCELED, "canceled");
  clade_loader_free(l);
  clade_dataset_release(set);
}

/* A forked child has no loader threads; calls fail instead of waiting. */
static void test_fork(void **state) {
  (void)state;
  telling t = {.bad = -1};
  clade_dataset *set;
  check_ok(telling_new(&t, COUNT, &set));
  clade_loader *l = loader_of(set, 2, 2);
  pid_t child = fork();
  if (child == 0) {
    clade_batch b = {.size = sizeof b};
    bool told = clade_loader_next(l, &b) == CLADE_FORKED && clade_loader_seek(l, 0, 0) == CLADE_FORKED &&
                clade_loader_cancel(l) == CLADE_FORKED;
    clade_loader_free(l);
    _exit(told ? 0 : 1);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  next_of(l);
  clade_loader_free(l);
  clade_dataset_release(set);
}

/* ---- memory and time ---- */
static void test_steady(void **state) {
  (void)state;
  telling t = {.bad = -1};
  clade_dataset *set;
  clade_loader *l;
  check_ok(telling_new(&t, COUNT, &set));
  check_ok(clade_loader_new(set, &l, .batch = BATCH, .shuffle = true, .augment = EVERYTHING));
  next_of(l);
  int before = atomic_load(&allocations);
  for (int i = 0; i < 500; i++) next_of(l);
  assert_int_equal(atomic_load(&allocations), before);
  clade_loader_free(l);
  clade_dataset_release(set);
}

/* Threads stay at most `queue` batches ahead. */
static void test_bounded(void **state) {
  (void)state;
  telling t = {.bad = -1};
  clade_dataset *set;
  clade_loader *l;
  check_ok(telling_new(&t, 1000, &set));
  check_ok(clade_loader_new(set, &l, .batch = 4, .threads = 4, .queue = 3));
  for (int taken = 0; taken < 20; taken++) {
    usleep(500);
    clade_loader_info info = {.size = sizeof info};
    check_ok(clade_loader_stats(l, &info));
    assert_int_equal(info.batches, 250);
    assert_int_equal(info.taken, taken);
    assert_true(info.made <= taken + 3 && atomic_load(&t.got) <= (taken + 3) * 4);
    next_of(l);
  }
  clade_loader_free(l);
  clade_dataset_release(set);
}

static void test_waited(void **state) {
  (void)state;
  atomic_bool gate = false;
  telling t = {.bad = -1, .gate = &gate};
  clade_dataset *set;
  check_ok(telling_new(&t, COUNT, &set));
  clade_loader *l = loader_of(set, 1, 4);
  clade_loader_info info = {.size = sizeof info};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, wait_for_batch, l), 0);
  usleep(50000);
  atomic_store(&gate, true);
  pthread_join(thread, NULL);
  check_ok(clade_loader_stats(l, &info));
  assert_true(info.waited > 0.01);
  do { /* prefetched batches do not wait */
    usleep(500);
    check_ok(clade_loader_stats(l, &info));
  } while (info.made < 5);
  double before = info.waited;
  for (int i = 0; i < 4; i++) next_of(l);
  check_ok(clade_loader_stats(l, &info));
  assert_true(info.waited == before);
  clade_loader_free(l);
  clade_dataset_release(set);
}

static clade_status load_and_free(void *set) {
  clade_loader *l = NULL;
  clade_status status = clade_loader_new(set, &l, .batch = 4, .threads = 2, .queue = 2);
  assert_true((l != NULL) == (status == CLADE_OK));
  clade_loader_free(l);
  return status;
}
static void test_no_memory(void **state) {
  (void)state;
  telling t = {.bad = -1};
  clade_dataset *set;
  check_ok(telling_new(&t, COUNT, &set));
  check_failing_allocations(load_and_free, set);
  clade_dataset_release(set);
}

static void test_refusals(void **state) {
  (void)state;
  telling t = {.bad = -1};
  clade_dataset *set;
  clade_loader *l;
  check_ok(telling_new(&t, COUNT, &set));
  check_fails(clade_loader_new(NULL, &l), CLADE_INVALID, "dataset is NULL");
  check_fails(clade_loader_new(set, NULL), CLADE_INVALID, ".out is NULL");
  check_fails(clade_loader_new(set, &l, .batch = -1), CLADE_INVALID, ".batch is -1");
  check_fails(clade_loader_new(set, &l, .batch = 8, .first_row = 5, .rows = 4), CLADE_INVALID, ".rows is 4 from");
  check_fails(clade_loader_new(set, &l, .batch = 8, .first_row = 8), CLADE_INVALID, ".first_row 8");
  check_fails(clade_loader_new(set, &l, .threads = 1000), CLADE_INVALID, ".threads is 1000");
  check_fails(clade_loader_new(set, &l, .queue = -4), CLADE_INVALID, ".queue is -4");
  check_fails(clade_loader_new(set, &l, .epochs = -4), CLADE_INVALID, ".epochs is -4");
  check_fails(clade_loader_new(set, &l, .epochs = INT64_MAX), CLADE_OVERFLOW, ".epochs");
  check_fails(clade_loader_new(set, &l, .batch = 44, .drop_last = true), CLADE_INVALID, "no batch of 44");
  check_fails(clade_loader_new(set, &l, .augment = {.crop = 6}), CLADE_INVALID, ".augment.crop is 6");
  check_fails(clade_loader_new(set, &l, .augment = {.shift = -1}), CLADE_INVALID, ".augment.shift is -1");
  check_fails(clade_loader_new(set, &l, .augment = {.cutout = 7}), CLADE_INVALID, ".augment.cutout is 7");
  check_fails(clade_loader_new(set, &l, .augment = {.rotate = -1}), CLADE_INVALID, ".augment.rotate is -1");
  assert_null(l);
  check_fails(clade_loader_next(NULL, &(clade_batch){.size = sizeof(clade_batch)}), CLADE_INVALID, "loader is NULL");
  check_fails(clade_loader_seek(NULL, 0, 0), CLADE_INVALID, "loader is NULL");
  check_fails(clade_loader_cancel(NULL), CLADE_INVALID, "loader is NULL");
  check_fails(clade_loader_stats(NULL, NULL), CLADE_INVALID, "loader is NULL");
  check_ok(clade_loader_new(set, &l));
  check_fails(clade_loader_next(l, NULL), CLADE_INVALID, "info is NULL");
  check_fails(clade_loader_next(l, &(clade_batch){0}), CLADE_INVALID, "info->size is 0");
  check_fails(clade_loader_stats(l, NULL), CLADE_INVALID, "info is NULL");
  assert_int_equal(next_of(l).index, 0); /* the refused calls consumed nothing */
  clade_loader_free(l);
  clade_dataset_release(set);
}

static void test_throughput(void **state) {
  (void)state;
  clade_dataset *set;
  check_ok(clade_dataset_open("digits", false, &set));
  for (int threads = 1; threads <= 2; threads++) {
    clade_loader *l;
    struct timespec a, b;
    int64_t images = 0;
    check_ok(clade_loader_new(set, &l, .threads = threads, .shuffle = true,
                              .augment = {.shift = 2, .rotate = 10, .normalize = true}));
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < 20; i++) images += next_of(l).n;
    clock_gettime(CLOCK_MONOTONIC, &b);
    double seconds = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9;
    printf("%d threads: %.0f images/s, shifted, turned and normalized\n", threads, (double)images / seconds);
    clade_loader_free(l);
  }
  clade_dataset_release(set);
}

int main(void) {
  count_allocations();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_permutation),    cmocka_unit_test(test_uniform),
      cmocka_unit_test(test_threads),        cmocka_unit_test(test_seek),
      cmocka_unit_test(test_part),           cmocka_unit_test(test_order),
      cmocka_unit_test(test_failing_sample), cmocka_unit_test(test_free_at_any_time),
      cmocka_unit_test(test_cancel),         cmocka_unit_test(test_fork),
      cmocka_unit_test(test_steady),         cmocka_unit_test(test_bounded),
      cmocka_unit_test(test_waited),         cmocka_unit_test(test_no_memory),
      cmocka_unit_test(test_refusals),       cmocka_unit_test(test_throughput),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
