/* A device whose array is simulated cycle by cycle: the emulated accelerator with fpga/rtl behind its queue. Seconds
 * are the simulated cycles at the clock of a routed design of the same array. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/compare/cycles.h"

/* The OpenCL layer appends a line for each launch to the file named by CLADE_RTL_LOG. */
static clade_status log_new(compare_cycles *own) {
  const char *place = getenv("TMPDIR");
  snprintf(own->log, sizeof own->log, "%s/clade-rtl-XXXXXX", place && *place ? place : "/tmp");
  int file = mkstemp(own->log);
  if (file < 0) {
    clade_status status = CLADE_FAIL(IO, "%s: cannot be created", own->log);
    *own->log = '\0';
    return status;
  }
  close(file);
  setenv("CLADE_RTL_LOG", own->log, 1);
  return CLADE_OK;
}

static clade_status open_side(compare_side *side, const char *path) {
  const char *layers = getenv("OPENCL_LAYERS");
  side->simulated = true;
  side->evidence = COMPARE_SIMULATED;
  CLADE_TRY(compare_cycles_open(side, path));
  compare_cycles *own = compare_cycles_of(side);
  if (own->device.kind != CYCLES_ARRAY || own->device.fmax_mhz.source != CLADE__ROUTED)
    return CLADE_FAIL(UNSUPPORTED, "%s: a device of kind array whose fmax_mhz is routed is expected", path);
  if (!layers || !strstr(layers, "/libclade_emulated_rtl.so"))
    return CLADE_FAIL(NOT_FOUND,
                      "libclade_emulated_rtl.so is not beside the command: a build with -DCLADE_TESTS=ON and "
                      "Verilator makes it");
  CLADE_TRY(log_new(own));
  CLADE_TRY(clade_device_find("emulated", &side->bench.device));
  side->bench.info.size = sizeof side->bench.info;
  return clade_device_get_info(side->bench.device, &side->bench.info);
}

static void close_side(compare_side *side) {
  const compare_cycles *own = compare_cycles_of(side);
  if (own && *own->log) unlink(own->log);
  compare_cycles_close(side);
}

static void mark(compare_side *side) {
  compare_cycles *own = compare_cycles_of(side);
  FILE *log = fopen(own->log, "r");
  own->log_at = 0;
  if (!log) return;
  if (!fseek(log, 0, SEEK_END)) own->log_at = ftell(log);
  fclose(log);
}

/* Sums the cycles. Fails unless exactly the products of the call were simulated. */
static clade_status read_lines(const compare_cycles *own, const compare_list *list, FILE *log, long long *cycles) {
  long long batches, m, n, k, each;
  *cycles = 0;
  if (fseek(log, own->log_at, SEEK_SET)) return CLADE_FAIL(IO, "%s: cannot be read", own->log);
  for (size_t i = 0; i < list->n; i++) {
    const cycles_work *w = &list->work[i];
    if (fscanf(log, "array_i8 batches %lld m %lld n %lld k %lld cycles %lld\n", &batches, &m, &n, &k, &each) != 5)
      return CLADE_FAIL(UNSUPPORTED, "of %zu products %zu were simulated", list->n, i);
    if (w->kind != CYCLES_GEMM || batches != w->gemm.batch || m != w->gemm.m || n != w->gemm.n || k != w->gemm.k)
      return CLADE_FAIL(INTERNAL, "product %zu is %lld x %lld x %lld in the simulation's log", i, m, n, k);
    *cycles += each;
  }
  return fgetc(log) == EOF ? CLADE_OK : CLADE_FAIL(INTERNAL, "more was simulated than the %zu products", list->n);
}

static clade_status read_log(const compare_cycles *own, const compare_list *list, long long *cycles) {
  FILE *log = fopen(own->log, "r");
  if (!log) return CLADE_FAIL(IO, "%s: cannot be read", own->log);
  clade_status status = read_lines(own, list, log, cycles);
  fclose(log);
  return status;
}

static clade_status fill(const compare_side *side, const compare_list *list, compare_row *row) {
  const cycles_device *d = &compare_cycles_of(side)->device;
  cycles_estimate e;
  long long cycles = 0;
  CLADE_TRY(read_log(compare_cycles_of(side), list, &cycles));
  CLADE_TRY(compare_estimate(side, list, 0, &e));
  if (cycles != e.cycles)
    return CLADE_FAIL(UNSUPPORTED, "the simulation took %lld cycles, an array of %llu x %llu takes %lld: it is another",
                      cycles, (unsigned long long)d->rows, (unsigned long long)d->columns, (long long)e.cycles);
  row->cycles = (double)cycles;
  row->p50 = row->low = row->high = row->least = row->most = row->compute = row->cycles / (d->fmax_mhz.value * 1e6);
  row->bound = cycles_bound_names[CYCLES_COMPUTE];
  return CLADE_OK;
}

static clade_status row_of(const compare_side *side, const compare_work *work, const compare_demand *demand,
                           compare_row *row) {
  (void)work;
  compare_list list;
  clade_status status = compare_list_of(demand->graph, &list);
  if (status == CLADE_OK) status = fill(side, &list, row);
  clade__free(list.work);
  return status;
}

const compare_kind compare_rtl = {
    .prefix = "rtl:", .open = open_side, .close = close_side, .mark = mark, .row = row_of};
