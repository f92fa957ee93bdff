/* Devices: which there are, their properties, and the choice of one. */
#ifndef CLADE_DEVICE_H
#define CLADE_DEVICE_H

#include <clade/init.h>
#include <clade/types.h>

CLADE_BEGIN_DECLS

/* A device. Reference-counted; usable from every thread. */
typedef struct clade_device clade_device;

/* ---- properties ---- */
/* The class of a device: CPU, GPU, or accelerator (FPGA). */
typedef enum clade_device_class { CLADE_CPU = 1, CLADE_GPU, CLADE_ACCEL } clade_device_class;
CLADE_API const char *clade_device_class_name(clade_device_class c); /* the class in lower case: "cpu" */

/* Matrix units: hardware that multiplies matrices faster than vector instructions do. Kernels use them through inline
 * assembly. */
typedef enum clade_unit {
  CLADE_UNIT_VNNI,        /* dot products of four bytes: AVX-512 VNNI */
  CLADE_UNIT_AVX512_BF16, /* dot products of two bf16 */
  CLADE_UNIT_AMX_INT8,    /* tiles of bytes */
  CLADE_UNIT_AMX_BF16,    /* tiles of bf16 */
  CLADE_UNIT_PTX,         /* tiles of f16, bf16, tf32 and bytes: NVIDIA GPUs, compute capability 8.0 or higher */
  CLADE_UNIT_WGMMA,       /* larger tiles of f16, bf16 and tf32 in local memory: compute capability 9.0 only */
  CLADE_UNIT_PTX_F8,      /* tiles of f8: NVIDIA GPUs, compute capability 8.9 or higher */
  CLADE_UNIT_WGMMA_BYTES, /* larger tiles of bytes and f8 in local memory: compute capability 9.0 only */
  CLADE_UNITS             /* number of units */
} clade_unit;
enum { CLADE_MAX_UNITS = 8 }; /* units that clade_device_info has room for */

/* The state of a matrix unit of a device. */
typedef struct clade_unit_info {
  const char *name;     /* "vnni"; NULL: devices of this class do not have the unit */
  bool used;            /* kernels use the unit */
  const char *reason;   /* why not: "vnni: the processor does not have it" */
  const void *reserved; /* NULL; keeps the size of clade_device_info */
} clade_unit_info;

/* The systolic array of a bundle's program. The times of its kernels are estimated from these numbers. 0: the manifest
 * does not say. */
typedef struct clade_array_info {
  uint32_t rows, columns, tile_rows, tile_columns; /* of the array, and of the tile of sums that it keeps */
  double mhz, gbs;                                 /* clock frequency; memory bandwidth in GB/s */
  double reserved[4];                              /* zero; keeps the size of clade_device_info */
} clade_array_info;

enum { CLADE_PEAKS = 32 }; /* element types that clade_device_info has room for */

/* The properties of a device. Most are reported by the driver; `software`, `max_passes`, `persistent` and `far_cache`
 * come from the table of quirks. Texts live as long as the process. */
typedef struct clade_device_info {
  size_t size;
  const char *id; /* "0", "1", …: position in the list, and a spec that matches this device only */
  /* Name, vendor, OpenCL version and driver version of the device; name and version of its platform. */
  const char *name, *vendor, *version, *driver, *platform, *platform_version;
  clade_device_class device_class; /* CPU, GPU or accelerator */
  /* Bytes of global memory, of the largest buffer, of local memory per work-group, of the largest constant buffer, and
   * of the cache of global memory. */
  uint64_t global_bytes, max_buffer_bytes, local_bytes, constant_bytes, cache_bytes;
  uint64_t budget_bytes; /* limit of Clade's allocations (clade_device_set_budget) */
  /* Bytes of a cache line, compute units, clock frequency, floats per vector, and alignment of buffers in bytes. */
  uint32_t cache_line, compute_units, clock_mhz, vector_f32, alignment;
  uint64_t max_group, max_item[3]; /* largest work-group, in total and per dimension */
  /* A compiler is available; half and double are supported; images are supported; host and device share memory; queues
   * may run out of order; a CPU imitates the device. */
  bool compiler, fp16, fp64, images, unified_memory, out_of_order, software;
  bool sources, binaries; /* programs are accepted as source, as binaries */
  /* Largest number of loop iterations of a work-item, over all loops. The driver silently leaves out further ones.
   * 0: no limit. */
  uint32_t max_passes;
  uint64_t l1_bytes, l2_bytes;           /* data caches of a core, for CPUs; 0: unknown */
  clade_unit_info unit[CLADE_MAX_UNITS]; /* indexed by clade_unit; filled by clade_device_ask_units */
  /* Names of the kernels in the device's bundles, ending in NULL (docs/fpga.md). NULL: no bundle is loaded, because
   * programs are compiled or none has been needed yet. Valid while the device is open. */
  const char *const *kernels;
  const uint32_t *programs; /* index of the bundle of each kernel */
  const char *bundles;      /* digest of the bundles' contents; NULL: none is loaded */
  clade_array_info array;   /* of the first bundle that describes an array */
  /* The least evidence that the manifests claim for their kernels: "none", "simulated" or "hardware". NULL: no bundle
   * is loaded. */
  const char *evidence;
  bool persistent; /* launches are expensive: consecutive steps become one persistent kernel */
  bool far_cache;  /* the last-level cache is no faster than DRAM */
  /* The fields below are measured once per device and driver, and rounded to powers of sqrt(2). 0: unknown, or not
   * measured yet (clade_device_ask_profile). */
  double bandwidth_gbps; /* GB/s of a copy larger than the caches, reads and writes counted */
  /* GFLOP/s of vector multiply-adds (two operations each), indexed by clade_dtype. i8: multiply-adds of 32-bit
   * integers, which are the accumulators of its products. bf16: 0, because it is computed in f32. */
  double peak_gflops[CLADE_PEAKS];
  double launch_us, wait_us;   /* microseconds per launch in a full queue; per launch that the host waits for */
  uint32_t subgroup;           /* work-items of a sub-group, as the device reports; 0: unknown */
  uint32_t compute_capability; /* of NVIDIA GPUs: 90 for 9.0; 0: not reported */
  /* Largest static __local array of a kernel that runs, which may exceed local_bytes. 0: unknown. */
  uint64_t local_static_bytes;
} clade_device_info;

