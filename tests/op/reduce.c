/* Sum, mean, maximum and minimum over random axes, including long ones. */
#include <clade/ops.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "op/reduce/reduce.h"
#include "op_test.h"

enum { SUM, MEAN, MAX, MIN };
enum { KIND, AXES, KEEP, WIDE };

/* Half types compute like f32 and short integers like i32: two such types together cover all kinds. */
static int draw_kind(const op_case *c, op_random *r) {
  switch (c->dtype) {
  case CLADE_F16:
  case CLADE_U8: return op_chance(r, 0.6) ? SUM : MAX;
  case CLADE_BF16: return op_chance(r, 0.6) ? MEAN : MIN;
  case CLADE_I8: return op_chance(r, 0.6) ? SUM : MIN;
  case CLADE_BOOL: return (int)op_integer(r, MAX, MIN);
  default: break;
  }
  int kind = (int)op_integer(r, SUM, MIN);
  return kind == MEAN && !op_is_float(c->dtype) ? SUM : kind;
}

static void draw(op_case *c, op_random *r) {
  bool real = op_is_float(c->dtype);
  int kind = draw_kind(c, r);
  clade_shape shape = op_draw_shape(r, c, 0, 5, c->gradient ? 60 : 20000);
  int axes = (int)op_integer(r, 0, (1 << shape.rank) - 1);
  if (!c->small && !c->gradient && op_chance(r, 0.25)) { /* long axes: everything, along rows, along columns */
    int64_t n = real && op_chance(r, 0.1) ? 1000003 : op_integer(r, 5000, c->light ? 20000 : 60000),
            way = op_integer(r, 0, 2);
    shape = way == 0   ? CLADE_SHAPE(n)
            : way == 1 ? CLADE_SHAPE(3, n)
                       : CLADE_SHAPE(n, op_integer(r, 1, n > 60000 ? 2 : 40));
    axes = way == 1 ? 2 : 1;
  }
  if (!c->small && !c->gradient && op_chance(r, 0.15)) { /* many short rows, or two runs separated by an axis */
    shape = CLADE_SHAPE(op_integer(r, 1, 9), op_integer(r, 1, 40), op_integer(r, 1, 12), op_integer(r, 1, 20));
    axes = op_chance(r, 0.3) ? 5 : op_chance(r, 0.5) ? 8 : 4;
  }
  if (real && kind < MAX && !c->gradient && strcmp(c->impl, "blocked") == 0) { /* all pixels of channels */
    bool few = c->small;
    shape = CLADE_SHAPE(op_integer(r, 1, 3), op_integer(r, 1, few ? 4 : 40), op_integer(r, 1, few ? 3 : 20),
                        op_integer(r, 1, few ? 3 : 20));
    axes = op_chance(r, 0.5) ? 0xc : 0xd;
  }
  if (real && strcmp(c->impl, "group_last") == 0) { /* the same for whole copies of channels */
    shape = CLADE_SHAPE(op_integer(r, 1, 3), 8 * op_integer(r, 1, c->small || c->gradient ? 1 : 9), op_integer(r, 1, 4),
                        op_integer(r, 2, c->small || c->gradient ? 3 : 60));
    axes = op_chance(r, 0.5) ? 0xc : 0xd;
  }
  c->n_in = 1;
  c->in[0] = (op_input){.dtype = c->dtype, .shape = shape};
  if (real) c->in[0].low = -1, c->in[0].high = 2;
  c->i[KIND] = kind;
  c->i[AXES] = axes;
  c->i[KEEP] = op_chance(r, 0.5);
  c->i[WIDE] = real && c->dtype != CLADE_F32 && axes && op_chance(r, 0.4); /* as mixed precision builds it */
  snprintf(c->note, sizeof c->note, "kind %d axes 0x%x keep %d wide %d", kind, (unsigned)axes, c->i[KEEP], c->i[WIDE]);
}

/* NaN and infinities in a fifth of the cases without gradients. With gradients, all values are distinct, since a
 * maximum has a kink at ties. */
