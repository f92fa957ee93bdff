/* Reshape and flatten: the same elements under another shape, without a copy. */
#include <clade/ops.h>

#include "ir/dimensions.h"
#include "ir/ties.h"
#include "op/dims.h"
#include "op/move/view.h"

typedef struct attrs {
  clade_shape shape; /* one dimension may be CLADE_DIM_REST */
} attrs;
static const clade_attr table[] = {{"shape", CLADE_ATTR_SHAPE, offsetof(attrs, shape), 1}, {0}};

/* A product of sizes, as a number and a sorted list of symbols, so that equal products compare equal. */
enum { MAX_SYMBOLS = 32 };
typedef struct product {
  int64_t number;
  int n;
  clade_dim symbol[MAX_SYMBOLS];
} product;

static bool multiply_dim(product *p, clade_dim d) {
  clade_dim a, b;
  char op = 0;
  if (!clade_dim_is_symbol(d)) return !__builtin_mul_overflow(p->number, d, &p->number);
  if (clade__dim_parts(d, &op, &a, &b) && op == '*') return multiply_dim(p, a) && multiply_dim(p, b);
  if (p->n < MAX_SYMBOLS) p->symbol[p->n++] = d;
  return p->n < MAX_SYMBOLS;
}

static clade_status multiply(product *p, const clade_shape *shape) {
  *p = (product){.number = 1};
  for (int i = 0; i < shape->rank; i++)
    if (shape->dim[i] != CLADE_DIM_REST && !multiply_dim(p, shape->dim[i]))
      return CLADE_FAIL(OVERFLOW, "reshape: the shape has more elements than can be counted");
  return CLADE_OK;
}

static void cancel(product *a, product *b) {
  for (int i = 0; i < a->n;) {
    int j = 0;
    while (j < b->n && b->symbol[j] != a->symbol[i]) j++;
    if (j == b->n) {
      i++;
    } else {
      a->symbol[i] = a->symbol[--a->n];
      b->symbol[j] = b->symbol[--b->n];
    }
  }
}

static clade_dim dim_of(const product *p) {
  clade_dim d = p->number;
  for (int i = 0; i < p->n; i++) d = clade_dim_mul(d, p->symbol[i]);
  return d;
}

static clade_status mismatch(const clade_shape *from, const clade_shape *to) {
  char a[200], b[200];
  for (int i = 0; i < to->rank; i++)
    if (to->dim[i] == CLADE_DIM_REST)
      return CLADE_FAIL(BAD_SHAPE,
                        "reshape: x is %s; dimension %d of the new shape (CLADE_DIM_REST) is not a whole number",
                        clade_shape_text(from, a, sizeof a), i);
  return CLADE_FAIL(BAD_SHAPE, "reshape: x is %s and cannot become %s: the numbers of elements differ",
                    clade_shape_text(from, a, sizeof a), clade_shape_text(to, b, sizeof b));
}

/* The size that replaces CLADE_DIM_REST. */
static clade_status rest(const product *have, const product *given, clade_dim *out) {
  if (given->number == 0)
    return CLADE_FAIL(BAD_SHAPE, "reshape: CLADE_DIM_REST beside a dimension of 0 could be any size: give the size");
  bool whole = have->n || given->n || have->number % given->number == 0;
  if (given->n == 0 && given->number && have->number % given->number == 0) {
    product left = *have;
    left.number /= given->number;
    *out = dim_of(&left);
  } else {
    *out = whole ? clade_dim_div(dim_of(have), dim_of(given)) : CLADE_DIM_ERROR;
  }
  return CLADE_OK;
}

