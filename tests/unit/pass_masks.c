/* ReLU's derivative behind that of max_pool2d: moved before it where equivalent. */
#include <math.h>

#include "base/base.h"
#include "pass/pass.h"
#include "plan_kit.h"

enum { N = 2, C = 3, H = 9, W = 11, PIXELS = N * C * H * W };

static clade_device_info device = {.size = sizeof(clade_device_info), .name = "one"};

typedef struct sample {
  bool shared;  /* ReLU's result has another user with a gradient */
  bool shifted; /* another node lies between */
} sample;

/* Gradient of x for a weighted sum of maxima. */
static clade_graph *graph_of(sample s) {
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N, C, H, W)), dx;
  clade_val r = clade_relu(g, x);
  clade_val pooled =
      clade_max_pool2d(g, s.shifted ? clade_neg(g, r) : r, .kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1});
  clade_val weights = clade_input(g, "weights", CLADE_F32, CLADE_SHAPE(N, C, (H + 1) / 2, (W + 1) / 2));
  clade_val y = clade_sum(g, clade_mul(g, pooled, weights));
  if (s.shared) y = clade_add(g, y, clade_sum(g, clade_mul(g, r, r)));
  OK(clade_gradients(g, y, (clade_val){0}, 1, &x, &dx));
  clade_output(g, "dx", dx);
  return g;
}

/* Number of elements of the nodes that compute ReLU's derivative. */
static int64_t masked(sample s) {
  clade_graph *g = graph_of(s);
  clade__pass_ctx ctx = {.graph = g, .n_devices = 1, .devices = &device, .fallback = -1};
  int64_t all = 0, n;
  OK(clade_graph_status(g));
  OK(clade__pass_masks(&ctx));
  OK(clade__pass_dead(&ctx));
  for (clade__id id = 1; id < ctx.graph->n_nodes; id++) {
    const clade__node *node = &ctx.graph->nodes[id];
    if (node->op != &clade__op_eltwise || !((const clade__eltwise_attrs *)node->attrs)->program.insn[0].wrt) continue;
    OK(clade_shape_elements(&clade__type(ctx.graph, node->first_out)->shape, &n));
    all += n;
  }
  clade_graph_release(ctx.graph);
  return all;
}

static void test_moved(void **state) {
  (void)state;
  assert_int_equal(masked((sample){0}), N * C * ((H + 1) / 2) * ((W + 1) / 2));
  assert_int_equal(masked((sample){.shared = true}), PIXELS);
  assert_int_equal(masked((sample){.shifted = true}), PIXELS);
}

static void derive(clade_device *on, bool plain, const float *x, const float *weights, size_t bytes, float *dx) {
  clade_graph *g = graph_of((sample){0});
  clade_func *func;
  clade_run *run;
  clade_ticket ticket;
  OK(clade_compile(g, on, &func, .no_fusion = plain));
  OK(clade_run_new(func, NULL, &run));
  OK(clade_execute(run, CLADE_FEEDS({"x", x, PIXELS * sizeof *x, NULL}, {"weights", weights, bytes, NULL}), &ticket));
  OK(clade_read(run, ticket, "dx", dx, PIXELS * sizeof *dx));
  clade_run_free(run);
  clade_func_release(func);
  clade_graph_release(g);
}

/* Windows without positive values, with ties, an infinity, and NaN. */
static void test_numbers(void **state) {
  (void)state;
  float x[PIXELS], weights[PIXELS], have[PIXELS], want[PIXELS];
  clade_device *on;
  const size_t bytes = N * C * ((H + 1) / 2) * ((W + 1) / 2) * sizeof *weights;
  for (int i = 0; i < PIXELS; i++) x[i] = (float)(i * 37 % 19 - 12), weights[i] = (float)(i % 7) - 2.75f;
  for (int i = 0; i < 3 * W; i++) x[i] = i % 2 ? -0.0f : 0.0f;
  x[5 * W + 3] = NAN, x[7 * W + 8] = INFINITY, x[PIXELS - 1] = -INFINITY, weights[9] = INFINITY;
  OK(clade_device_find(NULL, &on));
  derive(on, true, x, weights, bytes, want);
  derive(on, false, x, weights, bytes, have);
  clade_device_release(on);
  for (int i = 0; i < PIXELS; i++) /* zeros may differ in sign */
    if (!(have[i] == want[i] || (isnan(have[i]) && isnan(want[i]))))
      fail_msg("of pixel %d: %g, without the pass %g", i, (double)have[i], (double)want[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_moved), cmocka_unit_test(test_numbers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
