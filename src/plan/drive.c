/* Enqueues commands. Each lane processes executions in order and stops only at a host step that has not finished.
 * Nothing here blocks, allocates or sets kernel arguments, except after failures. */
#include <stdio.h>

#include "plan/run.h"

static const clade__wait none;

void clade__slot_fail(clade__slot *slot, clade_status status) {
  if (slot->status != CLADE_OK) return;
  slot->status = status;
  snprintf(slot->message, sizeof slot->message, "%s", clade_last_error());
}

/* The event that precedes reads of the slot's inputs. */
static clade__wait uploads(const clade_run *run, const clade__lane *lane, const clade__slot *slot) {
  const cl_event *event = &slot->uploaded[lane - run->lanes];
  return *event ? (clade__wait){1, event} : none;
}

static clade_status feed(const clade__lane *lane, const clade__slot *slot, const clade__cmd *cmd, cl_event *event) {
  const clade__fed *fed = &slot->fed[cmd->port];
  if (!fed->buffer) return CLADE_OK;
  return clade__queue_copy(lane->queue, fed->buffer, fed->offset, cmd->as.move.to, cmd->as.move.to_at,
                           cmd->as.move.bytes, none, event);
}

void clade__event_share(const clade__lane *lane, cl_event event, cl_event *also) {
  if (!also) return;
  if (clade__event_retain(lane->device, event) == CLADE_OK)
    *also = event;
  else
    clade__log(CLADE_LOG_WARNING, "an event is not shared: %s", clade_last_error());
}

/* Operands are resolved for each call, because packed copies may have moved. */
static clade_status leave_to_library(clade_run *run, const clade__lane *lane, const clade__slot *slot,
                                     const clade__cmd *cmd, clade__wait wait, cl_event *event) {
  const clade__fstep *step = &run->func->steps[cmd->step];
  cl_mem memory[CLADE_MAX_LIBRARY_OPERANDS];
  size_t offset[CLADE_MAX_LIBRARY_OPERANDS];
  for (int i = 0; i < step->n_operands; i++) {
    const clade__place *place = &step->operand[i].place;
    memory[i] = clade__buffer_mem(clade__run_buffer(run, (int)(slot - run->slots), place));
    offset[i] = clade__run_offset(run, place) + step->launch->args[i].at;
  }
  clade_library_call call = {.size = sizeof call,
                             .work = step->launch->work,
                             .state = step->state,
                             .device = lane->device,
                             .queue = clade__queue_handle(lane->queue),
                             .n = step->n_operands,
                             .memory = memory,
                             .offset = offset,
                             .event = event};
  /* a marker delays the following commands on an in-order queue */
  if (wait.n) CLADE_TRY(clade__queue_marker(lane->queue, wait, NULL));
  unsigned failures = clade__failures();
  clade_status status = step->launch->library->enqueue(&call);
  if (status != CLADE_OK && clade__failures() == failures)
    return clade_fail(status, "%s: %s", step->launch->kernel, clade_status_text(status));
  return status == CLADE_OK && event && !*event ? clade__queue_marker(lane->queue, none, event) : status;
}

static clade_status perform(clade_run *run, clade__lane *lane, clade__slot *slot, size_t i, cl_event *event,
                            bool *again) {
  const clade__cmd *cmd = &lane->cmds[slot - run->slots][i];
  clade__wait wait;
  CLADE_TRY(clade__lane_wait(lane, i, uploads(run, lane, slot), &wait));
  switch (cmd->kind) {
  case CLADE__CMD_LAUNCH:
    return clade__queue_launch(clade__lane_queue(lane, i), cmd->as.launch.kernel, cmd->dims, cmd->as.launch.global,
                               cmd->as.launch.local, wait, event);
  case CLADE__CMD_LIBRARY: return leave_to_library(run, lane, slot, cmd, wait, event);
  case CLADE__CMD_COPY:
    return clade__queue_copy(lane->queue, cmd->as.move.from, cmd->as.move.from_at, cmd->as.move.to, cmd->as.move.to_at,
                             cmd->as.move.bytes, wait, event);
  case CLADE__CMD_FEED: return feed(lane, slot, cmd, event);
  case CLADE__CMD_SEND: return clade__host_send(run, lane, slot, cmd, wait, event);
  case CLADE__CMD_RECEIVE: return clade__host_receive(run, lane, slot, cmd, wait, event, again);
  }
  return CLADE_OK;
}

