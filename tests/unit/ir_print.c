/* Printed graphs, as text and for Graphviz, against expected output. */
#include "toy.h"

static clade_graph *sample(void) {
  clade_graph *g = new_graph();
  const float data[2] = {1, 2};
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(CLADE_DIM("batch"), 2));
  clade_val w = clade_variable(g, "w", CLADE_BF16, CLADE_SHAPE(2, 3), (clade_initial){CLADE_INIT_UNIFORM, -0.5, 0.5});
  clade_variable(g, "z", CLADE_I64, CLADE_SCALAR, (clade_initial){CLADE_INIT_ZERO, 0, 0});
  clade_constant(g, CLADE_F32, CLADE_SHAPE(2), data);
  clade_fill(g, CLADE_F16, CLADE_SHAPE(4), -1.5);
  clade_fill(g, CLADE_I64, CLADE_SCALAR, -7);
  clade_fill(g, CLADE_BOOL, CLADE_SCALAR, 1);
  toy_attrs attrs;
  memset(&attrs, 0, sizeof attrs);
  attrs.flag = true, attrs.number = -3, attrs.list[1] = 1 << 20, attrs.real = 0.1f, attrs.dtype = CLADE_U8;
  attrs.shape = CLADE_SHAPE(CLADE_DIM("batch"), 4);
  attrs.bytes[2] = 1;
  clade_val y = clade_node_add(g, &toy_shaped, "y", &attrs, 1, &x, NULL);
  clade_graph_place(g, 1);
  clade_val two[2];
  clade_node_add(g, &toy_pair, NULL, NULL, 1, &y, two);
  clade_assign(g, w, w);
  clade_output(g, "a", two[1]);
  clade_output(g, "b", x);
  assert_int_equal(clade_graph_status(g), CLADE_OK);
  return g;
}

static void test_text(void **state) {
  (void)state;
  clade_graph *g = sample();
  assert_prints(g, "graph {\n"
                   "  %1 = input \"x\" : f32[batch, 2]\n"
                   "  %2 = variable \"w\" initial=uniform(-0.5, 0.5) : bf16[2, 3]\n"
                   "  %3 = variable \"z\" initial=zero : i64[]\n"
                   "  %4 = constant data=#4533ce61 : f32[2]\n"
                   "  %5 = constant fill=-1.5 : f16[4]\n"
                   "  %6 = constant fill=-7 : i64[]\n"
                   "  %7 = constant fill=1 : bool[]\n"
                   "  %8 = toy.shaped \"y\" (%1) {flag=true, number=-3, list=[0, 1048576], real=0.1, dtype=u8, "
                   "shape=[batch, 4], bytes=#089c10a7} : f32[batch, 4]\n"
                   "  %9, %10 = toy.pair (%8) @1 : f32[batch, 4], f32[batch, 4]\n"
                   "  assign \"w\" (%2, %2)\n"
                   "  output \"a\" (%10)\n"
                   "  output \"b\" (%1)\n"
                   "}\n");
  clade_graph_release(g);
}

static void test_drawing(void **state) {
  (void)state;
  clade_graph *g = new_graph();
  char *text = NULL;
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2));
  clade_output(g, "y", toy2(g, "sum", x, x));
  assert_int_equal(clade_graph_print(g, CLADE_PRINT_DOT, &text), CLADE_OK);
  assert_string_equal(text, "digraph clade {\n"
                            "  node [shape=box];\n"
                            "  n1 [label=\"input x\\nf32[2]\"];\n"
                            "  n2 [label=\"toy sum\\nf32[2]\"];\n"
                            "  n1 -> n2 [label=\"f32[2]\"];\n"
                            "  n1 -> n2 [label=\"f32[2]\"];\n"
                            "  o0 [label=\"output y\", shape=ellipse];\n"
                            "  n2 -> o0;\n"
                            "}\n");
  clade_text_free(text);
  assert_error(clade_graph_print(g, (clade_print_format)7, &text), CLADE_INVALID, "there is no format 7");
  assert_error(clade_graph_print(g, CLADE_PRINT_TEXT, NULL), CLADE_INVALID, "out is NULL");
  clade_graph_release(g);
}

static void test_hash(void **state) {
  (void)state;
  clade_graph *a = sample(), *b = sample();
  assert_true(clade__hash_equal(clade__graph_hash(a), clade__graph_hash(b)));
  clade_output(b, "c", clade_graph_status(b) == CLADE_OK ? clade__graph_val(b, 1) : (clade_val){0});
  assert_false(clade__hash_equal(clade__graph_hash(a), clade__graph_hash(b)));
  clade_graph_release(b);
  b = sample();
  ((toy_attrs *)b->nodes[8].attrs)->real = 0.2f;
  assert_false(clade__hash_equal(clade__graph_hash(a), clade__graph_hash(b)));
  clade_graph_release(b);
  b = sample();
  ((toy_attrs *)b->nodes[8].attrs)->shape.dim[0] = CLADE_DIM("rows");
  assert_false(clade__hash_equal(clade__graph_hash(a), clade__graph_hash(b)));
  clade_graph_release(b);
  clade_graph_release(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_text), cmocka_unit_test(test_drawing),
                                     cmocka_unit_test(test_hash)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
