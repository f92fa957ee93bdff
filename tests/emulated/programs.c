/* Two bundles on one accelerator, with a kernel each: work is ordered to change programs least often, and how often it
 * does is told, as the times of launches show it. */
#include "kit.h"
#include "program/bundles.h"

enum { CHAINS = 4 };

/* ---- the op kit.twice: y = 2 x ---- */
static clade_status twice_emit(clade_emit *e, const clade_query *q) { return kit_emit(e, q, "kit_twice"); }
static const clade_impl twice_impls[] = {{.name = "systolic", .emit = twice_emit, .bundled = "kit_twice"}, {0}};
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

static void write_bundle(const char *path, const char *source, const char *kernel) {
  clade__bundle_kernel told = kit_scale_kernel;
  kit_binary binary = kit_compile(source, strcmp(kernel, "kit_scale") == 0);
  clade__bundle_draft draft = kit_draft(binary);
  told.name = kernel;
  told.queue = strcmp(kernel, "kit_twice") == 0; /* which counts for nothing beside another program */
  draft.manifest.kernels = &told;
  check_ok(clade__bundle_write(kit_path(path), false, &draft));
  clade__free(binary.data);
}

/* ---- launches, as they began ---- */
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

/* Each chain asks for the one program and then for the other. */
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
    if (k) assert_int_equal(clade__programmed_times(device) - times, 2); /* back, and there */
  }
  check_ok(clade_func_explain(func, &text));
  if (!strstr(text, "gets another program 2 times in each execution; ")) fail_msg("%s", text);
  clade_text_free(text);
  clade_run_free(run);
  clade_func_release(func);
  clade_device_release(device);
}

static int set_up(void **state) {
  (void)state;
  kit_folder_new();
  mkdir(kit_path("both"), 0700);
  write_bundle("both/scale.bundle", kit_source_text, "kit_scale");
  write_bundle("both/twice.bundle", twice_source, "kit_twice");
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(few_changes)};
  return cmocka_run_group_tests(tests, set_up, kit_tear_down);
}
