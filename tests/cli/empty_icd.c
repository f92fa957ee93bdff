/* An OpenCL implementation whose platform has no devices, like drivers installed without their hardware. */
#include <stdint.h>
#include <string.h>

#define PUBLIC __attribute__((visibility("default")))
enum { NOT_FOUND = -1, INVALID_VALUE = -30, NAME = 0x0902, EXTENSIONS = 0x0904, SUFFIX = 0x0920 };

typedef struct platform {
  void *const *dispatch; /* dispatch table of the ICD loader */
} platform;
static const platform only;

static const char *text_of(uint32_t what) {
  switch (what) {
  case NAME: return "Empty";
  case EXTENSIONS: return "cl_khr_icd";
  case SUFFIX: return "EMPTY";
  default: return "OpenCL 1.2";
  }
}
static int32_t get_info(platform *p, uint32_t what, size_t size, void *value, size_t *needed) {
  const char *text = text_of(what);
  (void)p;
  if (value && size <= strlen(text)) return INVALID_VALUE;
  if (value) memcpy(value, text, strlen(text) + 1);
  if (needed) *needed = strlen(text) + 1;
  return 0;
}
static int32_t get_devices(platform *p, uint64_t type, uint32_t n, void **devices, uint32_t *count) {
  (void)p, (void)type, (void)n, (void)devices;
  if (count) *count = 0;
  return NOT_FOUND;
}
static int32_t nothing(void) { return INVALID_VALUE; }

PUBLIC int32_t clIcdGetPlatformIDsKHR(uint32_t n, const platform **platforms, uint32_t *count);
PUBLIC int32_t clIcdGetPlatformIDsKHR(uint32_t n, const platform **platforms, uint32_t *count) {
  if (platforms && n) *platforms = &only;
  if (count) *count = 1;
  return 0;
}

PUBLIC void *clGetExtensionFunctionAddress(const char *name);
PUBLIC void *clGetExtensionFunctionAddress(const char *name) {
  return !strcmp(name, "clIcdGetPlatformIDsKHR") ? (void *)clIcdGetPlatformIDsKHR
         : !strcmp(name, "clGetPlatformInfo")    ? (void *)get_info
                                                 : NULL;
}

/* clGetPlatformIDs, clGetPlatformInfo and clGetDeviceIDs, followed by more than 180 entries. */
#define TEN(f)     f, f, f, f, f, f, f, f, f, f
#define HUNDRED(f) TEN(f), TEN(f), TEN(f), TEN(f), TEN(f), TEN(f), TEN(f), TEN(f), TEN(f), TEN(f)
static void *const table[] = {(void *)nothing, (void *)get_info, (void *)get_devices, HUNDRED((void *)nothing),
                              HUNDRED((void *)nothing)};
static const platform only = {table};
