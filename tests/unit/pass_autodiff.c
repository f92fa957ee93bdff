/* Differentiation: random scalar graphs against central differences, and values without derivatives. */
#include "toy.h"

#include <math.h>
#include <stdio.h>

#include <clade/ops.h>

#include "pass/pass.h"

enum { ROUNDS = 200, XS = 3, MOST = 25 };

static uint32_t dice(uint64_t key, uint64_t *at, uint32_t sides) {
  uint32_t out[4];
  clade__philox(key, (*at)++, 1, out);
  return out[0] % sides;
}

static clade_val random_node(clade_graph *g, uint64_t key, uint64_t *at, clade_val a, clade_val b) {
  switch (dice(key, at, 6)) {
  case 0: return clade_add(g, a, b);
  case 1: return clade_mul(g, clade_tanh(g, a), b);
  case 2: return clade_sub(g, a, clade_sigmoid(g, b));
  case 3: return clade_softplus(g, a);
  case 4: return clade_cast(g, clade_sin(g, a), CLADE_F32);
  default: return clade_div(g, a, clade_add(g, clade_square(g, b), clade_fill(g, CLADE_F32, CLADE_SCALAR, 1)));
  }
}

/* Values of a scalar graph for its inputs x0, x1, …. */
static double *evaluate(const clade_graph *g, const double *x) {
  double *value = calloc(g->n_values, sizeof *value);
  assert_non_null(value);
  for (clade__id i = 1; i < g->n_nodes; i++) {
    const clade__node *n = &g->nodes[i];
    double in[CLADE_MAX_OPERANDS];
    for (int k = 0; k < n->n_in; k++) in[k] = value[n->in[k]];
    if (n->op->infer == toy_two) continue; /* unused */
    if (n->op == &clade__op_input)
      value[n->first_out] = x[n->name[1] - '0'];
    else if (n->op == &clade__op_constant)
      value[n->first_out] = (double)*(const float *)((const clade__constant_attrs *)n->attrs)->data;
    else if (n->op == &clade__op_stop_gradient)
      value[n->first_out] = in[0];
    else if (n->op == &clade__op_eltwise)
      value[n->first_out] = clade__elt_eval(&((const clade__eltwise_attrs *)n->attrs)->program, in);
    else
      fail_msg("no way to evaluate %s", n->op->name);
  }
  return value;
}

static double value_at(const clade_graph *g, const double *x, clade_val v) {
  double *values = evaluate(g, x), y = values[v.id];
  free(values);
  return y;
}

static void test_random(void **state) {
  (void)state;
  for (uint64_t key = 1; key <= ROUNDS; key++) {
    clade_graph *g = new_graph();
    clade_val v[MOST + XS], dx[XS];
    uint64_t at = 0;
    double x[XS];
    int n = 0;
    for (; n < XS; n++) {
      char name[8];
      snprintf(name, sizeof name, "x%d", n);
      v[n] = clade_input(g, name, CLADE_F32, CLADE_SCALAR);
      x[n] = 2 * clade__uniform(key, (uint64_t)n, 7) - 1;
    }
    for (int size = 1 + (int)dice(key, &at, MOST); size > 0; size--, n++)
      v[n] = random_node(g, key, &at, v[n - 1 - (int)dice(key, &at, 3)], v[dice(key, &at, (uint32_t)n)]);
    assert_error(clade_gradients(g, v[n - 1], (clade_val){0}, XS, v, dx), CLADE_OK, "");
    for (int i = 0; i < XS; i++) {
      const double h = 1e-5;
      double up[XS], down[XS];
      memcpy(up, x, sizeof x), memcpy(down, x, sizeof x);
      up[i] += h, down[i] -= h;
      double want = (value_at(g, up, v[n - 1]) - value_at(g, down, v[n - 1])) / (2 * h), have = value_at(g, x, dx[i]);
      if (!(fabs(want - have) <= 1e-5 * (1 + fabs(want))))
        fail_msg("graph %d: dy/dx%d is %g instead of %g", (int)key, i, have, want);
    }
    clade_graph_release(g);
  }
}

static clade_val scalar(clade_graph *g, const char *name) { return clade_input(g, name, CLADE_F32, CLADE_SCALAR); }

