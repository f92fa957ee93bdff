/* Device profiles: rounded, written once under the cache's lock, accepted only if valid and of this device, and
 * pinned with a func's choices. Concurrent processes agree on them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <clade/clade.h>

#include "op/dims.h"
#include "plan/plan.h"
#include "program/parts.h"

extern char **environ;
enum { SIZE = 48 };
static int processes = 6;
static char root[64];
static clade_device *device;

/* ---- helpers ---- */
static int empty(void) {
  char command[320];
  snprintf(command, sizeof command, "rm -rf %s/clade %s/pocl && mkdir -m 700 %s/clade %s/pocl", root, root, root, root);
  return system(command);
}
static int set_up(void **state) {
  char path[96];
  (void)state;
  strcpy(root, "/tmp/clade-profile-XXXXXX");
  if (!mkdtemp(root) || empty()) return -1;
  snprintf(path, sizeof path, "%s/clade", root);
  return setenv("CLADE_CACHE_DIR", path, 1) || setenv("CLADE_MEASURE", "on", 1); /* measure CPUs as well */
}
static int tear_down(void **state) {
  char command[128];
  (void)state;
  clade_device_release(device);
  device = NULL;
  unsetenv("CLADE_MEASURE");
  snprintf(command, sizeof command, "rm -rf %s", root);
  return system(command);
}
static void open_again(void) { /* with a new store */
  clade_device_release(device);
  assert_int_equal(clade_device_find(NULL, &device), CLADE_OK);
}

static clade_func *compiled(const char *given, bool untuned) {
  clade_graph *g;
  clade_func *func;
  assert_int_equal(clade_graph_new(&g), CLADE_OK);
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(SIZE, SIZE));
  clade_output(g, "y", clade_softmax(g, clade_gemm(g, x, x), 1));
  assert_int_equal(clade_compile(g, device, &func, .choices = given, .untuned = untuned), CLADE_OK);
  clade_graph_release(g);
  return func;
}
static char *choices(const char *given, bool untuned) { /* free with clade_text_free */
  char *text;
  clade_func *func = compiled(given, untuned);
  assert_int_equal(clade_func_choices(func, &text), CLADE_OK);
  clade_func_release(func);
  return text;
}
static bool has_profile(const char *text) { return strstr(text, "\"profile\"") != NULL; }
static bool compiles_with_profile(void) {
  char *text = choices(NULL, false);
  bool has = has_profile(text);
  clade_text_free(text);
  return has;
}
static clade_device_info told(void) {
  clade_device_info info = {.size = sizeof info};
  assert_int_equal(clade_device_get_info(device, &info), CLADE_OK);
  return info;
}
static bool is_kept(void) {
  bool kept = true;
  assert_int_equal(clade_device_ask_profile(device, CLADE_PROFILE_KEPT, &kept), CLADE_OK);
  return kept;
}
static char *file(void) {
  static char path[160];
  char hex[33];
  snprintf(path, sizeof path, "%s/clade/tuning-%s.json", root, clade__hash_text(clade__device_key(device), hex));
  return path;
}

static const clade__profile some = {.bandwidth_gbps = 256,
                                    .launch_us = 4,
                                    .wait_us = 16,
                                    .peak_gflops = {[CLADE_F32] = 4096, [CLADE_I8] = 1024},
                                    .local_static_bytes = 226 << 10};
