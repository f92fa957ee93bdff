/* Sums for the rows of a table: numbers that come often, or name no row. */
#include <math.h>
#include <stdio.h>

#include "op/gather.h"
#include "op_test.h"

static const clade_dtype dtypes[] = {CLADE_F32, CLADE_F16, CLADE_BF16, CLADE_DTYPE_NONE};
enum { RANK, DIMS };

static clade_shape table_of(const op_case *c) {
  clade_shape s = {.rank = c->i[RANK]};
  for (int i = 0; i < s.rank; i++) s.dim[i] = c->i[DIMS + i];
  return s;
}

static void draw(op_case *c, op_random *r) {
  clade_shape table = op_draw_shape(r, c, 1, 3, 1500), ids = op_draw_shape(r, c, 0, 3, 90), dy;
  if (!c->small && op_chance(r, 0.2)) { /* more than a few runs to merge */
    ids = CLADE_SHAPE(op_integer(r, 100, 900));
    table = CLADE_SHAPE(op_integer(r, 1, 300), op_integer(r, 1, 20));
  }
  dy = ids;
  for (int i = 1; i < table.rank; i++) dy.dim[dy.rank++] = table.dim[i];
  c->i[RANK] = table.rank;
  for (int i = 0; i < table.rank; i++) c->i[DIMS + i] = (int)table.dim[i];
  c->n_in = 2;
  c->in[0] = (op_input){.dtype = c->dtype, .shape = dy, .low = -2, .high = 3};
  c->in[1] = (op_input){.dtype = CLADE_I32, .shape = ids};
  snprintf(c->note, sizeof c->note, "%d rows", c->i[DIMS]);
}

static void fill(const op_case *c, op_random *r, op_array *in) {
  int rows = c->i[DIMS], few = op_chance(r, 0.3) ? 2 : rows;
  for (int64_t i = 0; i < in[1].n; i++) {
    in[1].v[i] = (double)op_integer(r, 0, few ? few - 1 : 0);
    if (op_chance(r, 0.1)) in[1].v[i] = op_chance(r, 0.5) ? rows : op_chance(r, 0.5) ? -1 : INT32_MIN;
  }
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  clade__gather_grad_attrs a;
  memset(&a, 0, sizeof a);
  a.shape = table_of(c);
  out[0] = clade_node_add(g, &clade__op_gather_grad, NULL, &a, 2, in, NULL);
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  clade_shape table = table_of(c);
  int64_t width = 1;
  for (int i = 1; i < table.rank; i++) width *= table.dim[i];
  op_result(out, c->dtype, table);
  for (int64_t i = 0; i < in->n; i++) {
    double id = in[1].v[i / width];
    if (id < 0 || id >= (double)table.dim[0]) continue;
    out->v[(int64_t)id * width + i % width] += in->v[i];
    out->bound[(int64_t)id * width + i % width] += 0x1p-22 * fabs(in->v[i]);
  }
}

const op_test op_test_gather_grad = {"gather_grad", dtypes, draw, build, reference, fill, 0};
