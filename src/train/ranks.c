/* Agreement of ranks that train together, and distribution of rank 0's state. */
#include <stdio.h>

#include "base/json.h"
#include "comm/comm.h"
#include "train/course.h"

enum { WHY_BYTES = 512 };

const char *clade__train_reduced_by(const clade__training *tr) {
  return tr->grid.data > 1 && tr->t.reduce ? clade__comm_carrier(tr->t.comm) : "clade";
}

/* Text with everything that must be equal on all ranks. */
static clade_status agreement(const clade__training *tr, char **text) {
  json_t *root = json_pack("{s:s, s:b, s:b, s:b, s:s, s:o, s:o, s:I, s:I, s:I}", "shard", clade_shard_name(tr->t.shard),
                           "split_auto", tr->t.split_auto, "precision_auto", tr->t.precision_auto, "link_auto",
                           tr->t.link_auto, "version", clade_version(), "course", clade__train_course(tr), "settings",
                           clade__train_settings(tr), "steps", (json_int_t)tr->steps, "checkpoint_steps",
                           (json_int_t)tr->t.checkpoint_steps, "memory", (json_int_t)tr->t.parallel_memory);
  clade_status status = clade__json_print(root, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17), text);
  json_decref(root);
  return status;
}

static void differs(const char *name, const json_t *first, const json_t *mine, char *why) {
  char *a = json_dumps(first, JSON_ENCODE_ANY | JSON_COMPACT), *b = json_dumps(mine, JSON_ENCODE_ANY | JSON_COMPACT);
  snprintf(why, WHY_BYTES, "%s is %.100s on rank 0 and %.100s", name, a ? a : "nothing", b ? b : "nothing");
  free(a);
  free(b);
}

/* Finds the first difference between two objects, also in nested ones. */
static void compare(const json_t *first, const json_t *mine, char *why) {
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)first, name, value) {
    const json_t *other = json_object_get(mine, name);
    if (*why || json_equal(value, other)) continue;
    if (json_is_object(value) && json_is_object(other))
      compare(value, other, why);
    else
      differs(name, value, other, why);
  }
}

/* Broadcasts rank 0's text; *first is to be freed. */
static clade_status first_text(clade__training *tr, const char *mine, char **first) {
  uint64_t bytes = strlen(mine) + 1;
  CLADE_TRY(clade_comm_broadcast(tr->t.comm, 0, &bytes, sizeof bytes));
  *first = bytes <= 1 << 20 ? clade__new((size_t)bytes, 1) : NULL;
  if (!*first) return CLADE_NO_MEMORY;
  if (!tr->rank) memcpy(*first, mine, (size_t)bytes);
  CLADE_TRY(clade_comm_broadcast(tr->t.comm, 0, *first, (size_t)bytes));
  (*first)[bytes - 1] = 0;
  return CLADE_OK;
}

/* why: the difference that this rank found, or "". All ranks fail if one found a difference. */
static clade_status judge(clade__training *tr, char why[WHY_BYTES]) {
  char *all = clade__new((size_t)tr->ranks, WHY_BYTES);
  int bad = 0;
  if (!all) return CLADE_NO_MEMORY;
  clade_status status = clade_comm_gather(tr->t.comm, 0, why, WHY_BYTES, all);
  for (int i = 1; i < tr->ranks && !tr->rank && !bad; i++)
    if (all[(size_t)i * WHY_BYTES]) bad = i;
  if (status == CLADE_OK) status = clade_comm_broadcast(tr->t.comm, 0, &bad, sizeof bad);
  if (status == CLADE_OK && bad && !tr->rank)
    status = CLADE_FAIL(INVALID, "clade_train: ranks do not train the same: %.300s on rank %d",
                        all + (size_t)bad * WHY_BYTES, bad);
  else if (status == CLADE_OK && bad)
    status = CLADE_FAIL(INVALID, "clade_train: ranks do not train the same: rank %d differs from rank 0", bad);
  clade__free(all);
  return status;
}