static clade_status infer(clade_node *n) {
  const attrs *at = n->attrs;
  clade_shape shape = at->shape;
  const clade_shape *from = &n->in[0].shape;
  int open = -1;
  CLADE_TRY(clade__want_dense(n));
  if (shape.rank < 0 || shape.rank > CLADE_MAX_RANK)
    return CLADE_FAIL(BAD_SHAPE, "reshape: the new shape has more than %d dimensions", CLADE_MAX_RANK);
  for (int i = 0; i < shape.rank; i++) {
    clade_dim d = shape.dim[i];
    if (d == CLADE_DIM_REST) {
      if (open >= 0)
        return CLADE_FAIL(BAD_SHAPE, "reshape: dimensions %d and %d of the new shape are CLADE_DIM_REST; one may be",
                          open, i);
      open = i;
    } else if (d < 0 && !clade_dim_is_symbol(d)) {
      return CLADE_FAIL(BAD_SHAPE, "reshape: dimension %d of the new shape is negative or no size", i);
    }
  }
  product have, want;
  CLADE_TRY(multiply(&have, from));
  CLADE_TRY(multiply(&want, &shape));
  bool known = !have.n && !want.n;
  cancel(&have, &want);
  if (open >= 0) {
    CLADE_TRY(rest(&have, &want, &shape.dim[open]));
    if (shape.dim[open] == CLADE_DIM_ERROR) {
      shape.dim[open] = CLADE_DIM_REST;
      return mismatch(from, &shape);
    }
  } else if (have.number != want.number && (known || (!have.n && !want.n && have.number && want.number))) {
    return mismatch(from, &at->shape);
  }
  /* symbols that do not cancel are checked when they have values, since infer runs again then */
  n->out[0] = (clade_type){.dtype = n->in[0].dtype, .shape = shape};
  return CLADE_OK;
}

static clade_status grad(clade_grad *g) {
  g->din[0] = clade_reshape(g->graph, g->dout[0], g->node->in[0].shape);
  return CLADE_OK;
}

/* Axes of the operand and of the result, beginning at *from and *to, with the same number of elements; axes of size 1
 * are skipped. */
typedef struct run {
  int n_in, n_out, in[CLADE_MAX_RANK], out[CLADE_MAX_RANK];
} run;

static void note_axis(int *list, int *n, const clade_shape *shape, int axis) {
  if (shape->dim[axis] != 1) list[(*n)++] = axis;
}

static void next_run(const clade_shape *x, const clade_shape *y, int *from, int *to, run *r) {
  *r = (run){.n_in = 0};
  int64_t have = 1, want = 1;
  do {
    const bool behind = (have <= want && *from < x->rank) || *to == y->rank;
    const clade_shape *shape = behind ? x : y;
    int *axis = behind ? from : to;
    *(behind ? &have : &want) *= shape->dim[*axis];
    note_axis(behind ? r->in : r->out, behind ? &r->n_in : &r->n_out, shape, (*axis)++);
  } while (have != want);
}

/* Several axes become one: pruning the outermost one that may be pruned removes evenly spaced parts of the merged axis.
 */
static void tie_merged(clade_ties *t, const clade_shape *x, const run *r) {
  int at = -1;
  int64_t inner = 1, outer = 1;
  for (int i = 0; i < r->n_in; i++) {
    if (at < 0 && !clade_axis_kept(t, 0, r->in[i]))
      at = i;
    else if (at < 0)
      outer *= x->dim[r->in[i]];
    else
      inner *= x->dim[r->in[i]];
  }
  for (int i = 0; i < r->n_in; i++)
    if (i != at) clade_keep_axis(t, 0, r->in[i]);
  if (at < 0) {
    clade_keep_axis(t, 1, r->out[0]);
    return;
  }
  const int64_t channels = x->dim[r->in[at]];
  for (int64_t i = 0; i < outer * channels * inner; i++)
    clade_tie(t, 0, r->in[at], i / inner % channels, 1, r->out[0], i, 1);
}

