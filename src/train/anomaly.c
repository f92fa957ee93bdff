/* A loss that is not finite, and the value that was the first to be so. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "train/room.h"

/* "watch:NUMBER:OP:NAME" */
static clade_status blame(const clade__training *tr, const char *port) {
  char op[96] = "", name[192] = "";
  unsigned number = 0;
  sscanf(port, "watch:%u:%95[^:]:%191s", &number, op, name);
  bool forward = number < tr->backward;
  return CLADE_FAIL(NOT_FINITE,
                    "step %" PRId64 ": the first value that is not finite was made by %s%s%s (value %u, %s)", tr->at,
                    op, *name ? " of " : "", name, number, forward ? "forward" : "backward or update");
}

static clade_status find_first(clade__training *tr) {
  clade_port_info port = {.size = sizeof port};
  clade_func_info info = {.size = sizeof info};
  CLADE_TRY(clade_func_get_info(tr->step_func, &info));
  for (int i = 0; i < info.outputs; i++) {
    float trouble;
    CLADE_TRY(clade_func_output(tr->step_func, i, &port));
    if (strncmp(port.name, "watch:", 6)) continue;
    CLADE_TRY(clade_read(tr->step_run, tr->pending, port.name, &trouble, sizeof trouble));
    if (isnan(trouble)) return blame(tr, port.name);
  }
  return CLADE_OK;
}

clade_status clade__train_check(clade__training *tr, float loss) {
  float trouble = 0;
  if (tr->t.detect_anomaly) CLADE_TRY(clade_read(tr->step_run, tr->pending, "watch", &trouble, sizeof trouble));
  if (isnan(trouble)) CLADE_TRY(find_first(tr));
  if (isfinite(loss)) return CLADE_OK;
  return CLADE_FAIL(NOT_FINITE,
                    "step %" PRId64 ": the loss is %g; a smaller learning rate or clipping may help, and detecting "
                    "anomalies finds where it began",
                    tr->at, (double)loss);
}
