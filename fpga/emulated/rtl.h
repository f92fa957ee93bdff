/* The accelerator that computes array_i8 by the simulated array of fpga/rtl: the arguments of a launch, and its
 * computation. */
#ifndef EMULATED_RTL_H
#define EMULATED_RTL_H

#include "emulated.h"
#include "model/array.h"

/* The arguments, with the names of fpga/interface.def. A value is an array of its elements. */
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

/* A launch in the queue: for each tensor, the index of its memory, and its offset in bytes. A tensor without memory has
 * index none and is not read. */
typedef struct rtl_launch {
  struct rtl_array_i8 given;
  struct {
    unsigned memory;
    size_t offset;
  } tensor[RTL_TENSORS];
  unsigned memories;
  void *memory[RTL_TENSORS];
} rtl_launch;

/* CL_SUCCESS, or the reason why the array cannot compute it. */
cl_int rtl_accepts(const rtl_launch *launch);
/* Computes a launch and reports its cycles (docs/fpga.md). Launches are serialized. */
void CL_CALLBACK rtl_compute(void *launch);

/* ---- the accelerator's buffers (rtl_memory.c) ---- */
size_t rtl_age(cl_mem buffer); /* greater than that of earlier buffers */
void rtl_memories(cl_icd_dispatch *mine);

#endif
