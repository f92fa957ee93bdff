/* A model as a graph of ops on values. Built by one thread, immutable once compiled. Errors are sticky: the first one
 * stays in the graph, later calls do nothing and return an invalid value, and compiling returns it. */
#ifndef CLADE_GRAPH_H
#define CLADE_GRAPH_H

#include <clade/op.h>

CLADE_BEGIN_DECLS

CLADE_API clade_status clade_graph_new(clade_graph **out);
CLADE_API clade_graph *clade_graph_retain(clade_graph *graph);
CLADE_API void clade_graph_release(clade_graph *graph); /* NULL is fine; funcs keep what they need */
CLADE_API clade_status clade_graph_status(const clade_graph *graph);
CLADE_API const char *clade_graph_message(const clade_graph *graph); /* of the first error; "" */

/* Names are unique within a graph and kind: letters, digits and _ . / - : @, at most 255 bytes. */
CLADE_API clade_val clade_input(clade_graph *g, const char *name, clade_dtype dtype, clade_shape shape);
CLADE_API clade_val clade_constant(clade_graph *g, clade_dtype dtype, clade_shape shape, const void *data); /* copied */
CLADE_API clade_val clade_fill(clade_graph *g, clade_dtype dtype, clade_shape shape, double value);
CLADE_API void clade_output(clade_graph *g, const char *name, clade_val value);

/* How clade_vars_new fills a variable; random ones are keyed by (seed, name), so that adding one changes no other. */
typedef enum clade_init_kind {
  CLADE_INIT_UNSET = 0, /* of a layer's weights: as the layer says; else zeros */
  CLADE_INIT_FILL,      /* a */
  CLADE_INIT_UNIFORM,   /* [a, b) */
  CLADE_INIT_NORMAL,    /* mean a, deviation b */
  /* a times a matrix of the first dimension by all others, whose rows, or columns where they are fewer, are orthonormal
   */
  CLADE_INIT_ORTHOGONAL,
  CLADE_INIT_ZERO
} clade_init_kind;
typedef struct clade_initial {
  clade_init_kind kind;
  double a, b;
} clade_initial;
/* By how many elements go into a result, `in`, and how many results an element goes into, `out`: a linear layer's
 * sizes; a convolution's channels times the pixels of its window. He's for relu, Glorot's for tanh and the like. */
CLADE_API clade_initial clade_he_normal(int64_t in);
CLADE_API clade_initial clade_he_uniform(int64_t in);
CLADE_API clade_initial clade_glorot_normal(int64_t in, int64_t out);
CLADE_API clade_initial clade_glorot_uniform(int64_t in, int64_t out);
CLADE_API clade_initial clade_orthogonal(double gain);

/* A variable's value as it is at the start of an execution; its contents live in clade_vars. Constant shapes only. */
CLADE_API clade_val clade_variable(clade_graph *g, const char *name, clade_dtype dtype, clade_shape shape,
                                   clade_initial initial);
/* A variable that training learns: optimizers update the parameters that the loss depends on. */
CLADE_API clade_val clade_parameter(clade_graph *g, const char *name, clade_dtype dtype, clade_shape shape,
                                    clade_initial initial);
/* A variable of this name that is made from here on has this shape: as many dimensions as its builder says, none of
 * them longer. So a model's function builds a pruned model (docs/pruning.md): layers take their inputs' widths from x,
 * and convolutions their groups from the weight's shape. */
CLADE_API void clade_graph_shape(clade_graph *g, const char *name, clade_shape shape);
/* Layers built from here on are for training (batch normalization by the batch's own mean, dropout drops) or, as at
 * first, for inference. */
CLADE_API void clade_graph_train(clade_graph *g, bool train);
CLADE_API bool clade_graph_trains(const clade_graph *g); /* false for NULL */
/* The variable's new value, from the next execution on. At most one per variable and graph. */
CLADE_API void clade_assign(clade_graph *g, clade_val variable, clade_val value);

/* Nodes built from here on run on device `index` of those that the graph is compiled for (0 at first). */
CLADE_API void clade_graph_place(clade_graph *g, int index);

/* What is built from here on is share `index` of a batch, 0 at first: the same model again, on another part of it. In
 * shares beyond the first a variable that is there already may be named again, by the same type, and is the same one;
 * assignments are those of the first share and ignored here, so that running statistics are the first share's. */
CLADE_API void clade_graph_share(clade_graph *g, int index);

/* Where several ranks compute parts of the graph (docs/parallel.md): the value is split along an axis (negative: from
 * the end), and with it whatever lies along the same axes. Of a sequence axis, which no layer's weights have, this
 * splits the norms, dropouts and sums between products. Elsewhere it changes nothing. */
CLADE_API void clade_graph_split(clade_graph *g, clade_val value, int axis);

CLADE_API bool clade_val_ok(clade_val value);
CLADE_API clade_status clade_val_type(const clade_graph *g, clade_val value, clade_type *type);

/* Adds the nodes of reverse-mode derivatives: dxs[i] = sum over outputs of dy * dy/dx[i]; dy invalid: ones. Where y
 * does not depend on x the result is a fill of zeros. */
CLADE_API clade_status clade_gradients(clade_graph *g, clade_val y, clade_val dy, int n, const clade_val *xs,
                                       clade_val *dxs);

/* x, as a value on which no derivative depends. */
CLADE_API clade_val clade_stop_gradient(clade_graph *g, clade_val x);

/* For every float that is computed so far an f32 output "watch:NUMBER:OP:NAME", in the order of the nodes, and one
 * "watch" for all: 0, or NaN where an element is not finite. For finding where a training went wrong; slow. */
CLADE_API clade_status clade_graph_watch(clade_graph *g);

typedef enum clade_print_format { CLADE_PRINT_TEXT, CLADE_PRINT_DOT } clade_print_format;
/* A text to be given to clade_text_free. */
CLADE_API clade_status clade_graph_print(const clade_graph *g, clade_print_format format, char **out);
CLADE_API void clade_text_free(char *text);

CLADE_END_DECLS
#endif
