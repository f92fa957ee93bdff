/* PoCL's device behind the emulated accelerator, and the contexts that belong to the accelerator. */
#include "emulated.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_once_t looked = PTHREAD_ONCE_INIT;
static cl_platform_id real_platform;
static cl_device_id real_device;

static void look(void) {
  cl_platform_id all[64];
  cl_uint n = 0;
  if (emulated_next->clGetPlatformIDs(64, all, &n) != CL_SUCCESS) return;
  for (cl_uint i = 0; i < n && i < 64 && !real_device; i++) {
    char name[64] = "";
    emulated_next->clGetPlatformInfo(all[i], CL_PLATFORM_NAME, sizeof name, name, NULL);
    if (strcmp(name, "Portable Computing Language") != 0) continue;
    real_platform = all[i];
    if (emulated_next->clGetDeviceIDs(all[i], CL_DEVICE_TYPE_ALL, 1, &real_device, NULL) != CL_SUCCESS)
      real_device = NULL;
  }
}

bool emulated_real(cl_platform_id *its_platform, cl_device_id *its_device) {
  pthread_once(&looked, look);
  *its_platform = real_platform;
  *its_device = real_device;
  return real_device != NULL;
}

/* ---- contexts ---- */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cl_context *own_contexts;
static size_t count, capacity;

static size_t find(cl_context context) {
  size_t i = 0;
  while (i < count && own_contexts[i] != context) i++;
  return i;
}

bool emulated_grow(void *list, size_t n, size_t *room, size_t bytes) {
  void *old;
  memcpy(&old, list, sizeof old);
  if (n < *room) return true;
  size_t larger = *room ? 2 * *room : 16;
  void *moved = realloc(old, larger * bytes);
  if (!moved) return false;
  memcpy(list, &moved, sizeof moved);
  *room = larger;
  return true;
}

bool emulated_note(cl_context context, bool own) {
  pthread_mutex_lock(&lock);
  size_t at = find(context);
  bool kept = true;
  if (own && at == count && (kept = emulated_grow(&own_contexts, count, &capacity, sizeof *own_contexts)))
    own_contexts[count++] = context;
  if (!own && at < count) own_contexts[at] = own_contexts[--count];
  pthread_mutex_unlock(&lock);
  return kept;
}

bool emulated_owns(cl_context context) {
  pthread_mutex_lock(&lock);
  bool own = find(context) < count;
  pthread_mutex_unlock(&lock);
  return own;
}

cl_int emulated_devices(bool own, cl_uint n, const cl_device_id *given, cl_device_id *room, const cl_device_id **out) {
  cl_platform_id platform;
  *out = given;
  for (cl_uint i = 0; given && i < n; i++)
    if ((given[i] == emulated_device) != own) return CL_INVALID_DEVICE;
  if (!own || !given || n == 0) return CL_SUCCESS;
  *out = room;
  return n == 1 && emulated_real(&platform, room) ? CL_SUCCESS : CL_INVALID_DEVICE;
}
