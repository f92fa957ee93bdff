/* Every allocation of reading and writing files, including jansson's, fails in turn: the failure is reported,
 * nothing leaks, and nothing is modified. */
#include "io_memory_kit.h"
#include "io_vars_kit.h"

/* ---- operations ---- */
static clade_vars *vars, *other;
static const io_var model[] = {{"w", CLADE_F32, {2, {3, 4}}, true}, {"optimizer.w", CLADE_U8, {1, {5}}, false}};

static clade_status save(void) { return clade_vars_save(vars, io_path("save")); }
static clade_status load(void) { return clade_vars_load(other, io_path("load")); }
static clade_status load_wrong(void) {
  clade_status status = clade_vars_load(other, io_path("wrong"));
  return status == CLADE_NOT_FOUND && strstr(clade_last_error(), "does not fit") ? CLADE_OK : status;
}
static clade_status hash(void) {
  char text[65];
  return clade_vars_sha256(vars, text);
}
static clade_status checkpoint(void) {
  clade_checkpoint_dir *dir = NULL;
  clade_status status = clade_checkpoint_dir_open(io_path("checkpoints"), &dir);
  for (int step = 1; step <= 2 && status == CLADE_OK; step++)
    status = clade_checkpoint_save(dir, vars, step, "text", .keep = 1, .best = true);
  clade_checkpoint_dir_close(dir);
  return status;
}
static clade_status resume(void) {
  clade_checkpoint *c = NULL;
  clade_status status = clade_checkpoint_open(io_path("kept"), CLADE_CHECKPOINT_BEST, &c);
  if (status == CLADE_OK) status = clade_checkpoint_apply(c, other);
  clade_checkpoint_free(c);
  return status;
}
static clade_status tell(void) {
  clade_events *events = NULL;
  clade_status status = clade_events_open(io_path("logs"), 1, &events);
  if (status == CLADE_OK) status = clade_events_scalar(events, 1, "a,b", 0.5);
  if (status == CLADE_OK) status = clade_events_histogram(events, 1, "h", (float[]){1, 2}, 2);
  clade_events_close(events);
  return status;
}
static clade_status numpy(void) {
  clade_array array = {CLADE_F32, {2, {2, 3}}, (float[6]){0}, 24, NULL}, back = {0};
  clade_status status = clade_npy_write(io_path("x.npy"), &array);
  if (status == CLADE_OK) status = clade_npy_read(io_path("x.npy"), &back);
  clade_array_free(&back);
  return status;
}
static clade_status numpy_turned(void) {
  clade_array back = {0};
  clade_status status = clade_npy_read(io_path("turned.npy"), &back);
  clade_array_free(&back);
  return status;
}
static clade_status mnist(void) {
  clade_array array = {0};
  clade_status status = clade__idx_read(io_path("x.idx"), 100, &array);
  clade_array_free(&array);
  return status;
}
static clade_status cifar(void) {
  clade_array images, labels;
  clade_status status = clade__cifar_read(io_path("x.bin"), 1, &images, &labels);
  clade_array_free(&images);
  clade_array_free(&labels);
  return status;
}

static void all(void **state) {
  (void)state;
  static const unsigned char idx[] = {0, 0, 12, 1, 0, 0, 0, 1, 1, 2, 3, 4}, image[3073];
  static const char turned[] = "\x93NUMPY\1\0\x3c\0{'descr': '|i2', 'fortran_order': True, 'shape': (1, 2)}   \n....";
  const io_var wrong[] = {{"v", CLADE_F32, {1, {2}}, true}};
  clade_checkpoint_dir *dir;
  clade_vars *strange = io_vars(1, wrong, 0);
  OK(clade_vars_save(vars, io_path("load")));
  OK(clade_vars_save(strange, io_path("wrong")));
  OK(clade_checkpoint_dir_open(io_path("kept"), &dir));
  OK(clade_checkpoint_save(dir, vars, 1, "text", .best = true));
  clade_checkpoint_dir_close(dir);
  io_file("x.idx", idx, sizeof idx);
  io_file("x.bin", image, sizeof image);
  io_file("turned.npy", turned, sizeof turned - 1);
  each("save", save);
  each("load", load);
  each("load_wrong", load_wrong);
  each("hash", hash);
  each("checkpoint", checkpoint);
  each("resume", resume);
  each("tell", tell);
  each("numpy", numpy);
  each("numpy_turned", numpy_turned);
  each("mnist", mnist);
  each("cifar", cifar);
  assert_true(io_same(vars, other));
  assert_int_equal(io_entries(io_path("checkpoints")), 3); /* step 2, the best, the lock */
  clade_vars_release(strange);
}

static int set_up(void **state) {
  if (fail_memory() || io_device_set_up(state)) return -1;
  vars = io_vars(2, model, 1);
  other = io_vars(2, model, 2);
  return 0;
}
static int tear_down(void **state) {
  clade_vars_release(vars);
  clade_vars_release(other);
  return io_device_tear_down(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
