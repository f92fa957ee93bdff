/* Copying graphs, specialization, use counts, and composition of elementwise programs. */
#include "toy.h"

/* ---- copying ---- */
static clade_graph *sample(void) {
  clade_graph *g = new_graph();
  const float data[4] = {1, 2, 3, 4};
  clade_val c = clade_constant(g, CLADE_F32, CLADE_SHAPE(4), data);
  clade_val w = clade_variable(g, "w", CLADE_F32, CLADE_SHAPE(4), (clade_initial){CLADE_INIT_NORMAL, 0, 2});
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(4)), y = toy2(g, "y", x, c);
  clade_assign(g, w, toy2(g, NULL, w, y));
  clade_output(g, "y", y);
  clade_output(g, "y2", y);
  return g;
}

static void test_copy(void **state) {
  (void)state;
  clade_graph *g = sample(), *copy = NULL;
  char *text = NULL, *again = NULL;
  assert_int_equal(clade_graph_print(g, CLADE_PRINT_TEXT, &text), CLADE_OK);
  const clade__hash before = clade__graph_hash(g);
  assert_int_equal(clade__graph_rewrite(g, NULL, NULL, &copy), CLADE_OK);
  const float *data = ((const clade__constant_attrs *)g->nodes[1].attrs)->data;
  assert_ptr_equal(((const clade__constant_attrs *)copy->nodes[1].attrs)->data, data); /* shared */
  clade_graph_release(g);
  assert_int_equal(clade_graph_print(copy, CLADE_PRINT_TEXT, &again), CLADE_OK);
  assert_string_equal(again, text);
  assert_true(clade__hash_equal(before, clade__graph_hash(copy)));
  assert_true(data[3] == 4 && copy->serial != 0);
  clade_text_free(text);
  clade_text_free(again);
  clade_graph_release(copy);
}

static void test_uses(void **state) {
  (void)state;
  clade_graph *g = sample();
  uint32_t *uses;
  assert_int_equal(clade__graph_uses(g, &uses), CLADE_OK);
  const uint32_t want[] = {0, 1, 1, 1, 3, 1}; /* c, w, x, y, next */
  assert_int_equal(g->n_values, CLADE_COUNT(want));
  for (size_t i = 1; i < CLADE_COUNT(want); i++) assert_int_equal(uses[i], want[i]);
  clade__free(uses);
  clade_graph_release(g);
}

/* A rewrite may change an assign's value and drop unused nodes, but not used ones. */
static clade_status twice(void *user, const clade_graph *old, clade__id node, clade_graph *g, clade__id *map) {
  const clade__node *n = &old->nodes[node];
  const char *drop = user;
  clade__id in[2], id;
  if (drop && strcmp(n->name, drop) == 0) return CLADE_OK;
  if (n->op != &clade__op_assign) return clade__node_copy(old, node, g, map);
  in[0] = in[1] = map[n->in[1]];
  CLADE_TRY(clade__node_new(g, &toy, "twice", NULL, 2, in, &id));
  in[0] = map[n->in[0]], in[1] = g->nodes[id].first_out;
  return clade__node_new(g, &clade__op_assign, n->name, NULL, 2, in, &id);
}

static void test_change(void **state) {
  (void)state;
  clade_graph *g = sample(), *next = NULL;
  assert_error(clade__graph_rewrite(g, twice, NULL, &next), CLADE_OK, "");
  clade__id assigned = next->variables.at[0].assigned;
  assert_string_equal(next->nodes[next->values[assigned].node].name, "twice");
  clade_graph_release(next);
  assert_error(clade__graph_rewrite(g, twice, "y", &next), CLADE_INTERNAL, "toy: operand 1 was dropped");
  assert_null(next);
  clade_graph_release(g);
  g = new_graph();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(4));
  clade_output(g, "out", toy1(g, "y", x));
  assert_error(clade__graph_rewrite(g, twice, "y", &next), CLADE_INTERNAL, "output \"out\" was dropped");
  clade_input(g, "x", CLADE_F32, CLADE_SHAPE(4));
  assert_error(clade__graph_rewrite(g, NULL, NULL, &next), CLADE_DUPLICATE, "another input");
  clade_graph_release(g);
}

/* ---- specialization ---- */
static clade_graph *symbolic(void) {
  clade_graph *g = new_graph();
  clade_dim batch = CLADE_DIM("batch"), length = CLADE_DIM("length");
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(batch, length));
  toy_attrs attrs;
  memset(&attrs, 0, sizeof attrs);
  attrs.shape =
      CLADE_SHAPE(clade_dim_mul(batch, length), clade_dim_div(clade_dim_sub(length, 1), 2), clade_dim_add(batch, 3));
  clade_output(g, "y", toy1(g, NULL, clade_node_add(g, &toy_shaped, NULL, &attrs, 1, &x, NULL)));
  clade_fill(g, CLADE_F32, CLADE_SHAPE(batch), 1);
  assert_int_equal(clade_graph_status(g), CLADE_OK);
  return g;
}

