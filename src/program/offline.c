/* Programs of a device without a compiler: its bundles are found, loaded and tested once. */
#include "program/bundles.h"

struct clade__offline {
  clade__bundle_set bundles; /* without their contents */
  cl_program program[CLADE__MOST_BUNDLES];
  clade__arena arena;
  const char **kernels;
  const clade__bundle_kernel **told; /* per kernel, like the following */
  uint32_t *programs;
  bool *tested;
  char digest[33];
  clade_array_info array;
};

static clade_status keep_names(clade__offline *o) {
  size_t n = 0, at = 0;
  for (size_t i = 0; i < o->bundles.n; i++) n += o->bundles.at[i].manifest.n_kernels;
  o->kernels = clade__arena_new(&o->arena, (n + 1) * sizeof *o->kernels);
  o->told = clade__arena_new(&o->arena, n * sizeof *o->told);
  o->programs = clade__arena_new(&o->arena, n * sizeof *o->programs);
  o->tested = clade__arena_new(&o->arena, n * sizeof *o->tested);
  if (!o->kernels || !o->told || !o->programs || !o->tested) return CLADE_NO_MEMORY;
  for (size_t i = 0; i < o->bundles.n; i++)
    for (size_t k = 0; k < o->bundles.at[i].manifest.n_kernels; k++, at++) {
      o->told[at] = &o->bundles.at[i].manifest.kernels[k];
      o->kernels[at] = o->told[at]->name;
      o->programs[at] = (uint32_t)i;
    }
  return CLADE_OK;
}

/* Reads the array's dimensions, which cost estimates use, from the manifest. */
static clade_status read_array(const clade__bundle *bundle, clade_array_info *out) {
  static const char *const names[] = {"PE_ROWS", "PE_COLS", "TILE_ROWS", "TILE_COLS"};
  enum { MOST = 4096 };
  const clade__manifest *m = &bundle->manifest;
  const clade__bundle_kernel *k = clade__manifest_array(m);
  uint64_t size[] = {CLADE__ARRAY_ROWS, CLADE__ARRAY_COLUMNS, 0, 0};
  for (size_t i = 0; i < CLADE_COUNT(size); i++) {
    CLADE_TRY(clade__manifest_number(bundle->path, m, names[i], &size[i]));
    size[i] = CLADE_MIN(size[i], (uint64_t)MOST);
  }
  *out = (clade_array_info){.rows = (uint32_t)size[0],
                            .columns = (uint32_t)size[1],
                            .tile_rows = (uint32_t)size[2],
                            .tile_columns = (uint32_t)size[3],
                            .mhz = k ? k->report.fmax_mhz.value : 0,
                            .gbs = k ? k->report.bandwidth_gbs.value : 0};
  return CLADE_OK;
}

/* The first bundle that reports an array, else the first bundle. */
static clade_status keep_array(clade__offline *o) {
  for (size_t i = 0; i < o->bundles.n; i++) {
    clade_array_info array;
    CLADE_TRY(read_array(&o->bundles.at[i], &array));
    if (!i || (array.mhz > 0 && !(o->array.mhz > 0))) o->array = array;
  }
  return CLADE_OK;
}

static void release_programs(clade_device *device, clade__offline *o) {
  for (size_t i = 0; i < o->bundles.n; i++) clade__program_release(o->program[i]);
  clade__programmed_end(device);
}

static clade_status load(clade_device *device, clade__offline *o) {
  CLADE_TRY(clade__programmed_begin(device, &o->bundles));
  clade_status status = CLADE_OK;
  for (size_t i = 0; i < o->bundles.n && status == CLADE_OK; i++)
    status = clade__bundle_load(device, &o->bundles.at[i], &o->program[i]);
  if (status == CLADE_OK) status = keep_names(o);
  if (status == CLADE_OK) status = keep_array(o);
  clade__hash_text(clade__bundle_set_hash(&o->bundles), o->digest);
  if (status != CLADE_OK) release_programs(device, o);
  return status;
}

static void free_bundles(clade__offline *o) {
  clade__bundle_set_free(&o->bundles);
  clade__arena_free(&o->arena);
  clade__free(o);
}

