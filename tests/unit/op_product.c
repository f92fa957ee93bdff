/* Decisions of `simt` for hypothetical devices: default tile, refusals, and cost relative to `ref`; and when `few`
 * is cheaper. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include <clade/nn.h>
#include <clade/ops.h>

#include "op/product.h"
#include "pass/pass.h"

static const clade_device_info gpu = {.size = sizeof gpu,
                                      .device_class = CLADE_GPU,
                                      .compute_units = 80,
                                      .clock_mhz = 1500,
                                      .vector_f32 = 1,
                                      .max_group = 1024,
                                      .max_item = {1024, 1024, 64},
                                      .local_bytes = 48 << 10};

/* A node of a graph in the form that ops see. */
typedef struct seen {
  clade_graph *graph;
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node node;
} seen;

static void see(seen *s, const char *op) {
  for (size_t i = 0; i < s->graph->n_nodes; i++) {
    if (!s->graph->nodes[i].op || strcmp(s->graph->nodes[i].op->name, op) != 0) continue;
    clade__node_view(s->graph, (clade__id)i, s->in, s->out, &s->node);
    return;
  }
  fail_msg("the graph has no %s", op);
}

static clade_graph *convolution(int64_t channels, int64_t side, int groups) {
  clade_graph *g = NULL;
  clade_val d[2];
  assert_int_equal(clade_graph_new(&g), CLADE_OK);
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(8, channels, side, side));
  clade_val w = clade_input(g, "w", CLADE_F32, CLADE_SHAPE(channels, channels / groups, 3, 3));
  clade_val y = clade_conv2d(g, x, w, .pad = {1, 1}, .groups = groups);
  clade_val dy = clade_input(g, "dy", CLADE_F32, CLADE_SHAPE(8, channels, side, side));
  assert_int_equal(clade_gradients(g, y, dy, 2, (clade_val[]){x, w}, d), CLADE_OK);
  return g;
}

static const clade_impl *named(const clade_op *op, const char *name) {
  const clade_impl *const *impl = op->impls;
  while (*impl && strcmp((*impl)->name, name) != 0) impl++;
  assert_non_null(*impl);
  return *impl;
}

/* Returns NULL or simt's refusal, with its configuration and its cost relative to ref. */
static const char *ask(const seen *s, const clade_device_info *device, int32_t *config, double *ratio) {
  clade_query q = {sizeof q, &s->node, device, NULL}, plain = q;
  const clade_impl *simt = named(s->node.op, "simt"), *ref = named(s->node.op, "ref");
  clade__query_defaults(&q, simt, config);
  const char *reason = clade__impl_unfit(simt, &q);
  *ratio = reason ? 0 : simt->cost(&q) / ref->cost(&plain);
  return reason;
}

static const char *const passes[] = {"conv2d", "conv2d_data", "conv2d_weights"};

static void taken_on_gpus_alone(void **state) {
  (void)state;
  clade_device_info software = gpu, cpu = gpu;
  seen s = {.graph = convolution(64, 28, 1)};
  int32_t config[CLADE_MAX_PARAMS];
  double ratio;
  software.software = true;
  cpu.device_class = CLADE_CPU;
  for (int i = 0; i < 3; i++) {
    see(&s, passes[i]);
    assert_null(ask(&s, &gpu, config, &ratio));
    assert_true(ratio < 0.5);
    assert_string_equal(ask(&s, &software, config, &ratio), "requires a device that is not emulated on a CPU");
    assert_string_equal(ask(&s, &cpu, config, &ratio), "made for GPUs and accelerators");
  }
  clade_graph_release(s.graph);
}

/* One row per group: a tile would waste all rows but one. */
static void depthwise_is_left_to_ref(void **state) {
  (void)state;
  seen s = {.graph = convolution(64, 28, 64)};
  int32_t config[CLADE_MAX_PARAMS];
  double ratio;
  for (int i = 0; i < 3; i++) {
    see(&s, passes[i]);
    assert_null(ask(&s, &gpu, config, &ratio));
    assert_true(ratio > 1);
  }
  clade_graph_release(s.graph);
}

static void small_devices(void **state) {
  (void)state;
  static const struct {
    uint64_t group, local;
    const char *refusal;
  } cases[] = {{256, 16 << 10, NULL},
               {64, 16 << 10, NULL},
               {16, 4 << 10, NULL},
               {8, 16 << 10, "the device's groups have fewer work-items than a tile needs"},
               {256, 1 << 10, "needs 3584 bytes of local memory; the device has 1024"}};
  seen s = {.graph = convolution(64, 28, 1)};
  for (size_t i = 0; i < CLADE_COUNT(cases); i++)
    for (int k = 0; k < 3; k++) {
      clade_device_info device = gpu;
      int32_t config[CLADE_MAX_PARAMS];
      double ratio;
      device.max_group = cases[i].group;
      device.local_bytes = cases[i].local;
      see(&s, passes[k]);
      const char *reason = ask(&s, &device, config, &ratio);
      if (!cases[i].refusal != !reason || (reason && strcmp(reason, cases[i].refusal) != 0))
        fail_msg("groups of %d, %d bytes: %s", (int)cases[i].group, (int)cases[i].local, reason);
    }
  clade_graph_release(s.graph);
}

