/* Selects the channels to remove: those with the smallest scores of all layers, in blocks that leave good widths for
 * kernels. */
#include <math.h>
#include <stdlib.h>

#include "prune/prune.h"

int64_t clade__width_multiple(int64_t channels) {
  static const struct { int64_t from, multiple; } rows[] = {{32, 16}, {8, 4}, {4, 2}};
  for (size_t i = 0; i < CLADE_COUNT(rows); i++)
    if (channels >= rows[i].from) return rows[i].multiple;
  return 1;
}

typedef struct ranked {
  double score;
  size_t unit;
  int layer;
} ranked;

static int compare(double a, double b) { return (a > b) - (a < b); }

static int by_layer(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->layer != y->layer) return x->layer < y->layer ? -1 : 1;
  const int scores = compare(x->score, y->score);
  return scores ? scores : x->unit < y->unit ? -1 : 1;
}

/* Channels of a layer that are removed together, after the layer's earlier blocks. */
typedef struct block {
  double score; /* mean of its channels */
  size_t first, n;
  int layer;
} block;

static int by_score(const void *a, const void *b) {
  const block *x = a, *y = b;
  const int scores = compare(x->score, y->score);
  return scores ? scores : x->first < y->first ? -1 : 1;
}

/* Cuts a layer into blocks; the last block is never removed. The first block is the remainder of whole multiples. */
static size_t cut(const ranked *all, const clade__layer *layer, size_t first, block *blocks) {
  const size_t n = (size_t)layer->n, multiple = (size_t)layer->multiple;
  size_t count = 0;
  for (size_t at = 0, size; at + multiple < n; at += size) {
    block *b = &blocks[count++];
    size = at || n % multiple == 0 ? multiple : n % multiple;
    *b = (block){.first = first + at, .n = size, .layer = all[first].layer};
    for (size_t i = 0; i < size; i++) b->score += all[first + at + i].score / (double)size;
  }
  return count;
}

static void remove_block(clade__units *u, const ranked *all, const block *b) {
  for (size_t i = 0; i < b->n; i++) u->at[all[b->first + i].unit].removed = true;
  u->layers[b->layer].removed += (int64_t)b->n;
}

/* Removes blocks in the order of scores. If removing a block would move the total away from `wanted`, this block and
 * later ones of its layer stay. */
static void remove_blocks(clade__units *u, const ranked *all, const block *blocks, size_t n, bool *closed,
                          double wanted) {
  double removed = 0;
  for (size_t i = 0; i < n; i++) {
    const block *b = &blocks[i];
    if (closed[b->layer]) continue;
    closed[b->layer] = fabs(removed + (double)b->n - wanted) >= fabs(removed - wanted);
    if (closed[b->layer]) continue;
    remove_block(u, all, b);
    removed += (double)b->n;
  }
}

clade_status clade__units_choose(clade__units *u, double sparsity) {
  ranked *all = clade__new(u->n, sizeof *all);
  block *blocks = clade__new(u->n, sizeof *blocks);
  bool *closed = clade__new(u->n_layers, sizeof *closed);
  clade_status status = CLADE_NO_MEMORY;
  size_t n = 0;
  if (!all || !blocks || !closed) goto fail;
  for (size_t i = 0; i < u->n; i++) all[i] = (ranked){u->at[i].score, i, u->at[i].layer};
  if (u->n) qsort(all, u->n, sizeof *all, by_layer);
  for (size_t i = 0; i < u->n; i += (size_t)u->layers[all[i].layer].n)
    n += cut(all, &u->layers[all[i].layer], i, blocks + n);
  if (n) qsort(blocks, n, sizeof *blocks, by_score);
  remove_blocks(u, all, blocks, n, closed, round(sparsity * (double)u->n));
  status = CLADE_OK;
fail:
  clade__free(all);
  clade__free(blocks);
  clade__free(closed);
  return status;
}
