/* The mixed precision pass: types of nodes, single casts per value, and the user's overrides. */
#include "toy.h"

#include <stdio.h>

#include <clade/clade.h>

#include "pass/pass.h"

static clade_device_info device = {.size = sizeof(clade_device_info), .name = "first"};

static clade__pass_ctx context(clade_graph *g, clade_dtype precision, const char *types) {
  assert_error(clade_graph_status(g), CLADE_OK, "");
  return (clade__pass_ctx){.graph = g, .n_devices = 2, .devices = &device, .precision = precision, .types = types};
}

static bool is_cast(const clade__node *n) {
  if (n->op != &clade__op_eltwise) return false;
  const clade__elt *p = &((const clade__eltwise_attrs *)n->attrs)->program;
  return p->n_insn == 1 && p->insn[0].fn == clade__elt_by_name("cast")->number;
}

/* "gemm:bf16 reduce:f32 …", casts as ">bf16", without sources; by the first result. */
static void assert_types(clade_graph *g, clade_dtype precision, const char *types, const char *want) {
  clade__pass_ctx ctx = context(g, precision, types);
  clade__text have = {0};
  assert_error(clade__pass_autocast(&ctx), CLADE_OK, "");
  assert_error(clade__pass_fold(&ctx), CLADE_OK, "");
  assert_error(clade__pass_dead(&ctx), CLADE_OK, "");
  for (size_t i = 1; i < ctx.graph->n_nodes; i++) {
    const clade__node *n = &ctx.graph->nodes[i];
    if (!n->n_in || !n->n_out) continue;
    const char *type = clade_dtype_name(clade__type(ctx.graph, n->first_out)->dtype);
    clade__text_add(&have, is_cast(n) ? "%s>%.0s%s" : "%s%s:%s", have.length ? " " : "", n->op->name, type);
  }
  if (strcmp(have.data ? have.data : "", want)) fail_msg("\"%s\" instead of \"%s\"", have.data, want);
  clade__text_free(&have);
  clade__free(ctx.casts);
  clade_graph_release(ctx.graph);
}

static void assert_words_refused(clade_graph *g, const char *types, clade_status status, const char *part) {
  clade__pass_ctx ctx = context(g, CLADE_BF16, types);
  assert_error(clade__pass_autocast(&ctx), status, part);
  clade__free(ctx.casts);
  clade_graph_release(ctx.graph);
}

static clade_val input(clade_graph *g, const char *name, clade_shape shape) {
  return clade_input(g, name, CLADE_F32, shape);
}
static clade_val images(clade_graph *g) { return input(g, "x", CLADE_SHAPE(4, 8, 6, 6)); }
static clade_val matrix(clade_graph *g, const char *name) { return input(g, name, CLADE_SHAPE(6, 6)); }

/* ---- types ---- */
static clade_graph *perceptron(void) {
  clade_graph *g = new_graph();
  clade_val x = clade_nn_linear(g, "fc1", matrix(g, "x"), .out = 6);
  clade_output(g, "y", clade_nn_linear(g, "fc2", clade_relu(g, x), .out = 6));
  return g;
}

/* A broadcast bias is added in f32 without widening the result; outputs are f32. */
static void test_layers(void **state) {
  (void)state;
  static const char narrow[] = ">bf16 >bf16 gemm:bf16 eltwise:f32 >bf16 eltwise:bf16 >bf16 gemm:bf16 eltwise:f32";
  assert_types(perceptron(), CLADE_BF16, NULL, narrow);
  assert_types(perceptron(), CLADE_F16, NULL,
               ">f16 >f16 gemm:f16 eltwise:f32 >f16 eltwise:f16 >f16 gemm:f16 eltwise:f32");
}

static void test_unset(void **state) {
  (void)state;
  static const char wide[] = "gemm:f32 eltwise:f32 eltwise:f32 gemm:f32 eltwise:f32";
  assert_types(perceptron(), CLADE_DTYPE_NONE, NULL, wide);
  assert_types(perceptron(), CLADE_F32, NULL, wide);
  clade_graph *g = perceptron();
  clade__pass_ctx ctx = context(g, CLADE_F32, NULL);
  assert_error(clade__pass_autocast(&ctx), CLADE_OK, "");
  assert_ptr_equal(ctx.graph, g); /* not even copied */
  clade_graph_release(g);
}

static clade_graph *residual(bool train) {
  clade_graph *g = new_graph();
  clade_graph_train(g, train);
  clade_val x = clade_nn_conv2d(g, "c1", images(g), .out = 8, .kernel = {3, 3}, .pad = {1, 1}, .no_bias = true);
  clade_val y = clade_relu(g, clade_nn_batch_norm(g, "bn", x));
  y = clade_nn_conv2d(g, "c2", y, .out = 8, .kernel = {3, 3}, .pad = {1, 1}, .no_bias = true);
  clade_val loss = clade_sum(g, clade_max_pool2d(g, clade_add(g, x, y), .kernel = {2, 2}));
  clade_output(g, "loss", loss);
  if (train) (void)clade_minimize(g, loss, .optimizer = clade_sgd(.lr = 1));
  return g;
}

