/* Creating and destroying runs, and queries. */
#include <stdatomic.h>
#include <stdio.h>

#include "plan/run.h"

enum { DEFAULT_SLOTS = 2, MOST_SLOTS = 64 };

static void disclaim(clade_run *run) {
  clade__packed_part(run);
  if (!run->func->writes || !run->vars) return;
  pthread_mutex_lock(&run->vars->lock);
  if (run->vars->writer == run) run->vars->writer = NULL;
  pthread_mutex_unlock(&run->vars->lock);
}

static clade_status match(clade_run *run) {
  size_t n = run->func->graph->variables.count;
  if (!n) return CLADE_OK;
  if (!run->vars)
    return CLADE_FAIL(INVALID, "clade_run_new: the func has %zu variables (%s, …), vars is NULL", n,
                      run->func->graph->variables.at[0].name);
  run->var_index = clade__new(n, sizeof *run->var_index);
  if (!run->var_index) return CLADE_NO_MEMORY;
  if (run->vars->guard != run->func->guard)
    return CLADE_FAIL(INVALID, "clade_run_new: func and variables were made with different guards");
  return clade__vars_match(run->vars, run->func, run->var_index);
}

static clade_status check_func(const clade_func *func, cl_command_queue queue) {
  if (!func) return CLADE_FAIL(INVALID, "clade_run_new: the func is NULL");
  if (!func->shaped)
    return CLADE_FAIL(INVALID, "clade_run_new: the func has symbols: give them sizes (clade_func_specialize)");
  for (int i = 0; i < func->n_devices; i++) CLADE_TRY(clade__device_check(func->devices[i], "clade_run_new"));
  if (queue && func->n_devices > 1)
    return CLADE_FAIL(UNSUPPORTED, "clade_run_new_on: the func works on %d devices, a queue belongs to one",
                      func->n_devices);
  if (queue && func->n_hosts)
    return CLADE_FAIL(UNSUPPORTED, "clade_run_new_on: the func has %zu host steps, which need a queue of their own",
                      func->n_hosts);
  return CLADE_OK;
}

/* Never 0; wraps around after a million runs. */
static clade_ticket next_serial(void) {
  static atomic_uint made;
  const clade_ticket most = (UINT64_C(1) << (64 - CLADE__EXECUTION_BITS)) - 1;
  return (atomic_fetch_add(&made, 1) % most + 1) << CLADE__EXECUTION_BITS;
}

static clade_status run_new(clade_func *func, clade_vars *vars, cl_command_queue queue, const clade_run_opt *given) {
  clade_run_opt opt;
  clade_status status;
  CLADE_TRY(clade__opt_copy(&opt, sizeof opt, given, "clade_run_new"));
  if (!opt.out) return CLADE_FAIL(INVALID, "clade_run_new: there is no place for the run (NULL)");
  *opt.out = NULL;
  CLADE_TRY(check_func(func, queue));
  if (opt.slots < 0 || opt.slots > MOST_SLOTS)
    return CLADE_FAIL(INVALID, "clade_run_new: .slots is %d, expected 1 to %d", opt.slots, MOST_SLOTS);
  clade_run *run = clade__new(1, sizeof *run);
  if (!run) return CLADE_NO_MEMORY;
  pthread_mutex_init(&run->lock, NULL);
  pthread_cond_init(&run->enqueued, NULL);
  run->serial = next_serial();
  run->func = clade_func_retain(func);
  run->vars = clade_vars_retain(vars);
  run->nowait = opt.nowait;
  run->profile = opt.profile;
  run->adopted = queue != NULL;
  run->n_slots = opt.slots ? opt.slots : DEFAULT_SLOTS;
  status = CLADE_NO_MEMORY;
  if (!(run->slots = clade__new((size_t)run->n_slots, sizeof *run->slots))) goto fail;
  CLADE_GOTO(match(run));
  CLADE_GOTO(clade__packed_join(run));
  CLADE_GOTO(clade__run_build(run, queue));
  if (run->profile) CLADE_GOTO(clade__profile_new(run));
  CLADE_GOTO(clade__progress_start(run));
  *opt.out = run;
  return CLADE_OK;
fail:
  clade_run_free(run);
  return status;
}

