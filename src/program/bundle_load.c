/* Loads a bundle's program and compares its kernels with the manifest. */
#include <time.h>

#include "program/bundles.h"

static clade_status check_group(clade_device *device, cl_kernel kernel, const clade__bundle_kernel *k) {
  clade__kernel_limits limits;
  CLADE_TRY(clade__kernel_get_limits(device, kernel, &limits));
  for (int i = 0; i < 3 && limits.required[0]; i++)
    if (limits.required[i] != k->work_group[i])
      return CLADE_FAIL(CORRUPT, "its work-group has %zu items in dimension %d; the manifest tells %llu",
                        limits.required[i], i, (unsigned long long)k->work_group[i]);
  return CLADE_OK;
}

/* Compares if the implementation reports a value: few keep all argument information in binaries. */
static bool same(const char *is, const char *told) { return !*is || strcmp(is, told) == 0; }

static clade_status check_argument(clade_device *device, cl_kernel kernel, size_t index,
                                   const clade__bundle_argument *told) {
  clade__kernel_argument is;
  CLADE_TRY(clade__kernel_get_argument(device, kernel, (cl_uint)index, &is));
  if (same(is.type, told->type) && same(is.name, told->name)) return CLADE_OK;
  return CLADE_FAIL(CORRUPT, "its argument %zu is \"%s%s%s\"; the manifest tells \"%s %s\"", index, is.type,
                    *is.type ? " " : "", is.name, told->type, told->name);
}

static clade_status check_kernel(clade_device *device, cl_kernel kernel, const clade__bundle_kernel *k) {
  cl_uint count = 0;
  CLADE_TRY(clade__kernel_args(device, kernel, &count));
  if (count != k->n_arguments)
    return CLADE_FAIL(CORRUPT, "it takes %u arguments; the manifest tells %zu", count, k->n_arguments);
  CLADE_TRY(check_group(device, kernel, k));
  for (size_t i = 0; i < k->n_arguments; i++) CLADE_TRY(check_argument(device, kernel, i, &k->arguments[i]));
  return CLADE_OK;
}

static clade_status try_kernel(clade_device *device, cl_program program, const clade__bundle_kernel *k) {
  cl_kernel kernel;
  CLADE_TRY(clade__kernel_new(device, program, k->name, &kernel));
  clade_status status = check_kernel(device, kernel, k);
  clade__kernel_release(kernel);
  return status;
}

static clade_status try_kernels(clade_device *device, cl_program program, const clade__bundle *bundle) {
  for (size_t i = 0; i < bundle->manifest.n_kernels; i++) {
    const clade__bundle_kernel *k = &bundle->manifest.kernels[i];
    clade_status status = try_kernel(device, program, k);
    if (status != CLADE_OK) return clade__fail_in(status, "%s: kernel %s", bundle->path, k->name);
  }
  return CLADE_OK;
}

/* Retries for half a second if the device had another program, which some runtimes release only a moment after its
 * last launch. */
static clade_status load_patiently(clade_device *device, const clade__bundle *bundle, cl_program *out) {
  enum { TRIES = 10 };
  const int tries = clade__programmed_times(device) > 1 ? TRIES : 1;
  struct timespec pause = {0, 1000000};
  clade_status status;
  for (int i = 1;; i++, pause.tv_nsec *= 2) {
    status = clade__program_load(device, bundle->binary, bundle->binary_bytes, "-cl-kernel-arg-info", out);
    if (status != CLADE_BUSY || i == tries) break;
    nanosleep(&pause, NULL);
  }
  return status == CLADE_BUSY ? clade__fail_in(status, "asked %d times", tries) : status;
}

clade_status clade__bundle_load(clade_device *device, clade__bundle *bundle, cl_program *out) {
  cl_program program;
  *out = NULL;
  if (!bundle->binary_bytes)
    return CLADE_FAIL(UNSUPPORTED, "%s has no binary: nothing can be loaded from it", bundle->path);
  CLADE_TRY(clade__interface_check(bundle));
  if (bundle->manifest.binary.format == CLADE__POCLBIN) {
    unsigned char *binary = bundle->file + (bundle->binary - bundle->file);
    CLADE_TRY(clade__poclbin_unpack(bundle->path, binary, &bundle->binary_bytes));
  }
  clade_status status = load_patiently(device, bundle, &program);
  if (status != CLADE_OK)
    return clade__fail_in(status, "%s: device \"%s\" refuses its binary", bundle->path,
                          clade__device_info(device)->name);
  status = try_kernels(device, program, bundle);
  if (status != CLADE_OK) {
    clade__program_release(program);
    return status;
  }
  *out = program;
  return CLADE_OK;
}
