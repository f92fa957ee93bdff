/* Programs from source and from binaries. */
#include "cl/internal.h"
#include "cl/late.h"

void clade__program_release(cl_program program) {
  if (program && !atomic_load(&clade__forked)) CLADE__UNDO(clReleaseProgram, program);
}

/* The build log, or NULL. A failure to fetch it must not hide the build error. */
static char *build_log(clade_device *device, cl_program program) {
  size_t bytes = 0;
  if (clade__cl.clGetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes)) return NULL;
  char *log = clade__new(bytes + 1, 1);
  if (log && clade__cl.clGetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, bytes, log, NULL)) {
    clade__free(log);
    return NULL;
  }
  return log;
}

static clade_status build(clade_device *device, cl_program program, const char *options, char **log) {
  cl_int e = clade__cl.clBuildProgram(program, 1, &device->id, options ? options : "", NULL, NULL);
  if (e == CL_SUCCESS) return CLADE_OK;
  if (log) *log = build_log(device, program);
  return clade__cl_error(device, "clBuildProgram", e);
}

/* Maps the failure of clCreateProgramWithBinary to a status. */
static clade_status refused(const clade_device *device, cl_int e) {
  clade_status status = clade__cl_error(device, "clCreateProgramWithBinary", e);
  if (!clade__quirk_has(device, CLADE__QUIRK_LINGERS) || (e != CL_OUT_OF_RESOURCES && e != CL_OUT_OF_HOST_MEMORY))
    return status;
  return clade__fail_in(CLADE_BUSY, "device \"%s\" may still hold another program", device->facts.label);
}

clade_status clade__program_load(clade_device *device, const void *binary, size_t bytes, const char *options,
                                 cl_program *out) {
  cl_int e = CL_SUCCESS, state = CL_SUCCESS;
  const unsigned char *data = binary;
  *out = NULL;
  CLADE_TRY(clade__device_check(device, "clade__program_load"));
  cl_program program = clade__cl.clCreateProgramWithBinary(device->context, 1, &device->id, &bytes, &data, &state, &e);
  if (e == CL_SUCCESS && program && state != CL_SUCCESS) {
    clade__program_release(program);
    return refused(device, state);
  }
  if (e != CL_SUCCESS) return refused(device, e);
  CLADE_TRY(clade__cl_made(device, "clCreateProgramWithBinary", program, e));
  clade_status status = build(device, program, options, NULL);
  if (status != CLADE_OK) {
    clade__program_release(program);
    return status;
  }
  *out = program;
  return CLADE_OK;
}

/* Binaries of a program in an adopted context, which may have several devices: `ours` is this device's index. */
typedef struct parts {
  size_t n, ours;
  cl_device_id *ids;
  size_t *sizes;
  unsigned char **binaries;
} parts;

static clade_status ask_parts(clade_device *device, cl_program program, parts *p) {
  CLADE__CALL(device, clGetProgramInfo, program, CL_PROGRAM_DEVICES, p->n * sizeof *p->ids, p->ids, NULL);
  CLADE__CALL(device, clGetProgramInfo, program, CL_PROGRAM_BINARY_SIZES, p->n * sizeof *p->sizes, p->sizes, NULL);
  /* A single binary is ours whatever device it reports: PoCL reports the root device for sub-devices. */
  while (p->n > 1 && p->ours < p->n && p->ids[p->ours] != device->id) p->ours++;
  if (p->ours == p->n || p->sizes[p->ours] == 0)
    return CLADE_FAIL(UNSUPPORTED, "device \"%s\" gives no binary of its program", device->facts.label);
  return CLADE_OK;
}

static clade_status fetch(clade_device *device, cl_program program, parts *p, void **binary) {
  p->binaries[p->ours] = *binary = clade__new(p->sizes[p->ours], 1);
  if (!*binary) return CLADE_NO_MEMORY;
  cl_int e =
      clade__cl.clGetProgramInfo(program, CL_PROGRAM_BINARIES, p->n * sizeof *p->binaries, (void *)p->binaries, NULL);
  if (e == CL_SUCCESS) return CLADE_OK;
  clade__free(*binary);
  *binary = NULL;
  return clade__cl_error(device, "clGetProgramInfo", e);
}

clade_status clade__program_binary(clade_device *device, cl_program program, void **binary, size_t *bytes) {
  cl_uint n = 0;
  *binary = NULL;
  *bytes = 0;
  CLADE_TRY(clade__device_check(device, "clade__program_binary"));
  CLADE__CALL(device, clGetProgramInfo, program, CL_PROGRAM_NUM_DEVICES, sizeof n, &n, NULL);
  parts p = {.n = n};
  p.ids = clade__new(n, sizeof *p.ids);
  p.sizes = clade__new(n, sizeof *p.sizes);
  p.binaries = clade__new(n, sizeof *p.binaries);
  clade_status status = p.ids && p.sizes && p.binaries ? ask_parts(device, program, &p) : CLADE_NO_MEMORY;
  if (status == CLADE_OK) status = fetch(device, program, &p, binary);
  if (status == CLADE_OK) *bytes = p.sizes[p.ours];
  clade__free(p.ids);
  clade__free(p.sizes);
  clade__free(p.binaries);
  return status;
}

/* If the source has late instructions that the device supports, rebuilds the program with them and replaces it. */
static clade_status add_late(clade_device *device, const char *source, size_t length, const char *options,
                             cl_program *program) {
  const clade__late *late = clade__late_find(device->facts.info.compute_capability, source, length);
  clade__text text = {0};
  cl_program with = NULL;
  void *binary = NULL;
  size_t bytes = 0;
  if (!late) return CLADE_OK;
  CLADE_TRY(clade__program_binary(device, *program, &binary, &bytes));
  const size_t marks = clade__late_switch_on(late, binary, bytes, &text);
  clade__free(binary);
  clade_status status = text.failed ? CLADE_NO_MEMORY : CLADE_OK;
  if (status == CLADE_OK && marks) status = clade__program_load(device, text.data, text.length, options, &with);
  clade__text_free(&text);
  if (!with) return status;
  clade__program_release(*program);
  *program = with;
  return CLADE_OK;
}

clade_status clade__program_build(clade_device *device, const char *source, size_t length, const char *options,
                                  cl_program *out, char **log) {
  cl_int e = CL_SUCCESS;
  *out = NULL;
  if (log) *log = NULL;
  CLADE_TRY(clade__device_check(device, "clade__program_build"));
  cl_program program = clade__cl.clCreateProgramWithSource(device->context, 1, &source, &length, &e);
  CLADE_TRY(clade__cl_made(device, "clCreateProgramWithSource", e ? NULL : program, e));
  clade_status status = build(device, program, options, log);
  if (status == CLADE_OK) status = add_late(device, source, length, options, &program);
  if (status != CLADE_OK) {
    clade__program_release(program);
    return status;
  }
  *out = program;
  return CLADE_OK;
}

clade_status clade__program_kernels(clade_device *device, cl_program program, char **names) {
  size_t bytes = 0;
  *names = NULL;
  CLADE_TRY(clade__device_check(device, "clade__program_kernels"));
  CLADE__CALL(device, clGetProgramInfo, program, CL_PROGRAM_KERNEL_NAMES, 0, NULL, &bytes);
  char *text = clade__new(bytes + 1, 1);
  if (!text) return CLADE_NO_MEMORY;
  cl_int e = clade__cl.clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, bytes, text, NULL);
  if (e != CL_SUCCESS) {
    clade__free(text);
    return clade__cl_error(device, "clGetProgramInfo", e);
  }
  *names = text;
  return CLADE_OK;
}
