/* Measures a device: memory bandwidth, multiply-adds, launch time, and usable static local memory. */
#include "program/measure.h"

#include <stdio.h>

#include "program/parts.h"

enum { SAMPLES = 5, LEAST_SAMPLES = 3, LAUNCHES = 64, COPY_BYTES = 64 << 20, LEAST_COPY = 1 << 20 };
static const double LEAST_SECONDS = 2e-3; /* minimum duration of a sample, so that the launch overhead is negligible */

typedef struct bench {
  clade_device *device;
  const clade_device_info *info;
  clade__queue *queue;
  clade__buffer *x, *y;
  size_t bytes; /* of each buffer */
  bool lean;
  const char *head;
  double seconds, deadline;
} bench;

typedef struct timed { /* a kernel with its fixed arguments set */
  cl_kernel kernel;
  size_t items, group;
} timed;

/* ---- kernels ---- */
static clade_status build(const bench *b, size_t n, const clade__request *requests, const char *const *names,
                          cl_program *program, timed *out) {
  const clade__request *at[2] = {&requests[0], n > 1 ? &requests[1] : NULL};
  clade__hash hashes[2] = {{.hi = 1}, {.hi = 2}};
  char name[CLADE__KERNEL_NAME];
  clade__text text = {0};
  char *log = NULL;
  const char *options = b->lean ? "-w " CLADE__LEAN : "-w";
  clade_status status = clade__program_text(n, at, hashes, b->lean, b->head, &text);
  if (status == CLADE_OK) status = clade__program_build(b->device, text.data, text.length, options, program, &log);
  if (status == CLADE_BUILD) clade__log(CLADE_LOG_DEBUG, "measuring: %s", log ? log : "no log");
  clade__free(log);
  clade__text_free(&text);
  for (size_t i = 0; i < n && status == CLADE_OK; i++) {
    snprintf(name, sizeof name, "%s_%016llx", names[i], (unsigned long long)hashes[i].hi);
    status = clade__kernel_new(b->device, *program, name, &out[i].kernel);
  }
  return status;
}

static clade_status set(const bench *b, const timed *t, int n_rest, const int32_t *rest) {
  cl_mem memory[] = {clade__buffer_mem(b->x), clade__buffer_mem(b->y)};
  const int32_t none = 0;
  for (cl_uint i = 0; i < 2; i++) {
    CLADE_TRY(clade__kernel_set(b->device, t->kernel, 2 * i, sizeof(cl_mem), &memory[i]));
    CLADE_TRY(clade__kernel_set(b->device, t->kernel, 2 * i + 1, sizeof none, &none));
  }
  for (int i = 0; i < n_rest; i++)
    CLADE_TRY(clade__kernel_set(b->device, t->kernel, (cl_uint)(4 + i), sizeof *rest, &rest[i]));
  return CLADE_OK;
}

static clade_status launch(const bench *b, const timed *t) {
  return clade__queue_launch(b->queue, t->kernel, 1, &t->items, &t->group, (clade__wait){0}, NULL);
}

static clade_status seconds_of(const bench *b, const timed *t, int launches, double *seconds) {
  double start = clade__now();
  for (int i = 0; i < launches; i++) CLADE_TRY(launch(b, t));
  CLADE_TRY(clade__queue_finish(b->queue));
  *seconds = clade__now() - start;
  return CLADE_OK;
}

static bool goes_on(const bench *b, int i) { return i < LEAST_SAMPLES || (i < SAMPLES && clade__now() < b->deadline); }

/* Minimum of several samples: interference only adds time. */
static clade_status best_of(const bench *b, const timed *t, double *seconds) {
  *seconds = 1e9;
  for (int i = 0; goes_on(b, i); i++) {
    double one;
    CLADE_TRY(seconds_of(b, t, 1, &one));
    *seconds = CLADE_MIN(*seconds, one);
  }
  return CLADE_OK;
}

