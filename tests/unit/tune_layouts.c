/* Records of several implementations of a problem: their times and the reorder costs determine the choice for the
 * whole graph. Measured records, if estimates are wrong; written ones, with known outcomes; those of other devices;
 * and unwritable files. Over 400 lines: all cases use the ops and the made-up times at its top. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

#include <clade/clade.h>

#include "pass/candidates.h"
#include "plan/plan.h"
#include "program/tuning.h"

/* y = 2 x in any layout, after EXTRA steps whose result has no effect. */
static const char source[] = "KERNEL(acme_twice)(ARG(const float, x), ARG(float, y), const index_t n) {\n"
                             "  USE(const float, x);\n"
                             "  USE(float, y);\n"
                             "  const index_t i = (index_t)get_global_id(0);\n"
                             "  if (i >= n) return;\n"
                             "  float r = x[i];\n"
                             "  for (int k = 0; k < EXTRA; k++) r = r * 1.0009765625f + 0.5f;\n"
                             "  y[i] = x[i] * 2 + (r == -123.5f ? 1.0f : 0.0f);\n"
                             "}\n";

static clade_status infer(clade_node *n) {
  n->out[0] = n->in[0];
  return CLADE_OK;
}
static clade_status emit_with(clade_emit *e, const clade_query *q, int extra) {
  size_t bytes;
  clade_status status = clade_type_bytes(&q->node->out[0], &bytes);
  if (status != CLADE_OK) return status;
  clade_kernel_step *s = clade_emit_kernel(e, "acme_twice");
  clade_emit_define(s, "EXTRA", extra);
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, (int64_t)(bytes / sizeof(float)));
  clade_emit_range(s, 1, &(size_t){bytes / sizeof(float)}, &(size_t){1});
  return CLADE_OK;
}
static clade_status emit_fast(clade_emit *e, const clade_query *q) { return emit_with(e, q, 0); }
static clade_status emit_fair(clade_emit *e, const clade_query *q) { return emit_with(e, q, 250); }
static clade_status emit_slow(clade_emit *e, const clade_query *q) { return emit_with(e, q, 1000); }
/* Fast when the tuner runs it alone, slow otherwise. */
static clade_status emit_sly(clade_emit *e, const clade_query *q) {
  return emit_with(e, q, strcmp(q->node->name, "tuned") ? 5000 : 0);
}
static double cheap(const clade_query *q) {
  (void)q;
  return 1e-9;
}
static double dear(const clade_query *q) {
  (void)q;
  return 1;
}
static const clade_layout blocked = {.axis = 1, .block = 4};
static void in_blocks(const clade_query *q, clade_layout *in, clade_layout *out) {
  (void)q;
  in[0] = out[0] = blocked;
}

static const clade_impl *const impls[] = {
    CLADE_IMPL(.name = "blocked", .cost = cheap, .layouts = in_blocks, .emit = emit_slow),
    CLADE_IMPL(.name = "plain", .cost = dear, .emit = emit_fast),
    CLADE_IMPL(.name = "ref", .emit = emit_fair),
    NULL,
};
static const clade_impl *const sly_impls[] = {
    CLADE_IMPL(.name = "fair", .cost = cheap, .emit = emit_fair),
    CLADE_IMPL(.name = "sly", .cost = dear, .emit = emit_sly),
    CLADE_IMPL(.name = "ref", .emit = emit_slow),
    NULL,
};
#define OP(label, its_impls)                                                                                           \
  {                                                                                                                    \
    .size = sizeof(clade_op), .name = label, .min_in = 1, .max_in = 1, .n_out = 1, .infer = infer, .impls = its_impls, \
    .source = source                                                                                                   \
  }
static const clade_op op = OP("acme.twice", impls), sly_op = OP("acme.sly", sly_impls);

/* ---- helpers ---- */
enum { ROWS = 64, COLUMNS = 256 };
static const char problem[] = "f32[64,256] -> f32";
static char root[64], words[8192];
static clade_device *device;

static void remember(void *user, clade_log_level level, const char *message) {
  (void)user, (void)level;
  size_t used = strlen(words);
  snprintf(words + used, sizeof words - used, "%s\n", message);
}
static int said(const char *what) {
  int n = 0;
  for (const char *at = words; (at = strstr(at, what)); at++) n++;
  return n;
}

