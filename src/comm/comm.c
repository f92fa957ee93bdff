/* Communicators: the transport's calls, timeouts for other ranks, and blocking calls. */
#include "comm/comm.h"

#include <limits.h>
#include <sched.h>
#include <time.h>

static const double PATIENCE = 60;
static const long PAUSE_NS = 50000;

/* ---- communicators of this process, by number ---- */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static clade_comm **all;
static size_t n_all, capacity;

static clade_status number(clade_comm *comm) {
  pthread_mutex_lock(&all_lock);
  clade_status status = clade__grow(&all, &capacity, n_all + 1, sizeof(clade_comm *));
  if (status == CLADE_OK) {
    all[n_all++] = comm;
    comm->number = (int)n_all;
  }
  pthread_mutex_unlock(&all_lock);
  return status;
}

clade_comm *clade__comm_numbered(int which) {
  pthread_mutex_lock(&all_lock);
  clade_comm *comm = which > 0 && (size_t)which <= n_all ? clade_comm_retain(all[which - 1]) : NULL;
  pthread_mutex_unlock(&all_lock);
  return comm;
}

/* ---- creation and destruction ---- */
clade_status clade_comm_new(const clade_comm_impl *impl, void *user, int rank, int size, clade_comm **out) {
  if (!out) return CLADE_FAIL(INVALID, "clade_comm_new: there is no place for the communicator (NULL)");
  *out = NULL;
  if (!impl || impl->size < sizeof impl->size)
    return CLADE_FAIL(INVALID, "clade_comm_new: the implementation is %s", impl ? "without a size" : "NULL");
  if (size < 1 || rank < 0 || rank >= size) return CLADE_FAIL(INVALID, "clade_comm_new: rank %d of %d", rank, size);
  clade_comm *comm = clade__new(1, sizeof *comm);
  if (!comm) return CLADE_NO_MEMORY;
  memcpy(&comm->impl, impl, CLADE_MIN(impl->size, sizeof comm->impl));
  clade_status status = CLADE_OK;
  if (!comm->impl.name || !comm->impl.send || !comm->impl.receive || !comm->impl.test || !comm->impl.cancel)
    status = CLADE_FAIL(INVALID, "clade_comm_new: the implementation lacks a name, send, receive, test or cancel");
  if (status == CLADE_OK) status = number(comm);
  if (status != CLADE_OK) {
    clade__free(comm);
    return status;
  }
  comm->user = user;
  comm->rank = rank;
  comm->size = size;
  comm->timeout = PATIENCE;
  comm->patience = 1;
  comm->most_series = (INT_MAX - CLADE__COMM_TAG) / CLADE__COMM_TURNS - 1;
  clade__ref_init(&comm->ref);
  pthread_mutex_init(&comm->lock, NULL);
  *out = comm;
  return CLADE_OK;
}

clade_comm *clade_comm_retain(clade_comm *comm) {
  if (comm) clade__ref_up(&comm->ref);
  return comm;
}

void clade_comm_release(clade_comm *comm) {
  if (!comm) return;
  pthread_mutex_lock(&all_lock); /* so that it cannot be looked up meanwhile */
  bool last = clade__ref_down(&comm->ref);
  if (last) all[comm->number - 1] = NULL;
  pthread_mutex_unlock(&all_lock);
  if (!last) return;
  while (comm->n_channels) comm->impl.close_channel(comm->user, comm->channels[--comm->n_channels]);
  if (comm->impl.release) comm->impl.release(comm->user);
  clade__free(comm->channels);
  clade__free(comm->splits);
  clade__free(comm->turns);
  pthread_mutex_destroy(&comm->lock);
  clade__free(comm);
}

int clade_comm_rank(const clade_comm *comm) { return comm ? comm->rank : 0; }
int clade_comm_size(const clade_comm *comm) { return comm ? comm->size : 1; }

clade_comm *clade__comm_job(clade_comm *comm) {
  while (comm->parent) comm = comm->parent;
  return comm;
}

int clade__comm_job_rank(const clade_comm *comm, int rank) { return comm->parent ? comm->job_ranks[rank] : rank; }

/* A series of point-to-point messages is counted per pair of ranks and direction; collectives, which count alike on
 * all ranks, use the counter of rank 0. */
