/* Sum, mean, maximum or minimum over any axes. The error of float sums is at most 2^-22 of the sum of absolute values,
 * for any number of elements, plus the rounding to the stored type. Over no elements: sum 0, mean NaN, maximum the
 * lowest value of the type, minimum the highest. The gradient of a maximum or minimum is divided equally among all
 * elements that attain it. */
#include <clade/ops.h>

#include "ir/dimensions.h"
#include "ir/ties.h"
#include "op/group.h"
#include "op/reduce.h"
#include "op/systolic.h"

enum { SUM = CLADE__REDUCE_SUM, MEAN = CLADE__REDUCE_MEAN, MAX = CLADE__REDUCE_MAX, MIN = CLADE__REDUCE_MIN };
static const char *const names[] = {"sum", "mean", "reduce_max", "reduce_min"};

typedef struct attrs {
  int32_t kind, axes; /* one bit per axis */
  bool keep;
} attrs;
static const clade_attr table[] = {{"kind", CLADE_ATTR_I32, offsetof(attrs, kind), 1},
                                   {"axes", CLADE_ATTR_I32, offsetof(attrs, axes), 1},
                                   {"keep", CLADE_ATTR_BOOL, offsetof(attrs, keep), 1},
                                   {0}};

static bool reduces(const attrs *a, int axis) { return a->axes >> axis & 1; }
static clade_shape shape_of(const clade_shape *x, const attrs *a, bool keep) {
  clade_shape y = {0};
  for (int i = 0; i < x->rank; i++)
    if (!reduces(a, i))
      y.dim[y.rank++] = x->dim[i];
    else if (keep)
      y.dim[y.rank++] = 1;
  return y;
}

static clade_status infer(clade_node *n) {
  const attrs *a = n->attrs;
  clade_dtype t = n->in[0].dtype;
  int rank = n->in[0].shape.rank;
  CLADE_TRY(clade__want_dense(n));
  if (a->kind < SUM || a->kind > MIN) return CLADE_FAIL(INVALID, "reduce: kind is %d; expected 0 to 3", a->kind);
  if (a->axes < 0 || a->axes >> rank)
    return CLADE_FAIL(INVALID, "%s: axes 0x%x name one out of range for x of rank %d", names[a->kind],
                      (unsigned)a->axes, rank);
  CLADE_TRY(a->kind == MEAN ? clade__want_float_type("mean", "x", t) : clade__want_computed(names[a->kind], "x", t));
  if (a->kind == SUM && t == CLADE_BOOL) return CLADE_FAIL(DTYPE, "sum: x is bool; cast it to a number first");
  n->out[0] = (clade_type){.dtype = t, .shape = shape_of(&n->in[0].shape, a, a->keep)};
  return CLADE_OK;
}

static void ties(clade_ties *t, const clade_node *n) {
  const attrs *a = n->attrs;
  for (int i = 0, k = 0; i < n->in[0].shape.rank; i++) {
    if (reduces(a, i))
      clade_keep_axis(t, 0, i);
    else
      clade_tie_axes(t, 0, i, 1, k);
    k += !reduces(a, i) || a->keep;
  }
}

static void dims(clade_dims *d, const clade_node *n) {
  const attrs *a = n->attrs;
  for (int i = 0, k = 0; i < n->in[0].shape.rank; i++) {
    if (!reduces(a, i))
      clade__dims_axis(d, n, i, k);
    else if (a->kind == SUM || a->kind == MEAN)
      clade_dims_along(d, clade_dims_add(d, a->kind == SUM ? CLADE_DIM_SUM : CLADE_DIM_MEAN), 0, i, 1);
    k += !reduces(a, i) || a->keep;
  }
}

