/* Reductions on CPUs: one run of adjacent axes, in chunks that a second launch combines; or two runs, one after the
 * other, as in the gradient of a per-channel bias. */
#include "op/reduce/reduce.h"

/* Columns per work-item; few where compilers are slow with large arrays. */
static int64_t columns_of(const clade_query *q) { return q->device->max_passes ? CLADE__LANES : 1024; }

typedef struct split {
  int64_t outer, reduced, inner, chunks, chunk, items;
  int64_t joined, join_inner; /* number of partial results to combine (1: none); number of contiguous results */
  int mode;
} split;

/* Two runs of reduced axes: the inner one first, then the outer one in the second launch. */
static void plan_join(const clade__runs *g, split *p) {
  int first = -1, second = -1;
  for (int i = 0; i < g->n; i++)
    if (g->reduced[i]) *(first < 0 ? &first : &second) = i;
  p->joined = g->size[first];
  p->reduced = g->size[second];
  p->join_inner = 1;
  for (int i = 0; i < g->n; i++) {
    if (i != second) *(i < second ? &p->outer : &p->inner) *= g->size[i];
    if (i > first && i != second) p->join_inner *= g->size[i];
  }
}

/* Reduction over pixels, and perhaps samples, of images with blocked channels: (n, c / 16, pixels, 16). */
static bool plan_blocked(const clade_query *q, split *p) {
  const clade_shape *x = &q->node->in[0].shape;
  const clade__reduce_attrs *a = q->node->attrs;
  int64_t samples = x->dim[0], pixels = clade__product(x, 2, x->rank);
  int64_t blocks = clade__up(x->dim[1], CLADE__LANES) / CLADE__LANES * samples;
  *p = (split){.outer = samples, .reduced = pixels, .inner = x->dim[1], .joined = 1, .mode = 3};
  if (!blocks || !pixels) return false;
  int64_t chunks = CLADE_MIN(clade__ceil_div(CLADE__SUM_UNITS * 4, blocks), pixels / 256);
  p->chunk = clade__ceil_div(pixels, chunks);
  p->chunks = clade__ceil_div(pixels, p->chunk);
  p->items = blocks * p->chunks;
  p->joined = p->chunks * (clade__reduces(a, 0) ? samples : 1);
  p->join_inner = p->inner;
  return true;
}

/* Many short rows, or many groups of fewer adjacent lines than a vector has lanes. */
static bool plan_apart(const clade_query *q, split *p) {
  int64_t lines = p->outer * p->inner;
  bool few = p->inner == 1 ? p->reduced <= 2 * CLADE__LANES : p->inner < CLADE__LANES;
  if (!few || q->device->max_passes || lines < 1024) return false;
  p->mode = 4;
  p->chunks = 1;
  p->chunk = clade__up(clade__rows(q->device, lines, CLADE_MAX(p->reduced, 1)), CLADE__LANES);
  p->items = clade__ceil_div(lines, p->chunk);
  return true;
}

static bool plan(const clade_query *q, split *p) {
  if (q->node->in[0].layout.block) return plan_blocked(q, p);
  clade__runs g = clade__reduce_runs(q->node);
  *p = (split){.outer = 1, .reduced = 1, .inner = 1, .joined = 1};
  int n_reduced = 0;
  for (int i = 0; i < g.n; i++) n_reduced += g.reduced[i];
  bool twice = n_reduced == 2;
  if ((n_reduced != 1 && !twice) || g.outputs == 0 || (twice && g.count == 0)) return false;
  if (twice) plan_join(&g, p);
  for (int i = 0, after = 0; i < g.n && !twice; i++) {
    if (g.reduced[i])
      p->reduced = g.size[i];
    else
      *(after ? &p->inner : &p->outer) *= g.size[i];
    after |= g.reduced[i];
  }
  bool cpu = q->device->device_class == CLADE_CPU, wide = clade__is_float(q->node->in[0].dtype) && cpu;
  p->mode = !wide ? 0 : p->inner == 1 ? 1 : p->inner >= 16 ? 2 : 0;
  if (wide && !twice && plan_apart(q, p)) return true;
  /* limit over all loops of a work-item; fewer than 16 columns are processed one by one */
  int64_t strip = p->mode == 2 ? CLADE_MIN(p->inner, columns_of(q)) : 1, line = p->mode == 2 ? 2 * strip + 272 : 16;
  int64_t most = q->device->max_passes ? (q->device->max_passes - 2 * strip - 128) / line * 16 : INT64_MAX;
  int64_t columns = p->outer * clade__ceil_div(p->inner, strip);
  int64_t want = CLADE__SUM_UNITS * (cpu ? 4 : 1024), least = cpu ? CLADE_MAX(4096 / strip, 64) : 128;
  int64_t chunks = CLADE_MIN(clade__ceil_div(want, columns), p->reduced / least);
  chunks = twice ? 1 : CLADE_MAX(chunks, 1);
  p->chunk = clade__ceil_div(p->reduced, chunks);
  p->chunk = CLADE_MIN(CLADE_MAX((p->chunk + 15) / 16 * 16, 16), most);
  p->chunks = CLADE_MAX(clade__ceil_div(p->reduced, p->chunk), 1);
  p->items = columns * p->chunks;
  if (!twice) {
    p->joined = p->chunks;
    p->join_inner = p->inner;
  }
  return !twice || p->chunks == 1;
}

