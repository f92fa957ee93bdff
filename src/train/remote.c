/* State of a training that is distributed over ranks: variables of other stages, parts of layers, sharded optimizer
 * state. Rank 0 knows which rank has what. It requests parts while it writes a checkpoint and sends parts of a
 * checkpoint that it has read; other ranks serve requests until rank 0 dismisses them. */
#include <stdio.h>
#include <stdlib.h>

#include "comm/comm.h"
#include "train/internal.h"

static bool begins_with(const char *name, const char *first) { return !strncmp(name, first, strlen(first)); }

/* All other optimizer variables, such as step and rate, exist on all ranks. */
static bool is_state(const char *name) { return begins_with(name, CLADE__OPTIMIZER) && strchr(name, ':'); }

#define ERROR CLADE__LOW_RANK "error."

/* Whether some variable is not on all ranks. */
static bool is_spread(const clade__training *tr) {
  return clade__train_is_cut(tr) || (tr->grid.data > 1 && (tr->t.shard != CLADE_SHARD_NONE || tr->t.low_rank));
}

/* Whether the variable is sharded over the ranks that share a batch. */
static bool is_shared_out(const clade__training *tr, const char *name) {
  if (begins_with(name, CLADE__LOW_RANK)) return begins_with(name, ERROR); /* bases are on all ranks */
  return tr->t.shard != CLADE_SHARD_NONE && is_state(name);
}

/* ---- ownership ---- */
/* The part of a variable that a rank has; also the format of a message. */
struct clade__piece {
  clade__foreign_var whole;
  clade_type type;
  int axis, owner, index; /* index: among the owner's variables */
  int64_t begin;          /* position along the axis */
};
typedef struct clade__piece piece;

/* Orders by variable, then by part, then by rank. */
static int in_order(const void *a, const void *b) {
  const piece *x = a, *y = b;
  const int names = strcmp(x->whole.name, y->whole.name);
  if (names || x->begin != y->begin) return names ? names : x->begin < y->begin ? -1 : 1;
  return x->owner - y->owner;
}

static clade_status describe(const clade__training *tr, int index, piece *out) {
  clade_port_info info = {.size = sizeof info};
  clade_part part = {.size = sizeof part};
  CLADE_TRY(clade_vars_describe(tr->vars, index, &info));
  CLADE_TRY(clade_vars_part(tr->vars, info.name, &part));
  *out = (piece){.type = info.type, .axis = part.axis, .begin = part.begin, .owner = tr->rank, .index = index};
  out->whole.parameter = info.parameter;
  out->whole.type = info.type;
  out->whole.type.shape = part.whole;
  if (strlen(info.name) >= sizeof out->whole.name)
    return CLADE_FAIL(INVALID, "variable %.64s…: a name has at most %zu bytes", info.name, sizeof out->whole.name - 1);
  memcpy(out->whole.name, info.name, strlen(info.name));
  return CLADE_OK;
}

static clade_status list_own(const clade__training *tr, piece *out) {
  for (int i = 0; i < clade_vars_count(tr->vars); i++) CLADE_TRY(describe(tr, i, &out[i]));
  return CLADE_OK;
}

/* Collects the lists of all ranks on rank 0. */
static clade_status take_lists(clade__training *tr, const int *counts) {
  size_t n = 0;
  for (int i = 0; i < tr->ranks; i++) n += (size_t)counts[i];
  tr->pieces = clade__new(n, sizeof *tr->pieces);
  if (!tr->pieces) return CLADE_NO_MEMORY;
  CLADE_TRY(list_own(tr, tr->pieces));
  tr->n_pieces = (size_t)counts[0];
  for (int i = 1; i < tr->ranks; tr->n_pieces += (size_t)counts[i++])
    if (counts[i])
      CLADE_TRY(clade__comm_get(tr->t.comm, i, tr->pieces + tr->n_pieces, (size_t)counts[i] * sizeof *tr->pieces));
  qsort(tr->pieces, tr->n_pieces, sizeof *tr->pieces, in_order);
  return CLADE_OK;
}

static clade_status give_list(clade__training *tr, int n) {
  piece *own = clade__new((size_t)n, sizeof *own);
  clade_status status = own ? list_own(tr, own) : CLADE_NO_MEMORY;
  if (status == CLADE_OK && n) status = clade__comm_put(tr->t.comm, 0, own, (size_t)n * sizeof *own);
  clade__free(own);
  return status;
}

