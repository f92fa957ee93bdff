/* Tuning record files: malicious or malformed records are skipped, round trips, and merging keeps the better record.
 * Also buckets and similarity of devices. Over 400 lines: each malformed record is made of the same valid one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "op/op.h"
#include "program/parts.h"

static char root[64];
static const clade__tuned_device here = {.key = {7, 9},
                                         .name = "a \"quoted\" name",
                                         .driver = "1.2",
                                         .device_class = CLADE_CPU,
                                         .compute_units = 2,
                                         .vector_f32 = 8,
                                         .fma_units = 2,
                                         .l1 = 32768,
                                         .l2 = 524288,
                                         .cache = 1 << 25};

static int set_up(void **state) {
  (void)state;
  strcpy(root, "/tmp/clade-records-XXXXXX");
  return !mkdtemp(root) || setenv("CLADE_CACHE_DIR", root, 1) ? -1 : 0;
}
static int tear_down(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", root);
  return system(command);
}

static clade__record record(const char *problem, const char *impl, int32_t value, double seconds) {
  return (clade__record){.op = "gemm",
                         .problem = problem,
                         .impl = impl,
                         .kernel = {3, 4},
                         .n_params = 2,
                         .param = {"rows", "depth"},
                         .value = {value, -value},
                         .seconds = seconds,
                         .default_seconds = 2 * seconds,
                         .full = true};
}

static clade__records *set_of(const clade__tuned_device *device, int n) {
  clade__records *set;
  assert_int_equal(clade__records_new(device, &set), CLADE_OK);
  for (int i = 0; i < n; i++) {
    char problem[32];
    snprintf(problem, sizeof problem, "f32[%d] -> f32", i);
    clade__record r = record(problem, i % 2 ? "vec" : "ref", i, 0.001 * (i + 1));
    assert_int_equal(clade__records_put(set, &r), CLADE_OK);
  }
  return set;
}

static char *printed(clade__records *set) {
  clade__record_sets sets = {0};
  char *text;
  assert_int_equal(clade__record_sets_add(&sets, clade__records_retain(set)), CLADE_OK);
  assert_int_equal(clade__records_print(&sets, &text), CLADE_OK);
  clade__record_sets_free(&sets);
  return text;
}

static char *path_of(clade__hash key) {
  static char path[256];
  char hex[33];
  snprintf(path, sizeof path, "%s/tuning-%s.json", root, clade__hash_text(key, hex));
  return path;
}

static void put_file(const char *path, const char *text, size_t n) {
  unlink(path);
  int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, n), n);
  close(fd);
}

/* ---- text form ---- */
static void what_is_written_is_read(void **state) {
  (void)state;
  clade__records *set = set_of(&here, 5);
  clade__record_sets back;
  size_t bad;
  char *text = printed(set);
  assert_int_equal(clade__records_parse(text, strlen(text), &back, &bad), CLADE_OK);
  assert_int_equal(bad, 0);
  assert_int_equal(back.n, 1);
  const clade__tuned_device *d = &back.at[0]->device;
  assert_true(clade__hash_equal(d->key, here.key));
  assert_string_equal(d->name, here.name);
  assert_true(clade__tuned_distance(d, &here) == 0);
  assert_int_equal(back.at[0]->n, 5);
  for (int i = 0; i < 5; i++) {
    const clade__record *a = &set->at[i], *b = clade__records_find(back.at[0], "gemm", a->problem, "");
    assert_non_null(b);
    assert_string_equal(a->impl, b->impl);
    assert_true(clade__hash_equal(a->kernel, b->kernel));
    assert_int_equal(b->n_params, 2);
    for (int k = 0; k < 2; k++) { /* by name, since JSON does not keep the order */
      int j = strcmp(a->param[k], b->param[0]) ? 1 : 0;
      assert_string_equal(a->param[k], b->param[j]);
      assert_int_equal(a->value[k], b->value[j]);
    }
    assert_true(fabs(a->seconds - b->seconds) < 1e-6 && b->full);
  }
  assert_null(clade__records_find(back.at[0], "gemm", "f32[9] -> f32", ""));
  char *again = printed(back.at[0]);
  assert_string_equal(text, again);
  clade__free(again);
  clade__free(text);
  clade__record_sets_free(&back);
  clade__records_release(set);
}

