/* What the tests of convolution's three passes share: random windows, shapes and a reference in double. */
#ifndef CONV_KIT_H
#define CONV_KIT_H

#include "op/conv/conv.h"
#include "op/unfold.h"

#include "op_test.h"

/* Of height and width; over the width alone; over depth, height and width; and transposed. */
enum { CONV_PLANE, CONV_LINE, CONV_SOLID, CONV_TRANSPOSED, CONV_LINE_TRANSPOSED };
extern const op_form conv_forms[], conv_data_forms[];

/* A random convolution: operands a and b of the pass, by their shapes here. */
typedef struct conv {
  clade__window window;      /* of a line: 1 high */
  clade__unfold_attrs depth; /* all of it 1 where there is none */
  int64_t groups;
  clade_shape x, w, y;
} conv;
/* Draws one by c->impl, which may be CONV_FOLD, and keeps it in the case's numbers. */
#define CONV_FOLD "fold" /* of one group, at times of more places than are folded or unfolded at once */
conv conv_draw(op_case *c, op_random *r);
/* What gemm takes are products by windows of one place, and through the matrix of windows all others: so many of it. */
conv conv_draw_others(op_case *c, op_random *r, double others);
conv conv_of(const op_case *c);
/* Makes its window one of those by which networks pool. */
void conv_common(op_case *c, op_random *r);
/* A program in the node itself, with two more inputs: relu(result + a bias + a residual), of f32 at times stored as
 * bf16. */
void conv_program_add(op_case *c, op_random *r, const clade_shape *result);
bool conv_has_program(const op_case *c);
/* What it makes of `out`, a result before. */
void conv_program_reference(const op_case *c, const op_array *in, op_array *out);
/* Attributes, with the case's program. */
clade__conv_attrs conv_attrs(const op_case *c, const conv *v);
/* By the form's builder; without a bias where that is invalid. */
clade_val conv_build(const op_case *c, clade_graph *g, clade_val x, clade_val w, clade_val bias);
double conv_stored_epsilon(clade_dtype t); /* of what is stored in between; 0 for f32 */
/* What a bias that is added by itself, as a builder does, makes of `out`. */
void conv_bias_reference(const op_case *c, const op_array *bias, op_array *out);

/* Adds one operand's product to a sum, or a sum of absolute values. */
enum { CONV_X, CONV_W, CONV_Y };
/* The pass that computes `want` from the two others; `bound` is filled too. */
void conv_reference(const conv *v, int want, const double *x, const double *w, const double *y, op_array *out);

/* Widens the bound of a convolution over height and width by what an algorithm's tiles make of it. */
typedef void conv_bound(const op_case *c, const conv *v, int want, const double *a, const double *b, op_array *out);
/* Widens `bound` by that of the convolution over height and width that the case becomes. */
void conv_planes_bound(const op_case *c, conv_bound *bound, int want, const double *a, const double *b, op_array *out);
/* How three weights in a line become those of the base with tiles of `side` results. */
void conv_winograd_weights(int side, double weights[6][3]);
/* Where Winograd's algorithm computes the case, widens `bound` to what docs/layouts.md states for its tiles: the same
 * computation on absolute values, with as many roundings. Operands are those of the pass that computes `want`. */
void conv_winograd_bound(const op_case *c, int want, const double *a, const double *b, op_array *out);

#endif
