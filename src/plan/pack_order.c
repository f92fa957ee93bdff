/* Memory allocation into one slab by insertion order: each interval gets the lowest gap among overlapping ones.
 * Tries several orders, then improves the best by moving the highest interval to the front. */
#include <stdlib.h>

#include "plan/plan.h"

enum { FEW = 2048, MOST_TRIES = 64, WORK = 1 << 24 };

typedef struct item {
  double rank; /* higher first */
  const clade__interval *from;
  size_t offset, best;
} item;

typedef struct ordering {
  size_t n;
  item *order, **placed; /* sorted by offset */
  uint64_t least;        /* smallest total found */
} ordering;

static int by_rank(const void *a, const void *b) {
  const item *x = a, *y = b;
  if (x->rank != y->rank) return x->rank < y->rank ? 1 : -1;
  return x->from < y->from ? -1 : x->from > y->from;
}

static size_t lowest_gap(item *const *placed, size_t n, const clade__interval *want) {
  size_t offset = 0;
  for (size_t i = 0; i < n; i++) {
    const clade__interval *other = placed[i]->from;
    if (other->death < want->birth || want->death < other->birth) continue;
    if (placed[i]->offset >= offset && placed[i]->offset - offset >= want->bytes) break;
    offset = CLADE_MAX(offset, placed[i]->offset + other->bytes);
  }
  return offset;
}

/* Places all intervals in order and returns the one with the highest end, which determines the total. */
static size_t place(ordering *o, uint64_t *total) {
  size_t highest = 0;
  *total = 0;
  for (size_t i = 0; i < o->n; i++) {
    item *it = &o->order[i];
    it->offset = lowest_gap(o->placed, i, it->from);
    if (it->offset + it->from->bytes > *total) {
      *total = it->offset + it->from->bytes;
      highest = i;
    }
    size_t at = i;
    for (; at > 0 && o->placed[at - 1]->offset > it->offset; at--) o->placed[at] = o->placed[at - 1];
    o->placed[at] = it;
  }
  if (*total < o->least) {
    o->least = *total;
    for (size_t i = 0; i < o->n; i++) o->order[i].best = o->order[i].offset;
  }
  return highest;
}

static double bytes_of(const clade__interval *at) { return (double)at->bytes; }
static double life_of(const clade__interval *at) { return (double)(at->death - at->birth); }
static double area_of(const clade__interval *at) { return bytes_of(at) * (life_of(at) + 1); }

static void try(ordering *o, double (*rank)(const clade__interval *), uint64_t bound, size_t tries) {
  uint64_t total;
  for (size_t i = 0; i < o->n; i++) o->order[i].rank = rank(o->order[i].from);
  qsort(o->order, o->n, sizeof *o->order, by_rank);
  for (size_t highest = place(o, &total); tries > 0 && o->least > bound; tries--) {
    item first = o->order[highest];
    if (!highest) return; /* it is first already */
    memmove(o->order + 1, o->order, highest * sizeof *o->order);
    o->order[0] = first;
    highest = place(o, &total);
  }
}

clade_status clade__pack_orders(size_t n, clade__interval *at, uint64_t bound, size_t limit, size_t *total) {
  static double (*const ranks[])(const clade__interval *) = {bytes_of, area_of, life_of};
  if (n > FEW || *total <= bound) return CLADE_OK;
  clade_status status = CLADE_NO_MEMORY;
  ordering o = {n, clade__new(n, sizeof *o.order), clade__new(n, sizeof *o.placed), *total};
  if (!o.order || !o.placed) goto fail;
  for (size_t i = 0; i < n; i++) o.order[i].from = &at[i];
  size_t tries = CLADE_MIN((size_t)WORK / (n * n), (size_t)MOST_TRIES);
  for (size_t i = 0; i < CLADE_COUNT(ranks) && o.least > bound; i++) try(&o, ranks[i], bound, tries);
  if (o.least < *total && o.least <= limit) {
    for (size_t i = 0; i < n; i++) at[o.order[i].from - at].offset = o.order[i].best;
    *total = (size_t)o.least;
  }
  status = CLADE_OK;
fail:
  clade__free(o.order);
  clade__free(o.placed);
  return status;
}
