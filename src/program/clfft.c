/* clFFT: one plan per step, created when the func is compiled. */
#include "cl/foreign.h"
#include "program/libraries.h"

enum { SINGLE = 1, ONE_DIMENSION = 1, OUT_OF_PLACE = 2, FORWARD = -1, BACKWARD = 1 }; /* from clFFT's headers */
enum { INTERLEAVED = 1, HERMITIAN_INTERLEAVED = 3, REAL = 5 };
typedef size_t plan_handle;
typedef struct version {
  cl_uint major, minor, patch;
  cl_ulong debug;
} version;

static int (*setup)(const version *), (*teardown)(void), (*get_version)(cl_uint *, cl_uint *, cl_uint *);
static int (*create)(plan_handle *, cl_context, int dims, const size_t *lengths), (*destroy)(plan_handle *);
static int (*set_precision)(plan_handle, int), (*set_layout)(plan_handle, int, int), (*set_location)(plan_handle, int);
static int (*set_batch)(plan_handle, size_t), (*set_distance)(plan_handle, size_t, size_t);
static int (*set_in_stride)(plan_handle, int, size_t *), (*set_out_stride)(plan_handle, int, size_t *);
static int (*set_scale)(plan_handle, int direction, cl_float), (*room_of)(plan_handle, size_t *);
static int (*bake)(plan_handle, cl_uint n, cl_command_queue *, void (*)(plan_handle, void *), void *);
static int (*transform)(plan_handle, int direction, cl_uint n, cl_command_queue *, cl_uint n_wait, const cl_event *wait,
                        cl_event *done, cl_mem *in, cl_mem *out, cl_mem scratch);

static const clade__symbol symbols[] = {{"clfftSetup", &setup},
                                        {"clfftTeardown", &teardown},
                                        {"clfftGetVersion", &get_version},
                                        {"clfftCreateDefaultPlan", &create},
                                        {"clfftDestroyPlan", &destroy},
                                        {"clfftSetPlanPrecision", &set_precision},
                                        {"clfftSetLayout", &set_layout},
                                        {"clfftSetResultLocation", &set_location},
                                        {"clfftSetPlanBatchSize", &set_batch},
                                        {"clfftSetPlanDistance", &set_distance},
                                        {"clfftSetPlanInStride", &set_in_stride},
                                        {"clfftSetPlanOutStride", &set_out_stride},
                                        {"clfftSetPlanScale", &set_scale},
                                        {"clfftGetTmpBufSize", &room_of},
                                        {"clfftBakePlan", &bake},
                                        {"clfftEnqueueTransform", &transform}};

static clade__foreign library = {.name = "clfft",
                                 .file = "libclFFT.so.2",
                                 .package = "libclfft2",
                                 .symbols = symbols,
                                 .n_symbols = CLADE_COUNT(symbols)};

const char *clade__clfft_missing(void) { return clade__foreign_missing(&library); }

#define TRY(device, function, ...) CLADE_TRY(clade__foreign_check(device, #function, function(__VA_ARGS__)))

/* ---- life cycle of the library ----
 * Set up while plans exist: otherwise clFFT releases its objects after OpenCL is gone. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int plans;

static clade_status enter(const clade_device *device) {
  version v = {0};
  TRY(device, get_version, &v.major, &v.minor, &v.patch);
  if (!plans) TRY(device, setup, &v);
  plans++;
  return CLADE_OK;
}

static void leave(void) {
  if (--plans == 0) (void)teardown();
}

/* ---- plans ---- */
static size_t spectrum(const clade__clfft_transform *w) { return w->real ? w->n / 2 + 1 : w->n; }

/* A plan has one distance between consecutive rows, so a transform along an inner axis is executed once per index of
 * the outer axes. */
size_t clade__clfft_parts(const clade__clfft_transform *w, size_t bytes[2]) {
  const size_t parts = w->inner > 1 ? w->outer : 1, rows = w->inner * w->outer / parts;
  bytes[0] = rows * w->n * (w->real ? 1 : 2) * sizeof(float);
  bytes[1] = rows * spectrum(w) * 2 * sizeof(float);
  return parts;
}

