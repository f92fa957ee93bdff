/* Building, differentiating and passes are linear in the size of the graph: 5,000 nodes against eight times as many,
 * or a tenth of that under sanitizers. */
#include "toy.h"

#include <stdio.h>
#include <time.h>

#include <clade/ops.h>

#include "pass/pass.h"

#ifdef CLADE_ASAN
enum { NODES = 500 };
#else
enum { NODES = 5000 };
#endif
enum { MORE = 8, TURNS = 9 };

static double seconds(void) { /* CPU time, since other processes share the machine */
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Layers of eight nodes: a product, its successors, a residual, and a common subexpression. */
static clade_graph *build(size_t nodes) {
  clade_graph *g = new_graph();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(CLADE_DIM("batch"), 4)), y = x;
  while (g->n_nodes < nodes) {
    char name[32];
    snprintf(name, sizeof name, "w%zu", g->n_nodes);
    clade_val w = clade_variable(g, name, CLADE_F32, CLADE_SHAPE(4, 4), (clade_initial){CLADE_INIT_NORMAL, 0, 1});
    clade_val h = clade_relu(g, clade_gemm(g, y, w, .bias = clade_fill(g, CLADE_F32, CLADE_SHAPE(4), 0.5)));
    y = clade_mul(g, clade_add(g, y, h), clade_add(g, y, h));
  }
  clade_output(g, "y", y);
  clade_output(g, "x", x);
  return g;
}

static void pass(clade_graph *g) {
  static const clade_device_info device = {.size = sizeof device, .name = "first", .vector_f32 = 8, .compute_units = 2};
  clade__pass_ctx ctx = {.graph = g, .n_devices = 1, .devices = &device};
  clade_graph *bound;
  assert_error(clade__passes_generic(&ctx), CLADE_OK, "");
  assert_error(clade__graph_bind(ctx.graph, CLADE_DIMS({"batch", 16}), &bound), CLADE_OK, "");
  clade_graph_release(ctx.graph);
  ctx.graph = bound;
  assert_error(clade__passes_specific(&ctx), CLADE_OK, "");
  clade_graph_release(ctx.graph);
}

static double once(size_t nodes, bool derive) {
  double start = seconds();
  clade_graph *g = build(nodes);
  if (derive) {
    clade_val x = clade__graph_val(g, g->inputs.at[0].value), y = clade__graph_val(g, g->outputs.at[0].value), dx;
    assert_error(clade_gradients(g, y, (clade_val){0}, 1, &x, &dx), CLADE_OK, "");
    clade_output(g, "dx", dx);
  }
  pass(g);
  return seconds() - start;
}

/* Minimum of several runs, since interference affects the large graph more. Linear time takes 8 times as long, up to
 * twice that when a cache is exceeded; quadratic time, 64 times. */
static void test_linear(void **state) {
  (void)state;
  for (int derive = 0; derive < 2; derive++) {
    double few = 1e9, many = 1e9;
    for (int turn = 0; turn < TURNS && (turn < 2 || many > 3 * MORE * few); turn++) {
      few = CLADE_MIN(few, once(NODES, derive));
      many = CLADE_MIN(many, once(MORE * NODES, derive));
    }
    print_message("%s%d nodes: %.3f s, %d times as many: %.3f s\n", derive ? "derived, " : "", NODES, few, MORE, many);
    assert_true(many <= 3 * MORE * few);
    assert_true(few <= 1);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_linear)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
