/* Decides the type that each node computes in under mixed precision: the ops' lists and the user's overrides. */
#ifndef CLADE_AUTOCAST_H
#define CLADE_AUTOCAST_H

#include "pass/pass.h"

/* The decision for each node of a built graph, an array of n_nodes freed by clade__free. Fails if an override in
 * ctx->types matches nothing, or names a type that the func does not compute in. */
clade_status clade__autocast_rules(const clade__pass_ctx *ctx, clade_autocast **out);
/* Bit mask of operands whose type an op of neither list takes over; its other f32 operands stay f32. */
uint64_t clade__autocast_carried(const clade_op *op);

#endif
