/* Waits for executions and reads their outputs. */
#include "plan/run.h"

/* Resolves a ticket to an execution of this run. */
static clade_status execution_of(const clade_run *run, clade_ticket ticket, const char *function, uint64_t *execution) {
  *execution = clade__ticket_execution(ticket);
  if (!ticket) return CLADE_FAIL(NOT_FOUND, "%s: the ticket is 0: no execution has it", function);
  if (ticket - *execution != run->serial) return CLADE_FAIL(NOT_FOUND, "%s: the ticket is of another run", function);
  if (*execution >= 1 && *execution <= run->submitted) return CLADE_OK;
  return CLADE_FAIL(NOT_FOUND, "%s: there is no execution %llu; the run has begun %llu so far", function,
                    (unsigned long long)*execution, (unsigned long long)run->submitted);
}

/* Status of an execution that still has its slot. */
static clade_status slot_status(const clade__slot *slot) {
  return slot->status == CLADE_OK ? CLADE_OK : clade__fail_again(slot->status, slot->message);
}

static clade_status wait_all(clade_run *run) {
  clade_status status = CLADE_OK;
  uint64_t last = run->submitted;
  uint64_t first = last > (unsigned)run->n_slots ? last - (unsigned)run->n_slots + 1 : 1;
  for (uint64_t e = first; e <= last; e++) {
    clade__slot *slot = clade__slot_of(run, e);
    if (slot->busy) clade__slot_wait(run, slot);
    if (status == CLADE_OK && slot->execution == e && !slot->reported) status = slot_status(slot);
  }
  return status;
}

static clade_status wait_one(clade_run *run, clade_ticket ticket) {
  uint64_t execution;
  CLADE_TRY(execution_of(run, ticket, "clade_wait", &execution));
  clade__slot *slot = clade__slot_of(run, execution);
  if (slot->execution == execution && slot->busy) clade__slot_wait(run, slot);
  if (slot->execution == execution) return slot_status(slot);
  /* Its slot was reused, so it has ended; its error is stored in the run. */
  return run->status == CLADE_OK ? CLADE_OK : clade__fail_again(run->status, run->message);
}

clade_status clade_wait(clade_run *run, clade_ticket ticket) {
  if (!run) return CLADE_FAIL(INVALID, "clade_wait: the run is NULL");
  for (int l = 0; l < run->n_lanes; l++)
    if (clade_device_status(run->lanes[l].device) == CLADE_FORKED)
      return clade__device_check(run->lanes[l].device, "clade_wait");
  pthread_mutex_lock(&run->lock);
  clade_status status = ticket ? wait_one(run, ticket) : wait_all(run);
  pthread_mutex_unlock(&run->lock);
  return status;
}

static clade_status find_output(const clade_run *run, const char *name, const void *dst, size_t bytes,
                                const clade__place **place) {
  size_t index;
  if (!name) return CLADE_FAIL(INVALID, "clade_read: the name is NULL");
  if (!clade__map_get(&run->output_names, clade__hash_bytes(name, strlen(name)), &index))
    return CLADE_FAIL(NOT_FOUND, "clade_read: the func has no output \"%s\"", name);
  *place = &run->func->cells[run->func->output_cell[index]].place;
  if (bytes != (*place)->bytes)
    return CLADE_FAIL(INVALID, "clade_read: output %s has %zu bytes, room is for %zu", name, (*place)->bytes, bytes);
  if (bytes && !dst) return CLADE_FAIL(INVALID, "clade_read: the memory for output %s is NULL", name);
  return CLADE_OK;
}

static clade_status slot_for(clade_run *run, clade_ticket ticket, clade__slot **slot) {
  uint64_t execution;
  CLADE_TRY(execution_of(run, ticket, "clade_read", &execution));
  *slot = clade__slot_of(run, execution);
  if ((*slot)->execution == execution && (*slot)->busy) clade__slot_wait(run, *slot);
  if ((*slot)->execution != execution)
    return CLADE_FAIL(NOT_FOUND,
                      "clade_read: execution %llu cannot be read any more: the run has %d slots, and has "
                      "begun execution %llu",
                      (unsigned long long)execution, run->n_slots, (unsigned long long)run->submitted);
  return slot_status(*slot);
}

clade_status clade_read(clade_run *run, clade_ticket ticket, const char *name, void *dst, size_t bytes) {
  const clade__place *place = NULL;
  clade__slot *slot = NULL;
  if (!run) return CLADE_FAIL(INVALID, "clade_read: the run is NULL");
  CLADE_TRY(find_output(run, name, dst, bytes, &place));
  clade_device *device = run->func->devices[place->device];
  CLADE_TRY(clade__device_check(device, "clade_read"));
  pthread_mutex_lock(&run->lock);
  clade_status status = slot_for(run, ticket, &slot);
  pthread_mutex_unlock(&run->lock);
  CLADE_TRY(status);
  if (!bytes) return CLADE_OK;
  /* not the run's own queue, which has later executions */
  clade__queue *queue = clade__device_transfer_queue(device);
  if (!queue) return CLADE_OPENCL;
  return clade__queue_read(queue, clade__run_buffer(run, (int)(slot - run->slots), place), place->offset, dst, bytes,
                           true, (clade__wait){0}, NULL);
}
