/* The graph: nodes, values, names. Builders fill it, passes rewrite a copy of it. Values are numbers from 1 on; a
 * node's outputs are consecutive values. Every node comes after what it uses. */
#ifndef CLADE_IR_H
#define CLADE_IR_H

#include <clade/func.h>
#include <clade/ops.h>

#include "base/base.h"
#include "ir/elt.h"

typedef uint32_t clade__id; /* of a node or a value; 0: none */

typedef struct clade__value {
  clade_type type;
  clade__id node;
  uint16_t out;   /* which output of the node */
  uint8_t shard;  /* a bit for each axis that clade_graph_split asks to be split */
  clade__id like; /* the value that mixed precision stores it as: that whose gradient it is; as built, not in rewritten
                     graphs; 0: none */
} clade__value;

typedef struct clade__node {
  const clade_op *op;
  const char *name; /* "", or unique among ports of its kind or other nodes; in the graph's arena, like everything a
                       node points to */
  void *attrs;
  int n_in, n_out;
  clade__id *in;       /* values */
  clade__id first_out; /* value */
  int device;          /* where its outputs live */
  int share;           /* of the batch, that it was built for */
  clade__id derives;   /* the node of whose derivative this is a part; as built, not in rewritten graphs; 0: none */
  /* written by the select pass */
  int impl;              /* number among clade__impls(op); -1: none is needed (ports, constants, transfers, views) */
  const int32_t *config; /* the implementation's parameters; NULL: it has none */
  double seconds;        /* as records tell them and it was chosen by; 0: it was not */
  const char *why;       /* impl was chosen: "cheapest", "asked for", "measured", "pinned" */
  const char **refusals; /* by implementation: why it is not the one */
} clade__node;

/* What a variable is a part of, where ranks have parts of it (docs/parallel.md). */
typedef struct clade__part {
  bool is_part;
  int axis;
  int64_t begin; /* of the part, in `whole` along the axis */
  clade_shape whole;
} clade__part;

typedef struct clade__port { /* an input or output of the graph, or a variable */
  const char *name;
  clade__id value;
  clade_initial initial; /* variables */
  clade__id assigned;    /* variables: the new value, 0: none */
  bool parameter;        /* variables: training learns it */
  clade__part part;      /* variables */
} clade__port;

typedef struct clade__ports {
  clade__port *at;
  size_t count, capacity;
  clade__map by_name;
} clade__ports;

/* A constant's bytes: shared by the graphs that a rewrite makes of one another. */
typedef struct clade__blob {
  clade__ref ref;
  size_t bytes;
  _Alignas(64) unsigned char data[];
} clade__blob;

/* Shapes of variables by their names (shapes.c). */
typedef struct clade__shapes {
  struct clade__named_shape {
    char *name;
    clade_shape shape;
  } * at;
  size_t n, capacity;
  clade__map by_name;
} clade__shapes;
clade_status clade__shapes_put(clade__shapes *shapes, const char *name, const clade_shape *shape); /* replaces */
const clade_shape *clade__shapes_find(const clade__shapes *shapes, const char *name);              /* NULL: none */
void clade__shapes_free(clade__shapes *shapes);

struct clade_graph {
  clade__ref ref;
  uint32_t serial; /* of clade_val.graph; never 0 */
  clade_status status;
  char *message;
  bool sealed;               /* compiled once: builders refuse */
  bool trains;               /* layers are built for training */
  int share;                 /* of the batch; layers with noise of their own draw by it */
  int first_share;           /* that makes variables and assigns */
  struct clade_comm *sync;   /* layers look at the batch of its ranks; NULL: at their own */
  struct clade_comm *tensor; /* of the ranks that have the other parts of variables that are parts; NULL: none are */
  int device;
  clade__id derives; /* what is built now is a part of this node's derivative; 0: of none */
  clade__arena arena;
  clade__node *nodes; /* [0] unused */
  clade__value *values;
  size_t n_nodes, n_values, node_capacity, value_capacity;
  clade__ports inputs, outputs, variables;
  clade__shapes shapes; /* that variables are made in */
  clade__map node_names;
  clade__blob **blobs;
  size_t n_blobs, blob_capacity;
};

/* Nodes that the graph itself knows. Their attrs: clade__constant_attrs, clade__transfer_attrs; the others have none.
 * Inputs, variables and constants have no operands and no infer: their type is that of their value. An assign has the
 * operands (variable, new value) and no output; clade__port.assigned is always its second operand. A transfer runs, as
 * its device says, where its output lives. None of them has implementations. */
extern const clade_op clade__op_input, clade__op_variable, clade__op_constant, clade__op_assign, clade__op_transfer,
    clade__op_stop_gradient;
static inline bool clade__is_source(const clade_op *op) {
  return op == &clade__op_input || op == &clade__op_variable || op == &clade__op_constant;
}
typedef struct clade__constant_attrs { /* data lives as long as a graph with the node, dense */
  const void *data;
  size_t bytes;   /* of data */
  size_t pattern; /* not 0: every element is these first bytes of data (a fill) */
  clade__blob *blob;
} clade__constant_attrs;
typedef struct clade__transfer_attrs {
  int32_t device; /* of the output; the input's is its own node's */
} clade__transfer_attrs;

/* For builders: an invalid value with the graph's first error set to this thread's message, under `what` (NULL: as it
 * is). A sealed graph is left alone: only the message is set. */
