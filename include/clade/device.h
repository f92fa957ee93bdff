/* Devices: what is there, what it can do, and how one is chosen. */
#ifndef CLADE_DEVICE_H
#define CLADE_DEVICE_H

#include <clade/init.h>
#include <clade/types.h>

CLADE_BEGIN_DECLS

typedef struct clade_device clade_device; /* counted; usable from every thread */

typedef enum clade_device_class { CLADE_CPU = 1, CLADE_GPU, CLADE_ACCEL } clade_device_class;
CLADE_API const char *clade_device_class_name(clade_device_class c); /* "cpu" */

/* What multiplies matrices faster than vectors do, in kernels that say so by inline assembly. */
typedef enum clade_unit {
  CLADE_UNIT_VNNI,        /* products of four bytes, summed: AVX-512 */
  CLADE_UNIT_AVX512_BF16, /* products of two bf16, summed */
  CLADE_UNIT_AMX_INT8,    /* tiles of bytes */
  CLADE_UNIT_AMX_BF16,    /* tiles of bf16 */
  CLADE_UNIT_PTX,         /* tiles of f16, bf16 and tf32: NVIDIA's GPUs from compute capability 8.0 on */
  CLADE_UNIT_WGMMA,       /* larger tiles of f16 and bf16, from local memory: compute capability 9.0 alone */
  CLADE_UNITS
} clade_unit;
enum { CLADE_MAX_UNITS = 8 };
typedef struct clade_unit_info {
  const char *name; /* "vnni"; NULL: devices of this class have none */
  bool used;
  const char *reason;   /* why not, its name before it: "vnni: the processor does not have it" */
  const void *reserved; /* NULL; clade_device_info holds this struct, so that its size stays */
} clade_unit_info;

/* The array that computes sums of products in a bundle's program, and what the program was built to reach: by these the
 * times of its kernels are estimated. 0: the manifest does not tell. */
typedef struct clade_array_info {
  uint32_t rows, columns, tile_rows, tile_columns;
  double mhz, gbs;    /* of the clock; of the memory, 10^9 bytes a second */
  double reserved[4]; /* zero; clade_device_info holds this struct, so that its size stays */
} clade_array_info;

enum { CLADE_PEAKS = 32 }; /* room for more element types than there are */

/* What a device said or showed; software, max_passes, persistent and far_cache come from the quirk table. Texts live as
 * long as the process. */
typedef struct clade_device_info {
  size_t size;
  const char *id; /* "0", "1", ...: position in the list, and a spec that always matches this device only */
  const char *name, *vendor, *version, *driver, *platform, *platform_version;
  clade_device_class device_class;
  uint64_t global_bytes, max_buffer_bytes, local_bytes, constant_bytes, cache_bytes;
  uint64_t budget_bytes;                                                /* what Clade allows itself */
  uint32_t cache_line, compute_units, clock_mhz, vector_f32, alignment; /* alignment of buffers, in bytes */
  uint64_t max_group, max_item[3];
  bool compiler, fp16, fp64, images, unified_memory, out_of_order, software; /* software: a CPU computes in its place */
  bool sources, binaries;                                                    /* the programs it takes */
  uint32_t max_passes;         /* through all loops of a work-item together, more are silently not made; 0: no limit */
  uint64_t l1_bytes, l2_bytes; /* data caches of a core, of CPU devices whose host tells; 0: unknown */
  clade_unit_info unit[CLADE_MAX_UNITS]; /* by clade_unit; see clade_device_ask_units */
  /* Names, ending in NULL, of the kernels of its bundle, where that was loaded (docs/fpga.md): as long as the device is
   * open. NULL: its programs are compiled, or nobody has asked for them yet. */
  const char *const *kernels;
  const uint32_t *programs; /* of each of them, which of the bundles has it, where there are several */
  const char *bundles;      /* a digest of what the bundles hold; NULL: none is loaded */
  clade_array_info array;   /* of the first that tells one */
  /* Where its manifests say that the kernels were seen to be right, of all kernels the least: "none", "simulated" or
   * "hardware". What a bundle says of itself; NULL as `kernels`. */
  const char *evidence;
  bool persistent; /* launches on it are dear: steps that follow each other become one */
  bool far_cache;  /* its last cache gives no more than memory does: as good as none beside large second ones */
  /* Measured once for a device and its driver, and rounded to powers of the square root of 2; 0: unknown, or not
   * measured yet (clade_device_ask_profile). */
  double bandwidth_gbps;           /* 10^9 bytes a second of a copy past the caches, those read and those written */
  double peak_gflops[CLADE_PEAKS]; /* by clade_dtype, of multiply-adds by vectors, two operations each. i8: of 32-bit
                                      integers, in which its products are summed; bf16: 0, it is computed in f32 */
  double launch_us, wait_us;       /* microseconds of a launch among others in a queue; of one that is waited for */
  uint32_t subgroup;               /* work-items that run in step, as the device tells; 0: unknown */
  uint32_t compute_capability;     /* NVIDIA's, 90 for 9.0; 0: the device tells none */
  uint64_t local_static_bytes; /* the largest __local array of a kernel that runs, which may be more than local_bytes;
                                  0: unknown */
} clade_device_info;

