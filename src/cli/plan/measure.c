/* Measures a training step of the whole model on the device, by which estimates of nodes are scaled. */
#include <math.h>

#include "cli/plan/plan.h"

enum { MOST_FEEDS = 4, WARM = 2, LEAST = 5, MOST = 50 };
static const double SECONDS = 2; /* of measuring */

clade_val plan_loss(const clade_graph *g) {
  for (size_t i = 0; i < g->outputs.count; i++)
    if (!strcmp(g->outputs.at[i].name, "loss")) return clade__graph_val(g, g->outputs.at[i].value);
  return (clade_val){0};
}

/* Zeros for each input; n: feeds so far, whose data is freed. */
static clade_status feed(const clade_func *func, clade_feed feeds[MOST_FEEDS], int *n) {
  clade_func_info info = {.size = sizeof info};
  CLADE_TRY(clade_func_get_info(func, &info));
  for (; *n < CLADE_MIN(info.inputs, (int)MOST_FEEDS); ++*n) {
    clade_port_info port = {.size = sizeof port};
    size_t bytes;
    CLADE_TRY(clade_func_input(func, *n, &port));
    CLADE_TRY(clade_type_bytes(&port.type, &bytes));
    void *zeros = clade__new(CLADE_MAX(bytes, (size_t)1), 1);
    if (!zeros) return CLADE_NO_MEMORY;
    feeds[*n] = (clade_feed){.name = port.name, .data = zeros, .bytes = bytes};
  }
  return CLADE_OK;
}

static clade_status time_steps(clade_run *run, int n, const clade_feed *feeds, double *seconds) {
  double all[MOST], sum = 0;
  int done = 0;
  for (int i = 0; i < WARM + MOST && (done < LEAST || sum < SECONDS); i++) {
    clade_ticket ticket;
    float loss;
    const double start = clade__now();
    CLADE_TRY(clade_execute(run, n, feeds, &ticket));
    CLADE_TRY(clade_read(run, ticket, "loss", &loss, sizeof loss));
    if (i < WARM) continue;
    sum += all[done++] = clade__now() - start;
  }
  *seconds = clade__median(all, done);
  return CLADE_OK;
}

static clade_optimizer optimizer_of(int moments) {
  return moments == 0 ? clade_sgd() : moments == 1 ? clade_rmsprop() : clade_adam();
}

clade_status plan_measure(const plan_job *job, clade_device *device, int64_t rows, double *seconds) {
  clade_graph *g = NULL;
  clade_func *func = NULL;
  clade_vars *vars = NULL;
  clade_run *run = NULL;
  clade_feed feeds[MOST_FEEDS];
  int n = 0;
  clade_status status;
  CLADE_GOTO(plan_model_graph(&job->model, rows, &g));
  CLADE_GOTO(clade_minimize(g, plan_loss(g), .optimizer = optimizer_of(job->moments)));
  CLADE_GOTO(clade_compile(g, device, &func));
  CLADE_GOTO(clade_vars_new(func, 42, &vars));
  CLADE_GOTO(clade_run_new(func, vars, &run));
  CLADE_GOTO(feed(func, feeds, &n));
  CLADE_GOTO(time_steps(run, n, feeds, seconds));
fail:
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
  clade_graph_release(g);
  while (n-- > 0) clade__free((void *)(uintptr_t)feeds[n].data);
  return status;
}
