/* Energy from hardware counters: processor packages by RAPL, NVIDIA GPUs by NVML. */
#include <math.h>
#include <stdio.h>

#include "cli/compare/compare.h"

/* ---- RAPL: files in /sys, on most systems readable by root only ---- */
enum { MOST_PACKAGES = 16 };

static bool number_of(int package, const char *file, double *out) {
  char path[96];
  snprintf(path, sizeof path, "/sys/class/powercap/intel-rapl:%d/%s", package, file);
  FILE *f = fopen(path, "r");
  if (!f) return false;
  bool read = fscanf(f, "%lf", out) == 1;
  fclose(f);
  return read;
}

static bool rapl(compare_meter *m) {
  double all = 0, one;
  int n = 0;
  while (n < MOST_PACKAGES && number_of(n, "energy_uj", &one)) n++, all += one;
  m->joules = all * 1e-6;
  return n > 0;
}

/* ---- NVML ---- */
static struct {
  int (*init)(void);
  int (*count)(unsigned *count);
  int (*device)(unsigned index, void **device);
  int (*name)(void *device, char *name, unsigned size);
  int (*energy)(void *device, unsigned long long *millijoules);
} nvml;
static const clade__symbol symbols[] = {{"nvmlInit_v2", &nvml.init},
                                        {"nvmlDeviceGetCount_v2", &nvml.count},
                                        {"nvmlDeviceGetHandleByIndex_v2", &nvml.device},
                                        {"nvmlDeviceGetName", &nvml.name},
                                        {"nvmlDeviceGetTotalEnergyConsumption", &nvml.energy}};

/* Finds the device by its name. Two devices of the same name are ambiguous: OpenCL does not tell which one it uses. */
static bool nvml_find(compare_meter *m, const char *name) {
  char why[200], found[128];
  unsigned n = 0;
  int same = 0;
  void *device;
  if (clade__symbols_open("libnvidia-ml.so.1", CLADE_COUNT(symbols), symbols, why, sizeof why)) return false;
  if (nvml.init() || nvml.count(&n)) return false;
  for (unsigned i = 0; i < n; i++)
    if (!nvml.device(i, &device) && !nvml.name(device, found, sizeof found) && !strcmp(found, name)) {
      m->device = device;
      same++;
    }
  return same == 1;
}

static bool nvml_read(compare_meter *m) {
  unsigned long long millijoules;
  if (nvml.energy(m->device, &millijoules)) return false;
  m->joules = 1e-3 * (double)millijoules;
  return true;
}

/* ---- either ---- */
bool compare_meter_read(compare_meter *m) { return m->device ? nvml_read(m) : rapl(m); }

void compare_meter_open(compare_meter *m, const clade_device_info *info) {
  *m = (compare_meter){0};
  if (info->software) return;
  if (info->device_class == CLADE_CPU && rapl(m)) m->by = "rapl";
  if (info->device_class == CLADE_GPU && nvml_find(m, info->name) && nvml_read(m)) m->by = "nvml";
}
