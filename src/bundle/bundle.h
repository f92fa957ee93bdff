/* Offline bundles: a program for a device, compiled in advance, with a manifest that describes it. Files may be
 * malicious and are checked completely. No OpenCL here. docs/fpga.md specifies the format. */
#ifndef CLADE_BUNDLE_H
#define CLADE_BUNDLE_H

#include "base/base.h"

enum {
  CLADE__BUNDLE_FORMAT = 1,
  CLADE__BUNDLE_INTERFACE = 1, /* version of fpga/interface.def */
  CLADE__BUNDLE_DIGEST = 32,
  CLADE__BUNDLE_KEY = 32,
  CLADE__BUNDLE_SIGNATURE = 64,
  CLADE__BUNDLE_MANIFEST_BYTES = 1 << 20,
  CLADE__BUNDLE_BINARY_BYTES = 1 << 30
};

/* ---- the manifest as data; manifest.c lists the fields that a target needs ---- */
typedef enum clade__target_kind {
  CLADE__TARGET_INTEL,
  CLADE__TARGET_XILINX,
  CLADE__TARGET_POCL,
  CLADE__TARGET_RTL,
  CLADE__TARGET_ICE40,
  CLADE__TARGET_ECP5,
  CLADE__TARGETS
} clade__target_kind;
extern const char *const clade__target_names[]; /* ends with NULL, as the following arrays */

typedef enum clade__container {
  CLADE__AOCX,
  CLADE__XCLBIN,
  CLADE__POCLBIN,
  CLADE__BITSTREAM, /* made by open-source tools; no runtime loads it */
  CLADE__NOTHING    /* for targets that the process itself simulates */
} clade__container;
extern const char *const clade__container_names[];

typedef enum clade__access { CLADE__VALUE, CLADE__READ, CLADE__WRITE, CLADE__READ_WRITE } clade__access;
extern const char *const clade__access_names[];
typedef enum clade__source { CLADE__UNTOLD, CLADE__ROUTED, CLADE__ESTIMATE } clade__source;
extern const char *const clade__source_names[];
typedef enum clade__evidence { CLADE__NO_EVIDENCE, CLADE__SIMULATED, CLADE__HARDWARE } clade__evidence;
extern const char *const clade__evidence_names[];

typedef struct clade__bundle_argument {
  const char *type, *name; /* type: as in OpenCL C, "global float *" */
  int access;
} clade__bundle_argument;

typedef struct clade__figure {
  double value;
  int source;       /* CLADE__UNTOLD: no value */
  const char *from; /* report of the tool, or NULL */
} clade__figure;

typedef struct clade__bundle_report {
  clade__figure ii, fmax_mhz, dsp, bram, lut, bandwidth_gbs;
} clade__bundle_report;

typedef struct clade__bundle_kernel {
  const char *name;
  const clade__bundle_argument *arguments;
  size_t n_arguments;
  uint64_t work_group[3];
  uint64_t compute_units, queue;
  const char **banks;
  size_t n_banks;
  clade__bundle_report report;
  int evidence;
} clade__bundle_kernel;

typedef struct clade__bundle_define {
  const char *name, *text;
} clade__bundle_define;

typedef struct clade__manifest {
  uint64_t format, interface_version;
  struct {
    int kind;
    const char *vendor, *device, *board, *vbnv, *uuid, *hash;
  } target;
  struct {
    const char *name, *version, *command;
  } tool;
  struct {
    const char *sha256;
  } source;
  struct {
    int format;
    const char *file;
    uint64_t bytes;
  } binary;
  clade__bundle_define *defines;
  size_t n_defines;
  const clade__bundle_kernel *kernels;
  size_t n_kernels;
} clade__manifest;

/* Parses a manifest: unknown fields are errors, required ones must be there. The arena owns the strings. where: for
 * messages. */
clade_status clade__manifest_parse(const char *where, const void *text, size_t bytes, clade__arena *arena,
                                   clade__manifest *out);
/* Reads a define with a value from 1 to 999999999; *value is unchanged if the define is absent. */
clade_status clade__manifest_number(const char *where, const clade__manifest *manifest, const char *name,
                                    uint64_t *value);
/* The first kernel for products that reports clock and bandwidth; NULL: none. */
const clade__bundle_kernel *clade__manifest_array(const clade__manifest *manifest);
enum { CLADE__ARRAY_ROWS = 8, CLADE__ARRAY_COLUMNS = 8 }; /* defaults of fpga/prelude.cl if defines are absent */
bool clade__is_name(const char *text);                    /* a valid C name for kernels and arguments */
/* Deterministic; *text by clade__free. */
clade_status clade__manifest_print(const clade__manifest *manifest, char **text);

