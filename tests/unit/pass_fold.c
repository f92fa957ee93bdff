/* Simplification with Clade's own ops: what is removed and what must stay. */
#include "toy.h"

#include <clade/ops.h>

#include "pass/pass.h"

static clade_device_info device = {.size = sizeof(clade_device_info), .name = "first"};

/* Number of nodes other than inputs that remain; releases g. */
static size_t left_of(clade_graph *g) {
  clade__pass_ctx ctx = {.graph = g, .n_devices = 2, .devices = &device};
  size_t n = 0;
  assert_error(clade_graph_status(g), CLADE_OK, "");
  assert_error(clade__pass_fold(&ctx), CLADE_OK, "");
  assert_error(clade__pass_dead(&ctx), CLADE_OK, "");
  for (size_t i = 1; i < ctx.graph->n_nodes; i++) n += ctx.graph->nodes[i].op != &clade__op_input;
  clade_graph_release(ctx.graph);
  return n;
}

static clade_val matrix(clade_graph *g) { return clade_input(g, "x", CLADE_F32, CLADE_SHAPE(4, 6)); }

static void test_nothing(void **state) {
  (void)state;
  clade_graph *g = new_graph();
  clade_val x = matrix(g);
  clade_output(g, "y",
               clade_broadcast(g, clade_reshape(g, clade_cast(g, x, CLADE_F32), CLADE_SHAPE(4, 6)), CLADE_SHAPE(4, 6)));
  assert_int_equal(left_of(g), 0);
  g = new_graph();
  x = matrix(g);
  clade_output(g, "y", clade_cast(g, clade_cast(g, x, CLADE_F16), CLADE_F32)); /* rounds, so it stays */
  assert_int_equal(left_of(g), 2);
  g = new_graph();
  x = matrix(g);
  clade_graph_place(g, 1);
  clade_output(g, "y", clade_reshape(g, x, CLADE_SHAPE(4, 6))); /* moves to another device, so it stays */
  assert_int_equal(left_of(g), 1);
}

/* A view of its first operand that has a second operand, as derivatives may have. */
static clade_status infer_first(clade_node *n) {
  n->out[0] = n->in[0];
  return CLADE_OK;
}
static const clade_op first_of_two = {.size = sizeof(clade_op),
                                      .name = "toy.first",
                                      .flags = CLADE_OP_VIEW,
                                      .min_in = 2,
                                      .max_in = 2,
                                      .n_out = 1,
                                      .infer = infer_first};

static void test_views_of_two(void **state) {
  (void)state;
  clade_graph *g = new_graph();
  const clade_val x = matrix(g), both[] = {clade_neg(g, x), clade_exp(g, x)};
  clade_output(g, "y", clade_node_add(g, &first_of_two, NULL, NULL, 2, both, NULL));
  assert_int_equal(left_of(g), 1);
}

static void test_reshape(void **state) {
  (void)state;
  clade_graph *g = new_graph();
  clade_output(g, "y", clade_reshape(g, clade_reshape(g, matrix(g), CLADE_SHAPE(24)), CLADE_SHAPE(2, CLADE_DIM_REST)));
  assert_int_equal(left_of(g), 1);
  g = new_graph();
  clade_output(g, "y", clade_reshape(g, clade_reshape(g, matrix(g), CLADE_SHAPE(24)), CLADE_SHAPE(4, 6)));
  assert_int_equal(left_of(g), 1); /* none after a second pass */
  g = new_graph();
  clade_dim batch = CLADE_DIM("batch");
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(batch, 4, 6));
  clade_output(g, "y", clade_reshape(g, clade_flatten(g, x, 1), CLADE_SHAPE(batch, 6, 4)));
  assert_int_equal(left_of(g), 1);
}

static void test_transpose(void **state) {
  (void)state;
  const int there[] = {1, 2, 0}, back[] = {2, 0, 1};
  clade_graph *g = new_graph();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(3, 3, 3)); /* equal types do not imply identity */
  clade_output(g, "y", clade_transpose(g, clade_transpose(g, x, 3, there), 3, back));
  assert_int_equal(left_of(g), 0);
  g = new_graph();
  x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(3, 3, 3));
  clade_output(g, "y", clade_transpose(g, clade_transpose(g, x, 3, there), 3, there));
  assert_int_equal(left_of(g), 2);
}

static void test_pack(void **state) {
  (void)state;
  const clade_layout eights = {.axis = 1, .block = 8, .interleave = 1};
  clade_graph *g = new_graph();
  clade_output(g, "y", clade_unpack(g, clade_pack(g, matrix(g), eights)));
  assert_int_equal(left_of(g), 0);
}

static void test_common(void **state) {
  (void)state;
  clade_graph *g = new_graph();
  clade_val x = matrix(g);
  clade_output(g, "y", clade_add(g, clade_leaky_relu(g, x, 0.5), clade_leaky_relu(g, x, 0.5)));
  assert_int_equal(left_of(g), 2);
  g = new_graph();
  x = matrix(g);
  clade_output(g, "y", clade_add(g, clade_leaky_relu(g, x, 0.5), clade_leaky_relu(g, x, 0.25)));
  assert_int_equal(left_of(g), 3);
}

/* Elementwise ops broadcast their operands implicitly, and skip factors of one. */
static void test_operands(void **state) {
  (void)state;
  const clade_shape shape = CLADE_SHAPE(4, 6);
  clade_graph *g = new_graph();
  clade_val x = matrix(g), row = clade_input(g, "row", CLADE_F32, CLADE_SHAPE(6));
  clade_output(g, "y", clade_add(g, x, clade_broadcast(g, row, shape)));
  assert_int_equal(left_of(g), 1);
  g = new_graph();
  row = clade_input(g, "row", CLADE_F32, CLADE_SHAPE(6)); /* defines the result's size */
  clade_output(g, "y", clade_add(g, row, clade_broadcast(g, row, shape)));
  assert_int_equal(left_of(g), 2);
  g = new_graph();
  x = matrix(g);
  clade_val one = clade_reshape(g, clade_fill(g, CLADE_F32, CLADE_SCALAR, 1), CLADE_SHAPE(1, 1));
  clade_output(g, "y", clade_mul(g, clade_broadcast(g, one, shape), x));
  assert_int_equal(left_of(g), 0);
  g = new_graph();
  x = matrix(g);
  clade_output(g, "y", clade_mul(g, x, clade_fill(g, CLADE_F32, CLADE_SCALAR, 2)));
  assert_int_equal(left_of(g), 2);
  g = new_graph();
  x = matrix(g);
  clade_output(g, "y", clade_div(g, clade_fill(g, CLADE_F32, CLADE_SCALAR, 1), x));
  assert_int_equal(left_of(g), 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing), cmocka_unit_test(test_views_of_two),
                                     cmocka_unit_test(test_reshape), cmocka_unit_test(test_transpose),
                                     cmocka_unit_test(test_pack),    cmocka_unit_test(test_common),
                                     cmocka_unit_test(test_operands)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
