/* Lets products read slices, permuted axes and broadcast matrices in place instead of through copies, for example
 * the heads of a joint projection. Copies without other users are removed. */
#include "op/move/view.h"
#include "pass/pass.h"

enum { MOST_NODES = 16 }; /* that are searched through per operand */

/* A product with its operands as views. */
typedef struct product {
  clade__gemm_attrs attrs;
  clade__id in[CLADE_MAX_OPERANDS];
} product;

/* The value whose memory this value lies in, with the view *v. *copied: copying nodes lie between. */
static clade__id source_of(const clade_graph *g, clade__id value, int most, clade__view *v, bool *copied) {
  const clade__id id = g->values[value].node;
  const clade__node *n = &g->nodes[id];
  clade_type in[CLADE_MAX_OPERANDS], out;
  clade_node view;
  if (most && n->n_in == 1 && clade__view_moves(n->op) && g->nodes[g->values[n->in[0]].node].device == n->device) {
    clade__id from = source_of(g, n->in[0], most - 1, v, copied);
    clade__node_view(g, id, in, &out, &view);
    *copied |= !(n->op->flags & CLADE_OP_VIEW);
    if (clade__view_through(&view, v)) return from;
  }
  *v = clade__view_whole(&clade__type(g, value)->shape);
  *copied = false;
  return value;
}

/* Normalizes a view to non-overlapping rows, transposed if necessary, as all products can read. Axes of size 1 get
 * the strides of a dense layout. */
static bool settle(clade__view *v, bool *trans) {
  const int row = v->shape.rank - 2, column = row + 1;
  int64_t *dim = v->shape.dim, *stride = v->stride;
  for (int i = 0; i <= column; i++)
    if (dim[i] == 0) return false;
  if (dim[column] != 1 && stride[column] != 1) {
    const int64_t d = dim[row], s = stride[row];
    dim[row] = dim[column], stride[row] = stride[column];
    dim[column] = d, stride[column] = s;
    *trans = !*trans;
  }
  if (dim[column] == 1) stride[column] = 1;
  if (dim[row] == 1) stride[row] = dim[column];
  return stride[column] == 1 && stride[row] >= dim[column];
}

static bool is_whole(const clade__view *v, const clade_shape *shape) {
  const clade__view whole = clade__view_whole(shape);
  if (v->offset || !clade_shape_equal(&v->shape, shape)) return false;
  for (int i = 0; i < shape->rank; i++)
    if (shape->dim[i] != 1 && v->stride[i] != whole.stride[i]) return false;
  return true;
}

static bool accepted(const clade__pass_ctx *ctx, const clade__node *n, const product *p) {
  clade_type in[CLADE_MAX_OPERANDS], out = *clade__type(ctx->graph, n->first_out);
  const clade_node view = {sizeof view, n->op, n->name, &p->attrs, n->n_in, 1, in, &out};
  double seconds;
  for (int i = 0; i < n->n_in; i++) in[i] = *clade__type(ctx->graph, p->in[i]);
  return clade__least_impl(ctx, &view, n->device, &seconds) >= 0;
}

/* Makes operand i of the product a view of its source; unchanged if that is not possible. */
static void look_through(const clade__pass_ctx *ctx, const clade__node *n, int i, product *p) {
  const clade_graph *g = ctx->graph;
  product next = *p;
  clade__view v;
  bool copied;
  next.in[i] = source_of(g, p->in[i], MOST_NODES, &v, &copied);
  if (!copied || g->nodes[g->values[next.in[i]].node].device != n->device || clade__type(g, next.in[i])->layout.block ||
      !settle(&v, i ? &next.attrs.trans_b : &next.attrs.trans_a))
    return;
  if (!is_whole(&v, &clade__type(g, next.in[i])->shape)) {
    next.attrs.shape[i] = v.shape;
    memcpy(next.attrs.stride[i], v.stride, sizeof v.stride);
    next.attrs.offset[i] = v.offset;
  }
  if (accepted(ctx, n, &next)) *p = next;
}

static clade_status build(void *user, const clade_graph *old, clade__id node, clade_graph *g, clade__id *map) {
  const clade__pass_ctx *ctx = user;
  const clade__node *n = &old->nodes[node];
  clade__id id;
  product p;
  if (n->op != &clade__op_gemm) return clade__node_copy(old, node, g, map);
  memcpy(&p.attrs, n->attrs, sizeof p.attrs);
  memcpy(p.in, n->in, (size_t)n->n_in * sizeof *p.in);
  for (int i = 0; i < 2; i++)
    if (!p.attrs.shape[i].rank) look_through(ctx, n, i, &p);
  for (int i = 0; i < n->n_in; i++) p.in[i] = map[p.in[i]];
  g->device = n->device;
  CLADE_TRY(clade__node_new(g, n->op, n->name, &p.attrs, n->n_in, p.in, &id));
  map[n->first_out] = g->nodes[id].first_out;
  return CLADE_OK;
}

clade_status clade__pass_views(clade__pass_ctx *ctx) { return clade__pass_rewrite(ctx, build, ctx); }
