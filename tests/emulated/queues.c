/* Kernels that the manifest assigns to separate queues run concurrently if they are independent; conflicting
 * accesses stay ordered within an execution and across executions. Kernels of different programs never run
 * concurrently. */
#include "base/file.h"
#include "kit.h"

enum { KINDS = 4, N = 96, NODES = 40, OUTPUTS = 3, EXECUTIONS = 30, QUEUES_OFF = 3 };

/* y = 2 a + b + n, after a delay that is long if a begins with -1. The last kind is compiled for the fallback
 * device. */
#define MIX(kind, passes)                                                                                              \
  "__kernel __attribute__((reqd_work_group_size(1, 1, 1)))\n"                                                          \
  "void kit_mix" #kind "(__global const int *restrict a, const int a_at, __global const int *restrict b, const int "   \
  "b_at,\n  __global int *y, const int y_at, const int n) {\n"                                                         \
  "  uint s = n; for (int k = 0; k < " #passes " * (a[a_at] == -1 ? 200 : 1); k++) s = (s ^ s >> 3) * 1664525u + k;\n" \
  "  for (int i = 0; i < n; i++) y[y_at + i] = 2 * a[a_at + i] + b[b_at + i] + n + (s == 1u);\n"                       \
  "}\n"
static const char *const sources[] = {MIX(0, 200000), MIX(1, 1000), MIX(2, 50000)};
static const char fallback_source[] =
    "KERNEL(kit_mix3)(ARG(const int, a), ARG(const int, b), ARG(int, y), const int n) {\n"
    "  USE(const int, a); USE(const int, b); USE(int, y);\n"
    "  for (int i = 0; i < n; i++) y[i] = 2 * a[i] + b[i] + n;\n"
    "}\n";

static const char *const names[KINDS] = {"kit_mix0", "kit_mix1", "kit_mix2", "kit_mix3"};

