/* The only file that knows platforms, vendors and devices by name: their quirks with reasons, device aliases, and
 * remedies for platforms without devices. */
#include "cl/internal.h"

#include <stdlib.h>
#include <strings.h>

#define AT(field) offsetof(clade_device_info, field)
#define POCL      "Portable Computing Language"

static const char *field(const clade_device_info *info, size_t at) {
  const char *text;
  memcpy(&text, (const char *)info + at, sizeof text);
  return text ? text : "";
}

/* A row applies if the field contains the text, ignoring case. */
typedef struct quirk_row {
  clade__quirk quirk;
  size_t at;
  const char *text, *reason, *link;
} quirk_row;
static const quirk_row quirk_rows[] = {
    {CLADE__QUIRK_LOCK_COMPILE, AT(platform), POCL, "processes that compile into one empty cache at once may crash",
     "http://portablecl.org/docs/html/env_variables.html"},
    {CLADE__QUIRK_WARM, AT(platform), POCL, "a kernel is compiled when it is first launched with a local size",
     "http://portablecl.org/docs/html/kernel_compiler.html"},
    {CLADE__QUIRK_SPECIALIZE, AT(platform), POCL,
     "a kernel is compiled for each local size, again for grids above 65535, and once more while its binary is "
     "fetched, when no kernel can start",
     "https://github.com/pocl/pocl/blob/v3.1/lib/CL/devices/common_driver.c"},
    {CLADE__QUIRK_FREE_GROUP, AT(platform), POCL,
     "fetching the binary of a kernel that requires a work-group size, while that kernel runs, aborts the process "
     "(pocl_release_dlhandle_cache: ref_count > 0)",
     "https://github.com/pocl/pocl/blob/v3.1/lib/CL/devices/common_driver.c"},
    {CLADE__QUIRK_CALL_BODY, AT(platform), POCL,
     "a kernel is compiled as itself and as two launchers that hold copies of it; a function that is not inlined is "
     "compiled once",
     "https://github.com/pocl/pocl/blob/v3.1/lib/llvmopencl/Workgroup.cc"},
    {CLADE__QUIRK_SLOW_WAKE, AT(platform), POCL,
     "threads sleep as soon as there is no launch, and waking one takes as long as a small launch: steps of a func "
     "that follow each other are one launch",
     "https://github.com/pocl/pocl/blob/v3.1/lib/CL/devices/pthread/pthread_scheduler.c"},
    {CLADE__QUIRK_MAPS_ITSELF, AT(platform), POCL,
     "where a CPU's buffer is mapped is its memory, whose pages can be chosen",
     "https://github.com/pocl/pocl/blob/v3.1/lib/CL/devices/basic/basic.c"},
    {CLADE__QUIRK_LEAN_BUILD, AT(platform), POCL,
     "a header of all of OpenCL's functions is read twice for each program, which takes 0.2 s, unless its guard is "
     "defined",
     "https://github.com/pocl/pocl/blob/v3.1/lib/CL/pocl_llvm_build.cc"},
    {CLADE__QUIRK_BY_PAGES, AT(vendor), "GenuineIntel",
     "a core foresees a few lines within each page that it reads, more where it reads four by turns; what passes the "
     "second cache comes by a few lines at a time",
     "https://www.intel.com/content/www/us/en/developer/articles/technical/intel-sdm.html"},
    {CLADE__QUIRK_FAR_CACHE, AT(vendor), "GenuineIntel",
     "where second caches are large, the last one holds what they throw out, for all cores, and gives no more than "
     "memory does",
     "https://www.intel.com/content/www/us/en/developer/articles/technical/xeon-processor-scalable-family-technical-"
     "overview.html"},
    {CLADE__QUIRK_SOFTWARE, AT(name), "llvmpipe", "a rasterizer that runs on the CPU",
     "https://docs.mesa3d.org/drivers/llvmpipe.html"},
    {CLADE__QUIRK_PASS_LIMIT, AT(name), "llvmpipe",
     "after 65535 passes through all of its loops together a work-item leaves them, without an error "
     "(LP_MAX_TGSI_LOOP_ITERATIONS)",
     "https://gitlab.freedesktop.org/mesa/mesa/-/blob/main/src/gallium/auxiliary/gallivm/lp_bld_limits.h"},
    {CLADE__QUIRK_GROUP_LIMIT, AT(name), "llvmpipe",
     "a kernel's limit is reported as a multiple of the vector width; groups up to the device's limit are computed "
     "right",
     "https://docs.mesa3d.org/rusticl.html"},
    {CLADE__QUIRK_SOFTWARE, AT(name), "softpipe", "a rasterizer that runs on the CPU",
     "https://docs.mesa3d.org/drivers/llvmpipe.html"},
    {CLADE__QUIRK_SOFTWARE, AT(name), "swiftshader", "a GPU that the CPU imitates",
     "https://swiftshader.googlesource.com/SwiftShader"},
    {CLADE__QUIRK_SOFTWARE, AT(name), "emulat", "an FPGA whose kernels the CPU computes", NULL},
    {CLADE__QUIRK_SOFTWARE, AT(name), "_sw_emu", "an FPGA whose kernels the CPU computes",
     "https://docs.amd.com/r/en-US/ug1393-vitis-application-acceleration/Build-Targets"},
    {CLADE__QUIRK_SOFTWARE, AT(name), "_hw_emu", "an FPGA whose kernels the CPU simulates",
     "https://docs.amd.com/r/en-US/ug1393-vitis-application-acceleration/Build-Targets"},
    {CLADE__QUIRK_NO_PROFILING, AT(platform), "rusticl", "times of events mean nothing",
     "https://docs.mesa3d.org/rusticl.html"},
    {CLADE__QUIRK_LOCAL_TWICE, AT(platform), "rusticl",
     "a kernel's local arrays are counted twice (Mesa 22.3); those of half the count are computed right",
     "https://docs.mesa3d.org/rusticl.html"},
    {CLADE__QUIRK_NO_ASM, AT(platform), "rusticl", "kernels go through SPIR-V, and inline assembly ends the process",
     "https://docs.mesa3d.org/rusticl.html"},
    {CLADE__QUIRK_PAGES, AT(platform), "Xilinx",
     "DMA begins at multiples of 4096 bytes: of other memory the runtime makes a copy for each transfer",
     "https://docs.amd.com/r/en-US/ug1393-vitis-application-acceleration"},
    {CLADE__QUIRK_LINGERS, AT(platform), "Xilinx",
     "a program is given up a moment after its last launch ended, and until then another one is refused "
     "(CL_OUT_OF_RESOURCES, or without hardware CL_OUT_OF_HOST_MEMORY)",
     "https://github.com/Xilinx/XRT/blob/014808b0ed2f754e12089559bdd444d1ef6bc525/src/runtime_src/xocl/core/"
     "device.cpp"},
    {CLADE__QUIRK_PAGES, AT(platform), "Intel(R) FPGA",
     "DMA begins at multiples of 64 bytes: other memory is copied word by word", NULL},
    {CLADE__QUIRK_PAGES, AT(platform), "Clade emulation", "as FPGAs have it, so that tests see it", NULL},
    {CLADE__QUIRK_NO_ASM, AT(platform), "oclgrind",
     "kernels are interpreted, and inline assembly in one is a segmentation fault while it is built",
     "https://github.com/jrprice/Oclgrind"},
    {CLADE__QUIRK_NO_PROFILING, AT(platform), "oclgrind", "the device is simulated: its times mean nothing",
     "https://github.com/jrprice/Oclgrind"},
};
static const char *const flags[] = {
#define X(name) [CLADE__QUIRK_##name] = #name,
    CLADE__QUIRK_MAP(X)
#undef X
};

