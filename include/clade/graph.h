/* Graphs: a model as ops on values. One thread builds a graph; once compiled, it is immutable. Errors are sticky: the
 * first error stays in the graph, later calls do nothing and return invalid values, and compiling returns the error. */
#ifndef CLADE_GRAPH_H
#define CLADE_GRAPH_H

#include <clade/op.h>

CLADE_BEGIN_DECLS

/* ---- graphs ---- */
CLADE_API clade_status clade_graph_new(clade_graph **out); /* makes an empty graph */
/* Adds and drops a reference; NULL may be released. Funcs keep what they need of a graph. */
CLADE_API clade_graph *clade_graph_retain(clade_graph *graph);
CLADE_API void clade_graph_release(clade_graph *graph);
CLADE_API clade_status clade_graph_status(const clade_graph *graph); /* the first error, or CLADE_OK */
CLADE_API const char *clade_graph_message(const clade_graph *graph); /* message of the first error; "" without one */

/* ---- inputs, constants and outputs ---- */
/* An input, which every execution is given. The names of inputs, and those of outputs, are unique within a graph:
 * letters, digits and _ . / - : @, at most 255 bytes. */
CLADE_API clade_val clade_input(clade_graph *g, const char *name, clade_dtype dtype, clade_shape shape);
/* A constant. The data is copied. */
CLADE_API clade_val clade_constant(clade_graph *g, clade_dtype dtype, clade_shape shape, const void *data);
/* A constant whose elements are all equal. */
CLADE_API clade_val clade_fill(clade_graph *g, clade_dtype dtype, clade_shape shape, double value);
/* Makes a value an output of the graph, which clade_read reads by this name. */
CLADE_API void clade_output(clade_graph *g, const char *name, clade_val value);

/* ---- variables, training and inference ---- */
/* The distribution of a variable's initial values. Random values depend on the seed and the variable's name, so that a
 * further variable changes no other one. */
typedef enum clade_init_kind {
  CLADE_INIT_UNSET = 0, /* the layer's default for a layer's weights; otherwise zeros */
  CLADE_INIT_FILL,      /* the constant `a` */
  CLADE_INIT_UNIFORM,   /* uniform in [a, b) */
  CLADE_INIT_NORMAL,    /* normal with mean `a` and standard deviation `b` */
  /* `a` times an orthogonal matrix of the first dimension by all others: its rows are orthonormal, or its columns if
   * there are fewer. */
  CLADE_INIT_ORTHOGONAL,
  CLADE_INIT_ZERO /* zeros */
} clade_init_kind;
/* Initial values of a variable. */
typedef struct clade_initial {
  clade_init_kind kind; /* distribution */
  double a, b;          /* its numbers */
} clade_initial;
/* Initial values for weights, by He for ReLU and by Glorot for tanh and similar functions. `in` is the fan-in, `out`
 * the fan-out: for a linear layer its sizes, for a convolution the channels times the elements of the kernel window. */
CLADE_API clade_initial clade_he_normal(int64_t in);
CLADE_API clade_initial clade_he_uniform(int64_t in);
CLADE_API clade_initial clade_glorot_normal(int64_t in, int64_t out);
CLADE_API clade_initial clade_glorot_uniform(int64_t in, int64_t out);
CLADE_API clade_initial clade_orthogonal(double gain); /* CLADE_INIT_ORTHOGONAL, scaled by `gain` */

/* The value of a variable at the start of an execution. The contents live in clade_vars. Shapes must be constant. */
CLADE_API clade_val clade_variable(clade_graph *g, const char *name, clade_dtype dtype, clade_shape shape,
                                   clade_initial initial);
/* A trainable variable. Optimizers update the parameters that the loss depends on. */
CLADE_API clade_val clade_parameter(clade_graph *g, const char *name, clade_dtype dtype, clade_shape shape,
                                    clade_initial initial);
/* Overrides the shape of a variable that is made later under this name: same rank, no dimension larger. A model's
 * function then builds a pruned model (docs/pruning.md), because layers take the widths of their inputs from x, and
 * convolutions their groups from the weight's shape. */
CLADE_API void clade_graph_shape(clade_graph *g, const char *name, clade_shape shape);
/* Selects whether layers that are built from here on are for training (batch normalization by the batch's statistics,
 * dropout) or, as initially, for inference. */
CLADE_API void clade_graph_train(clade_graph *g, bool train);
CLADE_API bool clade_graph_trains(const clade_graph *g); /* the selected mode; false for NULL */

/* Assigns a new value to a variable, from the next execution on. At most one assignment per variable and graph. */
CLADE_API void clade_assign(clade_graph *g, clade_val variable, clade_val value);

/* ---- placement ---- */
/* Selects the device of the nodes that are built from here on: an index of a device of clade_compile, initially 0. */
CLADE_API void clade_graph_place(clade_graph *g, int index);

/* Begins share `index` of a batch, initially 0: the same model again, for another part of the batch. In shares above 0,
 * a variable of the same name and type is the existing one, and assignments are ignored: running statistics are those
 * of share 0. */
CLADE_API void clade_graph_share(clade_graph *g, int index);

/* Splits a value along an axis (negative: from the end) when several ranks compute parts of the graph
 * (docs/parallel.md), and with it everything that lies along the same axes. On a sequence axis, which no weight has,
 * the split covers the normalizations, dropouts and sums between products. Otherwise without effect. */
CLADE_API void clade_graph_split(clade_graph *g, clade_val value, int axis);

/* ---- values ---- */
CLADE_API bool clade_val_ok(clade_val value); /* whether the value is valid */
/* Stores the type of a value. */
CLADE_API clade_status clade_val_type(const clade_graph *g, clade_val value, clade_type *type);

/* Adds the nodes of reverse-mode differentiation. dxs[i] becomes the sum over y of dy * dy/dx[i]; an invalid `dy`
 * stands for ones. If y does not depend on x, the result is zeros. */
CLADE_API clade_status clade_gradients(clade_graph *g, clade_val y, clade_val dy, int n, const clade_val *xs,
                                       clade_val *dxs);

/* The value x, without a gradient to x. */
CLADE_API clade_val clade_stop_gradient(clade_graph *g, clade_val x);

/* ---- debugging ---- */
/* Adds an f32 output "watch:NUMBER:OP:NAME" for every float computed so far, in the order of the nodes, and an output
 * "watch" for all of them: 0, or NaN if an element is not finite. Finds the node where a training diverged; slow. */
CLADE_API clade_status clade_graph_watch(clade_graph *g);

/* The format of a printed graph: text, or the DOT language of Graphviz. */
typedef enum clade_print_format { CLADE_PRINT_TEXT, CLADE_PRINT_DOT } clade_print_format;
/* Prints the graph. The text is freed by clade_text_free. */
CLADE_API clade_status clade_graph_print(const clade_graph *g, clade_print_format format, char **out);
/* Frees a text that a call of the library returned. */
CLADE_API void clade_text_free(char *text);

CLADE_END_DECLS
#endif
