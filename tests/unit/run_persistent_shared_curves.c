/* Persistent kernels of a training step, its logged gradients and its test, in different orders: a second process
 * compiles nothing, and they give the bits of single launches. Each test has its own cache directory; reopening the
 * device stands for another process. */
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <clade/nn.h>
#include <clade/optim.h>

#include "models/models.h"
#include "plan_kit.h"

enum { BATCH = 64, TESTED = 256, FEW = 8, CLASSES = 10, PIXELS = 784, MOST_VARIABLES = 64 };
typedef enum kind { STEP, GRADIENTS, TEST, SMALL_TEST, KINDS } kind;
static const char *const names[] = {"the step", "the gradients", "the test", "the small test"};

/* ---- a cache directory, and a new device handle ---- */
static char root[64];
static int set_up(void **state) {
  (void)state;
  strcpy(root, "/tmp/clade-persistent kernels-XXXXXX");
  return mkdtemp(root) ? setenv("CLADE_CACHE_DIR", root, 1) : -1;
}

static int tear_down(void **state) {
  (void)state;
  DIR *dir = opendir(root);
  for (struct dirent *e; dir && (e = readdir(dir));) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, e->d_name);
    if (e->d_type == DT_REG) unlink(path);
  }
  if (dir) closedir(dir);
  return rmdir(root);
}

static clade_device *process_begin(void) {
  clade_device *device = NULL;
  OK(clade_device_find("pocl", &device));
  return device;
}

static void process_end(clade_device *device) {
  clade__store_flush(device);
  clade_device_release(device);
}

static uint64_t compiled_so_far(clade_device *device) {
  clade__store_stats stats;
  OK(clade__store_get_stats(device, &stats));
  return stats.compiled;
}

/* ---- funcs ---- */
static clade_val loss_of(clade_graph *g, int rows, clade_val *logits) {
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(rows, 1, 28, 28));
  clade_val label = clade_input(g, "label", CLADE_I32, CLADE_SHAPE(rows));
  *logits = model_by_name("lenet5")(g, x, CLASSES, NULL);
  return clade_cross_entropy(g, *logits, label);
}

static void add_gradients(clade_graph *g, clade_val loss, const clade_vars *vars) {
  clade_val parameter[MOST_VARIABLES], gradient[MOST_VARIABLES];
  clade_port_info port[MOST_VARIABLES];
  int n = 0;
  for (int i = 0; i < clade_vars_count(vars); i++) {
    port[n].size = sizeof port[n];
    OK(clade_vars_describe(vars, i, &port[n]));
    assert_true(n + 1 < MOST_VARIABLES);
    if (!port[n].parameter) continue;
    parameter[n] = clade_parameter(g, port[n].name, port[n].type.dtype, port[n].type.shape, (clade_initial){0});
    n++;
  }
  OK(clade_gradients(g, loss, (clade_val){0}, n, parameter, gradient));
  for (int i = 0; i < n; i++) clade_output(g, port[i].name, gradient[i]);
}

static clade_func *func_of(clade_device *device, kind what, const clade_vars *vars) {
  clade_graph *g = graph_new();
  clade_val logits;
  clade_graph_share(g, what == GRADIENTS);
  clade_val loss = loss_of(g, what == TEST ? TESTED : what == SMALL_TEST ? FEW : BATCH, &logits);
  clade_output(g, "loss", loss);
  if (what == STEP) OK(clade_minimize(g, loss, .optimizer = clade_adam(.lr = 1e-3)));
  if (what == GRADIENTS) add_gradients(g, loss, vars);
  if (what >= TEST) clade_output(g, "answer", clade_arg_max(g, logits, 1));
  return compiled(g, device);
}

/* The variables of a step that is not run. */
static clade_vars *vars_of(clade_device *device) {
  clade_vars *vars;
  clade__plan_only = true;
  clade_func *step = func_of(device, STEP, NULL);
  clade__plan_only = false;
  OK(clade_vars_new(step, 42, &vars));
  clade_func_release(step);
  return vars;
}

