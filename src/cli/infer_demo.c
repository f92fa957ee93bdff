/* clade infer --demo mlp: a perceptron whose result is compared with a reference in C. */
#include <stdio.h>

#include "cli/infer.h"
#include "cli/reference.h"

enum { WARM_RUNS = 5 };

typedef struct demo {
  const infer_job *job;
  clade_device *device, *fallback;
  clade_graph *graph;
  clade_func *generic, *func;
  clade_vars *vars;
  clade_run *run;
  float *x, *p, *again;
  size_t x_bytes, p_bytes;
  clade_device_info info;
  double first, seconds;
  reference_result reference;
  char sha[65];
} demo;

static clade_status prepare(demo *d) {
  d->x_bytes = (size_t)d->job->batch * MLP_IN * sizeof(float);
  d->p_bytes = (size_t)d->job->batch * MLP_OUT * sizeof(float);
  d->x = clade__new(d->x_bytes, 1);
  d->p = clade__new(d->p_bytes, 1);
  d->again = clade__new(d->p_bytes, 1);
  if (!d->x || !d->p || !d->again) return CLADE_NO_MEMORY;
  mlp_images((uint64_t)d->job->seed, d->job->batch, d->x);
  CLADE_TRY(infer_devices(d->job, &d->device, &d->fallback));
  d->info.size = sizeof d->info;
  CLADE_TRY(clade_device_get_info(d->device, &d->info));
  CLADE_TRY(mlp_graph(&d->graph));
  CLADE_TRY(clade_compile(d->graph, d->device, &d->generic, .fallback = d->fallback, .place = d->job->place));
  CLADE_TRY(clade_func_specialize(d->generic, CLADE_DIMS({"batch", d->job->batch}), &d->func));
  CLADE_TRY(clade_vars_new(d->func, (uint64_t)d->job->seed, &d->vars));
  return clade_run_new(d->func, d->vars, &d->run, .profile = d->job->trace != NULL);
}

static clade_status execute(demo *d, float *p) {
  clade_ticket ticket;
  CLADE_TRY(clade_execute(d->run, CLADE_FEEDS({"x", d->x, d->x_bytes, NULL}), &ticket));
  return clade_read(d->run, ticket, "p", p, d->p_bytes);
}

static clade_status check(demo *d) {
  CLADE_TRY(reference_check(d->vars, d->job->batch, d->x, d->p, &d->reference));
  if (!d->reference.within)
    return CLADE_FAIL(INTERNAL,
                      "the output is wrong: it differs by up to %g from the reference in double, where %g is allowed; "
                      "`clade doctor` checks the device",
                      d->reference.max_error, d->reference.bound);
  return CLADE_OK;
}

/* `seconds` is the fastest of a few executions after a warm-up. All executions must give the same bits. */
static clade_status measure(demo *d) {
  for (int i = 0; i < WARM_RUNS; ++i) {
    double start = clade__now();
    CLADE_TRY(execute(d, d->again));
    double seconds = clade__now() - start;
    if (!i || seconds < d->seconds) d->seconds = seconds;
    if (memcmp(d->p, d->again, d->p_bytes))
      return CLADE_FAIL(INTERNAL, "execution %d gave other bits than the first one", i + 2);
  }
  return CLADE_OK;
}

static clade_status work(demo *d) {
  CLADE_TRY(prepare(d));
  CLADE_TRY(execute(d, d->p));
  d->first = clade__now() - d->job->begun;
  CLADE_TRY(check(d));
  CLADE_TRY(measure(d));
  CLADE_TRY(infer_digest(d->p, d->p_bytes, d->sha));
  if (d->job->trace) CLADE_TRY(clade_run_trace(d->run, d->job->trace));
  return d->job->explain ? infer_explain(d->job, d->func) : CLADE_OK;
}

static int report(const demo *d) {
  if (!d->job->args.json) {
    printf("%s (%s): batch %lld in %.6f s, first result after %.3f s\n", d->info.name, d->info.platform,
           (long long)d->job->batch, d->seconds, d->first);
    printf("right: differs by at most %.3g from the reference in double (allowed %.3g)\nsha256 %s\n",
           d->reference.max_error, d->reference.bound, d->sha);
    return CLI_DONE;
  }
  return cli_json_end(
      infer_add_func(json_pack("{s:s, s:s, s:o, s:I, s:I, s:f, s:f, s:f, s:f}", "demo", d->job->demo, "output_sha256",
                               d->sha, "device", infer_device_json(d->device), "batch", (json_int_t)d->job->batch,
                               "seed", (json_int_t)d->job->seed, "seconds", d->seconds, "first_result_seconds",
                               d->first, "max_error", d->reference.max_error, "error_bound", d->reference.bound),
                     d->func, d->fallback));
}

static void release(demo *d) {
  clade_run_free(d->run);
  clade_vars_release(d->vars);
  clade_func_release(d->func);
  clade_func_release(d->generic);
  clade_graph_release(d->graph);
  clade_device_release(d->device);
  clade_device_release(d->fallback);
  clade__free(d->x);
  clade__free(d->p);
  clade__free(d->again);
}

int infer_demo(const infer_job *job) {
  demo d = {.job = job};
  clade_status status = work(&d);
  int result = status ? cli_failed_status(status) : report(&d);
  release(&d);
  return result;
}
