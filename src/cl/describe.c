/* Queries the properties of a device once. Strings live as long as the process. */
#include "cl/internal.h"

#include <ctype.h>
#include <stdio.h>
#include <unistd.h>

/* ---- strings ---- */
static clade_status intern_trimmed(char *text, const char **out) {
  while (isspace((unsigned char)*text)) text++;
  size_t length = strlen(text);
  while (length && isspace((unsigned char)text[length - 1])) length--;
  text[length] = '\0';
  return clade__intern(text, out);
}

/* ---- queries ---- */
clade_status clade__platform_text(cl_platform_id platform, cl_platform_info what, const char **out) {
  size_t bytes = 0;
  CLADE__CALL(NULL, clGetPlatformInfo, platform, what, 0, NULL, &bytes);
  char *text = clade__new(bytes + 1, 1);
  if (!text) return CLADE_NO_MEMORY;
  cl_int e = clade__cl.clGetPlatformInfo(platform, what, bytes, text, NULL);
  clade_status status = e ? clade__cl_error(NULL, "clGetPlatformInfo", e) : intern_trimmed(text, out);
  clade__free(text);
  return status;
}

static clade_status device_text(cl_device_id id, cl_device_info what, const char **out) {
  size_t bytes = 0;
  CLADE__CALL(NULL, clGetDeviceInfo, id, what, 0, NULL, &bytes);
  char *text = clade__new(bytes + 1, 1);
  if (!text) return CLADE_NO_MEMORY;
  cl_int e = clade__cl.clGetDeviceInfo(id, what, bytes, text, NULL);
  clade_status status = e ? clade__cl_error(NULL, "clGetDeviceInfo", e) : intern_trimmed(text, out);
  clade__free(text);
  return status;
}

/* Queries an integer of any width. */
static clade_status device_number(cl_device_id id, cl_device_info what, uint64_t *out) {
  unsigned char raw[8] = {0};
  size_t bytes = 0;
  CLADE__CALL(NULL, clGetDeviceInfo, id, what, sizeof raw, raw, &bytes);
  uint32_t narrow;
  if (bytes == sizeof narrow) {
    memcpy(&narrow, raw, sizeof narrow);
    *out = narrow;
  } else {
    memcpy(out, raw, sizeof *out);
  }
  return CLADE_OK;
}

