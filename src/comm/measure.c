/* Measures the link between ranks, without the library's pauses between polls. */
#include "comm/comm.h"

/* Polling without a pause: the measurement excludes the time that a thread sleeps. */
enum { PAUSE_NS = 0 };

static clade_status put(clade_comm *comm, int peer, const void *data, size_t bytes) {
  void *request = NULL;
  CLADE_TRY(clade__comm_send(comm, peer, CLADE__COMM_TAG, data, bytes, &request));
  return clade__comm_wait(comm, peer, &request, PAUSE_NS);
}

static clade_status get(clade_comm *comm, int peer, void *data, size_t bytes) {
  void *request = NULL;
  CLADE_TRY(clade__comm_receive(comm, peer, CLADE__COMM_TAG, data, bytes, &request));
  return clade__comm_wait(comm, peer, &request, PAUSE_NS);
}

enum { SMALL = 8, LARGE = 4 << 20, SMALL_TIMES = 101, LARGE_TIMES = 7 };
/* A long message is sent in pieces, all of them pending at once, as in a sum. A pause between polls does not matter
 * here, and lets ranks that share a processor take turns. */
enum { PIECE = CLADE__COMM_PIECE, PIECES = LARGE / PIECE, LARGE_PAUSE_NS = 50000 };

static clade_status begin_both(clade_comm *comm, int peer, const char *out, char *in, void *requests[2 * PIECES]) {
  for (int i = 0; i < PIECES; i++)
    CLADE_TRY(clade__comm_receive(comm, peer, CLADE__COMM_TAG, in + i * PIECE, PIECE, &requests[i]));
  for (int i = 0; i < PIECES; i++)
    CLADE_TRY(clade__comm_send(comm, peer, CLADE__COMM_TAG, out + i * PIECE, PIECE, &requests[PIECES + i]));
  return CLADE_OK;
}

static clade_status both(clade_comm *comm, int peer, const char *out, char *in) {
  void *requests[2 * PIECES] = {NULL};
  clade_status status = begin_both(comm, peer, out, in, requests);
  for (int i = 0; i < 2 * PIECES && status == CLADE_OK; i++)
    status = clade__comm_wait(comm, peer, &requests[i], LARGE_PAUSE_NS);
  for (int i = 0; i < 2 * PIECES; i++) clade__comm_cancel(comm, &requests[i]);
  return status;
}

/* Ping-pong. */
static clade_status bounce(clade_comm *comm, int peer, char *data) {
  if (comm->rank < peer) CLADE_TRY(put(comm, peer, data, SMALL));
  CLADE_TRY(get(comm, peer, data, SMALL));
  return comm->rank < peer ? CLADE_OK : put(comm, peer, data, SMALL);
}

static clade_status pair(clade_comm *comm, int peer, char *out, char *in, clade__comm_peer *found) {
  double seconds[SMALL_TIMES];
  for (int i = -2; i < SMALL_TIMES; i++) { /* the first messages open the connection */
    const double start = clade__now();
    CLADE_TRY(bounce(comm, peer, out));
    if (i >= 0) seconds[i] = clade__now() - start;
  }
  found->latency = clade__median(seconds, SMALL_TIMES) / 2;
  for (int i = -1; i < LARGE_TIMES; i++) {
    const double start = clade__now();
    CLADE_TRY(both(comm, peer, out, in));
    if (i >= 0) seconds[i] = clade__now() - start;
  }
  found->bandwidth = LARGE / clade__median(seconds, LARGE_TIMES);
  return CLADE_OK;
}

clade_status clade__comm_measure(clade_comm *comm, clade__comm_peer *peers) {
  clade__comm_peer mine;
  char *out = clade__new(LARGE, 1), *in = clade__new(LARGE, 1);
  clade_status status = out && in ? CLADE_OK : CLADE_NO_MEMORY;
  for (int peer = 1; peer < comm->size && status == CLADE_OK; peer++) {
    status = clade_comm_barrier(comm);
    if (status == CLADE_OK && !comm->rank) status = pair(comm, peer, out, in, &peers[peer - 1]);
    if (status == CLADE_OK && comm->rank == peer) status = pair(comm, 0, out, in, &mine);
  }
  clade__free(out);
  clade__free(in);
  return status;
}
