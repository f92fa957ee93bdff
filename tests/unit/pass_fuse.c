/* Fusion: what is fused, what must not be, and that random graphs compute the same afterwards. */
#include "toy.h"

#include <math.h>
#include <stdio.h>

#include <clade/nn.h>

#include "op/conv/conv.h"
#include "pass/pass.h"

static clade_device_info devices[2] = {{.size = sizeof(clade_device_info), .name = "first"},
                                       {.size = sizeof(clade_device_info), .name = "second"}};

static clade_graph *fused(clade_graph *g) {
  clade__pass_ctx ctx = {.graph = clade_graph_retain(g), .n_devices = 2, .devices = devices, .fallback = -1};
  assert_error(clade__pass_fuse(&ctx), CLADE_OK, "");
  return ctx.graph;
}

static size_t count(const clade_graph *g, const clade_op *op) {
  size_t n = 0;
  for (size_t i = 1; i < g->n_nodes; i++) n += g->nodes[i].op == op;
  return n;
}

static const clade__elt *program_at(const clade_graph *g, clade__id node) {
  return &((const clade__eltwise_attrs *)g->nodes[node].attrs)->program;
}

static clade_val input(clade_graph *g, const char *name) { return clade_input(g, name, CLADE_F32, CLADE_SHAPE(2, 2)); }

/* The fused graph has `nodes` elementwise nodes. */
static void assert_fused(clade_graph *g, size_t nodes) {
  assert_int_equal(clade_graph_status(g), CLADE_OK);
  clade_graph *f = fused(g);
  assert_int_equal(count(f, &clade__op_eltwise), nodes);
  clade_graph_release(f);
  clade_graph_release(g);
}

static void test_chain(void **state) {
  (void)state;
  clade_graph *g = new_graph();
  clade_val x = input(g, "x"), y = x;
  for (int i = 0; i < 20; i++) y = clade_exp(g, y);
  clade_output(g, "y", y);
  assert_fused(g, 3); /* 8, 8 and 4 instructions */
  g = new_graph();
  x = input(g, "x");
  clade_output(g, "y", clade_relu(g, clade_add(g, clade_mul(g, x, input(g, "a")), input(g, "b"))));
  clade_graph *f = fused(g);
  const clade__elt *p = program_at(f, (clade__id)f->n_nodes - 1);
  assert_true(p->n_in == 3 && p->n_insn == 3);
  clade_graph_release(f);
  clade_graph_release(g);
}

static void test_merged(void **state) {
  (void)state;
  clade_graph *g = new_graph();
  clade_val x = input(g, "x");
  clade_output(g, "y", clade_mul(g, x, x)); /* one operand */
  clade_graph *f = fused(g);
  assert_true(program_at(f, 2)->n_in == 1 && f->nodes[2].n_in == 1);
  clade_graph_release(f);
  clade_graph_release(g);
  g = new_graph(); /* both uses of e end in one program */
  x = input(g, "x");
  clade_val e = clade_exp(g, x);
  clade_output(g, "y", clade_add(g, clade_neg(g, e), e));
  assert_fused(g, 1);
}

static void test_apart(void **state) {
  (void)state;
  clade_graph *g = new_graph();
  clade_val e = clade_exp(g, input(g, "x")); /* used twice */
  clade_output(g, "y", clade_relu(g, e));
  clade_output(g, "z", clade_neg(g, e));
  assert_fused(g, 3);
  g = new_graph();
  e = clade_exp(g, input(g, "x")); /* is an output itself */
  clade_output(g, "e", e);
  clade_output(g, "y", clade_relu(g, e));
  assert_fused(g, 2);
  g = new_graph();
  e = clade_exp(g, clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2))); /* smaller: computed once, read often */
  clade_output(g, "y", clade_add(g, e, input(g, "a")));
  assert_fused(g, 2);
  g = new_graph();
  e = clade_exp(g, input(g, "x"));
  clade_graph_place(g, 1); /* on another device */
  clade_output(g, "y", clade_relu(g, e));
  assert_fused(g, 2);
  g = new_graph();
  clade_val sum = input(g, "x0");
  for (int i = 1; i < 12; i++) {
    char name[8];
    snprintf(name, sizeof name, "x%d", i);
    sum = clade_add(g, sum, input(g, name));
  }
  clade_output(g, "y", sum);
  assert_fused(g, 2); /* eight inputs are seven sums */
}

