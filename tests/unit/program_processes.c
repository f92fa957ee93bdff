/* Processes with a common cache: of several cold ones, one compiles and all agree; a warm one does not use the
 * compiler and creates nothing. This program executes itself, because a forked child cannot use OpenCL. */
#include <setjmp.h>
#include <stdarg.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "program_kernels.h"

extern char **environ;
enum { VARIANTS = 3, PROCESSES = 8 };
#ifdef CLADE_ASAN /* each process takes seconds */
enum { ROUNDS = 1 };
#else
enum { ROUNDS = 3 };
#endif

static void to_stderr(void *user, clade_log_level level, const char *message) {
  (void)user, (void)level;
  fprintf(stderr, "%s\n", message);
}

/* ---- child: prepares, computes and reports ---- */
static int child(const char *report) {
  clade__request r[VARIANTS];
  clade__program_kernel k[VARIANTS];
  clade__store_stats stats;
  clade_device *device;
  clade_log_set(to_stderr, NULL, CLADE_LOG_WARNING);
  if (clade_device_find(NULL, &device) != CLADE_OK) return 2;
  for (int i = 0; i < VARIANTS; i++) probe_request(i, &r[i]);
  if (clade__store_prepare(device, VARIANTS, r, k) != CLADE_OK) {
    fprintf(stderr, "%s\n", clade_last_error());
    return 3;
  }
  for (int i = 0; i < VARIANTS; i++)
    if (probe_run(device, &k[i]) != i + 2) return 4;
  if (clade__store_get_stats(device, &stats) != CLADE_OK) return 5;
  clade_device_release(device);
  FILE *file = fopen(report, "w");
  if (!file) return 6;
  fprintf(file, "%d %d\n", (int)stats.compiled, (int)stats.loaded);
  return fclose(file) ? 7 : 0;
}

static char root[64];
static char *in_root(const char *format, int number) {
  static char path[8][128];
  static int turn;
  char name[64];
  turn = (turn + 1) % 8;
  snprintf(name, sizeof name, format, number);
  snprintf(path[turn], sizeof path[turn], "%s/%s", root, name);
  return path[turn];
}

static pid_t start(int number) {
  char *arguments[] = {(char[]){"program_processes"}, in_root("report%d", number), NULL};
  pid_t pid = -1;
  unlink(arguments[1]);
  assert_int_equal(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ), 0);
  return pid;
}
static void await(pid_t pid) {
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}
static void report(int number, int *compiled, int *loaded) {
  FILE *file = fopen(in_root("report%d", number), "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%d %d", compiled, loaded), 2);
  fclose(file);
}
static void expect(int number, int compiled, int loaded) {
  int c, l;
  report(number, &c, &l);
  assert_int_equal(c, compiled);
  assert_int_equal(l, loaded);
}

/* PoCL creates one file at each start, as a test of write access. */
static int files(const char *path) {
  int n = 0;
  DIR *dir = opendir(path);
  for (struct dirent *e; dir && (e = readdir(dir));) {
    char inner[512];
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || !strncmp(e->d_name, "tempfile_", 9)) continue;
    snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
    n += 1 + files(inner);
  }
  if (dir) closedir(dir);
  return n;
}
static void remove_all(const char *path) {
  DIR *dir = opendir(path);
  for (struct dirent *e; dir && (e = readdir(dir));) {
    char inner[512];
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
    remove_all(inner);
  }
  if (dir) closedir(dir);
  remove(path);
}

/* Empties the caches of Clade and of the implementation. */
static int set_up(void **state) {
  (void)state;
  strcpy(root, "/tmp/clade-processes-XXXXXX");
  if (!mkdtemp(root) || mkdir(in_root("clade", 0), 0700) || mkdir(in_root("pocl", 0), 0700)) return -1;
  return setenv("CLADE_CACHE_DIR", in_root("clade", 0), 1) || setenv("POCL_CACHE_DIR", in_root("pocl", 0), 1);
}
static int tear_down(void **state) {
  (void)state;
  remove_all(root);
  return 0;
}

