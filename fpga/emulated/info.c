/* Platform and device information of the accelerator, where it differs from PoCL's. */
#include "emulated.h"

cl_int emulated_tell(const void *value, size_t bytes, size_t room, void *out, size_t *told) {
  if (out && room < bytes) return CL_INVALID_VALUE;
  if (out) memcpy(out, value, bytes);
  if (told) *told = bytes;
  return CL_SUCCESS;
}

typedef struct words {
  cl_uint what;
  const char *text;
} words;

static const char *find(const words *table, cl_uint what) {
  for (; table->text; table++)
    if (table->what == what) return table->text;
  return NULL;
}

static const words platform_words[] = {{CL_PLATFORM_NAME, "Clade emulation"},
                                       {CL_PLATFORM_VENDOR, "Clade"},
                                       {CL_PLATFORM_PROFILE, "EMBEDDED_PROFILE"},
                                       {CL_PLATFORM_VERSION, "OpenCL 1.2 Clade emulation"},
                                       {CL_PLATFORM_EXTENSIONS, "cl_khr_icd"},
                                       {CL_PLATFORM_ICD_SUFFIX_KHR, "CLADE"},
                                       {0, NULL}};

cl_int emulated_platform_info(cl_platform_info what, size_t room, void *out, size_t *told) {
  const char *text = find(platform_words, what);
  return text ? emulated_tell(text, strlen(text) + 1, room, out, told) : CL_INVALID_VALUE;
}

/* Only embedded-profile devices may lack a compiler. */
static const words device_words[] = {{CL_DEVICE_NAME, emulated_name},
                                     {CL_DEVICE_VENDOR, "Clade"},
                                     {CL_DEVICE_PROFILE, "EMBEDDED_PROFILE"},
                                     {CL_DEVICE_VERSION, "OpenCL 1.2 Clade emulation"},
                                     {CL_DEVICE_OPENCL_C_VERSION, "OpenCL C 1.2 "},
                                     {CL_DEVICE_IL_VERSION, ""},
                                     {CL_DEVICE_BUILT_IN_KERNELS, ""},
                                     {0, NULL}};

cl_int emulated_device_info(cl_device_info what, size_t room, void *out, size_t *told) {
  const cl_device_type type = CL_DEVICE_TYPE_ACCELERATOR;
  const cl_device_exec_capabilities kernels = CL_EXEC_KERNEL;
  const cl_bool no = CL_FALSE;
  const cl_uint zero = 0, one = 1;
  const cl_device_partition_property ways = 0;
  const cl_device_id parent = NULL;
  cl_platform_id platform;
  cl_device_id device;
  const char *text = find(device_words, what);
  if (text) return emulated_tell(text, strlen(text) + 1, room, out, told);
  switch (what) {
  case CL_DEVICE_TYPE: return emulated_tell(&type, sizeof type, room, out, told);
  case CL_DEVICE_EXECUTION_CAPABILITIES: return emulated_tell(&kernels, sizeof kernels, room, out, told);
  case CL_DEVICE_COMPILER_AVAILABLE:
  case CL_DEVICE_LINKER_AVAILABLE: return emulated_tell(&no, sizeof no, room, out, told);
  case CL_DEVICE_PLATFORM: return emulated_tell(&emulated_platform, sizeof platform, room, out, told);
  case CL_DEVICE_PARTITION_MAX_SUB_DEVICES: return emulated_tell(&zero, sizeof zero, room, out, told);
  case CL_DEVICE_PARTITION_PROPERTIES: return emulated_tell(&ways, sizeof ways, room, out, told);
  case CL_DEVICE_PARENT_DEVICE: return emulated_tell(&parent, sizeof parent, room, out, told);
  case CL_DEVICE_REFERENCE_COUNT: return emulated_tell(&one, sizeof one, room, out, told);
  default: break;
  }
  if (!emulated_real(&platform, &device)) return CL_INVALID_DEVICE;
  return emulated_next->clGetDeviceInfo(device, what, room, out, told);
}

cl_int emulated_properties(const cl_context_properties *given, cl_platform_id from, cl_platform_id to,
                           cl_context_properties out[EMULATED_PROPERTIES]) {
  size_t i = 0;
  for (; given && given[i]; i += 2) {
    if (i + 2 >= EMULATED_PROPERTIES) return CL_INVALID_PROPERTY;
    bool is_from = given[i] == CL_CONTEXT_PLATFORM && (cl_platform_id)given[i + 1] == from;
    out[i] = given[i];
    out[i + 1] = is_from ? (cl_context_properties)to : given[i + 1];
  }
  out[i] = 0;
  return CL_SUCCESS;
}
