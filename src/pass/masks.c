/* Moves the ReLU mask in the gradient of max_pool2d(relu(x)) before the pooling gradient. A window's gradient goes
 * to the pixel with its maximum, so the pixel is positive exactly where the maximum is. The mask over windows is
 * smaller and becomes the epilogue of the node that computes their gradient. Results are identical, except for the
 * sign of zeros and for sums that would overflow without the mask. */
#include "pass/pass.h"

/* dx times the derivative of ReLU, given ReLU's result r: (dx, r). */
static bool is_mask(const clade__node *n) {
  if (n->op != &clade__op_eltwise || n->n_in != 2) return false;
  const clade__elt *p = &((const clade__eltwise_attrs *)n->attrs)->program;
  const clade__elt_insn *by = &p->insn[0], *product = &p->insn[1];
  return p->n_insn == 2 && by->fn == clade__elt_by_name("relu")->number && by->wrt == 1 && by->arg[0] == 1 &&
         product->fn == clade__elt_by_name("mul")->number && !product->wrt && product->arg[0] == 0 &&
         product->arg[1] == 2;
}

/* The max_pool2d node whose gradient `back` computes; NULL: not found. */
static const clade__node *pool_of(const clade_graph *g, const clade__node *back) {
  for (const clade__node *n = g->nodes + 1; n < back; n++)
    if (n->op == &clade__op_max_pool2d && n->in[0] == back->in[0] && n->device == back->device &&
        memcmp(n->attrs, back->attrs, n->op->attr_bytes) == 0)
      return n;
  return NULL;
}

static clade_status build(void *user, const clade_graph *old, clade__id node, clade_graph *g, clade__id *map) {
  const clade__node *n = &old->nodes[node];
  const uint32_t *uses = user;
  clade__id masked, made;
  if (!is_mask(n)) return clade__node_copy(old, node, g, map);
  const clade__node *back = &old->nodes[old->values[n->in[0]].node];
  const bool alone = back->op == &clade__op_max_pool2d_grad && back->in[0] == n->in[1] && uses[n->in[0]] == 1;
  const clade__node *pool = alone && back->device == n->device ? pool_of(old, back) : NULL;
  if (!pool) return clade__node_copy(old, node, g, map);
  g->device = n->device;
  CLADE_TRY(
      clade__node_new(g, n->op, n->name, n->attrs, 2, (clade__id[]){map[back->in[1]], map[pool->first_out]}, &masked));
  const clade__id in[] = {map[back->in[0]], g->nodes[masked].first_out};
  CLADE_TRY(clade__node_new(g, back->op, back->name, back->attrs, 2, in, &made));
  map[n->first_out] = g->nodes[made].first_out;
  return CLADE_OK;
}

clade_status clade__pass_masks(clade__pass_ctx *ctx) {
  uint32_t *uses;
  CLADE_TRY(clade__graph_uses(ctx->graph, &uses));
  clade_status status = clade__pass_rewrite(ctx, build, uses);
  clade__free(uses);
  return status;
}
