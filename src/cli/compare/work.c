/* The works of `clade bench compare`: products, convolutions and networks, each a graph from host memory to host
 * memory. */
#include <math.h>
#include <stdio.h>

#include "cli/compare/compare.h"
#include "models/models.h"
#include "op/dims.h"
#include "op/op.h"

#define PRODUCT(size, is_quick, i8) \
  { .group = "gemm", .batch = 1, .m = size, .n = size, .k = size, .quick = is_quick, .bytes = i8 }
#define CONV(c, hw, o, window, step, is_quick)                                                          \
  {                                                                                                     \
    .group = "conv", .batch = 1, .channels = c, .side = hw, .out = o, .kernel = window, .stride = step, \
    .quick = is_quick                                                                                   \
  }
#define MODEL(what, name, images, c, hw, is_quick, i8)                                                          \
  {                                                                                                             \
    .group = what, .model = name, .batch = images, .channels = c, .side = hw, .classes = 10, .quick = is_quick, \
    .bytes = i8                                                                                                 \
  }
#define LENET5(what, images, is_quick, i8) MODEL(what, "lenet5", images, 1, 28, is_quick, i8)
#define RESNET18(what, images, is_quick)   MODEL(what, "resnet18", images, 3, 32, is_quick, false)

const compare_work compare_works[] = {
    PRODUCT(64, true, false),          PRODUCT(128, true, false),        PRODUCT(256, true, false),
    PRODUCT(512, true, false),         PRODUCT(1024, false, false),      PRODUCT(64, true, true),
    PRODUCT(128, true, true),          PRODUCT(256, true, true),         PRODUCT(512, true, true),
    CONV(3, 32, 16, 3, 1, true),       CONV(16, 32, 32, 3, 2, true),     CONV(64, 56, 64, 3, 1, true),
    CONV(256, 14, 256, 3, 1, false),   CONV(256, 56, 64, 1, 1, false),   LENET5("infer", 1, true, false),
    LENET5("infer", 8, true, false),   LENET5("infer", 64, true, false), LENET5("infer", 256, false, false),
    LENET5("infer", 1, true, true),    LENET5("infer", 8, false, true),  LENET5("infer", 64, true, true),
    LENET5("infer", 256, false, true), RESNET18("infer", 1, true),       RESNET18("infer", 8, false),
    RESNET18("infer", 32, false),      LENET5("train", 64, true, false), RESNET18("train", 32, false),
};
size_t compare_work_count(void) { return CLADE_COUNT(compare_works); }

static bool trains(const compare_work *w) { return !strcmp(w->group, "train"); }

const char *compare_model_name(const compare_work *w) { return w->model && w->bytes ? "lenet5 i8" : w->model; }
bool compare_classifies(const compare_work *w) { return w->model && !strcmp(w->model, "lenet5") && !trains(w); }

void compare_work_name(const compare_work *w, char *name, size_t size) {
  long long batch = w->batch, side = w->side;
  if (w->model)
    snprintf(name, size, "%s %lldx%lld%s @%lld", compare_model_name(w), side, side, trains(w) ? " train" : "", batch);
  else if (w->m)
    snprintf(name, size, "gemm%s %lldx%lldx%lld", w->bytes ? " i8" : "", (long long)w->m, (long long)w->n,
             (long long)w->k);
  else
    snprintf(name, size, "conv %lldx%lld %lld>%lld %lldx%lld/%lld", side, side, (long long)w->channels,
             (long long)w->out, (long long)w->kernel, (long long)w->kernel, (long long)w->stride);
}

clade_shape compare_input(const compare_work *w) {
  return w->m ? CLADE_SHAPE(w->m, w->k) : CLADE_SHAPE(w->batch, w->channels, w->side, w->side);
}

static int8_t *bytes_new(uint64_t seed, size_t n) {
  int8_t *bytes = clade__new(n, 1);
  uint32_t random[4];
  for (size_t i = 0; bytes && i < n; i++) {
    clade__philox(seed, 0, i, random);
    bytes[i] = (int8_t)(random[0] % 255) - 127;
  }
  return bytes;
}

/* The second operand is a constant, like a weight. */
static clade_val product_of_bytes(const compare_work *w, clade_graph *g, clade_val x) {
  int8_t *weights = bytes_new(74, (size_t)(w->k * w->n));
  clade_val b = clade_constant(g, CLADE_I8, CLADE_SHAPE(w->k, w->n), weights), y = clade_gemm(g, x, b);
  clade__free(weights);
  return y;
}

