/* Opens OpenCL's loader at first use, and detects forks. */
#include "cl/internal.h"

#include <dlfcn.h>
#include <stdio.h>

clade__api clade__cl;
atomic_bool clade__forked;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool opened;
static const char *opened_path;
static char error_text[512];

static const char *const names[] = {"libOpenCL.so.1", "libOpenCL.so"};

static void in_child(void) { atomic_store(&clade__forked, true); }

static bool resolve(void *library) {
  static const struct {
    const char *name;
    size_t at;
  } table[] = {
#define X(name) {#name, offsetof(clade__api, name)},
      CLADE__CL_MAP(X)
#undef X
  };
  for (size_t i = 0; i < CLADE_COUNT(table); i++) {
    /* Symbols already in the process take precedence, as with linking, so that preloaded tools such as oclgrind can
     * interpose. */
    void *function = dlsym(RTLD_DEFAULT, table[i].name);
    if (!function) function = dlsym(library, table[i].name);
    if (!function) {
      snprintf(error_text, sizeof error_text, "it has no %s", table[i].name);
      return false;
    }
    memcpy((char *)&clade__cl + table[i].at, &function, sizeof function);
  }
  return true;
}

/* The library is never closed, because implementations keep threads. */
static bool open_locked(void) {
  void *library = NULL;
  error_text[0] = '\0';
  for (size_t i = 0; i < CLADE_COUNT(names) && !library; i++) {
    library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (library) {
      opened_path = names[i];
    } else if (!error_text[0]) {
      const char *why = dlerror();
      snprintf(error_text, sizeof error_text, "%s", why ? why : "unknown reason");
    }
  }
  if (!library) return false;
  if (!resolve(library)) {
    dlclose(library);
    return false;
  }
  if (pthread_atfork(NULL, NULL, in_child) != 0) {
    snprintf(error_text, sizeof error_text, "no memory to watch for forks");
    dlclose(library);
    return false;
  }
  atomic_store_explicit(&opened, true, memory_order_release);
  return true;
}

clade_status clade__loader_open(void) {
  if (atomic_load_explicit(&opened, memory_order_acquire)) return CLADE_OK;
  clade_status status = CLADE_OK;
  pthread_mutex_lock(&lock);
  if (!atomic_load(&opened) && !open_locked())
    status = CLADE_FAIL(NOT_FOUND, "OpenCL's loader %s cannot be used: %s; install one (Debian: ocl-icd-libopencl1)",
                        names[0], error_text);
  pthread_mutex_unlock(&lock);
  return status;
}

clade_status clade__fork_check(const char *function) {
  if (!atomic_load_explicit(&clade__forked, memory_order_relaxed)) return CLADE_OK;
  return CLADE_FAIL(FORKED, "%s: OpenCL does not work in a child that was forked after its first use; fork before it",
                    function);
}

void clade__loader_inspect(clade__loader_report *report) {
  memset(report, 0, sizeof *report);
  if (clade__fork_check("clade__loader_inspect") != CLADE_OK) {
    report->error = "used in a child after fork";
    return;
  }
  if (clade__loader_open() != CLADE_OK) {
    report->error = error_text;
    return;
  }
  cl_uint n = 0;
  report->path = opened_path;
  report->platform_error = clade__cl.clGetPlatformIDs(0, NULL, &n);
  report->platforms = report->platform_error == CL_SUCCESS ? (int)n : 0;
}
