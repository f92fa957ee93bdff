/* Communicators from inside: tags, and collectives that go on while others compute. */
#ifndef CLADE_SRC_COMM_H
#define CLADE_SRC_COMM_H

#include <clade/comm.h>

#include "base/base.h"
#include "comm/carrier.h"
#include "comm/parts.h"
#include "comm/schedule.h"
#include "comm/wire.h"

typedef struct clade__reduction clade__reduction;

struct clade_comm {
  clade__ref ref;
  clade_comm_impl impl;
  void *user;
  int rank, size, number; /* number: in this process, from 1 on */
  clade_comm *parent;     /* of a group: what it was split off from; NULL: it is the job's communicator */
  const int *job_ranks;   /* of a group: its ranks in the job's communicator */
  int *splits;            /* of the job's: by rank, of how many groups both that rank and this one are; NULL: of none */
  double timeout;         /* of the job's, for its groups too, as patience */
  atomic_int patience;    /* others may take so many times as long; 0: as long as they want */
  int next_series, most_series; /* of tags */
  unsigned *turns;              /* under lock, by series: executions that have begun, whichever run's they are */
  size_t turn_capacity;
  pthread_mutex_t lock; /* the implementation is called by one thread at a time */
  void **channels;      /* under lock, as all that follows */
  size_t n_channels, channel_capacity;
  clade_comm_stats stats;
  int under_way;     /* collectives of graphs */
  double busy_since; /* where there are some */
};

/* Tags: one for what the calling thread waits for, then a series for each host step of a graph. Executions that follow
 * each other are under way at once, and may end in any order: each takes the next tag of the step's series in turn, as
 * they begin in the same order on all ranks. A group has tags behind those of the job's communicator (group.c). */
enum {
  CLADE__COMM_TAG = 1,
  CLADE__COMM_TURNS = 16,
  CLADE__COMM_TAGS = 1 << 20 /* of a group, or where there is one */
};
static inline int clade__comm_tag(int series, unsigned turn) {
  return CLADE__COMM_TAG + 1 + series * CLADE__COMM_TURNS + (int)(turn % CLADE__COMM_TURNS);
}
/* The next one of a series of messages to or from `peer`; of collectives: rank 0, and false. Runs of a func count on,
 * so that a rank may make a new one where others do not. */
int clade__comm_take_tag(clade_comm *comm, int series, int peer, bool receives);
enum { CLADE__SOME_RANK = -1 /* in place of a rank that is waited for: one of all, nobody knows which */ };

/* A communicator of this process by its number, retained; NULL: it is gone. */
clade_comm *clade__comm_numbered(int number);
/* That of the whole job, and a rank's number there, which is what messages tell. */
clade_comm *clade__comm_job(clade_comm *comm);
int clade__comm_job_rank(const clade_comm *comm, int rank);

/* ---- what is counted, of a group for what it was split off from as well ---- */
void clade__comm_enter(clade_comm *comm); /* a collective of a graph begins */
void clade__comm_leave(clade_comm *comm);
void clade__comm_waited(clade_comm *comm, double seconds);

clade_status clade__comm_send(clade_comm *comm, int to, int tag, const void *data, size_t bytes, void **request);
clade_status clade__comm_receive(clade_comm *comm, int from, int tag, void *data, size_t bytes, void **request);
/* Done requests become NULL. */
clade_status clade__comm_test(clade_comm *comm, void **request, bool *done);
void clade__comm_cancel(clade_comm *comm, void **request);
/* Until the request to or from `rank` is done, with a pause between two looks (0: none); it is cancelled where that
 * fails. */
clade_status clade__comm_wait(clade_comm *comm, int rank, void **request, long pause_ns);
/* A message on the calling thread, which waits. */
clade_status clade__comm_put(clade_comm *comm, int to, const void *data, size_t bytes);
clade_status clade__comm_get(clade_comm *comm, int from, void *data, size_t bytes);
/* Where other ranks compile, test or write, each at its own speed, they may take so many times as long before one is
 * told to hang; 0: for ever, 1: as usual. NULL is fine. */
void clade__comm_be_patient(clade_comm *comm, int times);
/* A failure that names the rank that left this one waiting since `since`, if that is too long. Of some rank it comes
 * later: a sum that has begun meanwhile may know which one it is. */
clade_status clade__comm_patience(clade_comm *comm, int rank, double since);

/* What values of a type are summed as; NONE: they are not. Those of 16 bits are added as f32, and rounded once. */
clade_dtype clade__comm_sums_as(clade_dtype type);
/* Bytes of an element of what collectives take. */
static inline size_t clade__comm_element(clade_dtype type) {
  size_t bytes = 1;
  (void)clade__dtype_element(type, &bytes); /* they take no type whose elements share a block */
  return bytes;
}

/* Where the ranks' parts of an axis begin, and the end: they are for at most so many ranks. */
enum { CLADE__COMM_MOST_PARTS = 64 };
clade_status clade__comm_check_cuts(const clade_comm *comm, const int64_t *cuts);

/* Sums of fewer bytes than this are exchanged whole: rounds cost more than bytes. */
enum { CLADE__COMM_SHORT = 16 << 10 };
/* What is longer than this many bytes travels in pieces, one of which is added while the next is on its way. */
enum { CLADE__COMM_PIECE = 512 << 10 };
/* A collective over the ranks, a step at a time (reduce.c). Its data is filled in before it begins, and holds
 * the sums once done; of a reduce-scatter only the own slot counts then, and of an all-gather before. Those that have
 * ended lie in *idle, the caller's list, which is looked at under the communicator's lock; all in it are by a schedule,
 * or all by channels. */
clade_status clade__reduction_new(clade_comm *comm, clade__reduction **idle, int tag, const clade__message *message,
                                  const void *user, clade__reduction **out);
void *clade__reduction_data(const clade__reduction *r);
const void *clade__reduction_user(const clade__reduction *r);
clade_status clade__reduction_begin(clade__reduction *r);
clade_status clade__reduction_step(clade__reduction *r, bool *done);
void clade__reduction_end(clade__reduction *r); /* also before it is done; NULL is fine */
void clade__reductions_free(clade__reduction *first);

/* What host steps that are collectives share (host.c). `pack` fills the reduction's data from the call's inputs, or
 * with `back` the call's outputs from that; the call is the reduction's user. */
typedef clade_status clade__repack(const clade__reduction *r, bool back);
clade_status clade__collective_begin(clade_comm *comm, clade__reduction **idle, int series,
                                     const clade__message *message, const clade_host_call *call, clade__repack *pack,
                                     void **out);
clade_status clade__collective_poll(void *reduction, clade__repack *pack, clade_host_state *state);
void clade__collective_cancel(void *reduction);

#endif
