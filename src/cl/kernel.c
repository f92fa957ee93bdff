/* Kernels: creation, arguments and limits. */
#include "cl/internal.h"

#include <inttypes.h>
#include <stdio.h>

void clade__kernel_release(cl_kernel kernel) {
  if (kernel && !atomic_load(&clade__forked)) CLADE__UNDO(clReleaseKernel, kernel);
}

clade_status clade__kernel_new(clade_device *device, cl_program program, const char *name, cl_kernel *out) {
  cl_int e = CL_SUCCESS;
  *out = NULL;
  CLADE_TRY(clade__device_check(device, "clade__kernel_new"));
  cl_kernel kernel = clade__cl.clCreateKernel(program, name, &e);
  clade_status status = clade__cl_made(device, "clCreateKernel", e ? NULL : kernel, e);
  if (status != CLADE_OK) return clade__fail_in(status, "kernel %s", name);
  *out = kernel;
  return CLADE_OK;
}

clade_status clade__kernel_args(clade_device *device, cl_kernel kernel, cl_uint *count) {
  CLADE_TRY(clade__device_check(device, "clade__kernel_args"));
  CLADE__CALL(device, clGetKernelInfo, kernel, CL_KERNEL_NUM_ARGS, sizeof *count, count, NULL);
  return CLADE_OK;
}

/* NULL: a value that OpenCL does not define. */
static const char *address_of(cl_kernel_arg_address_qualifier address) {
  switch (address) {
  case CL_KERNEL_ARG_ADDRESS_GLOBAL: return "global ";
  case CL_KERNEL_ARG_ADDRESS_CONSTANT: return "constant ";
  case CL_KERNEL_ARG_ADDRESS_LOCAL: return "local ";
  case CL_KERNEL_ARG_ADDRESS_PRIVATE: return "";
  default: return NULL;
  }
}

/* FPGA runtimes report names, use their own address-space values, and refuse other queries. */
clade_status clade__kernel_get_argument(clade_device *device, cl_kernel kernel, cl_uint index,
                                        clade__kernel_argument *out) {
  cl_kernel_arg_address_qualifier address = CL_KERNEL_ARG_ADDRESS_PRIVATE;
  cl_kernel_arg_type_qualifier qualifiers = CL_KERNEL_ARG_TYPE_NONE;
  char base[64] = "";
  *out = (clade__kernel_argument){0};
  CLADE_TRY(clade__device_check(device, "clade__kernel_get_argument"));
  cl_int e = clade__cl.clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_NAME, sizeof out->name, out->name, NULL);
  if (e == CL_KERNEL_ARG_INFO_NOT_AVAILABLE) return CLADE_OK;
  if (e) return clade__cl_error(device, "clGetKernelArgInfo", e);
  CLADE__CALL(device, clGetKernelArgInfo, kernel, index, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof address, &address,
              NULL);
  if (!address_of(address)) return CLADE_OK;
  CLADE__CALL(device, clGetKernelArgInfo, kernel, index, CL_KERNEL_ARG_TYPE_QUALIFIER, sizeof qualifiers, &qualifiers,
              NULL);
  CLADE__CALL(device, clGetKernelArgInfo, kernel, index, CL_KERNEL_ARG_TYPE_NAME, sizeof base, base, NULL);
  size_t n = strcspn(base, " *");
  snprintf(out->type, sizeof out->type, "%s%.*s%s", address_of(address), (int)n, base, base[n] ? " *" : "");
  out->constant = qualifiers & CL_KERNEL_ARG_TYPE_CONST;
  return CLADE_OK;
}

clade_status clade__kernel_set(clade_device *device, cl_kernel kernel, cl_uint index, size_t bytes, const void *value) {
  CLADE_TRY(clade__device_check(device, "clade__kernel_set"));
  cl_int e = clade__cl.clSetKernelArg(kernel, index, bytes, value);
  if (e == CL_SUCCESS) return CLADE_OK;
  return clade__fail_in(clade__cl_error(device, "clSetKernelArg", e), "argument %u of %zu bytes", index, bytes);
}

clade_status clade__kernel_get_limits(clade_device *device, cl_kernel kernel, clade__kernel_limits *limits) {
  cl_ulong local = 0;
  memset(limits, 0, sizeof *limits);
  CLADE_TRY(clade__device_check(device, "clade__kernel_get_limits"));
  CLADE__CALL(device, clGetKernelWorkGroupInfo, kernel, device->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof limits->group,
              &limits->group, NULL);
  CLADE__CALL(device, clGetKernelWorkGroupInfo, kernel, device->id, CL_KERNEL_LOCAL_MEM_SIZE, sizeof local, &local,
              NULL);
  CLADE__CALL(device, clGetKernelWorkGroupInfo, kernel, device->id, CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
              sizeof limits->required, limits->required, NULL);
  limits->local_bytes = clade__quirk_has(device, CLADE__QUIRK_LOCAL_TWICE) ? local / 2 : local;
  if (clade__quirk_has(device, CLADE__QUIRK_GROUP_LIMIT)) limits->group = (size_t)device->facts.info.max_group;
  return CLADE_OK;
}

static clade_status check_required(const clade__kernel_limits *limits, const char *name, cl_uint dims,
                                   const size_t *local) {
  for (cl_uint i = 0; i < 3 && limits->required[0]; i++) {
    size_t has = i < dims ? local[i] : 1;
    if (has != limits->required[i])
      return CLADE_FAIL(UNSUPPORTED, "kernel %s: local size %zu in dimension %u, it was written for %zu", name, has, i,
                        limits->required[i]);
  }
  return CLADE_OK;
}

clade_status clade__kernel_fits(clade_device *device, const clade__kernel_limits *limits, const char *name,
                                cl_uint dims, const size_t *local, uint64_t local_args) {
  const clade_device_info *info = &device->facts.info;
  uint64_t group = 1, group_limit = CLADE_MIN((uint64_t)limits->group, info->max_group);
  if (dims < 1 || dims > 3) return CLADE_FAIL(INVALID, "kernel %s: %u dimensions; 1 to 3 are expected", name, dims);
  for (cl_uint i = 0; i < dims; i++) {
    if (local[i] == 0 || local[i] > info->max_item[i])
      return CLADE_FAIL(UNSUPPORTED, "kernel %s: local size %zu in dimension %u; device \"%s\" allows 1 to %" PRIu64,
                        name, local[i], i, info->name, info->max_item[i]);
    group *= local[i];
  }
  if (group > group_limit)
    return CLADE_FAIL(UNSUPPORTED, "kernel %s: %" PRIu64 " work-items in a group; device \"%s\" allows %" PRIu64, name,
                      group, info->name, group_limit);
  CLADE_TRY(check_required(limits, name, dims, local));
  /* NVIDIA's compiler refuses arrays that do not run, which may be larger than the device says (local_static_bytes);
   * other implementations die of them at the launch. */
  if (info->compute_capability && !local_args) return CLADE_OK;
  if (limits->local_bytes > info->local_bytes || local_args > info->local_bytes - limits->local_bytes)
    return CLADE_FAIL(UNSUPPORTED,
                      "kernel %s: %" PRIu64 " bytes of local memory and %" PRIu64
                      " in arguments; device \"%s\" has %" PRIu64,
                      name, limits->local_bytes, local_args, info->name, info->local_bytes);
  return CLADE_OK;
}
