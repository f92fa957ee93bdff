/* Shapes of broadcast operands, and the gradient of broadcasting. */
#include <clade/ops.h>

#include "op/op.h"

clade_status clade__broadcast_shape(const char *what, const clade_shape *a, const clade_shape *b, clade_shape *out) {
  clade_shape result = {.rank = CLADE_MAX(a->rank, b->rank)};
  if (result.rank > CLADE_MAX_RANK)
    return CLADE_FAIL(BAD_SHAPE, "%s: an operand has more than %d dimensions", what, CLADE_MAX_RANK);
  for (int i = 1; i <= result.rank; i++) {
    clade_dim x = i <= a->rank ? a->dim[a->rank - i] : 1, y = i <= b->rank ? b->dim[b->rank - i] : 1;
    if (x != y && x != 1 && y != 1) {
      char text[2][256];
      return CLADE_FAIL(
          BAD_SHAPE, "%s: %s and %s do not broadcast: they differ in dimension %d, and neither is 1 there", what,
          clade_shape_text(a, text[0], sizeof text[0]), clade_shape_text(b, text[1], sizeof text[1]), result.rank - i);
    }
    result.dim[result.rank - i] = x == 1 ? y : x;
  }
  *out = result;
  return CLADE_OK;
}

clade_val clade__sum_to(clade_graph *g, clade_val dy, const clade_shape *shape) {
  clade_type type;
  clade_reduce_opt opt = {.size = sizeof opt, .x = dy, .keep = true};
  bool lost = false;
  if (!clade__graph_ok(g)) return (clade_val){0};
  clade_status status = clade_val_type(g, dy, &type);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  int front = type.shape.rank - shape->rank;
  for (int i = 0; i < type.shape.rank; i++) {
    clade_dim to = i < front ? 1 : shape->dim[i - front];
    lost |= i < front;
    if (type.shape.dim[i] != to) opt.axes[opt.n_axes++] = i; /* to a size of 1 */
  }
  clade_val sum = opt.n_axes ? clade_sum_(g, &opt) : dy;
  return lost ? clade_reshape(g, sum, *shape) : sum;
}