static int set_up(void **state) {
  (void)state;
  strcpy(root, "/tmp/clade-tune-XXXXXX");
  if (!mkdtemp(root) || setenv("CLADE_CACHE_DIR", root, 1)) return -1;
  words[0] = '\0';
  clade_log_set(remember, NULL, CLADE_LOG_WARNING);
  return clade_device_find(NULL, &device) == CLADE_OK ? 0 : -1;
}
static int tear_down(void **state) {
  (void)state;
  char command[128];
  clade_device_release(device);
  clade_log_set(NULL, NULL, 0);
  unsetenv("CLADE_TUNING");
  snprintf(command, sizeof command, "rm -rf %s", root);
  return system(command);
}

/* A chain of n, dense at both ends. */
static clade_func *chain(const clade_op *of, int n) {
  clade_graph *g;
  clade_func *func;
  assert_int_equal(clade_graph_new(&g), CLADE_OK);
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(ROWS, COLUMNS));
  for (int i = 0; i < n; i++) x = clade_node_add(g, of, NULL, NULL, 1, &x, NULL);
  clade_output(g, "y", x);
  assert_int_equal(clade_compile(g, device, &func), CLADE_OK);
  clade_graph_release(g);
  return func;
}

/* Number of the op's nodes with the implementation; the reason must be the same for all. */
static int count(const clade_func *func, const char *of, const char *impl, const char *why) {
  clade_impl_info info = {.size = sizeof info};
  int n, found = 0;
  assert_int_equal(clade_func_impl_count(func, &n), CLADE_OK);
  for (int i = 0; i < n; i++) {
    assert_int_equal(clade_func_impl(func, i, &info), CLADE_OK);
    if (strcmp(info.op, of) != 0) continue;
    assert_string_equal(info.why, why);
    found += !strcmp(info.impl, impl);
  }
  return found;
}
static int count_of_chain(int n, const char *impl, const char *why) {
  clade_func *func = chain(&op, n);
  int found = count(func, "acme.twice", impl, why);
  clade_func_release(func);
  return found;
}

static clade__records *new_set(void) {
  clade__records *set;
  clade__tuned_device describes;
  clade__tuned_describe(device, &describes);
  assert_int_equal(clade__records_new(&describes, &set), CLADE_OK);
  return set;
}
static void put(clade__records *set, const char *impl, double seconds) {
  const clade__record r = {.op = "acme.twice", .problem = problem, .impl = impl, .seconds = seconds, .full = true};
  assert_int_equal(clade__records_put(set, &r), CLADE_OK);
}
/* Stores them as the device's own records. */
static void keep(clade__records *set) {
  assert_int_equal(clade__tuning_keep(device, set), CLADE_OK);
  clade__records_release(set);
}
static void keep_two(double in_blocks_seconds, double plain_seconds) {
  clade__records *set = new_set();
  put(set, "blocked", in_blocks_seconds);
  put(set, "plain", plain_seconds);
  keep(set);
}
static double reorder_cost(void) {
  clade_type type = {.dtype = CLADE_F32, .shape = CLADE_SHAPE(ROWS, COLUMNS)};
  const clade_device_info *info = clade__device_info(device);
  return clade__pack_cost(info, &type, blocked) + clade__unpack_cost(info, &type, blocked);
}

static const clade__record *own(clade__tuning **tuning, const char *name, const char *text, const char *impl) {
  assert_int_equal(clade__tuning_get(device, tuning), CLADE_OK);
  return (*tuning)->n ? clade__records_find((*tuning)->layer[0], name, text, impl) : NULL;
}

typedef struct seen {
  int whole;
  char after[64];
} seen;
static void observe(void *user, const clade_tune_row *row) {
  seen *s = user;
  if (strcmp(row->op, "func") != 0) return;
  s->whole++;
  snprintf(s->after, sizeof s->after, "%s", row->after);
}

