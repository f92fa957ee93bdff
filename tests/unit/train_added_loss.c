/* Losses that a model adds to the training's: the balance of experts, in several layouts of ranks beside one device,
 * its gradients by differences, its own scalar; refusals of a loop of one's own. Tiny sets and models. */
#include <math.h>

#include <clade/clade.h>

#include "plan_kit.h"

enum { IMAGES = 16, CLASSES = 4, VALUES = 8, BATCH = 16, EPOCHS = 4, MOST = 4 };

static clade_status get(void *user, int64_t index, float *x, int32_t *label) {
  (void)user;
  for (int i = 0; i < VALUES; i++) x[i] = sinf((float)(index * VALUES + i)) + (i / 2 == index % CLASSES ? 1 : 0);
  *label = (int32_t)(index % CLASSES);
  return CLADE_OK;
}

static clade_dataset *set_new(int64_t count) {
  clade_dataset *set;
  const clade_dataset_def def = {
      .size = sizeof def, .count = count, .classes = CLASSES, .channels = 1, .height = 1, .width = VALUES, .get = get};
  OK(clade_dataset_new(&def, NULL, &set));
  return set;
}

static double weight;
static clade_val model(clade_graph *g, clade_val x, int classes, void *user) {
  clade_val uneven;
  (void)user;
  x = clade_nn_linear(g, "in", clade_flatten(g, x, 1), .out = VALUES);
  for (int i = 0; i < 2; i++) { /* two layers, each of which adds its loss */
    x = clade_add(g, x, clade_nn_experts(g, i ? "second" : "first", x, .experts = 4, .hidden = 16, .balance = &uneven));
    if (weight > 0) clade_graph_add_loss(g, uneven, weight);
  }
  return clade_nn_linear(g, "out", x, .out = classes);
}

/* ---- trainings ---- */
static double loss[EPOCHS], added[EPOCHS];
static void observe(void *user, const clade_train_event *e) {
  (void)user;
  if (e->kind != CLADE_TRAIN_STEP) return;
  loss[e->step - 1] = e->loss;
  added[e->step - 1] = e->added_loss;
}

static clade_vars *train_on(clade_device *device, int n, clade_trainer t) {
  clade_device *const devices[MOST] = {device, device, device, device};
  clade_vars *vars;
  t.size = sizeof t;
  t.model = model;
  t.train = set_new(IMAGES);
  t.test = set_new(CLASSES);
  t.n_devices = n;
  t.devices = devices;
  t.batch = BATCH;
  t.strict = true;
  t.observe = observe;
  t.optimizer = clade_sgd(.lr = t.optimizer.lr > 0 ? t.optimizer.lr : 0.1);
  if (!t.epochs) t.epochs = EPOCHS;
  OK(clade_train(&t, NULL, &vars));
  clade_dataset_release(t.train);
  clade_dataset_release(t.test);
  return vars;
}

/* The losses of each layout are those of one device with the same micro-batches. */
static void layouts(void **state) {
  static const struct {
    int n, tensor, pipeline, micro, all; /* micro-batches of a rank, and of one device */
  } rows[] = {{2, 2, 1, 1, 1}, {2, 1, 2, 2, 2}, {2, 1, 1, 1, 2}, {4, 2, 2, 2, 2}, {4, 1, 2, 2, 4}, {4, 2, 1, 2, 4}};
  weight = 0.3;
  for (size_t i = 0; i < CLADE_COUNT(rows); i++) {
    double one[2][EPOCHS];
    clade_vars_release(train_on(*state, 1, (clade_trainer){.micro_batches = rows[i].all}));
    memcpy(one[0], loss, sizeof loss);
    memcpy(one[1], added, sizeof added);
    clade_vars_release(train_on(*state, rows[i].n,
                                (clade_trainer){.tensor = rows[i].tensor,
                                                .pipeline = rows[i].pipeline,
                                                .micro_batches = rows[i].micro,
                                                .parallel_memory = rows[i].tensor > 1}));
    for (int k = 0; k < EPOCHS; k++)
      if (!(fabs(loss[k] - one[0][k]) < 1e-4 && fabs(added[k] - one[1][k]) < 1e-4 && added[k] > 0.5))
        fail_msg("layout %zu, step %d: loss %g, of that %g added; on one device %g and %g", i, k, loss[k], added[k],
                 one[0][k], one[1][k]);
  }
}

