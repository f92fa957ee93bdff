/* Losses composed of other ops: the mean of an elementwise function in f32. */
#include <math.h>

#include <clade/nn.h>

#include "op/dims.h"

static clade_status check(const clade_graph *g, const char *name, const char *of, clade_val a, clade_val b) {
  const clade_val v[] = {a, b};
  const char *const called[] = {of, "target"};
  clade_type type[2];
  char text[2][200];
  for (int i = 0; i < 2; i++) {
    clade_status status = clade_val_type(g, v[i], &type[i]);
    if (status != CLADE_OK) return clade__fail_in(status, "%s: %s", name, called[i]);
    CLADE_TRY(clade__want_float_type(name, called[i], type[i].dtype));
  }
  if (clade_shape_equal(&type[0].shape, &type[1].shape)) return CLADE_OK;
  return CLADE_FAIL(BAD_SHAPE, "%s: %s is %s and target is %s; expected the same shape", name, of,
                    clade_shape_text(&type[0].shape, text[0], sizeof text[0]),
                    clade_shape_text(&type[1].shape, text[1], sizeof text[1]));
}

/* The mean of outer(inner(a, b)). */
static clade_val mean_of(clade_graph *g, const char *name, const char *of, clade_val a, clade_val b, const char *inner,
                         const char *outer) {
  if (!clade__graph_ok(g)) return (clade_val){0};
  clade_status status = check(g, name, of, a, b);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  clade_val in[] = {clade__wide(g, a), clade__wide(g, b)};
  clade_val each = clade_eltwise(g, inner, 2, in, 0, NULL);
  if (outer) each = clade_eltwise(g, outer, 1, &each, 0, NULL);
  return clade_mean(g, each);
}

clade_val clade_mse(clade_graph *g, clade_val x, clade_val target) {
  return mean_of(g, "mse", "x", x, target, "sub", "square");
}
clade_val clade_l1(clade_graph *g, clade_val x, clade_val target) {
  return mean_of(g, "l1", "x", x, target, "sub", "abs");
}
clade_val clade_binary_cross_entropy(clade_graph *g, clade_val logits, clade_val target) {
  return mean_of(g, "binary_cross_entropy", "logits", logits, target, "bce", NULL);
}

/* ---- added losses ---- */
static clade_val weighted(clade_graph *g, clade_val loss, double weight) {
  clade_type type;
  char text[640];
  clade_status status = clade_val_type(g, loss, &type);
  if (status == CLADE_OK && (type.dtype != CLADE_F32 || type.shape.rank))
    status =
        CLADE_FAIL(BAD_SHAPE, "the loss is %s; expected a scalar of f32", clade__type_text(&type, text, sizeof text));
  if (status == CLADE_OK && !isfinite(weight)) status = CLADE_FAIL(INVALID, "the weight is %g", weight);
  if (status != CLADE_OK) return clade__graph_fail(g, status, "clade_graph_add_loss");
  return clade_mul(g, loss, clade_fill(g, CLADE_F32, CLADE_SCALAR, weight));
}

void clade_graph_add_loss(clade_graph *g, clade_val loss, double weight) {
  if (!clade__graph_ok(g) || !g->trains) return;
  const clade_val own = weighted(g, loss, weight), before = clade__graph_val(g, g->added_loss);
  g->added_loss = (g->added_loss ? clade_add(g, before, own) : own).id;
}

clade_val clade_graph_added_loss(clade_graph *g) {
  const clade_val sum = clade__graph_ok(g) ? clade__graph_val(g, g->added_loss) : (clade_val){0};
  if (g) g->added_loss = 0;
  return sum;
}