static clade_status grad(clade_grad *g) {
  const attrs *a = g->node->attrs;
  const clade_type *x = &g->node->in[0];
  clade_shape kept = shape_of(&x->shape, a, true);
  clade_val dy = clade_reshape(g->graph, g->dout[0], kept);
  if (a->kind == MEAN) {
    g->din[0] = clade__broadcast_mean(g->graph, dy, &x->shape);
  } else if (a->kind == SUM) {
    g->din[0] = clade_broadcast(g->graph, dy, x->shape);
  } else {
    clade_val y = clade_reshape(g->graph, g->out[0], kept);
    clade_val hit = clade_cast(g->graph, clade_eq(g->graph, g->in[0], y), x->dtype);
    clade_reduce_opt opt = {.size = sizeof opt, .x = hit, .keep = true};
    for (int i = 0; i < x->shape.rank; i++)
      if (reduces(a, i)) opt.axes[opt.n_axes++] = i;
    clade_val share = opt.n_axes ? clade_div(g->graph, dy, clade_sum_(g->graph, &opt)) : dy;
    g->din[0] = clade_mul(g->graph, hit, share);
  }
  return CLADE_OK;
}

/* ---- the shape as alternating runs of kept and reduced axes ---- */
typedef struct groups {
  int n;
  bool reduced[CLADE_MAX_RANK];
  int64_t size[CLADE_MAX_RANK], stride[CLADE_MAX_RANK];
  int64_t outputs, count; /* number of kept and of reduced elements */
} groups;

static groups group(const clade_node *n) {
  const attrs *a = n->attrs;
  const clade_shape *x = &n->in[0].shape;
  groups g = {.outputs = 1, .count = 1};
  int64_t stride[CLADE_MAX_RANK] = {0};
  clade__strides(x, stride);
  for (int i = 0; i < x->rank; i++) {
    bool r = reduces(a, i);
    *(r ? &g.count : &g.outputs) *= x->dim[i];
    if (x->dim[i] == 1) continue;
    if (g.n == 0 || g.reduced[g.n - 1] != r) {
      g.reduced[g.n] = r;
      g.size[g.n++] = 1;
    }
    g.size[g.n - 1] *= x->dim[i];
    g.stride[g.n - 1] = stride[i];
  }
  return g;
}

/* The result over no elements, which is also the kernel's initial value. */
static void define_empty(clade_kernel_step *s, int kind, clade_dtype t) {
  const bool max = kind == MAX;
  const int64_t bound = max ? clade__dtype_low(t) : clade__dtype_high(t);
  if (kind <= MEAN)
    clade_emit_define(s, "EMPTY", 0);
  else if (clade__is_float(t))
    clade_emit_define_text(s, "EMPTY", max ? "-INFINITY" : "INFINITY");
  else if (bound == INT64_MIN || bound == INT64_MAX)
    clade_emit_define_text(s, "EMPTY", max ? "LONG_MIN" : "LONG_MAX");
  else if (bound == INT32_MIN || bound == INT32_MAX)
    clade_emit_define_text(s, "EMPTY", max ? "INT_MIN" : "INT_MAX");
  else
    clade_emit_define(s, "EMPTY", bound);
}

int clade__reduce_kind(const clade_query *q) { return ((const attrs *)q->node->attrs)->kind; }

static float divisor(const clade_query *q, int64_t count) {
  return clade__reduce_kind(q) == MEAN ? (float)count : 1.0f;
}

static clade_kernel_step *kernel(clade_emit *e, const clade_query *q, const char *name) {
  const attrs *a = q->node->attrs;
  clade_dtype t = q->node->in[0].dtype;
  bool f = clade__is_float(t), sum = a->kind <= MEAN;
  clade_kernel_step *s = clade_emit_kernel(e, name);
  clade_emit_define_text(s, "T", clade_dtype_name(t));
  clade_emit_define(s, "KIND", sum ? SUM : a->kind); /* means use the sum kernel with a divisor */
  clade_emit_define(s, "FLOAT", f);
  clade_emit_define_text(s, "ACC", f ? "float" : t == CLADE_I64 ? (sum ? "ulong" : "long") : sum ? "uint" : "int");
  define_empty(s, a->kind, t);
  return s;
}