static void test_given(void **state) {
  (void)state;
  const double at[] = {3, 5};
  clade_graph *g = new_graph();
  clade_val x[2] = {scalar(g, "x0"), scalar(g, "x1")}, dx[2], same;
  clade_val y = clade_square(g, x[0]);
  assert_error(clade_gradients(g, y, x[1], 2, x, dx), CLADE_OK, "");
  assert_true(value_at(g, at, dx[0]) == 2 * 3 * 5);
  assert_true(value_at(g, at, dx[1]) == 0); /* y does not depend on it */
  assert_error(clade_gradients(g, y, (clade_val){0}, 1, &y, &same), CLADE_OK, "");
  assert_true(value_at(g, at, same) == 1);
  assert_error(clade_gradients(g, y, (clade_val){0}, 0, NULL, NULL), CLADE_OK, "");
  clade_graph_release(g);
}

/* Integers and comparisons stop gradients; an inner value gets its own gradient. */
static void test_flow(void **state) {
  (void)state;
  const double at[] = {3};
  clade_graph *g = new_graph();
  clade_val x = scalar(g, "x0"), h = clade_square(g, x), of[2] = {x, h}, d[2];
  clade_val whole = clade_cast(g, clade_cast(g, h, CLADE_I32), CLADE_F32);
  clade_val y = clade_add(g, clade_select(g, clade_gt(g, h, x), clade_mul(g, h, whole), x), whole);
  assert_error(clade_gradients(g, y, (clade_val){0}, 2, of, d), CLADE_OK, "");
  assert_true(value_at(g, at, d[1]) == 9 && value_at(g, at, d[0]) == 54);
  clade_graph_release(g);
}

/* Repeating a request creates new nodes; second derivatives of elementwise functions are refused. */
static void test_again(void **state) {
  (void)state;
  const double at[] = {3};
  clade_graph *g = new_graph();
  clade_val x = scalar(g, "x0"), y = clade_mul(g, clade_square(g, x), x), once, again;
  assert_error(clade_gradients(g, y, (clade_val){0}, 1, &x, &once), CLADE_OK, "");
  y = clade_mul(g, y, x);
  assert_error(clade_gradients(g, y, (clade_val){0}, 1, &x, &again), CLADE_OK, "");
  assert_true(value_at(g, at, once) == 27 && value_at(g, at, again) == 108);
  assert_error(clade_gradients(g, once, (clade_val){0}, 1, &x, &again), CLADE_UNSUPPORTED, "gradient of eltwise");
  clade_graph_release(g);
}

/* Both outputs equal the operand; an unused output contributes no gradient. */
static int pair_douts;
static clade_status grad_pair(clade_grad *g) {
  pair_douts = clade_val_ok(g->dout[0]) + 2 * clade_val_ok(g->dout[1]);
  g->din[0] = pair_douts == 3 ? clade_add(g->graph, g->dout[0], g->dout[1]) : g->dout[pair_douts == 2];
  return CLADE_OK;
}
static void test_outputs(void **state) {
  (void)state;
  const double at[] = {3};
  clade_op op = toy_pair;
  op.grad = grad_pair;
  for (int used = 1; used < 4; used++) {
    clade_graph *g = new_graph();
    clade_val x = scalar(g, "x0"), both[2], dx, y = clade_fill(g, CLADE_F32, CLADE_SCALAR, 0);
    clade_node_add(g, &op, NULL, NULL, 1, &x, both);
    for (int i = 0; i < 2; i++)
      if (used >> i & 1) y = clade_add(g, y, i ? clade_add(g, both[i], both[i]) : both[i]);
    assert_error(clade_gradients(g, y, (clade_val){0}, 1, &x, &dx), CLADE_OK, "");
    assert_int_equal(pair_douts, used);
    assert_true(value_at(g, at, dx) == used); /* 1, 2, or both */
    clade_graph_release(g);
  }
}