/* Quirks that environment variables disable. */
static const struct {
  clade__quirk quirk;
  const char *variable;
} switches[] = {
    {CLADE__QUIRK_SPECIALIZE, "POCL_WORK_GROUP_SPECIALIZATION"},
    {CLADE__QUIRK_SLOW_WAKE, "CLADE_PERSISTENT"},
};

static const char *variable(const char *name) {
  const char *value = getenv(name), *before;
  for (int i = 0; !value && (before = clade__old_name(name, i)); i++)
    if ((value = getenv(before))) clade__old_name_read(name, before);
  return value;
}

bool clade__quirk_disabled(clade__quirk quirk) {
  for (size_t i = 0; i < CLADE_COUNT(switches); i++) {
    const char *value = switches[i].quirk == quirk ? variable(switches[i].variable) : NULL;
    if (value && *value != '1') return true;
  }
  return false;
}

static bool applies(const quirk_row *row, const clade_device_info *info) {
  return !clade__quirk_disabled(row->quirk) && strcasestr(field(info, row->at), row->text);
}

void clade__quirks_apply(clade__facts *facts) {
  facts->quirks = 0;
  facts->n_rows = 0;
  for (size_t i = 0; i < CLADE_COUNT(quirk_rows); i++) {
    const quirk_row *row = &quirk_rows[i];
    if (!applies(row, &facts->info)) continue;
    facts->quirks |= 1u << row->quirk;
    if (facts->n_rows < CLADE__MAX_QUIRKS)
      facts->rows[facts->n_rows++] = (clade_quirk_info){flags[row->quirk], row->reason, row->link};
  }
}

