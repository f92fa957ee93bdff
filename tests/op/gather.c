/* gather: rows by index along any axis, with some indices out of range. */
#include <clade/ops.h>

#include <stdio.h>

#include "op_test.h"

static void draw(op_case *c, op_random *r) {
  c->n_in = 2;
  c->in[0] = (op_input){.dtype = c->dtype, .shape = op_draw_shape(r, c, 1, 3, c->gradient ? 40 : 2000)};
  c->i[0] = op_chance(r, 0.5) ? 0 : (int)op_integer(r, 0, c->in[0].shape.rank - 1);
  snprintf(c->note, sizeof c->note, "axis %d", c->i[0]);
  c->in[1] = (op_input){.dtype = CLADE_I32, .shape = op_draw_shape(r, c, 0, 3, c->gradient ? 12 : 60)};
  if (strcmp(c->impl, "columns") == 0 && !c->gradient) { /* of many tables */
    c->in[0].shape = CLADE_SHAPE(op_integer(r, 16, c->small ? 17 : 60), op_integer(r, 1, c->small ? 18 : 300));
    bool parts = !c->small && op_chance(r, 0.2); /* more than are gathered at once */
    c->in[1].shape = CLADE_SHAPE(parts ? op_integer(r, 4090, 8200) : op_integer(r, 16, c->small ? 18 : 90));
    c->i[0] = 1;
    snprintf(c->note, sizeof c->note, "axis 1");
  }
}

static void fill(const op_case *c, op_random *r, op_array *in) {
  int64_t rows = c->in[0].shape.dim[c->i[0]];
  bool all = op_chance(r, 0.3); /* no index is out of range */
  for (int64_t i = 0; i < in[1].n; i++) {
    in[1].v[i] = (double)(rows ? op_integer(r, 0, rows - 1) : 0);
    if (!(all && rows) && op_chance(r, 0.1))
      in[1].v[i] = (double)(op_chance(r, 0.5) ? rows : op_chance(r, 0.5) ? -1 : INT32_MIN);
  }
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  if (c->i[0] == 0 && c->number % 2)
    out[0] = clade_gather(g, in[0], in[1]);
  else
    out[0] = clade_gather(g, in[0], in[1], .axis = c->i[0] - (c->number % 3 ? 0 : c->in[0].shape.rank));
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  clade_shape y = {0};
  const clade_shape *x = &in->shape;
  int64_t width = 1, rows = x->dim[c->i[0]], count = in[1].n;
  for (int i = 0; i < c->i[0]; i++) y.dim[y.rank++] = x->dim[i];
  for (int i = 0; i < in[1].shape.rank; i++) y.dim[y.rank++] = in[1].shape.dim[i];
  for (int i = c->i[0] + 1; i < x->rank; i++) y.dim[y.rank++] = x->dim[i], width *= x->dim[i];
  op_result(out, c->dtype, y);
  for (int64_t i = 0; i < out->n; i++) {
    double id = in[1].v[i / width % count];
    int64_t block = i / width / count;
    if (id >= 0 && id < (double)rows) out->v[i] = in->v[(block * rows + (int64_t)id) * width + i % width];
  }
}

const op_test op_test_gather = {"gather", op_all_types, draw, build, reference, fill, 0, NULL};
