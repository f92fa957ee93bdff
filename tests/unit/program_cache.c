/* Files of the program cache, without a device: damage is detected, permissions are checked, and failed writes leave
 * nothing behind. Over 400 lines: each kind of damage is done to the same valid cache. */
#include <setjmp.h>
#include <stdarg.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "program/parts.h"

static const clade__hash device = {11, 22}, other_device = {11, 23};
static char root[64];

static char *in_root(const char *name) {
  static char path[4][256];
  static int turn;
  turn = (turn + 1) % 4;
  snprintf(path[turn], sizeof path[turn], "%s/%s", root, name);
  return path[turn];
}

static int set_up(void **state) {
  (void)state;
  strcpy(root, "/tmp/clade-cache-XXXXXX");
  return mkdtemp(root) ? 0 : -1;
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
static int tear_down(void **state) {
  (void)state;
  remove_all(root);
  return 0;
}

static clade__cache open_cache(const char *name) {
  clade__cache cache;
  assert_int_equal(clade__cache_open(in_root(name), true, &cache), CLADE_OK);
  return cache;
}
static int entries(const char *path) {
  int n = 0;
  DIR *dir = opendir(path);
  assert_non_null(dir);
  while (readdir(dir)) n++;
  closedir(dir);
  return n - 2;
}
static clade__hash store_bytes(const clade__cache *cache, const void *data, size_t bytes) {
  clade__hash name = clade__cache_address(device, data, bytes);
  assert_int_equal(clade__cache_write(cache, CLADE__CACHE_BINARY, device, name, data, bytes), CLADE_OK);
  return name;
}

/* ---- reader ---- */
static void every_damage_is_refused(void **state) {
  (void)state;
  clade__cache cache = open_cache("damage");
  char data[300], file[CLADE__CACHE_NAME];
  for (size_t i = 0; i < sizeof data; i++) data[i] = (char)(i * 7);
  clade__hash name = store_bytes(&cache, data, sizeof data);
  clade__cache_file_name(CLADE__CACHE_BINARY, name, file);
  unsigned char whole[CLADE__CACHE_HEADER + sizeof data + 1] = {0};
  size_t bytes = sizeof whole - 1;
  int fd = openat(cache.dir, file, O_RDONLY);
  assert_int_equal(read(fd, whole, sizeof whole), bytes);
  close(fd);

  clade__cache_blob blob = {0};
  assert_int_equal(clade__cache_verify(whole, bytes, CLADE__CACHE_BINARY, device, &blob), CLADE_OK);
  assert_int_equal(blob.bytes, sizeof data);
  assert_memory_equal(blob.data, data, sizeof data);
  assert_int_equal(clade__cache_verify(whole, bytes, CLADE__CACHE_INDEX, device, &blob), CLADE_CORRUPT);
  assert_int_equal(clade__cache_verify(whole, bytes, CLADE__CACHE_BINARY, other_device, &blob), CLADE_CORRUPT);
  assert_int_equal(clade__cache_verify(whole, bytes + 1, CLADE__CACHE_BINARY, device, &blob), CLADE_CORRUPT);
  for (size_t n = 0; n < bytes; n++) { /* exact size, so that ASan detects reads beyond */
    unsigned char *cut = malloc(n ? n : 1);
    memcpy(cut, whole, n);
    assert_int_equal(clade__cache_verify(cut, n, CLADE__CACHE_BINARY, device, &blob), CLADE_CORRUPT);
    free(cut);
  }
  for (size_t i = 0; i < bytes; i++)
    for (int bit = 0; bit < 8; bit++) {
      whole[i] ^= (unsigned char)(1 << bit);
      assert_int_equal(clade__cache_verify(whole, bytes, CLADE__CACHE_BINARY, device, &blob), CLADE_CORRUPT);
      whole[i] ^= (unsigned char)(1 << bit);
    }
  clade__cache_close(&cache);
}

static void files_are_read_with_care(void **state) {
  (void)state;
  clade__cache cache = open_cache("care");
  clade__cache_blob blob;
  char file[CLADE__CACHE_NAME], other[CLADE__CACHE_NAME];
  clade__hash name = store_bytes(&cache, "abc", 3), second = store_bytes(&cache, "abd", 3);
  clade__cache_file_name(CLADE__CACHE_BINARY, name, file);
  clade__cache_file_name(CLADE__CACHE_BINARY, second, other);
  assert_int_equal(clade__cache_read(&cache, CLADE__CACHE_BINARY, device, name, &blob), CLADE_OK);
  assert_memory_equal(blob.data, "abc", 3);
  clade__free(blob.file);

  assert_int_equal(fchmodat(cache.dir, file, 0620, 0), 0); /* another user may have written it */
  assert_int_equal(clade__cache_read(&cache, CLADE__CACHE_BINARY, device, name, &blob), CLADE_PERMISSION);
  assert_int_equal(renameat(cache.dir, other, cache.dir, file), 0); /* valid, but belongs under another name */
  assert_int_equal(clade__cache_read(&cache, CLADE__CACHE_BINARY, device, name, &blob), CLADE_CORRUPT);
  assert_int_equal(clade__cache_read(&cache, CLADE__CACHE_BINARY, device, second, &blob), CLADE_NOT_FOUND);
  assert_int_equal(unlinkat(cache.dir, file, 0), 0);
  assert_int_equal(mkfifoat(cache.dir, file, 0600), 0); /* must not block */
  assert_int_equal(clade__cache_read(&cache, CLADE__CACHE_BINARY, device, name, &blob), CLADE_PERMISSION);
  assert_int_equal(unlinkat(cache.dir, file, 0), 0);
  assert_int_equal(symlinkat("/etc/passwd", cache.dir, file), 0);
  assert_int_equal(clade__cache_read(&cache, CLADE__CACHE_BINARY, device, name, &blob), CLADE_IO);
  assert_int_equal(unlinkat(cache.dir, file, 0), 0);
  int fd = openat(cache.dir, file, O_CREAT | O_WRONLY, 0600);
  assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0); /* sizes are checked before memory is allocated */
  close(fd);
  assert_int_equal(clade__cache_read(&cache, CLADE__CACHE_BINARY, device, name, &blob), CLADE_CORRUPT);
  clade__cache_close(&cache);
}