static clade_status mix_infer(clade_node *n) {
  n->out[0] = n->in[0];
  return CLADE_OK;
}
static clade_status mix_emit(clade_emit *e, const clade_query *q) {
  const size_t one = 1;
  const char *name = strrchr(q->node->op->name, '.') + 1;
  clade_kernel_step *s = clade_emit_kernel(e, name);
  clade_emit_in(s, 0);
  clade_emit_in(s, 1);
  clade_emit_out(s, 0);
  clade_emit_i32(s, (int32_t)q->node->in[0].shape.dim[0]);
  clade_emit_range(s, 1, &one, &one);
  return CLADE_OK;
}
#define IMPLS(kind) \
  { CLADE_IMPL(.name = "systolic", .emit = mix_emit, .bundled = "kit_mix" #kind), NULL }
static const clade_impl *const impls[KINDS][2] = {
    IMPLS(0), IMPLS(1), IMPLS(2), {CLADE_IMPL(.name = "ref", .emit = mix_emit), NULL}};
static clade_op ops[KINDS];

static clade_device *device, *fallback;

/* `kinds`: bit set of kernels. */
static void write_bundle(const char *path, unsigned kinds, int apart) {
  static clade__bundle_argument arguments[] = {{"global int *", "a", CLADE__READ},  {"int", "a_at", CLADE__VALUE},
                                               {"global int *", "b", CLADE__READ},  {"int", "b_at", CLADE__VALUE},
                                               {"global int *", "y", CLADE__WRITE}, {"int", "y_at", CLADE__VALUE},
                                               {"int", "n", CLADE__VALUE}};
  clade__bundle_kernel kernels[KINDS - 1];
  clade__text source = {0};
  size_t n = 0;
  for (int i = 0; i < KINDS - 1; i++) {
    if (!(kinds >> i & 1)) continue;
    clade__text_add(&source, "%s", sources[i]);
    kernels[n] = kit_scale_kernel;
    kernels[n].name = names[i];
    kernels[n].arguments = arguments;
    kernels[n].n_arguments = CLADE_COUNT(arguments);
    kernels[n++].queue = (uint64_t)(i * apart);
  }
  kit_binary binary = kit_compile(source.data, false);
  clade__bundle_draft draft = kit_draft(binary);
  draft.manifest.kernels = kernels;
  draft.manifest.n_kernels = n;
  check_ok(clade__bundle_write(path, false, &draft));
  clade__text_free(&source);
  clade__free(binary.data);
}

static void open_with(const char *name) {
  setenv("CLADE_BUNDLE_PATH", kit_path(name), 1);
  check_ok(clade_device_find("emulated", &device));
}

static clade_val mix(clade_graph *g, int kind, clade_val a, clade_val b) {
  static int serial;
  char name[16];
  clade_val in[2] = {a, b};
  snprintf(name, sizeof name, "n%d", serial++);
  return clade_node_add(g, &ops[kind], name, NULL, 2, in, NULL);
}

/* ---- observed launches ---- */
typedef struct launch {
  uint64_t start, end;
  bool second; /* of two programs: the one with kit_mix1 */
} launch;
static launch launches[NODES * EXECUTIONS];
static size_t n_launches;

static void keep(void *user, const clade_step_time *t) {
  (void)user;
  if (t->step < 0 || strncmp(t->kernel, "kit_mix", 7) != 0 || strcmp(t->kernel, names[KINDS - 1]) == 0) return;
  assert_true(n_launches < CLADE_COUNT(launches));
  launches[n_launches++] = (launch){t->start_ns, t->end_ns, strcmp(t->kernel, "kit_mix1") == 0};
}

static void programs_took_turns(void) {
  assert_true(n_launches > NODES);
  for (size_t i = 0; i < n_launches; i++)
    for (size_t k = 0; k < i; k++)
      if (launches[i].second != launches[k].second && launches[i].start < launches[k].end &&
          launches[k].start < launches[i].end)
        fail_msg("launches %zu and %zu are of different programs, and ran at the same time", k, i);
}

/* ---- correctness for random dependencies ---- */
typedef struct plan {
  int kind[NODES], a[NODES], b[NODES]; /* values: 0 is the input, 1 the variable, then the nodes */
} plan;

static uint32_t state = 1;
static int below(int n) { return (int)((state = state * 1664525u + 1013904223u) >> 16) % n; }

static plan draw(int kinds) {
  plan p;
  for (int i = 0; i < NODES; i++) {
    p.kind[i] = below(kinds);
    p.a[i] = below(i + 2); /* some are far back, so that memory is reused meanwhile */
    p.b[i] = i < 6 ? below(i + 2) : i + 1 - below(6);
  }
  return p;
}

static clade_func *compile_plan(const plan *p) {
  clade_graph *g;
  clade_func *func;
  clade_val v[NODES + 2];
  char name[8];
  check_ok(clade_graph_new(&g));
  v[0] = clade_input(g, "x", CLADE_I32, CLADE_SHAPE(N));
  v[1] = clade_variable(g, "w", CLADE_I32, CLADE_SHAPE(N), (clade_initial){CLADE_INIT_FILL, 5, 0});
  for (int i = 0; i < NODES; i++) v[i + 2] = mix(g, p->kind[i], v[p->a[i]], v[p->b[i]]);
  clade_assign(g, v[1], v[NODES + 1]);
  for (int i = 0; i < OUTPUTS; i++) {
    snprintf(name, sizeof name, "y%d", i);
    clade_output(g, name, v[NODES - 3 * i]);
  }
  check_ok(clade_compile(g, device, &func, .fallback = fallback));
  clade_graph_release(g);
  return func;
}

static void expect(const plan *p, int execution, int32_t *w, int32_t y[OUTPUTS]) {
  uint32_t v[NODES + 2] = {(uint32_t)execution, (uint32_t)*w};
  for (int i = 0; i < NODES; i++) v[i + 2] = 2 * v[p->a[i]] + v[p->b[i]] + N;
  for (int i = 0; i < OUTPUTS; i++) y[i] = (int32_t)v[NODES - 3 * i];
  *w = (int32_t)v[NODES + 1];
}

static void check_execution(clade_run *run, clade_ticket ticket, const int32_t want[OUTPUTS]) {
  int32_t y[N];
  char name[8];
  for (int o = 0; o < OUTPUTS; o++) {
    snprintf(name, sizeof name, "y%d", o);
    check_ok(clade_read(run, ticket, name, y, sizeof y));
    for (int i = 0; i < N; i++)
      if (y[i] != want[o]) fail_msg("output %d, element %d: %d, expected %d", o, i, y[i], want[o]);
  }
}

static void run_plan(const plan *p, bool profile) {
  clade_func *func = compile_plan(p);
  clade_vars *vars;
  clade_run *run;
  clade_ticket tickets[EXECUTIONS];
  int32_t x[N], w = 5, want[EXECUTIONS][OUTPUTS];
  check_ok(clade_vars_new(func, 0, &vars));
  check_ok(clade_run_new(func, vars, &run, .slots = 3, .profile = profile));
  n_launches = 0;
  if (profile) check_ok(clade_run_observe(run, keep, NULL));
  for (int e = 0; e < EXECUTIONS; e++) { /* read only after others have been started */
    for (int i = 0; i < N; i++) x[i] = e;
    expect(p, e, &w, want[e]);
    check_ok(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &tickets[e]));
    if (e >= 2) check_execution(run, tickets[e - 2], want[e - 2]);
  }
  check_execution(run, tickets[EXECUTIONS - 1], want[EXECUTIONS - 1]);
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
}

static void run_plans(int times, bool several) {
  for (int i = 0; i < times; i++) {
    fallback = NULL;
    plan p = draw(KINDS - 1);
    run_plan(&p, i % 2);
    if (several && i % 2) programs_took_turns();
    check_ok(clade_device_find("pocl", &fallback));
    p = draw(KINDS);
    run_plan(&p, i % 2);
    if (several && i % 2) programs_took_turns();
    clade_device_release(fallback);
  }
}

static void all_is_in_order(void **state_) {
  (void)state_;
  open_with("apart.bundle");
  run_plans(5, false);
  clade_device_release(device);
}

/* kit_mix0 and kit_mix2 in one bundle, kit_mix1 in another. */
static void programs_take_turns(void **state_) {
  (void)state_;
  open_with("several");
  run_plans(4, true);
  clade_device_release(device);
}

/* ---- concurrency ---- */
typedef struct span {
  uint64_t start[2], end[2];
  int n;
} span;

static void observe(void *user, const clade_step_time *t) {
  span *s = user;
  if (t->step < 0 || !*t->kernel || s->n == 2) return;
  s->start[s->n] = t->start_ns;
  s->end[s->n++] = t->end_ns;
}

/* Number of executions, out of `tries`, in which two independent kernels overlapped. */
static int together(int tries, bool apart) {
  clade_graph *g;
  clade_func *func;
  clade_run *run;
  clade_ticket ticket;
  int32_t x[N];
  span s;
  int n = 0;
  fallback = NULL;
  check_ok(clade_graph_new(&g));
  clade_val in = clade_input(g, "x", CLADE_I32, CLADE_SHAPE(N));
  clade_output(g, "y0", mix(g, 0, in, in));
  clade_output(g, "y1", mix(g, 2, in, in));
  check_ok(clade_compile(g, device, &func));
  check_ok(clade_run_new(func, NULL, &run, .profile = true));
  check_ok(clade_run_observe(run, observe, &s));
  memset(x, 0xff, sizeof x);
  for (int i = 0; i < tries; i++) {
    s.n = 0;
    check_ok(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket));
    check_ok(clade_wait(run, ticket));
    assert_int_equal(s.n, 2);
    n += s.start[0] < s.end[1] && s.start[1] < s.end[0];
  }
  clade__bytes trace;
  check_ok(clade_run_trace(run, kit_path("trace.json")));
  check_ok(clade__file_read(kit_path("trace.json"), 1 << 20, &trace));
  assert_int_equal(memmem(trace.data, trace.n, "\"queue 6\"", 9) != NULL, apart);
  assert_int_equal(memmem(trace.data, trace.n, "\"tid\":7,\"ts\"", 12) != NULL, apart);
  clade__free(trace.data);
  clade_run_free(run);
  clade_func_release(func);
  clade_graph_release(g);
  return n;
}