static void no_damage_gets_through(void **state) {
  (void)state;
  clade__records *set = set_of(&here, 2);
  clade__record_sets back;
  size_t bad, n;
  char *text = printed(set);
  n = strlen(text);
  for (size_t cut = 0; cut < n; cut++) { /* exact size, so that ASan detects reads beyond */
    char *piece = malloc(cut ? cut : 1);
    memcpy(piece, text, cut);
    assert_int_equal(clade__records_parse(piece, cut, &back, &bad), CLADE_CORRUPT);
    assert_int_equal(back.n, 0);
    free(piece);
  }
  for (size_t i = 0; i < n; i++) /* flip each byte: accepted records must be valid */
    for (int bit = 0; bit < 8; bit += 3) {
      text[i] ^= (char)(1 << bit);
      if (clade__records_parse(text, n, &back, &bad) == CLADE_OK) {
        assert_true(back.n <= 1);
        for (size_t k = 0; back.n && k < back.at[0]->n; k++) {
          const clade__record *r = &back.at[0]->at[k];
          assert_true(r->n_params >= 0 && r->n_params <= CLADE_MAX_PARAMS && r->seconds >= 0 && *r->op && *r->impl);
        }
        clade__record_sets_free(&back);
      }
      text[i] ^= (char)(1 << bit);
    }
  clade__free(text);
  clade__records_release(set);
}

/* Number of records skipped in a file with one device and these records. */
static size_t left_out(const char *records, size_t *kept) {
  clade__text text = {0};
  clade__record_sets back;
  size_t bad = 0;
  clade__text_add(&text, "{\"clade_tuning\": 1, \"devices\": [{\"device\": {\"class\": \"cpu\"}, \"records\": [%s]}]}",
                  records);
  assert_int_equal(clade__records_parse(text.data, text.length, &back, &bad), CLADE_OK);
  *kept = back.at[0]->n;
  clade__record_sets_free(&back);
  clade__text_free(&text);
  return bad;
}

#define GOOD "{\"op\": \"a\", \"problem\": \"b\", \"impl\": \"c\"}"
static void malformed_records_are_left_out(void **state) {
  (void)state;
  static const char *const wrong[] = {
      "1",
      "null",
      "[]",
      "{}",
      "{\"op\": \"a\", \"problem\": \"b\"}",
      "{\"op\": 1, \"problem\": \"b\", \"impl\": \"c\"}",
      "{\"op\": \"a\\u0007\", \"problem\": \"b\", \"impl\": \"c\"}",
      "{\"op\": \"\", \"problem\": \"b\", \"impl\": \"c\"}",
      "{\"op\": \"a\", \"problem\": \"b\", \"impl\": \"c\", \"params\": {\"x\": 2147483648}}",
      "{\"op\": \"a\", \"problem\": \"b\", \"impl\": \"c\", \"params\": {\"x\": 1.5}}",
      "{\"op\": \"a\", \"problem\": \"b\", \"impl\": \"c\", \"params\": {\"x\": \"1\"}}",
      "{\"op\": \"a\", \"problem\": \"b\", \"impl\": \"c\", \"params\": {\"\": 1}}",
      "{\"op\": \"a\", \"problem\": \"b\", \"impl\": \"c\", \"params\": [1]}",
      "{\"op\": \"a\", \"problem\": \"b\", \"impl\": \"c\", \"kernel\": \"xyz\"}",
      "{\"op\": \"a\", \"problem\": \"b\", \"impl\": \"c\", \"seconds\": -1}",
      "{\"op\": \"a\", \"problem\": \"b\", \"impl\": \"c\", \"seconds\": 1e300}",
      "{\"op\": \"a\", \"problem\": \"b\", \"impl\": \"c\", \"params\": "
      "{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,"
      "\"g\":1,\"h\":1,\"i\":1,\"j\":1,\"k\":1,\"l\":1,\"m\":1,\"n\":1,\"o\":1,\"p\":1,\"q\":1}}"};
  size_t kept;
  for (size_t i = 0; i < CLADE_COUNT(wrong); i++) {
    char both[1024];
    snprintf(both, sizeof both, "%s, " GOOD, wrong[i]);
    if (left_out(both, &kept) != 1 || kept != 1) fail_msg("%s: %zu kept", wrong[i], kept);
  }
  assert_int_equal(left_out(GOOD, &kept), 0);
}

