/* Internals of communicators: tags, and collectives that progress while other work runs. */
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
  int rank, size, number; /* number: in this process, from 1 */
  clade_comm *parent;     /* of a group: the communicator it was split from; NULL: the job's communicator */
  const int *job_ranks;   /* of a group: its ranks in the job's communicator */
  int *splits;    /* of the job: for each rank, the number of groups that it shares with this rank; NULL: no groups */
  double timeout; /* of the job; valid for its groups, like patience */
  atomic_int patience;          /* timeout multiplier; 0: no timeout */
  int next_series, most_series; /* of tags */
  unsigned *turns;              /* under lock, by series: number of executions begun by all runs */
  size_t turn_capacity;
  pthread_mutex_t lock; /* serializes calls of the transport */
  void **channels;      /* under lock, like all that follows */
  size_t n_channels, channel_capacity;
  clade_comm_stats stats;
  int under_way;     /* active collectives of graphs */
  double busy_since; /* start of the current period with active collectives */
};

/* Tags: one for blocking calls, then a series for each host step of a graph. Consecutive executions overlap and can
 * end in any order, so each takes the next tag of its step's series; they begin in the same order on all ranks. Tags
 * of groups follow those of the job's communicator (group.c). */
enum {
  CLADE__COMM_TAG = 1,
  CLADE__COMM_TURNS = 16,
  CLADE__COMM_TAGS = 1 << 20 /* size of a group's range, and limit of the job's once there are groups */
};
static inline int clade__comm_tag(int series, unsigned turn) {
  return CLADE__COMM_TAG + 1 + series * CLADE__COMM_TURNS + (int)(turn % CLADE__COMM_TURNS);
}
/* Next tag of a series of messages to or from `peer`; for collectives, pass rank 0 and false. Counts across the runs
 * of a func, so that one rank can create a new run where others do not. */
int clade__comm_take_tag(clade_comm *comm, int series, int peer, bool receives);
enum { CLADE__SOME_RANK = -1 /* waiting for an unknown rank of all */ };

/* Looks up a communicator of this process and retains it; NULL: freed. */
clade_comm *clade__comm_numbered(int number);
/* The job's communicator, and a rank's number in it, which messages show. */
clade_comm *clade__comm_job(clade_comm *comm);
int clade__comm_job_rank(const clade_comm *comm, int rank);

/* ---- statistics, which groups also add to the job's communicator ---- */
void clade__comm_enter(clade_comm *comm); /* a collective of a graph begins */
void clade__comm_leave(clade_comm *comm);
void clade__comm_waited(clade_comm *comm, double seconds);

clade_status clade__comm_send(clade_comm *comm, int to, int tag, const void *data, size_t bytes, void **request);
clade_status clade__comm_receive(clade_comm *comm, int from, int tag, void *data, size_t bytes, void **request);
/* Completed requests become NULL. */
clade_status clade__comm_test(clade_comm *comm, void **request, bool *done);
void clade__comm_cancel(clade_comm *comm, void **request);
/* Waits until the request to or from `rank` completes, polling with a pause (0: none); cancels it after a failure. */
clade_status clade__comm_wait(clade_comm *comm, int rank, void **request, long pause_ns);
/* Blocking message. */
clade_status clade__comm_put(clade_comm *comm, int to, const void *data, size_t bytes);
clade_status clade__comm_get(clade_comm *comm, int from, void *data, size_t bytes);
/* Multiplies the timeout while ranks compile, test or write at different speeds; 0: no timeout, 1: default. Accepts
 * NULL. */
void clade__comm_be_patient(clade_comm *comm, int times);
/* Fails, naming the rank, if this rank has waited for it since `since` for too long. CLADE__SOME_RANK has a longer
 * timeout: a sum started meanwhile may identify the rank. */
clade_status clade__comm_patience(clade_comm *comm, int rank, double since);

/* Accumulation type of sums; NONE: not supported. 16-bit types are added in f32 and rounded once. */
clade_dtype clade__comm_sums_as(clade_dtype type);
/* Bytes of an element in collectives. */
static inline size_t clade__comm_element(clade_dtype type) {
  size_t bytes = 1;
  (void)clade__dtype_element(type, &bytes); /* block-quantized types are not accepted */
  return bytes;
}

/* Most ranks among which an axis can be divided; `cuts` are the beginnings of their parts, and the end. */
enum { CLADE__COMM_MOST_PARTS = 64 };
clade_status clade__comm_check_cuts(const clade_comm *comm, const int64_t *cuts);
/* Checks that the shape has `expected` places along an axis of which `rank` of `ranks` has a part. */
clade_status clade__comm_check_axis(const clade_shape *shape, int axis, int64_t expected, int rank, int ranks);

/* Interval in which host steps look for messages, in microseconds. */
enum { CLADE__COMM_POLL_US = 50 };
/* Measures rank 0 with every other rank, one after another: peers[i], of rank i + 1, on rank 0 alone. Collective. */
typedef struct clade__comm_peer {
  double latency, bandwidth; /* in seconds, and in bytes per second while both directions are busy */
} clade__comm_peer;
clade_status clade__comm_measure(clade_comm *comm, clade__comm_peer *peers);

/* Shorter sums (in bytes) are exchanged whole: latency outweighs bandwidth. */
enum { CLADE__COMM_SHORT = 16 << 10 };
/* Longer messages (in bytes) are divided into pieces, so that addition and transfer overlap. */
enum { CLADE__COMM_PIECE = 512 << 10 };
/* A collective that progresses in steps (reduce.c). Its data is filled in before it begins and holds the result at
 * the end. In a reduce-scatter, only the own slot is valid at the end; in an all-gather, only that slot is read at
 * the beginning. Finished ones are kept for reuse in *idle, the caller's list, under the communicator's lock; a list
 * holds either scheduled ones or those with channels. */
clade_status clade__reduction_new(clade_comm *comm, clade__reduction **idle, int tag, const clade__message *message,
                                  const void *user, clade__reduction **out);
void *clade__reduction_data(const clade__reduction *r);
const void *clade__reduction_user(const clade__reduction *r);
clade_status clade__reduction_begin(clade__reduction *r);
clade_status clade__reduction_step(clade__reduction *r, bool *done);
void clade__reduction_end(clade__reduction *r); /* also cancels; accepts NULL */
void clade__reductions_free(clade__reduction *first);

/* Shared code of collective host steps (host.c). `pack` fills the reduction's data from the call's inputs, or with
 * `back` the call's outputs from the data; the reduction's user pointer is the call. */
typedef clade_status clade__repack(const clade__reduction *r, bool back);
clade_status clade__collective_begin(clade_comm *comm, clade__reduction **idle, int series,
                                     const clade__message *message, const clade_host_call *call, clade__repack *pack,
                                     void **out);
clade_status clade__collective_poll(void *reduction, clade__repack *pack, clade_host_state *state);
void clade__collective_cancel(void *reduction);

#endif