static size_t turn_of(const clade_comm *comm, int series, int peer, bool receives) {
  return ((size_t)series * (size_t)comm->size + (size_t)peer) * 2 + receives;
}

clade_status clade__comm_reserve(clade_comm *comm, int n, int *first) {
  if (!comm) return CLADE_FAIL(INVALID, "messages between ranks: the communicator is NULL");
  if (n < 0 || n > comm->most_series - comm->next_series)
    return CLADE_FAIL(OVERFLOW,
                      "%d collectives or messages more, after %d in graphs of this communicator; %d in all "
                      "are possible",
                      n, comm->next_series, comm->most_series);
  pthread_mutex_lock(&comm->lock);
  const size_t from = turn_of(comm, comm->next_series, 0, false), to = turn_of(comm, comm->next_series + n, 0, false);
  const clade_status status = clade__grow(&comm->turns, &comm->turn_capacity, to, sizeof *comm->turns);
  if (status == CLADE_OK) memset(comm->turns + from, 0, (to - from) * sizeof *comm->turns);
  *first = comm->next_series;
  if (status == CLADE_OK) comm->next_series += n;
  pthread_mutex_unlock(&comm->lock);
  return status;
}

int clade__comm_take_tag(clade_comm *comm, int series, int peer, bool receives) {
  pthread_mutex_lock(&comm->lock);
  const unsigned turn = comm->turns[turn_of(comm, series, peer, receives)]++;
  pthread_mutex_unlock(&comm->lock);
  return clade__comm_tag(series, turn);
}

clade_status clade_comm_set_timeout(clade_comm *comm, double seconds) {
  if (!comm) return CLADE_FAIL(INVALID, "clade_comm_set_timeout: the communicator is NULL");
  if (!(seconds >= 0)) return CLADE_FAIL(INVALID, "clade_comm_set_timeout: %g s; expected 0 or more", seconds);
  clade__comm_job(comm)->timeout = seconds;
  return CLADE_OK;
}

void clade_comm_abort(clade_comm *comm) { clade_comm_abort_with(comm, 1); }

void clade_comm_abort_with(clade_comm *comm, int exit_status) {
  if (!comm) return;
  comm = clade__comm_job(comm);
  if (comm->impl.abort_with)
    comm->impl.abort_with(comm->user, exit_status);
  else if (comm->impl.abort)
    comm->impl.abort(comm->user);
}

/* ---- statistics ---- */
void clade__comm_enter(clade_comm *comm) {
  for (; comm; comm = comm->parent) {
    pthread_mutex_lock(&comm->lock);
    if (comm->under_way++ == 0) comm->busy_since = clade__now();
    pthread_mutex_unlock(&comm->lock);
  }
}

void clade__comm_leave(clade_comm *comm) {
  for (; comm; comm = comm->parent) {
    pthread_mutex_lock(&comm->lock);
    if (--comm->under_way == 0) comm->stats.busy_seconds += clade__now() - comm->busy_since;
    pthread_mutex_unlock(&comm->lock);
  }
}

void clade__comm_waited(clade_comm *comm, double seconds) {
  for (; comm; comm = comm->parent) {
    pthread_mutex_lock(&comm->lock);
    comm->stats.exposed_seconds += seconds;
    pthread_mutex_unlock(&comm->lock);
  }
}

static void count_bytes(clade_comm *comm, uint64_t sent, uint64_t received) {
  for (; comm; comm = comm->parent) {
    pthread_mutex_lock(&comm->lock);
    comm->stats.sent_bytes += sent;
    comm->stats.received_bytes += received;
    pthread_mutex_unlock(&comm->lock);
  }
}

clade_status clade_comm_get_stats(clade_comm *comm, clade_comm_stats *out) {
  if (!comm) return CLADE_FAIL(INVALID, "clade_comm_get_stats: the communicator is NULL");
  pthread_mutex_lock(&comm->lock);
  clade_comm_stats stats = comm->stats;
  if (comm->under_way) stats.busy_seconds += clade__now() - comm->busy_since;
  pthread_mutex_unlock(&comm->lock);
  return clade__info_give(out, &stats, sizeof stats, "clade_comm_get_stats");
}