/* ---- measured ---- */
static void a_wrong_cost_is_corrected_across_layouts(void **state) {
  (void)state;
  clade__tuning *tuning;
  seen s = {0};
  clade_func *func = chain(&op, 2);
  assert_int_equal(count(func, "acme.twice", "blocked", "cheapest"), 2);
  assert_int_equal(clade_tune(func, CLADE_TUNE_FULL, .observe = observe, .observe_user = &s), CLADE_OK);
  assert_string_equal(s.after, "by seconds measured");
  assert_int_equal(count_of_chain(2, "plain", "measured"), 2);
  const clade__record *slow = own(&tuning, "acme.twice", problem, "blocked"),
                      *fast = clade__records_find(tuning->layer[0], "acme.twice", problem, "plain");
  assert_true(slow && fast && fast->seconds > 0 && fast->seconds < slow->seconds);
  clade__tuning_release(tuning);
  clade_func_release(func);
}

static void what_is_slower_as_a_whole_does_not_stand(void **state) {
  (void)state;
  clade__tuning *tuning;
  seen s = {0};
  clade_func *func = chain(&sly_op, 2);
  assert_int_equal(clade_tune(func, CLADE_TUNE_FULL, .observe = observe, .observe_user = &s), CLADE_OK);
  assert_int_equal(s.whole, 1);
  assert_string_equal(s.after, "as it was");
  clade_func *later = chain(&sly_op, 2);
  assert_int_equal(count(later, "acme.sly", "fair", "measured"), 2);
  assert_null(own(&tuning, "acme.sly", problem, "sly"));
  clade__tuning_release(tuning);
  clade_func_release(func);
  clade_func_release(later);
}

/* ---- written records ---- */
static void conversions_count_for_the_whole_graph(void **state) {
  (void)state;
  keep_two(1e-6, 1);
  assert_int_equal(count_of_chain(1, "blocked", "measured"), 1);
  keep_two(1e-6, 1e-6 + reorder_cost() / 4); /* worthwhile from five nodes on */
  assert_int_equal(count_of_chain(3, "plain", "measured"), 3);
  assert_int_equal(count_of_chain(6, "blocked", "measured"), 6);
  keep_two(0, 1e-9); /* without a time: estimates decide */
  assert_int_equal(count_of_chain(1, "blocked", "measured"), 1);
}

/* Records of another version, with unknown parameters, or of unknown implementations. */
static void what_is_stale_does_not_compete(void **state) {
  (void)state;
  const clade__record stale[] = {
      {.op = "acme.twice", .problem = problem, .impl = "blocked", .kernel = {1, 2}},
      {.op = "acme.twice", .problem = problem, .impl = "blocked", .n_params = 1, .param = {"rows"}},
      {.op = "acme.twice", .problem = problem, .impl = "nobody"}};
  for (size_t i = 0; i < CLADE_COUNT(stale); i++)
    for (int fastest = 0; fastest < 2; fastest++) { /* which voids the comparison */
      clade__record r = stale[i];
      clade__records *set = new_set();
      r.seconds = fastest ? 1e-9 : 1;
      assert_int_equal(clade__records_put(set, &r), CLADE_OK);
      put(set, "plain", 1e-6);
      put(set, "ref", 1e-3);
      keep(set);
      if (fastest)
        assert_int_equal(count_of_chain(1, "blocked", "cheapest"), 1);
      else
        assert_int_equal(count_of_chain(1, "plain", "measured"), 1);
    }
}

/* One problem with two implementations: dense between dense ports, blocked between blocked ones. */
static clade_func *mixed(const char *choices) {
  clade_graph *g;
  clade_func *func;
  assert_int_equal(clade_graph_new(&g), CLADE_OK);
  clade_val a = clade_input(g, "a", CLADE_F32, CLADE_SHAPE(ROWS, COLUMNS)),
            b = clade_input(g, "b", CLADE_F32, CLADE_SHAPE(ROWS, COLUMNS));
  for (int i = 0; i < 2; i++) b = clade_node_add(g, &op, NULL, NULL, 1, &b, NULL);
  clade_output(g, "dense", clade_node_add(g, &op, NULL, NULL, 1, &a, NULL));
  clade_output(g, "blocked", clade_pack(g, b, blocked));
  assert_int_equal(clade_compile(g, device, &func, .choices = choices), CLADE_OK);
  clade_graph_release(g);
  return func;
}

