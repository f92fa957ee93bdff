/* Compiles FPGA kernels by PoCL, for their names, arguments and machine code. */
#include <stdlib.h>

#include "cl/cl.h"
#include "cli/pack.h"

static int access_of(const clade__kernel_argument *a) {
  if (!strchr(a->type, '*')) return CLADE__VALUE;
  return a->constant ? CLADE__READ : CLADE__READ_WRITE;
}

static clade_status read_arguments(clade_device *device, cl_kernel kernel, clade__arena *arena,
                                   clade__bundle_kernel *k) {
  cl_uint n;
  CLADE_TRY(clade__kernel_args(device, kernel, &n));
  clade__bundle_argument *list = clade__arena_new(arena, (n + 1) * sizeof *list);
  if (!list) return CLADE_NO_MEMORY;
  for (cl_uint i = 0; i < n; i++) {
    clade__kernel_argument is;
    CLADE_TRY(clade__kernel_get_argument(device, kernel, i, &is));
    list[i] =
        (clade__bundle_argument){clade__arena_text(arena, is.type), clade__arena_text(arena, is.name), access_of(&is)};
    if (!list[i].type || !list[i].name) return CLADE_NO_MEMORY;
  }
  k->arguments = list;
  k->n_arguments = n;
  return CLADE_OK;
}

static clade_status read_kernel(clade_device *device, cl_program program, const char *name, clade__arena *arena,
                                clade__bundle_kernel *k) {
  cl_kernel kernel;
  clade__kernel_limits limits;
  CLADE_TRY(clade__kernel_new(device, program, name, &kernel));
  *k = (clade__bundle_kernel){.name = clade__arena_text(arena, name), .compute_units = 1};
  clade_status status = k->name ? clade__kernel_get_limits(device, kernel, &limits) : CLADE_NO_MEMORY;
  for (int i = 0; i < 3 && !status; i++) k->work_group[i] = limits.required[i];
  if (!status && !limits.required[0])
    status =
        CLADE_FAIL(UNSUPPORTED, "kernel %s: a required work-group is expected: reqd_work_group_size(1, 1, 1)", name);
  if (!status) status = read_arguments(device, kernel, arena, k);
  clade__kernel_release(kernel);
  return status;
}

/* Kernels of the standard interface declare their accesses there: a kernel's type does not show that a pointer is
 * only written. */
static const clade__bundle_kernel *interface_row(const char *name) {
  size_t n;
  const clade__bundle_kernel *rows = clade__interface_kernels(&n);
  for (size_t i = 0; i < n; i++)
    if (strcmp(rows[i].name, name) == 0) return &rows[i];
  return NULL;
}

static clade_status read_kernels(clade_device *device, cl_program program, cli_pack_compiled *out) {
  char *names, *rest;
  size_t most = 1;
  CLADE_TRY(clade__program_kernels(device, program, &names));
  for (const char *c = names; *c; c++) most += *c == ';';
  out->kernels = clade__arena_new(&out->arena, most * sizeof *out->kernels);
  clade_status status = out->kernels ? CLADE_OK : CLADE_NO_MEMORY;
  rest = names;
  for (char *name; !status && (name = strsep(&rest, ";"));) {
    const clade__bundle_kernel *row = interface_row(name);
    if (row)
      out->kernels[out->n_kernels] = *row;
    else
      status = read_kernel(device, program, name, &out->arena, &out->kernels[out->n_kernels]);
    out->n_kernels++;
  }
  clade__free(names);
  return status;
}

static clade_status fetch(clade_device *device, cl_program program, cli_pack_compiled *out) {
  clade__facts facts; /* only machine code is kept, so that loading neither compiles nor links */
  CLADE_TRY(clade__program_binary(device, program, &out->binary, &out->bytes));
  CLADE_TRY(clade__poclbin_check("what PoCL compiled", out->binary, out->bytes, &out->arena, &facts));
  out->bytes = clade__poclbin_trim(out->binary);
  return CLADE_OK;
}

clade_status cli_pack_compile(const char *text, const char *options, bool binary, cli_pack_compiled *out) {
  clade_device *device;
  cl_program program = NULL;
  char *log = NULL;
  *out = (cli_pack_compiled){0};
  CLADE_TRY(clade_device_find("pocl", &device));
  out->version = clade__arena_text(&out->arena, clade__device_info(device)->platform_version);
  clade_status status = out->version ? CLADE_OK : CLADE_NO_MEMORY;
  if (!status) status = clade__program_build(device, text, strlen(text), options, &program, &log);
  if (status && log && *log) fprintf(stderr, "%s\n", log);
  clade__free(log);
  if (!status) status = read_kernels(device, program, out);
  if (!status && binary) status = fetch(device, program, out);
  clade__program_release(program);
  clade_device_release(device);
  return status;
}

void cli_pack_compiled_free(cli_pack_compiled *compiled) {
  clade__free(compiled->binary);
  clade__arena_free(&compiled->arena);
}
