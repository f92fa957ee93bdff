/* Two bundles with one kernel each on one accelerator: nodes are ordered to minimize program changes, and the
 * reported number of changes matches the launch times. The cost of a change affects placement and is measured. */
#include "kit.h"
#include "pass/pass.h"
#include "program/bundles.h"
#include "program/tuning.h"

enum { CHAINS = 4 };

/* ---- the op kit.twice: y = 2 x ---- */
static clade_status twice_emit(clade_emit *e, const clade_query *q) { return kit_emit(e, q, "kit_twice"); }
static const clade_impl *const twice_impls[] = {
    CLADE_IMPL(.name = "systolic", .emit = twice_emit, .bundled = "kit_twice"), NULL};
static const clade_op twice = {.size = sizeof(clade_op),
                               .name = "kit.twice",
                               .min_in = 1,
                               .max_in = 1,
                               .n_out = 1,
                               .infer = kit_scale_infer,
                               .impls = twice_impls};
static const char twice_source[] =
    "__kernel __attribute__((reqd_work_group_size(1, 1, 1)))\n"
    "void kit_twice(__global const float *restrict x, const int x_at, __global float *restrict y, const int y_at,\n"
    "               const int n) {\n"
    "  for (int i = 0; i < n; i++) y[y_at + i] = 2.0f * x[x_at + i];\n"
    "}\n";

static void write_bundle(const char *path, const char *source, clade__bundle_kernel told) {
  kit_binary binary = kit_compile(source, strcmp(told.name, "kit_scale") == 0);
  clade__bundle_draft draft = kit_draft(binary);
  draft.manifest.kernels = &told;
  check_ok(clade__bundle_write(kit_path(path), false, &draft));
  clade__free(binary.data);
}

/* ---- launches in order of start ---- */
typedef struct launches {
  size_t n;
  struct {
    uint64_t start;
    const char *kernel;
  } at[2 * CHAINS];
} launches;

static void keep(void *user, const clade_step_time *time) {
  launches *l = user;
  if (!*time->kernel) return;
  assert_true(l->n < CLADE_COUNT(l->at));
  size_t i = l->n++;
  for (; i && l->at[i - 1].start > time->start_ns; i--) l->at[i] = l->at[i - 1];
  l->at[i].start = time->start_ns;
  l->at[i].kernel = time->kernel;
}

static int changes_of(const launches *l) {
  int changes = 0;
  for (size_t i = 1; i < l->n; i++) changes += strcmp(l->at[i].kernel, l->at[i - 1].kernel) != 0;
  return changes;
}

static const char *const inputs[CHAINS] = {"a", "b", "c", "d"};

/* Each chain needs one program, then the other. */
static clade_func *chains(clade_device *device) {
  clade_graph *g;
  clade_func *func;
  check_ok(clade_graph_new(&g));
  for (int i = 0; i < CHAINS; i++) {
    const char name[] = {'y', (char)('0' + i), 0};
    clade_val y = clade_input(g, inputs[i], CLADE_F32, CLADE_SHAPE(8));
    y = clade_node_add(g, &kit_scale, "", NULL, 1, &y, NULL);
    y = clade_node_add(g, &twice, "", NULL, 1, &y, NULL);
    clade_output(g, name, y);
  }
  check_ok(clade_compile(g, device, &func));
  clade_graph_release(g);
  return func;
}

static void few_changes(void **state) {
  (void)state;
  clade_device *device;
  clade_run *run;
  clade_ticket ticket;
  launches seen = {0};
  float x[CHAINS][8], y[8];
  clade_feed feeds[CHAINS];
  char *text;
  setenv("CLADE_BUNDLE_PATH", kit_path("both"), 1);
  check_ok(clade_device_find("emulated", &device));
  clade_func *func = chains(device);
  check_ok(clade_run_new(func, NULL, &run, .profile = true));
  check_ok(clade_run_observe(run, keep, &seen));
  for (int i = 0; i < CHAINS * 8; i++) x[i / 8][i % 8] = (float)i;
  for (int i = 0; i < CHAINS; i++) feeds[i] = (clade_feed){inputs[i], x[i], sizeof x[i], NULL};
  for (int k = 0; k < 4; k++) {
    uint64_t times = clade__programmed_times(device);
    seen.n = 0;
    check_ok(clade_execute(run, CHAINS, feeds, &ticket));
    check_ok(clade_read(run, ticket, "y3", y, sizeof y));
    check_ok(clade_wait(run, ticket));
    for (int i = 0; i < 8; i++) assert_true(y[i] == 6.0f * x[3][i]);
    assert_int_equal(seen.n, 2 * CHAINS);
    assert_int_equal(changes_of(&seen), 1);
    if (k) assert_int_equal(clade__programmed_times(device) - times, 2); /* to the second program and back */
  }
  check_ok(clade_func_explain(func, &text));
  if (!strstr(text, "gets another program 2 times in each execution; ")) fail_msg("%s", text);
  clade_text_free(text);
  clade_run_free(run);
  clade_func_release(func);
  clade_device_release(device);
}

