/* The state of building a rank's part of a graph (tensor.c), and the values of that graph (moves.c). */
#ifndef CLADE_PARALLEL_REWRITER_H
#define CLADE_PARALLEL_REWRITER_H

#include "parallel/tensor.h"

/* Versions of a value in the new graph; 0: not built. */
typedef struct clade__version {
  clade__id made; /* in the representation of its state */
  clade__id whole, shared, part[CLADE_MAX_RANK];
  clade__needs needs;
  clade__state state;
  int share; /* of an input: the micro-batch that its parts were made in */
} clade__version;

typedef struct clade__rewriter {
  clade__tensor *t;
  clade_graph *g;
  clade__version *at; /* by value */
  clade__id *map;     /* by value, for copying nodes */
  clade__text *explain;
  clade_dtype wire;
  clade__id assigned; /* of the node being rewritten */
  int share;          /* of that node */
} clade__rewriter;

static inline clade_val clade__rewritten(const clade__rewriter *r, clade__id id) { return clade__graph_val(r->g, id); }
static inline clade_comm *clade__tensor_comm(const clade__rewriter *r) { return r->t->how->comm; }
static inline clade_status clade__take(const clade__rewriter *r, clade_val v, clade__id *id) {
  *id = v.id;
  return clade_graph_status(r->g);
}

/* The boundaries of the ranks' parts of an axis; cuts: [ranks + 1]. */
void clade__cuts_of(const clade__rewriter *r, clade__id value, int axis, int64_t *cuts);
/* Places the nodes that follow like the value's producer. */
void clade__stand(const clade__rewriter *r, clade__id value);
clade_dtype clade__wire_of(const clade__rewriter *r, clade__id value);
void clade__tell_move(const clade__rewriter *r, const char *what, clade__id value, int axis, const char *backward);

/* The value as a whole, as a replicated operand of a computation in parts, and this rank's part along an axis; each is
 * built at the first call. */
clade_status clade__whole_of(const clade__rewriter *r, clade__id value, clade__id *id);
clade_status clade__shared_of(const clade__rewriter *r, clade__id value, clade__id *id);
clade_status clade__part_of(const clade__rewriter *r, clade__id value, int axis, clade__id *id);

#endif