/* ---- ref: one work-item per result, any axes ---- */
static double ref_cost(const clade_query *q) {
  groups g = group(q->node);
  double parallel = q->device->device_class == CLADE_CPU ? 0.02 : 0.1;
  return clade__cost(q->device, 6.0 * (double)g.outputs * (double)g.count, clade__node_bytes(q->node), parallel);
}

typedef clade__nest nest;
nest clade__reduce_nest(const clade_query *q) {
  groups g = group(q->node);
  nest n = {.dim = {1, 1, 1, 1, 1, 1, 1, 1}, .outputs = g.outputs, .count = g.count};
  int kept = 3, reduced = 7;
  for (int i = g.n - 1; i >= 0; i--) {
    int at = g.reduced[i] ? reduced-- : kept--;
    n.dim[at] = g.size[i];
    n.stride[at] = g.stride[i];
  }
  return n;
}

static const char *ref_accept(const clade_query *q) {
  nest n = clade__reduce_nest(q);
  double passes = 0;
  for (int i = 7; i >= 4; i--) passes = (double)n.dim[i] * (passes + 1) + 1;
  return clade__cut_short(q->device, passes);
}

static clade_status ref_emit(clade_emit *e, const clade_query *q) {
  nest n = clade__reduce_nest(q);
  clade_kernel_step *s = kernel(e, q, "reduce_forward_ref");
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, n.outputs);
  clade_emit_index8(s, 8, n.dim);
  clade_emit_index8(s, 8, n.stride);
  clade_emit_f32(s, divisor(q, n.count));
  clade__emit_flat(s, q->device, n.outputs);
  return CLADE_OK;
}

/* ---- split: one run of adjacent axes, in chunks that a second launch combines; or two runs, one after the other, as
 * in the gradient of a per-channel bias ---- */
/* Columns per work-item; few where compilers are slow with large arrays. */
static int64_t columns_of(const clade_query *q) { return q->device->max_passes ? CLADE__LANES : 1024; }

typedef struct split {
  int64_t outer, reduced, inner, chunks, chunk, items;
  int64_t joined, join_inner; /* number of partial results to combine (1: none); number of contiguous results */
  int mode;
} split;

/* Two runs of reduced axes: the inner one first, then the outer one in the second launch. */
static void plan_join(const groups *g, split *p) {
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
  const attrs *a = q->node->attrs;
  int64_t samples = x->dim[0], pixels = clade__product(x, 2, x->rank);
  int64_t blocks = clade__up(x->dim[1], CLADE__LANES) / CLADE__LANES * samples;
  *p = (split){.outer = samples, .reduced = pixels, .inner = x->dim[1], .joined = 1, .mode = 3};
  if (!blocks || !pixels) return false;
  int64_t chunks = CLADE_MIN((CLADE__SUM_UNITS * 4 + blocks - 1) / blocks, pixels / 256);
  p->chunk = (pixels + CLADE_MAX(chunks, 1) - 1) / CLADE_MAX(chunks, 1);
  p->chunks = (pixels + p->chunk - 1) / p->chunk;
  p->items = blocks * p->chunks;
  p->joined = p->chunks * (reduces(a, 0) ? samples : 1);
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
  p->items = (lines + p->chunk - 1) / p->chunk;
  return true;
}

static bool plan(const clade_query *q, split *p) {
  if (q->node->in[0].layout.block) return plan_blocked(q, p);
  groups g = group(q->node);
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
  int64_t columns = p->outer * ((p->inner + strip - 1) / strip);
  int64_t want = CLADE__SUM_UNITS * (cpu ? 4 : 1024), least = cpu ? CLADE_MAX(4096 / strip, 64) : 128;
  int64_t chunks = CLADE_MIN((want + columns - 1) / columns, p->reduced / least);
  chunks = twice ? 1 : CLADE_MAX(chunks, 1);
  p->chunk = (p->reduced + chunks - 1) / chunks;
  p->chunk = CLADE_MIN(CLADE_MAX((p->chunk + 15) / 16 * 16, 16), most);
  p->chunks = CLADE_MAX((p->reduced + p->chunk - 1) / p->chunk, 1);
  p->items = columns * p->chunks;
  if (!twice) {
    p->joined = p->chunks;
    p->join_inner = p->inner;
  }
  return !twice || p->chunks == 1;
}