static clade_status describe(plan_handle plan, const clade__clfft_transform *w, const clade_device *device) {
  size_t stride = w->inner, batch = stride > 1 ? stride : w->outer;
  TRY(device, set_precision, plan, SINGLE);
  TRY(device, set_layout, plan, w->real ? REAL : INTERLEAVED, w->real ? HERMITIAN_INTERLEAVED : INTERLEAVED);
  TRY(device, set_location, plan, OUT_OF_PLACE);
  TRY(device, set_batch, plan, batch);
  TRY(device, set_in_stride, plan, ONE_DIMENSION, &stride);
  TRY(device, set_out_stride, plan, ONE_DIMENSION, &stride);
  TRY(device, set_distance, plan, stride > 1 ? 1 : w->n, stride > 1 ? 1 : spectrum(w));
  TRY(device, set_scale, plan, w->inverse ? BACKWARD : FORWARD, w->scale);
  return CLADE_OK;
}

static clade_status make(plan_handle plan, const clade__clfft_transform *w, clade_device *device) {
  cl_command_queue queue = clade__queue_handle(clade__device_transfer_queue(device));
  size_t room;
  CLADE_TRY(describe(plan, w, device));
  TRY(device, bake, plan, 1, &queue, NULL, NULL);
  TRY(device, room_of, plan, &room);
  if (room <= w->room) return CLADE_OK;
  return CLADE_FAIL(UNSUPPORTED, "clFFT wants %zu bytes of workspace for a transform of %zu; it was promised %zu", room,
                    w->n, w->room);
}

static clade_status prepare(const void *work, clade_device *device, void **state) {
  const clade__clfft_transform *w = work;
  plan_handle *plan = clade__new(1, sizeof *plan);
  if (!plan) return CLADE_NO_MEMORY;
  clade_status status = clade__device_transfer_queue(device) ? CLADE_OK : CLADE_OPENCL;
  pthread_mutex_lock(&lock);
  if (status == CLADE_OK) status = enter(device);
  if (status == CLADE_OK) {
    status = clade__foreign_check(device, "clfftCreateDefaultPlan",
                                  create(plan, clade__device_context(device), ONE_DIMENSION, &w->n));
    if (status == CLADE_OK && (status = make(*plan, w, device)) != CLADE_OK) (void)destroy(plan);
    if (status != CLADE_OK) leave();
  }
  pthread_mutex_unlock(&lock);
  if (status == CLADE_OK)
    *state = plan;
  else
    clade__free(plan);
  return status;
}

static void release(void *state) {
  pthread_mutex_lock(&lock);
  (void)destroy(state);
  leave();
  pthread_mutex_unlock(&lock);
  clade__free(state);
}

/* ---- execution ---- */
static clade_status execute(const clade_library_call *call, size_t part, const size_t bytes[2], cl_mem room,
                            cl_event *event) {
  const clade__clfft_transform *w = call->work;
  cl_command_queue queue = call->queue;
  cl_mem buffer[2] = {NULL};
  clade_status status = CLADE_OK;
  for (int i = 0; i < 2 && status == CLADE_OK; i++)
    status = clade__part_new(call->device, call->memory[i], call->offset[i] + part * bytes[i], bytes[i], &buffer[i]);
  if (status == CLADE_OK)
    status = clade__foreign_check(call->device, "clfftEnqueueTransform",
                                  transform(*(plan_handle *)call->state, w->inverse ? BACKWARD : FORWARD, 1, &queue, 0,
                                            NULL, event, &buffer[0], &buffer[1], room));
  for (int i = 0; i < 2; i++) clade__part_release(buffer[i]);
  return status;
}

/* The queue is in order, so the last part's event covers all. */
static clade_status enqueue(const clade_library_call *call) {
  const clade__clfft_transform *w = call->work;
  size_t bytes[2], parts = clade__clfft_parts(w, bytes);
  cl_mem room;
  clade_status status = clade__part_new(call->device, call->memory[2], call->offset[2], w->room, &room);
  if (status != CLADE_OK) return status;
  for (size_t i = 0; i < parts && status == CLADE_OK; i++)
    status = execute(call, i, bytes, room, i + 1 < parts ? NULL : call->event);
  clade__part_release(room);
  return status;
}

const clade_library clade__clfft = {
    .size = sizeof(clade_library), .prepare = prepare, .enqueue = enqueue, .release = release};