/* Writes a profile like another process. */
static void plant(const clade__profile *profile, clade__hash key) {
  clade__tuned_device d;
  clade__cache cache;
  char path[96];
  snprintf(path, sizeof path, "%s/clade", root);
  clade__tuned_describe(device, &d);
  d.key = key;
  d.profile = *profile;
  assert_int_equal(clade__cache_open(path, true, &cache), CLADE_OK);
  const int lock = clade__cache_lock(&cache); /* otherwise this process's writer may remove the file as stale */
  assert_int_equal(clade__tuning_keep_profile(&cache, &d), CLADE_OK);
  clade__cache_unlock(lock);
  clade__cache_close(&cache);
}
/* Replaces `from` by `to` in the file. */
static void edit(const char *from, const char *to) {
  char text[4096] = "", *at;
  FILE *f = fopen(file(), "r");
  assert_non_null(f);
  assert_true(fread(text, 1, sizeof text - 1, f) > 0);
  fclose(f);
  assert_non_null(at = strstr(text, from));
  f = fopen(file(), "w");
  fprintf(f, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
  fclose(f);
}

/* ---- numbers ---- */
static void rounding(void **state) {
  (void)state;
  for (double x = 1e-3; x < 1e9; x *= 1.07) {
    clade__profile p = {.bandwidth_gbps = x, .wait_us = x}, twice;
    clade__profile_round(&p);
    assert_true(fabs(log2(p.bandwidth_gbps / x)) <= 0.2501);
    assert_true(p.bandwidth_gbps == p.wait_us && p.launch_us == 0);
    twice = p;
    clade__profile_round(&twice);
    assert_memory_equal(&p, &twice, sizeof p);
  }
  assert_true(clade__profile_sane(&some) && clade__profile_known(&some));
  const double wrong[] = {-1, NAN, INFINITY, 1e300, 1e-30};
  for (size_t i = 0; i < CLADE_COUNT(wrong); i++) {
    clade__profile p = some;
    p.peak_gflops[CLADE_F16] = wrong[i];
    assert_false(clade__profile_sane(&p));
  }
}

/* A roofline of the measured values; without them, and always on CPUs, of the class defaults. */
static void costs(void **state) {
  (void)state;
  clade_device_info gpu = {.device_class = CLADE_GPU, .compute_units = 132, .clock_mhz = 1980, .vector_f32 = 1};
  clade_device_info cpu = {.device_class = CLADE_CPU, .compute_units = 2, .clock_mhz = 2000, .vector_f32 = 8};
  const double expected = clade__cost(&gpu, 1e12, 1e6, 0.5), of_cpu = clade__cost(&cpu, 1e9, 1e6, 0.5);
  assert_true(fabs(expected - (5e-6 + 1e12 / (132 * 1.98e9 * 128 * 0.5))) < 1e-12);
  assert_true(of_cpu == 5e-6 + 1e9 / (2.0 * 2000 * 1e6 * 8 * 2 * 0.5) + 1e6 / 2e10);
  clade__profile_tell(&some, &gpu);
  clade__profile_tell(&some, &cpu);
  assert_true(fabs(clade__cost(&gpu, 4.096e12, 1, 0.5) - (4e-6 + 2)) < 1e-9);       /* compute-bound */
  assert_true(fabs(clade__cost(&gpu, 4.096e11, 2.56e11, 0.5) - (4e-6 + 1)) < 1e-9); /* memory-bound */
  assert_true(fabs(clade__cost(&gpu, 0, 0, 1) - 4e-6) < 1e-12);
  assert_true(clade__cost(&cpu, 1e9, 1e6, 0.5) == of_cpu);
}

/* ---- storage ---- */
static void a_first_compilation_measures(void **state) {
  (void)state;
  open_again();
  assert_false(is_kept());
  assert_true(told().bandwidth_gbps == 0);
  assert_true(compiles_with_profile());
  clade_device_info first = told();
  assert_true(first.bandwidth_gbps > 0 && first.peak_gflops[CLADE_F32] > 0 && first.launch_us > 0);
  assert_true(first.wait_us > 0);
  clade_memory_use use = {.size = sizeof use};
  assert_int_equal(clade_device_memory(device, &use), CLADE_OK);
  assert_true(use.pooled < 1 << 20 && use.peak < 16 << 20); /* its memory is released and does not count as peak */
  open_again();
  assert_true(is_kept());
  clade_device_info later = told();
  assert_memory_equal(first.peak_gflops, later.peak_gflops, sizeof first.peak_gflops);
  assert_true(first.bandwidth_gbps == later.bandwidth_gbps && first.wait_us == later.wait_us);
}

static void what_is_kept_stays(void **state) {
  (void)state;
  open_again();
  plant(&some, clade__device_key(device));
  assert_true(compiles_with_profile());
  assert_true(told().bandwidth_gbps == 256 && told().local_static_bytes == 226 << 10);
  bool kept = false;
  assert_int_equal(clade_device_ask_profile(device, CLADE_PROFILE_MISSING, &kept), CLADE_OK);
  assert_true(kept && told().peak_gflops[CLADE_F32] == 4096);
  assert_int_equal(clade_device_ask_profile(device, CLADE_PROFILE_AGAIN, &kept), CLADE_OK);
  assert_true(kept && told().local_static_bytes != 226 << 10);
  assert_int_equal(clade_device_ask_profile(device, (clade_profile_mode)7, NULL), CLADE_INVALID);
}

/* Records and profiles share a file, and writing either keeps the other. */
static void beside_records(void **state) {
  (void)state;
  clade__tuned_device d;
  clade__records *set;
  clade__record r = {.op = "gemm", .problem = "p", .impl = "ref", .seconds = 1};
  open_again();
  plant(&some, clade__device_key(device));
  clade__tuned_describe(device, &d);
  d.fma_units = 2;
  assert_int_equal(clade__records_new(&d, &set), CLADE_OK);
  assert_int_equal(clade__records_put(set, &r), CLADE_OK);
  assert_int_equal(clade__tuning_merge(set, true, NULL), CLADE_OK);
  clade__profile other = some;
  other.bandwidth_gbps = 512;
  set->device.profile = other; /* from another machine's file: the existing profile stays */
  assert_int_equal(clade__tuning_merge(set, false, NULL), CLADE_OK);
  clade__records_release(set);
  assert_true(is_kept() && told().bandwidth_gbps == 256);
  plant(&other, clade__device_key(device));
  assert_true(is_kept() && told().bandwidth_gbps == 512);
  clade__record_sets own;
  assert_int_equal(clade__tuning_own(&own), CLADE_OK);
  assert_int_equal(own.n, 1);
  assert_non_null(clade__records_find(own.at[0], "gemm", "p", "ref"));
  assert_int_equal(own.at[0]->device.fma_units, 2);
  clade__record_sets_free(&own);
}

static void damaged_and_foreign_files_are_ignored(void **state) {
  (void)state;
  static const char *const damage[][2] = {{"256.0", "-256.0"},     {"256.0", "1e300"}, {"256.0", "\"fast\""},
                                          {"\"f32\": 4096.0", ""}, {"4.0", "1e-200"},  {"\"clade_tuning\": 1", "7"},
                                          {"\"devices\"", "\"de"}};
  open_again();
  const clade__hash own = clade__device_key(device);
  for (size_t i = 0; i < CLADE_COUNT(damage); i++) {
    plant(&some, own);
    edit(damage[i][0], damage[i][1]);
    assert_false(is_kept());
    unlink(file());
  }
  /* for another driver: ignored under its own name, and refused as a whole under this device's name */
  clade__hash other = own;
  other.lo ^= 1;
  plant(&some, other);
  assert_false(is_kept());
  char command[512], hex[33];
  snprintf(command, sizeof command, "cp %s/clade/tuning-%s.json %s", root, clade__hash_text(other, hex), file());
  assert_int_equal(system(command), 0);
  assert_false(is_kept());
  assert_true(compiles_with_profile()); /* measured and rewritten */
  assert_true(is_kept() && told().local_static_bytes != 226 << 10);
}

static void nothing_is_measured_unasked(void **state) {
  (void)state;
  bool kept = true;
  setenv("CLADE_MEASURE", "off", 1);
  open_again();
  assert_false(compiles_with_profile());
  unsetenv("CLADE_MEASURE");
  open_again();
  assert_int_equal(compiles_with_profile(), told().device_class == CLADE_GPU);
  setenv("CLADE_MEASURE", "on", 1);
  assert_int_equal(empty(), 0);
  open_again();
  char *text = choices(NULL, true); /* untuned: the stored profile is ignored */
  assert_false(has_profile(text) || is_kept());
  clade_text_free(text);
  setenv("CLADE_CACHE_DIR", "off", 1); /* no storage */
  open_again();
  assert_false(compiles_with_profile());
  assert_true(told().bandwidth_gbps == 0);
  assert_int_equal(clade_device_ask_profile(device, CLADE_PROFILE_MISSING, &kept), CLADE_OK);
  assert_true(!kept && told().bandwidth_gbps > 0);
  assert_false(compiles_with_profile());
}

static void choices_pin_it(void **state) {
  (void)state;
  open_again();
  plant(&some, clade__device_key(device));
  char *first = choices(NULL, false);
  clade__profile other = some;
  other.peak_gflops[CLADE_F32] = 64;
  plant(&other, clade__device_key(device));
  char *later = choices(NULL, false), *pinned = choices(first, false), *plain = choices(NULL, true);
  assert_true(has_profile(first) && !has_profile(plain));
  assert_string_not_equal(first, later);
  assert_string_equal(first, pinned);
  char *without = choices(plain, false); /* chosen without a profile, so it stays without */
  assert_string_equal(plain, without);
  clade_func *func = compiled(first, false);
  clade__profile p;
  clade__func_speed(func, 0, &p);
  assert_true(p.bandwidth_gbps == 256 && p.peak_gflops[CLADE_F32] == 4096 && p.local_static_bytes == 226 << 10);
  clade_func_release(func);
  clade_text_free(first), clade_text_free(later), clade_text_free(pinned), clade_text_free(plain);
  clade_text_free(without);
}

/* ---- processes ---- */
/* Prints its choices and the bits of its result. */
static int child(const char *path) {
  static float x[SIZE * SIZE], y[SIZE * SIZE];
  clade_run *run;
  clade_ticket ticket;
  char *text;
  for (int i = 0; i < SIZE * SIZE; i++) x[i] = (float)(i % 17) / 17 - 0.4f;
  if (clade_device_find(NULL, &device)) return 2;
  clade_func *func = compiled(NULL, false);
  if (clade_run_new(func, NULL, &run) || clade_func_choices(func, &text)) return 3;
  if (clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket)) return 4;
  if (clade_read(run, ticket, "y", y, sizeof y)) return 5;
  FILE *report = fopen(path, "w");
  if (!report) return 6;
  fprintf(report, "%s\n", text);
  fwrite(y, 1, sizeof y, report);
  clade_text_free(text);
  clade_run_free(run);
  clade_func_release(func);
  return fclose(report) ? 7 : 0;
}

