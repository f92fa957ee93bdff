/* The graph: nodes, values and names. Builders fill it; passes rewrite copies. Nodes and values are numbered from 1;
 * a node's outputs are consecutive values; nodes are in topological order. */
#ifndef CLADE_IR_H
#define CLADE_IR_H

#include <clade/func.h>
#include <clade/ops.h>

#include "base/base.h"
#include "ir/elt.h"

typedef uint32_t clade__id; /* node or value number; 0: none */

typedef struct clade__value {
  clade_type type;
  clade__id node;
  uint16_t out;  /* output index within the node */
  uint8_t shard; /* bit per axis that clade_graph_split requests to split */
  /* For a gradient, the value that it is the gradient of: mixed precision stores it in the same type. In built
   * graphs only; 0: none. */
  clade__id like;
} clade__value;

typedef struct clade__node {
  const clade_op *op;
  /* "" or unique among ports of its kind or among other nodes. Like everything that a node points to, in the graph's
   * arena. */
  const char *name;
  void *attrs;
  int n_in, n_out;
  clade__id *in;       /* values */
  clade__id first_out; /* value */
  int device;          /* where its outputs live */
  int share;           /* share of the batch that it belongs to */
  clade__id derives;   /* the node whose derivative it is part of; in built graphs only; 0: none */
  /* set by the select pass */
  int impl;              /* index in clade__impls(op); -1: none needed (ports, constants, transfers, views) */
  const int32_t *config; /* parameters of the implementation, or NULL */
  double seconds;        /* recorded time that the choice was based on; 0: none */
  const char *why;       /* reason for the choice: "cheapest", "asked for", "measured", "pinned" */
  const char **refusals; /* by implementation: reason for not choosing it */
} clade__node;

/* The slice of a variable that a rank stores (docs/parallel.md). */
typedef struct clade__part {
  bool is_part;
  int axis;
  int64_t begin; /* first index of the slice along the axis of `whole` */
  clade_shape whole;
} clade__part;

typedef struct clade__port { /* an input or output of the graph, or a variable */
  const char *name;
  clade__id value;
  clade_initial initial; /* variables only */
  clade__id assigned;    /* variables only: the assigned value; 0: none */
  bool parameter;        /* variables only: trainable */
  clade__part part;      /* variables only */
} clade__port;

typedef struct clade__ports {
  clade__port *at;
  size_t count, capacity;
  clade__map by_name;
} clade__ports;

/* Contents of a constant, shared by the rewritten copies of a graph. */
typedef struct clade__blob {
  clade__ref ref;
  size_t bytes;
  _Alignas(64) unsigned char data[];
} clade__blob;

/* Shapes of variables by name (shapes.c). */
typedef struct clade__shapes {
  struct clade__named_shape {
    char *name;
    clade_shape shape;
  } * at;
  size_t n, capacity;
  clade__map by_name;
} clade__shapes;
/* Replaces an existing entry. */
clade_status clade__shapes_put(clade__shapes *shapes, const char *name, const clade_shape *shape);
const clade_shape *clade__shapes_find(const clade__shapes *shapes, const char *name); /* NULL: not found */
void clade__shapes_free(clade__shapes *shapes);

struct clade_graph {
  clade__ref ref;
  uint32_t serial; /* clade_val.graph; never 0 */
  clade_status status;
  char *message;
  bool sealed;               /* has been compiled: builders fail */
  bool trains;               /* layers are built for training */
  int share;                 /* share of the batch being built; layers with noise use it for their random streams */
  int first_share;           /* the share that creates and assigns variables */
  struct clade_comm *sync;   /* layers compute statistics over the batch of all its ranks; NULL: over the rank's own */
  struct clade_comm *tensor; /* ranks that hold the other slices of sliced variables; NULL: no variable is sliced */
  int device;
  clade__id derives;    /* node whose derivative is being built; 0: none */
  clade__id added_loss; /* sum of the losses added since it was last taken; 0: none */
  clade__arena arena;
  clade__node *nodes; /* [0] is unused */
  clade__value *values;
  size_t n_nodes, n_values, node_capacity, value_capacity;
  clade__ports inputs, outputs, variables;
  clade__shapes shapes; /* prescribed shapes of variables */
  clade__map node_names;
  clade__blob **blobs;
  size_t n_blobs, blob_capacity;
};

