/* Estimated seconds of nodes: by a device's estimates, or by given rates of arithmetic and memory. */
#include "cli/plan/cost.h"

#include <math.h>

#include "op/elt/epilogue.h"
#include "op/op.h"

double plan_bytes(const clade_graph *g, clade__id value) {
  size_t bytes = 0;
  return clade_type_bytes(clade__type(g, value), &bytes) == CLADE_OK ? (double)bytes : 0;
}

scale_link plan_link(const plan_links *links, int stride) {
  scale_link link = links->link;
  link.near_ranks /= stride;
  link.latency += link.look / 2; /* a message waits half a polling interval on average */
  link.near_latency += link.look / 2;
  return link;
}

/* ---- nodes ---- */
/* Ops that read only some rows of their operand. */
static bool reads_a_part(const clade_node *n) {
  return !strcmp(n->op->name, "gather") || !strcmp(n->op->name, "slice");
}

static double moved_bytes(const clade_node *n) {
  double in = 0, out = 0;
  for (int i = 0; i < n->n_in; i++) {
    size_t bytes = 0;
    if (clade_type_bytes(&n->in[i], &bytes) == CLADE_OK) in += (double)bytes;
  }
  for (int i = 0; i < n->n_out; i++) {
    size_t bytes = 0;
    if (clade_type_bytes(&n->out[i], &bytes) == CLADE_OK) out += (double)bytes;
  }
  return out + (reads_a_part(n) ? fmin(in, out) : in);
}

double plan_node_seconds(const plan_device *device, const clade_graph *g, clade__id node) {
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  double seconds = 0;
  if (!clade__needs_impl(g->nodes[node].op)) return 0;
  clade__node_view(g, node, in, out, &view);
  if (!device->estimates || clade__least_impl(device->estimates, &view, 0, &seconds) < 0)
    seconds = fmax(clade__node_flops(&view) / device->flops, moved_bytes(&view) / device->bandwidth);
  return seconds * device->scale;
}

bool plan_is_fused(const clade_graph *g, const uint32_t *uses, clade__id value, clade__id user) {
  const clade__node *maker = &g->nodes[g->values[value].node], *n = &g->nodes[user];
  return n->op == &clade__op_eltwise && uses[value] == 1 && maker->device == n->device && maker->n_out == 1 &&
         (maker->op == &clade__op_eltwise || clade__host_of(maker->op));
}

/* ---- communication between tensor ranks ---- */
static double bytes_of(const clade_graph *g, int n, clade__id first) {
  double bytes = 0;
  for (int i = 0; i < n; i++) bytes += plan_bytes(g, first + (clade__id)i);
  return bytes;
}

bool plan_is_move(const clade_graph *g, clade__id node, plan_move *move) {
  const clade__node *n = &g->nodes[node];
  if (strncmp(n->op->name, "comm.", 5) != 0 || n->op->flags & CLADE_OP_VIEW) return false;
  double in = 0;
  const double out = bytes_of(g, n->n_out, n->first_out);
  for (int i = 0; i < n->n_in; i++) in += plan_bytes(g, n->in[i]);
  *move = (plan_move){.n = 1, .bytes = fmax(in, out)};
  move->kind = !strcmp(n->op->name, "comm.turn") ? PLAN_ALL_TO_ALL
               : in == out                       ? PLAN_ALL_REDUCE
               : in > out                        ? PLAN_REDUCE_SCATTER
                                                 : PLAN_ALL_GATHER;
  return true;
}

double plan_move_seconds(const plan_links *links, int ranks, const plan_move *move) {
  const scale_link link = plan_link(links, 1);
  if (move->kind == PLAN_ALL_TO_ALL) /* each sends as much as in a gather, in more rounds */
    return scale_half(&link, ranks, move->bytes, 1, false) + (ranks - 1 - ceil(log2(ranks))) * link.latency;
  if (move->kind == PLAN_ALL_REDUCE) return scale_reduction(&link, ranks, move->bytes, 1);
  return scale_half(&link, ranks, move->bytes, 1, move->kind == PLAN_REDUCE_SCATTER);
}
