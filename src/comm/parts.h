/* Communication ops for tensor and pipeline parallelism (docs/parallel.md), each with its derivative. Does not
 * include the internals of communicators, see wire.h.
 * - `cuts`: [ranks + 1] boundaries of the ranks' slices of the axis. A slice may be empty; at most 64 ranks. The
 * axis must have a size; other dimensions may be symbols.
 * - `wire`: type in which sums are transferred, forward and backward (clade_all_reduce). Other values are
 * transferred unchanged.
 * - Without a communicator, or with one rank, all are the identity.
 * - Under mixed precision, they take the type of their operand. */
#ifndef CLADE_COMM_PARTS_H
#define CLADE_COMM_PARTS_H

#include <clade/comm.h>

/* Passes a replicated x to a computation in slices, whose gradients are partial sums. Backward: all-reduce. */
clade_val clade__comm_share(clade_graph *g, clade_comm *comm, clade_dtype wire, clade_val x);
/* All-reduce of partial sums. Backward: identity. */
clade_val clade__comm_sum(clade_graph *g, clade_comm *comm, clade_dtype wire, clade_val x);
/* All-gather of the ranks' slices. `in_parts`: users compute in slices, so gradients are partial sums. Backward: the
 * own slice; with in_parts, a reduce-scatter. */
clade_val clade__comm_join(clade_graph *g, clade_comm *comm, clade_dtype wire, clade_val x, int axis,
                           const int64_t *cuts, bool in_parts);
/* Reduce-scatter: this rank's slice of the sum over all ranks. Backward: all-gather. */
clade_val clade__comm_sum_part(clade_graph *g, clade_comm *comm, clade_dtype wire, clade_val x, int axis,
                               const int64_t *cuts);
/* This rank's slice of a replicated x. Backward: all-gather. */
clade_val clade__comm_part(clade_graph *g, clade_comm *comm, clade_dtype wire, clade_val x, int axis,
                           const int64_t *cuts);
/* Of x, of which each rank has a part along axis `from`, this rank's part along axis `to` (turn.c). Backward: the same
 * from `to` to `from`. */
clade_val clade__comm_turn(clade_graph *g, clade_comm *comm, clade_val x, int from, const int64_t *from_cuts, int to,
                           const int64_t *to_cuts);

/* ---- between pipeline stages: point-to-point messages ---- */
/* Reserves n message numbers between any two ranks, from *first on. They agree on all ranks that make the same
 * reservations in the same order. */
clade_status clade__comm_reserve(clade_comm *comm, int n, int *first);
/* Sends and receives message `number` once per execution. Types must agree on both sides; effects begin in graph
 * order on each side. Under mixed precision, the value keeps the type it was built with. */
clade_status clade__comm_send_value(clade_graph *g, clade_comm *comm, int to, int number, clade_val x);
clade_val clade__comm_receive_value(clade_graph *g, clade_comm *comm, int from, int number, const clade_type *type);

#endif
