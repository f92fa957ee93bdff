/* The optimizer's state that ranks share out among them: what rank 0 does not have, and how it comes into checkpoints
 * and out of them. A message of each variable goes to or from rank 0, in the order of names. */
#include <stdio.h>
#include <stdlib.h>

#include "comm/comm.h"
#include "train/internal.h"

static bool begins_with(const char *name, const char *first) { return !strncmp(name, first, strlen(first)); }

/* The step and the rate are on all ranks. */
static bool is_state(const char *name) { return begins_with(name, CLADE__OPTIMIZER) && strchr(name, ':'); }

#define ERROR CLADE__LOW_RANK "error."

static bool shares_out(const clade__training *tr) {
  return tr->ranks > 1 && (tr->t.shard != CLADE_SHARD_NONE || tr->t.low_rank);
}

bool clade__train_is_shared_out(const clade__training *tr, const char *name) {
  if (begins_with(name, CLADE__LOW_RANK)) return tr->ranks > 1 && begins_with(name, ERROR); /* bases are on all ranks */
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
  if (!shares_out(tr)) goto fail; /* all have all */
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

/* Room for the largest, to be freed. */
static clade_status room_for(int n, const clade__foreign_var *list, void **room) {
  size_t largest = 1, bytes;
  for (int i = 0; i < n; i++) {
    CLADE_TRY(clade_type_bytes(&list[i].type, &bytes));
    largest = CLADE_MAX(largest, bytes);
  }
  return (*room = clade__new(largest, 1)) ? CLADE_OK : CLADE_NO_MEMORY;
}

static clade_status move_own(clade__training *tr, bool in) {
  clade__foreign_var *own = NULL;
  clade_status status;
  void *room = NULL;
  int n = 0;
  CLADE_GOTO(list_own(tr, &own, &n));
  CLADE_GOTO(room_for(n, own, &room));
  for (int i = 0; i < n; i++) CLADE_GOTO(move_one(tr, &own[i], in, room));
fail:
  clade__free(own);
  clade__free(room);
  return status;
}

/* Of a rank, the errors of the checkpoint's ranks that it stands for: where there are fewer ranks now, none is lost,
 * and where there are more, the others begin with none. */
static clade_status add_errors(const clade__training *tr, const clade__foreign_var *var, float *sum, size_t bytes) {
  memset(sum, 0, bytes);
  for (int rank = var->owner;; rank += tr->ranks) {
    char name[sizeof var->name + 16];
    const void *data;
    snprintf(name, sizeof name, ERROR "%d%s", rank, strchr(var->name, ':'));
    const clade_status status = clade__checkpoint_find(tr->checkpoint, name, &var->type, &data);
    if (status == CLADE_NOT_FOUND) return CLADE_OK;
    CLADE_TRY(status);
    if (rank == var->owner) memcpy(sum, data, bytes); /* a sum would lose the sign of zeros */
    for (size_t i = 0; i < bytes / sizeof *sum && rank != var->owner; i++) sum[i] += ((const float *)data)[i];
  }
}

/* From the checkpoint on rank 0 to whose it is. */
static clade_status hand_out(clade__training *tr, const clade__foreign_var *var, void *room) {
  const void *data = room;
  size_t bytes;
  CLADE_TRY(clade_type_bytes(&var->type, &bytes));
  if (begins_with(var->name, ERROR))
    CLADE_TRY(add_errors(tr, var, room, bytes));
  else
    CLADE_TRY(clade__checkpoint_find(tr->checkpoint, var->name, &var->type, &data));
  return var->owner ? clade__comm_put(tr->t.comm, var->owner, data, bytes)
                    : clade_vars_set(tr->vars, var->name, data, bytes);
}

static clade_status hand_out_all(clade__training *tr) {
  clade__foreign_var *own = NULL;
  clade_status status;
  void *room = NULL;
  int n = 0;
  CLADE_GOTO(list_own(tr, &own, &n));
  CLADE_GOTO(room_for(n, own, &room));
  for (int i = 0; i < n; i++) CLADE_GOTO(hand_out(tr, &own[i], room));
  clade__free(room);
  room = NULL;
  CLADE_GOTO(room_for(tr->foreign.n, tr->foreign.at, &room));
  for (int i = 0; i < tr->foreign.n; i++) CLADE_GOTO(hand_out(tr, &tr->foreign.at[i], room));
fail:
  clade__free(own);
  clade__free(room);
  return status;
}

clade_status clade__train_hand_out(clade__training *tr) {
  if (!tr->resumed || !shares_out(tr)) return CLADE_OK; /* zeros, as on all */
  return tr->rank ? move_own(tr, false) : hand_out_all(tr);
}

clade_status clade__train_hand_in(clade__training *tr) {
  if (!tr->saves || !tr->rank || !shares_out(tr)) return CLADE_OK;
  clade__comm_be_patient(tr->t.comm, CLADE__RANK_0_ALONE); /* which may test before */
  const clade_status status = move_own(tr, true);
  clade__comm_be_patient(tr->t.comm, 1);
  return status;
}
