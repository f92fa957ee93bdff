/* Estimated cost of the nodes of a graph. */
#ifndef CLADE_CLI_PLAN_COST_H
#define CLADE_CLI_PLAN_COST_H

#include "cli/plan/plan.h"

double plan_node_seconds(const plan_device *device, const clade_graph *g, clade__id node);
double plan_bytes(const clade_graph *g, clade__id value);

/* Whether a node communicates between tensor ranks; then *move describes it. */
bool plan_is_move(const clade_graph *g, clade__id node, plan_move *move);
double plan_move_seconds(const plan_links *links, int ranks, const plan_move *move);

/* Whether the elementwise node `user` is fused into the kernel that computes its operand. */
bool plan_is_fused(const clade_graph *g, const uint32_t *uses, clade__id value, clade__id user);

#endif
