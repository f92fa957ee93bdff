/* A mixture of experts: a gate sends each token to one or two of several feed-forward layers, each of which has room
 * for so many tokens of a group. Tokens travel by products with matrices of zeros and ones, as in GShard, so that
 * groups and experts are axes of the products, along which ranks can compute parts. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "op/dims.h"
#include "op/nn/nn.h"

typedef struct router {
  clade_graph *g;
  int64_t groups, tokens, width, experts, room; /* tokens of a group; room of an expert for them */
} router;

/* ---- constants ---- */
/* 0, 1, …, n - 1 */
static clade_val counted(clade_graph *g, int64_t n) {
  float *numbers = clade__new((size_t)n, sizeof *numbers);
  if (!numbers) return clade__graph_fail(g, CLADE_NO_MEMORY, NULL);
  for (int64_t i = 0; i < n; i++) numbers[i] = (float)i;
  const clade_val v = clade_constant(g, CLADE_F32, CLADE_SHAPE(n), numbers);
  clade__free(numbers);
  return v;
}

static clade_val number(clade_graph *g, double x) { return clade_fill(g, CLADE_F32, CLADE_SCALAR, x); }

/* [groups, tokens] to [groups, tokens, 1] */
static clade_val column(const router *r, clade_val x) {
  return clade_reshape(r->g, x, CLADE_SHAPE(r->groups, r->tokens, 1));
}

/* Of numbers [groups, tokens], ones where they are 0 to n - 1: [groups, tokens, n]. */
static clade_val one_hot(const router *r, clade_val numbers, int64_t n) {
  return clade_cast(r->g, clade_eq(r->g, column(r, numbers), counted(r->g, n)), CLADE_F32);
}

/* ---- places ---- */
/* Of each token the sum over the tokens before it. Whole numbers, so that each order of sums gives the same. */
static clade_val sum_before(const router *r, clade_val x) {
  clade_val sum = x;
  for (int64_t far = 1; far < r->tokens; far *= 2) {
    const clade_val first =
        clade_slice(r->g, sum, CLADE_SHAPE(0, 0, 0), CLADE_SHAPE(r->groups, r->tokens - far, r->experts));
    sum = clade_add(r->g, sum, clade_pad(r->g, first, CLADE_SHAPE(0, far, 0), CLADE_SHAPE(0, 0, 0), 0));
  }
  return clade_sub(r->g, sum, x);
}

static clade_val over_experts(const router *r, clade_val x) { return clade_sum(r->g, x, .axes = {2}, .n_axes = 1); }

/* Ones at each token's place, [groups, tokens, experts * room]; zeros where its expert is full. */
static clade_val places(const router *r, clade_val chosen, clade_val before) {
  clade_graph *g = r->g;
  const clade_val expert = over_experts(r, clade_mul(g, chosen, counted(g, r->experts)));
  const clade_val place = over_experts(r, clade_mul(g, chosen, before));
  const clade_val slot = clade_add(g, clade_mul(g, expert, number(g, (double)r->room)), place);
  const clade_val fits = clade_lt(g, place, number(g, (double)r->room));
  return one_hot(r, clade_select(g, fits, slot, number(g, -1)), r->experts * r->room);
}

/* ---- the gate ---- */
typedef struct routes {
  clade_val to, back; /* [groups, tokens, experts * room]: ones, and how much of an expert's result a token gets */
  clade_val balance;
} routes;

static clade_val chosen_of(const router *r, clade_val weights) {
  return one_hot(r, clade_cast(r->g, clade_arg_max(r->g, weights, 2), CLADE_F32), r->experts);
}

/* experts * the sum over experts of the part of tokens that chose one, and its mean weight: 1 where all are even. */
static clade_val balance_of(const router *r, clade_val weights, clade_val chosen) {
  clade_graph *g = r->g;
  const clade_val part = clade_mean(g, chosen, .axes = {1}, .n_axes = 1);
  const clade_val mean = clade_mean(g, weights, .axes = {1}, .n_axes = 1);
  const clade_val product = clade_mean(g, clade_sum(g, clade_mul(g, part, mean), .axes = {1}, .n_axes = 1));
  return clade_mul(g, product, number(g, (double)r->experts));
}

static routes route(const router *r, clade_val weights, int top) {
  clade_graph *g = r->g;
  const clade_val first = chosen_of(r, weights), weight = over_experts(r, clade_mul(g, weights, first));
  const clade_val to = places(r, first, sum_before(r, first)), balance = balance_of(r, weights, first);
  if (top == 1) return (routes){to, clade_mul(g, to, column(r, weight)), balance};
  /* Second choices come behind all first ones. */
  const clade_val rest = clade_sub(g, clade_mul(g, weights, clade_sub(g, number(g, 1), first)), first);
  const clade_val second = chosen_of(r, rest), other = over_experts(r, clade_mul(g, weights, second));
  const clade_val taken = clade_sum(g, first, .axes = {1}, .n_axes = 1, .keep = true);
  const clade_val also = places(r, second, clade_add(g, sum_before(r, second), taken));
  const clade_val both = clade_add(g, weight, other);
  return (routes){clade_add(g, to, also),
                  clade_add(g, clade_mul(g, to, column(r, clade_div(g, weight, both))),
                            clade_mul(g, also, column(r, clade_div(g, other, both)))),
                  balance};
}

/* ---- the experts ---- */
static clade_val turned(const router *r, clade_val x, int64_t first, int64_t second) {
  x = clade_reshape(r->g, x, CLADE_SHAPE(first, second, r->room, r->width));
  return clade_transpose(r->g, x, 4, (const int[]){1, 0, 2, 3});
}