static size_t inside(const clade_func *func) {
  size_t n = 0;
  for (size_t c = 0; c < func->n_persistent; c++) n += func->persistent[c].count;
  return n;
}

/* Hash of the outputs and variables after two executions each. */
static clade__hash outcome(clade_func *func, clade_vars *vars, int rows) {
  static float x[TESTED * PIXELS], y[1 << 17];
  static int32_t label[TESTED];
  clade__hash all = {0};
  clade_run *run;
  OK(clade_run_new(func, vars, &run));
  for (int i = 0; i < rows * PIXELS; i++) x[i] = (float)clade__uniform(5, 0, (uint64_t)i) * 2 - 1;
  for (int i = 0; i < rows; i++) label[i] = i % CLASSES;
  for (int time = 0; time < 2; time++) {
    clade_ticket ticket;
    OK(clade_execute(run,
                     CLADE_FEEDS({"x", x, (size_t)rows * PIXELS * sizeof *x, NULL},
                                 {"label", label, (size_t)rows * sizeof *label, NULL}),
                     &ticket));
    for (size_t i = 0; i < func->graph->outputs.count; i++) {
      clade_port_info port = {.size = sizeof port};
      size_t bytes;
      OK(clade_func_output(func, (int)i, &port));
      OK(clade_type_bytes(&port.type, &bytes));
      assert_true(bytes <= sizeof y);
      OK(clade_read(run, ticket, port.name, y, bytes));
      all = clade__hash_more(all, y, bytes);
    }
  }
  clade_run_free(run);
  return all;
}

static int rows_of(kind what) { return what == TEST ? TESTED : what == SMALL_TEST ? FEW : BATCH; }

static void nothing_is_compiled_twice(void **state) {
  (void)state;
  static const kind orders[][3] = {{STEP, GRADIENTS, TEST}, {GRADIENTS, TEST, STEP}, {TEST, STEP, GRADIENTS}};
  for (int process = 0; process < 3; process++) {
    clade_device *device = process_begin();
    clade_vars *vars = vars_of(device);
    for (int i = 0; i < 3; i++) {
      const kind what = orders[process][i];
      const uint64_t before = compiled_so_far(device);
      clade_func *func = func_of(device, what, vars);
      const size_t now = (size_t)(compiled_so_far(device) - before);
      printf("process %d, %s: %zu of %zu steps in %zu persistent kernels, %zu kernels compiled\n", process, names[what],
             inside(func), func->n_steps, func->n_persistent, now);
      if (process && now) fail_msg("%s compiles %zu kernels that the cache has", names[what], now);
      if (clade__quirk_has(device, CLADE__QUIRK_SLOW_WAKE)) assert_true(inside(func) > func->n_steps / 2);
      clade_func_release(func);
    }
    clade_vars_release(vars);
    process_end(device);
  }
}

static void bits(void **state) {
  (void)state;
  clade_device *device = process_begin();
  clade_vars *vars[2] = {vars_of(device), vars_of(device)};
  for (kind what = STEP; what < KINDS; what++) {
    clade_func *with = func_of(device, what, vars[0]);
    clade__persistent_least = SIZE_MAX;
    clade_func *without = func_of(device, what, vars[1]);
    clade__persistent_least = 8;
    assert_int_equal(without->n_persistent, 0);
    if (!clade__hash_equal(outcome(with, vars[0], rows_of(what)), outcome(without, vars[1], rows_of(what))))
      fail_msg("%s is not what launches of their own compute", names[what]);
    clade_func_release(with);
    clade_func_release(without);
  }
  for (int k = 0; k < 2; k++) clade_vars_release(vars[k]);
  process_end(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_compiled_twice),
      cmocka_unit_test(bits),
  };
  return cmocka_run_group_tests_name("persistent kernels of several funcs", tests, set_up, tear_down);
}