static void cold_processes_compile_once(void **state) {
  (void)state;
  for (int round = 0; round < ROUNDS; round++) {
    pid_t pids[PROCESSES];
    int compiled = 0, loaded = 0;
    for (int i = 0; i < PROCESSES; i++) pids[i] = start(i);
    for (int i = 0; i < PROCESSES; i++) await(pids[i]);
    for (int i = 0; i < PROCESSES; i++) {
      int c, l;
      report(i, &c, &l);
      compiled += c, loaded += l;
    }
    assert_int_equal(compiled, VARIANTS);
    assert_int_equal(loaded, VARIANTS * (PROCESSES - 1));
    remove_all(in_root("clade", 0)), remove_all(in_root("pocl", 0));
    assert_int_equal(mkdir(in_root("pocl", 0), 0700), 0); /* Clade creates its own */
  }
}

static void warm_process_creates_nothing(void **state) {
  (void)state;
  await(start(0));
  expect(0, VARIANTS, 0);
  int mine = files(in_root("clade", 0)), theirs = files(in_root("pocl", 0));
  assert_int_equal(mine, 3); /* a binary, the index, the lock */
  char path[4096];
  snprintf(path, sizeof path, "%s", getenv("PATH") ? getenv("PATH") : "");
  setenv("PATH", "/nonexistent", 1); /* linking would fail now */
  await(start(1));
  setenv("PATH", path, 1);
  expect(1, 0, VARIANTS);
  assert_int_equal(files(in_root("clade", 0)), mine);
  assert_int_equal(files(in_root("pocl", 0)), theirs);
}

/* Killing a process at any time leaves the cache usable. */
static void killed_writers_leave_no_harm(void **state) {
  (void)state;
  int complete = 0;
  for (int i = 0; i < 12; i++) {
    pid_t pid = start(0);
    nanosleep(&(struct timespec){0, (20 + i * 45) * 1000000L}, NULL);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    if (i % 4 != 3) continue;
    remove_all(in_root("pocl", 0)); /* only Clade's cache is tested */
    assert_int_equal(mkdir(in_root("pocl", 0), 0700), 0);
    await(start(1));
    await(start(2));
    expect(2, 0, VARIANTS);
    complete++;
    remove_all(in_root("clade", 0));
  }
  assert_int_equal(complete, 3);
}

/* ---- disk full and read-only, on a tmpfs, which requires root ---- */
static bool mounted(const char *options) {
  static bool mounts;
  if (!mounts) mounts = !unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
  if (mounts && !mount("tmpfs", in_root("clade", 0), "tmpfs", 0, options)) return true;
  print_message("COULD NOT RUN: mounting a tmpfs needs root and a mount namespace: %s\n", strerror(errno));
  return false;
}

static void full_disk_costs_only_time(void **state) {
  (void)state;
  if (!mounted("size=4k,mode=0700")) skip();
  for (int i = 0; i < 2; i++) {
    await(start(i));
    expect(i, VARIANTS, 0);
  }
  assert_int_equal(files(in_root("clade", 0)), 1); /* the lock; no partial files */
  assert_int_equal(umount(in_root("clade", 0)), 0);
}

static void read_only_disk_costs_only_time(void **state) {
  (void)state;
  if (!mounted("size=4m,mode=0700")) skip();
  assert_int_equal(mount(NULL, in_root("clade", 0), NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
  await(start(0));
  expect(0, VARIANTS, 0);
  assert_int_equal(mount(NULL, in_root("clade", 0), NULL, MS_REMOUNT, NULL), 0);
  await(start(0));
  assert_int_equal(mount(NULL, in_root("clade", 0), NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
  await(start(0)); /* existing entries are readable */
  expect(0, 0, VARIANTS);
  assert_int_equal(umount(in_root("clade", 0)), 0);
}

int main(int count, char **arguments) {
  if (count > 1) return child(arguments[1]);
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(cold_processes_compile_once), TEST(warm_process_creates_nothing),   TEST(killed_writers_leave_no_harm),
      TEST(full_disk_costs_only_time),   TEST(read_only_disk_costs_only_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
