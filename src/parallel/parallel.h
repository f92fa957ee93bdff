/* One rank's graph of a model that several compute together (docs/parallel.md). */
#ifndef CLADE_PARALLEL_H
#define CLADE_PARALLEL_H

#include <clade/comm.h>

#include "ir/ir.h"

/* How a model is laid out over ranks. */
typedef struct clade__grid {
  int data, tensor, pipeline;
  int micro_batches, interleave; /* 1 and 1: none */
} clade__grid;

typedef struct clade__grid_place {
  int data, tensor, stage;
} clade__grid_place;
static inline clade__grid_place clade__place_of(const clade__grid *grid, int rank) {
  return (clade__grid_place){rank / (grid->tensor * grid->pipeline), rank % grid->tensor,
                             rank / grid->tensor % grid->pipeline};
}

/* ---- tensor.c: appends this rank's part of `whole`, a forward graph, to g, which is being built. Ports keep their
 * names; outputs are whole on all ranks. Variables of split families are parts (clade__port.part). ---- */
typedef struct clade__tensor_how {
  clade_comm *comm;              /* of the ranks that have parts; NULL or one rank: a copy */
  clade_dtype wire;              /* what sums travel as */
  double link_seconds, per_byte; /* of a message; 0: round numbers */
  double flops;                  /* a second, of the device; 0: a round number */
  uint64_t memory;         /* bytes that a rank's variables with their moments, and what else lives, may have; 0: any */
  const clade_graph *like; /* variables are the parts that they are in this one; NULL: as is chosen */
} clade__tensor_how;
clade_status clade__tensor_append(const clade_graph *whole, const clade__tensor_how *how, clade_graph *g,
                                  clade__text *explain);

/* ---- stages.c: a copy of `forward` in which each node is on the device of its stage times interleave pieces: devices
 * are pieces 0 to pipeline * interleave - 1, and piece k is of stage k % pipeline. Nodes that the user placed stay.
 * ---- */
clade_status clade__stages_assign(const clade_graph *forward, const clade__grid *grid, double flops, clade_graph **out,
                                  clade__text *explain);

/* A forward graph whose variables are those of `laid`: their pieces are theirs, and nodes go along. */
void clade__stages_follow(const clade_graph *laid, clade_graph *forward);

/* ---- cut.c: of `step`, whose devices are pieces, this stage's part, with sends and receives over `pipeline`; outputs
 * are on all stages, inputs on those that read them ---- */
clade_status clade__stages_cut(const clade_graph *step, const clade__grid *grid, clade_comm *pipeline,
                               clade_graph **out);

#endif