static const struct {
  cl_device_info what;
  size_t at;
} text_queries[] = {
    {CL_DEVICE_NAME, offsetof(clade_device_info, name)},
    {CL_DEVICE_VENDOR, offsetof(clade_device_info, vendor)},
    {CL_DEVICE_VERSION, offsetof(clade_device_info, version)},
    {CL_DRIVER_VERSION, offsetof(clade_device_info, driver)},
};
static const struct {
  cl_device_info what;
  size_t at, bytes;
} number_queries[] = {
#define NUMBER(what, member) \
  { CL_DEVICE_##what, offsetof(clade_device_info, member), sizeof(((clade_device_info *)0)->member) }
    NUMBER(GLOBAL_MEM_SIZE, global_bytes),         NUMBER(MAX_MEM_ALLOC_SIZE, max_buffer_bytes),
    NUMBER(LOCAL_MEM_SIZE, local_bytes),           NUMBER(MAX_CONSTANT_BUFFER_SIZE, constant_bytes),
    NUMBER(GLOBAL_MEM_CACHE_SIZE, cache_bytes),    NUMBER(GLOBAL_MEM_CACHELINE_SIZE, cache_line),
    NUMBER(MAX_COMPUTE_UNITS, compute_units),      NUMBER(MAX_CLOCK_FREQUENCY, clock_mhz),
    NUMBER(NATIVE_VECTOR_WIDTH_FLOAT, vector_f32), NUMBER(MEM_BASE_ADDR_ALIGN, alignment),
    NUMBER(MAX_WORK_GROUP_SIZE, max_group),
};
static const struct {
  cl_device_info what;
  size_t at;
} bool_queries[] = {
    {CL_DEVICE_COMPILER_AVAILABLE, offsetof(clade_device_info, compiler)},
    {CL_DEVICE_IMAGE_SUPPORT, offsetof(clade_device_info, images)},
    {CL_DEVICE_HOST_UNIFIED_MEMORY, offsetof(clade_device_info, unified_memory)},
    {CL_DEVICE_DOUBLE_FP_CONFIG, offsetof(clade_device_info, fp64)},
};

static clade_status ask_all(cl_device_id id, clade_device_info *info) {
  for (size_t i = 0; i < CLADE_COUNT(text_queries); i++) {
    const char *text;
    CLADE_TRY(device_text(id, text_queries[i].what, &text));
    memcpy((char *)info + text_queries[i].at, &text, sizeof text);
  }
  for (size_t i = 0; i < CLADE_COUNT(number_queries); i++) {
    uint64_t value = 0;
    CLADE_TRY(device_number(id, number_queries[i].what, &value));
    uint32_t narrow = (uint32_t)CLADE_MIN(value, UINT32_MAX);
    char *at = (char *)info + number_queries[i].at;
    if (number_queries[i].bytes == sizeof narrow)
      memcpy(at, &narrow, sizeof narrow);
    else
      memcpy(at, &value, sizeof value);
  }
  for (size_t i = 0; i < CLADE_COUNT(bool_queries); i++) {
    uint64_t value = 0;
    CLADE_TRY(device_number(id, bool_queries[i].what, &value));
    bool yes = value != 0;
    memcpy((char *)info + bool_queries[i].at, &yes, sizeof yes);
  }
  return CLADE_OK;
}

static clade_status ask_item_sizes(cl_device_id id, uint64_t out[3]) {
  size_t size[16] = {0};
  CLADE__CALL(NULL, clGetDeviceInfo, id, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof size, size, NULL);
  for (int i = 0; i < 3; i++) out[i] = size[i];
  return CLADE_OK;
}

/* Devices that report several classes are emulated on a CPU. */
static clade_status ask_class(cl_device_id id, clade_device_class *out) {
  uint64_t type = 0;
  CLADE_TRY(device_number(id, CL_DEVICE_TYPE, &type));
  *out = type & CL_DEVICE_TYPE_CPU ? CLADE_CPU : type & CL_DEVICE_TYPE_GPU ? CLADE_GPU : CLADE_ACCEL;
  return CLADE_OK;
}

/* Properties from vendor extensions, all optional. */
static void ask_maker(cl_device_id id, const char *extensions, clade_device_info *info) {
  enum { CAPABILITY_MAJOR = 0x4000, CAPABILITY_MINOR, WARP = 0x4003, WAVEFRONT = 0x4043 };
  uint64_t major = 0, minor = 0, width = 0;
  if (strstr(extensions, "cl_nv_device_attribute_query")) {
    if (device_number(id, CAPABILITY_MAJOR, &major) == CLADE_OK &&
        device_number(id, CAPABILITY_MINOR, &minor) == CLADE_OK)
      info->compute_capability = (uint32_t)(10 * major + minor);
    if (device_number(id, WARP, &width) == CLADE_OK) info->subgroup = (uint32_t)width;
  }
  if (strstr(extensions, "cl_amd_device_attribute_query") && device_number(id, WAVEFRONT, &width) == CLADE_OK)
    info->subgroup = (uint32_t)width;
}

static clade_status ask_rest(cl_device_id id, clade__facts *facts) {
  clade_device_info *info = &facts->info;
  const char *extensions;
  uint64_t properties = 0;
  CLADE_TRY(device_text(id, CL_DEVICE_EXTENSIONS, &extensions));
  CLADE_TRY(device_number(id, CL_DEVICE_QUEUE_PROPERTIES, &properties));
  ask_maker(id, extensions, info);
  info->local_static_bytes = info->local_bytes;
  info->fp16 = strstr(extensions, "cl_khr_fp16") != NULL;
  info->out_of_order = properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
  info->alignment = CLADE_MAX(info->alignment / 8, 64u); /* reported in bits */
  return CLADE_OK;
}

/* CPU implementations report arbitrary values for global memory, so use the host's memory instead. */
static uint64_t default_budget(const clade_device_info *info) {
  uint64_t host = clade__host_memory() / 4 * 3, own = info->global_bytes / 16 * 15;
  if (info->device_class == CLADE_CPU) return host;
  return info->unified_memory ? CLADE_MIN(own, host) : own;
}

/* OpenCL reports one cache level; tile sizes depend on L1 and L2, which the host reports. */
static void ask_host(clade_device_info *info) {
#ifdef _SC_LEVEL1_DCACHE_SIZE
  if (info->device_class != CLADE_CPU) return;
  info->l1_bytes = (uint64_t)CLADE_MAX(sysconf(_SC_LEVEL1_DCACHE_SIZE), 0L);
  info->l2_bytes = (uint64_t)CLADE_MAX(sysconf(_SC_LEVEL2_CACHE_SIZE), 0L);
#else
  (void)info;
#endif
}

/* Clade needs OpenCL 1.2. FPGA boards report 1.0 but provide the functions of 1.2. */
static clade_status check_version(const clade_device_info *info) {
  int major = 0, minor = 0;
  if (info->device_class == CLADE_ACCEL) return CLADE_OK;
  if (sscanf(info->version, "OpenCL %d.%d", &major, &minor) == 2 && (major > 1 || (major == 1 && minor >= 2)))
    return CLADE_OK;
  return CLADE_FAIL(UNSUPPORTED, "%s: version \"%s\"; OpenCL 1.2 is needed", info->name, info->version);
}

/* From this L2 size on, the last-level cache counts as no faster than DRAM (quirk FAR_CACHE). */
enum { LARGE_SECOND = 1 << 20 };

clade_status clade__describe(cl_platform_id platform, cl_device_id id, clade__facts *facts) {
  clade_device_info *info = &facts->info;
  memset(facts, 0, sizeof *facts);
  info->size = sizeof *info;
  info->id = "";
  CLADE_TRY(clade__platform_text(platform, CL_PLATFORM_NAME, &info->platform));
  CLADE_TRY(clade__platform_text(platform, CL_PLATFORM_VERSION, &info->platform_version));
  CLADE_TRY(ask_class(id, &info->device_class));
  CLADE_TRY(ask_all(id, info));
  facts->label = info->name;
  CLADE_TRY(ask_item_sizes(id, info->max_item));
  CLADE_TRY(ask_rest(id, facts));
  CLADE_TRY(check_version(info));
  ask_host(info);
  clade__quirks_apply(facts);
  info->budget_bytes = default_budget(info);
  info->software = facts->quirks >> CLADE__QUIRK_SOFTWARE & 1u;
  info->max_passes = facts->quirks >> CLADE__QUIRK_PASS_LIMIT & 1u ? CLADE__PASS_LIMIT : 0;
  info->persistent = facts->quirks >> CLADE__QUIRK_SLOW_WAKE & 1u;
  info->far_cache = (facts->quirks >> CLADE__QUIRK_FAR_CACHE & 1u) && info->l2_bytes >= LARGE_SECOND;
  info->sources = info->compiler;
  info->binaries = !(facts->quirks >> CLADE__QUIRK_NO_BINARY & 1u);
  return clade__units_name(info);
}