clade_status clade__offline_open(clade_device *device, clade__offline **out) {
  clade__offline *o = clade__new(1, sizeof *o);
  *out = NULL;
  if (!o) return CLADE_NO_MEMORY;
  clade_status status = clade__bundle_find(clade__device_info(device), &o->bundles);
  if (status == CLADE_OK) status = load(device, o);
  if (status != CLADE_OK) {
    free_bundles(o);
    return status;
  }
  for (size_t i = 0; i < o->bundles.n; i++) {
    clade__bundle *bundle = &o->bundles.at[i];
    clade__free(bundle->file);
    bundle->file = NULL;
    bundle->binary = NULL;
    clade__log(CLADE_LOG_INFO, "%s: device \"%s\" is programmed with it, %llu times so far", bundle->path,
               clade__device_info(device)->name, (unsigned long long)clade__programmed_times(device));
  }
  *out = o;
  return CLADE_OK;
}

void clade__offline_free(clade_device *device, clade__offline *offline) {
  if (!offline) return;
  release_programs(device, offline);
  free_bundles(offline);
}

void clade__offline_tell(clade_device *device, const clade__offline *o) {
  int least = CLADE__HARDWARE; /* of the kernels' evidence */
  for (size_t i = 0; o->kernels[i]; i++) least = CLADE_MIN(least, o->told[i]->evidence);
  clade__device_set_kernels(device, o->kernels, o->programs, o->digest, &o->array, clade__evidence_names[least]);
}

/* Index of a kernel, or -1. */
static int find(const clade__offline *o, const char *name) {
  for (int i = 0; o->kernels[i]; i++)
    if (strcmp(o->kernels[i], name) == 0) return i;
  return -1;
}

static clade_status test_once(clade_device *device, clade__offline *o, int kernel) {
  int program = (int)o->programs[kernel];
  if (o->tested[kernel]) return CLADE_OK;
  clade__programmed_ran(device, program, program, 0);
  clade_status status = clade__self_test(device, o->program[program], o->told[kernel]);
  if (status != CLADE_OK)
    return clade__fail_in(status, "%s: kernel %s", o->bundles.at[program].path, o->kernels[kernel]);
  o->tested[kernel] = true;
  return CLADE_OK;
}

clade_status clade__offline_turn(clade_device *device, const clade__offline *o, int program, double *seconds) {
  int k = 0;
  while (o->kernels[k] && ((int)o->programs[k] != program || !clade__self_test_known(o->told[k]))) k++;
  if (!o->kernels[k]) return CLADE_OK;
  clade__programmed_ran(device, program, program, 0);
  const double begun = clade__now();
  CLADE_TRY(clade__self_test(device, o->program[program], o->told[k]));
  *seconds = clade__now() - begun;
  return CLADE_OK;
}

clade_status clade__offline_find(clade_device *device, clade__offline *offline, const clade__request *request,
                                 clade__program_kernel *out) {
  if (strcmp(request->file, CLADE__BUNDLED_FILE) != 0 || request->n_defines)
    return CLADE_FAIL(UNSUPPORTED, "kernel %s of %s.cl would have to be compiled, and the device has no compiler",
                      request->kernel, request->file);
  int at = find(offline, request->kernel);
  if (at < 0) return CLADE_FAIL(NOT_FOUND, "%s has no kernel %s", offline->bundles.at[0].path, request->kernel);
  const clade__bundle_kernel *k = offline->told[at];
  const char *path = offline->bundles.at[offline->programs[at]].path;
  if (request->args && (size_t)request->n_args != k->n_arguments)
    return CLADE_FAIL(INVALID, "kernel %s of %s takes %zu arguments, %d are described", k->name, path, k->n_arguments,
                      request->n_args);
  CLADE_TRY(test_once(device, offline, at));
  *out = (clade__program_kernel){.program = offline->program[offline->programs[at]], .queue = (int)k->queue};
  memcpy(out->name, k->name, strlen(k->name) + 1);
  return CLADE_OK;
}