/* Gradients of several uses are added from the last use to the first, always in the same order. */
static void test_order(void **state) {
  (void)state;
  clade_graph *g = new_graph();
  clade_val x = scalar(g, "x0"), a = scalar(g, "x1"), b = scalar(g, "x2"), dx;
  clade_val y = clade_add(g, clade_add(g, clade_mul(g, x, a), clade_mul(g, x, b)), clade_mul(g, x, a));
  assert_error(clade_gradients(g, y, (clade_val){0}, 1, &x, &dx), CLADE_OK, "");
  const clade__node *last = &g->nodes[g->values[dx.id].node];
  const clade__node *before = &g->nodes[g->values[last->in[0]].node]; /* (d3 + d2) + d1, each a product with dy */
  const clade__id part[3] = {last->in[1], before->in[1], before->in[0]};
  const clade__id factor[3] = {a.id, b.id, a.id};
  for (int i = 0; i < 3; i++) {
    const clade__node *n = &g->nodes[g->values[part[i]].node];
    assert_true(n->in[0] == factor[i] || n->in[1] == factor[i]);
    assert_true(!i || part[i] < part[i - 1]);
  }
  clade_graph_release(g);
}

/* No recursion along the graph. */
static void test_deep(void **state) {
  (void)state;
  clade_graph *g = new_graph();
  clade_val x = scalar(g, "x0"), y = x, dx;
  for (int i = 0; i < 200000; i++) y = clade_tanh(g, y);
  assert_error(clade_gradients(g, y, (clade_val){0}, 1, &x, &dx), CLADE_OK, "");
  assert_true(clade_val_ok(dx));
  clade_graph_release(g);
}

/* stop_gradient: its operand counts as constant and needs no derivative. */
static void test_stop(void **state) {
  (void)state;
  const double at[] = {3};
  clade_graph *g = new_graph();
  clade_val x = scalar(g, "x0"), h = clade_square(g, x), of[2] = {x, h}, d[2], none;
  assert_error(clade_gradients(g, clade_mul(g, clade_stop_gradient(g, h), x), (clade_val){0}, 2, of, d), CLADE_OK, "");
  assert_true(value_at(g, at, d[0]) == 9 && value_at(g, at, d[1]) == 0);
  clade_graph_release(g);
  g = new_graph();
  x = scalar(g, "x0");
  clade_val y = clade_stop_gradient(g, toy1(g, "hard", x));
  assert_error(clade_gradients(g, y, (clade_val){0}, 1, &x, &none), CLADE_OK, "");
  clade_graph_release(g);
}

static clade_status grad_wrong(clade_grad *g) {
  g->din[0] = clade_fill(g->graph, CLADE_F32, CLADE_SHAPE(7), 0);
  return CLADE_OK;
}
static clade_status grad_fails(clade_grad *g) {
  (void)g;
  return CLADE_FAIL(UNSUPPORTED, "the moon is full");
}

static void test_refused(void **state) {
  (void)state;
  clade_graph *g = new_graph(), *other = new_graph();
  clade_val x = scalar(g, "x0"), dx = x, i = clade_input(g, "i", CLADE_I32, CLADE_SCALAR);
  assert_error(clade_gradients(NULL, x, x, 1, &x, &dx), CLADE_INVALID, "the graph is NULL");
  assert_false(clade_val_ok(dx));
  assert_error(clade_gradients(g, toy1(g, "hard", x), (clade_val){0}, 1, &x, &dx), CLADE_UNSUPPORTED,
               "gradient of toy \"hard\": the op has no derivative");
  assert_refused(g, CLADE_UNSUPPORTED, "toy \"hard\"");
  const struct {
    clade_status (*grad)(clade_grad *);
    clade_status status;
    const char *part;
  } bad[] = {{grad_wrong, CLADE_INTERNAL, "gradient of toy \"t\": operand 0 is f32[], its gradient f32[7]"},
             {grad_fails, CLADE_UNSUPPORTED, "gradient of toy \"t\": the moon is full"}};
  for (size_t k = 0; k < CLADE_COUNT(bad); k++) {
    clade_op op = toy;
    op.grad = bad[k].grad;
    g = new_graph();
    x = scalar(g, "x0");
    clade_val y = clade_node_add(g, &op, "t", NULL, 1, &x, NULL);
    assert_error(clade_gradients(g, y, (clade_val){0}, 1, &x, &dx), bad[k].status, bad[k].part);
    assert_refused(g, bad[k].status, bad[k].part);
  }
  g = new_graph();
  x = scalar(g, "x0"), i = clade_input(g, "i", CLADE_I32, CLADE_SCALAR);
  clade_gradients(g, x, (clade_val){0}, 1, &i, &dx);
  assert_refused(g, CLADE_DTYPE, "gradients: xs[0] is i32[]: only floats");
  g = new_graph();
  i = clade_input(g, "i", CLADE_I32, CLADE_SCALAR);
  clade_gradients(g, i, (clade_val){0}, 0, NULL, NULL);
  assert_refused(g, CLADE_DTYPE, "gradients: y is i32[]: only floats");
  g = new_graph();
  x = scalar(g, "x0");
  clade_gradients(g, x, clade_input(g, "wide", CLADE_F32, CLADE_SHAPE(2)), 1, &x, &dx);
  assert_refused(g, CLADE_BAD_SHAPE, "dy is f32[2], y f32[]");
  g = new_graph();
  x = scalar(g, "x0");
  clade_gradients(g, x, (clade_val){0}, 1, NULL, &dx);
  assert_refused(g, CLADE_INVALID, "xs or dxs is NULL");
  g = new_graph();
  x = scalar(other, "x0");
  clade_gradients(g, x, (clade_val){0}, 0, NULL, NULL);
  assert_refused(g, CLADE_INVALID, "gradients: y: value 1 belongs to another graph");
  clade_graph_release(other);
}

