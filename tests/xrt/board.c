/* A layer over the Xilinx runtime in no-hardware mode, whose device has no name and no memory: reports a board's
 * name and memory, so that Clade accepts the device. Counts the programs that the runtime refuses. */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>
#include <string.h>

static const cl_icd_dispatch *next;
static cl_icd_dispatch mine;

static cl_int tell(const void *value, size_t bytes, size_t room, void *out, size_t *told) {
  if (out && room < bytes) return CL_INVALID_VALUE;
  if (out) memcpy(out, value, bytes);
  if (told) *told = bytes;
  return CL_SUCCESS;
}

static cl_int CL_API_CALL get_device_info(cl_device_id of, cl_device_info what, size_t room, void *out, size_t *told) {
  static const char name[] = "xilinx_u250_gen3x16_xdma_4_1_202210_1"; /* KIT_VBNV */
  static const cl_ulong memory = 1 << 28;
  if (what == CL_DEVICE_NAME) return tell(name, sizeof name, room, out, told);
  if (what == CL_DEVICE_GLOBAL_MEM_SIZE) return tell(&memory, sizeof memory, room, out, told);
  return next->clGetDeviceInfo(of, what, room, out, told);
}

static int refusals;
__attribute__((visibility("default"))) int board_refusals(void) { return refusals; }

static cl_program CL_API_CALL create_program(cl_context context, cl_uint n, const cl_device_id *devices,
                                             const size_t *bytes, const unsigned char **binaries, cl_int *states,
                                             cl_int *error) {
  cl_int e = CL_SUCCESS;
  cl_program program = next->clCreateProgramWithBinary(context, n, devices, bytes, binaries, states, &e);
  refusals += e != CL_SUCCESS;
  if (error) *error = e;
  return program;
}

__attribute__((visibility("default"))) cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t room, void *out,
                                                                         size_t *told) {
  static const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
  static const char name[] = "a board's name and memory";
  if (what == CL_LAYER_NAME) return tell(name, sizeof name, room, out, told);
  return what == CL_LAYER_API_VERSION ? tell(&version, sizeof version, room, out, told) : CL_INVALID_VALUE;
}

__attribute__((visibility("default"))) cl_int CL_API_CALL clInitLayer(cl_uint n, const cl_icd_dispatch *target,
                                                                      cl_uint *entries, const cl_icd_dispatch **out) {
  if (!target || !entries || !out || n < sizeof mine / sizeof(void *)) return CL_INVALID_VALUE;
  next = target;
  mine = *target;
  mine.clGetDeviceInfo = get_device_info;
  mine.clCreateProgramWithBinary = create_program;
  *out = &mine;
  *entries = sizeof mine / sizeof(void *);
  return CL_SUCCESS;
}
