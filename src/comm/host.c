/* Host steps for collectives: begin with the inputs, poll, and write the outputs. */
#include "comm/comm.h"

clade_status clade__collective_begin(clade_comm *comm, clade__reduction **idle, int series,
                                     const clade__message *message, const clade_host_call *call, clade__repack *pack,
                                     void **out) {
  clade__reduction *r;
  CLADE_TRY(clade__reduction_new(comm, idle, clade__comm_take_tag(comm, series, 0, false), message, call, &r));
  clade_status status = pack(r, false);
  if (status == CLADE_OK) status = clade__reduction_begin(r);
  if (status == CLADE_OK)
    *out = r;
  else
    clade__reduction_end(r);
  return status;
}

clade_status clade__collective_poll(void *reduction, clade__repack *pack, clade_host_state *state) {
  bool done = false;
  clade_status status = clade__reduction_step(reduction, &done);
  *state = done ? CLADE_HOST_DONE : CLADE_HOST_AGAIN;
  if (done) status = pack(reduction, true);
  if (done || status != CLADE_OK) clade__reduction_end(reduction);
  return status;
}

void clade__collective_cancel(void *reduction) { clade__reduction_end(reduction); }