/* A row of the table of quirks that applies to a device. */
typedef struct clade_quirk_info {
  const char *flag, *reason, *link; /* name; the observed fault or trait; where it is documented */
} clade_quirk_info;

/* ---- list ---- */
/* Counts the devices of all platforms. Their order is stable. A platform that fails is left out; `clade doctor` says
 * why. */
CLADE_API clade_status clade_device_count(int *count);
/* Describes a device by its index in the list. The caller sets info->size. */
CLADE_API clade_status clade_device_describe(int index, clade_device_info *info);
/* Points *quirks to the quirks that apply to a device, and returns their number. */
CLADE_API int clade_device_quirks(int index, const clade_quirk_info **quirks);

/* ---- opening ---- */
/* Opens the device that a spec names: [text|index][:cpu|gpu|accel][:n] (docs/devices.md). No match and several matches
 * are errors that list the candidates.
 *
 * NULL stands for CLADE_DEVICE. If that is unset, the choice is the first GPU that computes a probe correctly, then
 * PoCL, then any CPU. Accelerators and GPUs that a CPU imitates must be named. */
CLADE_API clade_status clade_device_find(const char *spec, clade_device **out);
/* Splits a CPU into `parts` devices with an equal share of its compute units each. `out` has room for `parts`. */
CLADE_API clade_status clade_device_split(clade_device *device, int parts, clade_device **out);

/* Adds and drops a reference; NULL may be released. */
CLADE_API clade_device *clade_device_retain(clade_device *device);
CLADE_API void clade_device_release(clade_device *device);

/* ---- of an open device ---- */
/* Describes the device. The caller sets info->size. */
CLADE_API clade_status clade_device_get_info(const clade_device *device, clade_device_info *info);
/* Tests each matrix unit, once. Compiling a graph calls this function if the graph has a product that may use a unit.
 * Afterwards clade_device_get_info reports the results. A unit is used if
 *
 * - the processor has it;
 * - the operating system permits it (a permission for AMX changes the process; CLADE_AMX=off leaves AMX out);
 * - a probe kernel computes correct results on the device. Compilers that Clade does not know yet run the probe in a
 *   process of its own (clade-probe, docs/porting.md). */
CLADE_API clade_status clade_device_ask_units(clade_device *device);
/* Modes of clade_device_ask_profile. */
typedef enum clade_profile_mode {
  CLADE_PROFILE_KEPT = 1, /* load the stored profile; never measure */
  CLADE_PROFILE_MISSING,  /* measure if none is stored, as a first compilation does */
  CLADE_PROFILE_AGAIN     /* measure now, and replace the stored profile for all later funcs */
} clade_profile_mode;
/* Obtains the speeds of the device, which clade_device_get_info reports afterwards. A profile is stored with the tuning
 * records (docs/tuning.md). Without a program cache it is reported but not used by funcs. *kept, which may be NULL,
 * tells whether a profile is stored. */
CLADE_API clade_status clade_device_ask_profile(clade_device *device, clade_profile_mode mode, bool *kept);
/* CLADE_OK; or CLADE_LOST or CLADE_FORKED, with the message of the first error. */
CLADE_API clade_status clade_device_status(const clade_device *device);

/* ---- memory ---- */
/* Bytes of device memory that Clade holds. */
typedef struct clade_memory_use {
  size_t size;
  uint64_t used, peak, allowed, pooled; /* now; at most so far; the budget; part of `used` that is free for reuse */
} clade_memory_use;
/* Reports the memory in use. The caller sets use->size. */
CLADE_API clade_status clade_device_memory(const clade_device *device, clade_memory_use *use);
/* Limits further allocations on the device; existing ones stay. 0 restores the default. */
CLADE_API clade_status clade_device_set_budget(clade_device *device, uint64_t bytes);

CLADE_END_DECLS
#endif