/* ---- index ---- */
static clade__index_record record(uint64_t key, clade__hash binary) {
  clade__index_record r = {.key = {key, key}, .binary = binary};
  snprintf(r.name, sizeof r.name, "kernel_%u", (unsigned)key);
  return r;
}

static void index_keeps_what_has_a_binary(void **state) {
  (void)state;
  clade__cache cache = open_cache("index");
  clade__index index = {0}, again = {0};
  clade__hash binary = store_bytes(&cache, "abc", 3);
  for (uint64_t i = 1; i <= 100; i++) {
    clade__index_record r = record(i, i % 2 ? binary : (clade__hash){i, 1});
    assert_int_equal(clade__index_put(&index, &r), CLADE_OK);
  }
  assert_int_equal(clade__index_save(&index, &cache, device), CLADE_OK);
  assert_int_equal(clade__index_refresh(&again, &cache, device), CLADE_OK);
  assert_int_equal(again.n, 50);
  assert_string_equal(clade__index_find(&again, (clade__hash){7, 7})->name, "kernel_7");
  assert_null(clade__index_find(&again, (clade__hash){8, 8}));
  assert_null(clade__index_find(&index, (clade__hash){8, 8}));

  clade__index_record late = record(200, binary); /* from another process */
  assert_int_equal(clade__index_put(&index, &late), CLADE_OK);
  assert_int_equal(clade__index_save(&index, &cache, device), CLADE_OK);
  assert_int_equal(clade__index_refresh(&again, &cache, device), CLADE_OK);
  assert_non_null(clade__index_find(&again, (clade__hash){200, 200}));
  assert_int_equal(clade__index_refresh(&again, &cache, other_device), CLADE_OK);
  assert_int_equal(again.n, 0);
  clade__index_free(&index);
  clade__index_free(&again);
  clade__cache_close(&cache);
}

static int warnings;
static void count_warnings(void *user, clade_log_level level, const char *message) {
  (void)user, (void)level, (void)message;
  warnings++;
}

