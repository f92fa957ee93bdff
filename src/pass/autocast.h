/* What mixed precision makes of each node: the lists of ops, and the user's words that go before them. */
#ifndef CLADE_AUTOCAST_H
#define CLADE_AUTOCAST_H

#include "pass/pass.h"

/* By node of a graph as it was built, an array of n_nodes, by clade__free. Words of ctx->types that name nothing, or no
 * type that the func computes in, are errors. */
clade_status clade__autocast_rules(const clade__pass_ctx *ctx, clade_autocast **out);
/* The operands of a node that carries which come as they are; the others of f32 stay so. */
uint64_t clade__autocast_carried(const clade_op *op);

#endif
