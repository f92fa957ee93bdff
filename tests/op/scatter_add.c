/* scatter_add along any axis, to a table or to zeros, with repeated and invalid indices. A third of the cases have
 * whole vectors and few distinct indices, which take a separate path in the kernel, with -0, infinities and NaN. */
#include <clade/ops.h>

#include <math.h>
#include <stdio.h>

#include "op/move/gather.h"
#include "op_test.h"

enum { RANK, AXIS, DIMS };

static clade_shape table_of(const op_case *c) {
  clade_shape s = {.rank = c->i[RANK]};
  for (int i = 0; i < s.rank; i++) s.dim[i] = c->i[DIMS + i];
  return s;
}

static bool few_keys(const op_case *c) { return c->number % 3 == 1 && !c->gradient; }

static void draw(op_case *c, op_random *r) {
  clade_shape table = op_draw_shape(r, c, 1, 3, c->gradient ? 40 : 1500), updates = {0};
  clade_shape ids = op_draw_shape(r, c, 0, 3, c->gradient ? 12 : 90);
  int axis = op_chance(r, 0.5) ? 0 : (int)op_integer(r, 0, table.rank - 1);
  c->n_in = c->gradient || op_chance(r, 0.5) ? 3 : 2;
  if (few_keys(c)) {
    table = CLADE_SHAPE(op_integer(r, 1, 2), op_integer(r, 3, c->small ? 8 : 100), 16 * op_integer(r, 1, 2));
    ids = CLADE_SHAPE(op_integer(r, 110, c->small ? 140 : 300)); /* the last hundred take the other path */
    axis = 1;
    c->n_in = 2;
  } else if (!c->small && !c->gradient && op_chance(r, 0.2)) { /* more than a few runs to merge */
    ids = CLADE_SHAPE(op_integer(r, 100, 900));
    table = CLADE_SHAPE(op_integer(r, 1, 300), op_integer(r, 1, 20));
    axis = (int)op_integer(r, 0, 1);
  }
  c->i[RANK] = table.rank;
  c->i[AXIS] = axis;
  for (int i = 0; i < table.rank; i++) {
    c->i[DIMS + i] = (int)table.dim[i];
    if (i != c->i[AXIS]) updates.dim[updates.rank++] = table.dim[i];
    for (int k = 0; i == c->i[AXIS] && k < ids.rank; k++) updates.dim[updates.rank++] = ids.dim[k];
  }
  c->in[0] = (op_input){.dtype = c->dtype, .shape = updates, .low = -2, .high = 3};
  c->in[1] = (op_input){.dtype = CLADE_I32, .shape = ids};
  c->in[2] = (op_input){.dtype = c->dtype, .shape = table, .low = -2, .high = 3};
  snprintf(c->note, sizeof c->note, "%d rows along axis %d", c->i[DIMS + c->i[AXIS]], c->i[AXIS]);
}

static void fill(const op_case *c, op_random *r, op_array *in) {
  int rows = c->i[DIMS + c->i[AXIS]], few = op_chance(r, 0.3) ? 2 : rows;
  double none = 0.1;
  if (few_keys(c)) few = rows, none = CLADE_MAX(none, 1 - 1.5 * rows / (double)in[1].n);
  for (int64_t i = 0; i < in[1].n; i++) {
    in[1].v[i] = (double)op_integer(r, 0, few ? few - 1 : 0);
    if (op_chance(r, none)) in[1].v[i] = op_chance(r, 0.5) ? rows : op_chance(r, 0.5) ? -1 : INT32_MIN;
  }
  for (int64_t i = 0; c->n_in == 3 && !c->gradient && i < in[2].n; i++)
    if (op_chance(r, 0.3)) in[2].v[i] = -0.0;
  for (int64_t i = 0; few_keys(c) && i < in->n; i++) {
    if (op_chance(r, 0.4)) in->v[i] = -0.0;
    if (op_chance(r, 0.02)) in->v[i] = op_chance(r, 0.3) ? NAN : op_chance(r, 0.5) ? INFINITY : -INFINITY;
  }
}

/* Without a table, the node only occurs as the gradient of gather. */
static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  clade__scatter_attrs a;
  memset(&a, 0, sizeof a);
  a.shape = table_of(c);
  a.axis = c->i[AXIS];
  if (c->n_in == 2)
    out[0] = clade_node_add(g, &clade__op_scatter_add, NULL, &a, 2, in, NULL);
  else
    out[0] = clade_scatter_add(g, in[2], in[1], in[0], .axis = c->i[AXIS] - (c->number % 2 ? 0 : c->i[RANK]));
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  clade_shape table = table_of(c);
  int64_t width = 1, rows = table.dim[c->i[AXIS]], count = in[1].n;
  for (int i = c->i[AXIS] + 1; i < table.rank; i++) width *= table.dim[i];
  op_result(out, c->dtype, table);
  out->signs = true; /* no sum is -0; rows of the table without an index keep theirs */
  for (int64_t i = 0; c->n_in == 3 && i < out->n; i++) {
    out->v[i] = in[2].v[i];
    out->bound[i] = 0x1p-22 * fabs(in[2].v[i]);
  }
  for (int64_t i = 0; i < in->n; i++) {
    double id = in[1].v[i / width % count];
    if (id < 0 || id >= (double)rows) continue;
    int64_t to = (i / width / count * rows + (int64_t)id) * width + i % width;
    out->v[to] += in->v[i] + 0.0;
    if (isfinite(in->v[i])) out->bound[to] += 0x1p-22 * fabs(in->v[i]);
  }
}

const op_test op_test_scatter_add = {"scatter_add", op_computed_floats, draw, build, reference, fill, 0, NULL};