/* ---- epilogues ---- */
static void test_epilogue(void **state) {
  (void)state;
  clade_graph *g = new_graph(), *f;
  clade_val a = input(g, "a"), b = input(g, "b"), bias = clade_input(g, "bias", CLADE_F32, CLADE_SHAPE(2));
  clade_val rest = input(g, "rest"), y = clade_gemm(g, a, b, .trans_b = true, .bias = bias);
  clade_output(g, "y", clade_add(g, clade_relu(g, y), clade_exp(g, rest)));
  f = fused(g);
  assert_int_equal(count(f, &clade__op_eltwise), 0);
  assert_int_equal(count(f, &clade__op_gemm), 1);
  const clade__node *n = &f->nodes[f->n_nodes - 1];
  const clade__gemm_attrs *at = n->attrs;
  assert_true(n->n_in == 4 && at->trans_b && at->epilogue.n_in == 3 && at->epilogue.n_insn == 4);
  assert_string_equal(f->nodes[f->values[n->in[2]].node].name, "rest");
  assert_string_equal(f->nodes[f->values[n->in[3]].node].name, "bias");
  clade_graph_release(f);
  clade_graph_release(g);
  g = new_graph(); /* the product is larger than the other summand, or smaller: only the former can be fused */
  y = clade_gemm(g, input(g, "a"), input(g, "b"));
  clade_output(g, "y", clade_add(g, y, clade_input(g, "c", CLADE_F32, CLADE_SHAPE(3, 2, 2))));
  assert_fused(g, 1);
  g = new_graph(); /* used twice */
  y = clade_gemm(g, input(g, "a"), input(g, "b"));
  clade_output(g, "y", clade_relu(g, y));
  clade_output(g, "z", clade_exp(g, y));
  assert_fused(g, 2);
  g = new_graph(); /* a residual computed after the product; squares of it */
  a = input(g, "a");
  y = clade_gemm(g, a, input(g, "b"));
  rest = clade_gemm(g, a, a);
  clade_output(g, "y", clade_mul(g, clade_add(g, y, rest), rest));
  f = fused(g);
  assert_int_equal(count(f, &clade__op_gemm), 2);
  assert_int_equal(count(f, &clade__op_eltwise), 0);
  clade_graph_release(f);
  clade_graph_release(g);
}

/* Batch normalization has further results that are used before its first one passes through the epilogue. */
static void test_normalization(void **state) {
  (void)state;
  enum { BEFORE, BEHIND, SMALL, KINDS };
  for (int kind = BEFORE; kind < KINDS; kind++) {
    clade_graph *g = new_graph();
    clade_graph_train(g, true);
    clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2, 3, 4, 4)), past = clade_softmax(g, x, 1);
    clade_val y = clade_nn_batch_norm(g, "norm", x);
    if (kind == BEHIND) past = clade_softmax(g, x, 2);
    if (kind == SMALL) past = clade_input(g, "bias", CLADE_F32, CLADE_SHAPE(3, 1, 1));
    clade_output(g, "y", clade_relu(g, clade_add(g, y, past)));
    assert_fused(g, kind == BEFORE ? 0 : 1);
  }
}

/* Bias, residual and activation go into a convolution's epilogue; the activation's derivative into that of the data
 * gradient. */
