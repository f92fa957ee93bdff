/* Prepares launches: checks them against the kernel's limits, which some implementations crash beyond, and performs
 * each once without effect if the implementation compiles per launch configuration. */
#include "program/parts.h"

enum { DUMMY_BYTES = 4096, LARGE_GRID = 65536, LARGEST_VALUE = 128 };

typedef struct warmer {
  clade__store *store;
  clade__queue *queue; /* NULL: check only */
  clade__buffer *dummy;
} warmer;

static void sizes(const clade__request *r, size_t local[3]) {
  for (int i = 0; i < 3; i++) local[i] = r->local[i] ? r->local[i] : 1;
}

static clade_status check(const clade__store *store, cl_kernel kernel, const clade__request *r) {
  clade__kernel_limits limits;
  cl_uint count = 0;
  size_t local[3];
  uint64_t local_args = 0;
  CLADE_TRY(clade__kernel_args(store->device, kernel, &count));
  if (count != (cl_uint)r->n_args)
    return CLADE_FAIL(INVALID, "the kernel takes %u arguments, %d are described", count, r->n_args);
  for (int i = 0; i < r->n_args; i++) {
    if (r->args[i].kind == CLADE__LAUNCH_LOCAL) local_args += r->args[i].bytes;
    if (r->args[i].kind == CLADE__LAUNCH_BYTES && r->args[i].bytes > LARGEST_VALUE)
      return CLADE_FAIL(INVALID, "argument %d has %u bytes, at most %d were expected", i, r->args[i].bytes,
                        LARGEST_VALUE);
  }
  sizes(r, local);
  CLADE_TRY(clade__kernel_get_limits(store->device, kernel, &limits));
  return clade__kernel_fits(store->device, &limits, r->kernel, 3, local, local_args);
}

static clade_status perform(const warmer *w, cl_kernel kernel, const clade__request *r) {
  static const unsigned char zeros[LARGEST_VALUE];
  clade_device *device = w->store->device;
  cl_mem memory = clade__buffer_mem(w->dummy);
  for (int i = 0; i < r->n_args; i++) {
    const clade__launch_arg *arg = &r->args[i];
    size_t bytes = arg->kind == CLADE__LAUNCH_BUFFER ? sizeof memory : arg->bytes;
    const void *value = arg->kind == CLADE__LAUNCH_BUFFER  ? (const void *)&memory
                        : arg->kind == CLADE__LAUNCH_BYTES ? zeros
                                                           : NULL;
    CLADE_TRY(clade__kernel_set(device, kernel, (cl_uint)i, bytes, value));
  }
  size_t local[3], global[3];
  sizes(r, local);
  memcpy(global, local, sizeof global);
  if (r->large_grid && !clade__round_up(LARGE_GRID, local[0], &global[0]))
    return CLADE_FAIL(OVERFLOW, "a work-group of %zu", local[0]);
  return clade__queue_launch(w->queue, kernel, 3, global, local, (clade__wait){0}, NULL);
}

static clade_status one(const warmer *w, const clade__wanted *wanted) {
  const clade__request *r = wanted->request;
  const clade__entry *entry = clade__store_entry(w->store, wanted->key);
  cl_kernel kernel;
  clade_status status =
      clade__kernel_new(w->store->device, w->store->programs[entry->program].program, entry->name, &kernel);
  if (status == CLADE_OK) {
    if (r->args) status = check(w->store, kernel, r);
    if (status == CLADE_OK && r->args && w->queue) status = perform(w, kernel, r);
    clade__kernel_release(kernel);
  }
  return status == CLADE_OK ? CLADE_OK : clade__fail_in(status, "kernel %s of %s.cl", r->kernel, r->file);
}

static clade_status mark(clade__store *store, const clade__wanted *wanted) {
  const clade__entry *entry = clade__store_entry(store, wanted->key);
  CLADE_TRY(clade__grow(&store->launches, &store->launch_capacity, store->n_launches + 1, sizeof *store->launches));
  CLADE_TRY(clade__map_put(&store->by_launch, wanted->launch, store->n_launches));
  store->launches[store->n_launches++] = (clade__launch){wanted->launch, (size_t)(entry - store->entries)};
  return CLADE_OK;
}

clade_status clade__store_warm(clade__store *store, size_t n, const clade__wanted *wanted, bool warm) {
  warmer w = {.store = store};
  clade_status status = CLADE_OK;
  if (warm) {
    CLADE_GOTO(clade__queue_new(store->device, false, &w.queue));
    CLADE_GOTO(clade__buffer_new(store->device, DUMMY_BYTES, "warming kernels", &w.dummy));
  }
  for (size_t i = 0; i < n; i++)
    if (!clade__store_ready(store, &wanted[i]) && clade__store_entry(store, wanted[i].key))
      CLADE_GOTO(one(&w, &wanted[i]));
  if (warm) CLADE_GOTO(clade__queue_finish(w.queue));
  for (size_t i = 0; i < n; i++)
    if (!clade__store_ready(store, &wanted[i]) && clade__store_entry(store, wanted[i].key))
      CLADE_GOTO(mark(store, &wanted[i]));
fail:
  clade__queue_free(w.queue);
  clade__buffer_release(w.dummy);
  return status;
}
