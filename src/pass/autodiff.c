/* Reverse-mode differentiation, which adds nodes to the graph under construction. Gradients from several shares of a
 * batch are summed within each share, then pairwise over the shares: the same order of summation for devices of one
 * process and for several processes. */
#include "pass/pass.h"

#include <stdio.h>

typedef struct tape {
  clade_graph *g;
  size_t n_nodes, n_values; /* before differentiation */
  int n_shares;
  bool *depends;   /* by value: depends on one of the xs */
  clade_val *grad; /* [value * n_shares + share]: gradient from that share so far */
} tape;

static bool is_float(const clade_graph *g, clade__id value) {
  return clade__is_computed_float(clade__type(g, value)->dtype);
}

/* Resolves a value. Only computed float types have derivatives. */
static clade_status take_float(const clade_graph *g, clade_val v, const char *what, clade__id *id) {
  char text[640];
  CLADE_TRY(clade__graph_value(g, v, what, id));
  if (is_float(g, *id)) return CLADE_OK;
  const bool stored = !clade__is_computed(clade__type(g, *id)->dtype);
  return CLADE_FAIL(DTYPE, "%s is %s: %s", what, clade__type_text(clade__type(g, *id), text, sizeof text),
                    stored ? "types for storage have no derivatives" : "only floats have derivatives");
}

static clade_status take_seed(const clade_graph *g, clade_val dy, clade__id y) {
  char have[640], want[640];
  clade__id id;
  CLADE_TRY(take_float(g, dy, "gradients: dy", &id));
  if (clade_type_equal(clade__type(g, id), clade__type(g, y))) return CLADE_OK;
  return CLADE_FAIL(BAD_SHAPE, "gradients: dy is %s, y %s", clade__type_text(clade__type(g, id), have, sizeof have),
                    clade__type_text(clade__type(g, y), want, sizeof want));
}

static clade_val *from_share(const tape *t, clade__id value, int share) {
  return &t->grad[(size_t)value * (size_t)t->n_shares + (size_t)share];
}

/* A gradient that passes through several nodes unchanged belongs to several values; the first counts. */
static void note_like(clade_graph *g, clade_val dx, clade__id value) {
  if (clade_val_ok(dx) && !g->values[dx.id].like) g->values[dx.id].like = value;
}

/* Sums of a share are placed on the value's device if the value belongs to the share, else on the device that
 * computes the share. */
static clade_status accumulate(tape *t, clade__id value, const clade__node *user, clade_val dx) {
  clade_val *sum = from_share(t, value, user->share);
  const clade__node *maker = &t->g->nodes[t->g->values[value].node];
  t->g->device = maker->share == user->share ? maker->device : user->device;
  note_like(t->g, dx, value);
  *sum = clade_val_ok(*sum) ? clade_add(t->g, *sum, dx) : dx;
  note_like(t->g, *sum, value);
  return clade_graph_status(t->g);
}

clade_val clade__sum_in_pairs(clade_graph *g, int n, const clade_val *part) {
  int half = 1;
  if (n == 1) return part[0];
  while (2 * half < n) half *= 2;
  clade_val low = clade__sum_in_pairs(g, half, part), high = clade__sum_in_pairs(g, n - half, part + half);
  if (!clade_val_ok(low) || !clade_val_ok(high)) return clade_val_ok(low) ? low : high;
  g->device = g->nodes[g->values[low.id].node].device;
  return clade_add(g, low, high);
}

/* The total gradient, after all shares have contributed. */
static clade_val gradient_of(tape *t, clade__id value) {
  clade_val *part = from_share(t, value, 0);
  part[0] = clade__sum_in_pairs(t->g, t->n_shares, part);
  note_like(t->g, part[0], value);
  for (int i = 1; i < t->n_shares; i++) part[i] = (clade_val){0};
  return part[0];
}

static clade_val filled(tape *t, clade__id like, double value) {
  clade_type type = *clade__type(t->g, like);
  t->g->device = t->g->nodes[t->g->values[like].node].device;
  return clade_fill(t->g, type.dtype, type.shape, value);
}

static void find_dependents(tape *t) {
  for (size_t i = 1; i < t->n_nodes; i++) {
    const clade__node *n = &t->g->nodes[i];
    bool any = false;
    if (n->op->flags & CLADE_OP_STOP) continue;
    for (int k = 0; k < n->n_in; k++) any |= t->depends[n->in[k]];
    for (int k = 0; any && k < n->n_out; k++) {
      clade__id v = n->first_out + (clade__id)k;
      t->depends[v] |= is_float(t->g, v);
    }
  }
}

/* Copies of a node's types and values, which stay valid while the graph grows. */
typedef struct frame {
  clade_type in_type[CLADE_MAX_OPERANDS], out_type[CLADE_MAX_OPERANDS];
  clade_val in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS], dout[CLADE_MAX_OPERANDS], din[CLADE_MAX_OPERANDS];
  bool wanted[CLADE_MAX_OPERANDS];
  clade_node view;
} frame;

