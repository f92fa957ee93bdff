/* Variable elimination: replaces each unknown by a table of its best cost over the values of its neighbors. */
#include "pass/least.h"

#include <float.h>

enum { MOST_ENTRIES = 4096, MOST_NEIGHBORS = 12 };

typedef struct clade__least_table table;
typedef struct clade__least_unknown unknown;

struct clade__least_table {
  int n;
  uint32_t at[MOST_NEIGHBORS]; /* ascending */
  double *sum;                 /* row-major; NULL: removed */
};

struct clade__least_unknown {
  int values, safe;
  double *own;
  uint32_t *tables; /* may include removed ones */
  size_t n, capacity, n_gone;
  bool queued, gone;
  /* of eliminated unknowns: the best value for each combination of neighbor values */
  int n_near;
  uint32_t *near;
  uint8_t *best;
};

clade_status clade__least_add(clade__least *p, int values, const double *cost, int safe, uint32_t *id) {
  CLADE_TRY(clade__grow(&p->unknown, &p->unknown_capacity, p->n_unknowns + 1, sizeof *p->unknown));
  unknown *u = &p->unknown[p->n_unknowns];
  *u = (unknown){.values = values, .safe = safe};
  u->own = clade__arena_new(&p->arena, (size_t)values * sizeof *u->own);
  if (!u->own) return CLADE_NO_MEMORY;
  memcpy(u->own, cost, (size_t)values * sizeof *u->own);
  *id = (uint32_t)p->n_unknowns++;
  return CLADE_OK;
}

static size_t entries(const clade__least *p, int n, const uint32_t *at) {
  size_t size = 1;
  for (int i = 0; i < n; i++) size *= (size_t)p->unknown[at[i]].values;
  return size;
}

/* An existing table over the same unknowns. */
static table *same(clade__least *p, int n, const uint32_t *at) {
  const unknown *few = &p->unknown[at[0]];
  for (int i = 1; i < n; i++)
    if (p->unknown[at[i]].n < few->n) few = &p->unknown[at[i]];
  for (size_t i = 0; i < few->n; i++) {
    table *t = &p->table[few->tables[i]];
    if (t->sum && t->n == n && memcmp(t->at, at, (size_t)n * sizeof *at) == 0) return t;
  }
  return NULL;
}

/* Unknowns must be ascending. */
static clade_status add_table(clade__least *p, int n, const uint32_t *at, const double *sum) {
  size_t size = entries(p, n, at);
  if (n == 0) return CLADE_OK; /* a constant does not affect the choice */
  double *to = n == 1 ? p->unknown[at[0]].own : NULL;
  table *t = to ? NULL : same(p, n, at);
  if (t) to = t->sum;
  for (size_t i = 0; to && i < size; i++) to[i] += sum[i];
  if (to) return CLADE_OK;
  CLADE_TRY(clade__grow(&p->table, &p->table_capacity, p->n_tables + 1, sizeof *p->table));
  for (int i = 0; i < n; i++) {
    unknown *u = &p->unknown[at[i]];
    CLADE_TRY(clade__grow(&u->tables, &u->capacity, u->n + 1, sizeof *u->tables));
    u->tables[u->n++] = (uint32_t)p->n_tables;
  }
  t = &p->table[p->n_tables++];
  *t = (table){.n = n};
  memcpy(t->at, at, (size_t)n * sizeof *at);
  if (!(t->sum = clade__new(size, sizeof *sum))) return CLADE_NO_MEMORY;
  memcpy(t->sum, sum, size * sizeof *sum);
  return CLADE_OK;
}

clade_status clade__least_pair(clade__least *p, uint32_t a, uint32_t b, const double *sum) {
  double turned[CLADE__LEAST_VALUES * CLADE__LEAST_VALUES];
  int n = p->unknown[a].values, m = p->unknown[b].values;
  if (a < b) return add_table(p, 2, (uint32_t[]){a, b}, sum);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++) turned[j * n + i] = sum[i * m + j];
  return add_table(p, 2, (uint32_t[]){b, a}, turned);
}

static void drop_table(clade__least *p, table *t) {
  clade__free(t->sum);
  t->sum = NULL;
  for (int i = 0; i < t->n; i++) {
    unknown *u = &p->unknown[t->at[i]];
    if (u->gone || 2 * ++u->n_gone <= u->n) continue;
    size_t kept = 0;
    for (size_t k = 0; k < u->n; k++)
      if (p->table[u->tables[k]].sum) u->tables[kept++] = u->tables[k];
    u->n = kept;
    u->n_gone = 0;
  }
}