clade_val clade__graph_fail(clade_graph *g, clade_status status, const char *what);
bool clade__graph_ok(clade_graph *g); /* not NULL, not sealed, no error so far; else the message says which */
clade_status clade__graph_value(const clade_graph *g, clade_val v, const char *what, clade__id *id);
clade_val clade__graph_val(const clade_graph *g, clade__id id);
static inline int clade__micro_batch(const clade_graph *g, const clade__node *n) { return n->share - g->first_share; }
static inline clade_type *clade__type(const clade_graph *g, clade__id id) { return &g->values[id].type; }

/* The shape that the graph was told for the variable, instead of its builder's. */
clade_status clade__graph_shaped(const clade_graph *g, const char *name, clade_shape *shape);

/* `what` names the kind of thing in the refusal. */
clade_status clade__name_check(const char *what, const char *name);
/* Appends; the name was checked. */
clade_status clade__port_add(clade_graph *g, clade__ports *ports, const char *name, clade__id value,
                             clade_initial initial);
void clade__ports_clear(clade__ports *ports);                            /* their values stay */
char *clade__type_text(const clade_type *type, char *text, size_t size); /* "f32[batch, 10]"; returns text */
/* A dtype, at most 8 dimensions that are sizes or symbols (`constant`: sizes only), bytes that can be counted. */
clade_status clade__type_check(const clade_type *type, bool constant);
/* The op's implementations, all of this library's size; ends in NULL, and is never NULL itself. */
const clade_impl *const *clade__impls(const clade_op *op);
int clade__impls_count(const clade_op *op);
/* That each has a size, a name, and a space that can be asked. */
clade_status clade__impls_check(const clade_op *op);
/* Puts the op and the node's name before this thread's message; returns `status`. */
clade_status clade__blame(clade_status status, const clade_op *op, const char *name);

/* Adds a node on g->device without looking at names or stickiness: for passes. Infers. */
clade_status clade__node_new(clade_graph *g, const clade_op *op, const char *name, const void *attrs, int n_in,
                             const clade__id *in, clade__id *node);
/* A copy of another graph's node, whose operands may lie in other layouts than its infer has seen: the types of its
 * outputs are given. */
clade_status clade__node_relaid(clade_graph *g, const clade__node *from, const clade__id *in, const clade_type *out,
                                clade__id *node);
/* As clade__node_new for inputs, variables and constants: the output's type is given. */
clade_status clade__source_new(clade_graph *g, const clade_op *op, const char *name, const void *attrs,
                               const clade_type *type, clade__id *node);
/* The view that an op gets. `in` and `out` have room for the node's operands. */
void clade__node_view(const clade_graph *g, clade__id node, clade_type *in, clade_type *out, clade_node *view);

/* For builders: mixed precision stores `value` in the type of `like`. */
void clade__store_like(clade_graph *g, clade_val value, clade_val like);
/* For builders: as clade_assign, of a variable that is assigned already, and of this value instead. */
clade_status clade__reassign(clade_graph *g, clade_val variable, clade_val value);

/* ---- rewriting: passes read one graph and build the next, so that the order of nodes always holds ---- */
/* Called for each node in order. map[v] is the new graph's value for the old graph's v (0: not there yet); the function
 * sets it for all outputs of `node`, by clade__node_copy or by nodes of its own. */
typedef clade_status clade__rewrite_fn(void *user, const clade_graph *old, clade__id node, clade_graph *g,
                                       clade__id *map);
/* fn NULL: a plain copy. `old` stays as it is. Ports follow the map; a node whose outputs stay 0 was dropped. */
clade_status clade__graph_rewrite(const clade_graph *old, clade__rewrite_fn *fn, void *user, clade_graph **out);
/* The same into a graph that is being built, which has no names of `old`; map: [old->n_values], zeros. */
clade_status clade__graph_append(const clade_graph *old, clade__rewrite_fn *fn, void *user, clade_graph *g,
                                 clade__id *map);
clade_status clade__node_copy(const clade_graph *old, clade__id node, clade_graph *g, clade__id *map);
/* With other attributes, and for inputs, variables and constants another type. */
clade_status clade__node_copy_as(const clade_graph *old, clade__id node, const void *attrs, const clade_type *type,
                                 clade_graph *g, clade__id *map);
/* As clade__node_copy, with what autodiff and mixed precision go by: the share, the node that it derives, and the
 * values that its outputs are stored like, as far as these are there. */
clade_status clade__node_copy_marked(const clade_graph *old, clade__id node, clade_graph *g, clade__id *map);
/* map[] of all outputs of `from`, which `to` of g was made of. */
clade_status clade__map_outputs(const clade__node *from, const clade_graph *g, clade__id to, clade__id *map);
/* A copy in which symbols have values; every shape is inferred again. Names symbols that are missing or unknown. */
clade_status clade__graph_bind(const clade_graph *old, int n, const clade_dim_value *dims, clade_graph **out);
/* A constant, or a variable that the graph does not assign: the same in all executions until somebody sets it. */
bool clade__graph_frozen(const clade_graph *g, clade__id value);
/* How often each value is used, outputs and assigned values included (that a variable is assigned is no use of it); an
 * array of n_values, by clade__free. */
clade_status clade__graph_uses(const clade_graph *g, uint32_t **uses);
clade__hash clade__type_hash(clade__hash hash, const clade_type *type);
size_t clade__attr_size(clade_attr_kind kind); /* of one element */
/* One of attrs as its table describes it, symbols by name; `hash` goes on from what was before. */
clade__hash clade__attrs_hash(clade__hash hash, const clade_op *op, const void *attrs);
/* As clade_graph_share, in a graph that holds this share alone: it is the first one here. */
void clade__graph_only_share(clade_graph *g, int index);
/* A hash of everything that decides what a graph computes; names included. */
clade__hash clade__graph_hash(const clade_graph *g);

#endif