/* Whether a gradient reaches the node and one of its operands needs one. */
static bool open_frame(tape *t, const clade__node *n, frame *f) {
  bool arrives = false, wanted = false;
  for (int i = 0; i < n->n_out; i++) {
    clade__id v = n->first_out + (clade__id)i;
    f->out[i] = clade__graph_val(t->g, v);
    f->dout[i] = gradient_of(t, v);
    arrives |= clade_val_ok(f->dout[i]);
  }
  for (int i = 0; i < n->n_in; i++) {
    f->in[i] = clade__graph_val(t->g, n->in[i]);
    f->din[i] = (clade_val){0};
    f->wanted[i] = t->depends[n->in[i]];
    wanted |= f->wanted[i];
  }
  return arrives && wanted;
}

static clade_status take(tape *t, const clade__node *n, const frame *f) {
  char have[640], want[640];
  for (int i = 0; i < n->n_in; i++) {
    clade_type type;
    if (!f->wanted[i] || !clade_val_ok(f->din[i])) continue;
    CLADE_TRY(clade_val_type(t->g, f->din[i], &type));
    if (!clade_type_equal(&type, &f->in_type[i]))
      return CLADE_FAIL(INTERNAL, "operand %d is %s, its gradient %s", i,
                        clade__type_text(&f->in_type[i], want, sizeof want),
                        clade__type_text(&type, have, sizeof have));
    CLADE_TRY(accumulate(t, n->in[i], n, f->din[i]));
  }
  return CLADE_OK;
}

static clade_status differentiate(tape *t, clade__id id) {
  const clade__node n = t->g->nodes[id]; /* copy: the array may move */
  frame f;
  char what[400];
  t->g->share = n.share;
  if (!open_frame(t, &n, &f)) return CLADE_OK;
  snprintf(what, sizeof what, "gradient of %.64s%s%s%s", n.op->name, *n.name ? " \"" : "", n.name, *n.name ? "\"" : "");
  if (!n.op->grad) return CLADE_FAIL(UNSUPPORTED, "%s: the op has no derivative", what);
  clade__node_view(t->g, id, f.in_type, f.out_type, &f.view);
  clade_grad call = {sizeof call, t->g, &f.view, f.in, f.out, f.dout, f.din, f.wanted};
  t->g->device = n.device;
  t->g->derives = id;
  clade_status status = n.op->grad(&call);
  t->g->derives = 0;
  if (status == CLADE_OK) status = clade_graph_status(t->g);
  if (status == CLADE_OK) status = take(t, &n, &f);
  return status ? clade__fail_in(status, "%s", what) : CLADE_OK;
}

static clade_status run(tape *t, clade_val y, clade_val dy, int n, const clade_val *xs, clade_val *dxs) {
  clade__id to, id;
  clade_graph *g = t->g;
  if (n < 0 || (n && (!xs || !dxs))) return CLADE_FAIL(INVALID, "gradients: %d values, xs or dxs is NULL", n);
  CLADE_TRY(take_float(g, y, "gradients: y", &to));
  t->depends = clade__new(t->n_values, sizeof *t->depends);
  for (size_t i = 1; i < t->n_nodes; i++) t->n_shares = CLADE_MAX(t->n_shares, g->nodes[i].share + 1);
  t->grad = clade__new(t->n_values * (size_t)t->n_shares, sizeof *t->grad);
  if (!t->depends || !t->grad) return CLADE_NO_MEMORY;
  for (int i = 0; i < n; i++) {
    char what[40];
    snprintf(what, sizeof what, "gradients: xs[%d]", i);
    CLADE_TRY(take_float(g, xs[i], what, &id));
    t->depends[id] = true;
  }
  if (clade_val_ok(dy)) CLADE_TRY(take_seed(g, dy, to));
  find_dependents(t);
  if (t->depends[to]) *from_share(t, to, 0) = clade_val_ok(dy) ? dy : filled(t, to, 1);
  for (clade__id node = g->values[to].node; node > 0; node--) CLADE_TRY(differentiate(t, node));
  for (int i = 0; i < n; i++) dxs[i] = gradient_of(t, xs[i].id);
  return clade_graph_status(g);
}

/* `zeros`: returns zeros instead of an invalid value if y does not depend on x. */
static clade_status gradients(clade_graph *g, clade_val y, clade_val dy, int n, const clade_val *xs, clade_val *dxs,
                              bool zeros) {
  for (int i = 0; dxs && i < n; i++) dxs[i] = (clade_val){0};
  if (!clade__graph_ok(g)) return g && !g->sealed ? g->status : CLADE_INVALID;
  tape t = {.g = g, .n_nodes = g->n_nodes, .n_values = g->n_values, .n_shares = 1};
  const int device = g->device, share = g->share;
  clade_status status = run(&t, y, dy, n, xs, dxs);
  for (int i = 0; zeros && status == CLADE_OK && i < n; i++)
    if (!clade_val_ok(dxs[i])) dxs[i] = filled(&t, xs[i].id, 0);
  if (status == CLADE_OK) status = clade_graph_status(g);
  g->device = device;
  g->share = share;
  clade__free(t.depends);
  clade__free(t.grad);
  if (status) {
    clade__graph_fail(g, status, NULL);
    for (int i = 0; dxs && i < n; i++) dxs[i] = (clade_val){0};
  }
  return status;
}

clade_status clade_gradients(clade_graph *g, clade_val y, clade_val dy, int n, const clade_val *xs, clade_val *dxs) {
  return gradients(g, y, dy, n, xs, dxs, true);
}

clade_status clade__gradients(clade_graph *g, clade_val y, clade_val dy, int n, const clade_val *xs, clade_val *dxs) {
  return gradients(g, y, dy, n, xs, dxs, false);
}
