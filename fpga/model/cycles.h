/* How long an FPGA would take: cycles, bytes and a range of seconds for products, convolutions and streams, on a device
 * that a file describes. docs/fpga.md states the formulas and the keys of that file. Nothing runs here. */
#ifndef CLADE_FPGA_MODEL_CYCLES_H
#define CLADE_FPGA_MODEL_CYCLES_H

#include "bundle/bundle.h"

typedef enum cycles_kind {
  CYCLES_CLADE, /* fpga/array.cl and fpga/eltwise.cl */
  CYCLES_GRID,  /* others' arrays, with tiles of results on the chip */
  CYCLES_ARRAY  /* fpga/rtl */
} cycles_kind;
typedef enum cycles_edges { CYCLES_WHOLE, CYCLES_CUT } cycles_edges; /* a tile at the edge takes as long as any; less */
typedef enum cycles_along { CYCLES_K, CYCLES_CHANNELS } cycles_along; /* what `depth` elements of a step lie along */

typedef struct cycles_device {
  uint64_t format;
  const char *name;
  int kind, edges, along;
  clade__figure fmax_mhz;
  const char *evidence;                 /* what a manifest says of its kernel; NULL: it is a resource file */
  uint64_t rows, columns, depth;        /* multiply-adds of a step */
  uint64_t ii;                          /* cycles of a step */
  uint64_t tile_rows, tile_columns;     /* not of an array */
  uint64_t tile_cycles, line_bytes;     /* of a grid: cycles without steps, lines of an image that are kept */
  uint64_t slice, latency, loop_cycles; /* of CYCLES_CLADE: DEPTH and LATENCY; what each beginning of a loop costs */
  uint64_t log_depth;                   /* of an array */
  uint64_t stream_bytes;                /* of a stream, each cycle */
  uint64_t element_bytes, result_bytes; /* of operands, of results */
  uint64_t dsps;                        /* that the design uses; 0: not told */
  double dsps_per_mac, bandwidth_gbs, link_gbs; /* link 0: not told, and transfers not counted */
  double programming_seconds, launch_seconds;   /* 0: not counted */
  clade__bundle_define *from;                   /* where each number was read */
  size_t n_from;
  clade__arena arena; /* of the texts */
} cycles_device;

/* Of a bundle, a manifest or a resource file; free it also after a failure. */
clade_status cycles_device_read(const char *path, cycles_device *out);
clade_status cycles_device_parse(const char *where, const void *json, size_t bytes, cycles_device *out);
void cycles_device_free(cycles_device *device);

const char *cycles_evidence(const cycles_device *device); /* "modeled(routed)", "modeled(report)" */
double cycles_peak_gflops(const cycles_device *device);

typedef enum cycles_work_kind { CYCLES_GEMM, CYCLES_CONV, CYCLES_STREAM } cycles_work_kind;
/* Each is one launch. Sizes are below 2^31. */
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
    struct { /* anything else that reads and writes its elements once */
      int64_t bytes;
    } stream;
  };
} cycles_work;

typedef struct cycles_call { /* works one after another, as often as it is called */
  const cycles_work *works;
  size_t n;
  int64_t moved_bytes; /* over the link, in and out */
  double programmings; /* of the device: 1 / calls where it is programmed once */
} cycles_call;

typedef enum cycles_bound { CYCLES_COMPUTE, CYCLES_MEMORY, CYCLES_TRANSFER, CYCLES_REPROGRAMMING } cycles_bound;
extern const char *const cycles_bound_names[];

typedef struct cycles_estimate {
  int64_t cycles, bytes;                  /* of the processing elements; of the memory */
  double flops;                           /* that products and convolutions need */
  double compute_seconds, memory_seconds; /* of works that wait for the one or the other, at best */
  double transfer_seconds, launch_seconds, programming_seconds;
  double low, high; /* seconds of a call, at the greatest and the least efficiency */
  cycles_bound bound;
} cycles_estimate;

#define CYCLES_EFFICIENCY_MOST  0.99
#define CYCLES_EFFICIENCY_LEAST 0.55

/* BAD_SHAPE, UNSUPPORTED or OVERFLOW for a work that the device cannot do or that cannot be counted. */
clade_status cycles_of(const cycles_device *device, const cycles_call *call, cycles_estimate *out);

#endif