static void whole_files_are_refused(void **state) {
  (void)state;
  static const char *const wrong[] = {
      "",
      " ",
      "null",
      "[]",
      "{}",
      "{\"clade_tuning\": 2, \"devices\": []}",
      "{\"clade_tuning\": 1}",
      "{\"clade_tuning\": 1, \"devices\": 3}",
      "{\"clade_tuning\": 1, \"devices\": [3]}",
      "{\"clade_tuning\": 1, \"devices\": [{\"device\": {\"class\": \"tpu\"}, \"records\": []}]}",
      "{\"clade_tuning\": 1, \"devices\": [{\"device\": {\"class\": \"cpu\", \"l1\": -1}, \"records\": []}]}",
      "{\"clade_tuning\": 1, \"devices\": [{\"device\": {\"class\": \"cpu\"}}]}",
      "{\"clade_tuning\": 1, \"clade_tuning\": 1, \"devices\": []}"};
  clade__record_sets back;
  size_t bad;
  for (size_t i = 0; i < CLADE_COUNT(wrong); i++)
    if (clade__records_parse(wrong[i], strlen(wrong[i]), &back, &bad) != CLADE_CORRUPT || back.n)
      fail_msg("%s", wrong[i]);
  size_t deep = 100000; /* nested brackets: bounded recursion */
  char *text = malloc(deep);
  memset(text, '[', deep);
  assert_int_equal(clade__records_parse(text, deep, &back, &bad), CLADE_CORRUPT);
  free(text);
}

static void records_are_capped(void **state) {
  (void)state;
  clade__records *set;
  char problem[32];
  assert_int_equal(clade__records_new(&here, &set), CLADE_OK);
  clade_status status = CLADE_OK;
  for (int i = 0; i <= CLADE__RECORDS_MOST && status == CLADE_OK; i++) {
    snprintf(problem, sizeof problem, "%d", i);
    clade__record r = record(problem, "vec", 1, 1);
    status = clade__records_put(set, &r);
    assert_int_equal(status, i < CLADE__RECORDS_MOST ? CLADE_OK : CLADE_OVERFLOW);
  }
  clade__record r = record("7", "vec", 2, 1); /* replacing still works */
  assert_int_equal(clade__records_put(set, &r), CLADE_OK);
  assert_int_equal(clade__records_find(set, "gemm", "7", "")->value[0], 2);
  clade__records_release(set);
}

