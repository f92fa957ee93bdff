/* Simplification: removes identity nodes and inverse pairs, and merges common subexpressions. */
#include "pass/pass.h"

/* Casts to the same type, reshapes and broadcasts to the same shape, transfers within a device. */
static bool changes_nothing(const clade_graph *g, const clade__node *n) {
  if (n->op == &clade__op_transfer) return true; /* the caller checks the devices */
  if (!clade_type_equal(clade__type(g, n->in[0]), clade__type(g, n->first_out))) return false;
  if (n->op->flags & CLADE_OP_VIEW) return true; /* of its first operand */
  if (n->n_in != 1) return false;
  if (n->op == &clade__op_broadcast) return true;
  if (n->op != &clade__op_eltwise) return false;
  const clade__elt *p = &((const clade__eltwise_attrs *)n->attrs)->program;
  if (p->n_insn == 0) return true;
  const clade__elt_row *row = clade__elt_by_number(p->insn[0].fn);
  return p->n_insn == 1 && row && row->kind == CLADE__ELT_CAST && !p->insn[0].wrt;
}

static int device_of(const clade_graph *g, clade__id value) { return g->nodes[g->values[value].node].device; }

static const clade__node *producer(const clade_graph *g, clade__id value) { return &g->nodes[g->values[value].node]; }

/* The permutation of a transpose, read through its attribute table. */
static bool permutation(const clade__node *n, int32_t axes[CLADE_MAX_RANK]) {
  for (const clade_attr *a = n->op->attrs; a && a->name; a++)
    if (strcmp(a->name, "axes") == 0 && a->kind == CLADE_ATTR_I32 && a->count == CLADE_MAX_RANK) {
      memcpy(axes, (const char *)n->attrs + a->offset, CLADE_MAX_RANK * sizeof *axes);
      return true;
    }
  return false;
}

static bool undone(const clade__node *outer, const clade__node *inner, int rank) {
  int32_t a[CLADE_MAX_RANK], b[CLADE_MAX_RANK];
  if (!permutation(outer, a) || !permutation(inner, b)) return false;
  for (int i = 0; i < rank; i++)
    if (b[a[i]] != i) return false;
  return true;
}

/* The value that n and its operand's node `inner` reduce to; 0: none. */
static clade__id canceled(const clade_graph *g, const clade__node *n, const clade__node *inner,
                          const clade_type *type) {
  bool both = (n->op == &clade__op_transpose && inner->op == n->op && undone(n, inner, type->shape.rank)) ||
              (n->op == &clade__op_unpack && inner->op == &clade__op_pack) ||
              (n->op == &clade__op_pack && inner->op == &clade__op_unpack);
  return both && inner->device == n->device && clade_type_equal(clade__type(g, inner->in[0]), type) ? inner->in[0] : 0;
}

/* Joins consecutive reshapes. Skipped if symbols make the result's shape uncertain. */
static clade_status shorten(const clade_graph *old, const clade__node *n, const clade__node *inner, clade_graph *g,
                            clade__id *out) {
  clade__id node;
  if (n->op != &clade__op_reshape || inner->op != n->op || inner->device != n->device) return CLADE_OK;
  clade__id in = inner->in[0]; /* read before adding a node, which may move `inner` */
  g->device = n->device;
  clade_status status = clade__node_new(g, n->op, n->name, n->attrs, 1, &in, &node);
  if (status == CLADE_NO_MEMORY) return status;
  if (status == CLADE_OK && clade_type_equal(clade__type(g, g->nodes[node].first_out), clade__type(old, n->first_out)))
    *out = g->nodes[node].first_out;
  return CLADE_OK;
}

/* ---- operands of elementwise nodes ---- */
/* The operand of a broadcast, which elementwise ops do implicitly; else the value itself. */
static clade__id repeated(const clade_graph *g, clade__id value, int device) {
  const clade__node *n = producer(g, value);
  if (n->op != &clade__op_broadcast || n->device != device) return value;
  for (const clade_attr *a = n->op->attrs; a && a->name; a++)
    if (strcmp(a->name, "mean") == 0 && *((const bool *)((const char *)n->attrs + a->offset))) return value;
  return n->in[0];
}

static bool is_one(const clade_graph *g, clade__id value) {
  const clade__node *n = producer(g, value);
  float f;
  while (n->op->flags & CLADE_OP_VIEW && n->n_in == 1) n = producer(g, value = n->in[0]);
  const clade__constant_attrs *a = n->attrs;
  return n->op == &clade__op_constant && a->pattern &&
         clade_convert(CLADE_F32, &f, clade__type(g, value)->dtype, a->data, 1) == CLADE_OK && f == 1;
}

