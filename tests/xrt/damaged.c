/* The Xilinx runtime trusts the contents of an xclbin and crashes on damaged ones. Every damaged file that passes
 * Clade's checks must be safe: it is loaded and launched in a separate process. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../emulated/kit.h"
#include "program/bundles.h"

enum { AT_UUID = 416, MOST_CRASHES = 20 };

typedef struct damage {
  size_t at, bytes;
  uint32_t value;
} damage;

/* Progress of the loading process. */
typedef struct progress {
  size_t next, loaded;
} progress;

static clade__text whole;
static damage *damages;
static size_t count, capacity;
static progress *shared;

/* Each gets its own UUID, since the runtime does not reread a known image. */
static void damaged(const damage *d, size_t image, unsigned char *to) {
  memcpy(to, whole.data, whole.length);
  clade__put_little(to + d->at, d->value, d->bytes);
  clade__put_little(to + AT_UUID, image, 8);
}

static clade__bundle bundle_of(const void *binary, size_t bytes) {
  clade__bundle bundle = {.path = "it",
                          .manifest = kit_manifest(CLADE__TARGET_XILINX, CLADE__XCLBIN),
                          .binary = binary,
                          .binary_bytes = bytes};
  bundle.manifest.kernels = &kit_scale_kernel;
  return bundle;
}

static clade_status check(const void *binary, size_t bytes) {
  clade__arena arena = {0};
  const clade__bundle bundle = bundle_of(binary, bytes);
  clade_status status = clade__container_check(&bundle, &arena);
  clade__arena_free(&arena);
  return status;
}

/* Keeps the damage if Clade's check accepts the file. */
static void consider(damage d, unsigned char *room) {
  if (d.at + d.bytes > whole.length) return;
  damaged(&d, count + 1, room);
  if (check(room, whole.length) != CLADE_OK) return;
  check_ok(clade__grow(&damages, &capacity, count + 1, sizeof *damages));
  damages[count++] = d;
}

/* ---- in a separate process ---- */
static void launch(clade_device *device, cl_program program) {
  const size_t one = 1;
  const cl_int zero = 0;
  cl_kernel kernel;
  clade__queue *queue = NULL;
  clade__buffer *buffer = NULL;
  if (clade__kernel_new(device, program, "kit_scale", &kernel)) return;
  if (!clade__queue_new(device, false, &queue) && !clade__buffer_new(device, 64, "a test", &buffer)) {
    cl_mem mem = clade__buffer_mem(buffer);
    clade_status status = CLADE_OK;
    for (cl_uint i = 0; i < 5 && !status; i++)
      status = i == 0 || i == 2 ? clade__kernel_set(device, kernel, i, sizeof mem, &mem)
                                : clade__kernel_set(device, kernel, i, sizeof zero, &zero);
    if (!status) status = clade__queue_launch(queue, kernel, 1, &one, &one, (clade__wait){0}, NULL);
    if (!status) (void)!clade__queue_finish(queue);
  }
  clade__buffer_release(buffer);
  clade__queue_free(queue);
  clade__kernel_release(kernel);
}

/* The runtime releases a program on a thread, a moment after its last launch; until then it accepts no other. */
static clade_status load_program(clade_device *device, clade__bundle *bundle, cl_program *program) {
  clade_status status = CLADE_OK;
  for (int tries = 0; tries < 200; tries++) {
    status = clade__bundle_load(device, bundle, program);
    if (status == CLADE_OK || !strstr(clade_last_error(), "CL_OUT_OF_RESOURCES")) break;
    usleep(1000);
  }
  return status;
}

static clade_status load(clade_device *device, const void *binary, size_t bytes) {
  clade__bundle bundle = bundle_of(binary, bytes);
  cl_program program;
  clade_status status = load_program(device, &bundle, &program);
  if (status != CLADE_OK) return status;
  launch(device, program);
  clade__program_release(program);
  return CLADE_OK;
}

/* Silences output and restores fatal signals, which cmocka would catch and continue with the next test. */
static void be_alone(void) {
  static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  for (size_t i = 0; i < CLADE_COUNT(signals); i++) signal(signals[i], SIG_DFL);
  if (!freopen("/dev/null", "w", stderr)) abort();
}

static int load_all(unsigned char *room) {
  clade_device *device;
  be_alone();
  if (clade_device_find("fpga", &device) || load(device, whole.data, whole.length)) return 2;
  for (; shared->next < count; shared->next++) {
    damaged(&damages[shared->next], shared->next + 1, room);
    shared->loaded += load(device, room, whole.length) == CLADE_OK;
  }
  return 0;
}

static int in_a_process(int (*work)(unsigned char *), unsigned char *room) {
  int status = 0;
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (!child) _exit(work(room));
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

static void what_is_let_through(void **state) {
  (void)state;
  static const uint32_t extremes[] = {0, 0x7fffffff, 0x80000000, 0xffffffff, 0x10000};
  unsigned char *room = clade__new(whole.length, 1);
  assert_non_null(room);
  for (size_t at = 0; at < whole.length; at += 4)
    for (size_t i = 0; i < CLADE_COUNT(extremes); i++) consider((damage){at, 4, extremes[i]}, room);
  for (unsigned i = 0; i < 2000; i++) {
    uint32_t random[4];
    clade__philox(11, 0, i, random);
    consider((damage){random[0] % whole.length, 1, random[1] & 255}, room);
  }
  int crashes = 0;
  while (shared->next < count && crashes < MOST_CRASHES) {
    int status = in_a_process(load_all, room);
    if (WIFEXITED(status) && !WEXITSTATUS(status)) break;
    const damage *d = &damages[CLADE_MIN(shared->next, count - 1)];
    print_message("%zu bytes at %zu made %#x: %s %d\n", d->bytes, d->at, d->value,
                  WIFEXITED(status) ? "exit" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    crashes++;
    shared->next++;
  }
  print_message("%zu damaged files: %zu loaded, %zu refused by the runtime, %d ended it\n", count, shared->loaded,
                count - shared->loaded - (size_t)crashes, crashes);
  assert_int_equal(crashes, 0);
  assert_true(shared->loaded > 100); /* most are refused because of their XML */
  clade__free(room);
}

/* ---- what the check prevents ---- */
static int load_cut(unsigned char *room) {
  clade_device *device;
  cl_program program;
  be_alone();
  if (clade_device_find("fpga", &device)) return 2;
  (void)!clade__program_load(device, room, shared->next, NULL, &program);
  return 0;
}

static void what_is_refused(void **state) {
  (void)state;
  int ended = 0, cuts = 0;
  for (size_t cut = 8; cut < whole.length; cut += whole.length / 16, cuts++) {
    unsigned char *room = clade__new(cut, 1);
    assert_non_null(room);
    memcpy(room, whole.data, cut);
    assert_int_equal(check(room, cut), CLADE_CORRUPT);
    shared->next = cut;
    ended += !WIFEXITED(in_a_process(load_cut, room));
    clade__free(room);
  }
  print_message("%d of %d truncated files, given to the runtime all the same, ended it\n", ended, cuts);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_let_through), cmocka_unit_test(what_is_refused)};
  whole = kit_xclbin_of(&kit_scale_kernel, 1, 1);
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (whole.failed || shared == MAP_FAILED) return 2;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  clade__free(damages);
  clade__text_free(&whole);
  return failed;
}
