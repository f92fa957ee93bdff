/* Groups: communicators of some ranks of another one, over the job's transport. Splitting needs no communication.
 * Messages of different groups between two ranks are separated by tags, numbered by how many groups both ranks
 * share; all ranks of a group split in the same order, so both know this number. */
#include <limits.h>
#include <stdio.h>

#include "comm/comm.h"

typedef struct group {
  clade_comm *parent, *job;
  int *rank, *tag; /* by rank of the group: rank in the job, and first tag of messages with it */
  char text[256];  /* message of the last failure, copied since another thread may overwrite the transport's */
} group;

/* ---- transport, under the group's lock ---- */
static clade_status told(group *g, clade_status status) {
  const clade_comm_impl *impl = &g->job->impl;
  const char *text = status && impl->error ? impl->error(g->job->user) : NULL;
  snprintf(g->text, sizeof g->text, "%s", text ? text : "");
  return status;
}

static clade_status send(void *user, int to, int tag, const void *data, size_t bytes, void **request) {
  group *g = user;
  pthread_mutex_lock(&g->job->lock);
  clade_status status = told(g, g->job->impl.send(g->job->user, g->rank[to], g->tag[to] + tag, data, bytes, request));
  pthread_mutex_unlock(&g->job->lock);
  return status;
}

static clade_status receive(void *user, int from, int tag, void *data, size_t bytes, void **request) {
  group *g = user;
  pthread_mutex_lock(&g->job->lock);
  clade_status status =
      told(g, g->job->impl.receive(g->job->user, g->rank[from], g->tag[from] + tag, data, bytes, request));
  pthread_mutex_unlock(&g->job->lock);
  return status;
}

static clade_status test(void *user, void *request, bool *done) {
  group *g = user;
  pthread_mutex_lock(&g->job->lock);
  clade_status status = told(g, g->job->impl.test(g->job->user, request, done));
  pthread_mutex_unlock(&g->job->lock);
  return status;
}

static void cancel(void *user, void *request) {
  group *g = user;
  pthread_mutex_lock(&g->job->lock);
  g->job->impl.cancel(g->job->user, request);
  pthread_mutex_unlock(&g->job->lock);
}

static const char *why(void *user) { return ((const group *)user)->text; }

static void free_group(group *g) {
  clade__free(g->rank);
  clade__free(g->tag);
  clade__free(g);
}

static void release(void *user) {
  group *g = user;
  clade_comm_release(g->parent);
  free_group(g);
}

/* ---- clade_comm_split ---- */
static clade_status check(const clade_comm *comm, int n, const int *ranks, int *own) {
  *own = -1;
  if (!comm) return CLADE_FAIL(INVALID, "clade_comm_split: the communicator is NULL");
  if (n < 1 || n > comm->size || !ranks)
    return CLADE_FAIL(INVALID, "clade_comm_split: %d ranks of %d%s", n, comm->size, ranks ? "" : ", which are NULL");
  for (int i = 0; i < n; i++) {
    if (ranks[i] < 0 || ranks[i] >= comm->size)
      return CLADE_FAIL(INVALID, "clade_comm_split: ranks[%d] is rank %d of %d", i, ranks[i], comm->size);
    for (int k = 0; k < i; k++)
      if (ranks[k] == ranks[i])
        return CLADE_FAIL(INVALID, "clade_comm_split: ranks[%d] and ranks[%d] are both rank %d", k, i, ranks[i]);
    if (ranks[i] == comm->rank) *own = i;
  }
  if (*own >= 0) return CLADE_OK;
  return CLADE_FAIL(INVALID, "clade_comm_split: rank %d, which calls, is not among the %d ranks", comm->rank, n);
}

/* Limits the job's tags, since those of groups follow. */
static clade_status limit_job(clade_comm *job) {
  enum { MOST = (CLADE__COMM_TAGS - CLADE__COMM_TAG - 1) / CLADE__COMM_TURNS };
  if (job->next_series > MOST)
    return CLADE_FAIL(OVERFLOW,
                      "clade_comm_split: %d collectives in graphs of the communicator; split it before the %dth",
                      job->next_series, (int)MOST);
  if (!job->splits) job->splits = clade__new((size_t)job->size, sizeof *job->splits);
  if (!job->splits) return CLADE_NO_MEMORY;
  job->most_series = MOST;
  return CLADE_OK;
}

static clade_status find_members(group *g, int n, const int *ranks) {
  g->rank = clade__new((size_t)n, sizeof *g->rank);
  g->tag = clade__new((size_t)n, sizeof *g->tag);
  if (!g->rank || !g->tag) return CLADE_NO_MEMORY;
  for (int i = 0; i < n; i++) {
    const int rank = g->rank[i] = clade__comm_job_rank(g->parent, ranks[i]), both = g->job->splits[rank] + 1;
    if (both >= INT_MAX / CLADE__COMM_TAGS)
      return CLADE_FAIL(OVERFLOW, "clade_comm_split: ranks %d and %d are both in %d groups; no more are possible",
                        g->job->rank, rank, both - 1);
    g->tag[i] = both * CLADE__COMM_TAGS;
  }
  return CLADE_OK;
}

static clade_status new_group(group *g, int own, int n, const int *ranks, clade_comm **out) {
  const clade_comm_impl impl = {.size = sizeof impl,
                                .name = g->job->impl.name,
                                .send = send,
                                .receive = receive,
                                .test = test,
                                .cancel = cancel,
                                .error = why,
                                .release = release};
  CLADE_TRY(limit_job(g->job));
  CLADE_TRY(find_members(g, n, ranks));
  CLADE_TRY(clade_comm_new(&impl, g, own, n, out));
  for (int i = 0; i < n; i++) g->job->splits[g->rank[i]]++;
  (*out)->parent = clade_comm_retain(g->parent);
  (*out)->job_ranks = g->rank;
  (*out)->most_series = g->job->most_series;
  return CLADE_OK;
}

clade_status clade_comm_split(clade_comm *comm, int n, const int *ranks, clade_comm **out) {
  int own;
  if (!out) return CLADE_FAIL(INVALID, "clade_comm_split: there is no place for the communicator (NULL)");
  *out = NULL;
  CLADE_TRY(check(comm, n, ranks, &own));
  group *g = clade__new(1, sizeof *g);
  if (!g) return CLADE_NO_MEMORY;
  g->parent = comm;
  g->job = clade__comm_job(comm);
  clade_status status = new_group(g, own, n, ranks, out);
  if (status != CLADE_OK) free_group(g);
  return status;
}
