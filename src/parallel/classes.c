/* Cross-entropy with the classes distributed over ranks. From each rank's maximum m of its slice of a row, and its
 * sum s of exp(x - m), which are gathered,
 *
 *     top = max m        norm = log(sum of s exp(m - top))        loss = norm + sum of target (top - x)
 *
 * where the last sum is over all classes of all ranks. Labels of other ranks' classes contribute 0. */
#include <math.h>

#include <clade/nn.h>
#include <clade/ops.h>

#include "comm/parts.h"
#include "comm/wire.h"
#include "op/loss/cross_entropy.h"
#include "parallel/tensor.h"

typedef struct builder {
  clade_graph *g;
  const clade__tensor_how *how;
  const clade__some_classes *c;
  const clade__cross_entropy_attrs *attrs;
  clade_shape rows, row; /* shape of the labels; with a last axis of 1 */
  int64_t own;           /* number of own classes */
} builder;

static clade_val number(const builder *b, double value) { return clade_fill(b->g, CLADE_F32, CLADE_SCALAR, value); }
static clade_val whole_number(const builder *b, double value) {
  return clade_fill(b->g, CLADE_I32, CLADE_SCALAR, value);
}

static clade_val over_last(const builder *b, clade_val x, bool largest) {
  const clade_reduce_opt opt = {.size = sizeof opt, .x = x, .n_axes = 1, .axes = {-1}, .keep = true};
  return largest ? clade_reduce_max_(b->g, &opt) : clade_sum_(b->g, &opt);
}

/* Gathers a [rows, 1] value of each rank. */
static clade_val from_all(const builder *b, clade_val x) {
  int64_t cuts[CLADE__MOST_PARTS + 1];
  for (int i = 0; i <= clade_comm_size(b->how->comm); i++) cuts[i] = i;
  return clade__comm_join(b->g, b->how->comm, CLADE_F32, x, b->rows.rank, cuts, false);
}

/* This rank's part of the sum of target (top - x). */
static clade_val distance(const builder *b, clade_val x, clade_val top) {
  clade_graph *g = b->g;
  int32_t *numbers = clade__new((size_t)b->own, sizeof *numbers);
  if (!numbers) return clade__graph_fail(g, CLADE_NO_MEMORY, NULL);
  for (int64_t i = 0; i < b->own; i++) numbers[i] = (int32_t)(b->c->begin + i);
  const clade_val classes = clade_constant(g, CLADE_I32, CLADE_SHAPE(b->own), numbers);
  clade__free(numbers);
  const clade_val off = clade_sub(g, top, x), hit = clade_eq(g, classes, clade_reshape(g, b->c->labels, b->row));
  const double smoothing = (double)b->attrs->smoothing;
  clade_val sum = clade_mul(g, over_last(b, clade_select(g, hit, off, number(b, 0)), false), number(b, 1 - smoothing));
  if (smoothing > 0)
    sum = clade_add(g, sum, clade_mul(g, over_last(b, off, false), number(b, smoothing / (double)b->c->classes)));
  return sum;
}

/* NaN for labels outside of all classes, 0 for ignored ones. */
static clade_val judged(const builder *b, clade_val loss) {
  clade_graph *g = b->g;
  const clade_val labels = b->c->labels;
  const clade_val named = clade_logical_and(g, clade_ge(g, labels, whole_number(b, 0)),
                                            clade_lt(g, labels, whole_number(b, (double)b->c->classes)));
  loss = clade_mul(g, loss, clade_select(g, named, number(b, 1), number(b, NAN)));
  if (!b->attrs->ignore) return loss;
  return clade_select(g, clade_eq(g, labels, whole_number(b, b->attrs->ignore_index)), number(b, 0), loss);
}

static clade_val mean(const builder *b, clade_val loss) {
  clade_graph *g = b->g;
  if (!b->attrs->ignore) return clade_mean(g, loss);
  const clade_val counts = clade_ne(g, b->c->labels, whole_number(b, b->attrs->ignore_index));
  return clade_div(g, clade_sum(g, loss), clade_sum(g, clade_cast(g, counts, CLADE_F32)));
}

clade_status clade__classes_loss(clade_graph *g, const clade__tensor_how *how, const clade__some_classes *c,
                                 clade_val *loss) {
  clade_type logits, labels;
  CLADE_TRY(clade_val_type(g, c->logits, &logits));
  CLADE_TRY(clade_val_type(g, c->labels, &labels));
  builder b = {g, how, c, c->attrs, labels.shape, labels.shape, logits.shape.dim[labels.shape.rank]};
  b.row.dim[b.row.rank++] = 1;
  const clade_val x = clade_cast(g, c->logits, CLADE_F32);
  const clade_val m = clade_stop_gradient(g, over_last(&b, x, true));
  const clade_val s = over_last(&b, clade_exp(g, clade_sub(g, x, m)), false);
  const clade_val ms = from_all(&b, m), ss = from_all(&b, s);
  const clade_val top = clade_stop_gradient(g, over_last(&b, ms, true));
  const clade_val norm = clade_log(g, over_last(&b, clade_mul(g, ss, clade_exp(g, clade_sub(g, ms, top))), false));
  const clade_val off = clade__comm_sum(g, how->comm, CLADE_F32, distance(&b, x, top));
  const clade_val each = judged(&b, clade_reshape(g, clade_add(g, norm, off), b.rows));
  *loss = b.attrs->per_sample ? each : mean(&b, each);
  return clade_graph_status(g);
}
