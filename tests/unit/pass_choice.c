/* Validity of tuning records, with toy ops: the space must offer them, the kernels must exist, and `accept` must
 * agree. */
#include <stdio.h>

#include "toy.h"

#include "pass/pass.h"

static clade_device_info device = {.size = sizeof(clade_device_info), .name = "dev", .device_class = CLADE_CPU};

static const char *const params[] = {"TM", "BK", NULL};
static void defaults(const clade_query *q, int32_t *config) {
  (void)q;
  config[0] = 4, config[1] = 64;
}
static bool configs(const clade_query *q, int i, int32_t *config) {
  static const int32_t all[][2] = {{6, 64}, {8, 128}, {9, 9}};
  (void)q;
  if (i >= 3) return false;
  memcpy(config, all[i], sizeof all[i]);
  return true;
}
static const clade_space space = {sizeof space, params, defaults, configs};
static const char *no_nines(const clade_query *q) { return q->config[0] == 9 ? "no nines" : NULL; }
static double cheap(const clade_query *q) { return q->config[0] == 4 ? 1e-6 : 1e-3; }
static double dear(const clade_query *q) {
  (void)q;
  return 1e-4;
}
static const clade_impl *const impls[] = {
    CLADE_IMPL(.name = "vec", .accept = no_nines, .cost = cheap, .space = &space, .loose = true),
    CLADE_IMPL(.name = "mid", .cost = dear),
    CLADE_IMPL(.name = "ref"),
    NULL,
};

static clade_op op;
static clade__records *set;
static const clade__tuning *tuning;

static int set_up(void **state) {
  (void)state;
  op = toy;
  op.impls = impls;
  op.name = "toy.tuned";
  op.source = "kernel";
  return clade__records_new(&(clade__tuned_device){.device_class = CLADE_CPU}, &set) != CLADE_OK;
}
static int tear_down(void **state) {
  (void)state;
  clade__records_release(set);
  return 0;
}

static void put(const char *problem, const char *impl, int32_t a, int32_t b, clade__hash kernel) {
  bool has_config = strcmp(impl, "vec") == 0;
  clade__record r = {.op = "toy.tuned",
                     .problem = problem,
                     .impl = impl,
                     .kernel = kernel,
                     .n_params = has_config ? 2 : 0,
                     .param = {"BK", "TM"}, /* in any order */
                     .value = {b, a}};
  assert_int_equal(clade__records_put(set, &r), CLADE_OK);
}

static clade_status select_in(const clade__records *pins, const char *prefer, bool strict, clade__pass_ctx *ctx) {
  clade_graph *g = new_graph();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(100)), y = clade_node_add(g, &op, "n", NULL, 1, &x, NULL);
  static clade__tuning layers;
  layers = (clade__tuning){.n = 1, .layer = {set}};
  tuning = &layers;
  clade_output(g, "y", y);
  *ctx = (clade__pass_ctx){.graph = g,
                           .n_devices = 1,
                           .devices = &device,
                           .fallback = -1,
                           .prefer = prefer,
                           .strict = strict,
                           .pins = pins,
                           .tuning = &tuning};
  return clade__pass_select(ctx);
}

/* The choice for a node f32[100]: "vec 4 64 cheapest". */
static const char *choose(const clade__records *pins, const char *prefer, bool strict) {
  static char text[80];
  clade__pass_ctx ctx;
  assert_error(select_in(pins, prefer, strict, &ctx), CLADE_OK, "");
  const clade__node *n = &ctx.graph->nodes[2];
  if (n->config)
    snprintf(text, sizeof text, "%s %d %d %s", n->op->impls[n->impl]->name, (int)n->config[0], (int)n->config[1],
             n->why);
  else
    snprintf(text, sizeof text, "%s %s", n->op->impls[n->impl]->name, n->why);
  clade_graph_release(ctx.graph);
  return text;
}

static clade_status refused(const char *prefer) {
  clade__pass_ctx ctx;
  clade_status status = select_in(NULL, prefer, false, &ctx);
  clade_graph_release(ctx.graph);
  return status;
}

static const char *chosen(const clade__records *pins, const char *prefer) { return choose(pins, prefer, false); }

