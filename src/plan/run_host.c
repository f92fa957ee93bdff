/* Host steps of a run's executions: inputs are transferred to the host, the work is begun and polled, and outputs
 * are transferred back. A copy between devices is a host step whose output is its input. All functions need
 * run->lock. */
#include "plan/run.h"

static const clade__fstep *step_of(const clade_run *run, size_t host) {
  return &run->func->steps[run->func->hosts[host]];
}

static bool is_effect(const clade_run *run, const clade__fstep *step) {
  return step->launch && run->func->graph->nodes[step->node].op->flags & CLADE_OP_EFFECT;
}

/* ---- memory ---- */
static clade_status hosted_new(clade_run *run, const clade__fstep *step, clade__hosted *h) {
  size_t n = (size_t)step->n_operands;
  h->parcels = clade__new(n, sizeof *h->parcels);
  h->data = clade__new(n, sizeof *h->data);
  h->bytes = clade__new(n, sizeof *h->bytes);
  if (!h->parcels || !h->data || !h->bytes) return CLADE_NO_MEMORY;
  for (size_t i = 0; i < n; i++) {
    const clade__operand *o = &step->operand[i];
    clade_device *device = run->func->devices[o->read ? step->source_device : step->device];
    h->bytes[i] = o->place.bytes;
    if (!step->launch && i) { /* a copy shares its buffer */
      h->data[i] = h->data[0];
      continue;
    }
    CLADE_TRY(clade__staging_new(device, CLADE_MAX(h->bytes[i], (size_t)1), &h->parcels[i]));
    h->data[i] = clade__staging_data(h->parcels[i]);
  }
  if (!step->launch) return CLADE_OK;
  h->call = (clade_host_call){.size = sizeof h->call,
                              .work = step->launch->work,
                              .state = step->state,
                              .n = step->n_operands,
                              .data = h->data,
                              .bytes = h->bytes};
  return CLADE_OK;
}

clade_status clade__hosts_new(clade_run *run, clade__slot *slot) {
  slot->hosts = clade__new(run->func->n_hosts, sizeof *slot->hosts);
  if (!slot->hosts) return CLADE_NO_MEMORY;
  for (size_t i = 0; i < run->func->n_hosts; i++) CLADE_TRY(hosted_new(run, step_of(run, i), &slot->hosts[i]));
  return CLADE_OK;
}

void clade__hosts_free(const clade_run *run, clade__slot *slot) {
  for (size_t i = 0; slot->hosts && i < run->func->n_hosts; i++) {
    clade__hosted *h = &slot->hosts[i];
    for (int k = 0; h->parcels && k < step_of(run, i)->n_operands; k++) clade__staging_free(h->parcels[k]);
    clade__event_release(h->sent);
    clade__event_release(h->idle);
    clade__free(h->parcels);
    clade__free(h->data);
    clade__free(h->bytes);
  }
  clade__free(slot->hosts);
}

void clade__hosts_reset(const clade_run *run, clade__slot *slot) {
  for (size_t i = 0; i < run->func->n_hosts; i++) {
    clade__hosted *h = &slot->hosts[i];
    clade__event_release(h->sent);
    clade__event_release(h->idle);
    h->sent = h->idle = NULL;
    h->idle_since = 0;
    h->stage = CLADE__HOST_IDLE;
  }
}

/* ---- commands of a lane ---- */
static const clade__wait none;

clade_status clade__host_send(clade_run *run, const clade__lane *lane, clade__slot *slot, const clade__cmd *cmd,
                              clade__wait wait, cl_event *event) {
  const clade__fstep *step = &run->func->steps[cmd->step];
  clade__hosted *h = &slot->hosts[cmd->port];
  for (int i = 0; i < step->n_operands; i++) {
    const clade__place *from = &step->operand[i].place;
    if (!step->operand[i].read || !from->bytes) continue;
    clade__event_release(h->sent); /* the queue is in order: the last event covers all */
    h->sent = NULL;
    CLADE_TRY(clade__queue_read(lane->queue, clade__run_buffer(run, (int)(slot - run->slots), from),
                                clade__run_offset(run, from), h->data[i], from->bytes, false, wait, &h->sent));
    wait = none;
  }
  if (h->sent) {
    clade__event_share(lane, h->sent, event);
    CLADE_TRY(clade__lane_flush(lane)); /* another queue or the host waits for it */
    clade__progress_watch(run, lane->device, h->sent);
  } else if (wait.n) {
    CLADE_TRY(clade__queue_marker(lane->queue, wait, NULL));
  }
  h->stage = CLADE__HOST_SENT;
  return CLADE_OK;
}

/* Records when the lane's device becomes idle, for host steps with `waited`. */
static clade_status watch_idle(clade_run *run, const clade__lane *lane, const clade__fstep *step, clade__hosted *h) {
  if (h->idle || !step->launch || !step->launch->host->waited) return CLADE_OK;
  CLADE_TRY(clade__queue_marker(lane->queue, none, &h->idle));
  CLADE_TRY(clade__lane_flush(lane));
  clade__progress_watch(run, lane->device, h->idle);
  return CLADE_OK;
}

static void tell_waited(const clade__fstep *step, clade__hosted *h) {
  if (!step->launch || !step->launch->host->waited) return;
  step->launch->host->waited(step->state, h->idle_since > 0 ? clade__now() - h->idle_since : 0);
}

void clade__host_unwatch(const clade_run *run, clade__slot *slot, const clade__cmd *cmd) {
  clade__hosted *h = &slot->hosts[cmd->port];
  if (!h->idle) return;
  tell_waited(&run->func->steps[cmd->step], h);
  clade__event_release(h->idle);
  h->idle = NULL;
  h->idle_since = 0;
}

