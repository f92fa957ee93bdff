/* Building graphs: errors and their messages, and that the first error sticks. */
#include "toy.h"

#include <math.h>
#include <stdio.h>

static const clade_initial zero = {CLADE_INIT_ZERO, 0, 0};

static void test_values(void **state) {
  (void)state;
  clade_graph *g = new_graph();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(CLADE_DIM("batch"), 3));
  clade_val y = toy1(g, "y", x), two[2];
  clade_type type;
  assert_true(clade_val_ok(x) && clade_val_ok(y) && !clade_val_ok((clade_val){0}));
  assert_int_equal(clade_val_type(g, y, &type), CLADE_OK);
  assert_int_equal(type.dtype, CLADE_F32);
  assert_string_equal(clade_dim_name(type.shape.dim[0]), "batch");
  clade_val first = clade_node_add(g, &toy_pair, NULL, NULL, 1, &y, two);
  assert_true(first.id == two[0].id && two[1].id == two[0].id + 1);
  assert_int_equal(clade_graph_status(g), CLADE_OK);
  assert_string_equal(clade_graph_message(g), "");
  assert_error(clade_val_type(g, (clade_val){0}, &type), CLADE_INVALID, "no value is given");
  assert_error(clade_val_type(g, (clade_val){x.graph, 99}, &type), CLADE_INVALID, "there is no value 99");
  assert_error(clade_val_type(NULL, x, &type), CLADE_INVALID, "the graph is NULL");
  assert_ptr_equal(clade_graph_retain(g), g);
  clade_graph_release(g);
  assert_int_equal(clade_graph_status(g), CLADE_OK);
  clade_graph_release(g);
}

static void test_null(void **state) {
  (void)state;
  clade_val x = clade_input(NULL, "x", CLADE_F32, CLADE_SCALAR);
  assert_false(clade_val_ok(x));
  assert_error(CLADE_INVALID, CLADE_INVALID, "the graph is NULL");
  assert_error(clade_graph_new(NULL), CLADE_INVALID, "out is NULL");
  assert_error(clade_graph_status(NULL), CLADE_INVALID, "NULL");
  assert_string_equal(clade_graph_message(NULL), "");
  assert_null(clade_graph_retain(NULL));
  clade_graph_release(NULL);
  clade_graph_place(NULL, 0);
  clade_output(NULL, "x", x);
  clade_assign(NULL, x, x);
  assert_false(clade_val_ok(clade_fill(NULL, CLADE_F32, CLADE_SCALAR, 0)));
  assert_false(clade_val_ok(clade_constant(NULL, CLADE_F32, CLADE_SCALAR, &x)));
  assert_false(clade_val_ok(clade_variable(NULL, "v", CLADE_F32, CLADE_SCALAR, zero)));
  assert_false(clade_val_ok(clade_transfer(NULL, x, 1)));
  clade_val out = {1, 1};
  assert_false(clade_val_ok(clade_node_add(NULL, &toy, NULL, NULL, 1, &x, &out)));
  assert_false(clade_val_ok(out));
  assert_error(clade_graph_print(NULL, CLADE_PRINT_TEXT, NULL), CLADE_INVALID, "the graph is NULL");
}

static void test_sticky(void **state) {
  (void)state;
  clade_graph *g = new_graph();
  clade_val bad = clade_input(g, "no spaces", CLADE_F32, CLADE_SCALAR);
  assert_false(clade_val_ok(bad));
  size_t nodes = g->n_nodes;
  assert_false(clade_val_ok(toy1(g, "later", bad)));
  assert_false(clade_val_ok(clade_input(g, "fine", CLADE_F32, CLADE_SCALAR)));
  clade_output(g, "", bad);
  assert_int_equal(g->n_nodes, nodes);
  assert_refused(g, CLADE_INVALID, "input \"no spaces\": a name holds letters, digits");
}

