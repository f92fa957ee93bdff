/* Opens other OpenCL libraries at first use, if the user enabled them. */
#include "cl/foreign.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "cl/internal.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Whether a colon-separated list contains the name. */
static bool has(const char *list, const char *name) {
  size_t length = strlen(name);
  while (list && *list) {
    size_t n = strcspn(list, ":");
    if (n == length && strncmp(list, name, n) == 0) return true;
    list += n + (list[n] == ':');
  }
  return false;
}

const char *clade__symbols_open(const char *file, int n, const clade__symbol *symbols, char *why, size_t size) {
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *error = dlerror();
    snprintf(why, size, "%s", error ? error : file);
    return why;
  }
  for (int i = 0; i < n; i++) {
    void *function = dlsym(library, symbols[i].name);
    if (!function) {
      snprintf(why, size, "%s has no %s", file, symbols[i].name);
      return why;
    }
    memcpy(symbols[i].to, &function, sizeof function);
  }
  return NULL;
}

static void open_locked(clade__foreign *f) {
  if (!has(clade__settings_get()->libraries, f->name) && !has(getenv("CLADE_LIBRARIES"), f->name)) {
    snprintf(f->reason, sizeof f->reason, "not enabled: set CLADE_LIBRARIES=%s", f->name);
    return;
  }
  char why[200];
  if (clade__symbols_open(f->file, f->n_symbols, f->symbols, why, sizeof why))
    snprintf(f->reason, sizeof f->reason, "%s (Debian: %s)", why, f->package);
}

const char *clade__foreign_missing(clade__foreign *f) {
  if (!atomic_load_explicit(&f->tried, memory_order_acquire)) {
    pthread_mutex_lock(&lock);
    if (!atomic_load(&f->tried)) {
      open_locked(f);
      atomic_store_explicit(&f->tried, true, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
  }
  return *f->reason ? f->reason : NULL;
}

clade_status clade__foreign_check(const clade_device *device, const char *call, int code) {
  if (code == CL_SUCCESS) return CLADE_OK;
  if (strcmp(clade__cl_error_name(code), "CL_?") != 0) return clade__cl_error(device, call, code);
  return CLADE_FAIL(UNSUPPORTED, "%s: status %d", call, code); /* an error code of the library itself */
}

clade_status clade__part_new(const clade_device *device, cl_mem memory, size_t offset, size_t bytes, cl_mem *out) {
  const cl_buffer_region region = {offset, bytes};
  cl_int code;
  *out = clade__cl.clCreateSubBuffer(memory, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
  return clade__cl_made(device, "clCreateSubBuffer", *out, code);
}

void clade__part_release(cl_mem part) {
  if (part) CLADE__UNDO(clReleaseMemObject, part);
}