static const char *split_accept(const clade_query *q) {
  split p;
  if (!plan(q, &p)) return "the reduced axes are more than two runs of neighbors, or there is no output";
  return clade__cut_short(q->device, (double)p.joined + 1);
}

static double split_cost(const clade_query *q) {
  split p;
  if (!plan(q, &p)) return 1e9;
  double efficiency = p.mode ? 0.3 : 0.03, flops = 6.0 * (double)p.outer * (double)p.reduced * (double)p.inner;
  return clade__cost(q->device, flops, clade__node_bytes(q->node), efficiency) + (p.joined > 1 ? 5e-6 : 0);
}

static size_t acc_bytes(const clade_query *q) { return q->node->in[0].dtype == CLADE_I64 ? 8 : 4; }

static size_t split_workspace(const clade_query *q) {
  split p;
  return plan(q, &p) && p.joined > 1 ? (size_t)(p.outer * p.inner * p.chunks) * acc_bytes(q) : 0;
}

static clade_status split_emit(clade_emit *e, const clade_query *q) {
  split p;
  if (!plan(q, &p)) return CLADE_FAIL(INTERNAL, "reduce: split was emitted for axes that it refuses");
  clade_kernel_step *s = kernel(e, q, "reduce_forward_split");
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
  clade_emit_f32(s, divisor(q, group(q->node).count));
  clade__emit_flat(s, q->device, p.items);
  if (p.joined == 1) return CLADE_OK;
  int64_t outputs = group(q->node).outputs;
  s = kernel(e, q, "reduce_forward_join");
  clade_emit_workspace(s, 0, acc_bytes(q));
  clade_emit_out(s, 0);
  clade_emit_index(s, outputs);
  clade_emit_index(s, p.join_inner);
  clade_emit_index(s, p.joined);
  clade_emit_f32(s, divisor(q, group(q->node).count));
  clade__emit_flat(s, q->device, outputs);
  return CLADE_OK;
}

/* ---- blocked: the same for blocked channels ---- */
static const char *blocked_accept(const clade_query *q) {
  const attrs *a = q->node->attrs;
  const clade_shape *x = &q->node->in[0].shape;
  split p;
  if (!clade__is_float(q->node->in[0].dtype) || a->kind > MEAN) return "it adds floats";
  if (x->rank < 3 || reduces(a, 1) || (a->axes | 3) != (1 << x->rank) - 1)
    return "it goes over all pixels of channels, x's axis 1";
  return plan_blocked(q, &p) ? NULL : "there is nothing to add or no output";
}

static void blocked_layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  (void)q, (void)out;
  in[0] = clade__channel_blocks();
}

/* ---- group: teams of work-items reduce one run of axes per launch, the longest first; few long lines are cut into
 * parts that another launch combines ---- */
enum { MOST_RUNS = 3, MOST_LAUNCHES = MOST_RUNS + 1 };
typedef struct launch {
  clade__group group;
  int64_t lines, n, inner, part, parts;
} launch;
typedef struct teams {
  int n;
  launch launch[MOST_LAUNCHES];
  int64_t floats; /* size of intermediate results */
} teams;

static void add_launch(teams *t, int64_t outer, int64_t n, int64_t inner, int64_t part) {
  launch *l = &t->launch[t->n++];
  *l = (launch){.lines = outer * inner, .n = n, .inner = inner, .part = part};
  l->parts = CLADE_MAX((n + part - 1) / CLADE_MAX(part, 1), 1);
  l->group = clade__group_of(CLADE_MIN(part, n), inner);
  if (l->parts > 1) t->floats += l->lines * l->parts;
}

