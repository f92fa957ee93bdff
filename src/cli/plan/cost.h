/* What a node of a graph takes, between work.c and cost.c. */
#ifndef CLADE_CLI_PLAN_COST_H
#define CLADE_CLI_PLAN_COST_H

#include "cli/plan/plan.h"

/* Seconds of a node that runs on the device by itself. */
double plan_node_seconds(const plan_device *device, const clade_graph *g, clade__id node);
double plan_bytes(const clade_graph *g, clade__id value);

/* Whether a node exchanges values with tensor neighbors; then *move says what. */
bool plan_is_move(const clade_graph *g, clade__id node, plan_move *move);
double plan_move_seconds(const plan_links *links, int ranks, const plan_move *move);

/* Whether the elementwise node `user` is computed by the kernel that makes its operand: fusion leaves one of the two.
 */
bool plan_is_fused(const clade_graph *g, const uint32_t *uses, clade__id value, clade__id user);

#endif