const char *clade__reduce_split_accept(const clade_query *q) {
  split p;
  if (!plan(q, &p)) return "the reduced axes are more than two runs of neighbors, or there is no output";
  return clade__cut_short(q->device, (double)p.joined + 1);
}

double clade__reduce_split_cost(const clade_query *q) {
  split p;
  if (!plan(q, &p)) return 1e9;
  double efficiency = p.mode ? 0.3 : 0.03, flops = 6.0 * (double)p.outer * (double)p.reduced * (double)p.inner;
  return clade__cost(q->device, flops, clade__node_bytes(q->node), efficiency) + (p.joined > 1 ? 5e-6 : 0);
}

static size_t acc_bytes(const clade_query *q) { return q->node->in[0].dtype == CLADE_I64 ? 8 : 4; }

size_t clade__reduce_split_workspace(const clade_query *q) {
  split p;
  return plan(q, &p) && p.joined > 1 ? (size_t)(p.outer * p.inner * p.chunks) * acc_bytes(q) : 0;
}

clade_status clade__reduce_split_emit(clade_emit *e, const clade_query *q) {
  split p;
  if (!plan(q, &p)) return CLADE_FAIL(INTERNAL, "reduce: split was emitted for axes that it refuses");
  clade_kernel_step *s = clade__reduce_kernel(e, q, "reduce_forward_split");
  clade_emit_define(s, "MODE", p.mode);
  clade_emit_define(s, "WIDE", columns_of(q));
  clade_emit_define(s, "DIRECT", p.joined == 1);
  clade_emit_in(s, 0);
  if (p.joined == 1)
    clade_emit_out(s, 0);
  else
    clade_emit_workspace(s, 0, acc_bytes(q));
  clade_emit_index(s, p.outer);
  clade_emit_index(s, p.reduced);
  clade_emit_index(s, p.inner);
  clade_emit_index(s, p.chunks);
  clade_emit_index(s, p.chunk);
  clade_emit_f32(s, clade__reduce_divisor(q, clade__reduce_runs(q->node).count));
  clade__emit_flat(s, q->device, p.items);
  if (p.joined == 1) return CLADE_OK;
  int64_t outputs = clade__reduce_runs(q->node).outputs;
  s = clade__reduce_kernel(e, q, "reduce_forward_join");
  clade_emit_workspace(s, 0, acc_bytes(q));
  clade_emit_out(s, 0);
  clade_emit_index(s, outputs);
  clade_emit_index(s, p.join_inner);
  clade_emit_index(s, p.joined);
  clade_emit_f32(s, clade__reduce_divisor(q, clade__reduce_runs(q->node).count));
  clade__emit_flat(s, q->device, outputs);
  return CLADE_OK;
}

/* ---- blocked: the same for blocked channels ---- */
const char *clade__reduce_blocked_accept(const clade_query *q) {
  const clade__reduce_attrs *a = q->node->attrs;
  const clade_shape *x = &q->node->in[0].shape;
  split p;
  if (!clade__is_float(q->node->in[0].dtype) || a->kind > CLADE__REDUCE_MEAN) return "requires floats";
  if (x->rank < 3 || clade__reduces(a, 1) || (a->axes | 3) != (1 << x->rank) - 1)
    return "requires a reduction over all axes but x's channels (axis 1), or those and the batch";
  return plan_blocked(q, &p) ? NULL : "the sum or the result is empty";
}

void clade__reduce_blocked_layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  (void)q, (void)out;
  in[0] = clade__channel_blocks();
}
