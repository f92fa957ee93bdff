/* Checkpoint directories: retention, fallback if some are damaged, exclusive writing, and a full disk. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "io/checkpoint.h"
#include "io_vars_kit.h"

static const io_var model[] = {{"w", CLADE_F32, {2, {3, 4}}, true}, {"optimizer.w", CLADE_F32, {2, {3, 4}}, false}};
static clade_vars *state_of(int64_t step) { return io_vars(2, model, (uint64_t)step); }

static clade_checkpoint_dir *open_dir(const char *name) {
  clade_checkpoint_dir *dir;
  OK(clade_checkpoint_dir_open(io_path(name), &dir));
  return dir;
}
static void save(clade_checkpoint_dir *dir, int64_t step, bool best) {
  char text[64];
  clade_vars *vars = state_of(step);
  snprintf(text, sizeof text, "{\"text of\": %lld, \"ä\": \"\\\"\"}", (long long)step);
  OK(clade_checkpoint_save(dir, vars, step, text, .best = best));
  clade_vars_release(vars);
}

/* A complete checkpoint of this step is found; -1: none. */
static void expect(const char *name, clade_checkpoint_which which, int64_t step) {
  char text[64];
  clade_checkpoint *c;
  if (step < 0) {
    assert_int_not_equal(clade_checkpoint_open(io_path(name), which, &c), CLADE_OK);
    assert_null(c);
    return;
  }
  OK(clade_checkpoint_open(io_path(name), which, &c));
  assert_int_equal(clade_checkpoint_step(c), step);
  snprintf(text, sizeof text, "{\"text of\": %lld, \"ä\": \"\\\"\"}", (long long)step);
  assert_string_equal(clade_checkpoint_text(c), text);
  clade_vars *have = state_of(step + 1000), *want = state_of(step);
  OK(clade_checkpoint_apply(c, have));
  assert_true(io_same(have, want));
  clade_vars_release(have);
  clade_vars_release(want);
  clade_checkpoint_free(c);
}

static bool there(const char *directory, const char *name) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", io_path(directory), name);
  return !access(path, F_OK);
}
static void damage(const char *directory, const char *name) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", io_path(directory), name);
  FILE *f = fopen(path, "r+b");
  assert_non_null(f);
  assert_int_equal(fseek(f, -3, SEEK_END), 0);
  int c = fgetc(f);
  assert_int_equal(fseek(f, -3, SEEK_END), 0);
  fputc(c ^ 4, f);
  fclose(f);
}

static char said[4096];
static void listen(void *user, clade_log_level level, const char *message) {
  (void)user, (void)level;
  strncat(said, message, sizeof said - strlen(said) - 1);
}

static void the_last_and_the_best_are_kept(void **state) {
  (void)state;
  clade_checkpoint_dir *dir = open_dir("keep/in/deep");
  expect("keep/in/deep", CLADE_CHECKPOINT_LATEST, -1);
  for (int64_t step = 10; step <= 60; step += 10) {
    save(dir, step, step == 20);
    expect("keep/in/deep", CLADE_CHECKPOINT_LATEST, step);
    expect("keep/in/deep", CLADE_CHECKPOINT_BEST, step < 20 ? step : 20); /* without a best one, the newest */
  }
  assert_int_equal(io_entries(io_path("keep/in/deep")), 3 + 2); /* the best, the lock */
  assert_true(there("keep/in/deep", "step-0000000040.safetensors") && there("keep/in/deep", "best.safetensors"));
  clade_vars *vars = state_of(70);
  OK(clade_checkpoint_save(dir, vars, 70, NULL, .keep = 1));
  assert_int_equal(io_entries(io_path("keep/in/deep")), 1 + 2);
  save(dir, INT64_C(12345678901), true);
  assert_true(there("keep/in/deep", "step-12345678901.safetensors"));
  expect("keep/in/deep", CLADE_CHECKPOINT_BEST, INT64_C(12345678901));
  save(dir, 5, false); /* a restart from the beginning removes the old run's later steps */
  expect("keep/in/deep", CLADE_CHECKPOINT_LATEST, 5);
  assert_int_equal(io_entries(io_path("keep/in/deep")), 1 + 2);
  clade_vars_release(vars);
  clade_checkpoint_dir_close(dir);
}

