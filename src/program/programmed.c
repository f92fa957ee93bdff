/* Which program each device holds: one at a time, and how often that was another one. */
#include "program/bundles.h"

#include <clade/opencl.h>

typedef struct holder {
  cl_device_id id;
  unsigned char digest[CLADE__BUNDLE_DIGEST];
  int users;
  uint64_t times;
} holder;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static holder *holders; /* for the life of the process */
static size_t count, capacity;

static holder *find(const clade_device *device) {
  cl_device_id id = clade_device_cl_id(device);
  for (size_t i = 0; i < count; i++)
    if (holders[i].id == id) return &holders[i];
  return NULL;
}

static clade_status begin_locked(clade_device *device, const clade__bundle *bundle) {
  holder *h = find(device);
  if (!h) {
    CLADE_TRY(clade__grow(&holders, &capacity, count + 1, sizeof *holders));
    h = &holders[count++];
    *h = (holder){.id = clade_device_cl_id(device)};
  }
  bool same = h->times && memcmp(h->digest, bundle->digest, sizeof h->digest) == 0;
  if (h->users && !same)
    return CLADE_FAIL(BUSY, "%s: device \"%s\" holds the program of another bundle, which is in use", bundle->path,
                      clade__device_info(device)->name);
  memcpy(h->digest, bundle->digest, sizeof h->digest);
  h->times += !same;
  h->users++;
  return CLADE_OK;
}

clade_status clade__programmed_begin(clade_device *device, const clade__bundle *bundle) {
  pthread_mutex_lock(&lock);
  clade_status status = begin_locked(device, bundle);
  pthread_mutex_unlock(&lock);
  return status;
}

void clade__programmed_end(clade_device *device) {
  pthread_mutex_lock(&lock);
  holder *h = find(device);
  if (h) h->users--;
  pthread_mutex_unlock(&lock);
}

uint64_t clade__programmed_times(const clade_device *device) {
  pthread_mutex_lock(&lock);
  const holder *h = find(device);
  uint64_t times = h ? h->times : 0;
  pthread_mutex_unlock(&lock);
  return times;
}
