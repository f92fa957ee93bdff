/* Memory allocation for intervals: best fit in order of time, with a treap of free blocks. For small problems, other
 * insertion orders give better results (pack_order.c). */
#include "plan/plan.h"

enum { NONE = -1 };
/* Kernels use 32-bit offsets unless an operand is larger, so no interval may begin beyond this. */
static const size_t last_offset = INT32_MAX;

/* A block of a slab, allocated or free. All blocks are linked by address; free ones are also in the treap. */
typedef struct block {
  size_t slab, offset, bytes;
  int32_t before, after; /* neighbors by address in the slab */
  int32_t left, right;   /* children in the treap */
  uint32_t priority;
  bool is_free;
} block;

typedef struct packer {
  block *blocks;
  size_t n_blocks, capacity;
  int32_t unused; /* list of recycled blocks, linked by `after` */
  int32_t root;
  int32_t *tail; /* last block of each slab */
  size_t *sizes;
  size_t n_slabs, tail_capacity, size_capacity, limit;
} packer;

/* ---- treap, ordered by (bytes, slab, offset) ---- */
static bool smaller(const packer *p, int32_t a, int32_t b) {
  const block *x = &p->blocks[a], *y = &p->blocks[b];
  if (x->bytes != y->bytes) return x->bytes < y->bytes;
  return x->slab != y->slab ? x->slab < y->slab : x->offset < y->offset;
}

static int32_t merge(packer *p, int32_t a, int32_t b) {
  if (a == NONE || b == NONE) return a == NONE ? b : a;
  if (p->blocks[a].priority > p->blocks[b].priority) {
    int32_t right = merge(p, p->blocks[a].right, b);
    p->blocks[a].right = right;
    return a;
  }
  int32_t left = merge(p, a, p->blocks[b].left);
  p->blocks[b].left = left;
  return b;
}

/* *less: blocks smaller than `key`. */
static void split(packer *p, int32_t root, int32_t key, int32_t *less, int32_t *rest) {
  if (root == NONE) {
    *less = *rest = NONE;
  } else if (smaller(p, root, key)) {
    split(p, p->blocks[root].right, key, &p->blocks[root].right, rest);
    *less = root;
  } else {
    split(p, p->blocks[root].left, key, less, &p->blocks[root].left);
    *rest = root;
  }
}

static void insert(packer *p, int32_t b) {
  int32_t less, rest;
  p->blocks[b].left = p->blocks[b].right = NONE;
  p->blocks[b].is_free = true;
  split(p, p->root, b, &less, &rest);
  p->root = merge(p, merge(p, less, b), rest);
}

static void take_out(packer *p, int32_t b) {
  int32_t *at = &p->root;
  while (*at != b) at = smaller(p, *at, b) ? &p->blocks[*at].right : &p->blocks[*at].left;
  *at = merge(p, p->blocks[b].left, p->blocks[b].right);
  p->blocks[b].is_free = false;
}

static int32_t best_fit(const packer *p, size_t bytes) {
  int32_t best = NONE;
  for (int32_t at = p->root; at != NONE;) {
    bool fits = p->blocks[at].bytes >= bytes;
    if (fits) best = at;
    at = fits ? p->blocks[at].left : p->blocks[at].right;
  }
  return best;
}

/* ---- blocks ---- */
static clade_status block_new(packer *p, size_t slab, size_t offset, size_t bytes, int32_t *out) {
  if (p->unused != NONE) {
    *out = p->unused;
    p->unused = p->blocks[*out].after;
  } else {
    CLADE_TRY(clade__grow(&p->blocks, &p->capacity, p->n_blocks + 1, sizeof *p->blocks));
    *out = (int32_t)p->n_blocks++;
  }
  uint32_t mix = (uint32_t)*out * 2654435761u; /* scattered, reproducible priorities */
  mix = (mix ^ mix >> 15) * 2246822519u;
  p->blocks[*out] = (block){.slab = slab,
                            .offset = offset,
                            .bytes = bytes,
                            .before = NONE,
                            .after = NONE,
                            .left = NONE,
                            .right = NONE,
                            .priority = mix ^ mix >> 13};
  return CLADE_OK;
}

/* Merges `b` into the preceding block `a`. */
static void join(packer *p, int32_t a, int32_t b) {
  block *x = &p->blocks[a], *y = &p->blocks[b];
  x->bytes += y->bytes;
  x->after = y->after;
  if (y->after != NONE) p->blocks[y->after].before = a;
  if (p->tail[x->slab] == b) p->tail[x->slab] = a;
  y->after = p->unused;
  p->unused = b;
}

static void give_back(packer *p, int32_t b) {
  int32_t before = p->blocks[b].before, after = p->blocks[b].after;
  if (after != NONE && p->blocks[after].is_free) {
    take_out(p, after);
    join(p, b, after);
  }
  if (before != NONE && p->blocks[before].is_free) {
    take_out(p, before);
    join(p, before, b);
    b = before;
  }
  insert(p, b);
}

/* Returns the excess of an allocated block. */
static clade_status trim(packer *p, int32_t b, size_t bytes) {
  int32_t rest;
  size_t slab = p->blocks[b].slab, offset = p->blocks[b].offset;
  if (p->blocks[b].bytes == bytes || offset + bytes > last_offset) return CLADE_OK;
  CLADE_TRY(block_new(p, slab, offset + bytes, p->blocks[b].bytes - bytes, &rest));
  block *x = &p->blocks[b], *y = &p->blocks[rest];
  x->bytes = bytes;
  y->before = b;
  y->after = x->after;
  if (x->after != NONE) p->blocks[x->after].before = rest;
  x->after = rest;
  if (p->tail[slab] == b) p->tail[slab] = rest;
  insert(p, rest);
  return CLADE_OK;
}