/* ---- calls of the transport ---- */
/* A failed connection counts as a lost rank, like a timeout: a restart may succeed. */
static clade_status told(const clade_comm *comm, clade_status status, const char *what, int rank) {
  const char *text = status && comm->impl.error ? comm->impl.error(comm->user) : NULL;
  if (status == CLADE_OK) return CLADE_OK;
  return clade_fail(status == CLADE_IO ? CLADE_LOST : status, "%s: %s rank %d: %s", comm->impl.name, what,
                    clade__comm_job_rank(comm, rank), text && *text ? text : clade_status_text(status));
}

clade_status clade__comm_send(clade_comm *comm, int to, int tag, const void *data, size_t bytes, void **request) {
  pthread_mutex_lock(&comm->lock);
  clade_status status = told(comm, comm->impl.send(comm->user, to, tag, data, bytes, request), "sending to", to);
  pthread_mutex_unlock(&comm->lock);
  if (status == CLADE_OK && tag != CLADE__COMM_TAG) count_bytes(comm, bytes, 0);
  return status;
}

clade_status clade__comm_receive(clade_comm *comm, int from, int tag, void *data, size_t bytes, void **request) {
  pthread_mutex_lock(&comm->lock);
  clade_status status =
      told(comm, comm->impl.receive(comm->user, from, tag, data, bytes, request), "receiving from", from);
  pthread_mutex_unlock(&comm->lock);
  if (status == CLADE_OK && tag != CLADE__COMM_TAG) count_bytes(comm, 0, bytes);
  return status;
}

clade_status clade__comm_test(clade_comm *comm, void **request, bool *done) {
  *done = true;
  if (!*request) return CLADE_OK;
  pthread_mutex_lock(&comm->lock);
  clade_status status = told(comm, comm->impl.test(comm->user, *request, done), "at", comm->rank);
  if (status != CLADE_OK || *done) *request = NULL;
  pthread_mutex_unlock(&comm->lock);
  return status;
}

void clade__comm_cancel(clade_comm *comm, void **request) {
  if (!*request) return;
  pthread_mutex_lock(&comm->lock);
  comm->impl.cancel(comm->user, *request);
  pthread_mutex_unlock(&comm->lock);
  *request = NULL;
}

void clade__comm_be_patient(clade_comm *comm, int times) {
  if (comm) atomic_store(&clade__comm_job(comm)->patience, times);
}

clade_status clade__comm_patience(clade_comm *comm, int rank, double since) {
  const clade_comm *job = clade__comm_job(comm);
  const double waited = clade__now() - since, more = rank == CLADE__SOME_RANK ? 1.5 : 1;
  const int times = atomic_load(&job->patience);
  if (job->timeout == 0 || !times || waited < more * times * job->timeout) return CLADE_OK;
  if (rank == CLADE__SOME_RANK)
    return CLADE_FAIL(LOST, "%s: rank %d of %d has waited for some other rank for %.3g s", job->impl.name, job->rank,
                      job->size, waited);
  return CLADE_FAIL(LOST, "rank %d has not answered rank %d of %d for %.3g s", clade__comm_job_rank(comm, rank),
                    job->rank, job->size, waited);
}

/* ---- the library's own all-reduce ---- */
const char *clade__comm_carrier(const clade_comm *comm) { return comm->impl.name; }

bool clade__comm_sums(const clade_comm *comm) {
  return comm->impl.open_channel && comm->impl.close_channel && comm->impl.all_reduce;
}

static clade_status begin_channel(clade_comm *comm, void **channel, void **request) {
  pthread_mutex_lock(&comm->lock);
  clade_status status = told(comm, comm->impl.open_channel(comm->user, channel, request), "a channel of", comm->rank);
  pthread_mutex_unlock(&comm->lock);
  return status;
}

static clade_status keep_channel(clade_comm *comm, void *channel, int *out) {
  pthread_mutex_lock(&comm->lock);
  clade_status status = clade__grow(&comm->channels, &comm->channel_capacity, comm->n_channels + 1, sizeof(void *));
  if (status == CLADE_OK) {
    comm->channels[comm->n_channels++] = channel;
    *out = (int)comm->n_channels;
  } else {
    comm->impl.close_channel(comm->user, channel);
  }
  pthread_mutex_unlock(&comm->lock);
  return status;
}

