/* The program store on a device: joint compilation, reuse from memory and disk, and messages if a kernel does not
 * compile. Each test has its own cache directory. */
#include <setjmp.h>
#include <stdarg.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "program_kernels.h"

static char *last_warning;
static int warnings;
static void keep_warning(void *user, clade_log_level level, const char *message) {
  (void)user;
  if (level > CLADE_LOG_WARNING) return;
  free(last_warning);
  last_warning = strdup(message);
  warnings++;
}

static char root[64];
static int set_up(void **state) {
  (void)state;
  strcpy(root, "/tmp/clade-store-XXXXXX");
  if (!mkdtemp(root)) return -1;
  clade_log_set(keep_warning, NULL, CLADE_LOG_WARNING);
  return setenv("CLADE_CACHE_DIR", root, 1);
}

static void each_file(void (*fn)(const char *path)) {
  DIR *dir = opendir(root);
  for (struct dirent *e; dir && (e = readdir(dir));) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, e->d_name);
    if (e->d_type == DT_REG) fn(path);
  }
  if (dir) closedir(dir);
}
static void remove_file(const char *path) { unlink(path); }
static int tear_down(void **state) {
  (void)state;
  clade_log_set(NULL, NULL, 0);
  each_file(remove_file);
  free(last_warning);
  last_warning = NULL;
  warnings = 0;
  return rmdir(root);
}

static clade__store_stats stats_of(clade_device *device) {
  clade__store_stats stats;
  assert_int_equal(clade__store_get_stats(device, &stats), CLADE_OK);
  return stats;
}
static void expect_stats(clade_device *device, uint64_t compiled, uint64_t loaded, uint64_t hits) {
  clade__store_stats stats = stats_of(device);
  assert_int_equal(stats.compiled, compiled);
  assert_int_equal(stats.loaded, loaded);
  assert_int_equal(stats.hits, hits);
}

/* ---- memory and disk ---- */
static void variants_are_built_together_and_compute(void **state) {
  (void)state;
  clade_device *device = probe_device();
  clade__request requests[4];
  clade__program_kernel kernels[4];
  for (int i = 0; i < 3; i++) probe_request(i, &requests[i]);
  requests[3] = requests[1];
  assert_int_equal(clade__store_prepare(device, 4, requests, kernels), CLADE_OK);
  assert_ptr_equal(kernels[0].program, kernels[1].program);
  assert_ptr_equal(kernels[0].program, kernels[2].program);
  assert_string_equal(kernels[1].name, kernels[3].name);
  for (int i = 0; i < 3; i++) assert_int_equal(probe_run(device, &kernels[i]), i + 2);
  expect_stats(device, 3, 0, 1);
  assert_int_equal(clade__store_prepare(device, 4, requests, kernels), CLADE_OK);
  expect_stats(device, 3, 0, 5);
  assert_int_equal(clade__store_prepare(device, 0, NULL, NULL), CLADE_OK);
  clade_device_release(device);
  assert_int_equal(warnings, 0);

  device = probe_device();
  assert_int_equal(clade__store_prepare(device, 2, requests, kernels), CLADE_OK);
  for (int i = 0; i < 2; i++) assert_int_equal(probe_run(device, &kernels[i]), i + 2);
  expect_stats(device, 0, 2, 0);
  probe_request(7, &requests[0]); /* a new one is compiled alone; the others are kept */
  assert_int_equal(clade__store_prepare(device, 3, requests, kernels), CLADE_OK);
  expect_stats(device, 1, 3, 1);
  assert_int_equal(probe_run(device, &kernels[0]), 9);
  assert_int_equal(probe_run(device, &kernels[2]), 4);
  clade__store_flush(device);
  clade__store_flush(device);
  clade_device_release(device);

  device = probe_device();
  probe_request(0, &requests[1]);
  assert_int_equal(clade__store_prepare(device, 3, requests, kernels), CLADE_OK);
  expect_stats(device, 0, 3, 0);
  clade_device_release(device);
  assert_int_equal(warnings, 0);
}