clade_status clade_run_new_(clade_func *func, clade_vars *vars, const clade_run_opt *opt) {
  return run_new(func, vars, NULL, opt);
}

clade_status clade_run_new_on(clade_func *func, clade_vars *vars, cl_command_queue queue, const clade_run_opt *opt) {
  if (!queue) return CLADE_FAIL(INVALID, "clade_run_new_on: the queue is NULL");
  return run_new(func, vars, queue, opt);
}

/* A forked child has neither the threads nor the devices to wait for. */
static bool forked(const clade_run *run) {
  return run->func->n_devices && clade_device_status(run->func->devices[0]) == CLADE_FORKED;
}

void clade_run_free(clade_run *run) {
  if (!run) return;
  if (!forked(run)) {
    pthread_mutex_lock(&run->lock);
    for (int s = 0; run->slots && s < run->n_slots; s++) {
      clade__slot *slot = &run->slots[s];
      if (!slot->busy) continue;
      clade__slot_wait(run, slot);
      if (slot->status != CLADE_OK && !slot->reported)
        clade__log(CLADE_LOG_WARNING, "clade_run_free: an execution that nobody waited for: %s", slot->message);
    }
    pthread_mutex_unlock(&run->lock);
    clade__progress_stop(run);
  }
  disclaim(run);
  clade__run_unbuild(run);
  clade__free(run->slots);
  clade__free(run->ring);
  clade__free(run->var_index);
  clade_func_release(run->func);
  clade_vars_release(run->vars);
  pthread_cond_destroy(&run->enqueued);
  pthread_mutex_destroy(&run->lock);
  clade__free(run);
}

bool clade__run_idle(clade_run *run) {
  bool idle = true;
  pthread_mutex_lock(&run->lock);
  for (int s = 0; s < run->n_slots && idle; s++)
    idle = !run->slots[s].busy || clade__slot_poll(run, &run->slots[s]) == 1;
  pthread_mutex_unlock(&run->lock);
  return idle;
}

clade_status clade_run_status(const clade_run *given) {
  clade_run *run = (clade_run *)(uintptr_t)given; /* locked only */
  char message[sizeof run->message];
  if (!run) return CLADE_FAIL(INVALID, "clade_run_status: the run is NULL");
  pthread_mutex_lock(&run->lock);
  clade_status status = run->status;
  memcpy(message, run->message, sizeof message);
  pthread_mutex_unlock(&run->lock);
  return status == CLADE_OK ? CLADE_OK : clade__fail_again(status, message);
}

clade_status clade_cancel(clade_run *run) {
  if (!run) return CLADE_FAIL(INVALID, "clade_cancel: the run is NULL");
  pthread_mutex_lock(&run->lock);
  run->cancels++;        /* an execution that waits for a slot ends, too */
  bool canceled = false; /* cancel all later executions too, even those that began while it waited */
  for (uint64_t e = clade__oldest_execution(run); e <= run->submitted; e++) {
    clade__slot *slot = clade__slot_of(run, e);
    if (!slot->busy || slot->execution != e || !slot->lanes_left) continue;
    canceled |= !slot->begun || clade__hosts_wait(run, slot);
    if (!canceled) continue;
    slot->status = CLADE_CANCELED;
    snprintf(slot->message, sizeof slot->message, "execution %llu was canceled", (unsigned long long)slot->execution);
  }
  pthread_mutex_unlock(&run->lock);
  clade__progress_wake(run);
  return CLADE_OK;
}

clade_status clade_run_observe(clade_run *run, clade_observer_fn *fn, void *user) {
  if (!run) return CLADE_FAIL(INVALID, "clade_run_observe: the run is NULL");
  if (fn && !run->profile) return CLADE_FAIL(INVALID, "clade_run_observe: the run was made without .profile");
  pthread_mutex_lock(&run->lock);
  run->observer = fn;
  run->observer_user = user;
  pthread_mutex_unlock(&run->lock);
  return CLADE_OK;
}