/* Extends the first slab with room, reusing its last block if free; otherwise adds a slab. */
static clade_status extend(packer *p, size_t bytes, int32_t *out) {
  for (size_t s = 0; s < p->n_slabs; s++) {
    int32_t tail = p->tail[s];
    bool over = p->blocks[tail].is_free;
    size_t start = over ? p->blocks[tail].offset : p->sizes[s];
    if (start > p->limit || bytes > p->limit - start) continue;
    p->sizes[s] = start + bytes;
    if (over) {
      take_out(p, tail);
      p->blocks[tail].bytes = bytes;
      *out = tail;
      return CLADE_OK;
    }
    CLADE_TRY(block_new(p, s, start, bytes, out));
    p->blocks[*out].before = tail;
    p->blocks[tail].after = p->tail[s] = *out;
    return CLADE_OK;
  }
  CLADE_TRY(clade__grow(&p->tail, &p->tail_capacity, p->n_slabs + 1, sizeof *p->tail));
  CLADE_TRY(clade__grow(&p->sizes, &p->size_capacity, p->n_slabs + 1, sizeof *p->sizes));
  CLADE_TRY(block_new(p, p->n_slabs, 0, bytes, out));
  p->tail[p->n_slabs] = *out;
  p->sizes[p->n_slabs++] = bytes;
  return CLADE_OK;
}

static clade_status obtain(packer *p, size_t bytes, int32_t *out) {
  *out = best_fit(p, bytes);
  if (*out == NONE) return extend(p, bytes, out);
  take_out(p, *out);
  return trim(p, *out, bytes);
}

/* ---- allocation in order of time ---- */
/* Intervals by birth and by death: list heads per time and links. */
typedef struct times {
  int32_t *first_birth, *first_death, *next_birth, *next_death, *block;
} times;

static void times_free(times *t) {
  clade__free(t->first_birth);
  clade__free(t->first_death);
  clade__free(t->next_birth);
  clade__free(t->next_death);
  clade__free(t->block);
}

static clade_status times_new(times *t, size_t n, const clade__interval *at, uint32_t end) {
  *t = (times){clade__new((size_t)end + 1, sizeof(int32_t)), clade__new((size_t)end + 1, sizeof(int32_t)),
               clade__new(n, sizeof(int32_t)), clade__new(n, sizeof(int32_t)), clade__new(n, sizeof(int32_t))};
  if (!t->first_birth || !t->first_death || !t->next_birth || !t->next_death || !t->block) {
    times_free(t);
    return CLADE_NO_MEMORY;
  }
  for (uint32_t i = 0; i <= end; i++) t->first_birth[i] = t->first_death[i] = NONE;
  for (size_t i = n; i-- > 0;) {
    t->next_birth[i] = t->first_birth[at[i].birth];
    t->first_birth[at[i].birth] = (int32_t)i;
    t->next_death[i] = t->first_death[at[i].death];
    t->first_death[at[i].death] = (int32_t)i;
  }
  return CLADE_OK;
}

static clade_status along_time(packer *p, const times *t, clade__interval *at, uint32_t end) {
  for (uint32_t now = 0; now <= end; now++) {
    for (int32_t i = t->first_birth[now]; i != NONE; i = t->next_birth[i]) {
      CLADE_TRY(obtain(p, at[i].bytes, &t->block[i]));
      at[i].slab = p->blocks[t->block[i]].slab;
      at[i].offset = p->blocks[t->block[i]].offset;
    }
    for (int32_t i = t->first_death[now]; i != NONE; i = t->next_death[i]) give_back(p, t->block[i]);
  }
  return CLADE_OK;
}

static uint64_t sum_at_worst(const times *t, const clade__interval *at, uint32_t end) {
  uint64_t alive = 0, most = 0;
  for (uint32_t now = 0; now <= end; now++) {
    for (int32_t i = t->first_birth[now]; i != NONE; i = t->next_birth[i]) alive += at[i].bytes;
    most = CLADE_MAX(most, alive);
    for (int32_t i = t->first_death[now]; i != NONE; i = t->next_death[i]) alive -= at[i].bytes;
  }
  return most;
}

clade_status clade__pack_bound(size_t n, const clade__interval *at, uint32_t end, uint64_t *bound) {
  times t;
  CLADE_TRY(times_new(&t, n, at, end));
  *bound = sum_at_worst(&t, at, end);
  times_free(&t);
  return CLADE_OK;
}

clade_status clade__pack(size_t n, clade__interval *at, uint32_t end, size_t limit, size_t **sizes, size_t *n_slabs) {
  packer p = {.unused = NONE, .root = NONE, .limit = CLADE_MIN(limit, last_offset)};
  times t;
  clade_status status;
  for (size_t i = 0; i < n; i++)
    if (at[i].bytes > limit)
      return CLADE_FAIL(DEVICE_MEMORY, "a value of %zu bytes is larger than the device's largest buffer, %zu",
                        at[i].bytes, limit);
  CLADE_TRY(times_new(&t, n, at, end));
  CLADE_GOTO(along_time(&p, &t, at, end));
  if (p.n_slabs == 1) CLADE_GOTO(clade__pack_orders(n, at, sum_at_worst(&t, at, end), p.limit, &p.sizes[0]));
  *sizes = p.sizes;
  *n_slabs = p.n_slabs;
  p.sizes = NULL;
fail:
  times_free(&t);
  clade__free(p.blocks);
  clade__free(p.tail);
  clade__free(p.sizes);
  return status;
}