/* A row of the quirk table that applies to a device. */
typedef struct clade_quirk_info {
  const char *flag, *reason, *link;
} clade_quirk_info;

/* The devices of all platforms, in a stable order. A platform that fails is skipped (clade doctor tells why). */
CLADE_API clade_status clade_device_count(int *count);
CLADE_API clade_status clade_device_describe(int index, clade_device_info *info); /* info->size set by the caller */
CLADE_API int clade_device_quirks(int index, const clade_quirk_info **quirks);    /* how many apply */

/* Opens the device that a spec names: [text|index][:cpu|gpu|accel][:n], see docs/devices.md. NULL: CLADE_DEVICE, and
 * where that is unset the first GPU that computes a probe right, then PoCL, then any CPU. Never an accelerator or a
 * software GPU unless it is asked for. No match and several matches are errors that list the candidates. */
CLADE_API clade_status clade_device_find(const char *spec, clade_device **out);
/* One CPU as several: `parts` devices of an equal share of its compute units each. out has room for `parts`. */
CLADE_API clade_status clade_device_split(clade_device *device, int parts, clade_device **out);

CLADE_API clade_device *clade_device_retain(clade_device *device);
CLADE_API void clade_device_release(clade_device *device); /* NULL is fine */

CLADE_API clade_status clade_device_get_info(const clade_device *device, clade_device_info *info);
/* Asks once for each matrix unit: the processor, the operating system (which for AMX changes the process; CLADE_AMX=off
 * prevents it), and a probe kernel, which must compute right on this device. Where nobody tried the implementation's
 * compiler, the kernel runs in a process of its own (clade-probe; docs/porting.md). clade_device_get_info tells what
 * came out. Compiling asks where the graph has a product that may use one. */
CLADE_API clade_status clade_device_ask_units(clade_device *device);
typedef enum clade_profile_mode {
  CLADE_PROFILE_KEPT = 1, /* what is kept for the device; nothing is measured */
  CLADE_PROFILE_MISSING,  /* measured where none is kept, as a first compilation does */
  CLADE_PROFILE_AGAIN     /* measured now; replaces what is kept, and what later funcs go by */
} clade_profile_mode;
/* Speeds of the device, which clade_device_get_info tells from here on. They are kept with its tuning records
 * (docs/tuning.md); where there is no program cache to keep them in, they are told and no func goes by them. *kept may
 * be NULL: whether one is kept. */
CLADE_API clade_status clade_device_ask_profile(clade_device *device, clade_profile_mode mode, bool *kept);
/* CLADE_OK, or CLADE_LOST / CLADE_FORKED with the first error's message. */
CLADE_API clade_status clade_device_status(const clade_device *device);

typedef struct clade_memory_use {
  size_t size;
  uint64_t used, peak, allowed, pooled; /* bytes; pooled counts in used */
} clade_memory_use;
CLADE_API clade_status clade_device_memory(const clade_device *device, clade_memory_use *use);
/* The byte budget from here on; what is in use already stays. 0 restores the default. */
CLADE_API clade_status clade_device_set_budget(clade_device *device, uint64_t bytes);

CLADE_END_DECLS
#endif
