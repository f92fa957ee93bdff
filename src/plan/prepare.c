/* Prepares the kernels that a func needs: distinct requests, one batch per device; also the state of library and
 * host steps. */
#include <clade/opencl.h>

#include "plan/plan.h"

static bool large_grid(const clade_kernel_step *launch) {
  for (int i = 0; i < launch->dims; i++)
    if (launch->global[i] > 65535) return true;
  return false;
}

/* Hash of everything that two steps must share to use one kernel, except the texts. */
static clade_status key_of(const clade__request *request, int device, clade__hash *key) {
  CLADE_TRY(clade__request_hash(request, key));
  uint64_t rest[5] = {request->local[0], request->local[1], request->local[2], request->large_grid, (uint64_t)device};
  *key = clade__hash_more(*key, rest, sizeof rest);
  return CLADE_OK;
}

static clade_status launch_args(clade_func *func, const clade__fstep *step, clade__request *request) {
  const clade_kernel_step *launch = step->launch;
  clade__launch_arg *args = clade__arena_new(&func->arena, 2 * launch->n_args * sizeof *args);
  if (!args) return CLADE_NO_MEMORY;
  request->args = args;
  for (size_t i = 0; i < launch->n_args; i++) {
    const clade__arg *arg = &launch->args[i];
    if (arg->kind == CLADE__ARG_BYTES) {
      args[request->n_args++] = (clade__launch_arg){CLADE__LAUNCH_BYTES, arg->bytes};
    } else if (arg->kind == CLADE__ARG_LOCAL) {
      args[request->n_args++] = (clade__launch_arg){CLADE__LAUNCH_LOCAL, (uint32_t)arg->at};
    } else {
      args[request->n_args++] = (clade__launch_arg){CLADE__LAUNCH_BUFFER, 0};
      args[request->n_args++] = (clade__launch_arg){CLADE__LAUNCH_BYTES, step->wide ? 8 : 4};
    }
  }
  return CLADE_OK;
}

void clade__step_request(const clade_func *func, const clade__fstep *step, clade__request *out) {
  const clade_kernel_step *launch = step->launch;
  const clade__node *node = &func->graph->nodes[step->node];
  const clade_op *op = node->op;
  *out = (clade__request){.file = launch->file ? launch->file : clade__kernel_file(op, clade__impls(op)[node->impl]),
                          .source = clade__kernel_source_of(op, clade__impls(op)[node->impl]),
                          .kernel = launch->kernel,
                          .options = "",
                          .n_defines = (int)launch->n_defines,
                          .defines = launch->defines,
                          .large_grid = large_grid(launch)};
  for (int i = 0; i < launch->dims; i++) out->local[i] = launch->local[i];
}

static clade_status add_request(clade_func *func, const clade__request *request, int device) {
  size_t n = func->n_requests, capacity = func->request_capacity;
  CLADE_TRY(clade__grow(&func->request_device, &capacity, n + 1, sizeof *func->request_device));
  CLADE_TRY(clade__grow(&func->requests, &func->request_capacity, n + 1, sizeof *func->requests));
  func->requests[n] = *request;
  func->request_device[n] = device;
  func->n_requests++;
  return CLADE_OK;
}

static clade_status request_of(clade_func *func, clade__fstep *step, clade__map *known) {
  clade__request request;
  clade__hash key;
  clade__step_request(func, step, &request);
  CLADE_TRY(key_of(&request, step->device, &key));
  if (clade__map_get(known, key, &step->request)) return CLADE_OK;
  CLADE_TRY(launch_args(func, step, &request));
  step->request = func->n_requests;
  CLADE_TRY(clade__map_put(known, key, func->n_requests));
  return add_request(func, &request, step->device);
}

static clade_status persistent_requests(clade_func *func) {
  for (int d = 0; func->interpreters && d < func->n_devices; d++) {
    clade__request request;
    CLADE_TRY(clade__persistent_request(func, d, &request));
    func->interpreters[d].request = func->n_requests;
    if (request.file) CLADE_TRY(add_request(func, &request, d));
  }
  return CLADE_OK;
}

/* Passes the requests of a device to the store. */
static clade_status prepare_device(clade_func *func, int device, clade__request *batch, clade__program_kernel *got) {
  size_t n = 0;
  for (size_t i = 0; i < func->n_requests; i++)
    if (func->request_device[i] == device) batch[n++] = func->requests[i];
  if (!n) return CLADE_OK;
  CLADE_TRY(clade__store_prepare(func->devices[device], n, batch, got));
  n = 0;
  for (size_t i = 0; i < func->n_requests; i++)
    if (func->request_device[i] == device) func->kernels[i] = got[n++];
  return CLADE_OK;
}

