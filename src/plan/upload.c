/* Uploads inputs on a separate queue, so that those of the next execution arrive during the current one. */
#include "plan/run.h"

/* The queue is in order: the last event covers all. */
static clade_status upload(clade_run *run, clade__slot *slot, const clade__lane *lane, cl_event *uploaded) {
  const clade__cmd *cmds = lane->cmds[slot - run->slots];
  cl_event *times = run->profile ? slot->times + lane->first_time : NULL;
  size_t n = lane->n_feeds;
  while (n && slot->fed[cmds[n - 1].port].buffer) n--;
  for (size_t i = 0; i < n; i++) {
    const clade__cmd *cmd = &cmds[i];
    cl_event *event = i + 1 == n ? uploaded : times ? &times[i] : NULL;
    if (slot->fed[cmd->port].buffer) continue;
    CLADE_TRY(clade__queue_write(lane->uploads, cmd->as.move.to, cmd->as.move.to_at,
                                 clade__staging_data(slot->staging[cmd->port]), cmd->as.move.bytes, false,
                                 (clade__wait){0}, event));
  }
  if (!n) return CLADE_OK;
  if (times) clade__event_share(lane, *uploaded, &times[n - 1]);
  return clade__queue_flush(lane->uploads); /* another queue waits for it */
}

void clade__run_upload(clade_run *run, clade__slot *slot) {
  for (int l = 0; l < run->n_lanes && slot->status == CLADE_OK; l++) {
    clade_status status = upload(run, slot, &run->lanes[l], &slot->uploaded[l]);
    if (status == CLADE_OK) continue;
    clade__slot_fail(slot, status);
    (void)clade__queue_finish(run->lanes[l].uploads); /* commands may have been enqueued without an event */
  }
}