static void new_launch_of_a_known_kernel_is_kept_too(void **state) {
  (void)state;
  clade_device *device = probe_device();
  clade__request r[2];
  clade__program_kernel k[2];
  probe_request(0, &r[0]);
  r[1] = r[0];
  r[1].local[0] = 8, r[1].large_grid = true;
  assert_int_equal(clade__store_prepare(device, 1, &r[0], k), CLADE_OK);
  clade_device_release(device);
  device = probe_device();
  assert_int_equal(clade__store_prepare(device, 1, &r[0], k), CLADE_OK);
  assert_int_equal(clade__store_prepare(device, 1, &r[1], k), CLADE_OK);
  expect_stats(device, 0, 1, 0); /* not compiled again */
  clade_device_release(device);
  device = probe_device();
  assert_int_equal(clade__store_prepare(device, 2, r, k), CLADE_OK);
  expect_stats(device, 0, 1, 0);
  assert_int_equal(probe_run(device, &k[1]), 2);
  clade_device_release(device);
  assert_int_equal(warnings, 0);
}

static void many_kernels_take_several_programs(void **state) {
  (void)state;
  enum { N = 45 };
  static char text[N][8];
  static clade__define define[N][3];
  clade_device *device = probe_device();
  clade__request r[N];
  clade__program_kernel k[N];
  for (int i = 0; i < N; i++) {
    probe_request(0, &r[i]);
    memcpy(define[i], r[i].defines, sizeof define[i]);
    snprintf(text[i], sizeof text[i], "%d", i + 100);
    define[i][1].text = text[i];
    r[i].defines = define[i];
    r[i].args = NULL; /* skip warm-up launches, which take time */
    r[i].options = i % 2 ? "-cl-mad-enable" : "";
  }
  assert_int_equal(clade__store_prepare(device, N, r, k), CLADE_OK);
  assert_ptr_not_equal(k[0].program, k[1].program);
  assert_ptr_equal(k[0].program, k[N - 1].program);
  expect_stats(device, N, 0, 0);
  assert_int_equal(probe_run(device, &k[N - 1]), 100 + N - 1);
  clade_device_release(device);
}

/* ---- failures ---- */
static void failing_kernel_is_named_with_file_and_line(void **state) {
  (void)state;
  clade_device *device = probe_device();
  clade__request r[3];
  clade__program_kernel k[3];
  for (int i = 0; i < 3; i++) probe_request(i, &r[i]);
  r[1].file = "broken";
  r[1].kernel = "broken_probe";
  r[1].source = "/* one */\nKERNEL(broken_probe)(__global float *x) {\n  x[0] = no_such_thing;\n}\n";
  r[1].args = NULL;
  r[1].options = ""; /* in one program with the others */
  assert_int_equal(clade__store_prepare(device, 3, r, k), CLADE_BUILD);
  const char *message = clade_last_error();
  clade_device_info info = {.size = sizeof info};
  assert_int_equal(clade_device_get_info(device, &info), CLADE_OK);
  assert_non_null(strstr(message, info.name));
  assert_non_null(strstr(message, "broken_probe"));
  assert_non_null(strstr(message, "broken.cl:3"));
  assert_non_null(strstr(message, "no_such_thing"));
  /* The others stay usable. */
  assert_int_equal(clade__store_prepare(device, 1, &r[2], k), CLADE_OK);
  assert_int_equal(probe_run(device, &k[0]), 4);
  clade_device_release(device);
}