/* Values between convolutions are narrow; the sum and the update are f32. */
static void test_between(void **state) {
  (void)state;
  clade_graph *g = residual(true);
  clade__pass_ctx ctx = context(g, CLADE_BF16, NULL);
  assert_error(clade__pass_autocast(&ctx), CLADE_OK, "");
  for (size_t i = 1; i < ctx.graph->n_nodes; i++) {
    const clade__node *n = &ctx.graph->nodes[i];
    if (!n->n_out || !n->n_in || is_cast(n)) continue;
    const clade_type *type = clade__type(ctx.graph, n->first_out);
    const bool whole = type->shape.rank == 4 && type->shape.dim[0] > 1 && n->op != &clade__op_update;
    const bool gradient_of_sum = n->op == &clade__op_broadcast; /* f32 until it is cast */
    if (clade__is_float(type->dtype) && (type->dtype == CLADE_BF16) != (whole && !gradient_of_sum))
      fail_msg("%s gives %s", n->op->name, clade_dtype_name(type->dtype));
    if (n->op == &clade__op_batch_norm) assert_int_equal(clade__type(ctx.graph, n->first_out + 1)->dtype, CLADE_F32);
  }
  for (size_t i = 0; i < ctx.graph->variables.count; i++) {
    assert_int_equal(clade__type(ctx.graph, ctx.graph->variables.at[i].value)->dtype == CLADE_BF16, false);
    assert_true(ctx.graph->variables.at[i].assigned || !ctx.graph->variables.at[i].parameter);
  }
  clade__free(ctx.casts);
  clade_graph_release(ctx.graph);
}

/* One cast of weights serves both forward and backward pass. */
static void test_once(void **state) {
  (void)state;
  clade__pass_ctx ctx = context(residual(true), CLADE_BF16, NULL);
  int copies[2] = {0};
  assert_error(clade__pass_autocast(&ctx), CLADE_OK, "");
  for (size_t i = 1; i < ctx.graph->n_nodes; i++) {
    const clade__node *n = &ctx.graph->nodes[i];
    if (!is_cast(n)) continue;
    const clade__node *from = &ctx.graph->nodes[ctx.graph->values[n->in[0]].node];
    for (int k = 0; k < 2; k++) copies[k] += !strcmp(from->name, k ? "c2.weight" : "c1.weight");
  }
  assert_int_equal(copies[0], 1);
  assert_int_equal(copies[1], 1);
  clade__free(ctx.casts);
  clade_graph_release(ctx.graph);
}

/* Statistics computed from f32 variables keep their precision: one program in f32, rounded at the end. */
static void test_inference(void **state) {
  (void)state;
  assert_types(residual(false), CLADE_BF16, NULL,
               ">bf16 >bf16 conv2d:bf16 >f32 eltwise:f32 eltwise:f32 eltwise:f32 reshape:f32 eltwise:f32 reshape:f32 "
               "eltwise:f32 reshape:f32 eltwise:f32 >bf16 eltwise:bf16 >bf16 conv2d:bf16 eltwise:bf16 max_pool2d:bf16 "
               "reduce:f32");
}

/* Operands of the result's size decide; broadcast operands and constants do not. */
static void test_promotion(void **state) {
  (void)state;
  const struct {
    int rank;
    const char *want;
  } rows[] = {{2, ">bf16 >bf16 gemm:bf16 eltwise:f32 eltwise:f32"},
              {1, ">bf16 >bf16 gemm:bf16 eltwise:f32 >bf16 eltwise:bf16 >f32"},
              {0, ">bf16 >bf16 gemm:bf16 eltwise:f32 >bf16 eltwise:bf16 >f32"}};
  for (size_t i = 0; i < CLADE_COUNT(rows); i++) {
    clade_graph *g = new_graph();
    clade_val y = clade_gemm(g, matrix(g, "a"), matrix(g, "b"));
    clade_val z = input(g, "c", rows[i].rank == 2 ? CLADE_SHAPE(6, 6) : rows[i].rank ? CLADE_SHAPE(6) : CLADE_SCALAR);
    clade_output(g, "y", clade_tanh(g, clade_mul(g, y, z)));
    assert_types(g, CLADE_BF16, NULL, rows[i].want);
  }
}

