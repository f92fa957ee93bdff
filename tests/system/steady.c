/* Steady state: executions 3 to 100 of a perceptron's inference and training allocate nothing, create no objects,
 * set no arguments and wait only in clade_read. Counted by the OpenCL layer and the allocation hook. */
#include "layer/layer.h"
#include "learner.h"
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

/* Forbidden calls. */
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

/* ---- repeated work ---- */
typedef struct endless {
  const char *what;
  clade_run *run;
  void *user;
  clade_status (*execute)(void *user, clade_ticket *ticket);
  clade_status (*read)(void *user, clade_ticket ticket);
  int behind; /* how many executions back the read one is */
} endless;

/* With two slots, one is free after a read, so no execution may wait. */
static int hundred(const clade_layer *layer, const endless *e) {
  unsigned long long waits = 0;
  long before = 0;
  clade_ticket ticket[101] = {0};
  for (int i = 1; i <= 100; i++) {
    if (i == 3) {
      check(clade_wait(e->run, 0) == CLADE_OK, "wait");
      before = atomic_load(&allocations);
      layer->reset();
    }
    unsigned long long enqueues = layer->calls("clEnqueueNDRangeKernel"), waiting = layer->calls("clWaitForEvents");
    check(e->execute(e->user, &ticket[i]) == CLADE_OK, "execute");
    if (i >= 3 && layer->calls("clWaitForEvents") != waiting) waits++;
    check(layer->calls("clEnqueueNDRangeKernel") > enqueues, "an execution launches kernels");
    if (i > e->behind) check(e->read(e->user, ticket[i - e->behind]) == CLADE_OK, "read");
    check(i == 1 || ticket[i] == ticket[i - 1] + 1, "tickets count");
  }
  long made = atomic_load(&allocations) - before;
  int bad = count_never(layer, e->what) + (waits != 0) + (made != 0);
  if (waits) fprintf(stderr, "steady: %s: %llu executions waited although a slot was free\n", e->what, waits);
  if (made) fprintf(stderr, "steady: %s: %ld allocations\n", e->what, made);
  printf("%s, executions 3 to 100: %ld allocations, %d kinds of call that must not happen, %llu waits\n", e->what, made,
         bad, waits);
  check(clade_wait(e->run, 0) == CLADE_OK, "wait");
  return bad;
}

/* ---- inference ---- */
static float input[PERCEPTRON_BATCH * PERCEPTRON_IN], output[PERCEPTRON_BATCH * PERCEPTRON_OUT];

static clade_status infer(void *user, clade_ticket *ticket) {
  perceptron *p = user;
  return clade_execute(p->run, CLADE_FEEDS({"x", input, sizeof input, NULL}), ticket);
}
static clade_status answer(void *user, clade_ticket ticket) {
  perceptron *p = user;
  return clade_read(p->run, ticket, "p", output, sizeof output);
}

static int inference(clade_device *device, const clade_layer *layer) {
  perceptron p;
  double error = 1;
  check(perceptron_new(device, &p) == CLADE_OK, "perceptron");
  check(layer->loaded(), "OpenCL does not go through the layer");
  perceptron_input(7, input);
  int bad = hundred(layer, &(endless){"inference", p.run, &p, infer, answer, 0});
  check(perceptron_error(&p, 7, output, &error) == CLADE_OK && error < 1e-4, "the answer");
  perceptron_free(&p);
  return bad;
}

/* ---- training: each step's loss is read during the next step ---- */
static const learner_size size = {.batch = 12, .in = 10, .hidden = 9, .out = 4};
static const clade_run_opt defaults = {.size = sizeof defaults};

static clade_status learn(void *user, clade_ticket *ticket) { return learner_step(user, ticket); }
static clade_status loss(void *user, clade_ticket ticket) {
  float value;
  return learner_loss(user, ticket, &value);
}

static int training(clade_device *device, const clade_layer *layer) {
  learner l;
  clade_ticket ticket;
  float have = 0;
  double want = 1;
  check(learner_new(device, size, &defaults, &l) == CLADE_OK, "learner");
  int bad = hundred(layer, &(endless){"training", l.run, &l, learn, loss, 1});
  check(learner_step(&l, &ticket) == CLADE_OK && learner_loss(&l, ticket, &have) == CLADE_OK, "one step more");
  check(learner_expect(&l, 100, &want) == CLADE_OK && (double)have <= 1.05 * want && (double)have >= 0.95 * want,
        "the loss");
  learner_free(&l);
  return bad;
}

int main(void) {
  clade_layer layer;
  check(clade_layer_open(&layer), "the layer was not loaded");
  clade_allocator hook = {sizeof hook, NULL, allocate, resize, release};
  clade_device *device = NULL;
  check(clade_init(.allocator = &hook) == CLADE_OK && clade_device_find(NULL, &device) == CLADE_OK, "device");
  /* A warm-up on a separate device handle excludes the cache writes of a cold start. */
  perceptron p;
  learner l;
  check(perceptron_new(device, &p) == CLADE_OK && learner_new(device, size, &defaults, &l) == CLADE_OK, "a cold start");
  perceptron_free(&p);
  learner_free(&l);
  clade_device_release(device);
  check(clade_device_find(NULL, &device) == CLADE_OK, "device");
  int bad = inference(device, &layer) + training(device, &layer);
  clade_device_release(device);
  check(atomic_load(&allocations) > 0, "the hook was never called");
  return bad ? 1 : 0;
}