clade_status clade__train_agree(clade__training *tr) {
  char *mine = NULL, *first = NULL, why[WHY_BYTES] = "";
  clade_status status;
  clade__comm_be_patient(tr->t.comm, 0); /* no timeouts until all ranks have compiled and met after the first step */
  if (!*tr->fingerprint) CLADE_GOTO(clade__train_fingerprint(tr));
  CLADE_GOTO(agreement(tr, &mine));
  CLADE_GOTO(first_text(tr, mine, &first));
  if (strcmp(mine, first) != 0) {
    json_t *a = clade__json_load_text(first), *b = clade__json_load_text(mine);
    compare(a, b, why);
    json_decref(a);
    json_decref(b);
  }
  CLADE_GOTO(judge(tr, why));
fail:
  clade__free(mine);
  clade__free(first);
  return status;
}

/* Broadcasts a variable from the first of these ranks. */
static clade_status share_variable(clade__training *tr, clade_comm *comm, const char *name, size_t bytes) {
  void *data = clade__new(CLADE_MAX(bytes, (size_t)1), 1);
  const bool first = !clade_comm_rank(comm);
  clade_status status = CLADE_NO_MEMORY;
  CLADE_GOTO(data ? CLADE_OK : CLADE_NO_MEMORY);
  if (first) CLADE_GOTO(clade_vars_get(tr->vars, name, data, bytes));
  CLADE_GOTO(clade_comm_broadcast(comm, 0, data, bytes));
  if (!first) CLADE_GOTO(clade_vars_set(tr->vars, name, data, bytes));
fail:
  clade__free(data);
  return status;
}

clade_status clade__train_meet(clade__training *tr) {
  if (tr->ranks == 1) return CLADE_OK;
  const bool begins = tr->at == tr->begun_at + 1; /* others may still compile */
  clade__comm_be_patient(tr->t.comm, begins ? 0 : tr->rank ? CLADE__RANK_0_ALONE : 1);
  clade_status status = clade_comm_barrier(tr->t.comm);
  clade__comm_be_patient(tr->t.comm, 1);
  return status;
}

/* A variable that is not cut is equal on all tensor ranks to the bit; every variable is equal on ranks that share a
 * batch. */
static clade_status share(clade__training *tr, int index) {
  clade_port_info info = {.size = sizeof info};
  clade_part part = {.size = sizeof part};
  size_t bytes;
  CLADE_TRY(clade_vars_describe(tr->vars, index, &info));
  CLADE_TRY(clade_vars_part(tr->vars, info.name, &part));
  CLADE_TRY(clade_type_bytes(&info.type, &bytes));
  if (!clade__train_is_everywhere(tr, info.name)) return CLADE_OK;
  if (tr->tensor_ranks && !part.is_part) CLADE_TRY(share_variable(tr, tr->tensor_ranks, info.name, bytes));
  return tr->data_ranks ? share_variable(tr, tr->data_ranks, info.name, bytes) : CLADE_OK;
}

clade_status clade__train_join(clade__training *tr) {
  CLADE_TRY(clade_comm_broadcast(tr->t.comm, 0, &tr->at, sizeof tr->at));
  CLADE_TRY(clade_comm_broadcast(tr->t.comm, 0, &tr->skipped, sizeof tr->skipped));
  CLADE_TRY(clade_comm_broadcast(tr->t.comm, 0, &tr->resumed, sizeof tr->resumed));
  tr->saves = tr->directory;
  CLADE_TRY(clade_comm_broadcast(tr->t.comm, 0, &tr->saves, sizeof tr->saves));
  tr->begun_at = tr->at;
  CLADE_TRY(clade__train_hand_out(tr));
  for (int i = 0; i < clade_vars_count(tr->vars); i++) CLADE_TRY(share(tr, i));
  return CLADE_OK;
}
