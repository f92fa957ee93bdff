/* Builds one rank's graph of a model that several ranks compute together (docs/parallel.md). */
#ifndef CLADE_PARALLEL_H
#define CLADE_PARALLEL_H

#include <clade/comm.h>

#include "ir/ir.h"

/* Layout of a training over ranks. */
typedef struct clade__grid {
  int data, tensor, pipeline;
  int micro_batches, interleave; /* 1: none */
} clade__grid;

typedef struct clade__grid_place {
  int data, tensor, stage;
} clade__grid_place;
static inline clade__grid_place clade__place_of(const clade__grid *grid, int rank) {
  return (clade__grid_place){rank / (grid->tensor * grid->pipeline), rank % grid->tensor,
                             rank / grid->tensor % grid->pipeline};
}

/* ---- speeds.c: the numbers by which layers are divided, as users give them; 0: not given ---- */
typedef struct clade__speeds {
  double link_us, link_gbits; /* latency of a message; bandwidth in 10^9 bits per second */
  double tflops;              /* of a rank's device */
} clade__speeds;
/* Round numbers for those that are not given. */
clade__speeds clade__speeds_assumed(clade__speeds given);
/* Refuses negative and infinite numbers. */
clade_status clade__speeds_check(const clade__speeds *given, const char *what);
/* Seconds of a message without bytes, half a polling interval included; seconds of a byte. */
double clade__speeds_message(const clade__speeds *s);
double clade__speeds_byte(const clade__speeds *s);

/* ---- tensor.c: appends this rank's part of the forward graph `whole` to g. Ports keep their names; outputs are
 * replicated. Variables of split families become slices (clade__port.part). ---- */
typedef struct clade__tensor_how {
  clade_comm *comm;        /* ranks that hold slices; NULL or one rank: a copy */
  clade_dtype wire;        /* transfer type of sums */
  clade__speeds speeds;    /* 0: assumed */
  uint64_t memory;         /* limit per rank for variables with moments and live values; 0: none */
  const clade_graph *like; /* use the slices of this graph's variables; NULL: choose */
} clade__tensor_how;
clade_status clade__tensor_append(const clade_graph *whole, const clade__tensor_how *how, clade_graph *g,
                                  clade__text *explain);

/* ---- free.c: free[node] becomes whether the node depends only on constants, and on scalars that are no parameters and
 * whose new values are free, too: the learning rate, a counter of steps. Any stage can compute it. `free` is zeroed.
 * ---- */
void clade__find_free(const clade_graph *g, bool *free);

/* ---- stages.c: copies `forward` with each node placed on its piece: device k stands for piece k of pipeline *
 * interleave, which belongs to stage k % pipeline. Nodes placed by the user stay. ---- */
clade_status clade__stages_assign(const clade_graph *forward, const clade__grid *grid, double flops, clade_graph **out,
                                  clade__text *explain);

/* Places the nodes of a forward graph by the pieces of the variables that it shares with `laid`. */
void clade__stages_follow(const clade_graph *laid, clade_graph *forward);

/* ---- cut.c: extracts this stage's part of `step`, whose devices are pieces, with sends and receives over
 * `pipeline`. Outputs are on all stages, inputs on those that read them. ---- */
clade_status clade__stages_cut(const clade_graph *step, const clade__grid *grid, clade_comm *pipeline,
                               clade_graph **out);

#endif
