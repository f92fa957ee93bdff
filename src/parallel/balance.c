/* Dynamic programming over the number of pieces and items: finds the best last piece for each. */
#include "parallel/balance.h"

#include <math.h>

/* Precision of cost estimates: a largest piece that is 2% smaller does not justify more communication. */
static const double equal = 1.02;

typedef struct cuts {
  int n;
  double *sum;           /* prefix sums of the costs */
  const double *bytes;   /* communication of a cut before item i */
  double *best, *before; /* with the current number of pieces and with one less, by number of items */
  int *from;             /* [piece * (n + 1) + items]: first item of the last piece */
} cuts;

static double cost_of(const cuts *c, int from, int to) { return c->sum[to] - c->sum[from]; }

/* The cost of the largest piece or, under a limit for it, the bytes that cross. */
static double value(const cuts *c, int from, int to, double limit) {
  if (limit > 0) return c->before[from] + (from ? c->bytes[from] : 0);
  return CLADE_MAX(c->before[from], cost_of(c, from, to));
}

static void add_piece(cuts *c, int piece, double limit) {
  double *done = c->before;
  c->before = c->best;
  c->best = done;
  for (int to = 0; to <= c->n; to++) {
    c->best[to] = INFINITY;
    for (int from = to - 1; from >= piece; from--) {
      const double cost = cost_of(c, from, to);
      if (limit > 0 ? cost > limit : cost >= c->best[to]) break;
      const double v = value(c, from, to, limit);
      if (!(v < c->best[to])) continue;
      c->best[to] = v;
      c->from[piece * (c->n + 1) + to] = from;
    }
  }
}

static double solve(cuts *c, int pieces, double limit) {
  for (int i = 0; i <= c->n; i++) c->best[i] = i ? INFINITY : 0;
  for (int k = 0; k < pieces; k++) add_piece(c, k, limit);
  return c->best[c->n];
}

clade_status clade__balance(int n, const double *cost, const double *bytes, int pieces, int *piece) {
  const size_t places = (size_t)n + 1;
  double *room = clade__new(3 * places, sizeof *room);
  cuts c = {.n = n, .bytes = bytes, .from = clade__new((size_t)pieces * places, sizeof *c.from)};
  if (room && c.from) {
    c.sum = room;
    c.best = room + places;
    c.before = c.best + places;
    for (int i = 0; i < n; i++) c.sum[i + 1] = c.sum[i] + cost[i];
    const double largest = solve(&c, pieces, 0);
    solve(&c, pieces, CLADE_MAX(largest * equal, 1e-300));
    for (int k = pieces, to = n; k-- > 0;) {
      const int from = c.from[k * (n + 1) + to];
      for (int i = from; i < to; i++) piece[i] = k;
      to = from;
    }
  }
  const clade_status status = room && c.from ? CLADE_OK : CLADE_NO_MEMORY;
  clade__free(room);
  clade__free(c.from);
  return status;
}