/* An axis that is split cannot be pruned, since the sizes of the parts are attributes. */
static void ties(clade_ties *t, const clade_node *n) {
  const clade_shape *x = &n->in[0].shape, *y = &n->out[0].shape;
  for (int from = 0, to = 0; clade__product(x, 0, x->rank) && (from < x->rank || to < y->rank);) {
    run r;
    next_run(x, y, &from, &to, &r);
    if (r.n_out == 1 && r.n_in == 1) clade_tie_axes(t, 0, r.in[0], 1, r.out[0]);
    if (r.n_out == 1 && r.n_in > 1) tie_merged(t, x, &r);
    for (int i = 0; r.n_out > 1 && i < r.n_in; i++) clade_keep_axis(t, 0, r.in[i]);
    for (int i = 0; r.n_out > 1 && i < r.n_out; i++) clade_keep_axis(t, 1, r.out[i]);
  }
}

/* Of axes that are split or merged together, the outermost one can be split over ranks: each index is a block of all
 * that follows. */
static void dims(clade_dims *d, const clade_node *n) {
  const clade_shape *x = &n->in[0].shape, *y = &n->out[0].shape;
  for (int from = 0, to = 0; clade__product(x, 0, x->rank) && (from < x->rank || to < y->rank);) {
    run r;
    next_run(x, y, &from, &to, &r);
    if (!r.n_in || !r.n_out) continue;
    const int64_t a = x->dim[r.in[0]], b = y->dim[r.out[0]], blocks = clade__divisor(a, b);
    const int dim = clade_dims_add(d, CLADE_DIM_EACH);
    clade_dims_along(d, dim, 0, r.in[0], a / blocks);
    clade_dims_along(d, dim, 1, r.out[0], b / blocks);
    clade__dims_length(d, dim, offsetof(attrs, shape.dim) + (size_t)r.out[0] * sizeof(clade_dim), b / blocks);
  }
}

/* A view is possible if each run of contiguous axes is divided into whole new axes. */
bool clade__reshape_view(const clade_node *n, clade__view *v) {
  const clade_shape *to = &n->out[0].shape;
  int i = clade__collapse(v->shape.rank, v->shape.dim, 1, (int64_t(*const[])[CLADE_MAX_RANK]){&v->stride}) - 1;
  int64_t left = v->shape.dim[i], step = v->stride[i];
  clade__view out = {.shape = *to, .offset = v->offset};
  for (int k = to->rank - 1; k >= 0; k--) {
    if (left == 1 && i > 0 && to->dim[k] != 1) left = v->shape.dim[--i], step = v->stride[i];
    if (to->dim[k] == 0 || left % to->dim[k]) return false;
    out.stride[k] = step;
    step *= to->dim[k];
    left /= to->dim[k];
  }
  *v = out;
  return true;
}

const clade_op clade__op_reshape = {
    .size = sizeof(clade_op),
    .name = "reshape",
    .flags = CLADE_OP_VIEW,
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attr_bytes = sizeof(attrs),
    .attrs = table,
    .infer = infer,
    .grad = grad,
    .ties = ties,
    .autocast = CLADE_AUTOCAST_CARRY,
    .dims = dims,
};

clade_val clade_reshape(clade_graph *g, clade_val x, clade_shape shape) {
  attrs a;
  memset(&a, 0, sizeof a);
  a.shape.rank = shape.rank;
  for (int i = 0; i < shape.rank && i < CLADE_MAX_RANK; i++) a.shape.dim[i] = shape.dim[i];
  return clade_node_add(g, &clade__op_reshape, NULL, &a, 1, &x, NULL);
}

clade_val clade_flatten(clade_graph *g, clade_val x, int axis) {
  clade_type type;
  clade_status status = clade_val_type(g, x, &type);
  if (status == CLADE_OK && (axis < -type.shape.rank || axis > type.shape.rank))
    status = CLADE_FAIL(INVALID, "axis %d is out of range for a value of rank %d", axis, type.shape.rank);
  if (status != CLADE_OK) return clade__graph_fail(g, status, "flatten");
  if (axis < 0) axis += type.shape.rank;
  clade_dim before = 1, after = 1;
  for (int i = 0; i < type.shape.rank; i++)
    if (i < axis)
      before = clade_dim_mul(before, type.shape.dim[i]);
    else
      after = clade_dim_mul(after, type.shape.dim[i]);
  return clade_reshape(g, x, CLADE_SHAPE(before, after));
}