/* Unknowns that share a table with x, ascending; false: more than `most`. */
static bool neighbors(const clade__least *p, uint32_t x, int most, uint32_t *near, int *n_near) {
  const unknown *u = &p->unknown[x];
  int n = 0;
  for (size_t i = 0; i < u->n; i++) {
    const table *t = &p->table[u->tables[i]];
    for (int k = 0; t->sum && k < t->n; k++) {
      int to = n;
      if (t->at[k] == x) continue;
      while (to > 0 && near[to - 1] > t->at[k]) to--;
      if (to > 0 && near[to - 1] == t->at[k]) continue;
      if (n == most) return false;
      memmove(near + to + 1, near + to, (size_t)(n - to) * sizeof *near);
      near[to] = t->at[k];
      n++;
    }
  }
  *n_near = n;
  return true;
}

/* Adds a table of x to sums over (near…, x). */
static void spread(const clade__least *p, const table *t, uint32_t x, int n, const uint32_t *near, double *sums) {
  size_t stride[MOST_NEIGHBORS + 1] = {0}, at[MOST_NEIGHBORS + 1] = {0}, step = 1, from = 0;
  size_t size = entries(p, n, near) * (size_t)p->unknown[x].values;
  for (int k = t->n - 1; k >= 0; k--) {
    int i = 0;
    while (i < n && near[i] != t->at[k]) i++;
    stride[i] = step; /* x is the innermost index */
    step *= (size_t)p->unknown[t->at[k]].values;
  }
  for (size_t s = 0; s < size; s++) {
    sums[s] += t->sum[from];
    for (int i = n; i >= 0; i--) {
      size_t values = (size_t)p->unknown[i == n ? x : near[i]].values;
      from += stride[i];
      if (++at[i] < values) break;
      from -= stride[i] * values;
      at[i] = 0;
    }
  }
}

static void enqueue(clade__least *p, uint32_t x) {
  unknown *u = &p->unknown[x];
  if (u->queued || u->gone) return;
  u->queued = true;
  p->todo[p->last] = x;
  p->last = (p->last + 1) % (p->n_unknowns + 1);
}

static void drop_tables(clade__least *p, uint32_t x) {
  unknown *u = &p->unknown[x];
  u->gone = true;
  for (size_t i = 0; i < u->n; i++)
    if (p->table[u->tables[i]].sum) drop_table(p, &p->table[u->tables[i]]);
  clade__free(u->tables);
  u->tables = NULL;
  u->n = u->capacity = 0;
}

/* Replaces x by a table over its neighbors. */
static clade_status eliminate(clade__least *p, uint32_t x, int n, const uint32_t *near) {
  unknown *u = &p->unknown[x];
  size_t size = entries(p, n, near), values = (size_t)u->values;
  u->near = clade__arena_new(&p->arena, (size_t)n * sizeof *near);
  u->best = clade__arena_new(&p->arena, size);
  if (!u->near || !u->best) return CLADE_NO_MEMORY;
  if (n) memcpy(u->near, near, (size_t)n * sizeof *near);
  u->n_near = n;
  for (size_t i = 0; i < size * values; i++) p->sums[i] = u->own[i % values];
  for (size_t i = 0; i < u->n; i++)
    if (p->table[u->tables[i]].sum) spread(p, &p->table[u->tables[i]], x, n, near, p->sums);
  for (size_t i = 0; i < size; i++) {
    size_t best = 0;
    for (size_t v = 1; v < values; v++)
      if (p->sums[i * values + v] < p->sums[i * values + best]) best = v;
    u->best[i] = (uint8_t)best;
    p->sums[i] = p->sums[i * values + best]; /* in place: writes stay behind reads */
  }
  p->order[p->n_order++] = x;
  drop_tables(p, x);
  CLADE_TRY(add_table(p, n, near, p->sums));
  for (int i = 0; i < n; i++) enqueue(p, near[i]);
  return CLADE_OK;
}

/* Eliminates queued unknowns while some have few enough neighbors. */
static clade_status work(clade__least *p, int most) {
  uint32_t near[MOST_NEIGHBORS];
  int n = 0;
  while (p->first != p->last) {
    uint32_t x = p->todo[p->first];
    p->first = (p->first + 1) % (p->n_unknowns + 1);
    p->unknown[x].queued = false;
    if (p->unknown[x].gone || !neighbors(p, x, most, near, &n) || entries(p, n, near) > MOST_ENTRIES) continue;
    CLADE_TRY(eliminate(p, x, n, near));
  }
  return CLADE_OK;
}

