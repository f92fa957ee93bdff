/* The example models: their number of parameters, the shapes of their results, and one run. */
#include <math.h>

#include "models/models.h"
#include "plan_kit.h"

static clade_graph *model_graph(const char *name, clade_dim batch, int channels, int side, int classes, clade_val *y) {
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(batch, channels, side, side));
  assert_non_null(model_by_name(name));
  *y = model_by_name(name)(g, x, classes, NULL);
  return g;
}

static int64_t parameters(const clade_graph *g) {
  int64_t sum = 0, n;
  for (size_t i = 0; i < g->variables.count; i++)
    if (g->variables.at[i].parameter) {
      OK(clade_shape_elements(&clade__type(g, g->variables.at[i].value)->shape, &n));
      sum += n;
    }
  return sum;
}

/* For ImageNet's images and classes, against the counts of torchvision. */
static void sizes(void **state) {
  static const struct {
    const char *name;
    int64_t parameters;
  } models[] = {{"resnet18", 11689512}, {"resnet50", 25557032}, {"vgg16", 138357544}, {"mobilenetv2", 3504872}};
  (void)state;
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    clade_val y;
    clade_type type;
    clade_dim batch = CLADE_DIM("batch");
    clade_graph *g = model_graph(models[i].name, batch, 3, 224, 1000, &y);
    OK(clade_val_type(g, y, &type));
    assert_true(type.shape.rank == 2 && type.shape.dim[0] == batch && type.shape.dim[1] == 1000);
    assert_int_equal(parameters(g), models[i].parameters);
    clade_graph_release(g);
  }
}

/* For small images: all results are finite, and classes differ. Other tests train the other models. */
static void answers(void **state) {
  static const char *const names[] = {"resnet50", "mobilenetv2", "vgg16"};
  static float x[3 * 32 * 32];
  for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)(i * 7919 % 1000) * 0.002f - 1;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    clade_val y;
    clade_vars *vars;
    clade_run *run;
    clade_ticket ticket;
    float logits[10];
    clade_graph *g = model_graph(names[i], 1, 3, 32, 10, &y);
    clade_output(g, "y", y);
    clade_func *func = compiled(g, *state);
    OK(clade_vars_new(func, 42, &vars));
    OK(clade_run_new(func, vars, &run));
    OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket));
    OK(clade_read(run, ticket, "y", logits, sizeof logits));
    for (int k = 0; k < 10; k++) assert_true(isfinite(logits[k]));
    assert_true(logits[0] != logits[1]);
    clade_run_free(run);
    clade_vars_release(vars);
    clade_func_release(func);
  }
}

static void too_small(void **state) {
  clade_val y;
  (void)state;
  clade_graph *g = model_graph("vgg16", 1, 3, 31, 10, &y);
  assert_int_equal(clade_graph_status(g), CLADE_BAD_SHAPE);
  clade_graph_release(g);
  assert_null(model_by_name("vgg"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes),
      cmocka_unit_test(answers),
      cmocka_unit_test(too_small),
  };
  return cmocka_run_group_tests_name("models", tests, open_device, close_device);
}
