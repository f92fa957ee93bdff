/* Control of the OpenCL layer by tests. ocl-icd loads the layer, a shared object, through OPENCL_LAYERS; tests open
 * the same object, so that faults can be armed before the first OpenCL call. It is independent of Clade. Separate
 * processes are controlled by environment variables:
 *   CLADE_LAYER_FAIL    NAME[@SITE]:N[+][:ERROR]
 *     NAME: an entry point, or * for all. SITE: as in the report. N: counts from 1. +: permanently. ERROR: a name
 *     such as CL_OUT_OF_RESOURCES; default: the entry point's natural error.
 *   CLADE_LAYER_REPORT  a file that is written at exit, with lines "calls NAME N", "live KIND N", "over KIND N",
 *     "left KIND NAME SITE", "failed N", "fault NAME N" for each entry point that was made to fail and, with
 *     CLADE_LAYER_RECORD=1, "call N NAME SITE".
 * Functions that wait or release (clFinish, clWaitForEvents, clSetUserEventStatus, releases) are executed even when
 * they are made to fail, since a caller could not recover from what they omit. */
#ifndef CLADE_TESTS_LAYER_H
#define CLADE_TESTS_LAYER_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A recorded call. A site is a hash of the return addresses in the program and in libclade, relative to their files,
 * and thus equal in all processes of a build. */
typedef struct clade_layer_call {
  const char *name;
  uint64_t site;
  bool failed; /* made to fail */
} clade_layer_call;

typedef struct clade_layer_fault {
  const char *name; /* NULL: any */
  uint64_t site;    /* 0: any */
  uint64_t nth;     /* counts matching calls from 1; 0: no fault */
  bool for_good;    /* the n-th and all later matching calls */
  int error;        /* 0: the entry point's natural error */
} clade_layer_fault;

/* NAME, function type */
#define CLADE_LAYER_MAP(X)                                                                                             \
  X(loaded, bool (*loaded)(void))               /* OpenCL calls pass through the layer */                              \
  X(calls, uint64_t (*calls)(const char *name)) /* NULL: all; "clCreate*": by prefix */                                \
  X(entries, size_t (*entries)(void))           /* number of known entry points */                                     \
  X(entry, const char *(*entry)(size_t index))                                                                         \
  X(reset, void (*reset)(void))                                       /* counts, records and the fault, not objects */ \
  X(arm, void (*arm)(const clade_layer_fault *fault))                 /* one at a time */                              \
  X(failed, uint64_t (*failed)(void))                                 /* calls made to fail */                         \
  X(record, void (*record)(bool on))                                  /* records calls and their sites from now on */  \
  X(recorded, size_t (*recorded)(size_t max, clade_layer_call * out)) /* returns their number */                       \
  X(live, long (*live)(const char *kind))                             /* "mem", "event", …; NULL: all */             \
  X(over, long (*over)(const char *kind))                             /* excess releases */                            \
  X(report, bool (*report)(const char *path))

typedef struct clade_layer {
#define X(name, declaration) declaration;
  CLADE_LAYER_MAP(X)
#undef X
} clade_layer;

/* False if OPENCL_LAYERS does not begin with this layer. */
static inline bool clade_layer_open(clade_layer *layer) {
  const char *paths = getenv("OPENCL_LAYERS");
  char path[4096];
  size_t n = paths ? strcspn(paths, ":") : 0;
  if (n == 0 || n >= sizeof path) return false;
  memcpy(path, paths, n);
  path[n] = '\0';
  void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!object) return false;
  void *symbol;
#define X(name, declaration)                                         \
  if (!(symbol = dlsym(object, "clade_layer_" #name))) return false; \
  memcpy(&layer->name, &symbol, sizeof symbol);
  CLADE_LAYER_MAP(X)
#undef X
  return true;
}

#endif
