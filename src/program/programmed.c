/* Tracks which program each device holds, for devices that hold one at a time, and counts the changes. */
#include "program/bundles.h"

#include <clade/opencl.h>

typedef struct holder {
  cl_device_id id;
  clade__hash programs; /* hash of the bundles' digests */
  int current;          /* index of the loaded program */
  int users;
  uint64_t times;
} holder;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static holder *holders; /* never freed */
static size_t count, capacity;

static holder *find(const clade_device *device) {
  cl_device_id id = clade_device_cl_id(device);
  for (size_t i = 0; i < count; i++)
    if (holders[i].id == id) return &holders[i];
  return NULL;
}

static clade_status begin_locked(clade_device *device, const clade__bundle_set *bundles) {
  clade__hash programs = clade__bundle_set_hash(bundles);
  holder *h = find(device);
  if (!h) {
    CLADE_TRY(clade__grow(&holders, &capacity, count + 1, sizeof *holders));
    h = &holders[count++];
    *h = (holder){.id = clade_device_cl_id(device)};
  }
  bool same = h->times && clade__hash_equal(h->programs, programs);
  if (h->users && !same)
    return CLADE_FAIL(BUSY, "%s: device \"%s\" holds the program of another bundle, which is in use",
                      bundles->at[0].path, clade__device_info(device)->name);
  if (!same) h->current = 0;
  h->programs = programs;
  h->times += !same;
  h->users++;
  return CLADE_OK;
}

clade_status clade__programmed_begin(clade_device *device, const clade__bundle_set *bundles) {
  pthread_mutex_lock(&lock);
  clade_status status = begin_locked(device, bundles);
  pthread_mutex_unlock(&lock);
  return status;
}

void clade__programmed_end(clade_device *device) {
  pthread_mutex_lock(&lock);
  holder *h = find(device);
  if (h) h->users--;
  pthread_mutex_unlock(&lock);
}

void clade__programmed_ran(clade_device *device, int first, int last, int changes) {
  pthread_mutex_lock(&lock);
  holder *h = find(device);
  if (h) h->times += (uint64_t)changes + (h->current != first);
  if (h) h->current = last;
  pthread_mutex_unlock(&lock);
}

uint64_t clade__programmed_times(const clade_device *device) {
  pthread_mutex_lock(&lock);
  const holder *h = find(device);
  uint64_t times = h ? h->times : 0;
  pthread_mutex_unlock(&lock);
  return times;
}