static void test_convolution(void **state) {
  (void)state;
  clade_graph *g = new_graph(), *f;
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2, 3, 8, 8)), h, dx;
  clade_val w = clade_input(g, "w", CLADE_F32, CLADE_SHAPE(3, 3, 3, 3));
  clade_val bias = clade_input(g, "bias", CLADE_F32, CLADE_SHAPE(3));
  h = clade_relu(g, clade_conv2d(g, x, w, .bias = bias, .pad = {1, 1}));
  h = clade_relu(g, clade_add(g, clade_conv2d(g, h, w, .bias = bias, .pad = {1, 1}), x));
  clade_gradients(g, h, (clade_val){0, 0}, 1, &x, &dx);
  clade_output(g, "h", h);
  clade_output(g, "dx", dx);
  assert_int_equal(clade_graph_status(g), CLADE_OK);
  f = fused(g);
  assert_int_equal(count(f, &clade__op_conv2d), 2);
  assert_int_equal(count(f, &clade__op_conv2d_data), 2);
  assert_int_equal(count(f, &clade__op_eltwise), 1); /* the gradient behind the last ReLU is used twice */
  clade_graph_release(f);
  clade_graph_release(g);
  g = new_graph(); /* a value per column: not broadcast along both height and width */
  x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2, 3, 8, 8));
  w = clade_input(g, "w", CLADE_F32, CLADE_SHAPE(3, 3, 1, 1));
  clade_output(g, "y", clade_add(g, clade_conv2d(g, x, w), clade_input(g, "line", CLADE_F32, CLADE_SHAPE(8))));
  assert_fused(g, 1);
}

/* In inference, a convolution, its normalization and the activation become one node, with the running statistics in
 * the epilogue. Beside it remains a small node for the channels' weight / sqrt(var + eps), computed in each
 * execution, since only changed layouts of variables are cached. */
static void test_inference(void **state) {
  (void)state;
  for (int biased = 0; biased < 2; biased++) {
    clade_graph *g = new_graph(), *f;
    clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2, 3, 8, 8));
    clade_val y = clade_nn_conv2d(g, "c", x, .out = 5, .kernel = {3, 3}, .pad = {1, 1}, .no_bias = !biased);
    clade_output(g, "y", clade_relu(g, clade_nn_batch_norm(g, "n", y)));
    assert_int_equal(clade_graph_status(g), CLADE_OK);
    clade__pass_ctx folded = {.graph = g, .n_devices = 2, .devices = devices, .fallback = -1};
    assert_error(clade__pass_fold(&folded), CLADE_OK, ""); /* a cast of f32 to f32 is removed */
    f = fused(g = folded.graph);
    const clade__node *n = &f->nodes[f->n_nodes - 1];
    const clade__conv_attrs *at = n->attrs;
    assert_true(n->op == &clade__op_conv2d && f->outputs.at[0].value == n->first_out);
    assert_int_equal(at->epilogue.n_insn, 4 + biased); /* (y [+ bias] - mean) scale + bias, relu */
    assert_int_equal(n->n_in, 2 + 3 + biased);
    assert_int_equal(count(f, &clade__op_eltwise), 1);
    for (clade__id i = 1; i < f->n_nodes; i++)
      if (f->nodes[i].op == &clade__op_eltwise) assert_int_equal(clade__type(f, f->nodes[i].first_out)->shape.rank, 1);
    clade_graph_release(f);
    clade_graph_release(g);
  }
}

/* ---- random graphs: all elements of a value are equal, so that a graph can be evaluated in scalars ---- */
enum { ROUNDS = 300, MOST = 60 };

static uint32_t dice(uint64_t key, uint64_t *at, uint32_t sides) {
  uint32_t out[4];
  clade__philox(key, (*at)++, 0, out);
  return out[0] % sides;
}

static double product(const clade__node *n, const double *in) {
  const clade__gemm_attrs *at = n->attrs;
  double own[CLADE__ELT_INPUTS] = {2 * (double)at->alpha * in[0] * in[1]};
  for (int i = 2; i < n->n_in; i++) own[i - 1] = in[i];
  return at->epilogue.n_insn ? clade__elt_eval(&at->epilogue, own) : own[0];
}