static clade_status look_at_idle(const clade__lane *lane, clade__hosted *h) {
  int idle = 0;
  if (!h->idle || h->idle_since > 0) return CLADE_OK;
  CLADE_TRY(clade__event_poll(lane->device, h->idle, &idle));
  if (idle) h->idle_since = clade__now();
  return CLADE_OK;
}

clade_status clade__host_receive(clade_run *run, const clade__lane *lane, clade__slot *slot, const clade__cmd *cmd,
                                 clade__wait wait, cl_event *event, bool *again) {
  const clade__fstep *step = &run->func->steps[cmd->step];
  clade__hosted *h = &slot->hosts[cmd->port];
  *again = h->stage != CLADE__HOST_ENDED;
  if (*again) {
    CLADE_TRY(watch_idle(run, lane, step, h));
    return look_at_idle(lane, h);
  }
  tell_waited(step, h);
  int last = step->n_operands - 1;
  while (last >= 0 && !(step->operand[last].write && h->bytes[last])) last--;
  for (int i = 0; i <= last; i++) {
    const clade__place *to = &step->operand[i].place;
    if (!step->operand[i].write || !to->bytes) continue;
    CLADE_TRY(clade__queue_write(lane->queue, clade__run_buffer(run, (int)(slot - run->slots), to),
                                 clade__run_offset(run, to), h->data[i], to->bytes, false, wait,
                                 i == last ? event : NULL));
    wait = none;
  }
  return last < 0 && wait.n ? clade__queue_marker(lane->queue, wait, NULL) : CLADE_OK;
}

/* ---- progress ---- */
static clade_status outcome(const clade__fstep *step, clade_status status, unsigned failures) {
  if (status == CLADE_OK || clade__failures() != failures) return status;
  return clade_fail(status, "host step %s: %s", step->launch->kernel, clade_status_text(status));
}

static clade_status begin(clade_run *run, const clade__fstep *step, clade__hosted *h) {
  h->stage = CLADE__HOST_ENDED;
  h->begun = h->ended = clade__now();
  if (!step->launch) return CLADE_OK;
  h->call.wake = clade__progress_call;
  h->call.waker = run->waker;
  h->pending = NULL;
  unsigned failures = clade__failures();
  CLADE_TRY(outcome(step, step->launch->host->begin(&h->call, &h->pending), failures));
  if (step->launch->host->poll) h->stage = CLADE__HOST_BEGUN;
  return CLADE_OK;
}

static clade_status poll(const clade__fstep *step, clade__hosted *h) {
  clade_host_state state = CLADE_HOST_AGAIN;
  unsigned failures = clade__failures();
  clade_status status = step->launch->host->poll(h->pending, &state);
  if (status != CLADE_OK || state == CLADE_HOST_DONE) h->stage = CLADE__HOST_ENDED;
  h->ended = clade__now();
  return outcome(step, status, failures);
}

/* `open`: all earlier effects have begun. */
static clade_status advance(clade_run *run, clade__slot *slot, size_t host, bool open) {
  const clade__fstep *step = step_of(run, host);
  clade__hosted *h = &slot->hosts[host];
  int sent = 1;
  if (h->stage == CLADE__HOST_SENT) {
    if (h->sent) CLADE_TRY(clade__event_poll(run->lanes[step->source_device].device, h->sent, &sent));
    if (sent && (open || !is_effect(run, step))) CLADE_TRY(begin(run, step, h));
  }
  return h->stage == CLADE__HOST_BEGUN ? poll(step, h) : CLADE_OK;
}

void clade__hosts_cancel(const clade_run *run, clade__slot *slot) {
  for (size_t i = 0; i < run->func->n_hosts; i++) {
    const clade_kernel_step *launch = step_of(run, i)->launch;
    if (slot->hosts[i].stage == CLADE__HOST_BEGUN && launch->host->cancel) launch->host->cancel(slot->hosts[i].pending);
    slot->hosts[i].stage = CLADE__HOST_IDLE;
  }
}

bool clade__hosts_advance(clade_run *run) {
  bool moved = false, open = true;
  for (uint64_t e = clade__oldest_execution(run); run->func->n_hosts && e <= run->submitted; e++) {
    clade__slot *slot = clade__slot_of(run, e);
    if (!slot->busy || slot->execution != e || !slot->lanes_left) continue;
    for (size_t i = 0; i < run->func->n_hosts && slot->status == CLADE_OK; i++) {
      clade__host_stage before = slot->hosts[i].stage;
      clade_status status = advance(run, slot, i, open);
      if (status != CLADE_OK) clade__slot_fail(slot, status);
      moved |= slot->hosts[i].stage != before;
      open &= !is_effect(run, step_of(run, i)) || slot->hosts[i].stage >= CLADE__HOST_BEGUN;
    }
    if (slot->status != CLADE_OK) clade__hosts_cancel(run, slot);
  }
  return moved;
}

bool clade__hosts_wait(const clade_run *run, const clade__slot *slot) {
  for (size_t i = 0; i < run->func->n_hosts; i++) {
    clade__host_stage stage = slot->hosts[i].stage;
    if (step_of(run, i)->launch && (stage == CLADE__HOST_SENT || stage == CLADE__HOST_BEGUN)) return true;
  }
  return false;
}

long clade__hosts_poll_ns(const clade_run *run, long most) {
  enum { UNSET_US = 100 };
  for (int s = 0; s < run->n_slots; s++)
    for (size_t i = 0; i < run->func->n_hosts && run->slots[s].busy; i++) {
      if (run->slots[s].hosts[i].stage != CLADE__HOST_BEGUN) continue;
      int us = step_of(run, i)->launch->host->poll_us;
      most = CLADE_MIN(most, 1000L * (us > 0 ? us : UNSET_US));
    }
  return most;
}
