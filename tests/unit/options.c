/* Explicit zeros in options with nonzero defaults, by the macro and in the struct; and a program's own macro X
 * survives the headers. tests/consumers has the same for C++. */
#define X 41
#include <clade/clade.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if X != 41
#error "the headers changed the program's X"
#endif

/* An option with a nonzero default and its effect: unset, zero by the macro, zero in the struct. */
typedef struct row {
  const char *type, *name;
  double unset, by_macro, by_struct;
} row;

enum { MOST = 64 };
typedef struct rows {
  row at[MOST];
  int n;
} rows;

static void add(rows *all, const char *type, const char *name, double unset, double by_macro, double by_struct) {
  assert_true(all->n < MOST);
  all->at[all->n++] = (row){type, name, unset, by_macro, by_struct};
}

/* ---- optimizers and schedules, through their numbers ---- */
#define ADD(all, call, CALL, option, part)                                                                   \
  do {                                                                                                       \
    clade_##call##_opt o = {CLADE_##CALL##_OPT};                                                             \
    o.option = 0;                                                                                            \
    add(all, #call, #option, clade_##call().part, clade_##call(.option = 0).part, clade_##call##_(&o).part); \
  } while (0)

static void training(rows *all) {
  ADD(all, sgd, SGD, lr, lr);
  ADD(all, adam, ADAM, lr, lr);
  ADD(all, adam, ADAM, beta1, number[0]);
  ADD(all, adam, ADAM, beta2, number[1]);
  ADD(all, adam, ADAM, eps, number[2]);
  ADD(all, adamw, ADAMW, lr, lr);
  ADD(all, adamw, ADAMW, beta1, number[0]);
  ADD(all, adamw, ADAMW, beta2, number[1]);
  ADD(all, adamw, ADAMW, eps, number[2]);
  ADD(all, adamw, ADAMW, weight_decay, weight_decay);
  ADD(all, rmsprop, RMSPROP, lr, lr);
  ADD(all, rmsprop, RMSPROP, alpha, number[0]);
  ADD(all, rmsprop, RMSPROP, eps, number[1]);
  ADD(all, step_decay, STEP_DECAY, factor, factor);
  ADD(all, one_cycle, ONE_CYCLE, start, start);
  ADD(all, one_cycle, ONE_CYCLE, end, end);
  clade_one_cycle_opt o = {CLADE_ONE_CYCLE_OPT, .steps = 1000};
  o.peak_at = 0;
  add(all, "one_cycle", "peak_at", (double)clade_one_cycle(.steps = 1000).peak / 1000,
      (double)clade_one_cycle(.steps = 1000, .peak_at = 0).peak, (double)clade_one_cycle_(&o).peak);
}

/* ---- nodes, through the printed graph ---- */
static clade_graph *graph(clade_val *x) {
  clade_graph *g;
  assert_int_equal(clade_graph_new(&g), CLADE_OK);
  clade_graph_train(g, true);
  *x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(4, 4));
  return g;
}

/* The number behind "NAME=" of a node; 0 if absent, since zeros are not printed. */
static double told(clade_graph *g, const char *name) {
  char *text, key[40];
  if (clade_graph_status(g) != CLADE_OK) fail_msg("%s", clade_graph_message(g));
  assert_int_equal(clade_graph_print(g, CLADE_PRINT_TEXT, &text), CLADE_OK);
  snprintf(key, sizeof key, "%s=", name);
  const char *at = strstr(text, key);
  double value = at ? strtod(at + strlen(key), NULL) : 0;
  clade_text_free(text);
  clade_graph_release(g);
  return value;
}

/* Whether a product's bias is added: 1 if the printed graph has the sum. */
static double added(clade_graph *g) {
  char *text;
  if (clade_graph_status(g) != CLADE_OK) fail_msg("%s", clade_graph_message(g));
  assert_int_equal(clade_graph_print(g, CLADE_PRINT_TEXT, &text), CLADE_OK);
  double sums = strstr(text, "eltwise") != NULL;
  clade_text_free(text);
  clade_graph_release(g);
  return sums;
}

