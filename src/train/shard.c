/* Sharding over ranks: which rank owns which parameter, and gathering the updated ones. */
#include <stdlib.h>

#include "train/task.h"

static const char *const names[] = {"none", "optimizer", "gradients"};

const char *clade_shard_name(clade_shard shard) {
  return shard >= 0 && (size_t)shard < CLADE_COUNT(names) ? names[shard] : "?";
}

clade_status clade__shard_check(clade_shard shard) {
  if (shard >= 0 && (size_t)shard < CLADE_COUNT(names)) return CLADE_OK;
  return CLADE_FAIL(INVALID, ".shard is %d; expected none, optimizer or gradients", (int)shard);
}

bool clade__task_shards(const clade__task *t, clade_shard from) {
  return t->opt->shard >= from && clade_comm_size(t->opt->comm) > 1;
}

typedef struct sized {
  size_t bytes;
  int place;
} sized;

static int largest_first(const void *a, const void *b) {
  const sized *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return x->place - y->place;
}

static int least(int ranks, const size_t *load) {
  int best = 0;
  for (int r = 1; r < ranks; r++)
    if (load[r] < load[best]) best = r;
  return best;
}

/* Greedy: the largest parameter goes to the rank with the smallest load. All ranks have the same list, hence the
 * same result. */
clade_status clade__shard_owners(int n, const size_t *bytes, int ranks, int *owners) {
  sized *order = clade__new((size_t)n, sizeof *order);
  size_t *load = clade__new((size_t)ranks, sizeof *load);
  const clade_status status = order && load ? CLADE_OK : CLADE_NO_MEMORY;
  for (int i = 0; i < n && status == CLADE_OK; i++) order[i] = (sized){bytes[i], i};
  if (status == CLADE_OK) qsort(order, (size_t)n, sizeof *order, largest_first);
  for (int i = 0; i < n && status == CLADE_OK; i++) {
    const int rank = least(ranks, load);
    load[rank] += order[i].bytes;
    owners[order[i].place] = rank;
  }
  clade__free(order);
  clade__free(load);
  return status;
}

/* Assigns the parameters on the device of parameter `first`. at[], bytes[] and owners[] have room for all. */
static clade_status share_out(clade__task *t, int first, int *at, size_t *bytes, int *owners) {
  const int device = clade__task_device(t, t->parameters[first]);
  int n = 0;
  for (int i = first; i < t->n; i++)
    if (clade__task_device(t, t->parameters[i]) == device) {
      bytes[n] = clade__task_bytes(t, t->parameters[i]);
      at[n++] = i;
    }
  CLADE_TRY(clade__shard_owners(n, bytes, clade_comm_size(t->opt->comm), owners));
  for (int k = 0; k < n; k++) t->owners[at[k]] = owners[k];
  return CLADE_OK;
}

/* Each device separately: it may be a stage of a model, whose ranks share its parameters. */
clade_status clade__task_find_owners(clade__task *t) {
  size_t *bytes = clade__new((size_t)t->n, sizeof *bytes);
  int *at = clade__new(2 * (size_t)t->n, sizeof *at);
  clade_status status = bytes && at ? CLADE_OK : CLADE_NO_MEMORY;
  for (int i = 0; i < t->n && status == CLADE_OK; i++) {
    int earlier = 0;
    while (clade__task_device(t, t->parameters[earlier]) != clade__task_device(t, t->parameters[i])) earlier++;
    if (earlier == i) status = share_out(t, i, at, bytes, at + t->n);
  }
  clade__free(bytes);
  clade__free(at);
  return status;
}

void clade__task_keep_own(clade__task *t) {
  const int rank = clade_comm_rank(t->opt->comm);
  int own = 0;
  memcpy(t->all, t->parameters, (size_t)t->n * sizeof *t->all);
  memcpy(t->all_owners, t->owners, (size_t)t->n * sizeof *t->owners);
  t->n_all = t->n;
  for (int i = 0; i < t->n; i++) {
    if (t->owners[i] != rank) continue;
    t->parameters[own] = t->parameters[i];
    t->gradients[own] = t->gradients[i];
    t->names[own++] = t->names[i];
  }
  t->n = own;
}

/* Input of the gather: the new value of an own parameter; of others the old value, which has the right type. */
static clade_val known(const clade__task *t, int i) {
  for (int k = 0; k < t->n; k++)
    if (t->parameters[k].id == t->all[i].id) return t->new_parameters[k];
  return t->all[i];
}

static clade_status gather(clade__task *t, int first, int n) {
  clade_val values[CLADE_ALL_REDUCE_MOST];
  for (int i = 0; i < n; i++) values[i] = known(t, first + i);
  t->g->device = clade__task_device(t, t->all[first]);
  CLADE_TRY(clade_all_gather(t->g, t->opt->comm, n, t->all_owners + first, values));
  for (int i = 0; i < n; i++)
    if (t->all_owners[first + i] != clade_comm_rank(t->opt->comm)) clade_assign(t->g, t->all[first + i], values[i]);
  return clade_graph_status(t->g);
}

/* In order of the parameters, beginning with a small collective: the next step starts with the first parameters
 * while the others are still in transit. */
clade_status clade__task_gather(clade__task *t) {
  for (int first = 0, n, last = -1; first < t->n_all; first += n) {
    const int device = clade__task_device(t, t->all[first]);
    const size_t most = device == last ? CLADE__BUCKET : CLADE__FIRST_BUCKET;
    size_t bytes = 0;
    last = device;
    for (n = 0; first + n < t->n_all && n < CLADE_ALL_REDUCE_MOST && bytes < most; n++) {
      if (clade__task_device(t, t->all[first + n]) != device) break;
      bytes += clade__task_bytes(t, t->all[first + n]);
    }
    CLADE_TRY(gather(t, first, n));
  }
  return CLADE_OK;
}
