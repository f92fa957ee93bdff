/* Rows by number, some of which name none. */
#include <clade/ops.h>

#include <stdio.h>

#include "op_test.h"

static const clade_dtype dtypes[] = {CLADE_F32, CLADE_F16, CLADE_BF16, CLADE_I8,        CLADE_U8,
                                     CLADE_I32, CLADE_I64, CLADE_BOOL, CLADE_DTYPE_NONE};

static void draw(op_case *c, op_random *r) {
  c->n_in = 2;
  c->in[0] = (op_input){.dtype = c->dtype, .shape = op_draw_shape(r, c, 1, 3, c->gradient ? 40 : 2000)};
  c->in[1] = (op_input){.dtype = CLADE_I32, .shape = op_draw_shape(r, c, 0, 3, c->gradient ? 12 : 60)};
}

static void fill(const op_case *c, op_random *r, op_array *in) {
  int64_t rows = c->in[0].shape.dim[0];
  for (int64_t i = 0; i < in[1].n; i++) {
    in[1].v[i] = (double)(rows ? op_integer(r, 0, rows - 1) : 0);
    if (op_chance(r, 0.1)) in[1].v[i] = (double)(op_chance(r, 0.5) ? rows : op_chance(r, 0.5) ? -1 : INT32_MIN);
  }
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  (void)c;
  out[0] = clade_gather(g, in[0], in[1]);
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  clade_shape y = in[1].shape;
  int64_t width = 1;
  for (int i = 1; i < in->shape.rank; i++) y.dim[y.rank++] = in->shape.dim[i], width *= in->shape.dim[i];
  op_result(out, c->dtype, y);
  for (int64_t i = 0; i < out->n; i++) {
    double id = in[1].v[i / width];
    if (id >= 0 && id < (double)in->shape.dim[0]) out->v[i] = in->v[(int64_t)id * width + i % width];
  }
}

const op_test op_test_gather = {"gather", dtypes, draw, build, reference, fill, 0};
