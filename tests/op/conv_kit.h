/* Shared by the tests of convolution's three passes: random windows and shapes, and a reference in double. */
#ifndef CONV_KIT_H
#define CONV_KIT_H

#include "op/conv/conv.h"
#include "op/move/unfold.h"

#include "op_test.h"

/* 2D; 1D; 3D; and transposed ones. */
enum { CONV_PLANE, CONV_LINE, CONV_SOLID, CONV_TRANSPOSED, CONV_LINE_TRANSPOSED };
extern const op_form conv_forms[], conv_data_forms[];

/* A random convolution; operands a and b of the pass have the shapes given here. */
typedef struct conv {
  clade__window window;      /* height 1 in 1D */
  clade__unfold_attrs depth; /* all fields 1 if there is no depth */
  int64_t groups;
  clade_shape x, w, y;
} conv;
/* Draws a convolution for c->impl, and stores it in the case's numbers. */
conv conv_draw(op_case *c, op_random *r);
conv conv_of(const op_case *c);
/* Changes its window to one that is common in networks. */
void conv_common(op_case *c, op_random *r);
/* Adds an epilogue with two inputs: relu(result + a bias + a residual); for f32, sometimes stored as bf16. */
void conv_program_add(op_case *c, op_random *r, const clade_shape *result);
bool conv_has_program(const op_case *c);
/* Applies the epilogue to `out`, the result before it. */
void conv_program_reference(const op_case *c, const op_array *in, op_array *out);
/* Attributes, including the case's epilogue. */
clade__conv_attrs conv_attrs(const op_case *c, const conv *v);
/* Uses the builder for the form; without a bias if `bias` is invalid. */
clade_val conv_build(const op_case *c, clade_graph *g, clade_val x, clade_val w, clade_val bias);
double conv_stored_epsilon(clade_dtype t); /* rounding of stored intermediate results; 0 for f32 */
/* Applies a bias that is added by a separate node, as builders do. */
void conv_bias_reference(const op_case *c, const op_array *bias, op_array *out);

/* The operand to compute: adds one product to a sum and to the sum of absolute values. */
enum { CONV_X, CONV_W, CONV_Y };
/* Computes the pass for `want` from the other two operands, and fills `bound`. */
void conv_reference(const conv *v, int want, const double *x, const double *w, const double *y, op_array *out);

/* Widens the bound of a 2D convolution by the error of an algorithm's tiles. */
typedef void conv_bound(const op_case *c, const conv *v, int want, const double *a, const double *b, op_array *out);
/* Applies `bound` to the 2D convolution that the case is reduced to. */
void conv_planes_bound(const op_case *c, conv_bound *bound, int want, const double *a, const double *b, op_array *out);
/* Transformed weights of Winograd's algorithm for three taps and tiles of `side` results. */
void conv_winograd_weights(int side, double weights[6][3]);
/* If Winograd's algorithm computes the case, widens `bound` to that of docs/layouts.md: the same computation on
 * absolute values, with the same number of roundings. Operands are those of the pass that computes `want`. */
void conv_winograd_bound(const op_case *c, int want, const double *a, const double *b, op_array *out);

#endif