/* The graph's own ops. Their attributes are clade__constant_attrs and clade__transfer_attrs; the others have none.
 * - Inputs, variables and constants have no operands and no `infer`; their type is that of their value.
 * - An assign has the operands (variable, new value) and no output; clade__port.assigned equals its second operand.
 * - A transfer runs on the device of its output.
 * None of them has implementations. */
extern const clade_op clade__op_input, clade__op_variable, clade__op_constant, clade__op_assign, clade__op_transfer,
    clade__op_stop_gradient;
static inline bool clade__is_source(const clade_op *op) {
  return op == &clade__op_input || op == &clade__op_variable || op == &clade__op_constant;
}
typedef struct clade__constant_attrs { /* dense data; lives as long as a graph with the node */
  const void *data;
  size_t bytes;   /* of data */
  size_t pattern; /* if not 0, the constant is a fill: each element is the first `pattern` bytes of data */
  clade__blob *blob;
} clade__constant_attrs;
typedef struct clade__transfer_attrs {
  int32_t device; /* of the output; the node of the input defines the source */
} clade__transfer_attrs;

/* For builders: makes this thread's message, prefixed with `what` unless NULL, the graph's sticky error and returns
 * an invalid value. A sealed graph is left unchanged; only the message is set. */
clade_val clade__graph_fail(clade_graph *g, clade_status status, const char *what);
bool clade__graph_ok(clade_graph *g); /* not NULL, not sealed, no sticky error; otherwise records a message */
clade_status clade__graph_value(const clade_graph *g, clade_val v, const char *what, clade__id *id);
clade_val clade__graph_val(const clade_graph *g, clade__id id);
static inline int clade__micro_batch(const clade_graph *g, const clade__node *n) { return n->share - g->first_share; }
static inline clade_type *clade__type(const clade_graph *g, clade__id id) { return &g->values[id].type; }

/* Replaces the shape by the prescribed one, if the graph has one for the variable. */
clade_status clade__graph_shaped(const clade_graph *g, const char *name, clade_shape *shape);

/* `what` names the kind of object in the message. */
clade_status clade__name_check(const char *what, const char *name);
/* Appends; the caller has validated the name. */
clade_status clade__port_add(clade_graph *g, clade__ports *ports, const char *name, clade__id value,
                             clade_initial initial);
void clade__ports_clear(clade__ports *ports);                            /* keeps their values */
char *clade__type_text(const clade_type *type, char *text, size_t size); /* "f32[batch, 10]"; returns text */
/* Validates the dtype, at most 8 dimensions (sizes or symbols; with `constant`, sizes only), and that the size in
 * bytes does not overflow. */
clade_status clade__type_check(const clade_type *type, bool constant);
/* The op's implementations in the current struct size, NULL-terminated. Never returns NULL. */
const clade_impl *const *clade__impls(const clade_op *op);
int clade__impls_count(const clade_op *op);
/* Number of alternatives in layouts, at least 1, and the one that a configuration is of. */
static inline int clade__alternatives(const clade_impl *impl) {
  return impl->alternatives > 1 ? (int)impl->alternatives : 1;
}
static inline int clade__alternative_of(const clade_impl *impl, const int32_t *config) {
  return config && clade__alternatives(impl) > 1 ? config[0] : 0;
}
/* Checks that each has a size, a name and a valid space. */
clade_status clade__impls_check(const clade_op *op);
/* Prefixes this thread's message with the op and the node's name; returns `status`. */
clade_status clade__blame(clade_status status, const clade_op *op, const char *name);