static clade_status exchange_lists(clade__training *tr) {
  const int n = clade_vars_count(tr->vars);
  int *counts = clade__new((size_t)tr->ranks, sizeof *counts);
  clade_status status = counts ? CLADE_OK : CLADE_NO_MEMORY;
  if (status == CLADE_OK) status = clade_comm_gather(tr->t.comm, 0, &n, sizeof n, counts);
  if (status == CLADE_OK) status = tr->rank ? give_list(tr, n) : take_lists(tr, counts);
  clade__free(counts);
  return status;
}

static int64_t length(const piece *p) { return p->type.shape.rank ? p->type.shape.dim[p->axis] : 1; }

/* Index after the last piece of the variable that starts at `first`. */
static size_t end_of(const clade__training *tr, size_t first) {
  size_t end = first + 1;
  while (end < tr->n_pieces && !strcmp(tr->pieces[end].whole.name, tr->pieces[first].whole.name)) end++;
  return end;
}

static bool is_here(const piece *p) { /* rank 0 has the whole variable */
  return !p->owner && clade_shape_equal(&p->type.shape, &p->whole.type.shape);
}

/* Index of the next part of the variable, on its first rank. */
static size_t next_part(const clade__training *tr, size_t at, size_t end) {
  const int64_t begin = tr->pieces[at].begin;
  while (at < end && tr->pieces[at].begin == begin) at++;
  return at;
}

static clade_status check_whole(const clade__training *tr, size_t first, size_t end) {
  const piece *p = &tr->pieces[first];
  int64_t covered = 0;
  if (clade_shape_equal(&p->type.shape, &p->whole.type.shape)) return CLADE_OK;
  for (size_t i = first; i < end; i = next_part(tr, i, end)) {
    if (tr->pieces[i].begin != covered) break;
    covered += length(&tr->pieces[i]);
  }
  if (covered == p->whole.type.shape.dim[p->axis]) return CLADE_OK;
  return CLADE_FAIL(INTERNAL, "variable %s: ranks have %lld of %lld places along axis %d", p->whole.name,
                    (long long)covered, (long long)p->whole.type.shape.dim[p->axis], p->axis);
}