static clade_status command(clade_run *run, clade__lane *lane, clade__slot *slot, size_t i, bool *again) {
  cl_event *times = run->profile ? slot->times + lane->first_time : NULL;
  cl_event *done = i + 1 == lane->n_cmds && i >= lane->n_feeds ? &slot->done[lane - run->lanes] : NULL;
  cl_event *mark = lane->spread ? clade__lane_mark(lane, i) : done;
  CLADE_TRY(perform(run, lane, slot, i, times ? &times[i] : mark, again));
  if (times && times[i]) clade__event_share(lane, times[i], mark);
  return CLADE_OK;
}

/* Finishes the execution on this lane: `done` covers everything that was enqueued for it. */
static void leave(clade_run *run, clade__lane *lane, clade__slot *slot) {
  cl_event *done = &slot->done[lane - run->lanes];
  clade_status status = CLADE_OK;
  if (slot->status != CLADE_OK) clade__hosts_cancel(run, slot);
  if (lane->spread)
    status = clade__lane_join(lane, uploads(run, lane, slot), done);
  else if (!*done && lane->n_cmds)
    status = clade__queue_marker(lane->queue, uploads(run, lane, slot), done);
  if (!*done && !lane->n_cmds && run->wait.n) status = clade__queue_marker(lane->queue, run->wait, done);
  if (status == CLADE_OK) status = clade__lane_flush(lane);
  if (status != CLADE_OK) {
    clade__slot_fail(slot, status);
    clade__lane_finish(lane);
    /* without a marker, only finishing the queue shows that the slot's memory is free */
    if (!*done && lane->uploads) (void)clade__queue_finish(lane->uploads);
    if (!*done && !run->adopted) (void)clade__queue_finish(lane->queue);
  }
  if (--slot->lanes_left == 0) pthread_cond_broadcast(&run->enqueued);
}

/* Processes the tail up to the first unfinished host step. `wanted`: a thread waits for it. */
static void go_on_with_tail(clade_run *run, clade__lane *lane, bool wanted, bool *moved) {
  clade__slot *slot = clade__slot_of(run, lane->tailing);
  const size_t main = lane->n_cmds - lane->n_tail;
  for (bool again = false; lane->tail_at < lane->n_tail && slot->status == CLADE_OK; lane->tail_at++) {
    const clade__cmd *cmd = &lane->cmds[slot - run->slots][main + lane->tail_at];
    if (!wanted && slot->hosts[cmd->port].stage != CLADE__HOST_ENDED) return;
    clade_status status = command(run, lane, slot, main + lane->tail_at, &again);
    if (status != CLADE_OK) clade__slot_fail(slot, status);
    if (again) return;
    *moved = true;
  }
  lane->tailing = 0;
  *moved = true;
  leave(run, lane, slot);
}

/* Whether the previous tail's results that the next command needs have arrived. A tail starts after the previous one
 * ended. */
static bool tail_allows(clade_run *run, clade__lane *lane, bool *moved) {
  const size_t main = lane->n_cmds - lane->n_tail;
  if (!lane->tailing) return true;
  const size_t needed = lane->at < main ? lane->tail_needed[lane->at] : lane->n_tail;
  go_on_with_tail(run, lane, lane->tail_at < needed, moved);
  if (lane->tailing && lane->tail_at < needed) return false;
  if (lane->tailing) {
    clade__slot *slot = clade__slot_of(run, lane->tailing);
    clade__host_unwatch(run, slot, &lane->cmds[slot - run->slots][main + lane->tail_at]);
  }
  return true;
}

/* Continues at lane->at; stops at a host step that must be polled again. */
static clade_status enqueue(clade_run *run, clade__lane *lane, clade__slot *slot, bool *again, bool *moved) {
  const size_t main = lane->n_cmds - lane->n_tail;
  *again = false;
  for (; lane->at < main; lane->at++) {
    *again = !tail_allows(run, lane, moved);
    if (!*again) CLADE_TRY(command(run, lane, slot, lane->at, again));
    if (*again) return CLADE_OK;
  }
  *again = lane->n_tail && !tail_allows(run, lane, moved);
  return CLADE_OK;
}

/* Called when all other commands of the execution are enqueued. */
static void begin_tail(clade_run *run, clade__lane *lane, clade__slot *slot) {
  clade_status status = slot->status == CLADE_OK && lane->n_tail ? clade__lane_flush(lane) : CLADE_OK;
  if (status != CLADE_OK) clade__slot_fail(slot, status);
  if (slot->status != CLADE_OK || !lane->n_tail) {
    leave(run, lane, slot);
    return;
  }
  lane->tailing = slot->execution;
  lane->tail_at = 0;
}