/* One record per implementation; measuring again replaces all records of a problem. */
static void a_problem_has_several_records(void **state) {
  (void)state;
  clade__records *set, *again, *renewed;
  char impl[8];
  assert_int_equal(clade__records_new(&here, &set), CLADE_OK);
  for (int i = 0; i <= CLADE__RECORDS_IMPLS; i++) {
    snprintf(impl, sizeof impl, "i%d", i);
    clade__record r = record("p", impl, i, 1);
    assert_int_equal(clade__records_put(set, &r), i < CLADE__RECORDS_IMPLS ? CLADE_OK : CLADE_OVERFLOW);
    assert_int_equal(clade__records_put(set, &r), i < CLADE__RECORDS_IMPLS ? CLADE_OK : CLADE_OVERFLOW);
  }
  clade__record other = record("q", "vec", 1, 1);
  assert_int_equal(clade__records_put(set, &other), CLADE_OK);
  int n = 0;
  for (const clade__record *r = clade__records_find(set, "gemm", "p", ""); r; r = clade__records_next(set, r))
    assert_int_equal(r->value[0], n++);
  assert_int_equal(n, CLADE__RECORDS_IMPLS);
  assert_int_equal(clade__records_find(set, "gemm", "p", "i5")->value[0], 5);
  assert_null(clade__records_find(set, "gemm", "p", "vec"));

  assert_int_equal(clade__records_new(&here, &again), CLADE_OK);
  clade__record r = record("p", "i5", 50, 1);
  assert_int_equal(clade__records_put(again, &r), CLADE_OK);
  assert_int_equal(clade__records_renewed(set, again, &renewed), CLADE_OK);
  assert_int_equal(renewed->n, 2);
  assert_int_equal(clade__records_find(renewed, "gemm", "p", "")->value[0], 50);
  assert_non_null(clade__records_find(renewed, "gemm", "q", "vec"));
  clade__records_release(set);
  clade__records_release(again);
  clade__records_release(renewed);
}

/* ---- files ---- */
static int own_count(void) {
  clade__record_sets own;
  int n = 0;
  if (clade__tuning_own(&own) != CLADE_OK) return -1;
  for (size_t i = 0; i < own.n; i++) n += (int)own.at[i]->n;
  clade__record_sets_free(&own);
  return n;
}

static void own_files_are_read_with_care(void **state) {
  (void)state;
  clade__records *set = set_of(&here, 3);
  size_t n;
  char *text = printed(set);
  assert_int_equal(own_count(), 0);
  assert_int_equal(clade__tuning_merge(set, false, &n), CLADE_OK);
  assert_int_equal(n, 3);
  assert_int_equal(own_count(), 3);
  struct stat st;
  assert_int_equal(stat(path_of(here.key), &st), 0);
  assert_int_equal(st.st_mode & 0777, 0600);
  assert_int_equal(chmod(path_of(here.key), 0620), 0); /* another user may have written it */
  assert_int_equal(own_count(), 0);
  assert_int_equal(chmod(path_of(here.key), 0600), 0);
  assert_int_equal(own_count(), 3);
  if (!geteuid()) { /* only root can change the owner */
    assert_int_equal(chown(path_of(here.key), 12345, 12345), 0);
    assert_int_equal(own_count(), 0);
  }
  put_file(path_of((clade__hash){1, 1}), text, strlen(text)); /* belongs to another device */
  unlink(path_of(here.key));
  assert_int_equal(own_count(), 0);
  unlink(path_of((clade__hash){1, 1}));
  assert_int_equal(symlink("/etc/passwd", path_of(here.key)), 0);
  assert_int_equal(own_count(), 0);
  unlink(path_of(here.key));
  assert_int_equal(mkfifo(path_of(here.key), 0600), 0); /* must not block */
  assert_int_equal(own_count(), 0);
  unlink(path_of(here.key));
  put_file(path_of(here.key), "", 0);
  int fd = open(path_of(here.key), O_WRONLY);
  assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0); /* sizes are checked before memory is allocated */
  close(fd);
  assert_int_equal(own_count(), 0);
  put_file(path_of(here.key), text, strlen(text) / 2); /* truncated: replaced by the next merge */
  assert_int_equal(own_count(), 0);
  assert_int_equal(clade__tuning_merge(set, false, &n), CLADE_OK);
  assert_int_equal(own_count(), 3);
  assert_int_equal(chmod(root, 0777), 0); /* writable by others */
  assert_int_equal(clade__tuning_merge(set, false, &n), CLADE_PERMISSION);
  assert_int_equal(chmod(root, 0700), 0);
  clade__free(text);
  clade__records_release(set);
}