static void launches_beyond_the_limits_are_refused(void **state) {
  (void)state;
  clade_device *device = probe_device();
  clade__request r;
  clade__program_kernel k;
  probe_request(0, &r);
  r.local[0] = (size_t)1 << 40;
  assert_int_equal(clade__store_prepare(device, 1, &r, &k), CLADE_UNSUPPORTED);
  assert_non_null(strstr(clade_last_error(), "probe"));
  probe_request(0, &r);
  r.n_args = 2;
  assert_int_equal(clade__store_prepare(device, 1, &r, &k), CLADE_INVALID);
  assert_non_null(strstr(clade_last_error(), "arguments"));
  static const clade__launch_arg local[] = {{CLADE__LAUNCH_LOCAL, UINT32_MAX}};
  probe_request(0, &r);
  r.source = "KERNEL(probe)(__local float *x) { x[0] = 1; }\n";
  r.n_args = 1, r.args = local;
  assert_int_equal(clade__store_prepare(device, 1, &r, &k), CLADE_UNSUPPORTED);
  probe_request(0, &r);
  r.kernel = "not_in_the_file";
  assert_int_not_equal(clade__store_prepare(device, 1, &r, &k), CLADE_OK);
  assert_non_null(strstr(clade_last_error(), "not_in_the_file"));
  probe_request(0, &r);
  assert_int_equal(clade__store_prepare(device, 1, &r, &k), CLADE_OK);
  assert_int_equal(clade__store_prepare(NULL, 1, &r, &k), CLADE_INVALID);
  clade_device_release(device);
}

/* ---- a corrupted or read-only cache ---- */
enum { DAMAGES = 20 };
static int part; /* index, of DAMAGES */

static off_t size_of(const char *path) {
  struct stat st;
  assert_int_equal(stat(path, &st), 0);
  return st.st_size;
}
static void flip(const char *path, off_t at) {
  int fd = open(path, O_RDWR);
  char byte;
  assert_int_equal(pread(fd, &byte, 1, at), 1);
  byte ^= 4;
  assert_int_equal(pwrite(fd, &byte, 1, at), 1);
  close(fd);
}
static void flip_header(const char *path) {
  if (strstr(path, ".bin")) flip(path, part * CLADE__CACHE_HEADER / DAMAGES);
}
static void cut(const char *path) {
  if (strstr(path, ".bin")) assert_int_equal(truncate(path, part * size_of(path) / DAMAGES), 0);
}
static void cut_index(const char *path) {
  if (strstr(path, ".index")) assert_int_equal(truncate(path, part * size_of(path) / DAMAGES), 0);
}

static void prepare_one(uint64_t compiled) {
  clade__request r;
  clade__program_kernel k;
  probe_request(0, &r);
  clade_device *device = probe_device();
  assert_int_equal(clade__store_prepare(device, 1, &r, &k), CLADE_OK);
  assert_int_equal(probe_run(device, &k), 2);
  expect_stats(device, compiled, 1 - compiled, 0);
  clade_device_release(device);
}

static void damaged_files_are_compiled_again(void **state) {
  (void)state;
  void (*const damage[])(const char *) = {cut, flip_header, cut_index};
  prepare_one(1);
  for (size_t i = 0; i < CLADE_COUNT(damage); i++)
    for (part = 0; part < DAMAGES; part++) {
      each_file(damage[i]);
      warnings = 0;
      prepare_one(1);
      assert_true(warnings > 0);
      assert_non_null(strstr(last_warning, root));
      warnings = 0;
      prepare_one(0); /* repaired */
      assert_int_equal(warnings, 0);
    }
}

static void cache_stays_below_its_limit(void **state) {
  (void)state;
  clade__cache_stats stats;
  setenv("CLADE_CACHE_MIB", "0", 1); /* keeps the newest binary only */
  for (int i = 0; i < 4; i++) {
    clade__request r;
    clade__program_kernel k;
    probe_request(i, &r);
    clade_device *device = probe_device();
    assert_int_equal(clade__store_prepare(device, 1, &r, &k), CLADE_OK);
    clade_device_release(device);
    assert_int_equal(clade__cache_get_stats(&stats), CLADE_OK);
    assert_int_equal(stats.files, 2); /* with the index */
  }
  unsetenv("CLADE_CACHE_MIB");
  prepare_one(1); /* evicted, so silently compiled again */
  assert_int_equal(warnings, 0);
}

