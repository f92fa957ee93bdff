/* Refuses a loss that is not finite and finds its cause. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "train/internal.h"

/* Describes the value of an output named "watch:NUMBER:OP:NAME". */
static clade_status blame(const clade__training *tr, const char *port) {
  char op[96] = "", name[192] = "";
  unsigned number = 0;
  sscanf(port, "watch:%u:%95[^:]:%191s", &number, op, name);
  const char *pass = !tr->backward ? "" : number < tr->backward ? ", forward" : ", backward or update";
  return CLADE_FAIL(NOT_FINITE, "step %" PRId64 ": the first value that is not finite was made by %s%s%s (value %u%s)",
                    tr->at, op, *name ? " of " : "", name, number, pass);
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

clade_status clade__train_check_images(const clade__training *tr, const clade_batch *batch, const char *part) {
  for (size_t i = 0; i < (size_t)batch->n * tr->sample; i++)
    if (!isfinite(batch->x[i])) {
      const char *spec = tr->data.spec ? tr->data.spec : tr->data.name;
      return CLADE_FAIL(NOT_FINITE,
                        "step %" PRId64 ": the %s images of %s are not finite: element %zu of image %" PRId64 " is %g",
                        tr->at, part, spec, i % tr->sample, batch->samples[i / tr->sample], (double)batch->x[i]);
    }
  return CLADE_OK;
}

/* Recreates the batch of the step: the loader is ahead. */
static clade_status check_step_images(clade__training *tr) {
  clade_batch batch = {.size = sizeof batch};
  int64_t step = tr->at - 1;
  if (!tr->loader) return CLADE_OK; /* other ranks read the images */
  CLADE_TRY(clade_loader_seek(tr->loader, step / tr->epoch_steps, step % tr->epoch_steps));
  CLADE_TRY(clade_loader_next(tr->loader, &batch));
  return clade__train_check_images(tr, &batch, "training");
}

/* Whether loss scaling explains the value: a skipped step may have any gradients, and while the scale falls the loss
 * may be infinite as well; below scale 1 scaling is no excuse. */
static bool is_scaling(const clade__training *tr, float loss) {
  return tr->skips && (isfinite(loss) || tr->loss_scale >= 1);
}

clade_status clade__train_check(clade__training *tr, float loss) {
  float trouble = 0;
  if (is_scaling(tr, loss)) return CLADE_OK;
  if (tr->t.detect_anomaly) CLADE_TRY(clade_read(tr->step_run, tr->pending, "watch", &trouble, sizeof trouble));
  if (isnan(trouble) || !isfinite(loss)) CLADE_TRY(check_step_images(tr));
  if (isnan(trouble)) CLADE_TRY(find_first(tr));
  if (isfinite(loss)) return CLADE_OK;
  if (tr->local) CLADE_TRY(clade_comm_barrier(tr->t.comm)); /* all ranks have this loss; one knows why */
  return CLADE_FAIL(NOT_FINITE,
                    "step %" PRId64 ": the loss is %g; a smaller learning rate or clipping may help, and detecting "
                    "anomalies finds where it began",
                    tr->at, (double)loss);
}
