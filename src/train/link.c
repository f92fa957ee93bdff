/* The numbers by which layers are divided over tensor ranks: given, measured, of the checkpoint, or assumed. What is
 * measured is rounded to powers of two, since other parts of layers give other bits. */
#include <math.h>

#include "base/profile.h"
#include "comm/comm.h"
#include "train/internal.h"

/* The slowest pair of tensor ranks with the first of them; on that one alone. */
static clade_status measure_link(const clade__training *tr, clade__speeds *s) {
  clade__comm_peer peers[64] = {{0}};
  CLADE_TRY(clade__comm_measure(tr->tensor_ranks, peers));
  *s = (clade__speeds){0};
  for (int i = 0; i < tr->grid.tensor - 1 && !tr->place.tensor; i++) {
    const double gbits = peers[i].bandwidth * 8e-9;
    s->link_us = fmax(s->link_us, peers[i].latency * 1e6);
    s->link_gbits = s->link_gbits > 0 ? fmin(s->link_gbits, gbits) : gbits;
  }
  return CLADE_OK;
}

/* As the device was measured, or as is expected of its class. */
static clade_status measure_device(const clade__training *tr, double *tflops) {
  clade_device_info info = {.size = sizeof info};
  if (clade_device_ask_profile(tr->device, CLADE_PROFILE_MISSING, NULL) != CLADE_OK)
    clade__log(CLADE_LOG_INFO, "%s: its speed is that expected of its class", clade_last_error());
  CLADE_TRY(clade_device_get_info(tr->device, &info));
  const double gflops = info.peak_gflops[CLADE_F32];
  *tflops = gflops > 0 ? gflops * 1e-3 : clade__class_speed_of(&info).flops * 1e-12;
  return CLADE_OK;
}

static double rounded(double x) { return x > 0 ? exp2(round(log2(x))) : 0; }

/* The slowest of all ranks, on rank 0. */
static clade_status measure(const clade__training *tr, clade__speeds *slowest) {
  clade__speeds own, *all = clade__new((size_t)tr->ranks, sizeof *all);
  clade_status status = all ? measure_link(tr, &own) : CLADE_NO_MEMORY;
  if (status == CLADE_OK) status = measure_device(tr, &own.tflops);
  if (status == CLADE_OK) status = clade_comm_gather(tr->t.comm, 0, &own, sizeof own, all);
  for (int i = 0; i < tr->ranks && !tr->rank && status == CLADE_OK; i++) {
    own.link_us = fmax(own.link_us, all[i].link_us);
    if (all[i].link_gbits > 0) own.link_gbits = fmin(own.link_gbits, all[i].link_gbits);
    own.tflops = fmin(own.tflops, all[i].tflops);
  }
  *slowest = (clade__speeds){rounded(own.link_us), rounded(own.link_gbits), rounded(own.tflops)};
  clade__free(all);
  return status;
}

/* Fills in the numbers that the user did not give. */
static void complete(clade__training *tr, const clade__speeds *by, const char *from) {
  clade__speeds *s = &tr->speeds;
  const bool link = s->link_us > 0 || s->link_gbits > 0;
  tr->link_from = link ? "given" : from;
  tr->tflops_from = s->tflops > 0 ? "given" : from;
  if (!link) s->link_us = by->link_us, s->link_gbits = by->link_gbits;
  if (!(s->tflops > 0)) s->tflops = by->tflops;
  *s = clade__speeds_assumed(*s);
}

clade_status clade__train_find_speeds(clade__training *tr) {
  const char *from = "assumed";
  clade__speeds by = clade__speeds_assumed((clade__speeds){0});
  if (tr->grid.tensor == 1) return CLADE_OK;
  if (tr->t.link_auto) {
    by = tr->kept_speeds;
    CLADE_TRY(clade_comm_broadcast(tr->t.comm, 0, &by, sizeof by));
    from = by.tflops > 0 ? "kept" : "measured";
    if (!(by.tflops > 0)) CLADE_TRY(measure(tr, &by));
    CLADE_TRY(clade_comm_broadcast(tr->t.comm, 0, &by, sizeof by));
  }
  complete(tr, &by, from);
  return CLADE_OK;
}
