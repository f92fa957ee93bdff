/* A device that is described by a file: its rows are estimates of the cycle model (docs/fpga.md). */
#include <math.h>
#include <stdio.h>

#include "cli/compare/compare.h"

static const char prefix[] = "model:";

const char *compare_model_path(const char *spec) {
  return spec && !strncmp(spec, prefix, sizeof prefix - 1) ? spec + sizeof prefix - 1 : NULL;
}

void compare_label(compare_side *side, const char *kind, const char *path) {
  const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path, *end = strrchr(name, '.');
  snprintf(side->label, sizeof side->label, "%s%.*s", kind, (int)(end ? end - name : 40), name);
  side->spec = side->label;
}

clade_status compare_model_open(compare_side *side) {
  const char *path = compare_model_path(side->spec);
  clade_status status = cycles_device_read(path, &side->model);
  side->modeled = true;
  compare_label(side, prefix, path);
  if (status != CLADE_OK) return status;
  side->told = side->model.evidence;
  side->evidence = side->model.fmax_mhz.source == CLADE__ROUTED ? COMPARE_ROUTED : COMPARE_REPORT;
  side->bench.peak_flops = cycles_peak_gflops(&side->model) * 1e9;
  side->bench.copy_bytes = side->model.bandwidth_gbs * 1e9;
  return CLADE_OK;
}

/* The model gives a range; p50 is its geometric mean. No call is measured. */
clade_status compare_model_row(const compare_side *side, const compare_work *work, const compare_demand *demand,
                               compare_row *row) {
  const compare_data data = compare_data_size(work);
  cycles_estimate e;
  double in = (double)data.elements * (double)side->model.element_bytes + (double)data.label_bytes;
  row->moved = in + (double)data.y_elements * (double)side->model.result_bytes;
  CLADE_TRY(cycles_of(&side->model, &(cycles_call){demand->work, demand->n, (int64_t)row->moved, 0}, &e));
  row->low = row->least = e.low;
  row->high = row->most = e.high;
  row->p50 = sqrt(e.low * e.high);
  if (side->model.link_gbs > 0) row->transfer = e.transfer_seconds;
  row->compute = e.compute_seconds + e.memory_seconds;
  if (side->model.launch_seconds > 0) row->other = e.launch_seconds;
  if (side->model.programming_seconds > 0) row->programming = side->model.programming_seconds;
  row->cycles = (double)e.cycles;
  row->bound = cycles_bound_names[e.bound];
  return CLADE_OK;
}
