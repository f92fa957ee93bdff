/* Validation of matrix units: the hardware has it, the operating system allows it, and a probe kernel computes
 * correctly on the device. */
#include "cl/internal.h"

#include <stdio.h>

bool clade__units_imitated;
unsigned clade__units_assumed;

static bool assumed(const clade__unit_row *row) {
  for (int i = 0; i < CLADE_UNITS; i++)
    if (row == &clade__unit_rows[i]) return clade__units_assumed >> i & 1;
  return false;
}

/* Bytes of any value, or bf16 integers from -8 to 8, whose sums of products are exact in f32. */
static void fill(const clade__unit_row *row, uint32_t *in) {
  uint32_t x = 12345;
  for (int i = 0; i < CLADE__UNIT_WORDS; i++) {
    uint32_t half[2];
    for (int h = 0; h < 2; h++) {
      x = x * 1664525u + 1013904223u;
      float number = (float)(int)(x >> 16) / 4096 - 8;
      number = (float)(int)number;
      memcpy(&half[h], &number, sizeof number);
      half[h] = row->floats ? half[h] >> 16 : x >> 16;
    }
    in[i] = half[1] << 16 | half[0];
  }
}

static clade_status launch(clade_device *device, cl_kernel kernel, const size_t *items, clade__buffer *in,
                           clade__buffer *out) {
  cl_mem memory[] = {clade__buffer_mem(in), clade__buffer_mem(out)};
  clade__queue *queue;
  CLADE_TRY(clade__transfer(device, &queue));
  for (cl_uint i = 0; i < 2; i++) CLADE_TRY(clade__kernel_set(device, kernel, i, sizeof(cl_mem), &memory[i]));
  return clade__queue_launch(queue, kernel, 1, items, items, (clade__wait){0}, NULL);
}

static clade_status compute(clade_device *device, const clade__unit_row *row, const uint32_t *words, uint32_t *got) {
  const size_t bytes = CLADE__UNIT_WORDS * sizeof *words;
  cl_program program = NULL;
  cl_kernel kernel = NULL;
  clade__buffer *in = NULL, *out = NULL;
  clade__queue *queue;
  clade_status status;
  CLADE_GOTO(clade__transfer(device, &queue));
  CLADE_GOTO(clade__program_build(device, row->source, strlen(row->source), "", &program, NULL));
  CLADE_GOTO(clade__kernel_new(device, program, "clade_unit", &kernel));
  CLADE_GOTO(clade__buffer_new(device, bytes, "the probe of a unit", &in));
  CLADE_GOTO(clade__buffer_new(device, bytes, "the probe of a unit", &out));
  CLADE_GOTO(clade__queue_write(queue, in, 0, words, bytes, true, (clade__wait){0}, NULL));
  CLADE_GOTO(launch(device, kernel, &row->items, in, out));
  CLADE_GOTO(clade__queue_read(queue, out, 0, got, (size_t)row->n_out * sizeof *got, true, (clade__wait){0}, NULL));
fail:
  clade__buffer_release(in);
  clade__buffer_release(out);
  clade__kernel_release(kernel);
  clade__program_release(program);
  return status;
}

clade__hash clade__unit_hash(const clade__unit_row *row) {
  clade__hash hash = clade__hash_bytes("unit", 4);
  hash = clade__hash_more_text(hash, clade_version());
  hash = clade__hash_more_text(hash, row->name);
  return clade__hash_more_text(hash, row->source);
}

clade__unit_answer clade__unit_permit(const clade__unit_row *row, char *why, size_t bytes) {
  return !row->permit || assumed(row) || row->permit(why, bytes) ? CLADE__UNIT_YES : CLADE__UNIT_UNKNOWN;
}

