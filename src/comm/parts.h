/* Values of graphs that move between ranks that compute parts of one model (docs/parallel.md), each with the derivative
 * that belongs to it; without communicators' insides, as wire.h. `cuts`: [ranks + 1], where each rank's part of the
 * axis begins, and its end; a part may be empty, and there are 64 at most. The axis has a size, others may be symbols.
 * `wire`: what sums travel as, forward and backward (clade_all_reduce); other values travel as they are. Without a
 * communicator, or with one rank, a value stays as it is. With mixed precision moves are of the type that comes. */
#ifndef CLADE_COMM_PARTS_H
#define CLADE_COMM_PARTS_H

#include <clade/comm.h>

/* x, which is whole, for a computation in parts: its gradients are the parts of a sum. Backward: all-reduce. */
clade_val clade__comm_share(clade_graph *g, clade_comm *comm, clade_dtype wire, clade_val x);
/* The sum of all ranks' x, whole on each; backward: nothing moves. */
clade_val clade__comm_sum(clade_graph *g, clade_comm *comm, clade_dtype wire, clade_val x);
/* The whole of which each rank has a part. `in_parts`: what uses it computes in parts, so that its gradients are the
 * parts of a sum. Backward: the own part, with in_parts a reduce-scatter. */
clade_val clade__comm_join(clade_graph *g, clade_comm *comm, clade_dtype wire, clade_val x, int axis,
                           const int64_t *cuts, bool in_parts);
/* This rank's part of the sum of all ranks' x. Backward: all-gather. */
clade_val clade__comm_sum_part(clade_graph *g, clade_comm *comm, clade_dtype wire, clade_val x, int axis,
                               const int64_t *cuts);
/* This rank's part of x, which is whole. Backward: all-gather. */
clade_val clade__comm_part(clade_graph *g, clade_comm *comm, clade_dtype wire, clade_val x, int axis,
                           const int64_t *cuts);
/* Of x, of which each rank has a part along axis `from`, this rank's part along axis `to` (turn.c). Backward: the same
 * from `to` to `from`. */
clade_val clade__comm_turn(clade_graph *g, clade_comm *comm, clade_val x, int from, const int64_t *from_cuts, int to,
                           const int64_t *to_cuts);

/* ---- between stages: one rank sends what the other receives ---- */
/* Numbers of n messages between any two of its ranks, from *first on, the same on all that reserve as many in the same
 * order. */
clade_status clade__comm_reserve(clade_comm *comm, int n, int *first);
/* Message `number` of each execution; types on both sides are the same, and effects begin in the order of each side's
 * graph. With mixed precision the value travels in the type that it was built with. */
clade_status clade__comm_send_value(clade_graph *g, clade_comm *comm, int to, int number, clade_val x);
clade_val clade__comm_receive_value(clade_graph *g, clade_comm *comm, int from, int number, const clade_type *type);

#endif
