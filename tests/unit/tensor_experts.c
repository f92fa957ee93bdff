/* Mixtures of experts of which several ranks compute parts: experts alone, and among tokens of which each rank has some
 * groups, so that what experts take and give travels all-to-all. */
#include "tensor_kit.h"

enum { GROUPS = 4, TOKENS = 6, WIDTH = 8, EXPERTS = 4 };

static void mixture(tk_model *m, int top, bool groups) {
  clade_graph *g = m->g;
  clade_val uneven = {0};
  clade_val x = clade_nn_linear(g, "in", tk_floats(m, "x", CLADE_SHAPE(GROUPS, TOKENS, WIDTH)), .out = WIDTH);
  if (groups) clade_graph_split(g, x, 0);
  const clade_val y = clade_nn_experts(g, "moe", x, .experts = EXPERTS, .hidden = 64, .top = top, .balance = &uneven);
  x = clade_nn_linear(g, "out", clade_add(g, x, y), .out = WIDTH);
  const clade_val loss =
      clade_mean(g, clade_square(g, clade_sub(g, x, tk_floats(m, "y", CLADE_SHAPE(GROUPS, TOKENS, WIDTH)))));
  clade_output(g, "loss", clade_add(g, loss, clade_mul(g, uneven, clade_fill(g, CLADE_F32, CLADE_SCALAR, 0.01))));
}

static void one(tk_model *m) { mixture(m, 1, false); }
static void two(tk_model *m) { mixture(m, 2, false); }
static void one_of_groups(tk_model *m) { mixture(m, 1, true); }
static void two_of_groups(tk_model *m) { mixture(m, 2, true); }

static void experts(void **state) {
  for (int ranks = 2; ranks <= 4; ranks++) {
    int parts;
    tk_compare(*state, one, &(tk_options){.ranks = ranks, .steps = 20}, NULL, &parts);
    assert_true(parts >= 4);
    tk_compare(*state, two, &(tk_options){.ranks = ranks, .steps = 20}, NULL, NULL);
  }
}

static void all_to_all(void **state) {
  for (int ranks = 2; ranks <= 4; ranks++) {
    const tk_options o = {.ranks = ranks, .steps = 20, .link = true, .expect = "all-to-all"};
    int parts;
    tk_compare(*state, one_of_groups, &o, NULL, &parts);
    assert_true(parts >= 4);
    tk_compare(*state, two_of_groups, &o, NULL, NULL);
  }
}

int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(experts), cmocka_unit_test(all_to_all)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}
