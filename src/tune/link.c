/* Measures two costs of placement beside a fallback device: copies between a device with a bundle and its fallback
 * device, by runs with few and many copies, whose difference excludes other costs; and changes of programs, by
 * comparing the first launch after a change with the second. */
#include "tune/internal.h"

enum { SELDOM = 2, OFTEN = 10, SAMPLES = 15, CHANGES = 5 };
static const double LONG_CHANGE = 0.5; /* seconds; a single sample is enough */

static clade_status open_run(clade_device *device, clade_device *fallback, size_t bytes, int copies, clade_run **out) {
  clade_graph *g = NULL;
  clade_func *func = NULL;
  clade_status status;
  CLADE_GOTO(clade_graph_new(&g));
  clade_val x = clade_input(g, "x", CLADE_U8, CLADE_SHAPE((int64_t)bytes));
  for (int i = 0; i < copies; i++) x = clade_transfer(g, x, (i + 1) % 2);
  clade_output(g, "y", x);
  CLADE_GOTO(clade_compile(g, device, &func, .n_devices = 1, .devices = &fallback, .untuned = true));
  status = clade_run_new(func, NULL, out);
fail:
  clade_func_release(func); /* the run retains it */
  clade_graph_release(g);
  return status;
}

static clade_status seconds_of(clade_run *run, const void *x, size_t bytes, double *seconds) {
  double start = clade__now();
  CLADE_TRY(clade_execute(run, CLADE_FEEDS({"x", x, bytes, NULL}), NULL));
  CLADE_TRY(clade_wait(run, 0));
  *seconds = clade__now() - start;
  return CLADE_OK;
}

/* Median over adjacent pairs of runs; the first pair is not counted. */
static clade_status take_turns(clade_run *seldom, clade_run *often, const void *x, size_t bytes, double *out) {
  double each[SAMPLES], a, b;
  for (int i = -1; i < SAMPLES; i++) {
    CLADE_TRY(seconds_of(seldom, x, bytes, &a));
    CLADE_TRY(seconds_of(often, x, bytes, &b));
    if (i >= 0) each[i] = (b - a) / (OFTEN - SELDOM);
  }
  *out = clade__median(each, SAMPLES);
  return CLADE_OK;
}

static clade_status measure(clade_device *device, clade_device *fallback, size_t bytes, double *seconds) {
  clade_run *seldom = NULL, *often = NULL;
  clade_status status = CLADE_NO_MEMORY;
  void *x = clade__new(bytes, 1);
  if (!x) goto fail;
  CLADE_GOTO(open_run(device, fallback, bytes, SELDOM, &seldom));
  CLADE_GOTO(open_run(device, fallback, bytes, OFTEN, &often));
  CLADE_GOTO(take_turns(seldom, often, x, bytes, seconds));
fail:
  clade_run_free(seldom);
  clade_run_free(often);
  clade__free(x);
  return status;
}

/* ---- program changes ---- */
/* Extra time of a program's first launch after another program's. *asked: the program has a suitable kernel. */
static clade_status change_to(clade_device *device, int program, double *seconds, bool *asked) {
  double first, second;
  CLADE_TRY(clade__store_turn(device, program, &first));
  CLADE_TRY(clade__store_turn(device, program, &second));
  *seconds = first - second;
  *asked = first > 0;
  return CLADE_OK;
}

/* Measures changes between the first two programs; 0: one has no suitable kernel. Unmeasurably short changes count
 * as 1 ns. */
static clade_status measure_change(clade_device *device, double *out) {
  double each[CHANGES], there, back;
  bool one, other;
  int n = 0;
  *out = 0;
  do {
    CLADE_TRY(change_to(device, 0, &there, &one));
    CLADE_TRY(change_to(device, 1, &back, &other));
    if (!one || !other) return CLADE_OK;
    each[n] = (there + back) / 2;
  } while (each[n++] < LONG_CHANGE && n < CHANGES);
  *out = CLADE_MAX(clade__median(each, n), 1e-9);
  return CLADE_OK;
}

/* ---- records ---- */
/* Whether the device's own records contain the problem. */
static clade_status is_known(clade_device *device, const char *op, const char *problem, bool *known) {
  clade__tuning *all;
  *known = false;
  CLADE_TRY(clade__tuning_get(device, &all));
  for (int k = 0; k < all->n; k++)
    *known |= clade__hash_equal(all->layer[k]->device.key, clade__device_key(device)) &&
              clade__records_find(all->layer[k], op, problem, "");
  clade__tuning_release(all);
  return CLADE_OK;
}

static clade_status keep(clade_device *device, const char *op, const char *problem, const char *impl, double seconds) {
  clade__tuned_device describes;
  clade__records *set;
  const clade__record r = {.op = op, .problem = problem, .impl = impl, .seconds = seconds, .full = true};
  if (!(seconds > 0)) return CLADE_OK; /* too short, or the machine was too busy */
  clade__tuned_describe(device, &describes);
  CLADE_TRY(clade__records_new(&describes, &set));
  clade_status status = clade__records_put(set, &r);
  if (status == CLADE_OK) status = clade__tuning_keep(device, set);
  clade__records_release(set);
  return status;
}

static clade_status probe(clade_device *device, clade_device *fallback, size_t bytes, bool again) {
  char problem[CLADE__LINK_PROBLEM];
  bool known = false;
  double seconds = 0;
  clade__link_problem(clade__device_info(fallback), bytes, problem);
  if (!again) CLADE_TRY(is_known(device, clade__link_op, problem, &known));
  if (known) return CLADE_OK;
  CLADE_TRY(measure(device, fallback, bytes, &seconds));
  return keep(device, clade__link_op, problem, "copy", seconds);
}

static clade_status probe_change(clade_device *device, bool again) {
  const clade_device_info *info = clade__device_info(device);
  bool several = false, known = false;
  double seconds = 0;
  for (int i = 0; info->kernels[i]; i++) several |= info->programs[i] != 0;
  if (!several) return CLADE_OK;
  if (!again) CLADE_TRY(is_known(device, clade__change_op, info->bundles, &known));
  if (known) return CLADE_OK;
  CLADE_TRY(measure_change(device, &seconds));
  return keep(device, clade__change_op, info->bundles, "change", seconds);
}

clade_status clade__probe_links(const clade_func *func, bool again) {
  for (int d = 0; func->fallback >= 0 && d < func->n_devices; d++) {
    if (!clade__device_info(func->devices[d])->kernels || d == func->fallback) continue;
    CLADE_TRY(probe_change(func->devices[d], again));
    for (int i = 0; i < CLADE__LINK_SIZES; i++)
      CLADE_TRY(probe(func->devices[d], func->devices[func->fallback], clade__link_bytes[i], again));
  }
  return CLADE_OK;
}