static void pins_hold_several_of_a_problem(void **state) {
  (void)state;
  char *choices;
  keep_two(1e-6, 1e-6 + reorder_cost() / 16);
  clade_func *func = mixed(NULL);
  assert_int_equal(count(func, "acme.twice", "plain", "measured"), 1);
  assert_int_equal(count(func, "acme.twice", "blocked", "measured"), 2);
  assert_int_equal(clade_func_choices(func, &choices), CLADE_OK);
  keep_two(1, 1e-6);
  clade_func *pinned = mixed(choices), *later = mixed(NULL);
  assert_int_equal(count(pinned, "acme.twice", "plain", "pinned"), 1);
  assert_int_equal(count(pinned, "acme.twice", "blocked", "pinned"), 2);
  assert_int_equal(count(later, "acme.twice", "plain", "measured"), 3);
  assert_int_equal(said("does not hold"), 0);
  clade_text_free(choices);
  clade_func_release(func);
  clade_func_release(pinned);
  clade_func_release(later);
}

/* ---- convolutions ---- */
static clade_func *conv(const char *prefer, bool strict, bool untuned) {
  clade_graph *g;
  clade_func *func;
  assert_int_equal(clade_graph_new(&g), CLADE_OK);
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(1, 64, 24, 24)),
            w = clade_variable(g, "w", CLADE_F32, CLADE_SHAPE(64, 64, 3, 3), (clade_initial){CLADE_INIT_ZERO, 0, 0});
  clade_output(g, "y", clade_conv2d(g, x, w, .pad = {1, 1}));
  assert_int_equal(clade_compile(g, device, &func, .prefer = prefer, .strict = strict, .untuned = untuned), CLADE_OK);
  clade_graph_release(g);
  return func;
}

/* With its default configuration. */
static void put_conv(clade__records *set, const char *prefer, double seconds) {
  clade_func *func = conv(prefer, false, true);
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  clade__text text = {0};
  clade__id id = 1;
  while (strcmp(func->graph->nodes[id].op->name, "conv2d") != 0) id++;
  const clade__node *node = &func->graph->nodes[id];
  const clade_impl *impl = node->op->impls[node->impl];
  clade__node_view(func->graph, id, in, out, &view);
  clade__problem_text(&view, false, &text);
  clade__record r = {.op = "conv2d", .problem = text.data, .impl = impl->name, .seconds = seconds};
  clade__record_config(&r, impl, node->config);
  assert_int_equal(clade__records_put(set, &r), CLADE_OK);
  clade__text_free(&text);
  clade_func_release(func);
}
static int conv_goes_by(const char *impl, const char *why, bool strict) {
  clade_func *func = conv(NULL, strict, false);
  int n = count(func, "conv2d", impl, why);
  clade_func_release(func);
  return n;
}

static void strict_funcs_go_by_what_else_was_measured(void **state) {
  (void)state;
  clade__records *set = new_set();
  put_conv(set, "conv2d=winograd", 1e-9);
  put_conv(set, "conv2d=direct", 1e-3);
  keep(set);
  assert_int_equal(conv_goes_by("winograd", "measured", false), 1);
  assert_int_equal(conv_goes_by("direct", "measured", true), 1);
  set = new_set();
  put_conv(set, "conv2d=winograd", 1);
  put_conv(set, "conv2d=direct", 1e-9);
  keep(set);
  assert_int_equal(conv_goes_by("direct", "measured", false), 1);
  set = new_set();
  put_conv(set, "conv2d=winograd", 1e-9);
  keep(set);
  assert_int_equal(conv_goes_by("winograd", "cheapest", true), 0);
}

/* An untuned func is not compared as a whole, so all records stay. Five seconds are short if nothing is compiled
 * yet. */
