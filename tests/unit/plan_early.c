/* Early computation of variables' new values: as soon as possible, but after all reads of the old value. */
#include "plan_kit.h"

enum { N = 8 };

typedef struct built {
  clade_graph *g;
  clade__id before, update, behind; /* nodes */
} built;

static clade__id node_of(const clade_graph *g, clade_val v) {
  clade__id id;
  OK(clade__graph_value(g, v, "value", &id));
  return g->values[id].node;
}

/* a = a + relu(x), built last; optionally with a later read of a, or an earlier read of a view of it (`viewed`). */
static built build(bool viewed, bool late) {
  built b = {.g = graph_new()};
  clade_val x = clade_relu(b.g, clade_input(b.g, "x", CLADE_F32, CLADE_SHAPE(N)));
  clade_val a = clade_variable(b.g, "a", CLADE_F32, CLADE_SHAPE(N), (clade_initial){0});
  clade_val read = viewed ? clade_flatten(b.g, clade_reshape(b.g, a, CLADE_SHAPE(2, N / 2)), 0) : a;
  clade_val sum = clade_mul(b.g, x, read), y = clade_exp(b.g, sum), step = clade_add(b.g, a, x);
  clade_assign(b.g, a, step);
  clade_output(b.g, "y", late ? clade_mul(b.g, y, a) : y);
  OK(clade_graph_status(b.g));
  b.before = node_of(b.g, sum), b.behind = node_of(b.g, y), b.update = node_of(b.g, step);
  return b;
}

/* Each node occurs once, after its operands. */
static void check(const clade_graph *g, const clade__id *order, size_t *at) {
  for (size_t i = 0; i <= g->n_nodes; i++) at[i] = 0;
  for (size_t i = 0; i + 1 < g->n_nodes; i++) {
    const clade__node *n = &g->nodes[order[i]];
    assert_int_equal(at[order[i]], 0);
    at[order[i]] = i + 1;
    for (int k = 0; k < n->n_in; k++) assert_in_range(at[g->values[n->in[k]].node], 1, i);
  }
}

static void place(bool viewed, bool late, bool early) {
  built b = build(viewed, late);
  clade__id order[64];
  size_t at[64];
  assert_true(b.g->n_nodes < 63);
  OK(clade__early(b.g, NULL, order));
  check(b.g, order, at);
  assert_true(at[b.before] < at[b.update]);
  assert_int_equal(at[b.update] < at[b.behind], early);
  clade_graph_release(b.g);
}

static void test_places(void **state) {
  (void)state;
  place(false, false, true);
  place(true, false, true);
  place(false, true, false);
  place(true, true, false);
}

/* With joined launches, new values wait for their first reader, or the end. */
static void test_late(void **state) {
  const bool joins = true;
  for (int read = 0; read < 2; read++) {
    clade_graph *g = graph_new();
    clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N)), v[2], next[2], y[3];
    for (int i = 0; i < 2; i++) v[i] = clade_variable(g, i ? "b" : "a", CLADE_F32, CLADE_SHAPE(N), (clade_initial){0});
    for (int i = 0; i < 2; i++) {
      y[i] = clade_exp(g, i ? y[0] : x);
      next[i] = clade_add(g, v[i], y[i]);
      clade_assign(g, v[i], next[i]);
    }
    y[2] = clade_exp(g, read ? next[0] : x);
    clade_output(g, "y", y[2]);
    OK(clade_graph_status(g));
    clade__id order[64];
    size_t at[64];
    OK(clade__early(g, &joins, order));
    check(g, order, at);
    for (int i = 0; i < 2; i++) assert_int_equal(at[node_of(g, next[i])] < at[node_of(g, y[2])], read);
    assert_true(at[node_of(g, y[1])] < at[node_of(g, next[0])]);
    assert_true(at[node_of(g, next[0])] < at[node_of(g, next[1])]);
    clade_graph_release(g);
  }
  (void)state;
}

/* With joined launches, casts of variables come first. */
static void test_casts(void **state) {
  (void)state;
  for (int joins = 0; joins < 2; joins++) {
    clade_graph *g = graph_new();
    clade_val a = clade_variable(g, "a", CLADE_F32, CLADE_SHAPE(N), (clade_initial){0});
    clade_val x = clade_exp(g, clade_input(g, "x", CLADE_F16, CLADE_SHAPE(N))), cast = clade_cast(g, a, CLADE_F16);
    clade_output(g, "y", clade_add(g, x, cast));
    clade_assign(g, a, clade_add(g, a, clade_cast(g, x, CLADE_F32)));
    OK(clade_graph_status(g));
    clade__id order[64];
    size_t at[64];
    OK(clade__early(g, joins ? &(bool){true} : NULL, order));
    check(g, order, at);
    assert_int_equal(at[node_of(g, cast)] < at[node_of(g, x)], joins);
    clade_graph_release(g);
  }
}

/* ---- effects ---- */
static clade_status infer(clade_node *n) {
  n->out[0] = n->in[0];
  return CLADE_OK;
}
static const clade_op effect = {.size = sizeof(clade_op),
                                .name = "acme.effect",
                                .flags = CLADE_OP_EFFECT,
                                .min_in = 1,
                                .max_in = 1,
                                .n_out = 1,
                                .infer = infer};

static clade_val affected(clade_graph *g, clade_val x) {
  clade_val y = {0};
  clade_node_add(g, &effect, NULL, NULL, 1, &x, &y);
  return y;
}

/* As in training: gradients one after the other, then an effect on each; `swapped`: the last gradient's effect is
 * built first. Then a = a + the result. */
static void test_effects(void **state) {
  (void)state;
  for (int swapped = 0; swapped < 2; swapped++) {
    clade_graph *g = graph_new();
    clade_val a = clade_variable(g, "a", CLADE_F32, CLADE_SHAPE(N), (clade_initial){0});
    clade_val first = clade_relu(g, clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N))), last = clade_exp(g, first);
    clade_val one = affected(g, swapped ? last : first), other = affected(g, swapped ? first : last);
    clade_val step = clade_add(g, a, one);
    clade_assign(g, a, step);
    clade_output(g, "y", other);
    OK(clade_graph_status(g));
    clade__id order[64];
    size_t at[64];
    OK(clade__early(g, NULL, order));
    check(g, order, at);
    assert_true(at[node_of(g, one)] < at[node_of(g, other)]);
    assert_int_equal(at[node_of(g, one)] < at[node_of(g, last)], !swapped);
    /* A node that waits for an effect delays no other effect. */
    assert_true(at[node_of(g, step)] > at[node_of(g, other)]);
    clade_graph_release(g);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_places), cmocka_unit_test(test_late),
                                     cmocka_unit_test(test_casts), cmocka_unit_test(test_effects)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
