/* Cycles of fpga/array.cl. */
#ifndef CLADE_FPGA_MODEL_CYCLES_KERNEL_H
#define CLADE_FPGA_MODEL_CYCLES_KERNEL_H

#include "model/cycles.h"

/* One direction of the source's images: pixel = j * step + tap - pad. */
typedef struct kernel_axis {
  int64_t size, results, taps, step, tap_step, pad;
} kernel_axis;

/* The kernel's arguments: `batches` matrices of rows x (y.results x.results), with inner dimensions outer x y.taps x
 * x.taps. */
typedef struct kernel_work {
  int64_t batches, rows, outer;
  kernel_axis y, x;
} kernel_work;

typedef struct kernel_cost {
  double cycles, bytes;
} kernel_cost;

/* OVERFLOW if there are too many tiles and slices to walk. */
clade_status cycles_kernel(const cycles_device *device, const kernel_work *work, kernel_cost *out);

#endif
