/* Clade's default records, replaced by those of this program. Device class and kind of core select among the
 * devices' records; invalid records are skipped; measured records take precedence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include <clade/clade.h>

#include "program/tuning.h"

/* Two CPUs that differ only in their FMA units, one with other vectors and caches, and a GPU. */
#define KIND(units) "\"class\": \"cpu\", \"vector_f32\": 16, \"l1\": 32768, \"l2\": 1048576, \"fma_units\": " #units
#define ROW(problem, impl, params) \
  "{\"op\": \"acme.copy\", \"problem\": \"" problem "\", \"impl\": \"" impl "\", \"params\": " params "}"
#define STEP(problem, step)   ROW(problem, "vec", "{\"step\": " #step "}")
#define DEVICE(kind, records) "{\"device\": {" kind "}, \"records\": [" records "]}"
/* clang-format off */
const char clade__tuning_defaults[] =
    "{\"clade_tuning\": 1, \"devices\": ["
    DEVICE("\"class\": \"gpu\", \"vector_f32\": 16", STEP("*", 9)) ","
    DEVICE(KIND(1), STEP("*", 2)) ","
    DEVICE(KIND(2), STEP("*", 3) "," STEP("f32[12] -> f32", 77) "," ROW("f32[13] -> f32", "vec", "\"none\"") ","
                    ROW("f32[14] -> f32", "gone", "{}")) ","
    DEVICE("\"class\": \"cpu\", \"vector_f32\": 1, \"l1\": 1024, \"l2\": 2048, \"fma_units\": 4",
           STEP("*", 4) "," STEP("f32[15] -> f32", 5))
    "]}";
/* clang-format on */

/* ---- an op with a parameter from 1 to 9 ---- */
static const char source[] = "#ifdef WANT_acme_copy\n"
                             "KERNEL(acme_copy)(ARG(const float, x), ARG(float, y), const int n) {\n"
                             "  if (n == 0) return;\n"
                             "  USE(const float, x);\n"
                             "  USE(float, y);\n"
                             "  for (int i = 0; i < n; i++) y[i] = x[i];\n"
                             "}\n"
                             "#endif\n";
static clade_status infer(clade_node *n) {
  n->out[0] = n->in[0];
  return CLADE_OK;
}
static const char *const params[] = {"step", NULL};
static void defaults(const clade_query *q, int32_t *config) {
  (void)q;
  config[0] = 1;
}
static bool configs(const clade_query *q, int i, int32_t *config) {
  (void)q;
  config[0] = i + 1;
  return i < 9;
}
static const clade_space space = {sizeof space, params, defaults, configs};
static clade_status emit(clade_emit *e, const clade_query *q) {
  clade_kernel_step *s = clade_emit_kernel(e, "acme_copy");
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_i32(s, (int32_t)q->node->in[0].shape.dim[0]);
  clade_emit_range(s, 1, &(size_t){1}, &(size_t){1});
  return CLADE_OK;
}
static const clade_impl *const impls[] = {CLADE_IMPL(.name = "vec", .emit = emit, .space = &space), NULL};
static const clade_op op = {.size = sizeof(clade_op),
                            .name = "acme.copy",
                            .min_in = 1,
                            .max_in = 1,
                            .n_out = 1,
                            .infer = infer,
                            .impls = impls,
                            .source = source};

/* ---- helpers ---- */
static char root[64], words[1024];
static clade_device *device;

static void remember(void *user, clade_log_level level, const char *message) {
  (void)user, (void)level;
  snprintf(words, sizeof words, "%s", message);
}

static int set_up(void **state) {
  (void)state;
  strcpy(root, "/tmp/clade-defaults-XXXXXX");
  words[0] = 0;
  clade_log_set(remember, NULL, CLADE_LOG_WARNING);
  return !mkdtemp(root) || setenv("CLADE_CACHE_DIR", root, 1) || clade_device_find(NULL, &device) ? -1 : 0;
}

