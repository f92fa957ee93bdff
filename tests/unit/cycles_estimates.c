/* Cost estimates of bundle implementations against the cycle model's range: layers of LeNet-5 and ResNet-18,
 * products of other shapes and streams, on arrays of several sizes. */
#include <stdio.h>

#include "toy.h"

#include <clade/nn.h>
#include <clade/ops.h>

#include "model/cycles.h"
#include "pass/pass.h"

static const struct layer {
  int64_t batch, channels, size, filters, kernel;
  int stride, pad;
} layers[] = {{1, 1, 28, 6, 5, 1, 2},      {64, 1, 28, 6, 5, 1, 2},    {64, 6, 14, 16, 5, 1, 0},
              {1, 3, 32, 64, 3, 1, 1},     {1, 64, 32, 64, 3, 1, 1},   {8, 64, 32, 128, 3, 2, 1},
              {8, 64, 32, 128, 1, 2, 0},   {1, 128, 16, 128, 3, 1, 1}, {1, 256, 8, 512, 3, 2, 1},
              {1, 512, 4, 512, 3, 1, 1},   {1, 3, 224, 64, 7, 2, 3},   {1, 64, 56, 64, 3, 1, 1},
              {1, 256, 14, 1024, 1, 1, 0}, {2, 16, 9, 5, 3, 1, 1}};
static const struct product {
  int64_t batch, m, n, k;
} products[] = {{1, 1, 10, 84},     {1, 64, 120, 400}, {1, 64, 10, 84},  {1, 512, 512, 512},
                {1, 1000, 1, 512},  {1, 1, 1000, 512}, {4, 128, 64, 32}, {1, 2048, 2048, 2048},
                {16, 197, 197, 64}, {1, 7, 5, 3},      {1, 64, 4096, 64}};

static const char *const kernels[] = {"array_f32", "eltwise", NULL};
static const struct array {
  uint32_t rows, columns, tile_rows, tile_columns;
  double mhz, gbs;
} arrays[] = {{8, 8, 64, 64, 200, 12.8}, {8, 8, 64, 64, 300, 1}, {16, 4, 64, 64, 150, 34}, {4, 8, 32, 32, 250, 20}};

static cycles_device device_of(const struct array *a) {
  char json[512];
  cycles_device d;
  snprintf(json, sizeof json,
           "{\"format\":1,\"name\":\"d\",\"kind\":\"clade\",\"fmax_mhz\":{\"value\":%g,\"source\":\"routed\"},"
           "\"rows\":%u,\"columns\":%u,\"tile_rows\":%u,\"tile_columns\":%u,\"element_bytes\":4,\"bandwidth_gbs\":%g}",
           a->mhz, a->rows, a->columns, a->tile_rows, a->tile_columns, a->gbs);
  assert_error(cycles_device_parse("d", json, strlen(json), &d), CLADE_OK, "");
  return d;
}

/* For the graph's last node, without launch time, which the model excludes. */
static double estimate(const clade_graph *g, const struct array *a) {
  const clade_device_info info = {.size = sizeof info,
                                  .name = "d",
                                  .kernels = kernels,
                                  .array = {.rows = a->rows,
                                            .columns = a->columns,
                                            .tile_rows = a->tile_rows,
                                            .tile_columns = a->tile_columns,
                                            .mhz = a->mhz,
                                            .gbs = a->gbs}};
  const clade__pass_ctx ctx = {.n_devices = 1, .devices = &info, .fallback = -1};
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  clade__node_view(g, (clade__id)g->n_nodes - 1, in, out, &view);
  double seconds = 0;
  assert_non_null(clade__least_impl(&ctx, &view, 0, &seconds));
  assert_true(seconds > 0);
  return seconds - 2e-5;
}

static void compare(clade_graph *g, const cycles_work *work, const char *what, size_t which) {
  for (size_t i = 0; i < CLADE_COUNT(arrays); i++) {
    cycles_device d = device_of(&arrays[i]);
    cycles_estimate e;
    assert_error(cycles_of(&d, &(cycles_call){.works = work, .n = 1}, &e), CLADE_OK, "");
    double seconds = estimate(g, &arrays[i]);
    if (seconds < e.low || seconds > e.high)
      fail_msg("%s %zu on array %zu: %g s, the model says %g to %g", what, which, i, seconds, e.low, e.high);
    cycles_device_free(&d);
  }
  clade_graph_release(g);
}

static clade_val input(clade_graph *g, const char *name, clade_shape shape) {
  return clade_input(g, name, CLADE_F32, shape);
}

static void convolutions(void **state) {
  (void)state;
  for (size_t i = 0; i < CLADE_COUNT(layers); i++) {
    const struct layer *l = &layers[i];
    clade_graph *g = new_graph();
    int64_t out = (l->size + 2 * l->pad - l->kernel) / l->stride + 1;
    clade_val x = input(g, "x", CLADE_SHAPE(l->batch, l->channels, l->size, l->size));
    clade_val w = input(g, "w", CLADE_SHAPE(l->filters, l->channels, l->kernel, l->kernel));
    clade_val y = clade_conv2d(g, x, w, .stride = {l->stride, l->stride}, .pad = {l->pad, l->pad});
    assert_true(clade_val_ok(y));
    const cycles_work work = {.kind = CYCLES_CONV,
                              .conv = {l->batch, 1, l->channels, l->size, l->size, l->filters, out, out, l->kernel,
                                       l->kernel, l->stride, l->stride, l->pad, l->pad}};
    compare(g, &work, "convolution", i);
  }
}

static void matrices(void **state) {
  (void)state;
  for (size_t i = 0; i < CLADE_COUNT(products); i++) {
    const struct product *p = &products[i];
    clade_graph *g = new_graph();
    clade_gemm(g, input(g, "a", CLADE_SHAPE(p->batch, p->m, p->k)), input(g, "b", CLADE_SHAPE(p->batch, p->k, p->n)));
    compare(g, &(cycles_work){.kind = CYCLES_GEMM, .gemm = {p->batch, p->m, p->n, p->k}}, "product", i);
  }
}

static void streams(void **state) {
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    int64_t n = (int64_t[]){1000, 64 * 6 * 28 * 28, 1 << 22}[i];
    clade_graph *g = new_graph();
    clade_relu(g, input(g, "x", CLADE_SHAPE(n)));
    compare(g, &(cycles_work){.kind = CYCLES_STREAM, .stream = {8 * n}}, "stream", i);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(convolutions), cmocka_unit_test(matrices),
                                     cmocka_unit_test(streams)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
