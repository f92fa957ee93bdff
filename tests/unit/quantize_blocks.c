/* Block-quantized weights: affected layers, contents of the variables, results and refusals. */
#include <math.h>

#include "memory_kit.h"
#include "quantize_kit.h"

enum { ROWS = 2, IN = 64, MIDDLE = 32, UNEVEN = 3, OUT = 2 };

/* Two layers with a multiple of 32 inputs, one without. */
static void network(clade_graph *g) {
  clade_val h = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(ROWS, IN));
  h = clade_relu(g, clade_nn_linear(g, "a", h, .out = MIDDLE));
  h = clade_relu(g, clade_nn_linear(g, "b", h, .out = UNEVEN, .no_bias = true));
  clade_output(g, "y", clade_nn_linear(g, "c", h, .out = OUT));
}

static model new_model(clade_device *device) {
  model m = {.g = graph_new()};
  network(m.g);
  OK(clade_compile(m.g, device, &m.func));
  OK(clade_vars_new(m.func, 1, &m.vars));
  return m;
}

static void run_model(clade_func *func, clade_vars *vars, float *y) {
  clade_run *run;
  clade_ticket ticket;
  float x[ROWS * IN];
  for (int i = 0; i < ROWS * IN; i++) x[i] = (float)(i * 37 % 101) / 50 - 1;
  OK(clade_run_new(func, vars, &run));
  OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket));
  OK(clade_read(run, ticket, "y", y, ROWS * OUT * sizeof *y));
  clade_run_free(run);
}

/* Rounds a variable to its type. */
static void round_to(clade_vars *vars, const char *name, clade_dtype type, size_t n) {
  static float x[IN * MIDDLE];
  static uint8_t blocks[2 * IN * MIDDLE];
  OK(clade_vars_get(vars, name, x, n * sizeof *x));
  OK(clade_convert(type, blocks, CLADE_F32, x, n));
  OK(clade_convert(CLADE_F32, x, type, blocks, n));
  OK(clade_vars_set(vars, name, x, n * sizeof *x));
}

/* Equals the f32 model with the dequantized weights. */
static void results(void **state) {
  static const clade_dtype types[] = {CLADE_Q4_0, CLADE_Q8_0};
  static const char *const texts[] = {"a=q4_0,b=q4_0", "a=q8_0,b=q8_0"}, *const rests[] = {"b=q4_0", "b=q8_0"};
  for (size_t k = 0; k < CLADE_COUNT(types); k++)
    for (int kept = 0; kept < 2; kept++) {
      model m = new_model(*state);
      clade_quantization *q;
      clade_quantization_layer l = {.size = sizeof l};
      clade_func *func;
      clade_vars *vars;
      char *text;
      float want[ROWS * OUT], have[ROWS * OUT];
      OK(clade_quantization_new(m.g, *state, m.vars, &q, .weights = types[k]));
      OK(clade_quantization_observe(q, 0, 0, 0, NULL)); /* no calibration needed */
      assert_int_equal(clade_quantization_count(q), 2);
      OK(clade_quantization_keep(q, 0, kept));
      OK(clade_quantization_get_layer(q, 0, &l));
      assert_string_equal(l.name, "a");
      assert_int_equal(l.weight, kept ? CLADE_F32 : types[k]);
      assert_int_equal(l.weights, IN * MIDDLE);
      assert_int_equal(l.input, CLADE_F32);
      assert_true(l.scale_least > 0 && l.scale_least < l.scale_most && l.scale_most < 0.1);
      OK(clade_quantization_text(q, &text));
      assert_string_equal(text, kept ? rests[k] : texts[k]);
      OK(clade_compile(m.g, *state, &func, .quantization = text));
      OK(clade_vars_new(func, 7, &vars));
      assert_int_equal(clade_vars_count(vars), 5); /* the model's variables, each once */
      OK(clade_quantization_apply(q, vars));
      run_model(func, vars, have);
      if (!kept) round_to(m.vars, "a.weight", types[k], IN * MIDDLE);
      round_to(m.vars, "b.weight", types[k], MIDDLE * UNEVEN);
      run_model(m.func, m.vars, want);
      for (int i = 0; i < ROWS * OUT; i++) assert_true(fabsf(have[i] - want[i]) < 1e-5f);
      clade_text_free(text);
      clade_vars_release(vars);
      clade_func_release(func);
      clade_quantization_free(q);
      free_model(&m);
    }
}