/* ---- two of Clade's kernels, which the fallback device can compile as well ---- */
static const char softmax_source[] =
    "__kernel __attribute__((reqd_work_group_size(1, 1, 1)))\n"
    "void softmax(__global const float *restrict x, const int x_at, __global float *restrict y, const int y_at,\n"
    "             const int outer, const int n, const int inner, const int logarithm) {\n"
    "  for (int l = 0; l < outer * inner; l++) {\n"
    "    const int at = l / inner * n * inner + l % inner;\n"
    "    float sum = 0.0f;\n"
    "    for (int i = 0; i < n; i++) sum += exp(x[x_at + at + i * inner]);\n"
    "    for (int i = 0; i < n; i++) {\n"
    "      const float p = exp(x[x_at + at + i * inner]) / sum;\n"
    "      y[y_at + at + i * inner] = logarithm ? log(p) : p;\n"
    "    }\n"
    "  }\n"
    "}\n";
static const char arg_max_source[] =
    "__kernel __attribute__((reqd_work_group_size(1, 1, 1)))\n"
    "void arg_max(__global const float *restrict x, const int x_at, __global int *restrict y, const int y_at,\n"
    "             const int outer, const int n, const int inner) {\n"
    "  for (int l = 0; l < outer * inner; l++) {\n"
    "    const int at = x_at + l / inner * n * inner + l % inner;\n"
    "    int best = 0;\n"
    "    for (int i = 1; i < n; i++) best = x[at + i * inner] > x[at + best * inner] ? i : best;\n"
    "    y[y_at + l] = best;\n"
    "  }\n"
    "}\n";

static clade__bundle_kernel interface_kernel(const char *name) {
  size_t n;
  const clade__bundle_kernel *k = clade__interface_kernels(&n);
  while (strcmp(k->name, name) != 0) k++;
  return *k;
}

static clade_func *classifier(clade_device *device, clade_device *fallback) {
  clade_graph *g;
  clade_func *func;
  check_ok(clade_graph_new(&g));
  clade_val p = clade_softmax(g, clade_input(g, "x", CLADE_F32, CLADE_SHAPE(4, 8)), 1);
  clade_output(g, "y", clade_arg_max(g, p, 1));
  check_ok(clade_compile(g, device, &func, .fallback = fallback));
  clade_graph_release(g);
  return func;
}

/* 0: no record. */
static double measured_change(clade_device *device) {
  clade__tuning *tuning;
  double seconds = 0;
  check_ok(clade__tuning_get(device, &tuning));
  for (int k = 0; k < tuning->n && seconds <= 0; k++) {
    const clade__record *r =
        clade__records_find(tuning->layer[k], clade__change_op, clade__device_info(device)->bundles, "");
    if (r) seconds = r->seconds;
  }
  clade__tuning_release(tuning);
  return seconds;
}

/* Without measurements, a change counts as two seconds, so a copy is cheaper. The emulated accelerator changes
 * programs instantly. */
static void what_changes_take(void **state) {
  (void)state;
  clade_device *device, *fallback;
  char *text;
  int copies;
  uint64_t bytes;
  setenv("CLADE_BUNDLE_PATH", kit_path("own"), 1);
  check_ok(clade_device_find("emulated", &device));
  check_ok(clade_device_find("pocl", &fallback));
  clade_func *alone = classifier(device, NULL), *func = classifier(device, fallback);
  check_ok(clade_func_explain(alone, &text));
  if (!strstr(text, "gets another program 2 times in each execution; ")) fail_msg("%s", text);
  clade_text_free(text);
  check_ok(clade_func_explain(func, &text));
  if (strstr(text, "gets another program")) fail_msg("%s", text);
  clade_text_free(text);
  check_ok(clade_func_crossing(func, 0, 1, &copies, &bytes));
  assert_int_equal(copies, 1);
  assert_true(measured_change(device) == 0);
  uint64_t times = clade__programmed_times(device);
  check_ok(clade_tune(func, CLADE_TUNE_QUICK, .seconds = 0.1));
  assert_true(clade__programmed_times(device) - times >= 9); /* back and forth, five times */
  assert_true(measured_change(device) > 0 && measured_change(device) < 0.1);
  clade_func_release(alone);
  clade_func_release(func);
  clade_device_release(fallback);
  clade_device_release(device);
}

static int set_up(void **state) {
  (void)state;
  clade__bundle_kernel twice_kernel = kit_scale_kernel;
  twice_kernel.name = "kit_twice";
  twice_kernel.queue = 1;
  kit_folder_new();
  mkdir(kit_path("both"), 0700);
  write_bundle("both/scale.bundle", kit_source_text, kit_scale_kernel);
  write_bundle("both/twice.bundle", twice_source, twice_kernel);
  mkdir(kit_path("own"), 0700);
  write_bundle("own/arg_max.bundle", arg_max_source, interface_kernel("arg_max"));
  write_bundle("own/softmax.bundle", softmax_source, interface_kernel("softmax"));
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(few_changes), cmocka_unit_test(what_changes_take)};
  return cmocka_run_group_tests(tests, set_up, kit_tear_down);
}
