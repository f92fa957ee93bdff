/* Memory plans of training steps are close to the lower bound: perceptrons, residual networks, random ones, and real
 * models. */
#include "models/models.h"
#include "plan_check.h"

static uint64_t seed_state;
static unsigned draw(unsigned n) {
  uint32_t x[4];
  clade__philox(2, seed_state++, 0, x);
  return x[0] % n;
}

/* An op that only matters for memory: `n` elements from any operands, through a workspace. Its derivative reads what
 * `needs` says. These graphs are planned and never run, so their kernels are empty. */
enum { NEEDS_NOTHING, NEEDS_IN, NEEDS_OUT };
typedef struct any_attrs {
  int64_t n, workspace;
  int32_t needs, take; /* take: operand whose memory may be reused; -1: none */
} any_attrs;
static const clade_attr any_table[] = {{"n", CLADE_ATTR_I64, offsetof(any_attrs, n), 1},
                                       {"workspace", CLADE_ATTR_I64, offsetof(any_attrs, workspace), 1},
                                       {"needs", CLADE_ATTR_I32, offsetof(any_attrs, needs), 1},
                                       {"take", CLADE_ATTR_I32, offsetof(any_attrs, take), 1},
                                       {0}};
static clade_val any(clade_graph *g, const any_attrs *attrs, int n, const clade_val *in);

static clade_status any_infer(clade_node *n) {
  n->out[0] = (clade_type){.dtype = CLADE_F32, .shape = CLADE_SHAPE(((const any_attrs *)n->attrs)->n)};
  return CLADE_OK;
}
static clade_status any_grad(clade_grad *g) {
  const any_attrs *a = g->node->attrs;
  for (int i = 0; i < g->node->n_in; i++) {
    clade_val in[CLADE_MAX_OPERANDS] = {g->dout[0]};
    int n = 1;
    if (!g->wanted[i]) continue;
    if (a->needs == NEEDS_OUT) in[n++] = g->out[0];
    for (int k = 0; a->needs == NEEDS_IN && k < g->node->n_in; k++) /* dw of x, dx of w */
      if (k != i || g->node->n_in == 1) in[n++] = g->in[k];
    any_attrs own = {.n = g->node->in[i].shape.dim[0], .workspace = a->workspace, .take = -1};
    if (own.n == a->n && a->needs != NEEDS_IN) own.take = 0;
    g->din[i] = a->needs == NEEDS_NOTHING && own.n == a->n ? g->dout[0] : any(g->graph, &own, n, in);
  }
  return CLADE_OK;
}
static uint64_t any_in_place(const clade_node *n, int out) {
  (void)out;
  int32_t take = ((const any_attrs *)n->attrs)->take;
  return take < 0 ? 0 : UINT64_C(1) << take;
}
static size_t any_workspace(const clade_query *q) { return (size_t)((const any_attrs *)q->node->attrs)->workspace; }
static clade_status any_emit(clade_emit *e, const clade_query *q) {
  static const char *const kernels[] = {"any2", "any3", "any4", "any5"}; /* by number of arguments */
  clade_kernel_step *s = clade_emit_kernel(e, kernels[q->node->n_in - 1 + (any_workspace(q) > 0)]);
  for (int i = 0; i < q->node->n_in; i++) clade_emit_in(s, i);
  clade_emit_out(s, 0);
  if (any_workspace(q)) clade_emit_workspace(s, 0, 1);
  kit_range(s, 16);
  return CLADE_OK;
}
static const clade_impl *const any_impls[] = {CLADE_IMPL(.name = "ref", .workspace = any_workspace, .emit = any_emit),
                                              NULL};
static const clade_op any_op = {.size = sizeof(clade_op),
                                .name = "train.any",
                                .min_in = 1,
                                .max_in = CLADE_MAX_OPERANDS,
                                .n_out = 1,
                                .attr_bytes = sizeof(any_attrs),
                                .attrs = any_table,
                                .infer = any_infer,
                                .grad = any_grad,
                                .in_place = any_in_place,
                                .impls = any_impls,
                                .source =
                                    "KERNEL(any2)(ARG(float, a), ARG(float, b)) {}\n"
                                    "KERNEL(any3)(ARG(float, a), ARG(float, b), ARG(float, c)) {}\n"
                                    "KERNEL(any4)(ARG(float, a), ARG(float, b), ARG(float, c), ARG(float, d)) {}\n"
                                    "KERNEL(any5)(ARG(float, a), ARG(float, b), ARG(float, c), ARG(float, d),\n"
                                    "             ARG(float, e)) {}\n"};
static clade_val any(clade_graph *g, const any_attrs *attrs, int n, const clade_val *in) {
  return clade_node_add(g, &any_op, NULL, attrs, n, in, NULL);
}