static const clade_impl *const both[] = {
    CLADE_IMPL(.name = "systolic", .cost = dear, .bundled = "toy_f32"),
    CLADE_IMPL(.name = "ref"),
    NULL,
};

/* A device with a bundle supports bundle kernels only; one without, all others. */
static void bundled_kernels(void **state) {
  (void)state;
  static const char *const has[] = {"other_f32", "toy_f32", NULL}, *const lacks[] = {"toy_f3", NULL};
  op.impls = both;
  assert_string_equal(choose(NULL, NULL, false), "ref cheapest");
  device.kernels = has;
  assert_string_equal(choose(NULL, NULL, false), "systolic cheapest");
  assert_error(refused("toy.tuned=ref"), CLADE_NOT_FOUND, "ref: its kernels are compiled, and the device's come");
  device.kernels = lacks;
  assert_error(refused(NULL), CLADE_UNSUPPORTED, "systolic: the device's bundle does not hold its kernel; ref: ");
  device.kernels = NULL;
  assert_error(refused("toy.tuned=systolic"), CLADE_NOT_FOUND, "systolic: its kernel comes from a bundle");
}

static const clade__hash any = {0, 0};
#define BUCKET "f32[112] -> f32"

static size_t by_depth(const clade_query *q) { return (size_t)q->config[1] << 10; }
static size_t huge(const clade_query *q) {
  (void)q;
  return SIZE_MAX;
}

static const clade_impl *const scratch[] = {
    CLADE_IMPL(.name = "vec", .cost = cheap, .workspace = by_depth, .space = &space),
    CLADE_IMPL(.name = "mid", .cost = dear, .workspace = huge),
    CLADE_IMPL(.name = "ref", .workspace = huge),
    NULL,
};
static const clade_impl *const huge_first[] = {
    CLADE_IMPL(.name = "vec", .cost = cheap, .workspace = huge, .space = &space),
    CLADE_IMPL(.name = "ref"),
    NULL,
};

/* Workspace limits override records, except for the last implementation. */
static void scratch_has_a_limit(void **state) {
  (void)state;
  op.impls = scratch;
  device.budget_bytes = 4 * (64u << 10);
  assert_string_equal(chosen(NULL, NULL), "vec 4 64 cheapest");
  put(BUCKET, "vec", 8, 128, any);
  assert_string_equal(chosen(NULL, NULL), "vec 4 64 cheapest");
  device.budget_bytes--;
  assert_string_equal(chosen(NULL, NULL), "ref cheapest");
  assert_error(refused("toy.tuned=vec"), CLADE_NOT_FOUND, "vec: asks for more scratch memory than a quarter of what");
  device.budget_bytes = 0;
}

static void records_choose(void **state) {
  (void)state;
  assert_string_equal(chosen(NULL, NULL), "vec 4 64 cheapest");
  put("f32[128] -> f32", "ref", 0, 0, any); /* another bucket */
  assert_string_equal(chosen(NULL, NULL), "vec 4 64 cheapest");
  put(BUCKET, "ref", 0, 0, any);
  assert_string_equal(chosen(NULL, NULL), "ref measured");
  put(BUCKET, "vec", 8, 128, any);
  assert_string_equal(chosen(NULL, NULL), "vec 8 128 measured");
  assert_string_equal(chosen(NULL, "toy.tuned=mid"), "mid asked for");
  assert_string_equal(chosen(NULL, "toy.tuned=vec"), "vec 8 128 measured");
}

