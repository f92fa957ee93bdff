/* Emulated accelerator: an OpenCL layer that presents, beside PoCL's device, a second one without a compiler, whose
 * programs are built offline. PoCL computes for it. Its purpose is to test how a host uses such devices. docs/fpga.md
 * describes how it is loaded. */
#ifndef EMULATED_H
#define EMULATED_H

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>
#include <stdbool.h>
#include <string.h>

/* The layer's own platform and device objects, which replace PoCL's in arguments and results. All other objects are
 * PoCL's; those of the accelerator are recognized by their context. */
extern const cl_icd_dispatch *emulated_next;
extern const cl_platform_id emulated_platform;
extern const cl_device_id emulated_device;

/* PoCL's first device; false: there is none, and thus no accelerator. */
bool emulated_real(cl_platform_id *platform, cl_device_id *device);

/* Makes room for one more element in a list (`list` points to its start); false: no memory. Released handles stay in
 * their lists until their address is reused. */
bool emulated_grow(void *list, size_t count, size_t *capacity, size_t bytes);

/* ---- ownership of contexts (contexts.c) ---- */
bool emulated_note(cl_context context, bool own); /* for each new context: addresses are reused; false: no memory */
bool emulated_owns(cl_context context);
/* The devices to pass to PoCL instead of `given`: a context of the accelerator accepts the accelerator only, and other
 * contexts anything else. `room` is storage for one device. */
cl_int emulated_devices(bool own, cl_uint n, const cl_device_id *given, cl_device_id *room, const cl_device_id **out);

/* ---- computation besides PoCL: plain.c none; rtl_queue.c and rtl_array.c the array ---- */
extern const char emulated_name[]; /* of the device */
void emulated_launches(cl_icd_dispatch *mine);

/* ---- information (info.c) ---- */
cl_int emulated_tell(const void *value, size_t bytes, size_t room, void *out, size_t *told);
cl_int emulated_platform_info(cl_platform_info what, size_t room, void *out, size_t *told);
cl_int emulated_device_info(cl_device_info what, size_t room, void *out, size_t *told);
/* Copies a context's properties, with one platform replaced by the other. */
enum { EMULATED_PROPERTIES = 33 };
cl_int emulated_properties(const cl_context_properties *given, cl_platform_id from, cl_platform_id to,
                           cl_context_properties out[EMULATED_PROPERTIES]);

#endif