static void damaged_index_is_empty_and_said_once(void **state) {
  (void)state;
  clade__cache cache = open_cache("broken");
  clade__index index = {0};
  char file[CLADE__CACHE_NAME];
  clade__index_record r = record(1, store_bytes(&cache, "abc", 3));
  assert_int_equal(clade__index_put(&index, &r), CLADE_OK);
  assert_int_equal(clade__index_save(&index, &cache, device), CLADE_OK);
  clade__index_free(&index);
  clade__cache_file_name(CLADE__CACHE_INDEX, device, file);
  int fd = openat(cache.dir, file, O_RDWR);
  assert_int_equal(pwrite(fd, "x", 1, CLADE__CACHE_HEADER + 40), 1);
  close(fd);
  clade_log_set(count_warnings, NULL, CLADE_LOG_WARNING);
  warnings = 0;
  for (int i = 0; i < 3; i++) assert_int_equal(clade__index_refresh(&index, &cache, device), CLADE_OK);
  assert_int_equal(index.n, 0);
  assert_int_equal(warnings, 1);
  /* An unterminated name in an otherwise valid file. */
  memset(r.name, 'x', sizeof r.name);
  assert_int_equal(clade__cache_write(&cache, CLADE__CACHE_INDEX, device, device, &r, sizeof r), CLADE_OK);
  assert_int_equal(clade__index_refresh(&index, &cache, device), CLADE_OK);
  assert_int_equal(index.n, 0);
  assert_int_equal(warnings, 2);
  clade_log_set(NULL, NULL, 0);
  clade__index_free(&index);
  clade__cache_close(&cache);
}

/* ---- directory ---- */
static void directory_is_the_users_alone(void **state) {
  (void)state;
  clade__cache cache;
  struct stat st;
  assert_int_equal(clade__cache_open(in_root("absent"), false, &cache), CLADE_NOT_FOUND);
  cache = open_cache("deep/er/still");
  clade__cache_close(&cache);
  assert_int_equal(stat(in_root("deep/er"), &st), 0);
  assert_int_equal(st.st_mode & 0777, 0700);
  for (mode_t extra = 0002; extra <= 0020; extra = (mode_t)(extra * 8)) {
    assert_int_equal(chmod(in_root("deep/er/still"), 0700 | extra), 0);
    assert_int_equal(clade__cache_open(in_root("deep/er/still"), true, &cache), CLADE_PERMISSION);
    assert_non_null(strstr(clade_last_error(), "deep/er/still"));
  }
  assert_int_equal(chmod(in_root("deep/er/still"), 0755), 0); /* readable by others */
  assert_int_equal(clade__cache_open(in_root("deep/er/still"), true, &cache), CLADE_OK);
  clade__cache_close(&cache);
  fclose(fopen(in_root("file"), "w"));
  assert_int_equal(clade__cache_open(in_root("file"), true, &cache), CLADE_IO);
  assert_int_equal(clade__cache_open(in_root("file/inside"), true, &cache), CLADE_IO);
}

static void foreign_directory_is_refused(void **state) {
  (void)state;
  clade__cache cache;
  /* A directory of root, or for root one of another user. */
  const char *path = "/";
  if (!geteuid()) {
    path = in_root("foreign");
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chown(path, 12345, 12345), 0);
  }
  assert_int_equal(clade__cache_open(path, true, &cache), CLADE_PERMISSION);
  assert_non_null(strstr(clade_last_error(), "belongs to user"));
}