static size_t report_of(int i, char *out, size_t bytes) {
  char path[96];
  snprintf(path, sizeof path, "%s/report%d", root, i);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  size_t n = fread(out, 1, bytes, f);
  fclose(f);
  return n;
}

static void cold_processes(bool profile) {
  static char first[1 << 16], one[1 << 16];
  char path[96];
  pid_t pid[64];
  snprintf(path, sizeof path, "%s/pocl", root);
  setenv("POCL_CACHE_DIR", path, 1); /* for the children: this process has opened its own */
  for (int i = 0; i < processes; i++) {
    char *arguments[] = {(char[]){"program_profile"}, (char[]){"child"}, path, NULL};
    snprintf(path, sizeof path, "%s/report%d", root, i);
    assert_int_equal(posix_spawn(&pid[i], "/proc/self/exe", NULL, NULL, arguments, environ), 0);
  }
  for (int i = 0; i < processes; i++) {
    int status;
    assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
  }
  size_t n = report_of(0, first, sizeof first);
  assert_true(n > sizeof(float) * SIZE * SIZE && has_profile(first) == profile);
  for (int i = 1; i < processes; i++) {
    assert_int_equal(report_of(i, one, sizeof one), n);
    assert_memory_equal(first, one, n);
  }
}
static void cold_processes_that_share_a_cache(void **state) {
  (void)state;
  cold_processes(true);
}
/* They compile under the lock of the home directory. */
static void cold_processes_without_one(void **state) {
  (void)state;
  setenv("CLADE_CACHE_DIR", "off", 1);
  cold_processes(false);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
int main(int argc, char **argv) {
  if (argc == 3 && !strcmp(argv[1], "child")) return child(argv[2]);
  const struct CMUnitTest all[] = {
      cmocka_unit_test(rounding),        cmocka_unit_test(costs), TEST(a_first_compilation_measures),
      TEST(what_is_kept_stays),          TEST(beside_records),    TEST(damaged_and_foreign_files_are_ignored),
      TEST(nothing_is_measured_unasked), TEST(choices_pin_it),    TEST(cold_processes_that_share_a_cache),
      TEST(cold_processes_without_one)};
  const struct CMUnitTest many[] = {TEST(cold_processes_that_share_a_cache), TEST(cold_processes_without_one)};
  if (argc == 1) return cmocka_run_group_tests(all, NULL, NULL);
  processes = atoi(argv[1]) < 64 ? atoi(argv[1]) : 64;
  return cmocka_run_group_tests(many, NULL, NULL);
}
