/* Kernels for measuring devices, shared by the library and the benchmarks. */
#include "program/measure.h"

/* Twelve independent chains hide the FMA latency of all known cores and fit their registers. */
const char clade__measure_source[] =
    "#ifdef WANT_measure_fma\n"
    "#if FUSED && defined(FP_FAST_FMAF)\n"
    "#define STEP(c) c = fma(c, a, b)\n"
    "#elif FUSED\n"
    "#define STEP(c) c = mad(c, a, b)\n"
    "#else\n"
    "#define STEP(c) c = c * a + b\n"
    "#endif\n"
    "KERNEL(measure_fma)(ARG(const float, x), ARG(float, y), const float scale, const float add, const int rounds) {\n"
    "  if (rounds == 0) return;\n"
    "  USE(const float, x);\n"
    "  USE(float, y);\n"
    "  const index_t at = (index_t)get_global_id(0) * FLOATS;\n"
    "  const V a = (V)(scale), b = (V)(add), first = *(__global const V *)(x + at);\n"
    "  V c0 = first, c1 = first + 1, c2 = first + 2, c3 = first + 3, c4 = first + 4, c5 = first + 5;\n"
    "  V c6 = first + 6, c7 = first + 7, c8 = first + 8, c9 = first + 9, c10 = first + 10, c11 = first + 11;\n"
    "  for (int i = 0; i < rounds; i++) {\n"
    "    STEP(c0); STEP(c1); STEP(c2); STEP(c3); STEP(c4); STEP(c5);\n"
    "    STEP(c6); STEP(c7); STEP(c8); STEP(c9); STEP(c10); STEP(c11);\n"
    "  }\n"
    "  *(__global V *)(y + at) = ((c0 + c1) + (c2 + c3)) + ((c4 + c5) + (c6 + c7)) + ((c8 + c9) + (c10 + c11));\n"
    "}\n"
    "#undef STEP\n"
    "#endif\n"
    "#ifdef WANT_measure_copy\n"
    "#if STREAM && defined(__has_builtin)\n"
    "#if __has_builtin(__builtin_nontemporal_store)\n"
    "#define PUT(v, p) __builtin_nontemporal_store(v, (__global float16 *)(p))\n"
    "#endif\n"
    "#endif\n"
    "#ifndef PUT\n"
    "#define PUT(v, p) vstore16(v, 0, p)\n"
    "#endif\n"
    "KERNEL(measure_copy)(ARG(const float, x), ARG(float, y), const index_t n, const index_t each) {\n"
    "  USE(const float, x);\n"
    "  USE(float, y);\n"
    "  const index_t begin = (index_t)get_global_id(0) * each * 16, end = min(begin + each * 16, n * 16);\n"
    "  for (index_t turn = 0; turn < end - begin; turn += 16) {\n"
    "    const index_t i = begin + (index_t)clade_in_turn(turn, end - begin, TURNS);\n"
    "    PUT(vload16(0, x + i), y + i);\n"
    "  }\n"
    "}\n"
    "#undef PUT\n"
    "#endif\n";

static bool on_cpu(const clade_device_info *device) { return device->device_class == CLADE_CPU; }

int clade__measure_width(const clade_device_info *device) {
  int width = 1;
  if (on_cpu(device))
    while (width * 2 <= (int)CLADE_MIN(device->vector_f32, 16u)) width *= 2;
  return width == 2 ? 4 : width;
}

int64_t clade__measure_items(const clade_device_info *device) {
  int64_t units = CLADE_MAX(device->compute_units, 1u);
  return on_cpu(device) ? units * 4 : units * 32 * CLADE__MEASURE_GROUP;
}

int64_t clade__measure_share(const clade_device_info *device, int64_t vectors) {
  int64_t items = CLADE_MAX(device->compute_units, 1u) * CLADE__MEASURE_EACH;
  return on_cpu(device) ? (vectors + items - 1) / items : 1;
}