/* ---- multiply-adds ---- */
static clade_status set_fma(const bench *b, const timed *t, int32_t rounds) {
  const float scale = 0.5f, add = 1;
  int32_t rest[3] = {0, 0, rounds};
  memcpy(&rest[0], &scale, sizeof scale);
  memcpy(&rest[1], &add, sizeof add);
  return set(b, t, 3, rest);
}

static clade_status fma_speed(const bench *b, const timed *t, int width, double *gflops) {
  int32_t most = b->info->max_passes ? (int32_t)b->info->max_passes / 2 : 1 << 24, rounds = CLADE_MIN(256, most);
  double seconds;
  CLADE_TRY(set_fma(b, t, 0)); /* exclude compilation at the first launch */
  CLADE_TRY(seconds_of(b, t, 1, &seconds));
  for (;; rounds = CLADE_MIN(rounds * 4, most)) {
    CLADE_TRY(set_fma(b, t, rounds));
    CLADE_TRY(best_of(b, t, &seconds));
    if (seconds >= LEAST_SECONDS || rounds >= most) break;
  }
  *gflops = 2e-9 * CLADE__MEASURE_CHAINS * (double)rounds * (double)t->items * width / seconds;
  return CLADE_OK;
}

static clade_status check_fma(const bench *b) {
  float got = 0;
  CLADE_TRY(clade__queue_read(b->queue, b->y, 0, &got, sizeof got, true, (clade__wait){0}, NULL));
  if (got > 2 * CLADE__MEASURE_CHAINS - 1e-3f && got < 2 * CLADE__MEASURE_CHAINS + 1e-3f) return CLADE_OK;
  return CLADE_FAIL(INTERNAL, "the probe of multiply-adds gave %g instead of %d", (double)got,
                    2 * CLADE__MEASURE_CHAINS);
}

static void fma_request(const bench *b, const char *type, clade__define defines[4], char text[32],
                        clade__request *out) {
  const int width = clade__measure_width(b->info);
  snprintf(text, 16, width > 1 ? "%s%d" : "%s", type, width);
  snprintf(text + 16, 16, "%d", width);
  defines[0] = (clade__define){"V", text};
  defines[1] = (clade__define){"FLOATS", text + 16};
  defines[2] = (clade__define){"FUSED", strcmp(type, "float") ? "0" : "1"};
  defines[3] = (clade__define){"INDEX64", "0"};
  *out = (clade__request){.file = "measure",
                          .source = clade__measure_source,
                          .kernel = "measure_fma",
                          .options = "",
                          .n_defines = 4,
                          .defines = defines};
}

static timed fma_launch(const bench *b) {
  return (timed){.items = (size_t)clade__measure_items(b->info),
                 .group = b->info->device_class == CLADE_CPU ? 1 : CLADE__MEASURE_GROUP};
}

/* Speed for types other than f32; 0 if their arithmetic does not compile. */
static clade_status other_speed(const bench *b, const char *type, double *gflops) {
  static const char *const names[] = {"measure_fma"};
  clade__define defines[4];
  char text[32];
  clade__request request;
  cl_program program = NULL;
  timed t = fma_launch(b);
  *gflops = 0;
  if (clade__now() > b->deadline) return CLADE_OK;
  fma_request(b, type, defines, text, &request);
  clade_status status = build(b, 1, &request, names, &program, &t);
  if (status == CLADE_OK) status = fma_speed(b, &t, clade__measure_width(b->info), gflops);
  clade__kernel_release(t.kernel);
  clade__program_release(program);
  return status == CLADE_BUILD ? CLADE_OK : status;
}

/* ---- copies by clEnqueueCopyBuffer and by a kernel ---- */
static clade_status copy_by_queue(const bench *b, size_t bytes, double *seconds) {
  *seconds = 1e9;
  for (int i = -1; i < 0 || goes_on(b, i); i++) {
    double start = clade__now();
    CLADE_TRY(clade__queue_copy(b->queue, b->x, 0, b->y, 0, bytes, (clade__wait){0}, NULL));
    CLADE_TRY(clade__queue_finish(b->queue));
    if (i >= 0) *seconds = CLADE_MIN(*seconds, clade__now() - start);
  }
  return CLADE_OK;
}