static void path_follows_the_environment(void **state) {
  (void)state;
  char *path, before[256] = "";
  if (getenv("CLADE_CACHE_DIR")) snprintf(before, sizeof before, "%s", getenv("CLADE_CACHE_DIR"));
  unsetenv("CLADE_CACHE_DIR");
  setenv("HOME", "/home/her", 1);
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  assert_int_equal(clade__cache_path(&path), CLADE_OK);
  assert_string_equal(path, "/xdg/clade");
  clade__free(path);
  setenv("XDG_CACHE_HOME", "relative", 1); /* ignored, as the XDG specification requires */
  assert_int_equal(clade__cache_path(&path), CLADE_OK);
  assert_string_equal(path, "/home/her/.cache/clade");
  clade__free(path);
  setenv("CLADE_CACHE_DIR", "/given", 1);
  assert_int_equal(clade__cache_path(&path), CLADE_OK);
  assert_string_equal(path, "/given");
  clade__free(path);
  clade__settings settings = {.cache_dir = "/told"};
  assert_int_equal(clade__settings_set(&settings), CLADE_OK);
  assert_int_equal(clade__cache_path(&path), CLADE_OK);
  assert_string_equal(path, "/told");
  clade__free(path);
  assert_int_equal(clade__settings_set(&(clade__settings){0}), CLADE_OK);
  unsetenv("CLADE_CACHE_DIR"), unsetenv("HOME"), unsetenv("XDG_CACHE_HOME");
  assert_int_equal(clade__cache_path(&path), CLADE_NOT_FOUND);
  if (*before) setenv("CLADE_CACHE_DIR", before, 1);
}

/* ---- maintenance ---- */
static void eviction_takes_the_least_recently_used(void **state) {
  (void)state;
  clade__cache cache = open_cache("evict");
  char data[1000] = {0}, file[CLADE__CACHE_NAME];
  for (int i = 0; i < 10; i++) {
    data[0] = (char)i;
    clade__cache_file_name(CLADE__CACHE_BINARY, store_bytes(&cache, data, sizeof data), file);
    struct timespec times[2] = {{1000 + (i * 3) % 10, 0}, {1000 + (i * 3) % 10, 0}};
    assert_int_equal(utimensat(cache.dir, file, times, 0), 0);
  }
  fclose(fopen(in_root("evict/readme.bin"), "w")); /* not a file of the cache */
  fclose(fopen(in_root("evict/tmp.1.2"), "w"));
  cache.limit = 20000;
  clade__cache_evict(&cache);
  assert_int_equal(entries(in_root("evict")), 12);
  clade__cache_sweep(&cache);
  assert_int_equal(entries(in_root("evict")), 11);
  cache.limit = 8000; /* evicts down to three quarters: five files */
  clade__cache_evict(&cache);
  assert_int_equal(entries(in_root("evict")), 6);
  for (int i = 0; i < 10; i++) {
    clade__cache_blob blob;
    data[0] = (char)i;
    clade_status expected = (i * 3) % 10 < 5 ? CLADE_NOT_FOUND : CLADE_OK;
    assert_int_equal(
        clade__cache_read(&cache, CLADE__CACHE_BINARY, device, clade__cache_address(device, data, sizeof data), &blob),
        expected);
    clade__free(blob.file);
  }
  cache.limit = 1;
  clade__cache_evict(&cache);
  assert_int_equal(entries(in_root("evict")), 2);
  clade__cache_close(&cache);
}

static void clearing_leaves_what_is_not_the_caches(void **state) {
  (void)state;
  clade__cache_stats stats;
  uint64_t files, bytes;
  clade__settings settings = {.cache_dir = in_root("clear")};
  assert_int_equal(clade__settings_set(&settings), CLADE_OK);
  assert_int_equal(clade__cache_clear(&files, &bytes), CLADE_OK); /* empty before and after */
  assert_int_equal(files, 0);
  assert_int_equal(access(in_root("clear"), F_OK), -1);
  clade__cache cache = open_cache("clear");
  store_bytes(&cache, "abc", 3);
  store_bytes(&cache, "abcd", 4);
  fclose(fopen(in_root("clear/notes.txt"), "w"));
  assert_int_equal(clade__cache_get_stats(&stats), CLADE_OK);
  assert_int_equal(stats.files, 2);
  assert_int_equal(stats.bytes, 2 * CLADE__CACHE_HEADER + 7);
  assert_true(stats.enabled && stats.safe && stats.writable && stats.limit > 0);
  assert_int_equal(clade__cache_clear(&files, &bytes), CLADE_OK);
  assert_int_equal(files, 2);
  assert_int_equal(bytes, 2 * CLADE__CACHE_HEADER + 7);
  assert_int_equal(access(in_root("clear/notes.txt"), F_OK), 0);
  assert_int_equal(chmod(in_root("clear"), 0777), 0);
  assert_int_equal(clade__cache_clear(&files, &bytes), CLADE_PERMISSION);
  assert_int_equal(clade__cache_get_stats(&stats), CLADE_OK);
  assert_false(stats.safe);
  clade__cache_close(&cache);
  assert_int_equal(clade__settings_set(&(clade__settings){0}), CLADE_OK);
}

