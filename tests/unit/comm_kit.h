/* Ranks as threads of one process, for the tests of communicators. */
#ifndef COMM_KIT_H
#define COMM_KIT_H

#include <clade/comm.h>

#include "comm/comm.h"
#include "plan_kit.h"

enum { MOST = 9 };

typedef struct rank {
  clade_comm *comm;
  clade_device *device;
  int number, size;
  pthread_t thread;
  bool right;
} rank;

static inline void release_all(int size, clade_comm **comms) {
  for (int i = 0; i < size; i++) clade_comm_release(comms[i]);
}

/* `sent`: bytes that each rank sent for graph values and collectives, or NULL. */
static inline void run_ranks(int size, clade_device *device, void *(*fn)(void *), uint64_t sent[MOST]) {
  rank all[MOST];
  clade_comm *comms[MOST];
  OK(clade_comm_new_local(size, comms));
  for (int i = 0; i < size; i++) {
    all[i] = (rank){.comm = comms[i], .device = device, .number = i, .size = size};
    assert_int_equal(clade_comm_rank(comms[i]), i);
    assert_int_equal(clade_comm_size(comms[i]), size);
  }
  for (int i = 0; i < size; i++) assert_int_equal(pthread_create(&all[i].thread, NULL, fn, &all[i]), 0);
  for (int i = 0; i < size; i++) pthread_join(all[i].thread, NULL);
  for (int i = 0; i < size; i++) {
    clade_comm_stats stats = {.size = sizeof stats};
    assert_true(all[i].right);
    OK(clade_comm_get_stats(comms[i], &stats));
    if (sent) sent[i] = stats.sent_bytes;
  }
  release_all(size, comms);
}

#endif
