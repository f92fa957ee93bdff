/* gemm on GPUs for few rows or few columns (cl_kernels/gemm_few.cl), limited by the memory bandwidth of the other
 * operand, which is read once. */
#include "op/elt/epilogue.h"
#include "op/gemm/gemm.h"
#include "op/group.h"
#include "op/product.h"

enum { MOST_ROWS = 16, BLOCK = 4 }; /* rows are computed in blocks of four, or as a single one */
enum { RUN_BYTES = 16, ALONG_LINES = 4, LANES = 32 };

/* rows: accumulators of the kernel. tiles: of columns, per matrix, one per work-group. */
typedef struct few {
  clade__gemm_problem p;
  bool swapped;
  clade__group group;
  int64_t rows, tiles;
  clade__parts parts;
} few;

/* If columns are contiguous along the inner axis, a team divides each column among its work-items; the fewer columns,
 * the larger the team. If columns are adjacent instead, each work-item has some of them, and a team divides the inner
 * axis. */
static clade__group group_of(const clade__gemm_problem *p) {
  enum { PLENTY = 8192, LONG = 1024, SPREAD_TEAM = CLADE__GROUP_ITEMS / LANES };
  const bool spread = p->stride[1][6] != 1;
  const bool large = p->batches * p->n < PLENTY && p->k >= LONG;
  const int64_t team = spread ? SPREAD_TEAM : large ? CLADE__GROUP_ITEMS : LANES;
  return (clade__group){team, CLADE__GROUP_ITEMS / team, spread};
}

/* Number of parts of the inner axis: about ENOUGH work-groups in total, but at least a few iterations per work-item. */
static int64_t parts_of(const few *f) {
  enum { ENOUGH = 256, TURNS = 4, STEPS = 8, MOST = 32 };
  const int64_t groups = CLADE_MAX(f->tiles * f->p.batches, 1);
  const int64_t least = f->group.team * TURNS * (f->group.spread ? STEPS : ALONG_LINES);
  return CLADE_MIN(CLADE_MIN(ENOUGH / groups, f->p.k / least), MOST);
}

/* Depends only on the sizes, since it determines the summation order. */
static few few_of(const clade_query *q) {
  few f = {.rows = 1};
  f.p = clade__gemm_lying(q->node, &f.swapped);
  f.group = group_of(&f.p);
  if (f.p.m > 1) f.rows = BLOCK;
  while (f.rows < CLADE_MIN(f.p.m, MOST_ROWS)) f.rows *= 2;
  const int64_t each = RUN_BYTES / (int64_t)clade__element_bytes(q->node->in[0].dtype);
  const int64_t columns = f.group.beside * (f.group.spread ? each : ALONG_LINES);
  f.tiles = clade__ceil_div(f.p.n, columns);
  const clade__matmul whole = {.m = f.p.m, .n = f.p.n, .k = f.p.k, .matrices = f.p.batches};
  f.parts = clade__parts_cut(&whole, parts_of(&f));
  return f;
}

static int64_t results_of(const few *f) { return f->p.batches * f->p.m * f->p.n; }

const char *clade__gemm_few_accept(const clade_query *q) {
  const char *reason = clade__gemm_floats(q);
  if (reason) return reason;
  if (!clade__is_computed(q->node->in[0].dtype)) return "requires f32, f16 and bf16";
  const few f = few_of(q);
  if (f.p.m > MOST_ROWS) return "requires at most 16 rows or columns";
  const double steps = (double)f.parts.each.k / (double)f.group.team + RUN_BYTES;
  return clade__group_refuses(q, steps + (double)(f.rows * LANES));
}

/* The fraction of the peak is an estimate: each step loads one element of the few rows per four multiply-adds. */
double clade__gemm_few_cost(const clade_query *q) {
  const few f = few_of(q);
  const int64_t rows = f.rows > 1 ? clade__up(f.p.m, BLOCK) : 1;
  const double flops = 2.0 * (double)f.p.batches * (double)rows * (double)f.p.n * (double)f.p.k;
  const double moved = 2 * (double)clade__parts_bytes(&f.parts, results_of(&f)); /* written and read again */
  return clade__cost(q->device, flops, clade__gemm_bytes(q) + moved, 0.6) + (f.parts.n > 1 ? 1e-6 : 0);
}

size_t clade__gemm_few_workspace(const clade_query *q) {
  const few f = few_of(q);
  return clade__parts_bytes(&f.parts, results_of(&f));
}

static clade_status join(clade_emit *e, const clade_query *q, const few *f) {
  clade__gemm_problem p = clade__gemm_problem_of(q->node); /* partial sums are in the order of the results */
  clade_kernel_step *s;
  CLADE_TRY(clade__parts_join(e, q, &f->parts, p.dim, ((const clade__gemm_attrs *)q->node->attrs)->alpha, &s));
  s->file = "product";
  clade__epilogue_args(s, q->node, &p.stride[2]);
  return CLADE_OK;
}

clade_status clade__gemm_few_emit(clade_emit *e, const clade_query *q) {
  static const size_t scratch;
  few f = few_of(q);
  const bool cut = f.parts.n > 1;
  clade__gemm_places at = f.swapped ? clade__gemm_swapped : clade__gemm_own;
  clade_kernel_step *s;
  if (!results_of(&f)) return CLADE_OK;
  if (cut) at.y.scratch = &scratch;
  CLADE_TRY(clade__gemm_begin(e, q->node, &f.p, "gemm_forward_few", &at, &s));
  clade_emit_define(s, "ROWS", f.rows);
  clade_emit_define(s, "IN_PARTS", cut);
  /* unrolled loops are slow to compile for CPUs */
  clade_emit_define(s, "ROLLED", q->device->device_class == CLADE_CPU || q->device->software);
  clade_emit_index8(s, 4, (int64_t[]){f.swapped ? 1 : f.p.n, f.swapped ? f.p.m : 1, f.parts.span, f.parts.n});
  if (!cut) clade__epilogue_args(s, q->node, &f.p.stride[2]);
  clade__emit_groups(s, q, &f.group, f.tiles * f.parts.n * f.p.batches * f.group.beside);
  return cut ? join(e, q, &f) : CLADE_OK;
}
