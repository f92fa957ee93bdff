/* Slices, padding and concatenations of random shapes. */
#include <clade/ops.h>

#include <stdio.h>

#include "op_test.h"

enum { SLICE, PAD, CONCAT };
enum { KIND, AXIS, VALUE, FIRST, SECOND = FIRST + CLADE_MAX_RANK }; /* begin and size, or amounts before and after */

static void draw(op_case *c, op_random *r) {
  clade_shape x = op_draw_shape(r, c, 1, 5, c->gradient ? 40 : 4000);
  op_draw_long(r, c, &x);
  c->i[KIND] = (c->small ? c->number : c->number / 4) % 3;
  c->n_in = 1;
  c->in[0] = (op_input){.dtype = c->dtype, .shape = x};
  c->i[AXIS] = (int)op_integer(r, 0, x.rank - 1);
  c->i[VALUE] = c->dtype == CLADE_BOOL || c->dtype == CLADE_U8 ? (int)op_integer(r, 0, 1) : (int)op_integer(r, -3, 3);
  for (int i = 0; i < x.rank; i++) {
    if (c->i[KIND] == SLICE) {
      c->i[FIRST + i] = (int)(op_chance(r, 0.4) ? 0 : op_integer(r, 0, x.dim[i]));
      int most = (int)x.dim[i] - c->i[FIRST + i];
      c->i[SECOND + i] = op_chance(r, 0.4) ? most : (int)op_integer(r, 0, most);
    } else {
      c->i[FIRST + i] = (int)(op_chance(r, 0.5) ? 0 : op_integer(r, 0, 3));
      c->i[SECOND + i] = (int)(op_chance(r, 0.5) ? 0 : op_integer(r, 0, 3));
    }
  }
  if (c->i[KIND] == CONCAT) c->n_in = (int)op_integer(r, 1, c->small ? 2 : 5);
  for (int k = 1; k < c->n_in; k++) {
    c->in[k] = c->in[0];
    c->in[k].shape.dim[c->i[AXIS]] = op_chance(r, 0.1) ? 0 : op_draw_extent(r, c, 9);
  }
  snprintf(c->note, sizeof c->note, "%s axis %d",
           c->i[KIND] == SLICE ? "slice"
           : c->i[KIND] == PAD ? "pad"
                               : "concat",
           c->i[AXIS]);
}

static clade_shape corner(const op_case *c, int first) {
  clade_shape s = {.rank = c->in[0].shape.rank};
  for (int i = 0; i < s.rank; i++) s.dim[i] = c->i[first + i];
  return s;
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  clade_shape first = corner(c, FIRST), second = corner(c, SECOND);
  if (c->i[KIND] == CONCAT) {
    out[0] = clade_concat(g, c->n_in, in, c->i[AXIS] - (c->number % 2 ? c->in[0].shape.rank : 0));
  } else if (c->i[KIND] == PAD) {
    out[0] = clade_pad(g, in[0], first, second, c->i[VALUE]);
  } else {
    for (int i = 0; i < first.rank; i++) /* by name, if it is the remainder */
      if (first.dim[i] + second.dim[i] == c->in[0].shape.dim[i] && i % 2 == 0) second.dim[i] = CLADE_DIM_REST;
    out[0] = clade_slice(g, in[0], first, second);
  }
}

/* Operand and index of the element at the result's `index`; -1: padding. */
static int64_t source(const op_case *c, const op_array *in, const int64_t *index, int *operand) {
  int64_t at = 0, along = index[c->i[AXIS]];
  *operand = 0;
  while (c->i[KIND] == CONCAT && along >= in[*operand].shape.dim[c->i[AXIS]])
    along -= in[(*operand)++].shape.dim[c->i[AXIS]];
  const clade_shape *x = &in[*operand].shape;
  for (int i = 0; i < x->rank; i++) {
    int64_t k = c->i[KIND] == CONCAT  ? (i == c->i[AXIS] ? along : index[i])
                : c->i[KIND] == SLICE ? index[i] + c->i[FIRST + i]
                                      : index[i] - c->i[FIRST + i];
    if (k < 0 || k >= x->dim[i]) return -1;
    at = at * x->dim[i] + k;
  }
  return at;
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  clade_shape y = in->shape;
  for (int i = 0; i < y.rank && c->i[KIND] != CONCAT; i++)
    y.dim[i] = c->i[KIND] == SLICE ? c->i[SECOND + i] : y.dim[i] + c->i[FIRST + i] + c->i[SECOND + i];
  for (int k = 1; k < c->n_in; k++) y.dim[c->i[AXIS]] += in[k].shape.dim[c->i[AXIS]];
  op_result(out, c->dtype, y);
  for (int64_t o = 0; o < out->n; o++) {
    int64_t index[CLADE_MAX_RANK];
    int operand;
    op_unravel(&y, o, index);
    int64_t at = source(c, in, index, &operand);
    out->v[o] = at < 0 ? c->i[VALUE] : in[operand].v[at];
  }
}

const op_test op_test_frame = {"frame", op_all_types, draw, build, reference, NULL, 0, NULL};
