/* Checks that a device computes correctly, with a tiny kernel. */
#include "cl/internal.h"

enum { ITEMS = 64 };

/* Embedded here, since kernel files belong to a higher module. Uses local memory and a barrier, where broken drivers
 * fail. */
static const char source[] = "__kernel void clade_probe(__global int *out, const int a) {\n"
                             "  __local int turn[64];\n"
                             "  const int i = (int)get_local_id(0);\n"
                             "  turn[63 - i] = a * i + 1;\n"
                             "  barrier(CLK_LOCAL_MEM_FENCE);\n"
                             "  out[get_global_id(0)] = turn[i];\n"
                             "}\n";

static clade_status compare(const int32_t *got, int32_t a) {
  for (int i = 0; i < ITEMS; i++) {
    int32_t want = a * (ITEMS - 1 - i) + 1;
    if (got[i] != want) return CLADE_FAIL(INTERNAL, "element %d is %d, not %d", i, (int)got[i], (int)want);
  }
  return CLADE_OK;
}

static clade_status run(clade_device *device, cl_kernel kernel, clade__buffer *buffer) {
  int32_t got[ITEMS] = {0};
  const cl_int a = 3;
  const size_t size = ITEMS;
  clade__kernel_limits limits;
  cl_mem memory = clade__buffer_mem(buffer);
  clade__queue *queue;
  CLADE_TRY(clade__transfer(device, &queue));
  CLADE_TRY(clade__kernel_get_limits(device, kernel, &limits));
  CLADE_TRY(clade__kernel_fits(device, &limits, "clade_probe", 1, &size, 0));
  CLADE_TRY(clade__kernel_set(device, kernel, 0, sizeof(cl_mem), &memory));
  CLADE_TRY(clade__kernel_set(device, kernel, 1, sizeof a, &a));
  CLADE_TRY(clade__queue_launch(queue, kernel, 1, &size, &size, (clade__wait){0}, NULL));
  CLADE_TRY(clade__queue_read(queue, buffer, 0, got, sizeof got, true, (clade__wait){0}, NULL));
  return compare(got, a);
}

static clade_status probe(clade_device *device) {
  cl_program program = NULL;
  cl_kernel kernel = NULL;
  clade__buffer *buffer = NULL;
  clade_status status;
  CLADE_GOTO(clade__program_build(device, source, sizeof source - 1, "", &program, NULL));
  CLADE_GOTO(clade__kernel_new(device, program, "clade_probe", &kernel));
  CLADE_GOTO(clade__buffer_new(device, ITEMS * sizeof(int32_t), "the probe", &buffer));
  CLADE_GOTO(run(device, kernel, buffer));
fail:
  clade__buffer_release(buffer);
  clade__kernel_release(kernel);
  clade__program_release(program);
  return status;
}

clade_status clade__device_probe(clade_device *device) {
  CLADE_TRY(clade__device_check(device, "clade__device_probe"));
  clade__entry *entry = device->entry;
  if (entry && atomic_load(&entry->probed)) return CLADE_OK;
  const clade_device_info *info = &device->facts.info;
  if (!info->sources) return CLADE_FAIL(UNSUPPORTED, "device \"%s\" has no compiler: it cannot be probed", info->name);
  clade_status status = probe(device);
  if (status != CLADE_OK) return clade__fail_in(status, "the probe of device \"%s\"", info->name);
  if (entry) atomic_store(&entry->probed, true);
  return CLADE_OK;
}