/* The longest run of axes that is still to be reduced; -1: none. */
static int longest_run(const groups *g) {
  int at = -1;
  for (int i = 0; i < g->n; i++)
    if (g->reduced[i] && (at < 0 || g->size[i] > g->size[at])) at = i;
  return at;
}

/* Each launch adds a rounding error, so with three runs none is cut into parts. */
static const char *plan_teams(const clade_query *q, teams *t) {
  groups g = group(q->node);
  int runs = 0;
  for (int i = 0; i < g.n; i++) runs += g.reduced[i];
  if (!clade__is_float(q->node->in[0].dtype)) return "it takes floats";
  if (runs < 1 || runs > MOST_RUNS || g.outputs == 0)
    return "the reduced axes are more than three runs of neighbors or none, or there is no output";
  *t = (teams){0};
  for (int left = runs; left > 0; left--) {
    const int at = longest_run(&g);
    int64_t outer = 1, inner = 1;
    for (int i = 0; i < g.n; i++)
      if (i != at) *(i < at ? &outer : &inner) *= g.size[i];
    const int64_t part = t->n || runs == MOST_RUNS ? g.size[at] : clade__group_part(outer * inner, g.size[at]);
    add_launch(t, outer, g.size[at], inner, part);
    const int64_t parts = t->launch[t->n - 1].parts;
    if (parts > 1) add_launch(t, outer, parts, inner, parts);
    if (left > 1) t->floats += outer * inner;
    g.reduced[at] = false;
    g.size[at] = 1;
  }
  return NULL;
}

static const char *group_accept(const clade_query *q) {
  teams t;
  double most = 0;
  const char *reason = plan_teams(q, &t);
  for (int i = 0; !reason && i < t.n; i++)
    most = CLADE_MAX(most, clade__group_turns(&t.launch[i].group, t.launch[i].part));
  return reason ? reason : clade__group_refuses(q, most);
}

static double group_cost(const clade_query *q) {
  return clade__group_cost(q, 7.0 * (double)group(q->node).outputs * (double)group(q->node).count);
}

static size_t group_workspace(const clade_query *q) {
  teams t;
  return plan_teams(q, &t) || t.n == 1 ? 0 : (size_t)CLADE_MAX(t.floats, 1) * sizeof(float);
}

/* `from` and `to` are offsets of intermediate results in the workspace; negative: x or the result. */
static void emit_launch(clade_emit *e, const clade_query *q, const launch *l, int64_t from, int64_t to, float by) {
  const int kind = ((const attrs *)q->node->attrs)->kind;
  const char *stored = clade_dtype_name(q->node->in[0].dtype);
  clade_kernel_step *s = clade_emit_kernel(e, "reduce_forward_group");
  clade_emit_define_text(s, "T", stored);
  clade_emit_define_text(s, "FROM", from < 0 ? stored : "f32");
  clade_emit_define(s, "KIND", kind <= MEAN ? SUM : kind);
  clade_emit_define(s, "DIRECT", to < 0);
  if (from < 0)
    clade_emit_in(s, 0);
  else
    clade_emit_workspace(s, (size_t)from * sizeof(float), sizeof(float));
  if (to < 0)
    clade_emit_out(s, 0);
  else
    clade_emit_workspace(s, (size_t)to * sizeof(float), sizeof(float));
  clade_emit_index(s, l->lines);
  clade_emit_index(s, l->n);
  clade_emit_index(s, l->inner);
  clade_emit_index(s, l->parts);
  clade_emit_index(s, l->part);
  clade_emit_f32(s, by);
  clade__emit_groups(s, q, &l->group, l->lines * l->parts);
}