/* Aliases for device selection: of a device class, or of devices whose field contains the text. `preferred`: the
 * default CPU. */
typedef struct alias_row {
  const char *alias;
  clade_device_class device_class; /* 0: match by text */
  size_t at;
  const char *text;
  bool preferred;
} alias_row;
static const alias_row alias_rows[] = {
    {"cpu", CLADE_CPU, 0, NULL, false},
    {"gpu", CLADE_GPU, 0, NULL, false},
    {"accel", CLADE_ACCEL, 0, NULL, false},
    {"fpga", CLADE_ACCEL, 0, NULL, false},
    {"pocl", 0, AT(platform), POCL, true},
    {"rusticl", 0, AT(platform), "rusticl", false},
    {"oclgrind", 0, AT(platform), "oclgrind", false},
    {"emulated", 0, AT(name), "emulat", false},
    {"emulated", 0, AT(name), "_sw_emu", false},
    {"emulated", 0, AT(name), "_hw_emu", false},
};

static bool alias_fits(const alias_row *row, const clade_device_info *info) {
  if (row->device_class) return row->device_class == info->device_class;
  return strcasestr(field(info, row->at), row->text) != NULL;
}

bool clade__alias(const char *text, const clade_device_info *info, bool *match) {
  bool known = false;
  *match = false;
  for (size_t i = 0; i < CLADE_COUNT(alias_rows); i++) {
    if (strcasecmp(text, alias_rows[i].alias) != 0) continue;
    known = true;
    *match |= alias_fits(&alias_rows[i], info);
  }
  return known;
}

bool clade__cpu_preferred(const clade_device_info *info) {
  for (size_t i = 0; i < CLADE_COUNT(alias_rows); i++)
    if (alias_rows[i].preferred && alias_fits(&alias_rows[i], info)) return true;
  return false;
}

/* Platforms whose devices run programs of a bundle's target kind. */
static const struct {
  const char *kind, *platform;
} target_rows[] = {
    {"intel", "Intel(R) FPGA"},
    {"xilinx", "Xilinx"},
    {"pocl", POCL},
    {"pocl", "Clade emulation"},
};