/* Valid for Clade, but refused by the implementation, which must report an error instead of crashing, as those do
 * that check the format. */
static void refused_binary_is_compiled_again(void **state) {
  (void)state;
  static const char nonsense[] = "this is no program at all";
  clade_device *device = probe_device();
  clade__hash device_key = clade__programs_key(device),
              name = clade__cache_address(device_key, nonsense, sizeof nonsense);
  clade__cache cache;
  clade__index index = {0};
  clade__request r;
  clade__program_kernel k;
  probe_request(0, &r);
  clade__index_record record = {.binary = name, .name = "probe"};
  assert_int_equal(clade__request_hash(&r, &record.key), CLADE_OK);
  if (clade__quirk_has(device, CLADE__QUIRK_WARM)) record.key = clade__request_launch_hash(&r, record.key);
  assert_int_equal(clade__cache_open(root, true, &cache), CLADE_OK);
  assert_int_equal(clade__cache_write(&cache, CLADE__CACHE_BINARY, device_key, name, nonsense, sizeof nonsense),
                   CLADE_OK);
  assert_int_equal(clade__index_put(&index, &record), CLADE_OK);
  assert_int_equal(clade__index_save(&index, &cache, device_key), CLADE_OK);
  clade__index_free(&index);
  clade__cache_close(&cache);
  assert_int_equal(clade__store_prepare(device, 1, &r, &k), CLADE_OK);
  assert_int_equal(probe_run(device, &k), 2);
  expect_stats(device, 1, 0, 0);
  assert_true(warnings > 0);
  clade_device_release(device);
}

static void unsafe_directory_is_not_used(void **state) {
  (void)state;
  clade__request r;
  clade__program_kernel k;
  probe_request(0, &r);
  assert_int_equal(chmod(root, 0770), 0);
  clade_device *device = probe_device();
  assert_int_equal(clade__store_prepare(device, 1, &r, &k), CLADE_OK);
  assert_int_equal(probe_run(device, &k), 2);
  clade_device_release(device);
  assert_int_equal(warnings, 1);
  assert_non_null(strstr(last_warning, root));
  assert_int_equal(rmdir(root), 0); /* nothing was written */
  assert_int_equal(mkdir(root, 0700), 0);
}

/* ---- threads ---- */
typedef struct job {
  clade_device *device;
  int first, value;
  clade_status status;
} job;
static void *prepare_and_run(void *argument) {
  job *j = argument;
  clade__request r[3];
  clade__program_kernel k[3];
  for (int i = 0; i < 3; i++) probe_request(j->first + i, &r[i]);
  j->status = clade__store_prepare(j->device, 3, r, k);
  if (j->status == CLADE_OK) j->value = probe_run(j->device, &k[2]);
  return NULL;
}
static void threads_share_a_store(void **state) {
  (void)state;
  clade_device *device = probe_device();
  job jobs[4];
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) jobs[i] = (job){device, i % 2 * 2, 0, CLADE_OK};
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, prepare_and_run, &jobs[i]), 0);
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(jobs[i].status, CLADE_OK);
    assert_int_equal(jobs[i].value, jobs[i].first + 4);
  }
  expect_stats(device, 5, 0, 7);
  clade_device_release(device);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(variants_are_built_together_and_compute),
      TEST(new_launch_of_a_known_kernel_is_kept_too),
      TEST(many_kernels_take_several_programs),
      TEST(failing_kernel_is_named_with_file_and_line),
      TEST(launches_beyond_the_limits_are_refused),
      TEST(damaged_files_are_compiled_again),
      TEST(cache_stays_below_its_limit),
      TEST(refused_binary_is_compiled_again),
      TEST(unsafe_directory_is_not_used),
      TEST(threads_share_a_store),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