clade_status clade__comm_open_channel(clade_comm *comm, int *out) {
  void *channel = NULL, *request = NULL;
  if (!clade__comm_sums(comm))
    return CLADE_FAIL(UNSUPPORTED, "%s has no sums of its own of these %d ranks", comm->impl.name, comm->size);
  CLADE_TRY(begin_channel(comm, &channel, &request));
  CLADE_TRY(clade__comm_wait(comm, CLADE__SOME_RANK, &request, PAUSE_NS));
  return keep_channel(comm, channel, out);
}

clade_status clade__comm_all_reduce(clade_comm *comm, int channel, const float *data, float *sum, size_t n,
                                    void **request) {
  const size_t ranks = (size_t)comm->size, least = 2 * (ranks - 1) * n * sizeof *data / ranks;
  pthread_mutex_lock(&comm->lock);
  void *by = comm->channels[channel - 1];
  clade_status status =
      told(comm, comm->impl.all_reduce(comm->user, by, data, sum, n, request), "a sum of", comm->rank);
  if (status == CLADE_OK) comm->stats.sent_bytes += least;
  if (status == CLADE_OK) comm->stats.received_bytes += least;
  pthread_mutex_unlock(&comm->lock);
  return status;
}

/* ---- blocking calls ---- */
clade_status clade__comm_wait(clade_comm *comm, int rank, void **request, long pause_ns) {
  const double since = clade__now();
  for (bool done = false;;) {
    clade_status status = clade__comm_test(comm, request, &done);
    if (status == CLADE_OK && done) return CLADE_OK;
    if (status == CLADE_OK) status = clade__comm_patience(comm, rank, since);
    if (status != CLADE_OK) {
      clade__comm_cancel(comm, request);
      return status;
    }
    if (pause_ns)
      nanosleep(&(struct timespec){0, pause_ns}, NULL);
    else
      sched_yield(); /* ranks may share a processor */
  }
}

clade_status clade__comm_put(clade_comm *comm, int to, const void *data, size_t bytes) {
  void *request = NULL;
  CLADE_TRY(clade__comm_send(comm, to, CLADE__COMM_TAG, data, bytes, &request));
  return clade__comm_wait(comm, to, &request, PAUSE_NS);
}

clade_status clade__comm_get(clade_comm *comm, int from, void *data, size_t bytes) {
  void *request = NULL;
  CLADE_TRY(clade__comm_receive(comm, from, CLADE__COMM_TAG, data, bytes, &request));
  return clade__comm_wait(comm, from, &request, PAUSE_NS);
}

static clade_status check(const clade_comm *comm, const char *what, int root) {
  if (!comm) return CLADE_FAIL(INVALID, "%s: the communicator is NULL", what);
  if (root >= 0 && root < comm->size) return CLADE_OK;
  return CLADE_FAIL(INVALID, "%s: the root is rank %d of %d", what, root, comm->size);
}

/* Binomial tree over the ranks, numbered from the root. */
clade_status clade_comm_broadcast(clade_comm *comm, int root, void *data, size_t bytes) {
  CLADE_TRY(check(comm, "clade_comm_broadcast", root));
  const int n = comm->size, place = (comm->rank - root + n) % n;
  int distance = 1;
  while (distance < n && !(place & distance)) distance *= 2;
  if (place) CLADE_TRY(clade__comm_get(comm, (place - distance + root) % n, data, bytes));
  for (distance /= 2; distance; distance /= 2)
    if (place + distance < n) CLADE_TRY(clade__comm_put(comm, (place + distance + root) % n, data, bytes));
  return CLADE_OK;
}

clade_status clade_comm_gather(clade_comm *comm, int root, const void *data, size_t bytes, void *to) {
  CLADE_TRY(check(comm, "clade_comm_gather", root));
  if (comm->rank != root) return clade__comm_put(comm, root, data, bytes);
  for (int i = 0; i < comm->size; i++) {
    char *place = (char *)to + (size_t)i * bytes;
    if (i == root && bytes) memcpy(place, data, bytes);
    if (i != root) CLADE_TRY(clade__comm_get(comm, i, place, bytes));
  }
  return CLADE_OK;
}

clade_status clade_comm_barrier(clade_comm *comm) {
  char mark = 0, *marks = comm ? clade__new((size_t)comm->size, 1) : NULL;
  clade_status status = comm && !marks ? CLADE_NO_MEMORY : clade_comm_gather(comm, 0, &mark, 1, marks);
  clade__free(marks);
  return status ? status : clade_comm_broadcast(comm, 0, &mark, 1);
}