static clade_status group_emit(clade_emit *e, const clade_query *q) {
  enum { TENSOR = -1 };
  teams t;
  if (plan_teams(q, &t)) return CLADE_FAIL(INTERNAL, "reduce: group was emitted for what it refuses");
  int64_t from = TENSOR, next = 0;
  for (int i = 0; i < t.n; i++) {
    const launch *l = &t.launch[i];
    const bool last = i == t.n - 1;
    emit_launch(e, q, l, from, last ? TENSOR : next, last ? divisor(q, group(q->node).count) : 1);
    from = next;
    next += l->lines * l->parts;
  }
  return CLADE_OK;
}

static const clade_impl *const impls[] = {
    CLADE_IMPL(.name = "blocked", CLADE__LONG_VEC, .accept = blocked_accept, .layouts = blocked_layouts,
               .cost = split_cost, .workspace = split_workspace, .emit = split_emit),
    CLADE_IMPL(.name = "split", .family = CLADE_FAMILY_VEC, .accept = split_accept, .cost = split_cost,
               .workspace = split_workspace, .emit = split_emit),
    CLADE_IMPL(CLADE__GROUP, .accept = group_accept, .cost = group_cost, .workspace = group_workspace,
               .emit = group_emit, .file = "reduce_group"),
    CLADE__SYSTOLIC(reduce) /* with its comma */
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .accept = ref_accept, .cost = ref_cost, .emit = ref_emit),
    NULL,
};

const clade_op clade__op_reduce = {
    .size = sizeof(clade_op),
    .name = "reduce",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attr_bytes = sizeof(attrs),
    .attrs = table,
    .infer = infer,
    .grad = grad,
    .impls = impls,
    .ties = ties,
    .dims = dims,
};

static clade_status axes_of(const clade_graph *g, const clade_reduce_opt *opt, int32_t *axes) {
  clade_type type;
  CLADE_TRY(clade_val_type(g, opt->x, &type));
  int rank = type.shape.rank;
  if (opt->n_axes < 0 || opt->n_axes > CLADE_MAX_RANK)
    return CLADE_FAIL(INVALID, ".n_axes is %d; expected 0 to %d", opt->n_axes, CLADE_MAX_RANK);
  *axes = opt->n_axes ? 0 : (1 << rank) - 1;
  for (int i = 0; i < opt->n_axes; i++) {
    int axis = opt->axes[i];
    if (axis < -rank || axis >= rank)
      return CLADE_FAIL(INVALID, ".axes[%d] is %d: out of range for x of rank %d", i, axis, rank);
    if (axis < 0) axis += rank;
    if (*axes >> axis & 1) return CLADE_FAIL(INVALID, ".axes[%d] is %d: axis %d is named twice", i, opt->axes[i], axis);
    *axes |= 1 << axis;
  }
  return CLADE_OK;
}

static clade_val build(clade_graph *g, int kind, const clade_reduce_opt *given) {
  clade_reduce_opt opt;
  attrs a;
  memset(&a, 0, sizeof a);
  a.kind = kind;
  clade_status status = clade__opt_copy(&opt, sizeof opt, given, names[kind]);
  if (status == CLADE_OK) status = axes_of(g, &opt, &a.axes);
  if (status != CLADE_OK) return clade__graph_fail(g, status, names[kind]);
  a.keep = opt.keep;
  return clade_node_add(g, &clade__op_reduce, NULL, &a, 1, &opt.x, NULL);
}

clade_val clade_sum_(clade_graph *g, const clade_reduce_opt *opt) { return build(g, SUM, opt); }
clade_val clade_mean_(clade_graph *g, const clade_reduce_opt *opt) { return build(g, MEAN, opt); }
clade_val clade_reduce_max_(clade_graph *g, const clade_reduce_opt *opt) { return build(g, MAX, opt); }
clade_val clade_reduce_min_(clade_graph *g, const clade_reduce_opt *opt) { return build(g, MIN, opt); }