/* Some devices append a description to the name: "pac_a10 : Intel PAC Platform". */
bool clade__target_fits(const char *kind, const char *name, const clade_device_info *info) {
  size_t n = strlen(name);
  if (strncmp(info->name, name, n) != 0 || (info->name[n] && info->name[n] != ' ')) return false;
  for (size_t i = 0; i < CLADE_COUNT(target_rows); i++)
    if (strcmp(kind, target_rows[i].kind) == 0 && strcasestr(info->platform, target_rows[i].platform)) return true;
  return false;
}

/* Compilers whose inline assembly was tested: the instructions of persistent kernels and, with `units`, those of
 * unit probes on processors that have them. Elsewhere inline assembly may fail an assertion and abort, as PoCL 5.0
 * with LLVM 16 does. Both strings must occur in the platform version, not followed by a digit. */
static const struct {
  const char *platform, *version, *compiler;
  bool works, units; /* works: false if it aborts the process */
  const char *link;
} tried[] = {
    {POCL, "PoCL 3.1", "LLVM 15", true, true, "https://packages.debian.org/bookworm/pocl-opencl-icd"},
    {POCL, "PoCL 6.0", "LLVM 18", false, false, "https://packages.debian.org/trixie/pocl-opencl-icd"},
};

static bool holds_version(const char *text, const char *version) {
  const char *at = strcasestr(text, version);
  return at && !(at[strlen(version)] >= '0' && at[strlen(version)] <= '9');
}

static bool is_tried(size_t i, const clade_device_info *info) {
  return strcasestr(info->platform, tried[i].platform) && holds_version(info->platform_version, tried[i].version) &&
         holds_version(info->platform_version, tried[i].compiler);
}

bool clade__assembly_tried(const clade_device *device, bool units) {
  for (size_t i = 0; i < CLADE_COUNT(tried); i++)
    if (is_tried(i, &device->facts.info)) return tried[i].works && (tried[i].units || !units);
  return false;
}

bool clade__assembly_aborts(const clade_device *device) {
  for (size_t i = 0; i < CLADE_COUNT(tried); i++)
    if (is_tried(i, &device->facts.info)) return !tried[i].works;
  return false;
}

static const struct {
  const char *platform, *remedy;
} remedies[] = {
    {POCL, "give it a writable HOME, or set POCL_CACHE_DIR to a writable folder"},
    {"rusticl", "set RUSTICL_ENABLE to the drivers to use, for example RUSTICL_ENABLE=llvmpipe"},
    {"Clover", "nothing to do: it serves old AMD GPUs only; rusticl, from the same package, is its successor"},
    {"NVIDIA", "check that nvidia-smi works and that the driver's version is the OpenCL library's"},
    {"AMD", "add the user to the groups render and video, so that /dev/dri and /dev/kfd can be opened"},
    {"Intel", "add the user to the group render, so that /dev/dri can be opened"},
};

/* Environments in which a platform aborts the process when its devices are listed. */
static const struct {
  const char *platform, *variable, *reason;
} deadly[] = {
    {POCL, "POCL_CACHE_DIR", "is set but empty, and PoCL aborts a process that lists its devices then; unset it"},
};

clade_status clade__platform_check(const char *platform) {
  for (size_t i = 0; i < CLADE_COUNT(deadly); i++) {
    const char *value = strcasestr(platform, deadly[i].platform) ? getenv(deadly[i].variable) : NULL;
    if (value && !*value) return CLADE_FAIL(UNSUPPORTED, "%s %s", deadly[i].variable, deadly[i].reason);
  }
  return CLADE_OK;
}

const char *clade__platform_remedy(const char *platform) {
  for (size_t i = 0; i < CLADE_COUNT(remedies); i++)
    if (strcasestr(platform, remedies[i].platform)) return remedies[i].remedy;
  return NULL;
}

bool clade__quirk_has(const clade_device *device, clade__quirk quirk) {
  return device && device->facts.quirks >> quirk & 1u;
}
