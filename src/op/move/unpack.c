/* Conversion from a blocked layout to the dense one. */
#include <clade/ops.h>

#include "op/move/pack.h"

static clade_status infer(clade_node *n) {
  if (!n->in[0].layout.block) return CLADE_FAIL(INVALID, "unpack: x is dense; expected a blocked layout");
  if (n->in[0].layout.tile)
    return CLADE_FAIL(
        INVALID, "unpack: x is a matrix in panels or weights in another base (tile %u); expected blocks along an axis",
        n->in[0].layout.tile);
  n->out[0] = n->in[0];
  n->out[0].layout = (clade_layout){0};
  return CLADE_OK;
}

static clade_status grad(clade_grad *g) {
  g->din[0] = clade_pack(g->graph, g->dout[0], g->node->in[0].layout);
  return CLADE_OK;
}

static const char *tiles_accept(const clade_query *q) { return clade__packed_tiles(&q->node->in[0]); }
static double tiles_cost(const clade_query *q) { return clade__packed_cost(q, true); }
static clade_status tiles_emit(clade_emit *e, const clade_query *q) {
  clade__packed_emit_tiles(e, q, &q->node->in[0], "unpack_forward_tiles");
  return CLADE_OK;
}

static const char *group_accept(const clade_query *q) { return clade__packed_turns(q, &q->node->in[0]); }
static clade_status group_emit(clade_emit *e, const clade_query *q) {
  clade__packed_emit_turned(e, &q->node->in[0], false);
  return CLADE_OK;
}

static double cost(const clade_query *q) { return clade__packed_cost(q, false); }

static clade_status emit(clade_emit *e, const clade_query *q) {
  clade__packed p = clade__packed_of(&q->node->in[0]);
  clade_kernel_step *s = clade_emit_kernel(e, "unpack_forward_ref");
  clade_emit_define_text(s, "T", clade__raw_name(q->node->in[0].dtype));
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade__packed_args(s, &p);
  clade__emit_flat(s, q->device, clade__packed_blocks(&p));
  return CLADE_OK;
}

static void layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  in[0] = q->node->in[0].layout;
  out[0] = (clade_layout){0};
}

static const clade_impl *const impls[] = {
    CLADE_IMPL(.name = "tiles", CLADE__LONG_VEC, .accept = tiles_accept, .layouts = layouts, .cost = tiles_cost,
               .emit = tiles_emit),
    CLADE_IMPL(CLADE__GROUP_PLAIN, CLADE__PACKED_TURNS, .accept = group_accept, .emit = group_emit),
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .layouts = layouts, .cost = cost, .emit = emit),
    NULL,
};

const clade_op clade__op_unpack = {
    .size = sizeof(clade_op),
    .name = "unpack",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .infer = infer,
    .grad = grad,
    .impls = impls,
    .autocast = CLADE_AUTOCAST_CARRY,
};

clade_val clade_unpack(clade_graph *g, clade_val x) {
  return clade_node_add(g, &clade__op_unpack, NULL, NULL, 1, &x, NULL);
}