static void fill(const op_case *c, op_random *r, op_array *in) {
  if (!c->gradient && op_is_float(c->dtype) && in->n && op_chance(r, 0.2))
    for (int i = 0; i < 3; i++) in->v[op_integer(r, 0, in->n - 1)] = op_not_finite(r);
  if (!c->gradient || c->i[KIND] < MAX) return;
  for (int64_t i = 0; i < in->n; i++) in->v[i] = (double)i * 0.25 - 4;
  for (int64_t i = in->n - 1; i > 0; i--) {
    int64_t j = op_integer(r, 0, i);
    double v = in->v[i];
    in->v[i] = in->v[j];
    in->v[j] = v;
  }
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  clade_reduce_opt opt = {.size = sizeof opt, .x = in[0], .keep = c->i[KEEP]};
  for (int i = 0; i < CLADE_MAX_RANK; i++)
    if (c->i[AXES] >> i & 1) opt.axes[opt.n_axes++] = i;
  if (opt.n_axes == 0 && c->in[0].shape.rank > 0) { /* no axes means all axes */
    out[0] = in[0];
    return;
  }
  switch (c->i[KIND]) {
  case SUM: out[0] = clade_sum_(g, &opt); break;
  case MEAN: out[0] = clade_mean_(g, &opt); break;
  case MAX: out[0] = clade_reduce_max_(g, &opt); break;
  default: out[0] = clade_reduce_min_(g, &opt); break;
  }
  clade__id node;
  if (c->i[WIDE] && clade__reduce_widened(g, &g->nodes[g->values[out[0].id].node], in[0].id, &node) == CLADE_OK)
    out[0] = clade__graph_val(g, g->nodes[node].first_out);
}

static double nothing(int kind, clade_dtype t) {
  if (kind == SUM) return 0;
  if (kind == MEAN) return NAN;
  bool max = kind == MAX;
  switch (t) {
  case CLADE_I8: return max ? -128 : 127;
  case CLADE_U8: return max ? 0 : 255;
  case CLADE_BOOL: return max ? 0 : 1;
  case CLADE_I32: return max ? INT32_MIN : INT32_MAX;
  case CLADE_I64: return max ? (double)INT64_MIN : (double)INT64_MAX;
  default: return max ? -INFINITY : INFINITY;
  }
}

/* Integer sums wrap around. */
static double wrap(clade_dtype t, double sum) {
  int64_t whole = (int64_t)sum, stored = 0;
  clade_convert(t, &stored, CLADE_I64, &whole, 1);
  clade_convert(CLADE_I64, &whole, t, &stored, 1);
  return (double)whole;
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  clade_shape x = in->shape, kept = x, y = {0};
  for (int i = 0; i < x.rank; i++) {
    bool reduced = c->i[AXES] >> i & 1;
    if (reduced) kept.dim[i] = 1;
    if (!reduced || c->i[KEEP]) y.dim[y.rank++] = kept.dim[i];
  }
  op_result(out, c->i[WIDE] ? CLADE_F32 : c->dtype, y);
  for (int64_t o = 0; o < out->n; o++) out->v[o] = c->i[KIND] < MAX ? 0 : nothing(c->i[KIND], c->dtype);
  for (int64_t i = 0; i < in->n; i++) {
    int64_t index[CLADE_MAX_RANK];
    op_unravel(&x, i, index);
    int64_t o = op_broadcast_at(&kept, &x, index);
    double v = in->v[i];
    if (c->i[KIND] < MAX)
      out->v[o] += v, out->bound[o] += fabs(v);
    else if (isnan(v) || (c->i[KIND] == MAX ? v > out->v[o] : v < out->v[o]))
      out->v[o] = v;
  }
  double count = out->n ? (double)in->n / (double)out->n : 0;
  for (int64_t o = 0; o < out->n; o++) {
    out->bound[o] *= op_is_float(c->dtype) && isfinite(out->v[o]) ? 0x1p-22 : 0;
    if (c->i[KIND] == MEAN) out->v[o] /= count, out->bound[o] = count > 0 ? out->bound[o] / count : 0;
    if (c->i[KIND] == SUM && !op_is_float(c->dtype)) out->v[o] = wrap(c->dtype, out->v[o]);
  }
}

const op_test op_test_reduce = {"reduce", op_computed_types, draw, build, reference, fill, 0, NULL};
