/* A device that is described by a file: its rows are estimates of the cycle model (docs/fpga.md). */
#include <math.h>

#include "cli/compare/cycles.h"

static clade_status open_side(compare_side *side, const char *path) {
  side->modeled = true;
  CLADE_TRY(compare_cycles_open(side, path));
  const cycles_device *d = &compare_cycles_of(side)->device;
  side->told = d->evidence;
  side->evidence = d->fmax_mhz.source == CLADE__ROUTED ? COMPARE_ROUTED : COMPARE_REPORT;
  side->bench.copy_bytes = d->bandwidth_gbs * 1e9;
  return CLADE_OK;
}

/* The model gives a range; p50 is its geometric mean. No call is measured. */
static void fill(const cycles_device *d, const cycles_estimate *e, compare_row *row) {
  row->low = row->least = e->low;
  row->high = row->most = e->high;
  row->p50 = sqrt(e->low * e->high);
  if (d->link_gbs > 0) row->transfer = e->transfer_seconds;
  row->compute = e->compute_seconds + e->memory_seconds;
  if (d->launch_seconds > 0) row->other = e->launch_seconds;
  if (d->programming_seconds > 0) row->programming = d->programming_seconds;
  row->cycles = (double)e->cycles;
  row->bound = cycles_bound_names[e->bound];
}

static clade_status row_of(const compare_side *side, const compare_work *work, const compare_demand *demand,
                           compare_row *row) {
  const cycles_device *d = &compare_cycles_of(side)->device;
  const compare_data data = compare_data_size(work);
  compare_list list;
  cycles_estimate e;
  double in = (double)data.elements * (double)d->element_bytes + (double)data.label_bytes;
  row->moved = in + (double)data.y_elements * (double)d->result_bytes;
  clade_status status = compare_list_of(demand->graph, &list);
  if (status == CLADE_OK) status = compare_estimate(side, &list, (int64_t)row->moved, &e);
  if (status == CLADE_OK) fill(d, &e, row);
  clade__free(list.work);
  return status;
}

const compare_kind compare_model = {
    .prefix = "model:", .open = open_side, .close = compare_cycles_close, .row = row_of};
