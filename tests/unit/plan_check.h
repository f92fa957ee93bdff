/* Independent checker of memory plans: parses clade_func_steps and tracks the owner of each byte range. Shares only
 * the text format with the planner. */
#ifndef PLAN_CHECK_H
#define PLAN_CHECK_H

#include <inttypes.h>
#include <stdio.h>

#include "plan_kit.h"

enum { CHECK_UNIT = 64, CHECK_CELLS = 1 << 16, CHECK_SLABS = 64 };

typedef struct check_use {
  int cell, index;
  char space[16];
  size_t offset, bytes;
} check_use;

typedef struct check_slab { /* owner of each unit: cell + 1 */
  int *owner;
  size_t units;
} check_slab;

typedef struct check_cell {
  int first, last, taken_from; /* line numbers */
  size_t bytes;
  bool counted;
} check_cell;

typedef struct check {
  check_slab slab[CHECK_SLABS];
  check_cell *cells;
  int n_cells, line, wrong;
  size_t alignment;
} check;

static inline size_t check_round(size_t bytes, size_t unit) { return ((bytes ? bytes : 1) + unit - 1) / unit * unit; }

static inline int *check_units(check *c, const check_use *u, size_t *n) {
  check_slab *s = &c->slab[u->index];
  size_t end = check_round(u->offset + (u->bytes ? u->bytes : 1), CHECK_UNIT) / CHECK_UNIT;
  assert_true(u->index < CHECK_SLABS && u->offset % CHECK_UNIT == 0);
  if (end > s->units) {
    size_t units = end > 2 * s->units ? end : 2 * s->units;
    s->owner = realloc(s->owner, units * sizeof *s->owner);
    assert_non_null(s->owner);
    memset(s->owner + s->units, 0, (units - s->units) * sizeof *s->owner);
    s->units = units;
  }
  *n = end - u->offset / CHECK_UNIT;
  return s->owner + u->offset / CHECK_UNIT;
}

static inline void check_seen(check *c, const check_use *u) {
  assert_true(u->cell < CHECK_CELLS);
  check_cell *cell = &c->cells[u->cell];
  if (!cell->counted) *cell = (check_cell){.first = c->line, .taken_from = -1, .counted = true};
  cell->last = c->line;
  cell->bytes = check_round(u->bytes, c->alignment);
  if (u->cell >= c->n_cells) c->n_cells = u->cell + 1;
}