static void what_does_not_hold_is_ignored(void **state) {
  (void)state;
  clade__hash kernel;
  put(BUCKET, "vec", 7, 64, any); /* not in the space */
  assert_string_equal(chosen(NULL, NULL), "vec 4 64 cheapest");
  put(BUCKET, "vec", 8, 64, any); /* values that do not occur together */
  assert_string_equal(chosen(NULL, NULL), "vec 4 64 cheapest");
  put(BUCKET, "vec", 9, 9, any); /* refused by `accept` */
  assert_string_equal(chosen(NULL, NULL), "vec 4 64 cheapest");
  put(BUCKET, "vec", 8, 128, (clade__hash){1, 2}); /* other kernels */
  assert_string_equal(chosen(NULL, NULL), "vec 4 64 cheapest");
  assert_int_equal(clade__impl_hash(&op, impls[0], &device, &kernel), CLADE_OK);
  put(BUCKET, "vec", 8, 128, kernel);
  assert_string_equal(chosen(NULL, NULL), "vec 8 128 measured");
  op.source = "kernel, changed";
  assert_string_equal(chosen(NULL, NULL), "vec 4 64 cheapest");
  op.source = NULL;
  put(BUCKET, "vec", 8, 128, any);
  put(BUCKET, "gone", 0, 0, any); /* fastest, but removed: voids the comparison */
  assert_string_equal(chosen(NULL, NULL), "vec 4 64 cheapest");
  clade__record r = {.op = "toy.tuned", .problem = BUCKET, .impl = "vec", .n_params = 1, .param = {"TM"}, .value = {6}};
  assert_int_equal(clade__records_put(set, &r), CLADE_OK); /* parameters of another version */
  assert_string_equal(chosen(NULL, NULL), "vec 4 64 cheapest");
}

/* With .strict, implementations beyond the op's error bound are not chosen, whatever was measured. */
static void strict_takes_none_that_is_loose(void **state) {
  (void)state;
  assert_string_equal(choose(NULL, NULL, true), "mid cheapest");
  put(BUCKET, "vec", 8, 128, any);
  assert_string_equal(choose(NULL, NULL, true), "mid cheapest");
  assert_string_equal(choose(NULL, NULL, false), "vec 8 128 measured");
}

static void starts_come_from_records_too(void **state) {
  (void)state;
  put("*", "vec", 6, 64, any); /* vec's default becomes slower, so mid is chosen */
  assert_string_equal(chosen(NULL, NULL), "mid cheapest");
  assert_string_equal(chosen(NULL, "toy.tuned=vec"), "vec 6 64 asked for");
  put("*", "vec", 5, 5, any);
  assert_string_equal(chosen(NULL, NULL), "vec 4 64 cheapest");
}

static void pins_come_first(void **state) {
  (void)state;
  clade__records *pins;
  clade__text exact = {0};
  const clade_type type = {.dtype = CLADE_F32, .shape = CLADE_SHAPE(100)};
  clade_type out = type;
  const clade_node n = {sizeof n, &op, "", NULL, 1, 1, &type, &out};
  clade__problem_text(&n, true, &exact);
  assert_string_equal(exact.data, "f32[100] -> f32[100]");
  put(BUCKET, "ref", 0, 0, any);
  assert_int_equal(clade__records_new(&(clade__tuned_device){.device_class = CLADE_CPU}, &pins), CLADE_OK);
  clade__record r = {.op = "toy.tuned",
                     .problem = exact.data,
                     .impl = "vec",
                     .n_params = 2,
                     .param = {"rows", "depth"}, /* old names */
                     .value = {6, 64}};
  assert_int_equal(clade__records_put(pins, &r), CLADE_OK);
  assert_string_equal(chosen(pins, NULL), "vec 6 64 pinned");
  assert_string_equal(chosen(pins, "toy.tuned=mid"), "mid asked for");
  op.impls = huge_first;
  device.budget_bytes = 1; /* another device had room for it */
  assert_string_equal(chosen(pins, NULL), "vec 6 64 pinned");
  assert_string_equal(chosen(NULL, NULL), "ref measured");
  device.budget_bytes = 0;
  op.impls = impls;
  r.value[0] = 7; /* not offered: ignored */
  assert_int_equal(clade__records_put(pins, &r), CLADE_OK);
  assert_string_equal(chosen(pins, NULL), "ref measured");
  clade__records_release(pins);
  clade__text_free(&exact);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(bundled_kernels, set_up, tear_down),
      cmocka_unit_test_setup_teardown(scratch_has_a_limit, set_up, tear_down),
      cmocka_unit_test_setup_teardown(records_choose, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_does_not_hold_is_ignored, set_up, tear_down),
      cmocka_unit_test_setup_teardown(starts_come_from_records_too, set_up, tear_down),
      cmocka_unit_test_setup_teardown(strict_takes_none_that_is_loose, set_up, tear_down),
      cmocka_unit_test_setup_teardown(pins_come_first, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
