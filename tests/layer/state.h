/* State of the layer: counts, the armed fault, recorded calls and live objects, all behind one lock. */
#ifndef CLADE_LAYER_STATE_H
#define CLADE_LAYER_STATE_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <CL/cl_layer.h>

#include "layer.h"

#define EXPORT __attribute__((visibility("default")))

#define KIND_MAP(X)     \
  X(CONTEXT, "context") \
  X(QUEUE, "queue")     \
  X(MEM, "mem")         \
  X(SAMPLER, "sampler") \
  X(PROGRAM, "program") \
  X(KERNEL, "kernel")   \
  X(EVENT, "event")     \
  X(DEVICE, "device")
typedef enum kind {
#define X(name, text) KIND_##name,
  KIND_MAP(X)
#undef X
      KINDS
} kind;

enum entry_number {
#define ROW(name)                                  ENTRY_##name,
#define CALL(name, natural, out, params, args)     ROW(name)
#define DONE(name, natural, params, args)          ROW(name)
#define CREATE(name, type, kind, natural, p, args) ROW(name)
#define MAP(name, natural, params, args)           ROW(name)
#define RETAIN(name, kind, natural, params, args)  ROW(name)
#define RELEASE(name, kind, natural, params, args) ROW(name)
#include "entries.def"
#undef ROW
#undef CALL
#undef DONE
#undef CREATE
#undef MAP
#undef RETAIN
#undef RELEASE
  ENTRIES
};

/* Counts and records a call. Returns CL_SUCCESS or the error that it must fail with. */
cl_int layer_enter(int entry, cl_int natural, uint64_t *site);

void layer_created(kind kind, const void *object, int entry, uint64_t site);
void layer_retained(kind kind, const void *object, int entry, uint64_t site);
/* Called before a release, after which the address may be reused. layer_kept undoes it. */
void layer_released(kind kind, const void *object);
void layer_kept(kind kind, const void *object);

void layer_initialized(void);

#endif
