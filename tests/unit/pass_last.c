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

enum { BATCH = 48 };

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

/* Gradients of all parameters, subtracted from them. */
static void step(clade_graph *g, clade_val loss) {
  enum { MOST = 256 };
  clade_val w[MOST] = {{0}}, dw[MOST];
  const int n = (int)g->variables.count;
  int parameters = 0;
  for (int i = 0; i < n && parameters < MOST; i++)
    if (g->variables.at[i].parameter) w[parameters++] = clade__graph_val(g, g->variables.at[i].value);
  assert_int_equal(clade_gradients(g, loss, (clade_val){0}, parameters, w, dw), CLADE_OK);
  for (int i = 0; i < parameters; i++) clade_assign(g, w[i], clade_sub(g, w[i], dw[i]));
}

static clade_graph *network(bool training) {
  static const int depth[] = {3, 4, 6, 3};
  clade_graph *g;
  int number = 0;
  assert_int_equal(clade_graph_new(&g), CLADE_OK);
  clade_graph_train(g, training);
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(BATCH, 3, 224, 224));
  clade_val h = clade_relu(g, layer(g, "stem", x, 64, 7, 2));
  h = clade_max_pool2d(g, h, .kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1});
  for (int stage = 0; stage < 4; stage++)
    for (int i = 0; i < depth[stage]; i++) h = block(g, number++, h, 64 << stage, stage && !i ? 2 : 1, !i);
  h = clade_mean(g, h, .axes = {2, 3}, .n_axes = 2);
  h = clade_nn_linear(g, "head", h, .out = 1000);
  if (training) {
    clade_val y = clade_input(g, "labels", CLADE_I32, CLADE_SHAPE(BATCH));
    h = clade_cross_entropy(g, h, y);
    step(g, h);
  }
  clade_output(g, "y", h);
  assert_int_equal(clade_graph_status(g), CLADE_OK);
  return g;
}

/* ---- */
typedef struct counts {
  int last, convolutions, images, weights; /* conversions of images and of weights, except those that are made once */
  double seconds;                          /* by the cost model */
} counts;

/* Weights, which are cast and packed once. */
static bool of_variable(const clade_graph *g, clade__id value) {
  const clade__node *n = &g->nodes[g->values[value].node];
  return clade__graph_frozen(g, clade__is_cast(n) ? n->in[0] : value);
}

static double cost_of(const clade_graph *g, clade__id id, const clade_device_info *gpu) {
  const clade__node *n = &g->nodes[id];
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  clade__node_view(g, id, in, out, &view);
  const clade_query q = {sizeof q, &view, gpu, n->config};
  return clade__impl_cost(n->op->impls[n->impl], &q);
}

static counts select_of(clade_graph *g, const char *prefer) {
  const clade_device_info gpu = gpu_of();
  clade__pass_ctx ctx = {.graph = clade_graph_retain(g),
                         .n_devices = 1,
                         .devices = &gpu,
                         .fallback = -1,
                         .precision = CLADE_BF16,
                         .prefer = prefer,
                         .brief = true};
  counts c = {0};
  assert_int_equal(clade__passes_generic(&ctx), CLADE_OK);
  assert_int_equal(clade__passes_specific(&ctx), CLADE_OK);
  for (size_t i = 1; i < ctx.graph->n_nodes; i++) {
    const clade__node *n = &ctx.graph->nodes[i];
    const bool convolution =
        n->op == &clade__op_conv2d || n->op == &clade__op_conv2d_data || n->op == &clade__op_conv2d_weights;
    c.convolutions += convolution;
    c.last += convolution && strstr(n->op->impls[n->impl]->name, "_last");
    if (!clade__needs_impl(n->op) || (n->n_in == 1 && of_variable(ctx.graph, n->in[0]))) continue;
    c.seconds += cost_of(ctx.graph, (clade__id)i, &gpu);
    if (n->op == &clade__op_pack || n->op == &clade__op_unpack)
      (*(clade__type(ctx.graph, n->in[0])->shape.dim[0] == BATCH ? &c.images : &c.weights))++;
  }
  clade__free(ctx.casts);
  clade_graph_release(ctx.graph);
  return c;
}

static void flows(bool training, int convolutions, int images, int weights) {
  clade_graph *g = network(training);
  const counts last = select_of(g, NULL);
  const counts dense = select_of(g, "conv2d=mma_warpgroup,conv2d_data=mma_warpgroup,conv2d_weights=mma_warpgroup");
  printf(
      "%d of %d convolutions with channels last, %d conversions of images and %d of weights, %.2f ms; dense %.2f ms\n",
      last.last, last.convolutions, last.images, last.weights, 1e3 * last.seconds, 1e3 * dense.seconds);
  assert_int_equal(last.convolutions, convolutions);
  assert_true(last.last >= convolutions - (training ? 2 : 1)); /* the stem may keep the order of its images */
  assert_true(last.images <= images && last.weights <= weights);
  assert_int_equal(dense.last, 0);
  assert_true(last.seconds < dense.seconds);
  clade_graph_release(g);
}

static void inference(void **state) {
  (void)state;
  flows(false, 53, 1, 0);
}

static void training(void **state) {
  (void)state;
  flows(true, 158, 4, 104); /* no derivative by the images */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(inference), cmocka_unit_test(training)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