static void refusals(void **state) {
  static const struct {
    const char *text;
    clade_status status;
    const char *part;
  } texts[] = {{"a=q4_0,b=u8:1", CLADE_INVALID, "\"b=u8:1\": expected LAYER=q4_0 or LAYER=q8_0"},
               {"a=q4_0,b", CLADE_INVALID, "\"b\": expected LAYER=q4_0"},
               {"a=q4_0,a=q8_0", CLADE_DUPLICATE, "\"a\" is listed twice"},
               {"c=q4_0", CLADE_BAD_SHAPE, "\"c=q4_0\": expected a linear layer with a multiple of 32 inputs"},
               {"d=q4_0", CLADE_NOT_FOUND, "no layer \"d\""},
               {"a=q5_0", CLADE_INVALID, "\"a=q5_0\": expected LAYER=i8:SCALE"}};
  clade_func *func = NULL;
  clade_quantization *q;
  model m = new_model(*state);
  for (size_t i = 0; i < CLADE_COUNT(texts); i++)
    refused(clade_compile(m.g, *state, &func, .quantization = texts[i].text), texts[i].status, texts[i].part);
  refused(clade_compile(m.g, *state, &func, .quantization = "a=q4_0", .precision = CLADE_BF16), CLADE_INVALID,
          ".precision is bf16 as well");
  refused(clade_quantization_new(m.g, *state, m.vars, &q, .weights = CLADE_I8), CLADE_DTYPE,
          ".weights is i8; expected q4_0 or q8_0");
  const float bad[] = {INFINITY, 1e30f}; /* not finite, and beyond the range of f16 scales */
  static const char *const words[] = {"weight 5 of the layer \"a\" is not finite", "too large for scales in f16"};
  for (int i = 0; i < 2; i++) {
    static float w[IN * MIDDLE];
    clade_vars *vars;
    clade_quantization_layer l = {.size = sizeof l};
    w[5] = bad[i];
    OK(clade_vars_set(m.vars, "a.weight", w, sizeof w));
    OK(clade_quantization_new(m.g, *state, m.vars, &q, .weights = CLADE_Q4_0));
    OK(clade_compile(m.g, *state, &func, .quantization = "a=q4_0,b=q4_0"));
    OK(clade_vars_new(func, 1, &vars));
    refused(clade_quantization_apply(q, vars), CLADE_INVALID, words[i]);
    refused(clade_quantization_get_layer(q, 0, &l), CLADE_INVALID, words[i]);
    clade_vars_release(vars);
    clade_func_release(func);
    clade_quantization_free(q);
  }
  free_model(&m);
  clade_graph *g = graph_new();
  clade_output(g, "y", clade_nn_linear(g, "c", clade_input(g, "x", CLADE_F32, CLADE_SHAPE(1, 33)), .out = 2));
  OK(clade_compile(g, *state, &func));
  clade_vars *vars;
  OK(clade_vars_new(func, 1, &vars));
  refused(clade_quantization_new(g, *state, vars, &q, .weights = CLADE_Q4_0), CLADE_NOT_FOUND,
          "no linear layer of f32 with a multiple of 32 inputs");
  clade_vars_release(vars);
  clade_func_release(func);
  clade_graph_release(g);
}

/* ---- memory ---- */
static clade_status whole(const void *argument, clade_device *device) {
  return quantize_whole(argument, device, CLADE_Q4_0, NULL);
}

/* Every third allocation, with a rotating start; failures in compilation are tested elsewhere. */
static void no_memory(void **state) {
  model m = new_model(*state);
  OK(whole(&m, *state));
  assert_true(fail_allocations(whole, &m, *state, 3) > 20);
  free_model(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(results), cmocka_unit_test(refusals),
                                     cmocka_unit_test(no_memory)};
  return cmocka_run_group_tests_name("quantize_blocks", tests, open_failing, close_device);
}