static int tear_down(void **state) {
  (void)state;
  char command[128];
  clade_device_release(device);
  clade_log_set(NULL, NULL, 0);
  snprintf(command, sizeof command, "rm -rf %s", root);
  return system(command);
}

/* The parameter chosen for a copy of n numbers. */
static int step_of(int64_t n) {
  clade_graph *g;
  clade_func *func;
  char *choices;
  assert_int_equal(clade_graph_new(&g), CLADE_OK);
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(n));
  clade_output(g, "y", clade_node_add(g, &op, NULL, NULL, 1, &x, NULL));
  assert_int_equal(clade_compile(g, device, &func), CLADE_OK);
  assert_int_equal(clade_func_choices(func, &choices), CLADE_OK);
  const char *at = strstr(choices, "\"step\"");
  assert_non_null(at);
  int step = (int)strtol(strpbrk(at, "0123456789"), NULL, 10);
  clade_text_free(choices);
  clade_func_release(func);
  clade_graph_release(g);
  return step;
}

/* Stores records as the tuner would: the number of FMA units and an implementation's default configuration, or none. */
static void measured(clade__tuned_device of, int32_t step) {
  clade__records *set;
  const clade__record r = {
      .op = "acme.copy", .problem = "*", .impl = "vec", .n_params = 1, .param = {"step"}, .value = {step}};
  assert_int_equal(clade__records_new(&of, &set), CLADE_OK);
  if (step) assert_int_equal(clade__records_put(set, &r), CLADE_OK);
  assert_int_equal(clade__tuning_merge(set, true, NULL), CLADE_OK);
  clade__records_release(set);
}

static clade__tuned_device own(uint32_t units) {
  clade__tuned_device d;
  clade__tuned_describe(device, &d);
  d.fma_units = units;
  return d;
}

static void the_kind_of_core_decides(void **state) {
  (void)state;
  assert_int_equal(step_of(16), 2); /* unknown yet: both are equally near, so the first applies */
  measured(own(2), 0);
  assert_int_equal(step_of(16), 3);
  measured(own(1), 0);
  assert_int_equal(step_of(16), 2);
}

static void a_farther_device_serves_where_no_nearer_one_does(void **state) {
  (void)state;
  measured(own(2), 0);
  assert_int_equal(step_of(15), 5);
}

static void what_does_not_hold_is_passed_over(void **state) {
  (void)state;
  measured(own(2), 0);
  assert_int_equal(step_of(12), 3); /* a configuration that is not offered */
  assert_int_equal(step_of(13), 3); /* malformed, with a warning */
  assert_non_null(strstr(words, "1 tuning records are malformed"));
  assert_int_equal(step_of(14), 3); /* an unknown implementation */
}

static void malformed_records_of_all_files_are_told(void **state) {
  (void)state;
  char path[96];
  snprintf(path, sizeof path, "%s/named.json", root);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(
      fputs("{\"clade_tuning\": 1, \"devices\": [{\"device\": {\"class\": \"cpu\"}, \"records\": [{\"op\": 5}]}]}",
            file) >= 0 &&
      fclose(file) == 0);
  setenv("CLADE_TUNING", path, 1);
  step_of(16);
  unsetenv("CLADE_TUNING");
  assert_non_null(strstr(words, "2 tuning records are malformed")); /* one of them in the defaults */
}

static void what_was_measured_comes_first(void **state) {
  (void)state;
  clade__tuned_device far = {
      .key = {1, 2}, .device_class = CLADE_CPU, .vector_f32 = 1, .fma_units = 4, .l1 = 64, .l2 = 64};
  measured(far, 7);
  measured(own(2), 0); /* reread after the device's own file changed */
  assert_int_equal(step_of(16), 7);
  measured(own(2), 8);
  assert_int_equal(step_of(16), 8);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(the_kind_of_core_decides, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_farther_device_serves_where_no_nearer_one_does, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_does_not_hold_is_passed_over, set_up, tear_down),
      cmocka_unit_test_setup_teardown(malformed_records_of_all_files_are_told, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_was_measured_comes_first, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