static inline bool check_overlap(const check_use *a, const check_use *b) {
  return strcmp(a->space, b->space) == 0 && a->index == b->index && a->bytes && b->bytes &&
         a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* Parses "c3@arena:0:64:128,…" or "-" after `title`. */
static inline int check_uses(const char *line, const char *title, check_use *out, int room) {
  int n = 0, used;
  const char *at = strstr(line, title);
  assert_non_null(at);
  at += strlen(title);
  if (*at == '-') return 0;
  do {
    check_use *u = &out[n++];
    assert_true(n <= room);
    if (sscanf(at, "c%d@%15[a-z]:%d:%zu:%zu%n", &u->cell, u->space, &u->index, &u->offset, &u->bytes, &used) != 5)
      fail_msg("cannot read \"%s\"", at);
    at += used;
  } while (*at++ == ',');
  return n;
}

static inline void check_wrong(check *c, const char *what, const char *line) {
  if (c->wrong++ < 3) print_error("%s: %.*s\n", what, (int)strcspn(line, "\n"), line);
}

static inline void check_read(check *c, const check_use *u, const char *line) {
  size_t n;
  if (strcmp(u->space, "arena") != 0) return;
  int *owner = check_units(c, u, &n);
  check_seen(c, u);
  for (size_t i = 0; i < n; i++)
    if (owner[i] != u->cell + 1) {
      check_wrong(c, "reads what another value has overwritten", line);
      return;
    }
}

static inline void check_write(check *c, const check_use *u) {
  size_t n;
  if (strcmp(u->space, "arena") != 0) return;
  int *owner = check_units(c, u, &n);
  check_seen(c, u);
  for (size_t i = 0; i < n; i++) owner[i] = u->cell + 1;
}

static inline void check_line(check *c, const char *line) {
  check_use reads[CLADE_MAX_OPERANDS], writes[CLADE_MAX_OPERANDS], scratch[4];
  int n_reads = check_uses(line, " reads ", reads, CLADE_MAX_OPERANDS),
      n_writes = check_uses(line, " writes ", writes, CLADE_MAX_OPERANDS);
  int n_scratch = check_uses(line, " workspace ", scratch, 4);
  const char *named = strstr(line, " node fresh"); /* an op of the tests that never works in place */
  bool fresh = named && named < line + strcspn(line, "\n");
  for (int i = 0; i < n_reads; i++) check_read(c, &reads[i], line);
  for (int s = 0; s < n_scratch; s++) {
    if (c->cells[scratch[s].cell].counted) check_read(c, &scratch[s], line);
    for (int i = 0; i < n_reads; i++)
      if (check_overlap(&scratch[s], &reads[i])) check_wrong(c, "workspace over an input", line);
    for (int i = 0; i < n_writes; i++)
      if (check_overlap(&scratch[s], &writes[i])) check_wrong(c, "workspace over an output", line);
    check_write(c, &scratch[s]);
  }
  for (int w = 0; w < n_writes; w++) {
    for (int i = 0; i < n_reads; i++) {
      if (!check_overlap(&writes[w], &reads[i])) continue;
      if (fresh || writes[w].offset != reads[i].offset) check_wrong(c, "output over an input", line);
    }
    for (int k = 0; k < w; k++)
      if (check_overlap(&writes[w], &writes[k])) check_wrong(c, "two outputs in one place", line);
    check_write(c, &writes[w]);
    for (int i = 0; i < n_reads; i++)
      if (check_overlap(&writes[w], &reads[i]) && strcmp(reads[i].space, "arena") == 0)
        c->cells[writes[w].cell].taken_from = reads[i].cell;
  }
}

/* Number of elementwise steps that did not reuse an operand of the result's size that dies there. */
static inline int check_not_in_place(const char *text) {
  static int last[CHECK_CELLS];
  check_use reads[CLADE_MAX_OPERANDS], writes[CLADE_MAX_OPERANDS];
  int number = 0, wrong = 0;
  for (const char *line = text; *line; line = strchr(line, '\n') + 1, number++)
    for (int n = check_uses(line, " reads ", reads, CLADE_MAX_OPERANDS), i = 0; i < n; i++)
      last[reads[i].cell] = number;
  number = 0;
  for (const char *line = text; *line; line = strchr(line, '\n') + 1, number++) {
    const char *kernel = strstr(line, " kernel eltwise");
    bool dies = false, taken = false;
    if (!kernel || kernel > line + strcspn(line, "\n")) continue;
    int n = check_uses(line, " reads ", reads, CLADE_MAX_OPERANDS);
    assert_int_equal(check_uses(line, " writes ", writes, CLADE_MAX_OPERANDS), 1);
    for (int i = 0; i < n; i++) {
      dies |=
          strcmp(reads[i].space, "arena") == 0 && last[reads[i].cell] == number && reads[i].bytes == writes[0].bytes;
      taken |= check_overlap(&reads[i], &writes[0]);
    }
    wrong += strcmp(writes[0].space, "arena") == 0 && dies && !taken;
  }
  return wrong;
}

/* The largest sum of live bytes at any line; a cell that reuses another's memory counts once at that line. */
static inline size_t check_bound(const check *c) {
  size_t most = 0;
  for (int line = 0; line < c->line; line++) {
    size_t sum = 0;
    for (int i = 0; i < c->n_cells; i++) {
      const check_cell *cell = &c->cells[i];
      if (!cell->counted || line < cell->first || line > cell->last) continue;
      sum += line == cell->first && cell->taken_from >= 0 ? 0 : cell->bytes;
    }
    most = sum > most ? sum : most;
  }
  return most;
}

static inline void check_text(check *c, const char *text) {
  for (const char *line = text; *line; line = strchr(line, '\n') + 1, c->line++) check_line(c, line);
}

static inline void check_free(check *c) {
  for (int s = 0; s < CHECK_SLABS; s++) free(c->slab[s].owner);
  free(c->cells);
}

/* Fails the test if live values overlap; returns arena / lower bound. */
static inline double check_plan(const clade_func *func, clade_device *device) {
  check c = {.cells = calloc(CHECK_CELLS, sizeof *c.cells)};
  clade_device_info device_info = {.size = sizeof device_info};
  clade_func_info info = {.size = sizeof info};
  char *text;
  assert_non_null(c.cells);
  OK(clade_device_get_info(device, &device_info));
  OK(clade_func_get_info(func, &info));
  OK(clade_func_steps(func, &text));
  c.alignment = device_info.alignment > CHECK_UNIT ? device_info.alignment : CHECK_UNIT;
  check_text(&c, text);
  if (c.wrong) fail_msg("%d lines are wrong:\n%s", c.wrong, text);
  assert_int_equal(c.line, info.steps);
  size_t bound = check_bound(&c);
  clade_text_free(text);
  check_free(&c);
  assert_true(info.live_peak_bytes >= bound);
  return bound ? (double)info.arena_bytes / (double)bound : 1;
}

#endif