/* For passes: adds a node on g->device and infers its types, without checking names or the sticky error. */
clade_status clade__node_new(clade_graph *g, const clade_op *op, const char *name, const void *attrs, int n_in,
                             const clade__id *in, clade__id *node);
/* Copies another graph's node with given output types, since its operands may have layouts that `infer` does not
 * know. */
clade_status clade__node_relaid(clade_graph *g, const clade__node *from, const clade__id *in, const clade_type *out,
                                clade__id *node);
/* clade__node_new for inputs, variables and constants, with the output's type given. */
clade_status clade__source_new(clade_graph *g, const clade_op *op, const char *name, const void *attrs,
                               const clade_type *type, clade__id *node);
/* Fills the view of a node that ops receive. `in` and `out` need room for its operands and results. */
void clade__node_view(const clade_graph *g, clade__id node, clade_type *in, clade_type *out, clade_node *view);

/* For builders: mixed precision will store `value` in the type of `like`. */
void clade__store_like(clade_graph *g, clade_val value, clade_val like);
/* For builders: replaces the value of an existing assignment. */
clade_status clade__reassign(clade_graph *g, clade_val variable, clade_val value);

/* ---- rewriting: passes read one graph and build the next, which keeps the topological order ---- */
/* Called for each node in order. map[v] is the new value for the old value v, or 0. The function sets it for all
 * outputs of `node`, by clade__node_copy or by its own nodes. */
typedef clade_status clade__rewrite_fn(void *user, const clade_graph *old, clade__id node, clade_graph *g,
                                       clade__id *map);
/* fn NULL: a plain copy. `old` is unchanged. Ports follow the map; a node whose outputs stay 0 is dropped. */
clade_status clade__graph_rewrite(const clade_graph *old, clade__rewrite_fn *fn, void *user, clade_graph **out);
/* Rewrites into a graph under construction, which must not use names of `old`; map: [old->n_values], zeroed. */
clade_status clade__graph_append(const clade_graph *old, clade__rewrite_fn *fn, void *user, clade_graph *g,
                                 clade__id *map);
clade_status clade__node_copy(const clade_graph *old, clade__id node, clade_graph *g, clade__id *map);
/* Copies with different attributes and, for inputs, variables and constants, another type. */
clade_status clade__node_copy_as(const clade_graph *old, clade__id node, const void *attrs, const clade_type *type,
                                 clade_graph *g, clade__id *map);
/* clade__node_copy that keeps the information for autodiff and mixed precision: share, `derives`, and `like` of the
 * outputs, if those values exist in the copy. */
clade_status clade__node_copy_marked(const clade_graph *old, clade__id node, clade_graph *g, clade__id *map);
/* Sets map[] for all outputs of `from` to those of `to` in g. */
clade_status clade__map_outputs(const clade__node *from, const clade_graph *g, clade__id to, clade__id *map);
/* Copies the graph with sizes for its symbols and infers every shape again. Errors name missing or unknown symbols. */
clade_status clade__graph_bind(const clade_graph *old, int n, const clade_dim_value *dims, clade_graph **out);
/* Whether the value is constant across executions: a constant, or a variable that the graph does not assign. */
bool clade__graph_frozen(const clade_graph *g, clade__id value);
/* Use counts of all values, including outputs and assigned values; being the target of an assignment does not count.
 * Array of n_values, freed by clade__free. */
clade_status clade__graph_uses(const clade_graph *g, uint32_t **uses);
clade__hash clade__type_hash(clade__hash hash, const clade_type *type);
size_t clade__attr_size(clade_attr_kind kind); /* of one element */
/* Hashes attributes by their table, symbols by name, continuing `hash`. */
clade__hash clade__attrs_hash(clade__hash hash, const clade_op *op, const void *attrs);
/* clade_graph_share for a graph that contains this share alone, which counts as the first. */
void clade__graph_only_share(clade_graph *g, int index);
/* Hash of everything that determines what the graph computes, names included. */
clade__hash clade__graph_hash(const clade_graph *g);

#endif