/* ---- kernels of fpga/ according to fpga/interface.def (interface.c) ---- */
const clade__bundle_kernel *clade__interface_kernels(size_t *n);

/* ---- a bundle ---- */
typedef struct clade__bundle {
  const char *path;
  clade__arena arena;  /* owns all strings here */
  unsigned char *file; /* content of the file; by clade__free */
  clade__manifest manifest;
  const char *manifest_text;
  size_t manifest_bytes;
  const unsigned char *binary;
  size_t binary_bytes;
  unsigned char digest[CLADE__BUNDLE_DIGEST];
  bool is_signed; /* with a valid signature by `key`; whether the key is trusted is a separate question */
  unsigned char key[CLADE__BUNDLE_KEY], signature[CLADE__BUNDLE_SIGNATURE];
} clade__bundle;

/* Reads the manifest only, without digest and binary: enough to skip bundles for other devices. */
clade_status clade__bundle_peek(const char *path, clade__bundle *out);
/* Reads and checks a file or directory: sizes, digest, signature, manifest and the structure of the binary. */
clade_status clade__bundle_read(const char *path, clade__bundle *out);
/* The same for the content of a file, which is taken over, also after a failure. */
clade_status clade__bundle_parse(const char *path, unsigned char *file, size_t bytes, clade__bundle *out);
void clade__bundle_free(clade__bundle *bundle); /* accepts an all-zero struct */

/* UNSUPPORTED if the manifest declares other arguments of a kernel than fpga/interface.def. */
clade_status clade__interface_check(const clade__bundle *bundle);

/* ---- trust (trust.c) ---- */
/* Public keys from a PEM file. */
typedef struct clade__keys {
  unsigned char (*at)[CLADE__BUNDLE_KEY];
  size_t n, capacity;
} clade__keys;
clade_status clade__keys_read(const char *path, clade__keys *out);
void clade__keys_free(clade__keys *keys);
/* PERMISSION with the reason if the policy refuses the bundle. */
clade_status clade__bundle_trusted(const clade__bundle *bundle, clade_bundle_policy policy, const clade__keys *keys);
/* PERMISSION unless the path and its directories belong to this user or root and only the owner may write. */
clade_status clade__bundle_safe(const char *path);

/* ---- writing (write.c) ---- */
typedef struct clade__bundle_draft {
  clade__manifest manifest; /* binary.bytes is filled in */
  const void *binary;
  size_t binary_bytes;
  const char *key_path; /* a private key in PEM; NULL: unsigned */
} clade__bundle_draft;
/* Writes a file, or a directory if as_directory. Atomic. Replaces an existing file by a file, but nothing else. */
clade_status clade__bundle_write(const char *path, bool as_directory, const clade__bundle_draft *draft);
/* SHA-256 over the content that docs/fpga.md lists. */
clade_status clade__bundle_digest(const void *manifest, size_t manifest_bytes, const void *binary, size_t binary_bytes,
                                  unsigned char out[CLADE__BUNDLE_DIGEST]);

/* ---- formats of binaries: checks that all offsets and sizes are inside (container_*.c) ---- */
typedef struct clade__connection { /* an argument of "kernel:unit" is connected to a memory */
  const char *unit;
  uint64_t argument;
} clade__connection;
typedef struct clade__facts { /* what the binary itself declares; NULL: nothing */
  const char *board, *vbnv, *uuid, *hash;
  const char **kernels;
  size_t n_kernels;
  clade__connection *connections;
  size_t n_connections;
} clade__facts;
clade_status clade__xclbin_check(const char *where, const unsigned char *data, size_t bytes, clade__arena *arena,
                                 clade__facts *out);
clade_status clade__aocx_check(const char *where, const unsigned char *data, size_t bytes, clade__arena *arena,
                               clade__facts *out);
clade_status clade__poclbin_check(const char *where, const unsigned char *data, size_t bytes, clade__arena *arena,
                                  clade__facts *out);
/* Reduces a checked poclbin to the machine code for launches of any size. PoCL writes every file of a binary to its
 * cache and syncs it, and without a program it cannot compile more. Returns the new size. */
size_t clade__poclbin_trim(unsigned char *data);
/* Prepares a checked poclbin for PoCL: trims it, assigns a directory of its own in PoCL's cache, and writes its
 * files there (poclbin_cache.c). */
clade_status clade__poclbin_unpack(const char *where, unsigned char *data, size_t *bytes);
/* Checks the binary by its format, and that its declarations match the manifest. */
clade_status clade__container_check(const clade__bundle *bundle, clade__arena *arena);

#endif