static void lock_excludes(void **state) {
  (void)state;
  clade__cache cache = open_cache("lock");
  int lock = clade__cache_lock(&cache);
  assert_true(lock >= 0);
  pid_t child = fork();
  if (!child) {
    int mine = clade__cache_lock(&cache);
    _exit(mine >= 0 && !faccessat(cache.dir, "done", F_OK, 0) ? 0 : 1);
  }
  nanosleep(&(struct timespec){0, 50000000}, NULL);
  fclose(fopen(in_root("lock/done"), "w"));
  clade__cache_unlock(lock); /* unlocks although a child inherited the descriptor */
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  clade__cache_close(&cache);
}

/* ---- disk full and read-only, on a tmpfs, which requires root ---- */
static bool mounts;

/* A private mount namespace; false if not permitted. */
static bool small_disk(const char *path) {
  if (!mounts) mounts = !unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
  assert_int_equal(mkdir(path, 0700), 0);
  if (mounts && !mount("tmpfs", path, "tmpfs", 0, "size=64k,mode=0700")) return true;
  print_message("COULD NOT RUN: mounting a tmpfs of 64 KiB needs root and a mount namespace: %s\n", strerror(errno));
  return false;
}

static void full_disk_leaves_nothing(void **state) {
  (void)state;
  if (!small_disk(in_root("full"))) skip();
  clade__cache cache = open_cache("full");
  static char data[100000];
  clade__hash name = clade__cache_address(device, data, sizeof data);
  assert_int_equal(clade__cache_write(&cache, CLADE__CACHE_BINARY, device, name, data, sizeof data), CLADE_IO);
  assert_non_null(strstr(clade_last_error(), strerror(ENOSPC)));
  assert_int_equal(entries(in_root("full")), 0);
  store_bytes(&cache, data, 1000); /* still usable */
  clade__cache_close(&cache);
  assert_int_equal(umount(in_root("full")), 0);
}

static void read_only_disk_is_read(void **state) {
  (void)state;
  if (!small_disk(in_root("frozen"))) skip();
  clade__cache cache = open_cache("frozen");
  clade__cache_blob blob;
  clade__hash name = store_bytes(&cache, "abc", 3);
  clade__cache_close(&cache);
  assert_int_equal(mount(NULL, in_root("frozen"), NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
  cache = open_cache("frozen");
  assert_false(cache.writable);
  assert_int_equal(clade__cache_read(&cache, CLADE__CACHE_BINARY, device, name, &blob), CLADE_OK);
  clade__free(blob.file);
  assert_int_equal(clade__cache_write(&cache, CLADE__CACHE_BINARY, device, name, "abc", 3), CLADE_IO);
  int lock = clade__cache_lock(&cache);
  assert_true(lock >= 0); /* locks the directory itself */
  clade__cache_unlock(lock);
  clade__cache_close(&cache);
  assert_int_equal(umount(in_root("frozen")), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_damage_is_refused),
      cmocka_unit_test(files_are_read_with_care),
      cmocka_unit_test(index_keeps_what_has_a_binary),
      cmocka_unit_test(damaged_index_is_empty_and_said_once),
      cmocka_unit_test(directory_is_the_users_alone),
      cmocka_unit_test(foreign_directory_is_refused),
      cmocka_unit_test(path_follows_the_environment),
      cmocka_unit_test(eviction_takes_the_least_recently_used),
      cmocka_unit_test(clearing_leaves_what_is_not_the_caches),
      cmocka_unit_test(lock_excludes),
      cmocka_unit_test(full_disk_leaves_nothing),
      cmocka_unit_test(read_only_disk_is_read),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
