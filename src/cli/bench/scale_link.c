/* Measures the link between ranks as the library uses it: single messages, sums in a graph, and the host's
 * additions. */
#include "cli/bench/scale.h"
#include "comm/comm.h"

/* ---- adding ---- */
clade_status scale_add_rate(double *bytes_per_second) {
  enum { N = 1 << 20, TIMES = 9 };
  double seconds[TIMES];
  float *sum = clade__new(N, sizeof *sum), *other = clade__new(N, sizeof *other);
  for (int k = 0; sum && other && k < TIMES; k++) {
    const double start = clade__now();
    for (int i = 0; i < N; i++) sum[i] += other[i];
    seconds[k] = clade__now() - start;
    other[0] = sum[N - 1] + 1; /* keeps the compiler from dropping passes */
  }
  clade_status status = sum && other ? CLADE_OK : CLADE_NO_MEMORY;
  if (status == CLADE_OK) *bytes_per_second = N * sizeof *sum / bench_stat_of(TIMES, seconds).median;
  clade__free(sum);
  clade__free(other);
  return status;
}

/* ---- messages ---- */
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

static clade_status pair(clade_comm *comm, int peer, char *out, char *in, scale_peer *found) {
  double seconds[SMALL_TIMES];
  for (int i = -2; i < SMALL_TIMES; i++) { /* the first messages open the connection */
    const double start = clade__now();
    CLADE_TRY(bounce(comm, peer, out));
    if (i >= 0) seconds[i] = clade__now() - start;
  }
  found->rank = peer;
  found->latency = bench_stat_of(SMALL_TIMES, seconds).median / 2;
  for (int i = -1; i < LARGE_TIMES; i++) {
    const double start = clade__now();
    CLADE_TRY(both(comm, peer, out, in));
    if (i >= 0) seconds[i] = clade__now() - start;
  }
  found->bandwidth = LARGE / bench_stat_of(LARGE_TIMES, seconds).median;
  return CLADE_OK;
}

clade_status scale_peers(clade_comm *comm, scale_peer *peers) {
  scale_peer mine;
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

/* ---- sums in a graph ---- */
static clade_status sum_side(const bench_job *job, clade_comm *comm, int channel, size_t bytes, const float *data,
                             bench_side *side) {
  bench_clade *c = clade__new(1, sizeof *c);
  if (!c) return CLADE_NO_MEMORY;
  const clade_shape shape = CLADE_SHAPE((int64_t)(bytes / sizeof(float)));
  c->out = (clade_type){.dtype = CLADE_F32, .shape = shape};
  c->out_elements = bytes / sizeof(float);
  clade_status status = clade_graph_new(&c->graph);
  if (status == CLADE_OK) {
    clade_val x = bench_variable(c, "x", CLADE_F32, shape, data, BENCH_OPERAND);
    status = clade__all_reduce(c->graph, comm, channel, CLADE_F32, 1, &x);
    clade_output(c->graph, "y0", x);
  }
  clade_status made = bench_clade_side(job, c, side);
  return status == CLADE_OK ? made : status;
}

static clade_status turn(clade_comm *comm, bench_side *side, int round) {
  CLADE_TRY(clade_comm_barrier(comm));
  clade__comm_be_patient(comm, 1); /* all ranks have finished compiling: timeouts count again */
  const double start = clade__now();
  CLADE_TRY(side->call(side->state));
  if (round >= 0) side->seconds[round] = clade__now() - start;
  return CLADE_OK;
}

/* Measures a sum by Clade and, with a channel, by the communicator's own all-reduce, in turns. */
static clade_status sum_of(const bench_job *job, clade_comm *comm, int channel, const float *data, scale_sum *sum) {
  enum { CLADE, CARRIER, SIDES };
  bench_side sides[SIDES] = {{0}};
  const int n = channel ? SIDES : CARRIER, rounds = (int)job->rounds;
  clade_status status = CLADE_OK;
  clade__comm_be_patient(comm, 0);
  for (int k = 0; k < n && status == CLADE_OK; k++)
    status = sum_side(job, comm, k == CARRIER ? channel : 0, sum->bytes, data, &sides[k]);
  for (int i = -n; i < n * rounds && status == CLADE_OK; i++)
    status = turn(comm, &sides[(i + n) % n], i < 0 ? -1 : i / n);
  sum->seconds = bench_stat_of(status == CLADE_OK ? rounds : 0, sides[CLADE].seconds);
  sum->carrier = bench_stat_of(status == CLADE_OK && channel ? rounds : 0, sides[CARRIER].seconds);
  bench_sides_free(n, sides);
  return status;
}

clade_status scale_sums(const bench_job *job, clade_comm *comm, scale_sum sums[SCALE_SUMS]) {
  static const size_t sizes[SCALE_SUMS] = {4, 64 << 10, 1 << 20, 8 << 20, 64 << 20};
  float *data = clade__new(sizes[SCALE_SUMS - 1], 1);
  clade_status status = data ? CLADE_OK : CLADE_NO_MEMORY;
  int channel = 0;
  if (status == CLADE_OK && clade__comm_sums(comm)) status = clade__comm_open_channel(comm, &channel);
  for (int i = 0; i < SCALE_SUMS && status == CLADE_OK; i++) {
    sums[i].bytes = sizes[i];
    status = sum_of(job, comm, channel, data, &sums[i]);
  }
  clade__free(data);
  return status;
}
