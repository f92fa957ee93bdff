/* Starts executions: copies inputs to a slot and enqueues the commands. The steady state neither allocates nor
 * creates objects. */
#include "plan/run.h"
#include "program/offline.h"

static clade_status check_feed(clade_run *run, const clade_feed *feed, size_t *index) {
  const clade_graph *g = run->func->graph;
  char want[320], have[320];
  if (!feed->name) return CLADE_FAIL(INVALID, "clade_execute: the name of an input is NULL");
  if (!clade__map_get(&run->input_names, clade__hash_bytes(feed->name, strlen(feed->name)), index))
    return CLADE_FAIL(NOT_FOUND, "clade_execute: the func has no input \"%s\"", feed->name);
  size_t bytes = run->input_bytes[*index];
  if (!feed->tensor) {
    if (feed->bytes != bytes)
      return CLADE_FAIL(INVALID, "clade_execute: input %s takes %zu bytes, given were %zu", feed->name, bytes,
                        feed->bytes);
    if (bytes && !feed->data) return CLADE_FAIL(INVALID, "clade_execute: the memory of input %s is NULL", feed->name);
    return CLADE_OK;
  }
  if (feed->data || feed->bytes)
    return CLADE_FAIL(INVALID, "clade_execute: input %s is given as memory and as a tensor; expected one of them",
                      feed->name);
  clade_type type = clade_tensor_type(feed->tensor);
  const clade_type *expected = clade__type(g, g->inputs.at[*index].value);
  if (!clade_type_equal(&type, expected))
    return clade_fail(type.dtype == expected->dtype ? CLADE_BAD_SHAPE : CLADE_DTYPE,
                      "clade_execute: input %s takes %s, the tensor is %s", feed->name,
                      clade__type_text(expected, want, sizeof want), clade__type_text(&type, have, sizeof have));
  clade_device *device = clade_tensor_device(feed->tensor);
  int at = run->func->cells[run->func->cell_of[g->inputs.at[*index].value]].place.device;
  if (device && clade__device_context(device) != clade__device_context(run->func->devices[at]))
    return CLADE_FAIL(INVALID, "clade_execute: input %s is taken on %s, the tensor lies on %s", feed->name,
                      clade__device_info(run->func->devices[at])->name, clade__device_info(device)->name);
  return CLADE_OK;
}

/* Sets run->feed_of to the feed of each input. */
static clade_status check_feeds(clade_run *run, int n, const clade_feed *feeds) {
  const clade__ports *inputs = &run->func->graph->inputs;
  size_t index;
  if (n < 0 || (n && !feeds)) return CLADE_FAIL(INVALID, "clade_execute: %d inputs, the array is NULL", n);
  for (size_t i = 0; i < inputs->count; i++) run->feed_of[i] = -1;
  for (int f = 0; f < n; f++) {
    CLADE_TRY(check_feed(run, &feeds[f], &index));
    if (run->feed_of[index] >= 0) return CLADE_FAIL(DUPLICATE, "clade_execute: input %s is fed twice", feeds[f].name);
    run->feed_of[index] = f;
  }
  for (size_t i = 0; i < inputs->count; i++)
    if (run->feed_of[i] < 0) return CLADE_FAIL(INVALID, "clade_execute: input %s is not fed", inputs->at[i].name);
  return CLADE_OK;
}

/* Returns the slot of the next execution, after waiting until it is free. */
static clade_status take_slot(clade_run *run, clade__slot **out) {
  uint64_t cancels = run->cancels;
  clade__slot *slot = clade__slot_of(run, run->submitted + 1);
  if (slot->busy && run->nowait && !clade__slot_poll(run, slot))
    return CLADE_FAIL(BUSY, "clade_execute: all %d slots are busy; the oldest is execution %llu", run->n_slots,
                      (unsigned long long)slot->execution);
  if (slot->busy) clade__slot_wait(run, slot);
  if (run->cancels != cancels) return CLADE_FAIL(CANCELED, "clade_execute: canceled while it waited for a slot");
  *out = slot;
  return CLADE_OK;
}

static void take_feeds(clade_run *run, clade__slot *slot, const clade_feed *feeds) {
  for (size_t i = 0; i < run->func->graph->inputs.count; i++) {
    const clade_feed *feed = &feeds[run->feed_of[i]];
    const void *data = feed->data;
    if (feed->tensor) {
      clade__buffer *buffer = clade__tensor_buffer(feed->tensor, &slot->fed[i].offset);
      slot->fed[i].buffer = buffer ? clade__buffer_retain(buffer) : NULL;
      if (buffer) continue;
      data = clade_tensor_data(feed->tensor);
    }
    if (run->input_bytes[i]) memcpy(clade__staging_data(slot->staging[i]), data, run->input_bytes[i]);
  }
}

/* Variables changed: makes new packed copies once no execution reads the old ones. *done: they are bound. */
static clade_status pack_again(clade_run *run, bool *done) {
  clade_status status = CLADE_OK;
  *done = true;
  pthread_mutex_lock(&run->lock);
  for (int s = 0; s < run->n_slots; s++) *done &= !run->slots[s].busy;
  if (*done) status = clade__packed_bind(run);
  pthread_mutex_unlock(&run->lock);
  return status;
}

static clade_status wait_for_slots(clade_run *run) {
  clade_status status = CLADE_OK;
  pthread_mutex_lock(&run->lock);
  for (int s = 0; s < run->n_slots && status == CLADE_OK; s++) {
    clade__slot *slot = &run->slots[s];
    if (slot->busy && run->nowait && !clade__slot_poll(run, slot))
      status = CLADE_FAIL(BUSY, "clade_execute: variables have changed, and execution %llu still reads the old ones",
                          (unsigned long long)slot->execution);
    else if (slot->busy)
      clade__slot_wait(run, slot);
  }
  pthread_mutex_unlock(&run->lock);
  return status;
}