/* Calls the prepare function of a library or host step. */
static clade_status prepare_foreign(const clade_func *func, clade__fstep *step) {
  const clade_kernel_step *launch = step->launch;
  clade_device *device = func->devices[step->device];
  char room[32];
  unsigned failures = clade__failures();
  clade_status status = CLADE_OK;
  if (launch->library && launch->library->prepare)
    status = launch->library->prepare(launch->work, device, &step->state);
  else if (launch->host && launch->host->prepare)
    status = launch->host->prepare(launch->work, device, &step->state);
  step->prepared = status == CLADE_OK;
  if (status != CLADE_OK && clade__failures() == failures)
    return clade_fail(status, "%s: %s cannot be prepared: %s", clade__step_name(func, step, room), launch->kernel,
                      clade_status_text(status));
  return status;
}

clade_status clade__list_requests(clade_func *func) {
  clade__map known = {0};
  clade_status status = CLADE_OK;
  CLADE_GOTO(clade__persistent_plan(func));
  CLADE_GOTO(persistent_requests(func));
  for (size_t i = 0; i < func->n_steps; i++)
    if (func->steps[i].kind == CLADE__FSTEP_KERNEL && !func->steps[i].persistent)
      CLADE_GOTO(request_of(func, &func->steps[i], &known));
  for (size_t i = 0; i < func->n_packs; i++)
    if (func->packs[i].step.kind == CLADE__FSTEP_KERNEL) CLADE_GOTO(request_of(func, &func->packs[i].step, &known));
fail:
  clade__map_free(&known);
  return status;
}

clade_status clade__prepare(clade_func *func) {
  if (!func->n_requests) CLADE_TRY(clade__list_requests(func));
  clade__request *batch = clade__new(func->n_requests, sizeof *batch);
  clade__program_kernel *got = clade__new(func->n_requests, sizeof *got);
  func->kernels = clade__new(func->n_requests, sizeof *func->kernels);
  clade_status status = batch && got && func->kernels ? CLADE_OK : CLADE_NO_MEMORY;
  for (int d = 0; d < func->n_devices && status == CLADE_OK; d++) status = prepare_device(func, d, batch, got);
  clade__free(batch);
  clade__free(got);
  for (size_t i = 0; i < func->n_steps && status == CLADE_OK; i++)
    if (func->steps[i].kind != CLADE__FSTEP_KERNEL && func->steps[i].launch)
      status = prepare_foreign(func, &func->steps[i]);
  return status;
}

static clade_status prepare_apart(clade_func *func, int device, clade__request *batch, clade__program_kernel *got) {
  size_t n = 0;
  for (size_t i = 0; i < func->n_steps; i++)
    if (func->steps[i].persistent && func->steps[i].device == device) {
      clade__step_request(func, &func->steps[i], &batch[n]);
      CLADE_TRY(launch_args(func, &func->steps[i], &batch[n++]));
    }
  if (!n) return CLADE_OK;
  CLADE_TRY(clade__store_prepare(func->devices[device], n, batch, got));
  n = 0;
  for (size_t i = 0; i < func->n_steps; i++)
    if (func->steps[i].persistent && func->steps[i].device == device) func->apart[i] = got[n++];
  return CLADE_OK;
}

clade_status clade__prepare_apart(clade_func *func) {
  clade__request *batch = clade__new(func->n_steps, sizeof *batch);
  clade__program_kernel *got = clade__new(func->n_steps, sizeof *got);
  clade_status status = batch && got ? CLADE_OK : CLADE_NO_MEMORY;
  pthread_mutex_lock(&func->lock);
  if (status == CLADE_OK && !func->apart) {
    func->apart = clade__new(func->n_steps, sizeof *func->apart);
    if (!func->apart) status = CLADE_NO_MEMORY;
    for (int d = 0; d < func->n_devices && status == CLADE_OK; d++) status = prepare_apart(func, d, batch, got);
    if (status != CLADE_OK) {
      clade__free(func->apart);
      func->apart = NULL;
    }
  }
  pthread_mutex_unlock(&func->lock);
  clade__free(batch);
  clade__free(got);
  return status;
}
