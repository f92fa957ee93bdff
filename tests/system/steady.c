/* The steady state of a func: executions 3 to 100 of the perceptron allocate nothing, create nothing, set no argument
 * and wait only in clade_read. Counted by the OpenCL layer and by the allocation hook. */
#include "layer/layer.h"
#include "perceptron.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_long allocations;

static void *allocate(void *user, size_t bytes, size_t align) {
  (void)user;
  atomic_fetch_add(&allocations, 1);
  void *memory = NULL;
  return posix_memalign(&memory, align, bytes) == 0 ? memory : NULL;
}
static void *resize(void *user, void *old, size_t old_bytes, size_t bytes, size_t align) {
  void *memory = allocate(user, bytes, align);
  if (memory) {
    memcpy(memory, old, old_bytes < bytes ? old_bytes : bytes);
    free(old);
  }
  return memory;
}
static void release(void *user, void *memory, size_t bytes) {
  (void)user, (void)bytes;
  free(memory);
}

static void check(bool ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "steady: %s: %s\n", what, clade_last_error());
  exit(1);
}

/* Counts of what must not happen, and the text that says what did. */
static const char *const never[] = {"clCreate*",      "clBuildProgram",    "clCompileProgram",  "clLinkProgram",
                                    "clSetKernelArg", "clFinish",          "clEnqueueMap*",     "clEnqueueUnmap*",
                                    "clRetainKernel", "clRetainMemObject", "clReleaseMemObject"};

static int count_never(const clade_layer *layer, const char *when) {
  int bad = 0;
  for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
    unsigned long long n = layer->calls(never[i]);
    if (n) fprintf(stderr, "steady: %s: %s was called %llu times\n", when, never[i], n);
    bad += n != 0;
  }
  return bad;
}

int main(void) {
  clade_layer layer;
  check(clade_layer_open(&layer), "the layer was not loaded");
  clade_allocator hook = {sizeof hook, NULL, allocate, resize, release};
  clade_device *device = NULL;
  perceptron p;
  float output[PERCEPTRON_BATCH * PERCEPTRON_OUT], input[PERCEPTRON_BATCH * PERCEPTRON_IN];
  double error = 1;
  check(clade_init(.allocator = &hook) == CLADE_OK && clade_device_find(NULL, &device) == CLADE_OK, "device");
  /* Once before, and the device given back: what a cold start still writes to the cache is no part of the steady state.
   */
  check(perceptron_new(device, &p) == CLADE_OK, "perceptron");
  perceptron_free(&p);
  clade_device_release(device);
  check(clade_device_find(NULL, &device) == CLADE_OK, "device");
  check(perceptron_new(device, &p) == CLADE_OK, "perceptron");
  check(layer.loaded(), "OpenCL does not go through the layer");
  perceptron_input(7, input);

  int bad = 0;
  unsigned long long waits = 0;
  long before = 0;
  clade_ticket ticket = 0, last = 0;
  for (int i = 1; i <= 100; i++) {
    if (i == 3) {
      check(clade_wait(p.run, 0) == CLADE_OK, "wait");
      before = atomic_load(&allocations);
      layer.reset();
    }
    unsigned long long enqueues = layer.calls("clEnqueueNDRangeKernel"), waiting = layer.calls("clWaitForEvents");
    check(clade_execute(p.run, CLADE_FEEDS({"x", input, sizeof input, NULL}), &ticket) == CLADE_OK, "execute");
    /* Two slots: an execution right after a read finds one free, so nothing may be waited for. */
    if (i >= 3 && layer.calls("clWaitForEvents") != waiting) waits++;
    check(layer.calls("clEnqueueNDRangeKernel") > enqueues, "an execution launches kernels");
    check(clade_read(p.run, ticket, "p", output, sizeof output) == CLADE_OK, "read");
    check(!last || ticket == last + 1, "tickets count");
    last = ticket;
  }
  bad += count_never(&layer, "executions 3 to 100");
  if (waits) fprintf(stderr, "steady: %llu executions waited although a slot was free\n", waits);
  bad += waits != 0;
  long made = atomic_load(&allocations) - before;
  if (made) fprintf(stderr, "steady: %ld allocations\n", made);
  bad += made != 0;

  check(perceptron_error(&p, 7, output, &error) == CLADE_OK && error < 1e-4, "the answer");
  perceptron_free(&p);
  clade_device_release(device);
  check(atomic_load(&allocations) > 0, "the hook was never called");
  printf("executions 3 to 100: %ld allocations, %d kinds of call that must not happen, %llu waits\n", made, bad, waits);
  return bad ? 1 : 0;
}