/* A model under construction with its parameters. */
enum { MOST_PARAMETERS = 400 };
typedef struct network {
  clade_graph *g;
  clade_val parameter[MOST_PARAMETERS];
  int n;
} network;

static clade_val parameter(network *m, int64_t n) {
  char name[16];
  snprintf(name, sizeof name, "p%d", m->n);
  assert_true(m->n < MOST_PARAMETERS);
  return m->parameter[m->n++] = clade_variable(m->g, name, CLADE_F32, CLADE_SHAPE(n), (clade_initial){0});
}
static clade_val layer(network *m, clade_val x, int64_t weights, int64_t n, int64_t workspace) {
  clade_val in[2] = {x, parameter(m, weights)};
  return any(m->g, &(any_attrs){.n = n, .workspace = workspace, .needs = NEEDS_IN, .take = -1}, 2, in);
}
static int64_t length(const network *m, clade_val x) {
  clade_type type;
  OK(clade_val_type(m->g, x, &type));
  return type.shape.dim[0];
}
static clade_val activation(network *m, clade_val x) {
  return any(m->g, &(any_attrs){.n = length(m, x), .needs = NEEDS_OUT}, 1, &x);
}
static clade_val normal(network *m, clade_val x, int64_t channels) {
  clade_val in[2] = {x, parameter(m, channels)};
  return any(m->g, &(any_attrs){.n = length(m, x), .needs = NEEDS_IN, .take = -1}, 2, in);
}
static clade_val sum_of(network *m, clade_val a, clade_val b) {
  return any(m->g, &(any_attrs){.n = length(m, a), .needs = NEEDS_NOTHING}, 2, (clade_val[]){a, b});
}

/* In-place momentum over groups of all parameters. */
static void learn(network *m, clade_val loss) {
  static clade_val grads[MOST_PARAMETERS];
  enum { GROUP = (CLADE_MAX_OPERANDS - 1) / 3 };
  clade_val rate = clade_variable(m->g, "rate", CLADE_F32, CLADE_SHAPE(1), (clade_initial){0});
  OK(clade_gradients(m->g, loss, (clade_val){0}, m->n, m->parameter, grads));
  for (int first = 0; first < m->n; first += GROUP) {
    clade_val in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
    int n = m->n - first < GROUP ? m->n - first : GROUP;
    for (int i = 0; i < n; i++) {
      char name[16];
      snprintf(name, sizeof name, "m%d", first + i);
      in[3 * i] = m->parameter[first + i];
      in[3 * i + 1] = grads[first + i];
      in[3 * i + 2] = clade_variable(m->g, name, CLADE_F32, CLADE_SHAPE(length(m, in[3 * i])), (clade_initial){0});
    }
    in[3 * n] = rate;
    clade_node_add(m->g, &kit_update, NULL, NULL, 3 * n + 1, in, out);
    for (int i = 0; i < n; i++) {
      clade_assign(m->g, in[3 * i], out[2 * i]);
      clade_assign(m->g, in[3 * i + 2], out[2 * i + 1]);
    }
  }
  clade_output(m->g, "loss", loss);
}

static double plan_step(network *m, clade_device *device, const char *what) {
  clade_func *func = compiled(m->g, device);
  double ratio = check_plan(func, device);
  clade_func_info info = {.size = sizeof info};
  OK(clade_func_get_info(func, &info));
  if (what)
    print_message("%s: %d steps, arena %" PRIu64 ", %.3f of the bound\n", what, info.steps, info.arena_bytes, ratio);
  clade_func_release(func);
  return ratio;
}

static network network_new(int64_t n, clade_val *x) {
  network m = {.g = graph_new()};
  *x = clade_input(m.g, "x", CLADE_F32, CLADE_SHAPE(n));
  return m;
}

static void perceptron(clade_device *device, int batch, int depth) {
  clade_val x;
  network m = network_new(batch * 784, &x);
  for (int i = 0; i < depth; i++) x = activation(&m, layer(&m, x, i ? 256 * 256 : 784 * 256, batch * 256, 0));
  learn(&m, layer(&m, x, 2560, 1, 0));
  char what[48];
  snprintf(what, sizeof what, "perceptron of %d layers, batch %d", depth, batch);
  double ratio = plan_step(&m, device, what);
  assert_true(ratio <= 1.1);
}