static void test_devices(void **state) {
  (void)state;
  clade_graph *g = new_graph();
  clade_val x = scalar(g, "x0"), dx;
  clade_graph_place(g, 1);
  clade_val y = clade_exp(g, clade_transfer(g, x, 1));
  clade_graph_place(g, 2);
  assert_error(clade_gradients(g, y, (clade_val){0}, 1, &x, &dx), CLADE_OK, "");
  assert_int_equal(g->nodes[g->values[dx.id].node].device, 0);
  assert_int_equal(g->device, 2);
  for (size_t i = 1; i < g->n_nodes; i++) assert_true(g->nodes[i].device < 2);
  clade_graph_release(g);
}

/* Pairwise sums, each on the device of its first share; a share's own sum is on its own device. */
static void assert_tree(const clade_graph *g, clade__id value, int first, int n) {
  const clade__node *node = &g->nodes[g->values[value].node];
  int half = 1;
  assert_int_equal(node->device, first);
  if (n == 1) return;
  while (2 * half < n) half *= 2;
  assert_int_equal(node->n_in, 2);
  assert_tree(g, node->in[0], first, half);
  assert_tree(g, node->in[1], first + half, n - half);
}

static void test_shares(void **state) {
  (void)state;
  for (int n = 1; n <= 9; n++) {
    clade_graph *g = new_graph();
    clade_val x = scalar(g, "x0"), y = x, dx;
    for (int i = 0; i < n; i++) {
      clade_graph_share(g, i);
      clade_graph_place(g, i);
      clade_val one = clade_mul(g, clade_exp(g, x), clade_fill(g, CLADE_F32, CLADE_SCALAR, i + 1)); /* uses x once */
      one = clade_mul(g, one, x);                                                                   /* and twice */
      clade_graph_place(g, 0);
      y = i ? clade_add(g, y, clade_transfer(g, one, 0)) : one;
    }
    clade_graph_share(g, 0);
    assert_error(clade_gradients(g, y, (clade_val){0}, 1, &x, &dx), CLADE_OK, "");
    assert_tree(g, dx.id, 0, n);
    assert_int_equal(g->share, 0);
    assert_int_equal(g->device, 0);
    clade_graph_release(g);
  }
}

/* A share without a gradient leaves its place in the sum to its partner. */
static void test_shares_without(void **state) {
  (void)state;
  clade_graph *g = new_graph();
  clade_val x = scalar(g, "x0"), part[5] = {x, {0}, {0}, {0}, x}, none[3] = {{0}};
  clade_val sum = clade__sum_in_pairs(g, 5, part);
  assert_int_equal(g->nodes[g->values[sum.id].node].n_in, 2);
  assert_int_equal(clade__sum_in_pairs(g, 4, part).id, x.id);
  assert_false(clade_val_ok(clade__sum_in_pairs(g, 3, none)));
  clade_graph_release(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random),  cmocka_unit_test(test_given),  cmocka_unit_test(test_flow),
      cmocka_unit_test(test_stop),    cmocka_unit_test(test_again),  cmocka_unit_test(test_outputs),
      cmocka_unit_test(test_order),   cmocka_unit_test(test_deep),   cmocka_unit_test(test_refused),
      cmocka_unit_test(test_devices), cmocka_unit_test(test_shares), cmocka_unit_test(test_shares_without)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
