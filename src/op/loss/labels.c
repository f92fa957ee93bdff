/* Checks of logits and labels that several ops share. */
#include "op/loss/cross_entropy.h"

#include <inttypes.h>

clade_status clade__want_labels(const clade_node *n, clade_shape *rows) {
  const clade_shape *x = &n->in[0].shape, *labels = &n->in[1].shape;
  char a[200], b[200];
  CLADE_TRY(clade__want_float(n, 0, "logits"));
  if (x->rank < 1) return CLADE_FAIL(BAD_SHAPE, "%s: logits are a scalar; expected [..., classes]", n->op->name);
  if (n->in[1].dtype != CLADE_I32)
    return CLADE_FAIL(DTYPE, "%s: labels are %s; expected i32", n->op->name, clade_dtype_name(n->in[1].dtype));
  *rows = *x;
  clade_dim classes = rows->dim[--rows->rank];
  rows->dim[rows->rank] = 0;
  if (classes == 0) return CLADE_FAIL(BAD_SHAPE, "%s: the last dimension of logits is 0: no classes", n->op->name);
  if (!clade_dim_is_symbol(classes) && classes > INT32_MAX)
    return CLADE_FAIL(BAD_SHAPE, "%s: %" PRId64 " classes, which an i32 does not count", n->op->name, classes);
  if (clade_shape_equal(rows, labels)) return CLADE_OK;
  return CLADE_FAIL(BAD_SHAPE, "%s: logits are %s, labels %s; expected those of logits without the last dimension",
                    n->op->name, clade_shape_text(x, a, sizeof a), clade_shape_text(labels, b, sizeof b));
}