static void test_names(void **state) {
  (void)state;
  char longest[257];
  memset(longest, 'n', sizeof longest);
  longest[256] = '\0';
  clade_graph *g = new_graph();
  clade_input(g, longest, CLADE_F32, CLADE_SCALAR);
  assert_refused(g, CLADE_INVALID, "at most 255 bytes");
  longest[255] = '\0';
  g = new_graph();
  clade_val x = clade_input(g, longest, CLADE_F32, CLADE_SCALAR);
  clade_val v = clade_variable(g, longest, CLADE_F32, CLADE_SCALAR, zero); /* names of different kinds do not clash */
  clade_output(g, longest, toy2(g, longest, x, v));
  clade_input(g, "a/b.c-d:e@1_", CLADE_F32, CLADE_SCALAR);
  assert_int_equal(clade_graph_status(g), CLADE_OK);
  clade_input(g, longest, CLADE_F32, CLADE_SCALAR);
  assert_refused(g, CLADE_DUPLICATE, "another input has this name");
  g = new_graph();
  clade_variable(g, "w", CLADE_F32, CLADE_SCALAR, zero);
  clade_variable(g, "w", CLADE_F32, CLADE_SCALAR, zero);
  assert_refused(g, CLADE_DUPLICATE, "variable \"w\"");
  g = new_graph();
  x = clade_input(g, "x", CLADE_F32, CLADE_SCALAR);
  toy1(g, "n", x);
  toy1(g, "n", x);
  assert_refused(g, CLADE_DUPLICATE, "toy \"n\": the name is another node's (toy)");
  g = new_graph();
  x = clade_input(g, "x", CLADE_F32, CLADE_SCALAR);
  clade_output(g, "y", x);
  clade_output(g, "y", x);
  assert_refused(g, CLADE_DUPLICATE, "output \"y\"");
  g = new_graph();
  clade_input(g, NULL, CLADE_F32, CLADE_SCALAR);
  assert_refused(g, CLADE_INVALID, "input: the name is NULL");
  g = new_graph();
  clade_variable(g, "", CLADE_F32, CLADE_SCALAR, zero);
  assert_refused(g, CLADE_INVALID, "variable: the name is empty");
}

static void test_foreign(void **state) {
  (void)state;
  clade_graph *other = new_graph(), *g = new_graph();
  clade_val foreign = clade_input(other, "x", CLADE_F32, CLADE_SCALAR);
  toy1(g, NULL, foreign);
  assert_refused(g, CLADE_INVALID, "toy: operand 0: value 1 belongs to another graph");
  g = new_graph();
  clade_output(g, "y", foreign);
  assert_refused(g, CLADE_INVALID, "output \"y\": value 1 belongs to another graph");
  g = new_graph();
  clade_assign(g, clade_variable(g, "w", CLADE_F32, CLADE_SCALAR, zero), foreign);
  assert_refused(g, CLADE_INVALID, "assign \"w\": value 1 belongs to another graph");
  g = new_graph();
  clade_assign(g, foreign, foreign);
  assert_refused(g, CLADE_INVALID, "assign: the variable: value 1 belongs to another graph");
  g = new_graph();
  clade_transfer(g, foreign, 1);
  assert_refused(g, CLADE_INVALID, "transfer: value 1 belongs");
  clade_graph_release(other);
}

static void test_shapes(void **state) {
  (void)state;
  clade_graph *g = new_graph();
  clade_input(g, "x", CLADE_F32, CLADE_SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1));
  assert_refused(g, CLADE_BAD_SHAPE, "input \"x\": a shape has 0 to 8 dimensions");
  g = new_graph();
  clade_input(g, "x", (clade_dtype)77, CLADE_SCALAR);
  assert_refused(g, CLADE_DTYPE, "77 is not an element type");
  g = new_graph();
  clade_input(g, "x", CLADE_F32, CLADE_SHAPE(INT64_C(1) << 40, INT64_C(1) << 40));
  assert_refused(g, CLADE_OVERFLOW, "input \"x\"");
  g = new_graph();
  clade_input(g, "x", CLADE_F32, CLADE_SHAPE(INT64_C(1) << 61));
  assert_refused(g, CLADE_OVERFLOW, "f32 are more bytes than can be addressed");
  g = new_graph();
  clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2, -3));
  assert_refused(g, CLADE_BAD_SHAPE, "dimension 1 of [2, -3] is negative");
  g = new_graph();
  clade_input(g, "x", CLADE_F32, CLADE_SHAPE(CLADE_DIM("9lives")));
  assert_refused(g, CLADE_BAD_SHAPE, "dimension 0 is no size");
  g = new_graph();
  clade_variable(g, "w", CLADE_F32, CLADE_SHAPE(CLADE_DIM("batch")), zero);
  assert_refused(g, CLADE_BAD_SHAPE, "variable \"w\": dimension 0 is \"batch\": sizes are expected");
  g = new_graph();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2)), y = clade_input(g, "y", CLADE_F32, CLADE_SHAPE(3));
  toy2(g, "sum", x, y);
  assert_refused(g, CLADE_BAD_SHAPE, "toy \"sum\": operand 1 is not like operand 0");
  g = new_graph();
  x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2));
  clade_node_add(g, &toy_shaped, "big", &(toy_attrs){.shape = CLADE_SHAPE(INT64_MAX, 2)}, 1, &x, NULL);
  assert_refused(g, CLADE_OVERFLOW, "toy.shaped \"big\": output 0");
}