/* Functions that need f32, and explicit types. */
static void test_wide(void **state) {
  (void)state;
  clade_graph *g = new_graph();
  clade_val y = clade_gemm(g, matrix(g, "a"), matrix(g, "b"));
  clade_output(g, "y", clade_exp(g, y));
  assert_types(g, CLADE_BF16, NULL, ">bf16 >bf16 gemm:bf16 eltwise:f32");
  g = new_graph();
  y = clade_gemm(g, matrix(g, "a"), matrix(g, "b"));
  clade_output(g, "y", clade_softmax(g, y, -1));
  assert_types(g, CLADE_BF16, NULL, ">bf16 >bf16 gemm:bf16 >f32 softmax:f32");
  g = new_graph();
  y = clade_cast(g, matrix(g, "a"), CLADE_F16);
  clade_output(g, "y", clade_gemm(g, clade_relu(g, y), y));
  assert_types(g, CLADE_BF16, NULL, ">f16 eltwise:f16 gemm:f16");
  g = new_graph();
  y = clade_gemm(g, matrix(g, "a"), matrix(g, "b"));
  clade_output(g, "y", toy1(g, "mine", y)); /* an op without a rule */
  assert_types(g, CLADE_BF16, NULL, ">bf16 >bf16 gemm:bf16 >f32 toy:f32");
  g = new_graph();
  y = clade_gemm(g, matrix(g, "a"), matrix(g, "b"));
  clade_output(g, "y", clade_pad(g, y, CLADE_SHAPE(1, 1), CLADE_SHAPE(1, 1), 3)); /* bytes of f32 */
  assert_types(g, CLADE_BF16, NULL, ">bf16 >bf16 gemm:bf16 >f32 frame:f32");
}

/* ---- overrides ---- */
static void test_words(void **state) {
  (void)state;
  assert_types(perceptron(), CLADE_BF16, "gemm=f32", "gemm:f32 eltwise:f32 eltwise:f32 gemm:f32 eltwise:f32");
  assert_types(perceptron(), CLADE_BF16, "fc1=f32",
               "gemm:f32 eltwise:f32 eltwise:f32 >bf16 >bf16 gemm:bf16 eltwise:f32");
  assert_types(perceptron(), CLADE_BF16, "gemm=f32,fc2=bf16",
               "gemm:f32 eltwise:f32 eltwise:f32 >bf16 >bf16 gemm:bf16 >bf16 eltwise:bf16 >f32");
  assert_types(perceptron(), CLADE_BF16, "relu=f32",
               ">bf16 >bf16 gemm:bf16 eltwise:f32 >bf16 eltwise:f32 >bf16 >bf16 gemm:bf16 eltwise:f32");
}

/* An override of a layer also applies to its derivatives. */
static void test_words_of_derivatives(void **state) {
  (void)state;
  clade__pass_ctx ctx = context(residual(true), CLADE_BF16, "c2=f32");
  int wide[3] = {0};
  assert_error(clade__pass_autocast(&ctx), CLADE_OK, "");
  for (size_t i = 1; i < ctx.graph->n_nodes; i++) {
    const clade__node *n = &ctx.graph->nodes[i];
    const clade_op *const ops[] = {&clade__op_conv2d, &clade__op_conv2d_data, &clade__op_conv2d_weights};
    for (int k = 0; k < 3; k++) wide[k] += n->op == ops[k] && clade__type(ctx.graph, n->first_out)->dtype == CLADE_F32;
  }
  for (int k = 0; k < 3; k++) assert_int_equal(wide[k], 1);
  clade__free(ctx.casts);
  clade_graph_release(ctx.graph);
}

static void test_bad_words(void **state) {
  (void)state;
  assert_words_refused(perceptron(), "gemm", CLADE_INVALID, "types: \"gemm\": NAME=f32 or NAME=bf16 is expected");
  assert_words_refused(perceptron(), "=f32", CLADE_INVALID, "NAME=f32 or NAME=bf16 is expected");
  assert_words_refused(perceptron(), "gemm=f16", CLADE_INVALID,
                       "types: \"gemm=f16\": the func computes in f32 and bf16");
  assert_words_refused(perceptron(), "fc1=f32,fc3=f32", CLADE_NOT_FOUND, "types: \"fc3\": the graph has no node");
  assert_words_refused(perceptron(), "fc1=f32,fc1=bf16", CLADE_DUPLICATE, "types: names \"fc1\" twice");
  assert_words_refused(perceptron(), "fc1=f32,", CLADE_OK, "");
  clade__pass_ctx ctx = context(perceptron(), CLADE_F32, "fc1=f32");
  assert_error(clade__pass_autocast(&ctx), CLADE_INVALID, "types: \"fc1=f32\": the func computes in f32 alone");
  ctx.precision = CLADE_I8;
  assert_error(clade__pass_autocast(&ctx), CLADE_DTYPE, "precision: i8; expected f32, bf16 or f16");
  clade_graph_release(ctx.graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_layers),   cmocka_unit_test(test_unset),     cmocka_unit_test(test_between),
      cmocka_unit_test(test_once),     cmocka_unit_test(test_inference), cmocka_unit_test(test_promotion),
      cmocka_unit_test(test_wide),     cmocka_unit_test(test_words),     cmocka_unit_test(test_words_of_derivatives),
      cmocka_unit_test(test_bad_words)};
  return cmocka_run_group_tests_name("pass_autocast", tests, NULL, NULL);
}
