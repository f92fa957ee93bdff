/* A device whose array is simulated cycle by cycle: the emulated accelerator with fpga/rtl behind its queue. Seconds
 * are the simulated cycles at the clock of a routed design of the same array. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/compare/compare.h"

static const char prefix[] = "rtl:";

const char *compare_rtl_path(const char *spec) {
  return spec && !strncmp(spec, prefix, sizeof prefix - 1) ? spec + sizeof prefix - 1 : NULL;
}

/* The OpenCL layer appends a line for each launch to the file named by CLADE_RTL_LOG. */
static clade_status log_new(compare_side *side) {
  const char *place = getenv("TMPDIR");
  snprintf(side->log, sizeof side->log, "%s/clade-rtl-XXXXXX", place && *place ? place : "/tmp");
  int file = mkstemp(side->log);
  if (file < 0) {
    clade_status status = CLADE_FAIL(IO, "%s: cannot be created", side->log);
    *side->log = '\0';
    return status;
  }
  close(file);
  setenv("CLADE_RTL_LOG", side->log, 1);
  return CLADE_OK;
}

clade_status compare_rtl_open(compare_side *side) {
  const char *path = compare_rtl_path(side->spec), *layers = getenv("OPENCL_LAYERS");
  clade_status status = cycles_device_read(path, &side->model);
  side->simulated = true;
  side->evidence = COMPARE_SIMULATED;
  compare_label(side, prefix, path);
  if (status != CLADE_OK) return status;
  if (side->model.kind != CYCLES_ARRAY || side->model.fmax_mhz.source != CLADE__ROUTED)
    return CLADE_FAIL(UNSUPPORTED, "%s: a device of kind array whose fmax_mhz is routed is expected", path);
  if (!layers || !strstr(layers, "/libclade_emulated_rtl.so"))
    return CLADE_FAIL(NOT_FOUND,
                      "libclade_emulated_rtl.so is not beside the command: a build with -DCLADE_TESTS=ON and "
                      "Verilator makes it");
  side->bench.peak_flops = cycles_peak_gflops(&side->model) * 1e9;
  CLADE_TRY(log_new(side));
  CLADE_TRY(clade_device_find("emulated", &side->bench.device));
  side->bench.info.size = sizeof side->bench.info;
  return clade_device_get_info(side->bench.device, &side->bench.info);
}

void compare_rtl_close(compare_side *side) {
  if (*side->log) unlink(side->log);
}

void compare_rtl_mark(compare_side *side) {
  FILE *log = fopen(side->log, "r");
  side->log_at = 0;
  if (!log) return;
  if (!fseek(log, 0, SEEK_END)) side->log_at = ftell(log);
  fclose(log);
}

/* Sums the cycles. Fails unless exactly the products of the call were simulated. */
static clade_status read_log(const compare_side *side, const compare_demand *demand, FILE *log, long long *cycles) {
  long long batches, m, n, k, each;
  *cycles = 0;
  if (fseek(log, side->log_at, SEEK_SET)) return CLADE_FAIL(IO, "%s: cannot be read", side->log);
  for (size_t i = 0; i < demand->n; i++) {
    const cycles_work *w = &demand->work[i];
    if (fscanf(log, "array_i8 batches %lld m %lld n %lld k %lld cycles %lld\n", &batches, &m, &n, &k, &each) != 5)
      return CLADE_FAIL(UNSUPPORTED, "of %zu products %zu were simulated", demand->n, i);
    if (w->kind != CYCLES_GEMM || batches != w->gemm.batch || m != w->gemm.m || n != w->gemm.n || k != w->gemm.k)
      return CLADE_FAIL(INTERNAL, "product %zu is %lld x %lld x %lld in the simulation's log", i, m, n, k);
    *cycles += each;
  }
  return fgetc(log) == EOF ? CLADE_OK : CLADE_FAIL(INTERNAL, "more was simulated than the %zu products", demand->n);
}

clade_status compare_rtl_row(const compare_side *side, const compare_demand *demand, compare_row *row) {
  cycles_estimate e;
  long long cycles;
  FILE *log = fopen(side->log, "r");
  if (!log) return CLADE_FAIL(IO, "%s: cannot be read", side->log);
  clade_status status = read_log(side, demand, log, &cycles);
  fclose(log);
  CLADE_TRY(status);
  CLADE_TRY(cycles_of(&side->model, &(cycles_call){demand->work, demand->n, 0, 0}, &e));
  if (cycles != e.cycles)
    return CLADE_FAIL(UNSUPPORTED, "the simulation took %lld cycles, an array of %llu x %llu takes %lld: it is another",
                      cycles, (unsigned long long)side->model.rows, (unsigned long long)side->model.columns,
                      (long long)e.cycles);
  row->cycles = (double)cycles;
  row->p50 = row->low = row->high = row->least = row->most = row->compute =
      row->cycles / (side->model.fmax_mhz.value * 1e6);
  row->bound = cycles_bound_names[CYCLES_COMPUTE];
  return CLADE_OK;
}