/* Multiplication by one is the identity. */
static clade__id times_one(const clade_graph *g, const clade__elt *p, const clade__id *in, const clade_type *type) {
  const clade__elt_insn *insn = &p->insn[0];
  if (p->n_insn != 1 || insn->wrt || insn->fn != clade__elt_by_name("mul")->number) return 0;
  for (int i = 0; i < 2; i++)
    if (is_one(g, in[insn->arg[i]]) && clade_type_equal(clade__type(g, in[insn->arg[1 - i]]), type))
      return in[insn->arg[1 - i]];
  return 0;
}

/* Rebuilds the node with unbroadcast operands if the result keeps its shape. */
static clade_status look_through(const clade_graph *old, const clade__node *n, clade_graph *g, const clade__id *map,
                                 clade__id *out) {
  const clade_type *type = clade__type(old, n->first_out);
  clade__id in[CLADE__ELT_INPUTS], node;
  bool any = false;
  for (int i = 0; i < n->n_in; i++) {
    in[i] = repeated(g, map[n->in[i]], n->device);
    any |= in[i] != map[n->in[i]];
  }
  *out = times_one(g, &((const clade__eltwise_attrs *)n->attrs)->program, in, type);
  if (*out && device_of(g, *out) != n->device) *out = 0;
  if (*out || !any) return CLADE_OK;
  g->device = n->device;
  clade_status status = clade__node_new(g, n->op, n->name, n->attrs, n->n_in, in, &node);
  if (status == CLADE_NO_MEMORY) return status;
  if (status == CLADE_OK && clade_type_equal(clade__type(g, g->nodes[node].first_out), type))
    *out = g->nodes[node].first_out;
  return CLADE_OK;
}

/* ---- common subexpressions ---- */
static bool mergeable(const clade__node *n) {
  return !(n->op->flags & CLADE_OP_EFFECT) && n->op != &clade__op_input && n->op != &clade__op_variable;
}

static clade__hash key_of(const clade_graph *g, const clade__node *n) {
  const struct {
    const clade_op *op;
    int64_t device, n_in;
  } head = {n->op, n->device, n->n_in};
  clade__hash h = clade__hash_bytes(&head, sizeof head);
  if (n->n_in) h = clade__hash_more(h, n->in, (size_t)n->n_in * sizeof *n->in);
  if (n->op == &clade__op_constant) h = clade__type_hash(h, clade__type(g, n->first_out));
  return clade__attrs_hash(h, n->op, n->attrs);
}

/* Replaces the newest node by an equal existing one, if any, and removes it. */
static clade_status merge(clade__map *seen, clade_graph *g, clade__id *out) {
  clade__id id = (clade__id)g->n_nodes - 1;
  clade__node *n = &g->nodes[id];
  size_t first;
  *out = n->first_out;
  if (!mergeable(n)) return CLADE_OK;
  clade__hash key = key_of(g, n);
  if (!clade__map_get(seen, key, &first)) return clade__map_put(seen, key, id);
  *out = g->nodes[first].first_out;
  g->n_nodes--;
  g->n_values -= (size_t)n->n_out;
  return CLADE_OK;
}

static clade_status fold(void *user, const clade_graph *old, clade__id node, clade_graph *g, clade__id *map) {
  const clade__node *n = &old->nodes[node];
  clade__id out = 0;
  if (n->n_out == 1 && (n->n_in == 1 || n->op->flags & CLADE_OP_VIEW)) {
    clade__id in = map[n->in[0]];
    if (device_of(g, in) == n->device && changes_nothing(old, n))
      out = in;
    else
      out = canceled(g, n, producer(g, in), clade__type(old, n->first_out));
    if (!out) CLADE_TRY(shorten(old, n, producer(g, in), g, &out));
  }
  if (!out && n->op == &clade__op_eltwise) CLADE_TRY(look_through(old, n, g, map, &out));
  if (!out) {
    CLADE_TRY(clade__node_copy(old, node, g, map));
    CLADE_TRY(merge(user, g, &out));
  }
  for (int i = 0; i < n->n_out; i++) map[n->first_out + (clade__id)i] = out + (clade__id)i;
  return CLADE_OK;
}

clade_status clade__pass_fold(clade__pass_ctx *ctx) {
  clade__map seen = {0};
  clade_status status = clade__pass_rewrite(ctx, fold, &seen);
  clade__map_free(&seen);
  return status;
}
