/* A forward graph with the data for splitting it: dimensions of nodes, axis families, and each node's chosen
 * dimension (docs/parallel.md). */
#ifndef CLADE_PARALLEL_TENSOR_H
#define CLADE_PARALLEL_TENSOR_H

#include "ir/dimensions.h"
#include "parallel/parallel.h"

enum { CLADE__IN_NO_FAMILY = -1, CLADE__ALONG_NONE = -1, CLADE__MOST_PARTS = 64 };

/* Axes that are split together or not at all. */
typedef struct clade__family {
  clade__id value; /* with `axis`: its first axis of a variable, else of any value */
  int axis;
  int64_t blocks;
  bool of_variable, marked, split;
  size_t first_member, n_members; /* member nodes */
  double work;                    /* of all members, in multiply-adds */
  double spares, costs;           /* seconds per step, for this family alone */
  double bytes;                   /* communicated per step */
} clade__family;

typedef struct clade__work {
  int n;
  clade__dimension *dims;
  int *family; /* by dimension; CLADE__IN_NO_FAMILY: cannot be split */
} clade__work;

typedef struct clade__use {
  clade__id node;
  int operand;
} clade__use;

typedef struct clade__tensor {
  const clade_graph *g;
  const clade__tensor_how *how;
  int rank, ranks;
  clade__arena arena;
  clade__work *work; /* by node */
  int *along;        /* by node: the dimension that is split; CLADE__ALONG_NONE: none */
  size_t *first;     /* by value: index into `of_axis` */
  int *of_axis;      /* families */
  clade__family *families;
  int n_families;
  clade__id *members; /* of families */
  size_t *first_use;  /* by value, plus the end */
  clade__use *uses;
  bool *is_output, *flows; /* by value; flows: a parameter's gradient passes through it */
} clade__tensor;

/* ---- families.c ---- */
clade_status clade__families_find(const clade_graph *g, const clade__tensor_how *how, clade__tensor *t);
void clade__families_free(clade__tensor *t);
/* Start of a rank's slice of an axis with `length` elements; for rank `ranks`, the end. */
int64_t clade__family_cut(const clade__tensor *t, int family, int64_t length, int rank);
static inline int clade__axis_family(const clade__tensor *t, clade__id value, int axis) {
  return t->of_axis[t->first[value] + (size_t)axis];
}
static inline const clade__dimension *clade__node_along(const clade__tensor *t, clade__id node) {
  return t->along[node] == CLADE__ALONG_NONE ? NULL : &t->work[node].dims[t->along[node]];
}

/* Representation of a value, and the representations that its users need. */
typedef enum clade__held { CLADE__HELD_WHOLE, CLADE__HELD_SUM, CLADE__HELD_PART } clade__held;
typedef struct clade__state {
  clade__held held;
  int axis; /* of PART */
} clade__state;
typedef struct clade__needs {
  bool whole, shared; /* replicated, for users that are not split and for users that are */
  unsigned parts;     /* bit set of axes */
} clade__needs;
clade__state clade__state_of(const clade__tensor *t, clade__id value);
clade__needs clade__needs_of(const clade__tensor *t, clade__id value);
/* Parts along one axis are needed as parts along one other axis, and nowhere else. */
static inline bool clade__turns(clade__state s, clade__needs n) {
  const unsigned others = s.held == CLADE__HELD_PART ? n.parts & ~(1u << s.axis) : 0;
  return others && !(others & (others - 1)) && !n.whole && !n.shared;
}

typedef enum clade__need { CLADE__NEED_NOTHING, CLADE__NEED_WHOLE, CLADE__NEED_SHARED, CLADE__NEED_PART } clade__need;
clade__need clade__need_of(const clade__tensor *t, clade__id node, int operand, int *axis);

/* ---- choose.c: sets `along` and `split` ---- */
clade_status clade__tensor_choose(clade__tensor *t);

/* ---- tell.c ---- */
void clade__tensor_tell(const clade__tensor *t, clade__text *text);
void clade__tensor_tell_move(const clade__tensor *t, clade__text *text, const char *what, clade__id value, int axis,
                             const char *backward);

/* ---- classes.c ---- */
/* Cross-entropy of logits with the classes distributed over ranks: this rank has those from `begin` on, of
 * `classes`. */
typedef struct clade__some_classes {
  clade_val logits, labels; /* the own slice; all labels */
  int64_t begin, classes;
  const void *attrs; /* of cross_entropy */
} clade__some_classes;
clade_status clade__classes_loss(clade_graph *g, const clade__tensor_how *how, const clade__some_classes *c,
                                 clade_val *loss);

#endif
