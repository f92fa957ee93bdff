/* Reductions on GPUs: teams of work-items reduce one run of axes per launch, the longest first; few long lines are cut
 * into parts that another launch combines. */
#include "op/group.h"
#include "op/reduce/reduce.h"

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
  l->parts = CLADE_MAX(clade__ceil_div(n, part), 1);
  l->group = clade__group_of(CLADE_MIN(part, n), inner);
  if (l->parts > 1) t->floats += l->lines * l->parts;
}

/* The longest run of axes that is still to be reduced; -1: none. */
static int longest_run(const clade__runs *g) {
  int at = -1;
  for (int i = 0; i < g->n; i++)
    if (g->reduced[i] && (at < 0 || g->size[i] > g->size[at])) at = i;
  return at;
}

/* Each launch adds a rounding error, so with three runs none is cut into parts. */
static const char *plan_teams(const clade_query *q, teams *t) {
  clade__runs g = clade__reduce_runs(q->node);
  int runs = 0;
  for (int i = 0; i < g.n; i++) runs += g.reduced[i];
  if (!clade__is_float(q->node->in[0].dtype)) return "requires floats";
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

const char *clade__reduce_group_accept(const clade_query *q) {
  teams t;
  double most = 0;
  const char *reason = plan_teams(q, &t);
  for (int i = 0; !reason && i < t.n; i++)
    most = CLADE_MAX(most, clade__group_turns(&t.launch[i].group, t.launch[i].part));
  return reason ? reason : clade__group_refuses(q, most);
}

/* All pixels are reduced, so that the results are dense. */
const char *clade__reduce_last_accept(const clade_query *q) {
  const clade_shape *x = &q->node->in[0].shape;
  const clade__reduce_attrs *a = q->node->attrs;
  clade_type in = q->node->in[0];
  clade_node n = *q->node;
  clade_query there = *q;
  const char *reason = clade__channels_last_refuse(x);
  if (reason) return reason;
  if (clade__reduces(a, 1) || (a->axes | 3) != (1 << x->rank) - 1)
    return "requires a reduction over all axes but x's channels (axis 1), or those and the batch";
  in.layout = clade__channels_last(1, x->dim[1]);
  n.in = &in;
  there.node = &n;
  return clade__reduce_group_accept(&there);
}

void clade__reduce_last_layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  (void)out;
  in[0] = clade__channels_last(1, q->node->in[0].shape.dim[1]);
}

double clade__reduce_group_cost(const clade_query *q) {
  return clade__group_cost(q, 7.0 * (double)clade__reduce_runs(q->node).outputs *
                                  (double)clade__reduce_runs(q->node).count);
}

size_t clade__reduce_group_workspace(const clade_query *q) {
  teams t;
  return plan_teams(q, &t) || t.n == 1 ? 0 : (size_t)CLADE_MAX(t.floats, 1) * sizeof(float);
}

/* `from` and `to` are offsets of intermediate results in the workspace; negative: x or the result. */
static void emit_launch(clade_emit *e, const clade_query *q, const launch *l, int64_t from, int64_t to, float by) {
  const int kind = ((const clade__reduce_attrs *)q->node->attrs)->kind;
  const char *stored = clade_dtype_name(q->node->in[0].dtype);
  clade_kernel_step *s = clade_emit_kernel(e, "reduce_forward_group");
  clade_emit_define_text(s, "Y", clade_dtype_name(q->node->out[0].dtype));
  clade_emit_define_text(s, "FROM", from < 0 ? stored : "f32");
  clade_emit_define(s, "KIND", kind <= CLADE__REDUCE_MEAN ? CLADE__REDUCE_SUM : kind);
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

clade_status clade__reduce_group_emit(clade_emit *e, const clade_query *q) {
  enum { TENSOR = -1 };
  teams t;
  if (plan_teams(q, &t)) return CLADE_FAIL(INTERNAL, "reduce: group was emitted for what it refuses");
  int64_t from = TENSOR, next = 0;
  for (int i = 0; i < t.n; i++) {
    const launch *l = &t.launch[i];
    const bool last = i == t.n - 1;
    emit_launch(e, q, l, from, last ? TENSOR : next,
                last ? clade__reduce_divisor(q, clade__reduce_runs(q->node).count) : 1);
    from = next;
    next += l->lines * l->parts;
  }
  return CLADE_OK;
}