static void test_bind(void **state) {
  (void)state;
  clade_graph *g = symbolic(), *bound = NULL;
  assert_error(clade__graph_bind(g, CLADE_DIMS({"length", 9}, {"batch", 4}), &bound), CLADE_OK, "");
  assert_prints(bound, "graph {\n"
                       "  %1 = input \"x\" : f32[4, 9]\n"
                       "  %2 = toy.shaped (%1) {shape=[36, 4, 7]} : f32[36, 4, 7]\n"
                       "  %3 = toy (%2) : f32[36, 4, 7]\n"
                       "  %4 = constant fill=1 : f32[4]\n"
                       "  output \"y\" (%3)\n"
                       "}\n");
  clade_graph_release(bound);
  assert_error(clade__graph_bind(g, CLADE_DIMS({"batch", 4}), &bound), CLADE_NOT_FOUND,
               "dimension \"length\" has no value");
  assert_null(bound);
  assert_error(clade__graph_bind(g, CLADE_DIMS({"batch", 4}, {"length", 2}, {"depth", 1}), &bound), CLADE_NOT_FOUND,
               "the graph has no dimension \"depth\"; it has: batch, length");
  assert_error(clade__graph_bind(g, CLADE_DIMS({"batch", 4}, {"length", 2}, {"batch", 4}), &bound), CLADE_DUPLICATE,
               "dimension \"batch\" has two values");
  assert_error(clade__graph_bind(g, CLADE_DIMS({"batch", -1}, {"length", 2}), &bound), CLADE_INVALID,
               "\"batch\" is -1: a size is expected");
  assert_error(clade__graph_bind(g, CLADE_DIMS({NULL, 1}), &bound), CLADE_INVALID, "is NULL");
  assert_error(clade__graph_bind(g, 2, NULL, &bound), CLADE_INVALID, "dims is NULL");
  assert_error(clade__graph_bind(g, CLADE_DIMS({"batch", 4}, {"length", 0}), &bound), CLADE_BAD_SHAPE,
               "is 0-1: no size");
  assert_error(clade__graph_bind(g, CLADE_DIMS({"batch", INT64_MAX}, {"length", 2}), &bound), CLADE_OVERFLOW, "");
  clade_graph_release(g);
  g = sample();
  assert_error(clade__graph_bind(g, 0, NULL, &bound), CLADE_OK, "");
  clade_graph_release(bound);
  assert_error(clade__graph_bind(g, CLADE_DIMS({"batch", 1}), &bound), CLADE_NOT_FOUND, "it has: none");
  clade_graph_release(g);
}

/* ---- programs ---- */
static void test_compose(void **state) {
  (void)state;
  /* outer: f9(i0, i1), inner: f8(f7(i0), i1) */
  clade__elt outer = {.n_in = 2, .n_insn = 1, .in_dtype = {1, 2}, .insn = {{.fn = 9, .arg = {0, 1}}}};
  clade__elt inner = {
      .n_in = 2, .n_insn = 2, .in_dtype = {3, 4}, .insn = {{.fn = 7, .arg = {0}}, {.fn = 8, .arg = {2, 1}}}};
  clade__elt out;
  uint8_t map[CLADE__ELT_INPUTS];
  assert_true(clade__elt_compose(&outer, 1, &inner, &out, map));
  assert_true(out.n_in == 3 && out.n_insn == 3);
  assert_true(map[0] == 8 && map[1] == 9 && map[2] == 0); /* inner inputs come first */
  assert_true(out.in_dtype[0] == 3 && out.in_dtype[1] == 4 && out.in_dtype[2] == 1);
  assert_true(out.insn[0].fn == 7 && out.insn[0].arg[0] == 0);
  assert_true(out.insn[1].fn == 8 && out.insn[1].arg[0] == 3 && out.insn[1].arg[1] == 1);
  assert_true(out.insn[2].fn == 9 && out.insn[2].arg[0] == 2 && out.insn[2].arg[1] == 4);
  /* into an empty epilogue */
  clade__elt none = {.n_in = 1, .in_dtype = {1}};
  assert_true(clade__elt_compose(&outer, 1, &none, &out, map));
  assert_true(out.n_in == 2 && out.n_insn == 1 && map[0] == 8 && map[1] == 0);
  assert_true(out.insn[0].arg[0] == 1 && out.insn[0].arg[1] == 0);
  /* from an empty program: the result is inner's */
  assert_true(clade__elt_compose(&none, 0, &inner, &out, map));
  assert_true(out.n_in == 2 && out.n_insn == 2 && out.insn[1].arg[0] == 2);
  assert_false(clade__elt_compose(&outer, 2, &inner, &out, map));
  assert_false(clade__elt_compose(&outer, -1, &inner, &out, map));
  outer.n_insn = 7;
  assert_false(clade__elt_compose(&outer, 0, &inner, &out, map)); /* nine instructions */
  outer.n_insn = 1, outer.n_in = 8;
  assert_false(clade__elt_compose(&outer, 0, &inner, &out, map)); /* nine inputs */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_copy), cmocka_unit_test(test_uses),
                                     cmocka_unit_test(test_change), cmocka_unit_test(test_bind),
                                     cmocka_unit_test(test_compose)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
