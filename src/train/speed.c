/* Shares of a batch by speed: each rank times steps with equal rows. A checkpoint's shares take precedence, so that
 * a resumed training computes the same bits. */
#include <math.h>

#include "train/internal.h"

enum { WARM = 2, TIMED = 5 /* number of steps */, GRAIN = 8 /* units of an equal share */ };
/* In units: remainders closer than this count as equal, because of noise. */
static const double NEAR = 0.25;

/* Chooses the rank that gets one more unit (the first of those with the largest remainder) or one unit less (the
 * last of those with the smallest remainder and more than one unit). */
static int pick(int n, const double *exact, const double *shares, bool missing) {
  const double sign = missing ? 1 : -1;
  double most = -INFINITY;
  int best = 0;
  for (int i = 0; i < n; i++)
    if (missing || shares[i] > 1) most = fmax(most, sign * (exact[i] - shares[i]));
  for (int i = 0; i < n; i++) {
    if ((!missing && shares[i] <= 1) || sign * (exact[i] - shares[i]) < most - NEAR) continue;
    best = i;
    if (missing) break;
  }
  return best;
}

void clade__train_shares(int n, int batch, double *exact, double *shares) {
  const int total = batch / GRAIN < n ? batch : GRAIN * n; /* units; at least a row each */
  double sum = 0, left = total;
  for (int i = 0; i < n; i++) sum += exact[i];
  for (int i = 0; i < n; i++) {
    exact[i] *= total / sum;
    left -= shares[i] = fmax(1, round(exact[i]));
  }
  for (; left > 0; left--) shares[pick(n, exact, shares, true)]++;
  for (; left < 0; left++) shares[pick(n, exact, shares, false)]--;
}

static clade_status time_steps(const clade__training *tr, clade_run *run, const clade_batch *batch, double *median) {
  const size_t rows = (size_t)tr->rows;
  double seconds[TIMED];
  clade_ticket ticket;
  for (int i = -WARM; i < TIMED; i++) {
    const double since = clade__now();
    CLADE_TRY(clade_execute(run,
                            CLADE_FEEDS({"x", batch->x, rows * tr->sample * sizeof *batch->x, NULL},
                                        {"y", batch->y, rows * sizeof *batch->y, NULL}),
                            &ticket));
    CLADE_TRY(clade_wait(run, ticket));
    if (i >= 0) seconds[i] = clade__now() - since;
  }
  *median = clade__median(seconds, TIMED);
  return CLADE_OK;
}

/* Rows per second of the training's own step without all-reduces, on variables and a loader that are discarded. All
 * ranks start together, so that ranks that share a processor compete as they will in the training. */
clade_status clade__train_measure(clade__training *tr, double *speed) {
  clade_graph *g = NULL;
  clade_func *func = NULL;
  clade_vars *vars = NULL;
  clade_run *run = NULL;
  clade_loader *loader = NULL;
  clade_batch batch = {.size = sizeof batch};
  clade__outcome part;
  double seconds;
  clade_status status;
  CLADE_GOTO(clade_graph_new(&g));
  CLADE_GOTO(clade__train_add_step(tr, g, NULL, &part));
  CLADE_GOTO(clade__train_compile(tr, g, &func));
  CLADE_GOTO(clade_vars_new(func, tr->t.seed, &vars));
  CLADE_GOTO(clade_run_new(func, vars, &run));
  CLADE_GOTO(clade__train_load(tr, &loader));
  CLADE_GOTO(clade_loader_next(loader, &batch));
  if (tr->ranks > 1) CLADE_GOTO(clade_comm_barrier(tr->t.comm));
  CLADE_GOTO(time_steps(tr, run, &batch, &seconds));
  *speed = tr->rows / fmax(seconds, 1e-9);
fail:
  clade_loader_free(loader);
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
  clade_graph_release(g);
  return status;
}

static clade_status measure_all(clade__training *tr) {
  double own, *all = clade__new((size_t)tr->ranks, sizeof *all);
  clade_status status = all ? clade__train_measure(tr, &own) : CLADE_NO_MEMORY;
  if (status == CLADE_OK) status = clade_comm_gather(tr->t.comm, 0, &own, sizeof own, all);
  if (status == CLADE_OK && !tr->rank) clade__train_shares(tr->ranks, tr->t.batch, all, tr->split);
  clade__free(all);
  return status;
}

clade_status clade__train_split(clade__training *tr) {
  const size_t n = (size_t)tr->ranks;
  bool known = tr->split;
  if (!tr->t.split_auto || tr->ranks == 1) return CLADE_OK;
  CLADE_TRY(clade_comm_broadcast(tr->t.comm, 0, &known, sizeof known));
  if (!tr->split) tr->split = clade__new(n, sizeof *tr->split);
  if (!tr->split) return CLADE_NO_MEMORY;
  if (!known) CLADE_TRY(measure_all(tr));
  CLADE_TRY(clade_comm_broadcast(tr->t.comm, 0, tr->split, n * sizeof *tr->split));
  tr->measured = !known;
  return clade__train_cut(tr, tr->split);
}