/* Enforces that only one run that assigns is active and no other run reads meanwhile, and that packed copies are up
 * to date. */
static clade_status enter_vars(clade_run *run) {
  if (!run->vars) return CLADE_OK;
  bool packed = false;
  pthread_mutex_lock(&run->vars->lock);
  clade_status status = clade__vars_idle(run->vars, run);
  while (status == CLADE_OK && !packed && clade__packed_stale(run)) {
    status = pack_again(run, &packed);
    if (packed) continue;
    pthread_mutex_unlock(&run->vars->lock); /* unlocked while the program's observer is called */
    status = wait_for_slots(run);
    pthread_mutex_lock(&run->vars->lock);
    if (status == CLADE_OK) status = clade__vars_idle(run->vars, run);
  }
  run->entered = status == CLADE_OK;
  if (status == CLADE_OK && run->func->writes) {
    run->vars->writer = run;
    run->vars->entering = true;
  }
  pthread_mutex_unlock(&run->vars->lock);
  return status;
}

/* Executions of a func that assigns count as writes, even if they failed. */
static void leave_vars(clade_run *run) {
  const clade__ports *variables = &run->func->graph->variables;
  if (!run->vars || !(run->func->writes || run->func->n_packs)) return;
  pthread_mutex_lock(&run->vars->lock);
  run->entered = false;
  if (run->func->writes) run->vars->entering = false;
  for (size_t i = 0; i < variables->count; i++)
    if (variables->at[i].assigned) run->vars->at[run->var_index[i]].version++;
  pthread_mutex_unlock(&run->vars->lock);
}

static void count_programming(clade_device *device, const clade__programming *t) {
  clade__programmed_ran(device, t->first, t->last, t->changes);
}

static clade_status submit(clade_run *run, clade__slot *slot, const clade_feed *feeds, clade_ticket *ticket,
                           cl_event *done) {
  take_feeds(run, slot, feeds);
  slot->execution = ++run->submitted;
  for (int d = 0; d < run->func->n_devices; d++)
    if (run->func->programming[d].first >= 0) count_programming(run->func->devices[d], &run->func->programming[d]);
  slot->busy = true;
  slot->begun = slot->reported = false;
  slot->status = CLADE_OK;
  slot->lanes_left = run->n_lanes;
  clade__run_upload(run, slot);
  if (clade__run_drive(run)) clade__progress_wake(run);
  run->wait = (clade__wait){0};
  if (slot->status == CLADE_OK && done && !slot->done[0]) { /* there was nothing to enqueue */
    clade_status status = clade__queue_marker(run->lanes[0].queue, run->wait, &slot->done[0]);
    if (status != CLADE_OK) clade__slot_fail(slot, status);
  }
  if (slot->status != CLADE_OK) {
    slot->reported = true;
    return clade__fail_again(slot->status, slot->message);
  }
  if (ticket) *ticket = run->serial | slot->execution;
  if (done) {
    CLADE_TRY(clade__event_retain(run->lanes[0].device, slot->done[0]));
    *done = slot->done[0];
  }
  return CLADE_OK;
}

static clade_status execute(clade_run *run, int n, const clade_feed *feeds, clade__wait wait, clade_ticket *ticket,
                            cl_event *done) {
  clade__slot *slot = NULL;
  if (ticket) *ticket = 0;
  if (done) *done = NULL;
  if (!run) return CLADE_FAIL(INVALID, "clade_execute: the run is NULL");
  for (int l = 0; l < run->n_lanes; l++) CLADE_TRY(clade__device_check(run->lanes[l].device, "clade_execute"));
  CLADE_TRY(enter_vars(run));
  pthread_mutex_lock(&run->lock);
  clade_status status = check_feeds(run, n, feeds);
  if (status == CLADE_OK) status = take_slot(run, &slot);
  if (status == CLADE_OK) {
    run->wait = wait;
    status = submit(run, slot, feeds, ticket, done);
  }
  pthread_mutex_unlock(&run->lock);
  leave_vars(run);
  return status;
}

clade_status clade_execute(clade_run *run, int n, const clade_feed *feeds, clade_ticket *ticket) {
  return execute(run, n, feeds, (clade__wait){0}, ticket, NULL);
}

clade_status clade_execute_after(clade_run *run, int n, const clade_feed *feeds, cl_uint n_wait, const cl_event *wait,
                                 clade_ticket *ticket, cl_event *done) {
  if (run && run->n_lanes > 1)
    return CLADE_FAIL(UNSUPPORTED, "clade_execute_after: the func works on %d devices, events belong to one context",
                      run->n_lanes);
  if (run && run->func->n_hosts)
    return CLADE_FAIL(UNSUPPORTED, "clade_execute_after: the func has %zu host steps, whose end no event tells",
                      run->func->n_hosts);
  if ((n_wait == 0) != (wait == NULL))
    return CLADE_FAIL(INVALID, "clade_execute_after: %u events, the list is %s", n_wait, wait ? "given" : "NULL");
  if (ticket) *ticket = 0;
  if (done) *done = NULL;
  if (run) CLADE_TRY(clade__device_check(run->lanes[0].device, "clade_execute_after"));
  if (run) CLADE_TRY(clade__events_check(run->lanes[0].device, (clade__wait){n_wait, wait}, "clade_execute_after"));
  return execute(run, n, feeds, (clade__wait){n_wait, wait}, ticket, done);
}
