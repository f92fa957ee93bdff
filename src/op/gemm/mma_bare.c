/* gemm on CPUs with vector dot products (8-bit integers, bf16) and without packing: rows of a consist of whole words,
 * and b is in panels. The whole inner axis is one slice, so partial sums never leave the registers, and the rows may be
 * divided into as many work-items as there are cores to use. */
#include "op/elt/epilogue.h"
#include "op/gemm/gemm.h"

#include <math.h>

enum { PANEL = 32, PAIR = 2 * PANEL, TM = 6, EIGHT = 8 /* rows of a tile; eight are one tile */, BM = 258 };

static int64_t words(const clade_query *q, const clade__gemm_problem *p) {
  return p->k * (int64_t)clade__element_bytes(q->node->in[0].dtype) / 4;
}

const char *clade__gemm_mma_bare_accept(const clade_query *q) {
  const clade__gemm_problem p = clade__gemm_problem_of(q->node);
  const char *reason = clade__gemm_mma_panels_accept(q);
  if (reason) return reason;
  if (p.stride[0][7] != 1 || p.k == 0 || words(q, &p) * 4 != p.k * (int64_t)clade__element_bytes(q->node->in[0].dtype))
    return "requires rows of a that are whole words";
  if (words(q, &p) * 4 * PAIR > clade__second_cache(q->device) / 8 * 3) /* leaves room for the next panels */
    return "two panels of b take more than three eighths of a cache";
  return NULL;
}

double clade__gemm_mma_bare_cost(const clade_query *q) {
  const clade__gemm_problem p = clade__gemm_problem_of(q->node);
  const double products = (double)p.batches * (double)p.k * (double)clade__up(p.m, 2) * (double)clade__up(p.n, PANEL);
  const double speed = q->node->in[1].dtype == CLADE_I8 ? 4 : 1.4;
  const double efficiency = q->device->vector_f32 < 4 ? 0.005 : 0.45;
  return clade__cost(q->device, 2 * products / speed, clade__node_bytes(q->node), efficiency) + 1e-6;
}

typedef struct division {
  int64_t down, across, rows;
} division;

/* Divides rows and columns into equal parts so that the cores finish early; one that begins late takes fewer parts.
 * Each part of the rows reads the panels of its columns again. Sums do not depend on it. */
static division divide(const clade_query *q, const clade__gemm_problem *p) {
  enum { LATEST = 20000, LATE = 8000, BEGIN = 400, READ = 8 }; /* in cycles; READ: of a panel, per word of a line */
  const int64_t deep = words(q, p), units = CLADE_MAX(q->device->compute_units, 1u);
  const int64_t most = CLADE_MAX(CLADE_MIN(clade__second_cache(q->device) / 2 / (4 * deep), BM) / TM, 1) * TM;
  const int64_t panels = clade__ceil_div(p->n, PANEL), least = CLADE_MAX(clade__ceil_div(p->m, most), 1);
  const int64_t tiles = CLADE_MAX(clade__ceil_div(p->m, TM), least);
  division d = {.across = 1, .down = least};
  double best = INFINITY;
  for (int64_t down = least; down <= CLADE_MAX(CLADE_MIN(tiles, units), least); down++)
    for (int64_t across = 1; across <= CLADE_MIN(panels, 2 * units); across++) {
      const int64_t items = down * across * p->batches, turns = clade__ceil_div(items, units);
      const double wide = (double)clade__ceil_div(panels, across);
      const int64_t each = clade__ceil_div(p->m, down);
      const double rows = (double)(each == EIGHT ? EIGHT : clade__up(each, TM));
      const double item = (double)deep * (rows * (wide + 0.1) + READ * wide) + 40 * wide * rows / TM + BEGIN;
      const double time = (double)turns * item + (items > 1 ? CLADE_MIN(CLADE_MAX(item, LATE), LATEST) : 0);
      if (time >= best) continue;
      best = time;
      d.down = down;
      d.across = across;
    }
  d.rows = clade__up(clade__ceil_div(p->m, d.down), TM);
  return d;
}

clade_status clade__gemm_mma_bare_emit(clade_emit *e, const clade_query *q) {
  clade__gemm_problem p = clade__gemm_problem_of(q->node);
  clade_kernel_step *s;
  if (p.batches * p.m * p.n == 0) return CLADE_OK;
  const division d = divide(q, &p);
  CLADE_TRY(clade__gemm_mma_begin(e, q, &p, "gemm_forward_mma_bare", false, &s));
  clade_emit_define(s, "BM", BM);
  clade_emit_index8(s, 3, (int64_t[]){d.down, d.across, d.rows});
  clade__epilogue_args(s, q->node, &p.stride[2]);
  clade__emit_items(s, d.down * d.across * p.batches);
  return CLADE_OK;
}