static double *evaluate(const clade_graph *g) {
  double *value = calloc(g->n_values, sizeof *value);
  assert_non_null(value);
  for (clade__id i = 1; i < g->n_nodes; i++) {
    const clade__node *n = &g->nodes[i];
    double in[CLADE_MAX_OPERANDS], result = 0;
    for (int k = 0; k < n->n_in; k++) in[k] = value[n->in[k]];
    if (n->op == &clade__op_input)
      result = 0.25 + 0.5 * (n->name[1] - 'a');
    else if (n->op == &clade__op_eltwise)
      result = clade__elt_eval(program_at(g, i), in);
    else if (n->op == &clade__op_gemm)
      result = product(n, in);
    else
      fail_msg("no way to evaluate %s", n->op->name);
    value[n->first_out] = result;
  }
  return value;
}

static clade_val random_node(clade_graph *g, uint64_t key, uint64_t *at, clade_val a, clade_val b) {
  clade_type left, right;
  clade_val_type(g, a, &left);
  clade_val_type(g, b, &right);
  bool matrices = left.shape.rank == 2 && right.shape.rank == 2;
  switch (dice(key, at, matrices ? 9 : 7)) {
  case 7:
  case 8: return clade_gemm(g, clade_softsign(g, a), b, .trans_a = true, .alpha = 0.25f);
  case 0: return clade_add(g, a, b);
  case 1: return clade_sub(g, a, b);
  case 2: return clade_max(g, a, b);
  case 3: return clade_select(g, clade_lt(g, a, b), b, a);
  case 4: return clade_leaky_relu(g, a, 0.25);
  case 5: return clade_sigmoid(g, a);
  default: return clade_clip(g, a, -0.5, 1.5);
  }
}

static clade_graph *random_graph(uint64_t key) {
  clade_graph *g = new_graph();
  clade_val v[MOST + 3];
  uint64_t at = 0;
  int n = 3;
  v[0] = input(g, "xa");
  v[1] = clade_input(g, "xb", CLADE_F32, CLADE_SHAPE(2));
  v[2] = clade_input(g, "xc", CLADE_F32, CLADE_SCALAR);
  int size = 1 + (int)dice(key, &at, MOST);
  for (int i = 0; i < size; i++, n++) { /* prefer recent values, so that chains form */
    clade_val a = v[dice(key, &at, 3) ? n - 1 - (int)dice(key, &at, 2) : (int)dice(key, &at, (uint32_t)n)];
    v[n] = random_node(g, key, &at, a, v[dice(key, &at, (uint32_t)n)]);
  }
  clade_output(g, "last", v[n - 1]);
  for (int i = 0; i < 3; i++) {
    char name[8];
    snprintf(name, sizeof name, "y%d", i);
    clade_output(g, name, v[dice(key, &at, (uint32_t)n)]);
  }
  assert_int_equal(clade_graph_status(g), CLADE_OK);
  return g;
}

static void test_random(void **state) {
  (void)state;
  size_t before = 0, after = 0;
  for (uint64_t key = 1; key <= ROUNDS; key++) {
    clade_graph *g = random_graph(key), *f = fused(g);
    double *want = evaluate(g), *have = evaluate(f);
    assert_int_equal(f->outputs.count, g->outputs.count);
    for (size_t i = 0; i < g->outputs.count; i++) {
      assert_true(clade_type_equal(clade__type(g, g->outputs.at[i].value), clade__type(f, f->outputs.at[i].value)));
      double w = want[g->outputs.at[i].value], h = have[f->outputs.at[i].value];
      if (!(fabs(w - h) <= 1e-12)) fail_msg("graph %d: output %zu is %g instead of %g", (int)key, i, h, w);
    }
    before += g->n_nodes;
    after += f->n_nodes;
    free(want);
    free(have);
    clade_graph_release(f);
    clade_graph_release(g);
  }
  assert_true(after < before * 3 / 4); /* otherwise nothing was tested */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_chain),         cmocka_unit_test(test_merged),
                                     cmocka_unit_test(test_apart),         cmocka_unit_test(test_epilogue),
                                     cmocka_unit_test(test_normalization), cmocka_unit_test(test_convolution),
                                     cmocka_unit_test(test_inference),     cmocka_unit_test(test_random)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