#define NODE(out, read, ...)    \
  do {                          \
    clade_val x;                \
    clade_graph *g = graph(&x); \
    __VA_ARGS__;                \
    out = read;                 \
  } while (0)
#define ADD_LAYER(all, layer, kind, KIND, option, ...)                                                             \
  do {                                                                                                             \
    double unset, by_macro, by_struct;                                                                             \
    NODE(unset, told(g, #option), clade_nn_##layer(g, "n", __VA_ARGS__));                                          \
    NODE(by_macro, told(g, #option), clade_nn_##layer(g, "n", __VA_ARGS__, .option = 0));                          \
    NODE(by_struct, told(g, #option), clade_##kind##_opt o = {CLADE_##KIND##_OPT, .x = __VA_ARGS__}; o.option = 0; \
         clade_nn_##layer##_(g, "n", &o));                                                                         \
    add(all, #kind, #option, unset, by_macro, by_struct);                                                          \
  } while (0)

static void layers(rows *all) {
  double unset, by_macro, by_struct;
  ADD_LAYER(all, batch_norm, batch_norm, BATCH_NORM, eps, x);
  ADD_LAYER(all, batch_norm, batch_norm, BATCH_NORM, momentum, x);
  ADD_LAYER(all, layer_norm, layer_norm, LAYER_NORM, eps, x);
  ADD_LAYER(all, rms_norm, layer_norm, LAYER_NORM, eps, x);
  ADD_LAYER(all, group_norm, group_norm, GROUP_NORM, eps, x, .groups = 2);
  ADD_LAYER(all, instance_norm, group_norm, GROUP_NORM, eps, x);

  clade_gemm_opt o = {CLADE_GEMM_OPT};
  o.alpha = 0;
  NODE(unset, told(g, "alpha"), clade_gemm(g, x, x));
  NODE(by_macro, told(g, "alpha"), clade_gemm(g, x, x, .alpha = 0));
  NODE(by_struct, told(g, "alpha"), o.b = x; clade_gemm_(g, x, &o));
  add(all, "gemm", "alpha", unset, by_macro, by_struct);
  o = (clade_gemm_opt){CLADE_GEMM_OPT};
  o.beta = 0;
  NODE(unset, added(g), clade_gemm(g, x, x, .bias = x));
  NODE(by_macro, added(g), clade_gemm(g, x, x, .bias = x, .beta = 0));
  NODE(by_struct, added(g), o.b = o.bias = x; clade_gemm_(g, x, &o));
  add(all, "gemm", "beta", unset, by_macro, by_struct);
}

static bool is(double a, double b) { return a > b ? a - b <= 1e-6 * a : b - a <= 1e-6 * b; }

static void test_every_zero(void **state) {
  rows all = {.n = 0};
  (void)state;
  training(&all);
  layers(&all);
  for (int i = 0; i < all.n; i++) {
    const row *r = &all.at[i];
    if (!(r->unset > 0)) fail_msg("%s: .%s is %g where it is unset", r->type, r->name, r->unset);
    if (!is(r->by_macro, 0)) fail_msg("%s: .%s = 0 by the macro gives %g", r->type, r->name, r->by_macro);
    if (!is(r->by_struct, 0)) fail_msg("%s: .%s = 0 in the struct gives %g", r->type, r->name, r->by_struct);
  }
}

/* ---- completeness of the rows above ---- */
/* Parses "NAME = VALUE" behind a dot; NULL at the end. */
static const char *next_default(const char *at, const char *end, char *name, double *value) {
  at = memchr(at, '.', (size_t)(end - at));
  if (!at) return NULL;
  size_t length = strspn(at + 1, "abcdefghijklmnopqrstuvwxyz_0123456789");
  snprintf(name, 40, "%.*s", (int)length, at + 1);
  at = strchr(at, '=');
  assert_non_null(at);
  char *behind;
  *value = strtod(at + 1, &behind);
  return behind;
}

static int look_up(const rows *all, const char *text) {
  int found = 0;
  for (const char *at = text; (at = strstr(at, "CLADE_FILLED(clade_")); found++) {
    char type[40], name[40];
    double value;
    at += strlen("CLADE_FILLED(clade_");
    const char *end = strchr(at, ')');
    assert_non_null(end);
    snprintf(type, sizeof type, "%.*s", (int)(strstr(at, "_opt") - at), at);
    for (const char *one = strchr(at, ','); (one = next_default(one, end, name, &value));) {
      bool there = !strcmp(name, "n_axes"); /* refused: see test_zeros_without_sense */
      for (int i = 0; i < all->n; i++)
        there =
            there || (!strcmp(all->at[i].type, type) && !strcmp(all->at[i].name, name) && is(all->at[i].unset, value));
      if (!there) fail_msg("%s: no test sets .%s to 0, whose default is %g", type, name, value);
    }
  }
  return found;
}

static void test_all_are_listed(void **state) {
  static const char *const headers[] = {"ops.h", "nn.h", "optim.h", "data.h", "train.h", "func.h",
                                        "run.h", "io.h", "init.h",  "tune.h", "device.h"};
  rows all = {.n = 0};
  int found = 0;
  (void)state;
  training(&all);
  layers(&all);
  for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
    char path[4096];
    static char text[1 << 16];
    snprintf(path, sizeof path, "%s/%s", HEADERS, headers[i]);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    assert_true(n < sizeof text - 1);
    text[n] = 0;
    fclose(f);
    found += look_up(&all, text);
  }
  assert_int_equal(found, 10);
}

/* ---- other zeros ---- */
static void test_zeros_without_sense(void **state) {
  clade_val x;
  clade_graph *g = graph(&x);
  (void)state;
  clade_nn_layer_norm(g, "n", x, .n_axes = 0);
  assert_non_null(strstr(clade_graph_message(g), ".n_axes is 0; expected 1 to 2"));
  clade_graph_release(g);
  g = graph(&x);
  clade_gemm(g, x, x, .beta = 0);
  assert_non_null(strstr(clade_graph_message(g), ".beta is 0 and there is no .bias"));
  clade_graph_release(g);
}

static void test_weights_of_zero(void **state) {
  clade_val x;
  char *text;
  clade_graph *g = graph(&x);
  (void)state;
  clade_nn_linear(g, "unset", x, .out = 4, .no_bias = true);
  clade_nn_linear(g, "zero", x, .out = 4, .no_bias = true, .weight_init = {CLADE_INIT_ZERO, 0, 0});
  clade_variable(g, "plain", CLADE_F32, CLADE_SHAPE(2), (clade_initial){0});
  assert_int_equal(clade_graph_print(g, CLADE_PRINT_TEXT, &text), CLADE_OK);
  const char *zero = strstr(text, "zero.weight"), *unset = strstr(text, "unset.weight"), *plain = strstr(text, "plain");
  assert_true(zero && unset && plain);
  assert_memory_equal(strstr(unset, "initial="), "initial=uniform", 15);
  assert_memory_equal(strstr(zero, "initial="), "initial=zero", 12);
  assert_memory_equal(strstr(plain, "initial="), "initial=zero", 12);
  clade_text_free(text);
  clade_graph_release(g);
}

/* Structs within structs cannot grow: they have reserved space. */
static void test_sizes(void **state) {
  (void)state;
  assert_int_equal(sizeof(clade_optimizer), 128);
  assert_int_equal(sizeof(clade_schedule), 96);
  assert_int_equal(sizeof(clade_augment), 64);
  assert_int_equal(sizeof(clade_unit_info), 32);
  assert_int_equal(sizeof(clade_array_info), 64);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_zero), cmocka_unit_test(test_all_are_listed),
                                     cmocka_unit_test(test_zeros_without_sense), cmocka_unit_test(test_weights_of_zero),
                                     cmocka_unit_test(test_sizes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