static clade_status copy_by_kernel(const bench *b, timed *t, size_t bytes, double *seconds) {
  const int64_t vectors = (int64_t)(bytes / 64), share = clade__measure_share(b->info, vectors);
  t->items = (size_t)((vectors + share - 1) / share);
  CLADE_TRY(set(b, t, 2, (int32_t[]){(int32_t)vectors, (int32_t)share}));
  CLADE_TRY(seconds_of(b, t, 1, seconds));
  return best_of(b, t, seconds);
}

/* Starts with a small copy, which is enough for slow devices such as interpreters. */
static clade_status copy_speed(const bench *b, timed *t, double *gbps) {
  size_t bytes = LEAST_COPY;
  double by_queue = 1e9, by_kernel = 1e9;
  CLADE_TRY(copy_by_kernel(b, t, bytes, &by_kernel));
  if (by_kernel < 5e-3) {
    bytes = b->bytes;
    CLADE_TRY(copy_by_kernel(b, t, bytes, &by_kernel));
    CLADE_TRY(copy_by_queue(b, bytes, &by_queue));
  }
  *gbps = 2e-9 * (double)bytes / CLADE_MIN(by_queue, by_kernel);
  return CLADE_OK;
}

/* ---- launches of an empty kernel ---- */
static clade_status launch_times(const bench *b, timed t, clade__profile *out) {
  double many[SAMPLES], one[LAUNCHES];
  int n = 0;
  t.items = t.group;
  CLADE_TRY(set_fma(b, &t, 0));
  for (; goes_on(b, n); n++) CLADE_TRY(seconds_of(b, &t, LAUNCHES, &many[n]));
  out->launch_us = 1e6 * clade__median(many, n) / LAUNCHES;
  for (n = 0; n < LAUNCHES && (n < LEAST_SAMPLES || clade__now() < b->deadline); n++)
    CLADE_TRY(seconds_of(b, &t, 1, &one[n]));
  out->wait_us = 1e6 * clade__median(one, n);
  return CLADE_OK;
}

/* ---- local memory ---- */
/* Writes the first and the last word of local memory from different work-items and reads them back. */
static bool local_runs(const bench *b, size_t bytes) {
  static const char form[] = "__kernel __attribute__((reqd_work_group_size(64, 1, 1)))\n"
                             "void clade_local(__global int *y, const int a) {\n"
                             "  __local int all[%zu];\n"
                             "  const int i = (int)get_local_id(0), n = %zu;\n"
                             "  for (int k = i; k < n; k += 64) all[k] = k + a;\n"
                             "  barrier(CLK_LOCAL_MEM_FENCE);\n"
                             "  int wrong = 0;\n"
                             "  for (int k = 63 - i; k < n; k += 64) wrong |= all[k] != k + a;\n"
                             "  y[i] = wrong + a;\n"
                             "}\n";
  char source[sizeof form + 64];
  int32_t got[64] = {0}, a = 3;
  cl_mem memory = clade__buffer_mem(b->y);
  cl_program program = NULL;
  timed t = {.items = 64, .group = 64};
  clade_status status;
  int n = snprintf(source, sizeof source, form, bytes / 4, bytes / 4);
  CLADE_GOTO(clade__program_build(b->device, source, (size_t)n, "-w", &program, NULL));
  CLADE_GOTO(clade__kernel_new(b->device, program, "clade_local", &t.kernel));
  CLADE_GOTO(clade__kernel_set(b->device, t.kernel, 0, sizeof memory, &memory));
  CLADE_GOTO(clade__kernel_set(b->device, t.kernel, 1, sizeof a, &a));
  CLADE_GOTO(launch(b, &t));
  CLADE_GOTO(clade__queue_read(b->queue, b->y, 0, got, sizeof got, true, (clade__wait){0}, NULL));
fail:
  clade__kernel_release(t.kernel);
  clade__program_release(program);
  for (int i = 0; i < 64; i++)
    if (got[i] != a) return false;
  return status == CLADE_OK;
}