static void test_ops(void **state) {
  (void)state;
  clade_op op = toy;
  clade_graph *g = new_graph();
  clade_node_add(g, NULL, NULL, NULL, 0, NULL, NULL);
  assert_refused(g, CLADE_INVALID, "the op is NULL");
  op.size = 8;
  g = new_graph();
  clade_node_add(g, &op, NULL, NULL, 0, NULL, NULL);
  assert_refused(g, CLADE_INVALID, "the op's size is 8");
  op = toy, op.name = NULL;
  g = new_graph();
  clade_node_add(g, &op, NULL, NULL, 0, NULL, NULL);
  assert_refused(g, CLADE_INVALID, "an op has a name");
  op = toy, op.source = "";
  g = new_graph();
  clade_node_add(g, &op, NULL, NULL, 0, NULL, NULL);
  assert_refused(g, CLADE_INVALID, "holds a dot");
  op = toy, op.infer = NULL;
  g = new_graph();
  clade_node_add(g, &op, NULL, NULL, 0, NULL, NULL);
  assert_refused(g, CLADE_INVALID, "no infer");
  op = toy, op.n_out = 65;
  g = new_graph();
  clade_node_add(g, &op, NULL, NULL, 0, NULL, NULL);
  assert_refused(g, CLADE_INVALID, "at most 64");
  op = toy, op.n_out = 0;
  g = new_graph();
  clade_node_add(g, &op, NULL, NULL, 0, NULL, NULL);
  assert_refused(g, CLADE_INVALID, "is an effect");
  g = new_graph();
  clade_node_add(g, &toy, NULL, NULL, 4, NULL, NULL);
  assert_refused(g, CLADE_INVALID, "toy: 4 operands, 1 to 3 are expected");
  g = new_graph();
  clade_node_add(g, &toy, NULL, NULL, 1, NULL, NULL);
  assert_refused(g, CLADE_INVALID, "toy: the operands are NULL");
  g = new_graph();
  clade_node_add(g, &toy, NULL, NULL, 1, &(clade_val){0}, NULL);
  assert_refused(g, CLADE_INVALID, "toy: operand 0: no value is given");
}

static void test_assign(void **state) {
  (void)state;
  clade_graph *g = new_graph();
  clade_val w = clade_variable(g, "w", CLADE_F32, CLADE_SHAPE(2), zero),
            x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2));
  clade_assign(g, w, toy2(g, NULL, w, x));
  assert_int_equal(clade_graph_status(g), CLADE_OK);
  assert_int_equal(g->variables.at[0].assigned, 3);
  clade_assign(g, w, x);
  assert_refused(g, CLADE_DUPLICATE, "assign \"w\": the variable is assigned already");
  g = new_graph();
  x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2));
  clade_assign(g, x, x);
  assert_refused(g, CLADE_INVALID, "value 1 is not a variable");
  g = new_graph();
  w = clade_variable(g, "w", CLADE_F32, CLADE_SHAPE(2), zero);
  clade_assign(g, w, clade_input(g, "x", CLADE_F32, CLADE_SHAPE(3)));
  assert_refused(g, CLADE_BAD_SHAPE, "assign \"w\": the value is f32[3], the variable f32[2]");
  g = new_graph();
  w = clade_variable(g, "w", CLADE_F32, CLADE_SHAPE(2), zero);
  clade_assign(g, w, clade_input(g, "x", CLADE_F16, CLADE_SHAPE(2)));
  assert_refused(g, CLADE_DTYPE, "the value is f16[2]");
}

