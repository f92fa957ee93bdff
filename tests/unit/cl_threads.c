/* Devices, buffers and tensors used by several threads: correct results and a balanced budget. On PoCL. */
#include "cl_unit.h"

#include <stdlib.h>

#include "cl/cl.h"

enum { THREADS = 4, ROUNDS = 60 };

static clade_status round_of(unsigned seed) {
  clade_device *d = NULL;
  clade_tensor *t = NULL;
  clade_status status;
  clade_memory_use use = {.size = sizeof use};
  size_t n = 1 + seed * 7919 % 20000;
  unsigned char *src = malloc(n), *dst = calloc(n, 1);
  if (!src || !dst) abort();
  memset(src, (int)(seed & 0xff), n);
  CLADE_GOTO(clade_device_find("pocl", &d));
  CLADE_GOTO(clade_tensor_new(d, CLADE_U8, CLADE_SHAPE((clade_dim)n), &t));
  CLADE_GOTO(clade_tensor_write(t, src, n));
  CLADE_GOTO(clade_tensor_read(t, dst, n));
  CLADE_GOTO(clade_device_memory(d, &use));
  if (memcmp(src, dst, n) != 0) status = CLADE_FAIL(INTERNAL, "%zu bytes differ", n);
fail:
  clade_tensor_release(t);
  clade_device_release(d);
  free(src);
  free(dst);
  return status;
}

static void *work(void *user) {
  unsigned *seed = user;
  for (unsigned i = 0; i < ROUNDS; i++) {
    if (round_of(*seed * 1000 + i) == CLADE_OK) continue;
    fprintf(stderr, "%s\n", clade_last_error());
    return user;
  }
  return NULL;
}

static void run_threads(void) {
  pthread_t thread[THREADS];
  unsigned seed[THREADS];
  void *failed = NULL;
  for (unsigned i = 0; i < THREADS; i++) {
    seed[i] = i + 1;
    assert_int_equal(pthread_create(&thread[i], NULL, work, &seed[i]), 0);
  }
  for (unsigned i = 0; i < THREADS; i++) {
    void *result;
    pthread_join(thread[i], &result);
    if (result) failed = result;
  }
  assert_null(failed);
}

/* The device is opened and closed in each round, so the last release races with the next lookup. */
static void opens_and_closes(void **state) {
  (void)state;
  run_threads();
}

static void shares_one_device(void **state) {
  (void)state;
  clade_device *d;
  clade_memory_use use = {.size = sizeof use};
  check_ok(clade_device_find("pocl", &d));
  run_threads();
  check_ok(clade_device_memory(d, &use));
  assert_int_equal(use.used, use.pooled);
  assert_true(use.peak >= use.used);
  clade_device_release(d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(opens_and_closes),
      cmocka_unit_test(shares_one_device),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