/* More local memory than the device reports is tried only if a vendor extension was found, since other
 * implementations may crash. NVIDIA reserves 1 KiB per work-group. */
static uint64_t local_bytes(const bench *b) {
  static const uint64_t kib[] = {226, 162, 98, 64};
  for (size_t i = 0; i < CLADE_COUNT(kib) && b->info->compute_capability && clade__now() < b->deadline; i++)
    if (kib[i] << 10 > b->info->local_bytes && local_runs(b, (size_t)kib[i] << 10)) return kib[i] << 10;
  return b->info->local_bytes;
}

static clade_status measure(bench *b, timed t[2], cl_program *program, clade__profile *out) {
  static const char *const names[] = {"measure_fma", "measure_copy"};
  static const clade__define copy_defines[] = {{"INDEX64", "0"}, {"STREAM", "1"}, {"TURNS", "1"}};
  clade__define defines[4];
  char text[32];
  clade__request requests[2] = {{0},
                                {.file = "measure",
                                 .source = clade__measure_source,
                                 .kernel = "measure_copy",
                                 .options = "",
                                 .n_defines = 3,
                                 .defines = copy_defines}};
  const int width = clade__measure_width(b->info);
  fma_request(b, "float", defines, text, &requests[0]);
  CLADE_TRY(build(b, 2, requests, names, program, t));
  b->deadline = clade__now() + b->seconds; /* started late: compiling the first program of a process takes extra time */
  CLADE_TRY(fma_speed(b, &t[0], width, &out->peak_gflops[CLADE_F32]));
  CLADE_TRY(check_fma(b));
  CLADE_TRY(launch_times(b, t[0], out));
  CLADE_TRY(copy_speed(b, &t[1], &out->bandwidth_gbps));
  out->local_static_bytes = local_bytes(b);
  if (b->info->fp16 || b->info->device_class == CLADE_GPU)
    CLADE_TRY(other_speed(b, "half", &out->peak_gflops[CLADE_F16]));
  return other_speed(b, "int", &out->peak_gflops[CLADE_I8]);
}

clade_status clade__measure(clade_device *device, bool lean, const char *head, double seconds, clade__profile *out) {
  const clade_device_info *info = clade__device_info(device);
  bench b = {.device = device, .info = info, .lean = lean, .head = head, .seconds = seconds};
  cl_program program = NULL;
  const float zero = 0;
  clade_memory_use before = {.size = sizeof before};
  clade_status status;
  *out = (clade__profile){0};
  timed t[2] = {fma_launch(&b), fma_launch(&b)};
  uint64_t room = CLADE_MIN(info->max_buffer_bytes, info->budget_bytes / 8);
  size_t least = CLADE_MAX((size_t)LEAST_COPY, t[0].items * (size_t)clade__measure_width(info) * sizeof(float));
  b.bytes = (size_t)CLADE_MIN(room, (uint64_t)COPY_BYTES) / LEAST_COPY * LEAST_COPY;
  if (b.bytes < least) return CLADE_FAIL(DEVICE_MEMORY, "%zu bytes of a buffer are too few to measure with", b.bytes);
  CLADE_TRY(clade_device_memory(device, &before));
  CLADE_GOTO(clade__queue_new(device, false, &b.queue));
  CLADE_GOTO(clade__buffer_new(device, b.bytes, "measuring the device", &b.x));
  CLADE_GOTO(clade__buffer_new(device, b.bytes, "measuring the device", &b.y));
  CLADE_GOTO(clade__queue_fill(b.queue, b.x, 0, b.bytes, &zero, sizeof zero, (clade__wait){0}, NULL));
  status = measure(&b, t, &program, out);
fail:
  for (int i = 0; i < 2; i++) clade__kernel_release(t[i].kernel);
  clade__program_release(program);
  clade__queue_free(b.queue);
  clade__buffer_release(b.x);
  clade__buffer_release(b.y);
  clade__memory_forget(device, before.peak);
  return status;
}