/* A second share reuses the first one's variables of the same type, and assigns nothing. */
static void test_shares(void **state) {
  (void)state;
  clade_graph *g = new_graph();
  clade_val w = clade_parameter(g, "w", CLADE_F32, CLADE_SHAPE(2), zero);
  clade_assign(g, w, clade_relu(g, w));
  clade_graph_share(g, 1);
  clade_val again = clade_parameter(g, "w", CLADE_F32, CLADE_SHAPE(2), zero);
  assert_int_equal(again.id, w.id);
  clade_assign(g, again, clade_neg(g, again));
  assert_int_equal(clade_graph_status(g), CLADE_OK);
  assert_int_equal(g->variables.count, 1);
  clade_variable(g, "v", CLADE_F32, CLADE_SHAPE(2), zero);
  assert_int_equal(g->variables.count, 2);
  clade_variable(g, "w", CLADE_F32, CLADE_SHAPE(3), zero);
  assert_refused(g, CLADE_DUPLICATE, "variable \"w\": f32[3] here, f32[2] in an earlier share");
  g = new_graph();
  clade_graph_share(g, -1);
  assert_refused(g, CLADE_INVALID, "share -1");
}

static void test_initial(void **state) {
  (void)state;
  const struct {
    clade_dtype dtype;
    clade_initial initial;
    clade_status status;
    const char *part;
  } cases[] = {
      {CLADE_F32, {(clade_init_kind)9, 0, 0}, CLADE_INVALID, "variable \"w\": 9 is no kind"},
      {CLADE_I32, {CLADE_INIT_NORMAL, 0, 1}, CLADE_DTYPE, "are floats, not i32"},
      {CLADE_F32, {CLADE_INIT_UNIFORM, 1, 0}, CLADE_INVALID, "from 1 up to 0"},
      {CLADE_F32, {CLADE_INIT_NORMAL, 0, -1}, CLADE_INVALID, "deviation -1"},
      {CLADE_F32, {CLADE_INIT_NORMAL, NAN, 1}, CLADE_INVALID, "nan"},
  };
  for (size_t i = 0; i < CLADE_COUNT(cases); i++) {
    clade_graph *g = new_graph();
    clade_variable(g, "w", cases[i].dtype, CLADE_SCALAR, cases[i].initial);
    assert_refused(g, cases[i].status, cases[i].part);
  }
}

static void test_constants(void **state) {
  (void)state;
  float data[4] = {1, 2, 3, 4};
  clade_graph *g = new_graph();
  clade_val c = clade_constant(g, CLADE_F32, CLADE_SHAPE(2, 2), data);
  data[3] = 9; /* the data was copied */
  clade_val f = clade_fill(g, CLADE_BF16, CLADE_SHAPE(CLADE_DIM("batch")), 1.5);
  const clade__constant_attrs *a = g->nodes[g->values[c.id].node].attrs, *b = g->nodes[g->values[f.id].node].attrs;
  const uint16_t *pattern = b->data;
  assert_true(((const float *)a->data)[3] == 4 && a->bytes == 16 && a->pattern == 0);
  assert_true(pattern[0] == 0x3fc0 && b->bytes == 2 && b->pattern == 2);
  assert_true(clade_val_ok(clade_constant(g, CLADE_F32, CLADE_SHAPE(0), NULL)));
  assert_true(clade_val_ok(clade_fill(g, CLADE_I64, CLADE_SCALAR, -0x1p63)));
  assert_int_equal(clade_graph_status(g), CLADE_OK);
  clade_constant(g, CLADE_F32, CLADE_SHAPE(2), NULL);
  assert_refused(g, CLADE_INVALID, "constant: data is NULL, 8 bytes are expected");
  g = new_graph();
  clade_constant(g, CLADE_F32, CLADE_SHAPE(CLADE_DIM("batch")), data);
  assert_refused(g, CLADE_BAD_SHAPE, "constant: dimension 0 is \"batch\"");
  const struct {
    clade_dtype dtype;
    double value;
  } bad[] = {{CLADE_U8, -1}, {CLADE_I8, 128}, {CLADE_I32, 0.5}, {CLADE_BOOL, 2}, {CLADE_I64, 0x1p63}, {CLADE_I32, NAN}};
  for (size_t i = 0; i < CLADE_COUNT(bad); i++) {
    g = new_graph();
    clade_fill(g, bad[i].dtype, CLADE_SCALAR, bad[i].value);
    assert_refused(g, CLADE_INVALID, "is no value of");
  }
}

