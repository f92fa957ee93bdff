/* The programs of a device without a compiler: those of its bundle, which is found, loaded and tested once. */
#include "program/bundles.h"

struct clade__offline {
  clade__bundle bundle; /* without its bytes */
  cl_program program;
  const char **kernels;
  bool *tested; /* by kernel */
  clade_array_info array;
};

static clade_status keep_names(clade__offline *o) {
  const clade__manifest *m = &o->bundle.manifest;
  o->kernels = clade__arena_new(&o->bundle.arena, (m->n_kernels + 1) * sizeof *o->kernels);
  o->tested = clade__arena_new(&o->bundle.arena, m->n_kernels * sizeof *o->tested);
  if (!o->kernels || !o->tested) return CLADE_NO_MEMORY;
  for (size_t i = 0; i < m->n_kernels; i++) o->kernels[i] = m->kernels[i].name;
  return CLADE_OK;
}

/* What the manifest tells of the array that estimates go by. */
static clade_status keep_array(clade__offline *o) {
  static const char *const names[] = {"PE_ROWS", "PE_COLS", "TILE_ROWS", "TILE_COLS"};
  enum { MOST = 4096 };
  const clade__manifest *m = &o->bundle.manifest;
  const clade__bundle_kernel *k = clade__manifest_array(m);
  uint64_t size[] = {CLADE__ARRAY_ROWS, CLADE__ARRAY_COLUMNS, 0, 0};
  for (size_t i = 0; i < CLADE_COUNT(size); i++) {
    CLADE_TRY(clade__manifest_number(o->bundle.path, m, names[i], &size[i]));
    size[i] = CLADE_MIN(size[i], (uint64_t)MOST);
  }
  o->array = (clade_array_info){(uint32_t)size[0],
                                (uint32_t)size[1],
                                (uint32_t)size[2],
                                (uint32_t)size[3],
                                k ? k->report.fmax_mhz.value : 0,
                                k ? k->report.bandwidth_gbs.value : 0};
  return CLADE_OK;
}

static clade_status load(clade_device *device, clade__offline *o) {
  CLADE_TRY(clade__programmed_begin(device, &o->bundle));
  clade_status status = clade__bundle_load(device, &o->bundle, &o->program);
  if (status == CLADE_OK) status = keep_names(o);
  if (status == CLADE_OK) status = keep_array(o);
  if (status == CLADE_OK) return CLADE_OK;
  clade__program_release(o->program);
  clade__programmed_end(device);
  return status;
}

clade_status clade__offline_open(clade_device *device, clade__offline **out) {
  clade__offline *o = clade__new(1, sizeof *o);
  *out = NULL;
  if (!o) return CLADE_NO_MEMORY;
  clade_status status = clade__bundle_find(clade__device_info(device), &o->bundle);
  if (status == CLADE_OK) status = load(device, o);
  if (status != CLADE_OK) {
    clade__bundle_free(&o->bundle);
    clade__free(o);
    return status;
  }
  clade__free(o->bundle.file);
  o->bundle.file = NULL;
  o->bundle.binary = NULL;
  clade__log(CLADE_LOG_INFO, "%s: device \"%s\" is programmed with it, %llu times so far", o->bundle.path,
             clade__device_info(device)->name, (unsigned long long)clade__programmed_times(device));
  *out = o;
  return CLADE_OK;
}

void clade__offline_free(clade_device *device, clade__offline *offline) {
  if (!offline) return;
  clade__program_release(offline->program);
  clade__programmed_end(device);
  clade__bundle_free(&offline->bundle);
  clade__free(offline);
}

const char *const *clade__offline_kernels(const clade__offline *offline) { return offline->kernels; }

const clade_array_info *clade__offline_array(const clade__offline *offline) { return &offline->array; }

static const clade__bundle_kernel *find(const clade__manifest *m, const char *name) {
  for (size_t i = 0; i < m->n_kernels; i++)
    if (strcmp(m->kernels[i].name, name) == 0) return &m->kernels[i];
  return NULL;
}

static clade_status test_once(clade_device *device, clade__offline *offline, const clade__bundle_kernel *k) {
  bool *tested = &offline->tested[k - offline->bundle.manifest.kernels];
  if (*tested) return CLADE_OK;
  clade_status status = clade__self_test(device, offline->program, k);
  if (status != CLADE_OK) return clade__fail_in(status, "%s: kernel %s", offline->bundle.path, k->name);
  *tested = true;
  return CLADE_OK;
}

clade_status clade__offline_find(clade_device *device, clade__offline *offline, const clade__request *request,
                                 clade__program_kernel *out) {
  if (strcmp(request->file, CLADE__BUNDLED_FILE) != 0 || request->n_defines)
    return CLADE_FAIL(UNSUPPORTED, "kernel %s of %s.cl would have to be compiled, and the device has no compiler",
                      request->kernel, request->file);
  const clade__bundle_kernel *k = find(&offline->bundle.manifest, request->kernel);
  if (!k) return CLADE_FAIL(NOT_FOUND, "%s has no kernel %s", offline->bundle.path, request->kernel);
  if (request->args && (size_t)request->n_args != k->n_arguments)
    return CLADE_FAIL(INVALID, "kernel %s of %s takes %zu arguments, %d are described", k->name, offline->bundle.path,
                      k->n_arguments, request->n_args);
  CLADE_TRY(test_once(device, offline, k));
  *out = (clade__program_kernel){.program = offline->program, .queue = (int)k->queue};
  memcpy(out->name, k->name, strlen(k->name) + 1);
  return CLADE_OK;
}
