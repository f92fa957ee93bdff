/* Layouts of a network on a hypothetical GPU with Hopper's matrix unit: images flow with channels last, and few are
 * converted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <clade/nn.h>
#include <clade/ops.h>

#include "op/conv/conv.h"
#include "pass/pass.h"

static clade_device_info gpu_of(void) {
  clade_device_info gpu = {.size = sizeof gpu,
                           .name = "gpu",
                           .device_class = CLADE_GPU,
                           .compute_units = 132,
                           .clock_mhz = 1700,
                           .vector_f32 = 1,
                           .max_group = 1024,
                           .max_item = {1024, 1024, 64},
                           .compiler = true,
                           .local_bytes = 48 << 10,
                           .local_static_bytes = 226 << 10,
                           .bandwidth_gbps = 3800,
                           .launch_us = 4,
                           .wait_us = 9,
                           .peak_gflops[CLADE_F32] = 60000};
  gpu.unit[CLADE_UNIT_PTX] = (clade_unit_info){.name = "ptx", .used = true};
  gpu.unit[CLADE_UNIT_WGMMA] = (clade_unit_info){.name = "wgmma", .used = true};
  return gpu;
}

/* ---- a residual network: stem, pooling, bottleneck blocks, mean of pixels, linear layer ---- */
static clade_val layer(clade_graph *g, const char *name, clade_val x, int out, int side, int stride) {
  char norm[32];
  snprintf(norm, sizeof norm, "%s_norm", name);
  clade_val y = clade_nn_conv2d(g, name, x, .out = out, .kernel = {side, side}, .stride = {stride, stride},
                                .pad = {side / 2, side / 2}, .no_bias = true);
  return clade_nn_batch_norm(g, norm, y);
}

static clade_val block(clade_graph *g, int number, clade_val x, int width, int stride, bool widens) {
  char name[4][32];
  for (int i = 0; i < 4; i++) snprintf(name[i], sizeof name[i], "block%d_%d", number, i);
  clade_val h = clade_relu(g, layer(g, name[0], x, width, 1, 1));
  h = clade_relu(g, layer(g, name[1], h, width, 3, stride));
  h = layer(g, name[2], h, 4 * width, 1, 1);
  return clade_relu(g, clade_add(g, h, widens ? layer(g, name[3], x, 4 * width, 1, stride) : x));
}

static clade_graph *network(bool training) {
  static const int depth[] = {3, 4, 6, 3};
  clade_graph *g;
  int number = 0;
  assert_int_equal(clade_graph_new(&g), CLADE_OK);
  clade_graph_train(g, training);
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(64, 3, 224, 224));
  clade_val h = clade_relu(g, layer(g, "stem", x, 64, 7, 2));
  h = clade_max_pool2d(g, h, .kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1});
  for (int stage = 0; stage < 4; stage++)
    for (int i = 0; i < depth[stage]; i++) h = block(g, number++, h, 64 << stage, stage && !i ? 2 : 1, !i);
  h = clade_mean(g, h, .axes = {2, 3}, .n_axes = 2);
  h = clade_nn_linear(g, "head", h, .out = 1000);
  clade_output(g, "y", h);
  assert_int_equal(clade_graph_status(g), CLADE_OK);
  return g;
}

/* ---- */
typedef struct counts {
  int last, convolutions, converted;
} counts;

/* Weights, which are cast and packed once. */
static bool of_variable(const clade_graph *g, clade__id value) {
  const clade__node *n = &g->nodes[g->values[value].node];
  return clade__graph_frozen(g, clade__is_cast(n) ? n->in[0] : value);
}

static counts select_of(clade_graph *g) {
  const clade_device_info gpu = gpu_of();
  clade__pass_ctx ctx = {.graph = clade_graph_retain(g),
                         .n_devices = 1,
                         .devices = &gpu,
                         .fallback = -1,
                         .precision = CLADE_BF16,
                         .brief = true};
  counts c = {0};
  assert_int_equal(clade__passes_generic(&ctx), CLADE_OK);
  assert_int_equal(clade__passes_specific(&ctx), CLADE_OK);
  for (size_t i = 1; i < ctx.graph->n_nodes; i++) {
    const clade__node *n = &ctx.graph->nodes[i];
    const bool convolution = n->op == &clade__op_conv2d || n->op == &clade__op_conv2d_data;
    c.convolutions += convolution;
    c.last += convolution && strstr(n->op->impls[n->impl]->name, "_last");
    c.converted += (n->op == &clade__op_pack || n->op == &clade__op_unpack) && !of_variable(ctx.graph, n->in[0]);
  }
  if (getenv("CLADE_SHOW")) {
    clade__text text = {0};
    clade__explain(&ctx, &text);
    printf("%s\n", text.data);
    clade__text_free(&text);
  }
  clade__free(ctx.casts);
  clade_graph_release(ctx.graph);
  return c;
}

static void inference(void **state) {
  (void)state;
  clade_graph *g = network(false);
  const counts c = select_of(g);
  printf("inference: %d of %d convolutions with channels last, %d conversions\n", c.last, c.convolutions, c.converted);
  assert_int_equal(c.convolutions, 53);
  assert_true(c.last >= 52); /* the stem may keep the order of its images */
  assert_true(c.converted <= 1);
  clade_graph_release(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(inference)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
