/* The layer's entry points: one wrapper per row of entries.def, and the two functions that the loader calls. */
#include "state.h"

static const cl_icd_dispatch *next;
static cl_icd_dispatch mine;

/* ---- outputs: cleared by failed calls, recorded by successful ones ---- */
#define OUT_NOTHING_ZERO
#define OUT_NOTHING_NOTE
#define OUT_INFO_ZERO                                        \
  if (param_value) memset(param_value, 0, param_value_size); \
  if (param_value_size_ret) *param_value_size_ret = 0;
#define OUT_INFO_NOTE
#define OUT_EVENT_ZERO \
  if (event) *event = NULL;
#define OUT_EVENT_NOTE \
  if (event) layer_created(KIND_EVENT, *event, entry, site);
#define OUT_LIST_ZERO(list, count)                         \
  if (list) memset(list, 0, num_entries * sizeof *(list)); \
  if (count) *(count) = 0;
#define OUT_LIST_NOTE(list, count)
#define OUT_KERNELS_ZERO                                          \
  if (kernels) memset(kernels, 0, num_kernels * sizeof *kernels); \
  if (num_kernels_ret) *num_kernels_ret = 0;
#define OUT_KERNELS_NOTE                               \
  for (cl_uint i = 0; kernels && i < num_kernels; i++) \
    if (kernels[i]) layer_created(KIND_KERNEL, kernels[i], entry, site);
#define OUT_DEVICES_ZERO                                                      \
  if (out_devices) memset(out_devices, 0, num_devices * sizeof *out_devices); \
  if (num_devices_ret) *num_devices_ret = 0;
#define OUT_DEVICES_NOTE                                   \
  for (cl_uint i = 0; out_devices && i < num_devices; i++) \
    if (out_devices[i]) layer_created(KIND_DEVICE, out_devices[i], entry, site);

/* OUT_LIST(a, b) becomes OUT_LIST_ZERO(a, b), and so on. */
#define OUT_LIST(list, count) OUT_LIST_, (list, count)
#define OUT_NOTHING           OUT_NOTHING_,
#define OUT_INFO              OUT_INFO_,
#define OUT_EVENT             OUT_EVENT_,
#define OUT_KERNELS           OUT_KERNELS_,
#define OUT_DEVICES           OUT_DEVICES_,
#define PASTE(a, b)           a##b
#define ZERO_(out, operands)  PASTE(out, ZERO) operands
#define NOTE_(out, operands)  PASTE(out, NOTE) operands
#define ZERO(...)             ZERO_(__VA_ARGS__)
#define NOTE(...)             NOTE_(__VA_ARGS__)

#define FIRST_(first, ...) first
#define FIRST(...)         FIRST_(__VA_ARGS__, )

#define ENTER(name, natural)      \
  const int entry = ENTRY_##name; \
  uint64_t site;                  \
  cl_int error = layer_enter(entry, natural, &site);

#define CALL(name, natural, out, params, args)    \
  static cl_int CL_API_CALL layer_##name params { \
    ENTER(name, natural)                          \
    if (error != CL_SUCCESS) {                    \
      ZERO(out)                                   \
      return error;                               \
    }                                             \
    error = next->name args;                      \
    if (error == CL_SUCCESS) { NOTE(out) }        \
    return error;                                 \
  }
#define DONE(name, natural, params, args)         \
  static cl_int CL_API_CALL layer_##name params { \
    ENTER(name, natural)                          \
    cl_int result = next->name args;              \
    return error != CL_SUCCESS ? error : result;  \
  }
#define CREATE(name, type, kind, natural, params, args)          \
  static type CL_API_CALL layer_##name params {                  \
    ENTER(name, natural)                                         \
    if (error != CL_SUCCESS) {                                   \
      if (errcode_ret) *errcode_ret = error;                     \
      return NULL;                                               \
    }                                                            \
    type object = next->name args;                               \
    if (object) layer_created(KIND_##kind, object, entry, site); \
    return object;                                               \
  }
#define MAP(name, natural, params, args)                                 \
  static void *CL_API_CALL layer_##name params {                         \
    ENTER(name, natural)                                                 \
    if (error != CL_SUCCESS) {                                           \
      if (event) *event = NULL;                                          \
      if (errcode_ret) *errcode_ret = error;                             \
      return NULL;                                                       \
    }                                                                    \
    void *memory = next->name args;                                      \
    if (memory && event) layer_created(KIND_EVENT, *event, entry, site); \
    return memory;                                                       \
  }
#define RETAIN(name, kind, natural, params, args)                                  \
  static cl_int CL_API_CALL layer_##name params {                                  \
    ENTER(name, natural)                                                           \
    if (error == CL_SUCCESS) error = next->name args;                              \
    if (error == CL_SUCCESS) layer_retained(KIND_##kind, FIRST args, entry, site); \
    return error;                                                                  \
  }
#define RELEASE(name, kind, natural, params, args)                 \
  static cl_int CL_API_CALL layer_##name params {                  \
    ENTER(name, natural)                                           \
    (void)entry, (void)site;                                       \
    layer_released(KIND_##kind, FIRST args);                       \
    cl_int result = next->name args;                               \
    if (result != CL_SUCCESS) layer_kept(KIND_##kind, FIRST args); \
    return error != CL_SUCCESS ? error : result;                   \
  }
#include "entries.def"
#undef CALL
#undef DONE
#undef CREATE
#undef MAP
#undef RETAIN
#undef RELEASE

EXPORT cl_int CL_API_CALL clGetLayerInfo(cl_layer_info param_name, size_t param_value_size, void *param_value,
                                         size_t *param_value_size_ret) {
  static const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
  static const char name[] = "clade tests";
  const void *value = param_name == CL_LAYER_NAME ? (const void *)name : &version;
  size_t bytes = param_name == CL_LAYER_NAME ? sizeof name : sizeof version;
  if (param_name != CL_LAYER_NAME && param_name != CL_LAYER_API_VERSION) return CL_INVALID_VALUE;
  if (param_value && param_value_size < bytes) return CL_INVALID_VALUE;
  if (param_value) memcpy(param_value, value, bytes);
  if (param_value_size_ret) *param_value_size_ret = bytes;
  return CL_SUCCESS;
}

EXPORT cl_int CL_API_CALL clInitLayer(cl_uint num_entries, const cl_icd_dispatch *target_dispatch,
                                      cl_uint *num_entries_ret, const cl_icd_dispatch **layer_dispatch_ret) {
  const cl_uint entries = sizeof mine / sizeof(void *);
  if (!target_dispatch || !num_entries_ret || !layer_dispatch_ret || num_entries < entries) return CL_INVALID_VALUE;
  next = target_dispatch;
  mine = *target_dispatch;
#define ROW(name)                                  mine.name = layer_##name;
#define CALL(name, natural, out, params, args)     ROW(name)
#define DONE(name, natural, params, args)          ROW(name)
#define CREATE(name, type, kind, natural, p, args) ROW(name)
#define MAP(name, natural, params, args)           ROW(name)
#define RETAIN(name, kind, natural, params, args)  ROW(name)
#define RELEASE(name, kind, natural, params, args) ROW(name)
#include "entries.def"
  *layer_dispatch_ret = &mine;
  *num_entries_ret = entries;
  layer_initialized();
  return CL_SUCCESS;
}
