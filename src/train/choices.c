/* Pinned choices of the ranks' steps. Rank 0 reads and writes them for all, so that a resumed training computes the
 * same bits on every rank. */
#include "comm/comm.h"
#include "train/internal.h"

enum { LONGEST = 16 << 20 };

clade_status clade__train_put_text(const clade__training *tr, int to, const char *text) {
  const uint64_t bytes = text ? strlen(text) + 1 : 0;
  CLADE_TRY(clade__comm_put(tr->t.comm, to, &bytes, sizeof bytes));
  return bytes ? clade__comm_put(tr->t.comm, to, text, (size_t)bytes) : CLADE_OK;
}

clade_status clade__train_get_text(const clade__training *tr, int from, char **out) {
  uint64_t bytes = 0;
  *out = NULL;
  CLADE_TRY(clade__comm_get(tr->t.comm, from, &bytes, sizeof bytes));
  if (bytes > LONGEST) return CLADE_FAIL(CORRUPT, "rank %d has a text of %llu bytes", from, (unsigned long long)bytes);
  if (!bytes) return CLADE_OK;
  *out = clade__new((size_t)bytes + 1, 1);
  return *out ? clade__comm_get(tr->t.comm, from, *out, (size_t)bytes) : CLADE_NO_MEMORY;
}

clade_status clade__train_hand_choices(clade__training *tr) {
  if (tr->rank) return clade__train_get_text(tr, 0, &tr->choices[0]);
  for (int i = 1; i < tr->ranks; i++)
    CLADE_TRY(clade__train_put_text(tr, i, tr->others[i] ? tr->others[i] : tr->choices[0]));
  return CLADE_OK;
}

static clade_status take(clade__training *tr, int from, const char *own) {
  char **text = &tr->others[from];
  clade__free(*text);
  CLADE_TRY(clade__train_get_text(tr, from, text));
  if (*text && strcmp(*text, own) != 0) return CLADE_OK;
  clade__free(*text);
  *text = NULL;
  return CLADE_OK;
}

clade_status clade__train_gather_choices(clade__training *tr) {
  char *own = NULL;
  if (tr->ranks == 1 || !tr->saves) return CLADE_OK;
  clade_status status = clade_func_choices(tr->step_func, &own);
  if (status == CLADE_OK && tr->rank) status = clade__train_put_text(tr, 0, own);
  for (int i = 1; i < tr->ranks && !tr->rank && status == CLADE_OK; i++) status = take(tr, i, own);
  clade_text_free(own);
  return status;
}
