/* An op with a bundle kernel, and bundles with that kernel for the emulated accelerator, compiled by PoCL's device. */
#ifndef EMULATED_KIT_H
#define EMULATED_KIT_H

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

#include <clade/clade.h>
#include <clade/op.h>

#include "../bundle_kit.h"
#include "../unit/cl_unit.h"
#include "cl/cl.h"

/* ---- the op kit.scale: y = 3 x ---- */
static inline clade_status kit_scale_infer(clade_node *n) {
  n->out[0] = n->in[0];
  return CLADE_OK;
}
static inline clade_status kit_emit(clade_emit *e, const clade_query *q, const char *kernel) {
  const size_t one = 1;
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_i32(s, (int32_t)q->node->in[0].shape.dim[0]);
  clade_emit_range(s, 1, &one, &one);
  return CLADE_OK;
}
static inline clade_status kit_scale_emit(clade_emit *e, const clade_query *q) { return kit_emit(e, q, "kit_scale"); }
static const clade_impl *const kit_scale_impls[] = {
    CLADE_IMPL(.name = "systolic", .emit = kit_scale_emit, .bundled = "kit_scale"),
    CLADE_IMPL(.name = "ref", .emit = kit_scale_emit),
    NULL,
};
static const clade_op kit_scale = {.size = sizeof(clade_op),
                                   .name = "kit.scale",
                                   .min_in = 1,
                                   .max_in = 1,
                                   .n_out = 1,
                                   .infer = kit_scale_infer,
                                   .impls = kit_scale_impls,
                                   .source = "KERNEL(kit_scale)(ARG(const float, x), ARG(float, y), const int n) {\n"
                                             "  USE(const float, x); USE(float, y);\n"
                                             "  for (int i = 0; i < n; i++) y[i] = 3.0f * x[i];\n"
                                             "}\n"};

/* ---- its bundle ---- */
static const char kit_source_text[] =
    "__kernel __attribute__((reqd_work_group_size(1, 1, 1)))\n"
    "void kit_scale(__global const float *restrict x, const int x_at, __global float *restrict y, const int y_at,\n"
    "               const int n) {\n"
    "  for (int i = 0; i < n; i++) y[y_at + i] = 3.0f * x[x_at + i];\n"
    "}\n";

static clade__bundle_argument kit_scale_arguments[] = {{"global float *", "x", CLADE__READ},
                                                       {"int", "x_at", CLADE__VALUE},
                                                       {"global float *", "y", CLADE__WRITE},
                                                       {"int", "y_at", CLADE__VALUE},
                                                       {"int", "n", CLADE__VALUE}};
static clade__bundle_kernel kit_scale_kernel = {.name = "kit_scale",
                                                .arguments = kit_scale_arguments,
                                                .n_arguments = CLADE_COUNT(kit_scale_arguments),
                                                .work_group = {1, 1, 1},
                                                .compute_units = 1};

typedef struct kit_binary {
  void *data;
  size_t bytes;
} kit_binary;

/* Launched once before it is fetched, so that the binary contains everything compiled and linked. */
static inline void kit_launch(clade_device *device, cl_program program) {
  const size_t one = 1;
  const cl_int zero = 0;
  cl_kernel kernel;
  clade__queue *queue;
  clade__buffer *memory;
  check_ok(clade__kernel_new(device, program, "kit_scale", &kernel));
  check_ok(clade__queue_new(device, false, &queue));
  check_ok(clade__buffer_new(device, 64, "a test", &memory));
  cl_mem mem = clade__buffer_mem(memory);
  for (cl_uint i = 0; i < 5; i++)
    check_ok(i == 0 || i == 2 ? clade__kernel_set(device, kernel, i, sizeof(cl_mem), &mem)
                              : clade__kernel_set(device, kernel, i, sizeof zero, &zero));
  check_ok(clade__queue_launch(queue, kernel, 1, &one, &one, (clade__wait){0}, NULL));
  check_ok(clade__queue_finish(queue));
  clade__queue_free(queue);
  clade__kernel_release(kernel);
  clade__buffer_release(memory);
}

/* `launched`: the program has the kernel kit_scale. */
static inline kit_binary kit_compile(const char *source, bool launched) {
  clade_device *device;
  cl_program program;
  kit_binary b;
  check_ok(clade_device_find("pocl", &device));
  check_ok(clade__program_build(device, source, strlen(source), "-cl-kernel-arg-info", &program, NULL));
  if (launched) kit_launch(device, program);
  check_ok(clade__program_binary(device, program, &b.data, &b.bytes));
  clade__program_release(program);
  clade_device_release(device);
  return b;
}

static inline clade__bundle_draft kit_draft(kit_binary binary) {
  clade__bundle_draft draft = {.manifest = kit_manifest(CLADE__TARGET_POCL, CLADE__POCLBIN)};
  draft.manifest.target.device = "Clade emulated accelerator";
  draft.manifest.kernels = &kit_scale_kernel;
  draft.binary = binary.data;
  draft.binary_bytes = binary.bytes;
  return draft;
}

/* A path in a new directory below the test's home directory. */
static char kit_folder[256];
static inline const char *kit_path(const char *name) {
  static char path[4][512];
  static int turn;
  char *p = path[turn++ & 3];
  snprintf(p, sizeof path[0], "%s/%s", kit_folder, name);
  return p;
}
static inline void kit_folder_new(void) {
  snprintf(kit_folder, sizeof kit_folder, "%s/XXXXXX", getenv("HOME"));
  assert_non_null(mkdtemp(kit_folder));
}
static inline int kit_remove(const char *path, const struct stat *st, int flag, struct FTW *where) {
  (void)st, (void)flag, (void)where;
  return remove(path);
}
static inline void kit_folder_remove(void) { nftw(kit_folder, kit_remove, 8, FTW_DEPTH | FTW_PHYS); }

/* Set-up and tear-down for groups of tests. */
static inline int kit_set_up(void **state) {
  (void)state;
  kit_folder_new();
  return 0;
}
static inline int kit_tear_down(void **state) {
  (void)state;
  kit_folder_remove();
  return 0;
}

/* ---- computing 3 x on a device ---- */
static inline clade_status kit_compile_scale(clade_device *device, clade_func **func) {
  clade_graph *g;
  clade_status status = clade_graph_new(&g);
  if (status != CLADE_OK) return status;
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(8));
  clade_output(g, "y", clade_node_add(g, &kit_scale, "n", NULL, 1, &x, NULL));
  status = clade_compile(g, device, func);
  clade_graph_release(g);
  return status;
}

static inline clade_status kit_run(clade_func *func) {
  float x[8], y[8] = {0};
  clade_run *run;
  clade_ticket ticket;
  for (int i = 0; i < 8; i++) x[i] = (float)i;
  clade_status status = clade_run_new(func, NULL, &run);
  if (status != CLADE_OK) return status;
  status = clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket);
  if (status == CLADE_OK) status = clade_read(run, ticket, "y", y, sizeof y);
  for (int i = 0; i < 8 && status == CLADE_OK; i++) assert_true(y[i] == 3.0f * (float)i);
  clade_run_free(run);
  return status;
}

#endif