/* The first step's loss exceeds that without the added part by this part. */
static void its_own_scalar(void **state) {
  weight = 0;
  clade_vars_release(train_on(*state, 1, (clade_trainer){.epochs = 1}));
  const double plain = loss[0];
  assert_true(added[0] == 0);
  weight = 0.3;
  clade_vars_release(train_on(*state, 1, (clade_trainer){.epochs = 1}));
  assert_true(fabs(loss[0] - plain - added[0]) < 1e-5);
}

/* A step of SGD moves parameters by their gradients. */
static void by_differences(void **state) {
  static const char *const names[] = {"in.weight", "first.gate.weight", "second.gate.weight", "second.up.weight"};
  weight = 2;
  clade_vars *before = train_on(*state, 1, (clade_trainer){.begin_only = true});
  clade_vars *after = train_on(*state, 1, (clade_trainer){.epochs = 1, .optimizer.lr = 1, .weights = before});
  for (size_t i = 0; i < CLADE_COUNT(names); i++) {
    float x[1024], y[1024];
    const size_t bytes = (i == 3 ? 4 * VALUES * 16 : i ? 4 * VALUES : VALUES * VALUES) * sizeof *x;
    OK(clade_vars_get(before, names[i], x, bytes));
    OK(clade_vars_get(after, names[i], y, bytes));
    for (int at = 1; at < 32; at += 13) {
      const float own = x[at], step = 4e-3f;
      const double slope = (double)own - (double)y[at];
      double beside[2];
      for (int k = 0; k < 2; k++) {
        x[at] = own + (k ? step : -step);
        OK(clade_vars_set(before, names[i], x, bytes));
        clade_vars_release(train_on(*state, 1, (clade_trainer){.epochs = 1, .weights = before}));
        beside[k] = loss[0];
      }
      x[at] = own;
      OK(clade_vars_set(before, names[i], x, bytes));
      const double by = (beside[1] - beside[0]) / (2 * (double)step);
      if (!(fabs(by - slope) <= 1e-3 + 0.02 * fabs(slope)))
        fail_msg("the derivative by %s[%d] is %g, by differences %g", names[i], at, slope, by);
    }
  }
  clade_vars_release(before);
  clade_vars_release(after);
}

/* ---- a loop of one's own ---- */
static void own_loop(void **state) {
  (void)state;
  clade_graph *g = graph_new();
  const clade_val w = clade_parameter(g, "w", CLADE_F32, CLADE_SCALAR, (clade_initial){CLADE_INIT_FILL, 2, 0});
  clade_graph_add_loss(g, w, 3); /* for inference: nothing */
  assert_false(clade_val_ok(clade_graph_added_loss(g)));
  clade_graph_train(g, true);
  clade_graph_add_loss(g, w, 3);
  clade_graph_add_loss(g, clade_square(g, w), 0.5);
  const clade_val sum = clade_graph_added_loss(g);
  assert_true(clade_val_ok(sum));
  assert_false(clade_val_ok(clade_graph_added_loss(g)));
  OK(clade_minimize(g, sum, .optimizer = clade_sgd()));
  clade_graph_release(g);
}

static void refusals(void **state) {
  (void)state;
  clade_graph *g = graph_new();
  const clade_val w = clade_parameter(g, "w", CLADE_F32, CLADE_SCALAR, (clade_initial){0});
  clade_graph_train(g, true);
  clade_graph_add_loss(g, w, 1);
  refused(clade_minimize(g, w), CLADE_INVALID, "clade_minimize: the graph has an added loss");
  clade_graph_release(g);
  g = graph_new();
  clade_graph_train(g, true);
  clade_graph_add_loss(g, clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2)), 1);
  refused(clade_graph_status(g), CLADE_BAD_SHAPE, "clade_graph_add_loss: the loss is f32[2]");
  clade_graph_release(g);
  g = graph_new();
  clade_graph_train(g, true);
  clade_graph_add_loss(g, clade_input(g, "x", CLADE_F32, CLADE_SCALAR), (double)INFINITY);
  refused(clade_graph_status(g), CLADE_INVALID, "the weight is inf");
  clade_graph_release(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(layouts), cmocka_unit_test(its_own_scalar),
                                     cmocka_unit_test(by_differences), cmocka_unit_test(own_loop),
                                     cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}
