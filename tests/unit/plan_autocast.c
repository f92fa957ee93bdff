/* Mixed precision in plans: memory of a ResNet-18 training step, explanations, and funcs with symbols. */
#include <inttypes.h>

#include "models/models.h"
#include "plan_kit.h"

/* ---- memory ---- */
typedef struct size {
  uint64_t arena, copies; /* of one execution; narrow copies of parameters in it */
} size;

static size step_of(int64_t side, int64_t batch, clade_dtype precision, clade_device *device) {
  clade_func_info info = {.size = sizeof info};
  clade_graph *g = graph_new();
  clade_func *func;
  size found = {0};
  clade_graph_train(g, true);
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(batch, 3, side, side));
  clade_val y = clade_input(g, "y", CLADE_I32, CLADE_SHAPE(batch));
  clade_val loss = clade_cross_entropy(g, resnet18(g, x, 10, NULL), y);
  clade_output(g, "loss", loss);
  OK(clade_minimize(g, loss, .optimizer = clade_sgd(.lr = 0.1, .momentum = 0.9)));
  for (size_t i = 0; i < g->variables.count && precision != CLADE_F32; i++) {
    const clade_shape *shape = &clade__type(g, g->variables.at[i].value)->shape;
    int64_t elements;
    OK(clade_shape_elements(shape, &elements));
    if (g->variables.at[i].parameter && shape->rank > 1) found.copies += 2 * (uint64_t)elements;
  }
  clade__plan_only = true;
  OK(clade_compile(g, device, &func, .precision = precision));
  clade__plan_only = false;
  clade_graph_release(g);
  OK(clade_func_get_info(func, &info));
  clade_func_release(func);
  found.arena = info.arena_bytes;
  return found;
}

static void test_memory(void **state) {
  const struct { int64_t side, batch; } rows[] = {{32, 32}, {32, 128}, {224, 8}};
  for (size_t i = 0; i < CLADE_COUNT(rows); i++) {
    const size wide = step_of(rows[i].side, rows[i].batch, CLADE_F32, *state);
    const size narrow = step_of(rows[i].side, rows[i].batch, CLADE_BF16, *state);
    const double activations = (double)(narrow.arena - narrow.copies) / (double)wide.arena;
    print_message("ResNet-18, %d images of %d: arena %" PRIu64 " bytes in f32, %" PRIu64 " in bf16, of which %" PRIu64
                  " are copies of parameters: %.3f, %.3f without these\n",
                  (int)rows[i].batch, (int)rows[i].side, wide.arena, narrow.arena, narrow.copies,
                  (double)narrow.arena / (double)wide.arena, activations);
    assert_true(activations <= 0.55);
  }
}

/* ---- explanation and symbols ---- */
static void test_explained(void **state) {
  clade_graph *g = graph_new();
  clade_func *func, *shaped;
  char *text;
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(CLADE_DIM("batch"), 16));
  clade_output(g, "y", clade_nn_linear(g, "fc", x, .out = 8));
  OK(clade_compile(g, *state, &func, .precision = CLADE_BF16));
  clade_graph_release(g);
  clade__plan_only = true;
  OK(clade_func_specialize(func, CLADE_DIMS({"batch", 4}), &shaped));
  clade__plan_only = false;
  OK(clade_func_explain_brief(shaped, &text));
  static const char *const told[] = {"mixed precision: bf16; 1 nodes compute in it by their lists, 1 as",
                                     "2 values are cast to it, of which 1 are variables",
                                     "a cast of variable from f32, \"fc.weight\"", "a cast of input from f32, \"x\""};
  for (size_t i = 0; i < CLADE_COUNT(told); i++)
    if (!strstr(text, told[i])) fail_msg("\"%s\" does not hold \"%s\"", text, told[i]);
  clade_text_free(text);
  clade_func_release(shaped);
  clade_func_release(func);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory), cmocka_unit_test(test_explained)};
  return cmocka_run_group_tests_name("plan_autocast", tests, open_device, close_device);
}