clade__unit_answer clade__unit_probe(clade_device *device, const clade__unit_row *row, char *why, size_t bytes) {
  uint32_t in[CLADE__UNIT_WORDS], want[CLADE__UNIT_WORDS] = {0}, got[CLADE__UNIT_WORDS] = {0};
  clade__unit_answer permitted = clade__unit_permit(row, why, bytes);
  if (permitted != CLADE__UNIT_YES) return permitted;
  fill(row, in);
  row->want(in, want);
  clade_status status = compute(device, row, in, got);
  if (status != CLADE_OK) {
    snprintf(why, bytes, "the probe kernel failed: %s", clade_last_error());
    return status == CLADE_NO_MEMORY || status == CLADE_DEVICE_MEMORY ? CLADE__UNIT_UNKNOWN : CLADE__UNIT_NO;
  }
  if (memcmp(got, want, (size_t)row->n_out * sizeof *got) == 0) return CLADE__UNIT_YES;
  snprintf(why, bytes, "the probe kernel gave a wrong answer");
  return CLADE__UNIT_NO;
}

bool clade__unit_pass(clade_device *device, const clade__unit_row *row, clade__unit_prober *prober, char *why,
                      size_t bytes) {
  const clade_device_info *info = &device->facts.info;
  const char *reason = NULL;
  if (!info->sources) reason = "the device has no compiler";
  if (info->vector_f32 < row->lanes && !assumed(row)) reason = "the device's vectors are too short";
  if (clade__quirk_has(device, CLADE__QUIRK_NO_ASM)) reason = "inline assembly ends the process there";
  if (info->device_class != row->on) reason = "devices of this class do not have it";
  if (reason) snprintf(why, bytes, "%s", reason);
  /* missing hardware is reported before other reasons */
  char lack[256];
  if (!assumed(row) && !row->there(&device->facts, lack, sizeof lack)) {
    snprintf(why, bytes, "%s", lack);
    return false;
  }
  return !reason && prober(device, row, why, bytes) == CLADE__UNIT_YES;
}

/* ---- recorded results ---- */
static clade_status refused(clade_unit_info *unit, const char *why) {
  char text[640];
  snprintf(text, sizeof text, "%s: %s", unit->name, why);
  return clade__intern(text, &unit->reason);
}

clade_status clade__units_name(clade_device_info *info) {
  for (int i = 0; i < CLADE_UNITS; i++) {
    if (info->device_class != clade__unit_rows[i].on && !clade__units_imitated) continue;
    info->unit[i] = (clade_unit_info){.name = clade__unit_rows[i].name};
    CLADE_TRY(refused(&info->unit[i], "not probed yet"));
  }
  return CLADE_OK;
}

static clade_status ask(clade_device *device, clade__unit_prober *prober, clade_device_info *info) {
  char why[512];
  *info = device->facts.info;
  for (int i = 0; i < CLADE_UNITS; i++) {
    clade_unit_info *unit = &info->unit[i];
    if (!unit->name) continue;
    unit->used = clade__unit_pass(device, &clade__unit_rows[i], prober, why, sizeof why);
    unit->reason = NULL;
    if (unit->used) continue;
    CLADE_TRY(refused(unit, why));
    unit->used = clade__units_imitated;
  }
  return CLADE_OK;
}

void clade__device_set_kernels(clade_device *device, const char *const *kernels, const uint32_t *programs,
                               const char *bundles, const clade_array_info *array, const char *evidence) {
  pthread_mutex_lock(&device->unit_lock);
  if (atomic_load(&device->info) != &device->proven) device->proven = device->facts.info;
  device->proven.array = *array;
  device->proven.programs = programs;
  device->proven.bundles = bundles;
  device->proven.evidence = evidence;
  __atomic_store_n(&device->proven.kernels, kernels, __ATOMIC_RELEASE);
  atomic_store_explicit(&device->info, &device->proven, memory_order_release);
  pthread_mutex_unlock(&device->unit_lock);
}

clade_status clade__device_ask_units(clade_device *device, clade__unit_prober *prober) {
  CLADE_TRY(clade__device_check(device, "clade_device_ask_units"));
  clade_status status = CLADE_OK;
  pthread_mutex_lock(&device->unit_lock);
  if (atomic_load(&device->info) != &device->proven) {
    status = ask(device, prober, &device->proven);
    if (status == CLADE_OK) atomic_store_explicit(&device->info, &device->proven, memory_order_release);
  }
  pthread_mutex_unlock(&device->unit_lock);
  return status;
}