static void begin(clade_run *run, clade__lane *lane, clade__slot *slot) {
  if (!lane->n_cmds) return;
  slot->begun = true;
  if (!run->wait.n) return;
  /* a marker delays the following commands on an in-order queue */
  clade_status status = clade__queue_marker(lane->queue, run->wait, NULL);
  if (status != CLADE_OK) clade__slot_fail(slot, status);
}

/* Advances a lane; true: it waits for a host step. */
static bool advance(clade_run *run, int index, bool *moved) {
  clade__lane *lane = &run->lanes[index];
  while (lane->next <= run->submitted) {
    clade__slot *slot = clade__slot_of(run, lane->next);
    size_t before = lane->at;
    bool again = false;
    if (slot->status == CLADE_OK && before == 0) begin(run, lane, slot);
    if (slot->status == CLADE_OK) {
      clade_status status = enqueue(run, lane, slot, &again, moved);
      if (status != CLADE_OK) clade__slot_fail(slot, status);
    }
    if (again) {
      *moved |= lane->at != before;
      if (lane->at != before) {
        clade_status status = clade__lane_flush(lane);
        if (status != CLADE_OK) clade__slot_fail(slot, status);
      }
      if (slot->status == CLADE_OK) return true;
    }
    begin_tail(run, lane, slot);
    lane->next++;
    lane->at = 0;
    *moved = true;
  }
  if (lane->tailing) go_on_with_tail(run, lane, true, moved);
  return lane->tailing != 0;
}

bool clade__run_drive(clade_run *run) {
  bool waiting, moved;
  do { /* a RECEIVE in one lane may follow a SEND in another at once */
    waiting = moved = false;
    for (int l = 0; l < run->n_lanes; l++) waiting |= advance(run, l, &moved);
    moved |= clade__hosts_advance(run);
  } while (waiting && moved);
  return waiting;
}

/* ---- completion ---- */
int clade__slot_poll(clade_run *run, clade__slot *slot) {
  if (slot->lanes_left) return 0;
  for (int l = 0; l < run->n_lanes; l++) {
    int finished = 1;
    if (slot->done[l] && clade__event_poll(run->lanes[l].device, slot->done[l], &finished) != CLADE_OK) finished = 1;
    if (!finished) return 0;
  }
  return 1;
}

static void free_held(clade_run *run, clade__slot *slot) {
  for (int l = 0; l < run->n_lanes; l++) {
    clade__event_release(slot->done[l]);
    clade__event_release(slot->uploaded[l]);
    slot->done[l] = slot->uploaded[l] = NULL;
  }
  clade__hosts_reset(run, slot);
  for (size_t i = 0; i < run->func->graph->inputs.count; i++) {
    if (slot->fed[i].buffer) clade__buffer_release(slot->fed[i].buffer);
    slot->fed[i].buffer = NULL;
  }
}

static void settle(clade_run *run, clade__slot *slot) {
  if (run->profile) clade__profile_collect(run, slot);
  free_held(run, slot);
  slot->busy = false;
  if (slot->status == CLADE_OK || slot->reported || run->status != CLADE_OK) return;
  run->status = slot->status;
  snprintf(run->message, sizeof run->message, "%s", slot->message);
}

void clade__slot_wait(clade_run *run, clade__slot *slot) {
  const uint64_t execution = slot->execution;
  while (slot->busy && slot->execution == execution && slot->lanes_left) pthread_cond_wait(&run->enqueued, &run->lock);
  for (int l = 0; l < run->n_lanes && slot->busy && slot->execution == execution; l++) {
    cl_event done = slot->done[l]; /* keep the event: the single waiting thread releases it */
    if (!done) continue;
    bool late = run->late;
    pthread_mutex_unlock(&run->lock);
    clade_device *device = run->lanes[l].device;
    clade_status status = run->lone ? clade__event_wait_awake(device, done, &late) : clade__event_wait(device, done);
    pthread_mutex_lock(&run->lock);
    run->late = late;
    if (status != CLADE_OK && slot->busy && slot->execution == execution) clade__slot_fail(slot, status);
  }
  if (!slot->busy || slot->execution != execution) return;
  settle(run, slot);
  if (!run->profile || !run->observer) return;
  pthread_mutex_unlock(&run->lock);
  clade__profile_observe(run);
  pthread_mutex_lock(&run->lock);
}