static void an_older_one_is_taken(void **state) {
  (void)state;
  clade_checkpoint_dir *dir = open_dir("old");
  for (int64_t step = 1; step <= 3; step++) save(dir, step, step == 2);
  clade_log_set(listen, NULL, CLADE_LOG_WARNING);
  damage("old", "step-0000000003.safetensors");
  expect("old", CLADE_CHECKPOINT_LATEST, 2);
  assert_non_null(strstr(said, "step-0000000003.safetensors is damaged: the checksum of tensor \"w\" is wrong"));
  damage("old", "best.safetensors"); /* a hard link of step 2's file */
  expect("old", CLADE_CHECKPOINT_BEST, 1);
  expect("old", CLADE_CHECKPOINT_LATEST, 1);
  assert_int_equal(truncate(io_path("old/step-0000000001.safetensors"), 0), 0);
  expect("old", CLADE_CHECKPOINT_LATEST, -1);
  clade_checkpoint *c;
  REFUSED(CORRUPT, clade_checkpoint_open(io_path("old"), CLADE_CHECKPOINT_LATEST, &c), "step-0000000003");
  save(dir, 3, false); /* replaces the damaged one */
  expect("old", CLADE_CHECKPOINT_LATEST, 3);
  clade_log_set(NULL, NULL, CLADE_LOG_WARNING);
  clade_checkpoint_dir_close(dir);
}

/* Weights saved for other purposes are valid files, but no checkpoints. */
static void other_files(void **state) {
  (void)state;
  clade_checkpoint *c;
  REFUSED(NOT_FOUND, clade_checkpoint_open(io_path("nowhere"), CLADE_CHECKPOINT_LATEST, &c), "nowhere");
  clade_checkpoint_dir *dir = open_dir("other");
  REFUSED(NOT_FOUND, clade_checkpoint_open(io_path("other"), CLADE_CHECKPOINT_BEST, &c), "no checkpoint in");
  clade_vars *vars = state_of(1);
  OK(clade_vars_save(vars, io_path("other/step-0000000009.safetensors")));
  io_file("other/step-9.safetensors", "x", 1); /* not a step's name: ignored */
  io_file("other/step-0000000009.safetensors.old", "x", 1);
  REFUSED(CORRUPT, clade_checkpoint_open(io_path("other"), CLADE_CHECKPOINT_LATEST, &c), "tells no step");
  save(dir, 7, false);
  expect("other", CLADE_CHECKPOINT_LATEST, 7);
  assert_true(there("other", "step-9.safetensors") && !there("other", "step-0000000009.safetensors"));
  clade_vars_release(vars);
  clade_checkpoint_dir_close(dir);
}

/* As after SIGKILL: a stale lock and a partial file. */
static void dead_writers_leave_nothing(void **state) {
  (void)state;
  clade_checkpoint_dir *dir = open_dir("dead");
  save(dir, 1, false);
  clade_checkpoint_dir_close(dir);
  io_file("dead/.clade-1234-5.tmp", "half", 4);
  io_file("dead/.clade-1234-x.tmp", "not ours", 8);
  expect("dead", CLADE_CHECKPOINT_LATEST, 1);
  dir = open_dir("dead");
  assert_false(there("dead", ".clade-1234-5.tmp"));
  assert_true(there("dead", ".clade-1234-x.tmp"));
  clade_checkpoint_dir_close(dir);
}

static void one_writer(void **state) {
  (void)state;
  char process[64];
  clade_checkpoint_dir *dir = open_dir("mine"), *other;
  snprintf(process, sizeof process, "mine: another training writes there: process %ld", (long)getpid());
  REFUSED(BUSY, clade_checkpoint_dir_open(io_path("mine"), &other), process);
  clade_checkpoint_dir_close(dir);
  OK(clade_checkpoint_dir_open(io_path("mine"), &other));
  clade_checkpoint_dir_close(other);
  clade_checkpoint_dir_close(NULL);
}