static void kernels_run_at_the_same_time(void **state_) {
  (void)state_;
  static const char *const bundles[] = {"apart.bundle", "several"};
  for (size_t k = 0; k < CLADE_COUNT(bundles); k++) {
    int n = 0;
    open_with(bundles[k]);
    for (int i = 0; i < 50 && !n; i++) n = together(2, true); /* a busy machine may need several attempts */
    clade_device_release(device);
    assert_true(n > 0);
  }
  open_with("one_queue.bundle");
  assert_int_equal(together(5, false), 0);
  clade_device_release(device);
}

static int set_up(void **state_) {
  (void)state_;
  kit_folder_new();
  for (int i = 0; i < KINDS; i++) {
    static char called[KINDS][16];
    snprintf(called[i], sizeof called[i], "kit.%s", names[i]);
    ops[i] = kit_scale;
    ops[i].name = called[i];
    ops[i].min_in = ops[i].max_in = 2;
    ops[i].infer = mix_infer;
    ops[i].impls = impls[i];
    ops[i].source = i == KINDS - 1 ? fallback_source : NULL;
  }
  write_bundle(kit_path("apart.bundle"), 7, QUEUES_OFF);
  write_bundle(kit_path("one_queue.bundle"), 7, 0);
  mkdir(kit_path("several"), 0700);
  write_bundle(kit_path("several/one.bundle"), 5, QUEUES_OFF);
  write_bundle(kit_path("several/other.bundle"), 2, QUEUES_OFF);
  return 0;
}

static int tear_down(void **state_) {
  (void)state_;
  kit_folder_remove();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_is_in_order), cmocka_unit_test(programs_take_turns),
                                     cmocka_unit_test(kernels_run_at_the_same_time)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
