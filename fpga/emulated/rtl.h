/* The accelerator whose array is the one of fpga/rtl: what a launch of array_i8 is given, and what computes it. */
#ifndef EMULATED_RTL_H
#define EMULATED_RTL_H

#include "emulated.h"
#include "model/array.h"

/* The arguments, under the names of fpga/interface.def. A value is an array of its elements. */
typedef int32_t rtl_int[1], rtl_int4[4], rtl_int8[8];
typedef float rtl_float[1], rtl_float8[8], rtl_float16[16];
#define TENSOR(type, name, access) \
  cl_mem name;                     \
  rtl_int name##_at;
#define VALUE(type, name) rtl_##type name;
#define KERNEL(name, ...) \
  struct rtl_##name {     \
    __VA_ARGS__           \
  };
#include "interface.def"
#undef TENSOR
#undef VALUE

enum { RTL_A, RTL_S, RTL_Y, RTL_E0, RTL_E1, RTL_E2, RTL_TENSORS };

/* A launch as the queue keeps it: of each tensor, which of the memories it lies in, and how many bytes behind that
 * one's beginning. One without memory lies in none, and is not read. */
typedef struct rtl_launch {
  struct rtl_array_i8 given;
  struct {
    unsigned memory;
    size_t offset;
  } tensor[RTL_TENSORS];
  unsigned memories;
  void *memory[RTL_TENSORS];
} rtl_launch;

/* CL_SUCCESS, or why the array does not compute it. */
cl_int rtl_accepts(const rtl_launch *launch);
/* Computes it, and tells the cycles (docs/fpga.md). One launch after another, whoever calls. */
void CL_CALLBACK rtl_compute(void *launch);

/* ---- the accelerator's buffers (rtl_memory.c) ---- */
size_t rtl_age(cl_mem buffer); /* more than of those that were created before it */
void rtl_memories(cl_icd_dispatch *mine);

#endif