static clade_val result_of(const compare_work *w, const compare_net *net, clade_graph *g, clade_val x) {
  int64_t fan = w->channels * w->kernel * w->kernel;
  if (w->model && w->bytes) return compare_net_bytes(net, g, x, w->batch);
  if (w->model) return model_by_name(w->model)(g, x, (int)w->classes, NULL);
  if (w->bytes) return product_of_bytes(w, g, x);
  if (w->m)
    return clade_gemm(g, x,
                      clade_parameter(g, "w", CLADE_F32, CLADE_SHAPE(w->k, w->n), clade_glorot_normal(w->k, w->n)));
  clade_val weights =
      clade_parameter(g, "w", CLADE_F32, CLADE_SHAPE(w->out, w->channels, w->kernel, w->kernel), clade_he_normal(fan));
  int pad = (int)w->kernel / 2, stride = (int)w->stride;
  return clade_conv2d(g, x, weights, .pad = {pad, pad}, .stride = {stride, stride});
}

static void build(const compare_work *w, const compare_net *net, clade_graph *g) {
  clade_graph_train(g, trains(w));
  clade_val y = result_of(w, net, g, clade_input(g, "x", w->bytes ? CLADE_I8 : CLADE_F32, compare_input(w)));
  if (trains(w)) {
    y = clade_cross_entropy(g, y, clade_input(g, "labels", CLADE_I32, CLADE_SHAPE(w->batch)));
    (void)clade_minimize(g, y, .optimizer = clade_sgd(.lr = 0.01, .momentum = 0.9));
  }
  clade_output(g, "y", y);
}

clade_status compare_graph(const compare_work *w, const compare_net *net, clade_graph **out) {
  CLADE_TRY(clade_graph_new(out));
  build(w, net, *out);
  return clade_graph_status(*out);
}

/* ---- operands ---- */
compare_data compare_data_size(const compare_work *w) {
  int64_t side = w->stride ? (w->side + 2 * (w->kernel / 2) - w->kernel) / w->stride + 1 : 0;
  const clade_shape x = compare_input(w);
  compare_data out = {.elements = (size_t)clade__product(&x, 0, x.rank),
                      .label_bytes = trains(w) ? (size_t)w->batch * 4 : 0};
  out.x_bytes = out.elements * (w->bytes ? 1 : sizeof(float));
  out.y_elements = (size_t)(trains(w)  ? 1
                            : w->model ? w->batch * w->classes
                            : w->m     ? w->m * w->n
                                       : w->batch * w->out * side * side);
  return out;
}

clade_status compare_data_new(const compare_work *w, compare_data *out) {
  *out = compare_data_size(w);
  out->x = w->bytes ? bytes_new(73, out->elements) : clade__new(out->x_bytes, 1);
  out->labels = trains(w) ? clade__new(out->label_bytes, 1) : NULL;
  if (!out->x || (trains(w) && !out->labels)) return CLADE_NO_MEMORY;
  if (!w->bytes) bench_random(73, out->elements, 1, out->x);
  for (int64_t i = 0; out->labels && i < w->batch; i++) out->labels[i] = (int32_t)(i * 7 % w->classes);
  return CLADE_OK;
}

void compare_data_free(compare_data *data) {
  clade__free(data->x);
  clade__free(data->labels);
}

/* ---- demand of a graph ---- */
static double bytes_of(const clade_type *t) {
  size_t bytes = 0;
  (void)!clade_type_bytes(t, &bytes);
  return (double)bytes;
}

/* Derivatives by the weights included. */
static double flops_of(const clade_node *n) {
  if (n->op != &clade__op_conv2d_weights) return clade__node_flops(n);
  const int64_t *w = n->out[0].shape.dim;
  return 2.0 * (double)clade__product(&n->in[1].shape, 0, n->in[1].shape.rank) * (double)(w[1] * w[2] * w[3]);
}

compare_demand compare_demand_of(const clade_graph *g) {
  clade_type in[CLADE_MAX_OPERANDS], results[CLADE_MAX_OPERANDS];
  clade_node view;
  compare_demand out = {.graph = g};
  for (clade__id id = 1; id < g->n_nodes; id++) {
    clade__node_view(g, id, in, results, &view);
    const double flops = flops_of(&view);
    if (flops <= 0) continue;
    out.flops += flops;
    out.bytes += bytes_of(&view.in[0]) + bytes_of(&view.in[1]) + bytes_of(&view.out[0]);
  }
  return out;
}
