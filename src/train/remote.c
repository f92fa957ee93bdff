/* The optimizer's state that ranks share out among them: what rank 0 does not have, and how it comes into checkpoints
 * and out of them. A message of each variable goes to or from rank 0, in the order of names. */
#include <stdlib.h>

#include "comm/comm.h"
#include "train/internal.h"

/* The step and the rate are on all ranks. */
static bool is_state(const char *name) {
  return !strncmp(name, CLADE__OPTIMIZER, strlen(CLADE__OPTIMIZER)) && strchr(name, ':');
}

bool clade__train_is_shared_out(const clade__training *tr, const char *name) {
  return tr->ranks > 1 && tr->t.shard != CLADE_SHARD_NONE && is_state(name);
}

/* ---- who has what ---- */
static int by_name(const void *a, const void *b) {
  return strcmp(((const clade__foreign_var *)a)->name, ((const clade__foreign_var *)b)->name);
}

/* This rank's own, to be freed. */
static clade_status list_own(const clade__training *tr, clade__foreign_var **out, int *n) {
  *n = 0;
  *out = clade__new((size_t)clade_vars_count(tr->vars), sizeof **out);
  if (!*out) return CLADE_NO_MEMORY;
  for (int i = 0; i < clade_vars_count(tr->vars); i++) {
    clade_port_info info = {.size = sizeof info};
    CLADE_TRY(clade_vars_describe(tr->vars, i, &info));
    if (!clade__train_is_shared_out(tr, info.name)) continue;
    clade__foreign_var *var = &(*out)[(*n)++];
    *var = (clade__foreign_var){.type = info.type, .owner = tr->rank};
    if (strlen(info.name) >= sizeof var->name)
      return CLADE_FAIL(INVALID, "variable %.64s…: a name has at most %zu bytes", info.name, sizeof var->name - 1);
    memcpy(var->name, info.name, strlen(info.name));
  }
  if (*n) qsort(*out, (size_t)*n, sizeof **out, by_name);
  return CLADE_OK;
}

static clade_status take_lists(clade__training *tr, const int *counts) {
  clade__foreign *f = &tr->foreign;
  size_t n = 0;
  for (int i = 1; i < tr->ranks; i++) n += (size_t)counts[i];
  f->at = clade__new(n, sizeof *f->at);
  if (!f->at) return CLADE_NO_MEMORY;
  for (int i = 1; i < tr->ranks; f->n += counts[i++])
    if (counts[i]) CLADE_TRY(clade__comm_get(tr->t.comm, i, f->at + f->n, (size_t)counts[i] * sizeof *f->at));
  return CLADE_OK;
}

static clade_status exchange_lists(clade__training *tr, const clade__foreign_var *own, int n) {
  int *counts = clade__new((size_t)tr->ranks, sizeof *counts);
  clade_status status = counts ? CLADE_OK : CLADE_NO_MEMORY;
  if (status == CLADE_OK) status = clade_comm_gather(tr->t.comm, 0, &n, sizeof n, counts);
  if (status == CLADE_OK && !tr->rank) status = take_lists(tr, counts);
  if (status == CLADE_OK && tr->rank && n) status = clade__comm_put(tr->t.comm, 0, own, (size_t)n * sizeof *own);
  clade__free(counts);
  return status;
}

static clade_status count_bytes(clade__training *tr) {
  int64_t own = 0;
  for (int i = 0; i < clade_vars_count(tr->vars); i++) {
    clade_port_info info = {.size = sizeof info};
    size_t bytes;
    CLADE_TRY(clade_vars_describe(tr->vars, i, &info));
    CLADE_TRY(clade_type_bytes(&info.type, &bytes));
    if (is_state(info.name)) own += (int64_t)bytes;
  }
  tr->optimizer_bytes = clade__new((size_t)tr->ranks, sizeof own);
  if (!tr->optimizer_bytes) return CLADE_NO_MEMORY;
  if (tr->ranks > 1) return clade_comm_gather(tr->t.comm, 0, &own, sizeof own, tr->optimizer_bytes);
  tr->optimizer_bytes[0] = own;
  return CLADE_OK;
}

static clade_status receive(void *user, const clade__foreign_var *var, void *data, size_t bytes) {
  return clade__comm_get(user, var->owner, data, bytes);
}

clade_status clade__train_find_foreign(clade__training *tr) {
  clade__foreign_var *own = NULL;
  clade_status status;
  int n = 0;
  tr->foreign.read = receive;
  tr->foreign.user = tr->t.comm;
  CLADE_GOTO(count_bytes(tr));
  if (tr->ranks == 1 || tr->t.shard == CLADE_SHARD_NONE) goto fail; /* all have all */
  CLADE_GOTO(list_own(tr, &own, &n));
  CLADE_GOTO(exchange_lists(tr, own, n));
fail:
  clade__free(own);
  return status;
}

/* ---- from rank 0, and to it ---- */
static clade_status move_one(clade__training *tr, const clade__foreign_var *var, bool in, void *room) {
  size_t bytes;
  CLADE_TRY(clade_type_bytes(&var->type, &bytes));
  if (in) CLADE_TRY(clade_vars_get(tr->vars, var->name, room, bytes));
  CLADE_TRY((in ? clade__comm_put(tr->t.comm, 0, room, bytes) : clade__comm_get(tr->t.comm, 0, room, bytes)));
  return in ? CLADE_OK : clade_vars_set(tr->vars, var->name, room, bytes);
}

static clade_status move_own(clade__training *tr, bool in) {
  clade__foreign_var *own = NULL;
  clade_status status;
  void *room = NULL;
  size_t largest = 1, bytes;
  int n = 0;
  CLADE_GOTO(list_own(tr, &own, &n));
  for (int i = 0; i < n; i++) {
    CLADE_GOTO(clade_type_bytes(&own[i].type, &bytes));
    largest = CLADE_MAX(largest, bytes);
  }
  CLADE_GOTO((room = clade__new(largest, 1)) ? CLADE_OK : CLADE_NO_MEMORY);
  for (int i = 0; i < n; i++) CLADE_GOTO(move_one(tr, &own[i], in, room));
fail:
  clade__free(own);
  clade__free(room);
  return status;
}

clade_status clade__train_hand_out(clade__training *tr) {
  if (!tr->resumed || tr->ranks == 1 || tr->t.shard == CLADE_SHARD_NONE) return CLADE_OK; /* zeros, as on all */
  if (tr->rank) return move_own(tr, false);
  for (int i = 0; i < tr->foreign.n; i++) {
    const clade__foreign_var *var = &tr->foreign.at[i];
    const void *data;
    size_t bytes;
    CLADE_TRY(clade_type_bytes(&var->type, &bytes));
    CLADE_TRY(clade__checkpoint_find(tr->checkpoint, var->name, &var->type, &data));
    CLADE_TRY(clade__comm_put(tr->t.comm, var->owner, data, bytes));
  }
  return CLADE_OK;
}

clade_status clade__train_hand_in(clade__training *tr) {
  if (!tr->saves || !tr->rank || tr->t.shard == CLADE_SHARD_NONE) return CLADE_OK;
  clade__comm_be_patient(tr->t.comm, CLADE__RANK_0_ALONE); /* which may test before */
  const clade_status status = move_own(tr, true);
  clade__comm_be_patient(tr->t.comm, 1);
  return status;
}
