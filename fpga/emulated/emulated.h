/* The parts of the emulated accelerator: an OpenCL layer that presents, beside PoCL's device, a second one that takes
 * no source: an accelerator whose programs were built beforehand. PoCL computes for it; what it is for is to run
 * whatever a host does with such a device. docs/fpga.md tells how it is loaded. */
#ifndef EMULATED_H
#define EMULATED_H

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>
#include <stdbool.h>
#include <string.h>

/* Its platform and its device are objects of the layer, in the place of PoCL's wherever one is given or told. All other
 * objects are PoCL's own; those that are the accelerator's are known by their context. */
extern const cl_icd_dispatch *emulated_next;
extern const cl_platform_id emulated_platform;
extern const cl_device_id emulated_device;

/* PoCL's first device; false: there is none, and then no accelerator either. */
bool emulated_real(cl_platform_id *platform, cl_device_id *device);

/* Room for one more in a list of elements of so many bytes (`list` is where its beginning is kept); false: no memory.
 * Handles that were released stay in their lists until an address is another's. */
bool emulated_grow(void *list, size_t count, size_t *capacity, size_t bytes);

/* ---- whose a context is (contexts.c) ---- */
bool emulated_note(cl_context context, bool own); /* of each that is created, for an address may come back; false: no
                                                     memory */
bool emulated_owns(cl_context context);
/* What PoCL is to be given for `given`, of which a context of the accelerator allows itself alone, and others anything
 * else; `room` is for one. */
cl_int emulated_devices(bool own, cl_uint n, const cl_device_id *given, cl_device_id *room, const cl_device_id **out);

/* ---- what computes, besides PoCL: plain.c nothing, rtl_queue.c and rtl_array.c the array ---- */
extern const char emulated_name[]; /* of the device */
void emulated_launches(cl_icd_dispatch *mine);

/* ---- what is told (info.c) ---- */
cl_int emulated_tell(const void *value, size_t bytes, size_t room, void *out, size_t *told);
cl_int emulated_platform_info(cl_platform_info what, size_t room, void *out, size_t *told);
cl_int emulated_device_info(cl_device_info what, size_t room, void *out, size_t *told);
/* Properties of a context in which one platform stands for the other. */
enum { EMULATED_PROPERTIES = 33 };
cl_int emulated_properties(const cl_context_properties *given, cl_platform_id from, cl_platform_id to,
                           cl_context_properties out[EMULATED_PROPERTIES]);

#endif
