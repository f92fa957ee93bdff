/* Performance model of FPGAs: cycles, bytes and a range of seconds for products, convolutions and streams, on a device
 * described by a file. docs/fpga.md states the formulas and the file's keys. Nothing is executed. */
#ifndef CLADE_FPGA_MODEL_CYCLES_H
#define CLADE_FPGA_MODEL_CYCLES_H

#include "bundle/bundle.h"

typedef enum cycles_kind {
  CYCLES_CLADE, /* fpga/array.cl and fpga/eltwise.cl */
  CYCLES_GRID,  /* other designs, with tiles of results on the chip */
  CYCLES_ARRAY  /* fpga/rtl */
} cycles_kind;
typedef enum cycles_edges { CYCLES_WHOLE, CYCLES_CUT } cycles_edges; /* time of edge tiles: as of others, or less */
typedef enum cycles_along { CYCLES_K, CYCLES_CHANNELS } cycles_along; /* axis of a step's `depth` elements */

typedef struct cycles_device {
  uint64_t format;
  const char *name;
  int kind, edges, along;
  clade__figure fmax_mhz;
  const char *evidence;                 /* a manifest's evidence for its kernel; NULL: a resource file */
  uint64_t rows, columns, depth;        /* multiply-adds per step */
  uint64_t ii;                          /* cycles per step */
  uint64_t tile_rows, tile_columns;     /* not for CYCLES_ARRAY */
  uint64_t tile_cycles, line_bytes;     /* CYCLES_GRID: overhead cycles per tile; line buffer */
  uint64_t slice, latency, loop_cycles; /* CYCLES_CLADE: DEPTH, LATENCY, cost of starting a loop */
  uint64_t log_depth;                   /* CYCLES_ARRAY */
  uint64_t stream_bytes;                /* of a stream, per cycle */
  uint64_t element_bytes, result_bytes; /* of operands, of results */
  uint64_t dsps;                        /* used by the design; 0: unknown */
  double dsps_per_mac, bandwidth_gbs, link_gbs; /* link 0: unknown, and transfers not counted */
  double programming_seconds, launch_seconds;   /* 0: not counted */
  clade__bundle_define *from;                   /* source of each number */
  size_t n_from;
  clade__arena arena; /* holds the texts */
} cycles_device;

/* Reads a bundle, a manifest or a resource file. Must be freed even after a failure. */
clade_status cycles_device_read(const char *path, cycles_device *out);
clade_status cycles_device_parse(const char *where, const void *json, size_t bytes, cycles_device *out);
void cycles_device_free(cycles_device *device);

const char *cycles_evidence(const cycles_device *device); /* "modeled(routed)", "modeled(report)" */
double cycles_peak_gflops(const cycles_device *device);

typedef enum cycles_work_kind { CYCLES_GEMM, CYCLES_CONV, CYCLES_STREAM } cycles_work_kind;
/* One launch. Sizes are below 2^31. */
typedef struct cycles_work {
  cycles_work_kind kind;
  union {
    struct {
      int64_t batch, m, n, k;
    } gemm;
    struct {
      int64_t batch, groups, channels, height, width, filters, out_height, out_width, kernel_height, kernel_width,
          stride_height, stride_width, pad_top, pad_left;
    } conv;
    struct { /* anything that reads and writes its elements once */
      int64_t bytes;
    } stream;
  };
} cycles_work;

typedef struct cycles_call { /* consecutive works that make up one call */
  const cycles_work *works;
  size_t n;
  int64_t moved_bytes; /* over the link, in and out */
  double programmings; /* of the device per call: 1 / calls if programmed once */
} cycles_call;

typedef enum cycles_bound { CYCLES_COMPUTE, CYCLES_MEMORY, CYCLES_TRANSFER, CYCLES_REPROGRAMMING } cycles_bound;
extern const char *const cycles_bound_names[];

typedef struct cycles_estimate {
  int64_t cycles, bytes;                  /* of the processing elements; of memory */
  double flops;                           /* of products and convolutions */
  double compute_seconds, memory_seconds; /* of compute-bound and memory-bound works, at best */
  double transfer_seconds, launch_seconds, programming_seconds;
  double low, high; /* seconds per call, at the highest and lowest efficiency */
  cycles_bound bound;
} cycles_estimate;

#define CYCLES_EFFICIENCY_MOST  0.99
#define CYCLES_EFFICIENCY_LEAST 0.55

/* BAD_SHAPE, UNSUPPORTED or OVERFLOW if the device does not support a work or it cannot be counted. */
clade_status cycles_of(const cycles_device *device, const cycles_call *call, cycles_estimate *out);

#endif