/* Heuristic for an unknown with too many neighbors: the value that is best table by table. */
static int guess(const clade__least *p, uint32_t x) {
  const unknown *u = &p->unknown[x];
  double sum[CLADE__LEAST_VALUES];
  int best = 0;
  if (u->safe >= 0) return u->safe;
  memcpy(sum, u->own, (size_t)u->values * sizeof *sum);
  for (size_t i = 0; i < u->n; i++) {
    const table *t = &p->table[u->tables[i]];
    double least[CLADE__LEAST_VALUES];
    size_t inner = 1, size = t->sum ? entries(p, t->n, t->at) : 0;
    for (int k = t->n - 1; k >= 0 && t->at[k] != x; k--) inner *= (size_t)p->unknown[t->at[k]].values;
    for (int v = 0; v < u->values; v++) least[v] = DBL_MAX;
    for (size_t s = 0; s < size; s++) {
      size_t v = s / inner % (size_t)u->values;
      least[v] = CLADE_MIN(least[v], t->sum[s]);
    }
    for (int v = 0; size && v < u->values; v++) sum[v] += least[v];
  }
  for (int v = 1; v < u->values; v++)
    if (sum[v] < sum[best]) best = v;
  return best;
}

/* Fixes x to `value`, which reduces its tables by one dimension. */
static clade_status fix(clade__least *p, uint32_t x, int value) {
  unknown *u = &p->unknown[x];
  if (!(u->best = clade__arena_new(&p->arena, 1))) return CLADE_NO_MEMORY;
  u->best[0] = (uint8_t)value;
  p->order[p->n_order++] = x;
  for (size_t n = u->n, i = 0; i < n; i++) {
    table t = p->table[u->tables[i]];
    uint32_t rest[MOST_NEIGHBORS];
    size_t inner = 1, kept = 0;
    int m = 0;
    if (!t.sum) continue;
    size_t size = entries(p, t.n, t.at);
    for (int k = t.n - 1; t.at[k] != x; k--) inner *= (size_t)p->unknown[t.at[k]].values;
    for (size_t s = 0; s < size; s++)
      if (s / inner % (size_t)u->values == (size_t)value) p->sums[kept++] = t.sum[s];
    for (int k = 0; k < t.n; k++)
      if (t.at[k] != x) rest[m++] = t.at[k];
    CLADE_TRY(add_table(p, m, rest, p->sums));
    for (int k = 0; k < m; k++) enqueue(p, rest[k]);
  }
  drop_tables(p, x);
  return CLADE_OK;
}

static void look_back(const clade__least *p, uint8_t *value) {
  for (size_t i = p->n_order; i-- > 0;) {
    const unknown *u = &p->unknown[p->order[i]];
    size_t at = 0;
    for (int k = 0; k < u->n_near; k++) at = at * (size_t)p->unknown[u->near[k]].values + value[u->near[k]];
    value[p->order[i]] = u->best[at];
  }
}

clade_status clade__least_solve(clade__least *p, uint8_t *value, bool *exact) {
  size_t n = p->n_unknowns;
  p->todo = clade__new(n + 1, sizeof *p->todo);
  p->order = clade__new(n, sizeof *p->order);
  p->sums = clade__new((size_t)MOST_ENTRIES * CLADE__LEAST_VALUES, sizeof *p->sums);
  if (!p->todo || !p->order || !p->sums) return CLADE_NO_MEMORY;
  for (int most = 1; most <= MOST_NEIGHBORS && p->n_order < n; most++) {
    for (uint32_t x = 0; x < n; x++) enqueue(p, x);
    CLADE_TRY(work(p, most));
  }
  *exact = p->n_order == n;
  /* First fix unknowns without a safe value: for the rest, the safe value may be expensive. */
  for (int safe = 0; safe < 2; safe++)
    for (uint32_t x = 0; x < n; x++) {
      if (p->unknown[x].gone || (p->unknown[x].safe >= 0) != safe) continue;
      CLADE_TRY(fix(p, x, guess(p, x)));
      CLADE_TRY(work(p, MOST_NEIGHBORS));
    }
  look_back(p, value);
  return CLADE_OK;
}

void clade__least_free(clade__least *p) {
  for (size_t i = 0; i < p->n_unknowns; i++) clade__free(p->unknown[i].tables);
  for (size_t i = 0; i < p->n_tables; i++) clade__free(p->table[i].sum);
  clade__free(p->unknown);
  clade__free(p->table);
  clade__free(p->todo);
  clade__free(p->order);
  clade__free(p->sums);
  clade__arena_free(&p->arena);
}