/* More compute units give smaller tiles; split-K does not depend on them. */
static void tiles_fill_the_units(void **state) {
  (void)state;
  clade_device_info few = gpu, many = gpu;
  seen s = {.graph = convolution(128, 14, 1)};
  int32_t large[CLADE_MAX_PARAMS], small[CLADE_MAX_PARAMS];
  double ratio;
  few.compute_units = 1;
  many.compute_units = 120;
  see(&s, "conv2d");
  assert_null(ask(&s, &few, large, &ratio));
  assert_null(ask(&s, &many, small, &ratio));
  assert_true(large[0] * large[1] > small[0] * small[1]);
  see(&s, "conv2d_weights");
  const clade_impl *simt = named(s.node.op, "simt");
  assert_null(ask(&s, &few, large, &ratio));
  assert_null(ask(&s, &gpu, small, &ratio));
  const clade_query a = {sizeof a, &s.node, &few, large}, b = {sizeof b, &s.node, &gpu, small};
  assert_true(simt->workspace(&a) > 0);
  assert_true(simt->workspace(&a) == simt->workspace(&b));
  clade_graph_release(s.graph);
}

/* Parts cover the inner axis, none is empty, and only products with few tiles have several. */
static void parts_of_the_inner_axis(void **state) {
  (void)state;
  static const struct {
    clade__matmul whole;
    int64_t n, span;
  } cases[] = {{{64, 64, 4096, 1}, 16, 256},  {{1, 1, 1000, 1}, 3, 384},        {{64, 64, 511, 1}, 1, 512},
               {{65, 64, 4096, 20}, 3, 1408}, {{4096, 4096, 4096, 1}, 1, 4096}, {{64, 64, 0, 1}, 1, 64}};
  for (size_t i = 0; i < CLADE_COUNT(cases); i++) {
    const clade__parts p = clade__parts_of(&cases[i].whole);
    assert_int_equal(p.n, cases[i].n);
    assert_int_equal(p.span, cases[i].span);
    assert_int_equal(p.each.matrices, cases[i].whole.matrices * p.n);
    assert_int_equal(clade__parts_bytes(&p, 10), p.n > 1 ? 40 * p.n : 0);
  }
  for (int64_t k = 1; k < 9000; k++) {
    const clade__parts p = clade__parts_of(&(clade__matmul){.m = 100, .n = 100, .k = k, .matrices = 1});
    assert_true((p.n - 1) * p.span < k && k <= p.n * p.span && p.each.k <= p.span);
  }
}

static clade_graph *product(int64_t m, int64_t k, int64_t n, bool along) {
  clade_graph *g = NULL;
  assert_int_equal(clade_graph_new(&g), CLADE_OK);
  clade_val a = clade_input(g, "a", CLADE_F32, CLADE_SHAPE(m, k));
  clade_val b = clade_input(g, "b", CLADE_F32, along ? CLADE_SHAPE(n, k) : CLADE_SHAPE(k, n));
  clade_gemm(g, a, b, .trans_b = along);
  assert_int_equal(clade_graph_status(g), CLADE_OK);
  return g;
}

static double seconds(const clade_impl *impl, const seen *s, const clade_device_info *device) {
  int32_t config[CLADE_MAX_PARAMS];
  clade_query q = {sizeof q, &s->node, device, NULL};
  if (impl->space) clade__query_defaults(&q, impl, config);
  return clade__impl_unfit(impl, &q) ? INFINITY : impl->cost(&q);
}

/* Products with few rows or columns select `few` for any layout of the other operand, with the cost of reading it;
 * the number of parts does not depend on the device. */
static void few_rows(void **state) {
  (void)state;
  static const struct {
    int64_t m, k, n;
    bool along, taken, cut;
  } cases[] = {{1, 4096, 4096, true, true, false},  {1, 4096, 4096, false, true, true},
               {8, 4096, 11008, true, true, false}, {4096, 4096, 3, false, true, false},
               {16, 2048, 1000, true, true, false}, {17, 4096, 4096, true, false, false},
               {1, 1 << 20, 1, true, true, true},   {4, 64, 4096, false, true, false}};
  clade_device_info fast = gpu, units = gpu, small = gpu;
  fast.peak_gflops[CLADE_F32] = 60000, fast.bandwidth_gbps = 4000, fast.launch_us = 4;
  units.compute_units = 8;
  small.max_group = 128;
  for (size_t i = 0; i < CLADE_COUNT(cases); i++) {
    seen s = {.graph = product(cases[i].m, cases[i].k, cases[i].n, cases[i].along)};
    see(&s, "gemm");
    const clade_impl *few = named(s.node.op, "few"), *simt = named(s.node.op, "simt");
    const clade_query q = {sizeof q, &s.node, &gpu, NULL}, other = {sizeof q, &s.node, &units, NULL};
    assert_int_equal(seconds(few, &s, &gpu) < seconds(simt, &s, &gpu), cases[i].taken);
    assert_int_equal(seconds(few, &s, &fast) < seconds(simt, &s, &fast), cases[i].taken);
    assert_true(isinf(seconds(few, &s, &small)));
    if (cases[i].taken) {
      const double read = clade__node_bytes(&s.node) / 4000e9 + 4e-6;
      assert_true(seconds(few, &s, &fast) >= read && seconds(few, &s, &fast) < 1.2 * read);
      assert_int_equal(few->workspace(&q) > 0, cases[i].cut);
      assert_int_equal(few->workspace(&q), few->workspace(&other));
    }
    clade_graph_release(s.graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(taken_on_gpus_alone),     cmocka_unit_test(depthwise_is_left_to_ref),
      cmocka_unit_test(small_devices),           cmocka_unit_test(tiles_fill_the_units),
      cmocka_unit_test(parts_of_the_inner_axis), cmocka_unit_test(few_rows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
