/* The device list is created once per process, so each of its calls fails in a separate process. With the layer, on
 * PoCL. The parent never uses OpenCL, since it could not fork afterwards. */
#include "cl_unit.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cl/cl.h"
#include "layer.h"

static clade_layer layer;

enum { RIGHT = 10, REFUSED, NOT_REACHED, NO_MESSAGE, NOT_LOADED, LEFT };

/* Finds and releases the device with the n-th call failing. */
static int find_failing(uint64_t n, bool for_good) {
  const clade_layer_fault fault = {.nth = n, .for_good = for_good, .error = CL_OUT_OF_HOST_MEMORY};
  clade_device *d = NULL;
  layer.arm(&fault);
  clade_status status = clade_device_find("pocl", &d);
  char message[2048];
  snprintf(message, sizeof message, "%s", clade_last_error());
  if (!layer.loaded()) return NOT_LOADED;
  clade_device_release(d);
  if (layer.failed() == 0) return NOT_REACHED;
  if (layer.live(NULL) || layer.over(NULL)) return LEFT;
  if (status == CLADE_OK) return RIGHT;
  return strstr(message, "CL_OUT_OF_HOST_MEMORY") && strstr(message, ": cl") ? REFUSED : NO_MESSAGE;
}

static int in_child(uint64_t n, bool for_good) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) _exit(find_failing(n, for_good));
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFEXITED(status)) fail_msg("call %d: killed by signal %d", (int)n, WTERMSIG(status));
  return WEXITSTATUS(status);
}

static void sweep(bool for_good, uint64_t step) {
  int refused = 0;
  for (uint64_t n = 1;; n += step) {
    int result = in_child(n, for_good);
    if (result == NOT_REACHED) break;
    if (result != RIGHT && result != REFUSED) fail_msg("call %d: ended with %d", (int)n, result);
    refused += result == REFUSED;
  }
  assert_true(refused > 5);
}

static void survives_each_call_failing(void **state) {
  (void)state;
  sweep(false, 1);
}
static void survives_all_calls_failing_from_one_on(void **state) {
  (void)state;
  sweep(true, 7);
}

static void note_warning(void *user, clade_log_level level, const char *message) {
  *(bool *)user |= level == CLADE_LOG_WARNING && strstr(message, "left out: ") && strstr(message, "clGetDeviceIDs");
}

/* If another platform fails, finding succeeds, and only the log reports it. */
static void warns_of_a_platform_that_fails(void **state) {
  (void)state;
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    const clade_layer_fault fault = {.name = "clGetDeviceIDs", .nth = 1, .error = CL_OUT_OF_RESOURCES};
    bool warned = false;
    clade_device *d = NULL;
    clade_log_set(note_warning, &warned, CLADE_LOG_WARNING);
    layer.arm(&fault);
    _exit(clade_device_find("pocl", &d) == CLADE_NOT_FOUND && warned ? RIGHT : LEFT);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), RIGHT);
}

/* A PoCL that would abort the process is skipped, with the reason. */
static void leaves_out_what_would_abort(void **state) {
  (void)state;
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    clade_device *d = NULL;
    setenv("POCL_CACHE_DIR", "", 1);
    clade_status status = clade_device_find("pocl", &d);
    _exit(status == CLADE_NOT_FOUND && strstr(clade_last_error(), "POCL_CACHE_DIR is set but empty") ? RIGHT : LEFT);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), RIGHT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(survives_each_call_failing),
      cmocka_unit_test(survives_all_calls_failing_from_one_on),
      cmocka_unit_test(warns_of_a_platform_that_fails),
      cmocka_unit_test(leaves_out_what_would_abort),
  };
  if (!clade_layer_open(&layer)) {
    fprintf(stderr, "OPENCL_LAYERS does not name the layer\n");
    return 1;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