/* Lists what rank 0 does not have as a whole. */
static clade_status find_foreign(clade__training *tr) {
  clade__foreign *f = &tr->foreign;
  f->at = clade__new(tr->n_pieces, sizeof *f->at);
  if (!f->at) return CLADE_NO_MEMORY;
  for (size_t i = 0, end; i < tr->n_pieces; i = end) {
    end = end_of(tr, i);
    CLADE_TRY(check_whole(tr, i, end));
    if (!is_here(&tr->pieces[i])) f->at[f->n++] = tr->pieces[i].whole;
  }
  return CLADE_OK;
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

static clade_status read_whole(void *user, const clade__foreign_var *var, void *data, size_t bytes);

clade_status clade__train_find_foreign(clade__training *tr) {
  tr->foreign.read = read_whole;
  tr->foreign.user = tr;
  CLADE_TRY(count_bytes(tr));
  if (!is_spread(tr)) return CLADE_OK;
  CLADE_TRY(exchange_lists(tr));
  return tr->rank ? CLADE_OK : find_foreign(tr);
}

/* ---- parts and wholes ---- */
/* Copies between a piece and its place in the whole. */
static clade_status move_rows(const piece *p, unsigned char *whole, unsigned char *part, bool into_whole) {
  const clade_shape *shape = &p->whole.type.shape;
  size_t outer = 1, inner;
  CLADE_TRY(clade__dtype_element(p->type.dtype, &inner));
  for (int i = 0; i < p->axis; i++) outer *= (size_t)shape->dim[i];
  for (int i = p->axis + 1; i < shape->rank; i++) inner *= (size_t)shape->dim[i];
  const size_t row = (shape->rank ? (size_t)shape->dim[p->axis] : 1) * inner, bytes = (size_t)length(p) * inner;
  for (size_t i = 0; i < outer; i++) {
    unsigned char *at = whole + i * row + (size_t)p->begin * inner;
    memcpy(into_whole ? at : part + i * bytes, into_whole ? part + i * bytes : at, bytes);
  }
  return CLADE_OK;
}

/* ---- requests of rank 0 ---- */
enum { DONE = -1 };

static clade_status ask(const clade__training *tr, const piece *p, void *data, size_t bytes) {
  if (!p->owner) return clade_vars_get(tr->vars, p->whole.name, data, bytes);
  CLADE_TRY(clade__comm_put(tr->t.comm, p->owner, &p->index, sizeof p->index));
  return clade__comm_get(tr->t.comm, p->owner, data, bytes);
}

static clade_status read_part(const clade__training *tr, const piece *p, unsigned char *whole) {
  size_t bytes;
  CLADE_TRY(clade_type_bytes(&p->type, &bytes));
  if (clade_shape_equal(&p->type.shape, &p->whole.type.shape)) return ask(tr, p, whole, bytes);
  unsigned char *part = clade__new(CLADE_MAX(bytes, (size_t)1), 1);
  clade_status status = part ? ask(tr, p, part, bytes) : CLADE_NO_MEMORY;
  if (status == CLADE_OK) status = move_rows(p, whole, part, true);
  clade__free(part);
  return status;
}

static size_t first_piece(const clade__training *tr, const char *name) {
  size_t low = 0, high = tr->n_pieces;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (strcmp(tr->pieces[middle].whole.name, name) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static clade_status read_whole(void *user, const clade__foreign_var *var, void *data, size_t bytes) {
  const clade__training *tr = user;
  (void)bytes;
  const size_t first = first_piece(tr, var->name), end = end_of(tr, first);
  for (size_t i = first; i < end; i = next_part(tr, i, end)) CLADE_TRY(read_part(tr, &tr->pieces[i], data));
  return CLADE_OK;
}

static clade_status dismiss(const clade__training *tr) {
  const int done = DONE;
  for (int i = 1; i < tr->ranks; i++) CLADE_TRY(clade__comm_put(tr->t.comm, i, &done, sizeof done));
  return CLADE_OK;
}

/* ---- answers of other ranks ---- */
static clade_status variable(const clade__training *tr, int index, clade_port_info *info, void **room, size_t *bytes) {
  *info = (clade_port_info){.size = sizeof *info};
  CLADE_TRY(clade_vars_describe(tr->vars, index, info));
  CLADE_TRY(clade_type_bytes(&info->type, bytes));
  return (*room = clade__new(CLADE_MAX(*bytes, (size_t)1), 1)) ? CLADE_OK : CLADE_NO_MEMORY;
}

/* takes: receive the values from rank 0; otherwise send them. */
static clade_status answer(clade__training *tr, int index, bool takes) {
  clade_port_info info;
  void *room = NULL;
  size_t bytes;
  clade_status status = variable(tr, index, &info, &room, &bytes);
  if (status == CLADE_OK && takes) status = clade__comm_get(tr->t.comm, 0, room, bytes);
  if (status == CLADE_OK && takes) status = clade_vars_set(tr->vars, info.name, room, bytes);
  if (status == CLADE_OK && !takes) status = clade_vars_get(tr->vars, info.name, room, bytes);
  if (status == CLADE_OK && !takes) status = clade__comm_put(tr->t.comm, 0, room, bytes);
  clade__free(room);
  return status;
}

static clade_status serve(clade__training *tr, bool takes) {
  for (int index;;) {
    CLADE_TRY(clade__comm_get(tr->t.comm, 0, &index, sizeof index));
    if (index == DONE) return CLADE_OK;
    CLADE_TRY(answer(tr, index, takes));
  }
}

static clade_status serve_patiently(clade__training *tr) {
  clade__comm_be_patient(tr->t.comm, CLADE__RANK_0_ALONE); /* rank 0 may test first */
  const clade_status status = serve(tr, false);
  clade__comm_be_patient(tr->t.comm, 1);
  return status;
}

clade_status clade__train_hand_in(clade__training *tr) {
  if (!tr->saves || !is_spread(tr)) return CLADE_OK;
  return tr->rank ? serve_patiently(tr) : dismiss(tr);
}

clade_status clade__train_hash_weights(clade__training *tr) {
  if (!clade__train_is_cut(tr)) return clade_vars_sha256(tr->vars, tr->weights_sha256);
  if (tr->rank) {
    CLADE_TRY(serve_patiently(tr));
  } else {
    CLADE_TRY(clade__vars_hash(tr->vars, &tr->foreign, tr->weights_sha256));
    CLADE_TRY(dismiss(tr));
  }
  return clade_comm_broadcast(tr->t.comm, 0, tr->weights_sha256, sizeof tr->weights_sha256);
}

/* ---- distribution by rank 0 ---- */
/* Adds up the errors of the checkpoint's ranks that map to this rank: with fewer ranks no error is lost; with more
 * ranks the additional ones start with 0. */
static clade_status add_errors(const clade__training *tr, const piece *p, float *sum, size_t bytes) {
  memset(sum, 0, bytes);
  for (int rank = p->owner;; rank += tr->ranks) {
    char name[sizeof p->whole.name + 16];
    const void *data;
    snprintf(name, sizeof name, ERROR "%d%s", rank, strchr(p->whole.name, ':'));
    const clade_status status = clade__checkpoint_find(tr->checkpoint, name, &p->type, &data);
    if (status == CLADE_NOT_FOUND) return CLADE_OK;
    CLADE_TRY(status);
    if (rank == p->owner) memcpy(sum, data, bytes); /* adding would lose the sign of zeros */
    for (size_t i = 0; i < bytes / sizeof *sum && rank != p->owner; i++) sum[i] += ((const float *)data)[i];
  }
}

/* Finds the values in the checkpoint or the initial weights. *data NULL: ranks keep their initial values. */
static clade_status find_values(const clade__training *tr, const piece *p, void *room, size_t bytes,
                                const void **data) {
  const char *name = p->whole.name;
  *data = room;
  if (begins_with(name, ERROR) && tr->checkpoint) return add_errors(tr, p, room, bytes);
  if (is_here(p)) return clade_vars_get(tr->vars, name, room, bytes);
  if (tr->checkpoint) {
    const clade_status status = clade__checkpoint_find(tr->checkpoint, name, &p->whole.type, data);
    if (status != CLADE_NOT_FOUND || !begins_with(name, CLADE__LOSS_SCALE)) return status;
    *data = NULL; /* starts with its initial value */
    return CLADE_OK;
  }
  if (tr->t.weights && !begins_with(name, CLADE__OPTIMIZER)) return clade_vars_get(tr->t.weights, name, room, bytes);
  *data = NULL;
  return CLADE_OK;
}

static clade_status give(clade__training *tr, const piece *p, const void *data, size_t bytes) {
  if (!p->owner) return clade_vars_set(tr->vars, p->whole.name, data, bytes);
  CLADE_TRY(clade__comm_put(tr->t.comm, p->owner, &p->index, sizeof p->index));
  return clade__comm_put(tr->t.comm, p->owner, data, bytes);
}

static clade_status give_part(clade__training *tr, const piece *p, const void *whole) {
  size_t bytes;
  CLADE_TRY(clade_type_bytes(&p->type, &bytes));
  if (clade_shape_equal(&p->type.shape, &p->whole.type.shape)) return give(tr, p, whole, bytes);
  unsigned char *part = clade__new(CLADE_MAX(bytes, (size_t)1), 1);
  clade_status status = part ? move_rows(p, (unsigned char *)(uintptr_t)whole, part, false) : CLADE_NO_MEMORY;
  if (status == CLADE_OK) status = give(tr, p, part, bytes);
  clade__free(part);
  return status;
}

/* Whether rank 0 sends the piece to its owner; other ranks that share the batch receive it from there (ranks.c). */
static bool gets_it(const clade__training *tr, const piece *p) {
  return !clade__place_of(&tr->grid, p->owner).data || is_shared_out(tr, p->whole.name);
}

static clade_status hand_out(clade__training *tr, size_t first, size_t end, void *room) {
  const piece *p = &tr->pieces[first];
  const void *data;
  size_t bytes;
  const bool has_own = is_here(p) && !(tr->checkpoint && begins_with(p->whole.name, ERROR));
  if (has_own) first++;
  while (first < end && !gets_it(tr, &tr->pieces[first])) first++;
  if (first == end) return CLADE_OK;
  CLADE_TRY(clade_type_bytes(&p->whole.type, &bytes));
  CLADE_TRY(find_values(tr, p, room, bytes, &data));
  for (size_t i = first; i < end && data; i++)
    if (gets_it(tr, &tr->pieces[i])) CLADE_TRY(give_part(tr, &tr->pieces[i], data));
  return CLADE_OK;
}

static clade_status hand_out_all(clade__training *tr) {
  size_t largest = 1, bytes;
  for (size_t i = 0; i < tr->n_pieces; i++) {
    CLADE_TRY(clade_type_bytes(&tr->pieces[i].whole.type, &bytes));
    largest = CLADE_MAX(largest, bytes);
  }
  void *room = clade__new(largest, 1);
  clade_status status = room ? CLADE_OK : CLADE_NO_MEMORY;
  for (size_t i = 0, end; i < tr->n_pieces && status == CLADE_OK; i = end) {
    end = end_of(tr, i);
    status = hand_out(tr, i, end, room);
  }
  clade__free(room);
  return status == CLADE_OK ? dismiss(tr) : status;
}

clade_status clade__train_hand_out(clade__training *tr) {
  if (!is_spread(tr)) return CLADE_OK;
  return tr->rank ? serve(tr, true) : hand_out_all(tr);
}

bool clade__train_is_everywhere(const clade__training *tr, const char *name) {
  return tr->grid.data == 1 || !is_spread(tr) || !is_shared_out(tr, name);
}
