/* How tests steer and read the OpenCL layer. The layer is a shared object that ocl-icd loads because OPENCL_LAYERS
 * names it; the same object is opened here, so that faults can be armed before the first OpenCL call of a process. It
 * knows nothing of Clade. Processes of their own are steered by the environment: CLADE_LAYER_FAIL
 *   NAME[@SITE]:N[+][:ERROR]  NAME an entry point or * for all; SITE as in the report; N counts from 1; + for good;
 *                             ERROR a name such as CL_OUT_OF_RESOURCES, else the entry point's natural error
 * CLADE_LAYER_REPORT          a file that is written when the process ends: lines of "calls NAME N", "live KIND N",
 *                             "over KIND N", "left KIND NAME SITE", "failed N", "fault NAME N" for each entry point
 * that was made to fail, and, with CLADE_LAYER_RECORD=1, "call N NAME SITE" Calls that wait or give something up
 * (clFinish, clWaitForEvents, clSetUserEventStatus, releases) are carried out even when they are made to fail: what an
 * implementation leaves undone in them, no caller could do better. */
#ifndef CLADE_TESTS_LAYER_H
#define CLADE_TESTS_LAYER_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* One call: who, and from where. A site is a hash of the return addresses in the program and in libclade, relative to
 * their files: the same in every process of the same build. */
typedef struct clade_layer_call {
  const char *name;
  uint64_t site;
  bool failed; /* made to */
} clade_layer_call;

typedef struct clade_layer_fault {
  const char *name; /* NULL: any */
  uint64_t site;    /* 0: any */
  uint64_t nth;     /* from 1, of the calls that match from now on; 0: no fault */
  bool for_good;    /* that one and all later ones that match */
  int error;        /* 0: the natural error of the entry point */
} clade_layer_fault;

/* NAME, type of the function */
#define CLADE_LAYER_MAP(X)                                                                                             \
  X(loaded, bool (*loaded)(void))               /* OpenCL goes through the layer */                                    \
  X(calls, uint64_t (*calls)(const char *name)) /* NULL: all; "clCreate*": all that begin so */                        \
  X(entries, size_t (*entries)(void))           /* that are known */                                                   \
  X(entry, const char *(*entry)(size_t index))                                                                         \
  X(reset, void (*reset)(void))                                       /* counts, records and the fault; not objects */ \
  X(arm, void (*arm)(const clade_layer_fault *fault))                 /* one at a time */                              \
  X(failed, uint64_t (*failed)(void))                                 /* calls that were made to fail */               \
  X(record, void (*record)(bool on))                                  /* calls and their sites from here on */         \
  X(recorded, size_t (*recorded)(size_t max, clade_layer_call * out)) /* how many there are */                         \
  X(live, long (*live)(const char *kind))                             /* "mem", "event", …; NULL: all */             \
  X(over, long (*over)(const char *kind))                             /* released more often than held */              \
  X(report, bool (*report)(const char *path))

typedef struct clade_layer {
#define X(name, declaration) declaration;
  CLADE_LAYER_MAP(X)
#undef X
} clade_layer;

/* false where OPENCL_LAYERS does not begin with a layer of this kind. */
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
