/* Node order on devices with several programs: topological, effects in built order, and with the minimum number of
 * program changes, compared with exhaustive search on small random graphs. */
#include "toy.h"

#include "pass/pass.h"

enum { NODES = 9, GRAPHS = 400, SETS = 1 << NODES };

static clade_status infer(clade_node *n) {
  n->out[0] = (clade_type){.dtype = CLADE_F32, .shape = CLADE_SHAPE(2)};
  return CLADE_OK;
}
static const clade_op pure = {.size = sizeof(clade_op), .name = "pure", .max_in = 2, .n_out = 1, .infer = infer};
static const clade_op effect = {
    .size = sizeof(clade_op), .name = "effect", .max_in = 2, .n_out = 1, .flags = CLADE_OP_EFFECT, .infer = infer};

static uint32_t seed = 7;
static uint32_t draw(uint32_t below) { return ((seed = seed * 1664525u + 1013904223u) >> 16) % below; }

/* Nodes 1 to NODES; random programs from `any` to below `programs`. */
static clade_graph *random_graph(int programs, int devices, int program[NODES + 1]) {
  clade_graph *g = new_graph();
  clade_val v[NODES + 1] = {{0}};
  for (uint32_t i = 1; i <= NODES; i++) {
    clade_val in[2] = {v[draw(i)], v[draw(i)]};
    if (!in[0].id) in[0] = in[1];
    clade_graph_place(g, (int)draw((uint32_t)devices));
    v[i] = clade_node_add(g, draw(5) ? &pure : &effect, "", NULL, !!in[0].id + (in[0].id && in[1].id), in, NULL);
    program[i] = (int)draw((uint32_t)programs + 1) - 1;
  }
  return g;
}

/* Bit set of a node's operands and, for effects, the preceding ones. */
static unsigned needs_of(const clade_graph *g, clade__id id) {
  const clade__node *n = &g->nodes[id];
  unsigned needs = 0;
  for (int i = 0; i < n->n_in; i++) needs |= 1u << (g->values[n->in[i]].node - 1);
  for (clade__id k = 1; n->op == &effect && k < id; k++)
    if (g->nodes[k].op == &effect) needs |= 1u << (k - 1);
  return needs;
}

static void relax(unsigned char *cell, int changes) {
  if (changes < *cell) *cell = (unsigned char)changes;
}

/* Exhaustive search on one device: minimum for each set of finished nodes, first program and current program. */
static int least(const clade_graph *g, const int *program) {
  static unsigned char at[SETS][4][4]; /* 3: not reached */
  int best = 255;
  memset(at, 255, sizeof at);
  at[0][3][3] = 0;
  for (unsigned done = 0; done < SETS; done++)
    for (int first = 0; first < 4; first++)
      for (int held = 0; held < 4; held++)
        for (clade__id id = 1; id <= NODES && at[done][first][held] < 255; id++) {
          unsigned bit = 1u << (id - 1);
          int p = program[id], changes = at[done][first][held];
          if (done & bit || (needs_of(g, id) & ~done)) continue;
          if (p < 0)
            relax(&at[done | bit][first][held], changes);
          else
            relax(&at[done | bit][first < 3 ? first : p][p], changes + (held < 3 && held != p));
        }
  for (int first = 0; first < 4; first++)
    for (int held = 0; held < 4; held++)
      if (at[SETS - 1][first][held] < 255) best = CLADE_MIN(best, at[SETS - 1][first][held] + (first != held));
  return best;
}

/* Changes per steady-state execution. */
static int changes_of(const clade_graph *g, const int *program, int devices, const clade__id *order) {
  int sum = 0;
  for (int d = 0; d < devices; d++) {
    int first = -1, held = -1;
    for (int i = 0; i < NODES; i++) {
      int p = program[order[i]];
      if (p < 0 || g->nodes[order[i]].device != d) continue;
      sum += held >= 0 && held != p;
      if (first < 0) first = p;
      held = p;
    }
    sum += first != held;
  }
  return sum;
}

static void check(const clade_graph *g, const int *program, int devices, int most, int graph) {
  clade__id order[NODES + 1];
  unsigned done = 0;
  int changes;
  assert_error(clade__order(g, devices, program, order, &changes), CLADE_OK, "");
  for (int i = 0; i < NODES; i++) {
    if (needs_of(g, order[i]) & ~done) fail_msg("graph %d: node %u is too early", graph, (unsigned)order[i]);
    done |= 1u << (order[i] - 1);
  }
  assert_int_equal(done, SETS - 1);
  assert_int_equal(changes, changes_of(g, program, devices, order));
  if (changes > most) fail_msg("graph %d: %d changes, %d are the least", graph, changes, most);
}

static void two_programs(void **state) {
  (void)state;
  int program[NODES + 1];
  for (int k = 0; k < GRAPHS; k++) {
    clade_graph *g = random_graph(2, 1, program);
    check(g, program, 1, least(g, program), k);
    clade_graph_release(g);
  }
}

/* Heuristic: optimal in most cases. */
static void three_programs(void **state) {
  (void)state;
  int program[NODES + 1], more = 0, by = 0;
  for (int k = 0; k < GRAPHS; k++) {
    clade_graph *g = random_graph(3, 1, program);
    clade__id order[NODES + 1];
    int changes, most = least(g, program);
    check(g, program, 1, NODES, k);
    assert_error(clade__order(g, 1, program, order, &changes), CLADE_OK, "");
    more += changes > most;
    by = CLADE_MAX(by, changes - most);
    clade_graph_release(g);
  }
  print_message("%d of %d graphs with more changes than the least, by %d at most\n", more, GRAPHS, by);
  assert_true(more <= GRAPHS / 10 && by <= 1);
}

static void two_devices(void **state) {
  (void)state;
  int program[NODES + 1];
  for (int k = 0; k < GRAPHS; k++) {
    clade_graph *g = random_graph(2, 2, program);
    check(g, program, 2, NODES, k);
    clade_graph_release(g);
  }
}

/* Without programs, nodes keep the built order. */
static void none(void **state) {
  (void)state;
  int program[NODES + 1], changes;
  clade__id order[NODES + 1];
  clade_graph *g = random_graph(0, 1, program);
  assert_error(clade__order(g, 1, program, order, &changes), CLADE_OK, "");
  assert_int_equal(changes, 0);
  for (clade__id i = 0; i < NODES; i++) assert_int_equal(order[i], i + 1);
  clade_graph_release(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(two_programs), cmocka_unit_test(three_programs),
                                     cmocka_unit_test(two_devices), cmocka_unit_test(none)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
