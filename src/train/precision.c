/* The precision of a training: as given, or with .precision_auto bf16 if it is measured to be faster than f32. */
#include <math.h>
#include <stdio.h>

#include "train/internal.h"

bool clade__train_scales(const clade__training *tr) { return tr->t.precision == CLADE_F16; }

void clade__train_precision_text(const clade_trainer *t, char *text, size_t size) {
  const bool some = t->types && *t->types;
  snprintf(text, size, "%s%s%s", clade_dtype_name(t->precision), some ? ", " : "", some ? t->types : "");
}

/* Speed of the slowest rank, on rank 0. */
static clade_status measure(clade__training *tr, clade_dtype precision, double *all, double *speed) {
  double own = 0;
  tr->t.precision = precision;
  CLADE_TRY(clade__train_measure(tr, &own));
  *speed = own /= tr->rows; /* in steps per second, since ranks may have different rows */
  if (tr->ranks == 1) return CLADE_OK;
  CLADE_TRY(clade_comm_gather(tr->t.comm, 0, &own, sizeof own, all));
  for (int i = 0; i < tr->ranks && !tr->rank; i++) *speed = fmin(*speed, all[i]);
  return CLADE_OK;
}

static clade_status measure_both(clade__training *tr, clade_dtype *faster) {
  const char *types = tr->t.types;
  double *all = clade__new((size_t)tr->ranks, sizeof *all), wide = 0, narrow = 0;
  clade_status status = all ? CLADE_OK : CLADE_NO_MEMORY;
  tr->t.types = NULL; /* has no meaning in f32 */
  if (status == CLADE_OK) status = measure(tr, CLADE_F32, all, &wide);
  tr->t.types = types;
  if (status == CLADE_OK) status = measure(tr, CLADE_BF16, all, &narrow);
  clade__free(all);
  *faster = narrow > wide ? CLADE_BF16 : CLADE_F32;
  if (status == CLADE_OK && !tr->rank)
    clade__log(CLADE_LOG_INFO, "precision: a step takes %.3g s in f32, %.3g s in bf16: %s is taken", 1 / wide,
               1 / narrow, clade_dtype_name(*faster));
  return status;
}

clade_status clade__train_find_precision(clade__training *tr) {
  clade_dtype precision = tr->kept_precision;
  if (!tr->t.precision_auto) return CLADE_OK;
  if (tr->ranks > 1) CLADE_TRY(clade_comm_broadcast(tr->t.comm, 0, &precision, sizeof precision));
  const bool known = precision != CLADE_DTYPE_NONE;
  if (!known) CLADE_TRY(measure_both(tr, &precision));
  if (tr->ranks > 1) CLADE_TRY(clade_comm_broadcast(tr->t.comm, 0, &precision, sizeof precision));
  tr->t.precision = precision;
  if (precision == CLADE_F32) tr->t.types = NULL;
  tr->precision_measured = !known;
  return CLADE_OK;
}