static void convolutions_compete_across_layouts(void **state) {
  (void)state;
  static const struct {
    const char *impl;
    int layouts;
  } those[] = {{"winograd", 0}, {"direct", 0}, {"direct", 2}};
  clade__tuning *tuning;
  clade_func *func = conv(NULL, true, true);
  assert_int_equal(clade_tune(func, CLADE_TUNE_QUICK, .seconds = 20), CLADE_OK);
  assert_int_equal(clade__tuning_get(device, &tuning), CLADE_OK);
  const clade__records *set = tuning->layer[0];
  for (size_t i = 0; i < CLADE_COUNT(those); i++) {
    clade__record like = {.op = "conv2d", .problem = set->at[0].problem, .impl = those[i].impl};
    if (those[i].layouts) like.n_params = 1, like.param[0] = CLADE__LAYOUTS_PARAM, like.value[0] = those[i].layouts;
    const clade__record *found = clade__records_same(set, &like);
    assert_true(found && found->seconds > 0);
  }
  clade__tuning_release(tuning);
  clade_func_release(func);
}

/* ---- sources of records ---- */
static void write_sets(const char *path, clade__record_sets *sets) {
  char *text;
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(clade__records_print(sets, &text), CLADE_OK);
  assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
  clade__free(text);
  clade__record_sets_free(sets);
}

static void the_nearest_device_is_gone_by(void **state) {
  (void)state;
  static const struct {
    clade_device_class class_of_near;
    const char *taken;
  } cases[] = {{CLADE_CPU, "plain"}, {CLADE_GPU, "ref"}}; /* records of another class do not apply */
  char path[128];
  snprintf(path, sizeof path, "%s/others.json", root);
  setenv("CLADE_TUNING", path, 1);
  for (size_t i = 0; i < CLADE_COUNT(cases); i++) {
    clade__tuned_device near, far;
    clade__records *of_near, *of_far;
    clade__record_sets sets = {0};
    clade__tuned_describe(device, &near);
    near.key = (clade__hash){1, 1};
    near.name = "another one";
    far = near;
    near.compute_units *= 2;
    near.device_class = cases[i].class_of_near;
    far.key = (clade__hash){2, 2};
    far.vector_f32 *= 4;
    assert_int_equal(clade__records_new(&far, &of_far), CLADE_OK);
    assert_int_equal(clade__records_new(&near, &of_near), CLADE_OK);
    put(of_far, "ref", 1e-9);
    put(of_near, "plain", 1);
    assert_int_equal(clade__record_sets_add(&sets, of_far), CLADE_OK);
    assert_int_equal(clade__record_sets_add(&sets, of_near), CLADE_OK);
    write_sets(path, &sets);
    clade_device_release(device);
    assert_int_equal(clade_device_find(NULL, &device), CLADE_OK);
    assert_int_equal(count_of_chain(1, cases[i].taken, "measured"), 1);
  }
  keep_two(1e-9, 1); /* its own records take precedence */
  assert_int_equal(count_of_chain(1, "blocked", "measured"), 1);
}

/* root can write to a read-only directory, but cannot replace a directory. */
static void what_cannot_be_written_holds_for_the_process(void **state) {
  (void)state;
  char path[160], hex[33];
  snprintf(path, sizeof path, "%s/tuning-%s.json", root, clade__hash_text(clade__device_key(device), hex));
  assert_int_equal(mkdir(path, 0700), 0);
  assert_int_equal(count_of_chain(1, "blocked", "cheapest"), 1);
  assert_int_equal(said("these tuning records are not used"), 1);
  keep_two(1, 1e-9);
  keep_two(1, 1e-9);
  assert_int_equal(said("holds for this process only"), 1);
  assert_int_equal(count_of_chain(1, "plain", "measured"), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_wrong_cost_is_corrected_across_layouts, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_is_slower_as_a_whole_does_not_stand, set_up, tear_down),
      cmocka_unit_test_setup_teardown(conversions_count_for_the_whole_graph, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_is_stale_does_not_compete, set_up, tear_down),
      cmocka_unit_test_setup_teardown(pins_hold_several_of_a_problem, set_up, tear_down),
      cmocka_unit_test_setup_teardown(strict_funcs_go_by_what_else_was_measured, set_up, tear_down),
      cmocka_unit_test_setup_teardown(convolutions_compete_across_layouts, set_up, tear_down),
      cmocka_unit_test_setup_teardown(the_nearest_device_is_gone_by, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_cannot_be_written_holds_for_the_process, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