static const clade__record *found(clade__record_sets *own) {
  assert_int_equal(clade__tuning_own(own), CLADE_OK);
  assert_int_equal(own->n, 1);
  return clade__records_find(own->at[0], "gemm", "p", "");
}

static void put_one(int32_t value, double seconds, clade__hash kernel, bool replace, size_t expected) {
  clade__records *set;
  size_t n;
  clade__record r = record("p", "vec", value, seconds);
  r.kernel = kernel;
  assert_int_equal(clade__records_new(&here, &set), CLADE_OK);
  assert_int_equal(clade__records_put(set, &r), CLADE_OK);
  assert_int_equal(clade__tuning_merge(set, replace, &n), CLADE_OK);
  assert_int_equal(n, expected);
  clade__records_release(set);
}

static void merging_keeps_what_is_better(void **state) {
  (void)state;
  const clade__hash old = {1, 1}, new = {2, 2};
  clade__record_sets own;
  put_one(1, 0.5, old, false, 1);
  put_one(2, 0.7, old, false, 0); /* slower, with the same kernels */
  put_one(3, 0.4, old, false, 1);
  put_one(4, 0.9, new, false, 1); /* other kernels: old records are removed */
  put_one(5, 1.5, new, true, 1);  /* measured again */
  const clade__record *r = found(&own);
  assert_non_null(r);
  assert_true(r->value[0] == 5 || r->value[1] == 5);
  clade__record_sets_free(&own);
  clade__records *set = set_of(&(clade__tuned_device){.device_class = CLADE_CPU}, 1);
  assert_int_equal(clade__tuning_merge(set, false, NULL), CLADE_INVALID); /* belongs to no single device */
  clade__records_release(set);
}

/* ---- buckets and distances ---- */
static void buckets(void **state) {
  (void)state;
  static const int64_t same[] = {0, 1, 2, 3, 7, 15, 16, 20, 24, 28, 32, 40, 56, 64, 112, 128, 224, 512, 4096};
  for (size_t i = 0; i < CLADE_COUNT(same); i++) assert_int_equal(clade__bucket(same[i]), same[i]);
  assert_int_equal(clade__bucket(17), 20);
  assert_int_equal(clade__bucket(100), 112);
  assert_int_equal(clade__bucket(1000), 1024);
  assert_int_equal(clade__bucket(INT64_MAX), INT64_MAX);
  for (int64_t n = 1; n < 100000; n += 7) {
    int64_t b = clade__bucket(n);
    assert_true(b >= n && b * 4 <= n * 5 && clade__bucket(b) == b);
  }
}

static void near_devices(void **state) {
  (void)state;
  clade__tuned_device same = here, more = here, other = here, gpu = here;
  more.compute_units = 64; /* more cores of the same kind */
  other.vector_f32 = 16;   /* another kind of core */
  gpu.device_class = CLADE_GPU;
  assert_true(clade__tuned_distance(&here, &same) == 0);
  assert_true(clade__tuned_distance(&here, &more) > 0);
  assert_true(clade__tuned_distance(&here, &other) > clade__tuned_distance(&here, &more));
  assert_true(isinf(clade__tuned_distance(&here, &gpu)));
  assert_true(clade__tuned_distance(&here, &other) == clade__tuned_distance(&other, &here));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_written_is_read),
      cmocka_unit_test(no_damage_gets_through),
      cmocka_unit_test(malformed_records_are_left_out),
      cmocka_unit_test(whole_files_are_refused),
      cmocka_unit_test(records_are_capped),
      cmocka_unit_test(a_problem_has_several_records),
      cmocka_unit_test_setup_teardown(own_files_are_read_with_care, set_up, tear_down),
      cmocka_unit_test_setup_teardown(merging_keeps_what_is_better, set_up, tear_down),
      cmocka_unit_test(buckets),
      cmocka_unit_test(near_devices),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
