/* The example GPT: its name, its size, and causal attention. */
#include <math.h>

#include "models/gpt.h"
#include "plan_kit.h"

static void no_name(const char *name, clade_status status, const char *words) {
  gpt_sizes s;
  assert_int_equal(gpt_parse(name, &s), status);
  if (!strstr(clade_last_error(), words)) fail_msg("%s: no '%s' in '%s'", name, words, clade_last_error());
}

static void names(void **state) {
  (void)state;
  gpt_sizes s;
  OK(gpt_parse("gpt", &s));
  assert_true(s.layers == 12 && s.width == 768 && s.heads == 12 && s.vocab == 50257 && s.length == 1024);
  OK(gpt_parse("gpt:layers=24,width=2048,heads=16", &s));
  assert_true(s.layers == 24 && s.width == 2048 && s.heads == 16 && s.vocab == 50257 && s.length == 1024);
  no_name("resnet18", CLADE_NOT_FOUND, "resnet18");
  no_name("gpt:depth=3", CLADE_INVALID, "'depth=3'");
  no_name("gpt:layers=3,", CLADE_INVALID, "''");
  no_name("gpt:layers=0", CLADE_INVALID, "'layers=0'");
  no_name("gpt:layers=3x", CLADE_INVALID, "'layers=3x'");
  no_name("gpt:width=100,heads=3", CLADE_INVALID, "no multiple of 3 heads");
}

static int64_t parameters(const clade_graph *g) {
  int64_t sum = 0, n;
  for (size_t i = 0; i < g->variables.count; i++) {
    OK(clade_shape_elements(&clade__type(g, g->variables.at[i].value)->shape, &n));
    sum += n;
  }
  return sum;
}

/* Parameters of the smallest GPT-2, and of 24 layers of 2048. */
static void sizes(void **state) {
  static const struct {
    const char *name;
    int64_t parameters;
  } models[] = {{"gpt", 124439808}, {"gpt:layers=24,width=2048,heads=16", 1313626112}};
  (void)state;
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    gpt_sizes s;
    clade_type type;
    clade_graph *g = graph_new();
    OK(gpt_parse(models[i].name, &s));
    clade_val tokens = clade_input(g, "tokens", CLADE_I32, CLADE_SHAPE(2, s.length)), y = gpt(g, tokens, &s);
    OK(clade_graph_status(g));
    OK(clade_val_type(g, y, &type));
    assert_true(type.shape.rank == 3 && type.shape.dim[0] == 2 && type.shape.dim[1] == s.length &&
                type.shape.dim[2] == s.vocab);
    assert_int_equal(parameters(g), models[i].parameters);
    clade_graph_release(g);
  }
}

enum { LENGTH = 6, VOCAB = 11 };

static void answer(clade_run *run, const int32_t *tokens, float *logits) {
  clade_ticket ticket;
  OK(clade_execute(run, CLADE_FEEDS({"tokens", tokens, LENGTH * sizeof *tokens, NULL}), &ticket));
  OK(clade_read(run, ticket, "y", logits, LENGTH * VOCAB * sizeof *logits));
}

/* Changing the token at position 3 changes results from there on, and no bit before. */
static void is_causal(void **state) {
  const gpt_sizes s = {.layers = 2, .width = 8, .heads = 2, .vocab = VOCAB, .length = 8};
  int32_t tokens[LENGTH] = {1, 10, 4, 7, 0, 3};
  float before[LENGTH * VOCAB], after[LENGTH * VOCAB];
  clade_vars *vars;
  clade_run *run;
  clade_graph *g = graph_new();
  clade_output(g, "y", gpt(g, clade_input(g, "tokens", CLADE_I32, CLADE_SHAPE(1, LENGTH)), &s));
  clade_func *func = compiled(g, *state);
  OK(clade_vars_new(func, 42, &vars));
  OK(clade_run_new(func, vars, &run));
  answer(run, tokens, before);
  tokens[3] = 2;
  answer(run, tokens, after);
  assert_memory_equal(before, after, 3 * VOCAB * sizeof *before);
  for (int place = 3; place < LENGTH; place++) {
    bool differ = false;
    for (int k = 0; k < VOCAB; k++) {
      const int at = place * VOCAB + k;
      assert_true(isfinite(after[at]));
      differ |= before[at] != after[at];
    }
    assert_true(differ);
  }
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(names), cmocka_unit_test(sizes), cmocka_unit_test(is_causal)};
  return cmocka_run_group_tests_name("gpt", tests, open_device, close_device);
}