static void test_sealed(void **state) {
  (void)state;
  clade_graph *g = new_graph();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SCALAR);
  g->sealed = true;
  size_t nodes = g->n_nodes;
  assert_false(clade_val_ok(toy1(g, NULL, x)));
  assert_error(CLADE_INVALID, CLADE_INVALID, "was compiled and cannot change");
  clade_output(g, "y", x);
  clade_graph_place(g, 1);
  assert_true(g->n_nodes == nodes && g->outputs.count == 0 && g->device == 0);
  assert_int_equal(clade_graph_status(g), CLADE_OK); /* so it can be compiled again */
  clade_graph_release(g);
}

static void test_devices(void **state) {
  (void)state;
  clade_graph *g = new_graph();
  clade_val w = clade_variable(g, "w", CLADE_F32, CLADE_SCALAR, zero);
  clade_graph_place(g, 1);
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SCALAR), y = clade_transfer(g, x, 0);
  assert_int_equal(clade_transfer(g, x, 1).id, x.id);
  assert_int_equal(g->nodes[g->values[x.id].node].device, 1);
  assert_int_equal(g->nodes[g->values[y.id].node].device, 0);
  clade_assign(g, w, y);
  assert_int_equal(g->nodes[g->n_nodes - 1].device, 0); /* on its variable's device */
  assert_int_equal(g->device, 1);
  clade_graph_place(g, -1);
  assert_refused(g, CLADE_INVALID, "clade_graph_place: device -1");
}

/* As many outputs as operands; `outputs` refuses odd numbers. */
static int each(const void *attrs, int n_in) {
  (void)attrs;
  return n_in % 2 ? 65 : n_in;
}
static clade_status infer_each(clade_node *n) {
  for (int i = 0; i < n->n_out; i++) n->out[i] = n->in[i];
  return CLADE_OK;
}
static void test_outputs_by_node(void **state) {
  (void)state;
  static const clade_op op = {
      .size = sizeof op, .name = "toy.each", .min_in = 1, .max_in = 64, .outputs = each, .infer = infer_each};
  clade_graph *g = new_graph(), *copy;
  clade_val x[64], y[64];
  for (int i = 0; i < 64; i++) {
    char name[8];
    snprintf(name, sizeof name, "x%d", i);
    x[i] = clade_input(g, name, CLADE_F32, CLADE_SHAPE(i + 1));
  }
  clade_node_add(g, &op, "all", NULL, 64, x, y);
  clade_val two = clade_node_add(g, &op, "two", NULL, 2, y + 62, x);
  clade_type type;
  for (int i = 0; i < 64; i++) {
    assert_int_equal(clade_val_type(g, y[i], &type), CLADE_OK);
    assert_int_equal(type.shape.dim[0], i + 1);
  }
  assert_true(two.id == x[0].id && x[1].id == two.id + 1);
  clade_output(g, "y", x[1]);
  assert_int_equal(clade__graph_rewrite(g, NULL, NULL, &copy), CLADE_OK);
  assert_int_equal(copy->n_values, g->n_values);
  clade_graph_release(copy);
  y[0] = y[1] = x[1];
  clade_node_add(g, &op, NULL, NULL, 1, x, y);
  assert_false(clade_val_ok(y[0]) || clade_val_ok(y[63]));
  assert_refused(g, CLADE_INVALID, "toy.each: a node has at most 64 outputs, not 65");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_values),  cmocka_unit_test(test_null),
                                     cmocka_unit_test(test_sticky),  cmocka_unit_test(test_names),
                                     cmocka_unit_test(test_foreign), cmocka_unit_test(test_shapes),
                                     cmocka_unit_test(test_ops),     cmocka_unit_test(test_outputs_by_node),
                                     cmocka_unit_test(test_assign),  cmocka_unit_test(test_initial),
                                     cmocka_unit_test(test_shares),  cmocka_unit_test(test_constants),
                                     cmocka_unit_test(test_sealed),  cmocka_unit_test(test_devices)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
