/* The graph's own ops. They have no implementations and no rows in ops.def. */
#include "ir/dimensions.h"
#include "ir/ties.h"

static clade_status infer_assign(clade_node *n) {
  char have[640], want[640];
  if (clade_type_equal(&n->in[0], &n->in[1])) return CLADE_OK;
  clade__type_text(&n->in[0], want, sizeof want);
  clade__type_text(&n->in[1], have, sizeof have);
  return clade_fail(n->in[0].dtype == n->in[1].dtype ? CLADE_BAD_SHAPE : CLADE_DTYPE,
                    "the value is %s, the variable %s", have, want);
}

static clade_status infer_transfer(clade_node *n) {
  n->out[0] = n->in[0];
  return CLADE_OK;
}

static clade_status grad_transfer(clade_grad *g) {
  const clade_graph *graph = g->graph;
  const clade__node *from = &graph->nodes[graph->values[g->in[0].id].node];
  g->din[0] = clade_transfer(g->graph, g->dout[0], from->device);
  return clade_graph_status(graph);
}

static const clade_attr transfer_attrs[] = {{"device", CLADE_ATTR_I32, offsetof(clade__transfer_attrs, device), 1},
                                            {0}};

static clade_status infer_stop_gradient(clade_node *n) {
  n->out[0] = n->in[0];
  return CLADE_OK;
}

const clade_op clade__op_input = {.size = sizeof(clade_op), .name = "input", .n_out = 1};
const clade_op clade__op_variable = {.size = sizeof(clade_op), .name = "variable", .n_out = 1};
const clade_op clade__op_constant = {
    .size = sizeof(clade_op), .name = "constant", .n_out = 1, .attr_bytes = sizeof(clade__constant_attrs)};
const clade_op clade__op_assign = {.size = sizeof(clade_op),
                                   .name = "assign",
                                   .flags = CLADE_OP_EFFECT,
                                   .min_in = 2,
                                   .max_in = 2,
                                   .infer = infer_assign};
const clade_op clade__op_transfer = {.size = sizeof(clade_op),
                                     .name = "transfer",
                                     .min_in = 1,
                                     .max_in = 1,
                                     .n_out = 1,
                                     .attr_bytes = sizeof(clade__transfer_attrs),
                                     .attrs = transfer_attrs,
                                     .infer = infer_transfer,
                                     .grad = grad_transfer,
                                     .ties = clade__tie_same,
                                     .dims = clade__dims_same};
const clade_op clade__op_stop_gradient = {.size = sizeof(clade_op),
                                          .name = "stop_gradient",
                                          .flags = CLADE_OP_VIEW | CLADE_OP_STOP,
                                          .min_in = 1,
                                          .max_in = 1,
                                          .n_out = 1,
                                          .infer = infer_stop_gradient,
                                          .ties = clade__tie_same,
                                          .dims = clade__dims_same};
