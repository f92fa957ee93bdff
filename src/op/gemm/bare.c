/* gemm on CPUs without packing, for a small b and row-major operands: register tiles read both operands in place. For
 * such sizes, packing would take a third of the time or more. */
#include "op/elt/epilogue.h"
#include "op/gemm/gemm.h"

/* Strides of b that are multiples of a page map many rows to few cache sets. */
enum { TM = 6, DOWN = 6, INNER = 7, MOST_COLUMNS = 256, PAGE = 4096 / sizeof(float) };

static int vectors(const clade_query *q) { return clade__vector_width(q->device) == 16 ? 4 : 2; } /* 24 sums, or 12 */
static int panel(const clade_query *q) { return vectors(q) * clade__vector_width(q->device); }

/* Largest b in bytes. With 24 multiply-adds per step there is time to read from the L2 cache. Rows at multiples of a
 * page use only a sixteenth of its sets. */
static int64_t most_bytes(const clade_query *q, int64_t config) {
  const int64_t l1 = q->device->l1_bytes ? (int64_t)q->device->l1_bytes : 32 << 10;
  const int64_t l2 = clade__second_cache(q->device);
  return (vectors(q) == 4 ? l2 / 2 : l1 / 3 * 2) / (config % PAGE ? 1 : 4);
}

const char *clade__gemm_bare_accept(const clade_query *q) {
  const clade__gemm_problem p = clade__gemm_problem_of(q->node);
  if (q->node->in[0].dtype != CLADE_F32 || q->node->in[1].dtype != CLADE_F32) return "requires f32";
  if ((p.k > 1 && p.stride[0][INNER] != 1) || p.stride[1][INNER] != 1) return "requires row-major operands";
  if (p.n % panel(q)) return "requires columns in whole panels";
  if (p.n > MOST_COLUMNS || p.k * p.n * (int64_t)sizeof(float) > most_bytes(q, p.stride[1][DOWN]))
    return "requires a small operand b";
  return NULL;
}

/* As the cost of `vec`, without packing. */
double clade__gemm_bare_cost(const clade_query *q) {
  const clade__gemm_problem p = clade__gemm_problem_of(q->node);
  const double flops = 2.0 * (double)p.batches * (double)p.k * (double)clade__up(p.m, 2) * (double)p.n;
  return clade__cost(q->device, flops, clade__gemm_bytes(q), q->device->vector_f32 < 4 ? 0.005 : 0.45) + 1e-6;
}

/* A part should take longer than the barrier after it in a persistent kernel, and each core gets several parts, so that
 * one that begins late takes fewer. Parts beyond a multiple of the cores would leave most cores idle at the end. */
static int64_t parts_of(const clade_query *q, const clade__gemm_problem *p) {
  enum { WAIT = 4000, SHARES = 4 }; /* in cycles; parts per core */
  const int64_t tiles = clade__ceil_div(p->m, TM), panels = p->n / panel(q);
  const int64_t cycles = p->batches * tiles * panels * (TM * vectors(q) / 2 * p->k + 40);
  const int64_t units = CLADE_MAX(q->device->compute_units, 1u), items = CLADE_MIN(SHARES * units, cycles / WAIT);
  const int64_t parts = CLADE_MAX(CLADE_MIN(items / p->batches, tiles), 1);
  return p->batches == 1 && parts > units ? parts / units * units : parts;
}

clade_status clade__gemm_bare_emit(clade_emit *e, const clade_query *q) {
  clade__gemm_problem p = clade__gemm_problem_of(q->node);
  const clade__gemm_attrs *at = q->node->attrs;
  clade_kernel_step *s;
  if (p.batches * p.m * p.n == 0) return CLADE_OK;
  const int64_t parts = parts_of(q, &p);
  CLADE_TRY(clade__gemm_begin(e, q->node, &p, "gemm_forward_vec_bare", &clade__gemm_own, &s));
  if (q->device->vector_f32 >= 4)
    CLADE_TRY(clade__epilogue_define16(s, q->node));
  else
    clade_emit_define(s, "WIDE", 0);
  clade_emit_define(s, "WIDTH", clade__vector_width(q->device));
  clade_emit_define(s, "TM", TM);
  clade_emit_define(s, "VECTORS", vectors(q));
  clade_emit_define(s, "INTEGER", 0);
  clade_emit_define(s, "PLAIN", at->epilogue.n_insn == 0);
  clade_emit_index8(s, 1, (int64_t[]){parts});
  clade__epilogue_args(s, q->node, &p.stride[2]);
  clade__emit_items(s, p.batches * parts);
  return CLADE_OK;
}