/* The layers of all experts, on [experts, rows, width]. */
static clade_val layers(const router *r, const char *name, const clade_experts_opt *opt, clade_dtype used,
                        clade_val x) {
  clade_graph *g = r->g;
  const int64_t e = r->experts, w = r->width, h = opt->hidden;
  const clade_val up = clade__nn_parameter(g, name, "up.weight", opt->dtype, used, CLADE_SHAPE(e, w, h), w),
                  up_bias = clade__nn_parameter(g, name, "up.bias", opt->dtype, used, CLADE_SHAPE(e, 1, h), w),
                  down = clade__nn_parameter(g, name, "down.weight", opt->dtype, used, CLADE_SHAPE(e, h, w), h),
                  down_bias = clade__nn_parameter(g, name, "down.bias", opt->dtype, used, CLADE_SHAPE(e, 1, w), h);
  const clade_val hidden = clade_gelu(g, clade_gemm(g, x, up, .bias = up_bias));
  return clade_gemm(g, hidden, down, .bias = down_bias);
}

static clade_val experts(const router *r, const char *name, const clade_experts_opt *opt, clade_dtype used,
                         clade_val x) {
  clade_graph *g = r->g;
  const clade_val gate =
      clade__nn_parameter(g, name, "gate.weight", opt->dtype, used, CLADE_SHAPE(r->experts, r->width), r->width);
  clade_val logits = clade_gemm(g, x, gate, .trans_b = true);
  if (used != CLADE_F32) logits = clade_cast(g, logits, CLADE_F32);
  const routes way = route(r, clade_softmax(g, logits, 2), opt->top);
  clade_val to = way.to, back = way.back;
  if (used != CLADE_F32) to = clade_cast(g, to, used), back = clade_cast(g, back, used);
  clade_val y = turned(r, clade_gemm(g, to, x, .trans_a = true), r->groups, r->experts);
  y = clade_reshape(g, y, CLADE_SHAPE(r->experts, r->groups * r->room, r->width));
  y = turned(r, layers(r, name, opt, used, y), r->experts, r->groups);
  y = clade_reshape(g, y, CLADE_SHAPE(r->groups, r->experts * r->room, r->width));
  if (opt->balance) *opt->balance = way.balance;
  return clade_gemm(g, back, y);
}

/* ---- the builder ---- */
static clade_status check(const clade_graph *g, const char *name, const clade_experts_opt *opt, clade_type *x) {
  char layer[300];
  CLADE_TRY(clade__name_check("nn_experts", name));
  clade_status status = clade_val_type(g, opt->x, x);
  if (status != CLADE_OK) return clade__fail_in(status, "nn_experts \"%s\": x", name);
  if (x->shape.rank < 2 || x->shape.rank > 3)
    return CLADE_FAIL(BAD_SHAPE,
                      "nn_experts \"%s\": x has %d dimensions; expected [tokens, width] or [groups, tokens, width]",
                      name, x->shape.rank);
  for (int i = 0; i < x->shape.rank; i++)
    if (clade_dim_is_symbol(x->shape.dim[i]))
      return CLADE_FAIL(BAD_SHAPE, "nn_experts \"%s\": dimension %d of x is the symbol \"%s\"; experts need sizes",
                        name, i, clade_dim_name(x->shape.dim[i]));
  snprintf(layer, sizeof layer, "nn_experts \"%s\"", name);
  CLADE_TRY(clade__want_float_type(layer, "x", x->dtype));
  if (opt->experts < 1 || opt->hidden < 1)
    return CLADE_FAIL(INVALID, "nn_experts \"%s\": .experts is %" PRId64 ", .hidden %" PRId64 "; expected at least 1",
                      name, opt->experts, opt->hidden);
  if (opt->top < 1 || opt->top > 2 || opt->top > opt->experts)
    return CLADE_FAIL(INVALID, "nn_experts \"%s\": .top is %d of %" PRId64 " experts; expected 1 or 2", name, opt->top,
                      opt->experts);
  if (!(opt->capacity > 0) || !isfinite(opt->capacity))
    return CLADE_FAIL(INVALID, "nn_experts \"%s\": .capacity is %g; expected a positive number", name,
                      (double)opt->capacity);
  return CLADE_OK;
}

clade_val clade_nn_experts_(clade_graph *g, const char *name, const clade_experts_opt *given) {
  clade_experts_opt opt;
  clade_type x;
  clade_status status = clade__opt_copy(&opt, sizeof opt, given, "nn_experts");
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  if (!opt.top) opt.top = 1;
  if (opt.capacity == 0) opt.capacity = 1.25f;
  status = check(g, name, &opt, &x);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  const int axis = x.shape.rank - 2;
  router r = {.g = g,
              .groups = axis ? x.shape.dim[0] : 1,
              .tokens = x.shape.dim[axis],
              .width = x.shape.dim[axis + 1],
              .experts = opt.experts};
  const double room = ceil((double)opt.capacity * opt.top * (double)r.tokens / (double)opt.experts);
  r.room = (int64_t)fmin(fmax(room, 1), fmax((double)r.tokens, 1));
  if (r.experts * r.room > 1 << 24)
    return clade__graph_fail(g,
                             CLADE_FAIL(OVERFLOW,
                                        "nn_experts \"%s\": %" PRId64 " experts with room for %" PRId64 " tokens; "
                                        "expected at most %d places",
                                        name, r.experts, r.room, 1 << 24),
                             NULL);
  const clade_val y =
      experts(&r, name, &opt, x.dtype, clade_reshape(g, opt.x, CLADE_SHAPE(r.groups, r.tokens, r.width)));
  return axis ? y : clade_reshape(g, y, x.shape);
}