/* The structure of ResNet-18 for 32x32 images. */
static void residual(clade_device *device, int batch) {
  int64_t channels = 64, size = 32 * 32;
  clade_val x;
  network m = network_new(batch * 3 * 32 * 32, &x);
  x = activation(&m, normal(&m, layer(&m, x, 3 * 64 * 9, batch * channels * size, 0), channels));
  for (int stage = 0; stage < 4; stage++)
    for (int block = 0; block < 2; block++) {
      int64_t from = channels;
      clade_val skip = x;
      if (stage && !block) channels *= 2, size /= 4;
      int64_t n = batch * channels * size;
      x = activation(&m, normal(&m, layer(&m, x, from * channels * 9, n, channels * from * 36), channels));
      x = normal(&m, layer(&m, x, channels * channels * 9, n, channels * channels * 36), channels);
      if (from != channels) skip = normal(&m, layer(&m, skip, from * channels, n, 0), channels);
      x = activation(&m, sum_of(&m, x, skip));
    }
  x = any(m.g, &(any_attrs){.n = batch * channels, .take = -1}, 1, &x);
  learn(&m, layer(&m, x, channels * 10, 1, 0));
  char what[48];
  snprintf(what, sizeof what, "ResNet-18, batch %d", batch);
  double ratio = plan_step(&m, device, what);
  assert_true(ratio <= 1.1);
}

static void training_steps(void **state) {
  perceptron(*state, 64, 3);
  perceptron(*state, 512, 12);
  for (int batch = 1; batch <= 64; batch *= 4) residual(*state, batch);
}

/* ---- the example models with Adam ---- */
static double plan_model(clade_model_fn *model, int64_t channels, int64_t side, int64_t batch, clade_device *device,
                         const char *what) {
  clade_graph *g = graph_new();
  clade_func *func, *shaped;
  clade_func_info info = {.size = sizeof info};
  clade_graph_train(g, true);
  clade_dim n = CLADE_DIM("batch");
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(n, channels, side, side));
  clade_val loss = clade_cross_entropy(g, model(g, x, 10, NULL), clade_input(g, "y", CLADE_I32, CLADE_SHAPE(n)));
  clade_output(g, "loss", loss);
  OK(clade_minimize(g, loss, .optimizer = clade_adam(.lr = 1e-3)));
  func = compiled(g, device);
  clade__plan_only = true;
  OK(clade_func_specialize(func, CLADE_DIMS({"batch", batch}), &shaped));
  clade__plan_only = false;
  double ratio = check_plan(shaped, device);
  OK(clade_func_get_info(shaped, &info));
  print_message("%s, batch %d: %d steps, arena %" PRIu64 ", %.3f of the bound; planned in %.3f s\n", what, (int)batch,
                info.steps, info.arena_bytes, ratio, info.compile_seconds);
#ifndef CLADE_ASAN /* slows the planner down */
  assert_true(info.compile_seconds < 1);
#endif
  clade_func_release(shaped);
  clade_func_release(func);
  return ratio;
}

static void models(void **state) {
  assert_true(plan_model(lenet5, 1, 28, 64, *state, "LeNet-5") <= 1.1);
  assert_true(plan_model(resnet18, 3, 32, 4, *state, "ResNet-18") <= 1.1);
  assert_true(plan_model(resnet18, 3, 32, 32, *state, "ResNet-18") <= 1.1);
  assert_true(plan_model(resnet50, 3, 224, 8, *state, "ResNet-50") <= 1.1);
  assert_true(plan_model(vgg16, 3, 224, 8, *state, "VGG-16") <= 1.1);
  assert_true(plan_model(mobilenetv2, 3, 224, 8, *state, "MobileNetV2") <= 1.1);
}

#ifdef CLADE_ASAN /* slows the planner down */
enum { RANDOM = 15 };
#else
enum { RANDOM = 150 };
#endif

static void random_steps(void **state) {
  double worst = 0;
  for (int round = 0; round < RANDOM; round++) {
    clade_val x, at[40];
    network m = network_new(1 + draw(3000), &x);
    int n = 4 + (int)draw(36);
    at[0] = x;
    for (int i = 1; i < n; i++) {
      clade_val from = at[draw(4) ? i - 1 : (int)draw((unsigned)i)];
      int64_t size = draw(2) ? length(&m, from) : 1 + (int64_t)draw(draw(4) ? 500 : 20000);
      switch (draw(6)) {
      case 0: at[i] = activation(&m, from); break;
      case 1: at[i] = normal(&m, from, 16); break;
      case 2:
      case 3:
        for (int k = i - 1; k >= 0; k--)
          if (at[k].id != from.id && length(&m, at[k]) == length(&m, from)) {
            from = sum_of(&m, from, at[k]);
            break;
          }
        at[i] = activation(&m, from);
        break;
      default: at[i] = layer(&m, from, 1 + draw(3000), size, draw(3) ? 0 : 4 * (int64_t)draw(3000)); break;
      }
    }
    learn(&m, layer(&m, at[n - 1], 64, 1, 0));
    double ratio = plan_step(&m, *state, NULL);
    worst = ratio > worst ? ratio : worst;
  }
  print_message("worst of %d random steps: %.3f of the bound\n", RANDOM, worst);
  assert_true(worst <= 1.1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(training_steps),
      cmocka_unit_test(models),
      cmocka_unit_test(random_steps),
  };
  return cmocka_run_group_tests_name("plan_train", tests, open_device, close_device);
}