static void bad_arguments(void **state) {
  (void)state;
  clade_checkpoint *c;
  clade_checkpoint_dir *dir = open_dir("bad"), *other;
  clade_vars *vars = state_of(1);
  REFUSED(INVALID, clade_checkpoint_save(NULL, vars, 1, ""), "directory");
  REFUSED(INVALID, clade_checkpoint_save(dir, NULL, 1, ""), "variables");
  REFUSED(INVALID, clade_checkpoint_save(dir, vars, -1, ""), "step -1");
  REFUSED(INVALID, clade_checkpoint_save(dir, vars, 1, "", .keep = -1), ".keep -1");
  REFUSED(INVALID, clade_checkpoint_save(dir, vars, 1, "\xff"), "UTF-8");
  REFUSED(INVALID, clade_checkpoint_open(NULL, CLADE_CHECKPOINT_LATEST, &c), "NULL");
  REFUSED(INVALID, clade_checkpoint_open("x", CLADE_CHECKPOINT_LATEST, NULL), "NULL");
  REFUSED(INVALID, clade_checkpoint_apply(NULL, vars), "checkpoint");
  REFUSED(INVALID, clade_checkpoint_dir_open(NULL, &other), "path");
  REFUSED(INVALID, clade_checkpoint_dir_open("x", NULL), "NULL");
  io_file("file", "x", 1);
  assert_int_not_equal(clade_checkpoint_dir_open(io_path("file"), &other), CLADE_OK);
  assert_int_not_equal(clade_checkpoint_dir_open(io_path("file/below"), &other), CLADE_OK);
  assert_int_equal(io_entries(io_path("bad")), 1);
  assert_int_equal(clade_checkpoint_step(NULL), -1);
  assert_string_equal(clade_checkpoint_text(NULL), "");
  assert_string_equal(clade_checkpoint_path(NULL), "");
  clade_checkpoint_free(NULL);
  clade_vars_release(vars);
  clade_checkpoint_dir_close(dir);
}

/* Names of optimizer state are not expected by an inference model. */
static void inference_finds_its_weights(void **state) {
  (void)state;
  float have[12], want[12];
  clade_checkpoint *c;
  clade_checkpoint_dir *dir = open_dir("infer");
  clade_vars *trained = state_of(4), *model_alone = io_vars(1, model, 99);
  save(dir, 4, true);
  OK(clade_checkpoint_open(io_path("infer"), CLADE_CHECKPOINT_BEST, &c));
  assert_non_null(strstr(clade_checkpoint_path(c), "infer/best.safetensors"));
  OK(clade_checkpoint_apply(c, model_alone));
  OK(clade_vars_get(model_alone, "w", have, sizeof have));
  OK(clade_vars_get(trained, "w", want, sizeof want));
  assert_memory_equal(have, want, sizeof have);
  clade_checkpoint_free(c);
  clade_vars_release(trained);
  clade_vars_release(model_alone);
  clade_checkpoint_dir_close(dir);
}

/* Uses a tmpfs of its own, which requires root. */
static void full_disk(void **state) {
  (void)state;
  assert_int_equal(mkdir(io_path("full"), 0700), 0);
  if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
      mount("tmpfs", io_path("full"), "tmpfs", 0, "size=64k,mode=0700")) {
    print_message("COULD NOT RUN: mounting a tmpfs of 64 KiB needs root and a mount namespace: %s\n", strerror(errno));
    skip();
  }
  clade_checkpoint_dir *dir = open_dir("full");
  save(dir, 1, true);
  const io_var large = {"w", CLADE_F32, {1, {30000}}, true};
  clade_vars *vars = io_vars(1, &large, 1);
  REFUSED(IO, clade_checkpoint_save(dir, vars, 2, "", .best = true), strerror(ENOSPC));
  assert_non_null(strstr(clade_last_error(), "no checkpoint of step 2"));
  assert_int_equal(io_entries(io_path("full")), 3); /* step 1, the best, the lock */
  expect("full", CLADE_CHECKPOINT_LATEST, 1);
  expect("full", CLADE_CHECKPOINT_BEST, 1);
  save(dir, 2, false);
  expect("full", CLADE_CHECKPOINT_LATEST, 2);
  clade_vars_release(vars);
  clade_checkpoint_dir_close(dir);
  assert_int_equal(umount(io_path("full")), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_last_and_the_best_are_kept),
      cmocka_unit_test(an_older_one_is_taken),
      cmocka_unit_test(other_files),
      cmocka_unit_test(dead_writers_leave_nothing),
      cmocka_unit_test(one_writer),
      cmocka_unit_test(bad_arguments),
      cmocka_unit_test(inference_finds_its_weights),
      cmocka_unit_test(full_disk),
  };
  return cmocka_run_group_tests(tests, io_device_set_up, io_device_tear_down);
}
