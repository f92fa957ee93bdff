/* Offline bundles: a device's program, built beforehand, and a manifest that says what it is. Read from files that may
 * be hostile, checked to the last byte, described; no OpenCL here. docs/fpga.md states the format. */
#ifndef CLADE_BUNDLE_H
#define CLADE_BUNDLE_H

#include "base/base.h"

enum {
  CLADE__BUNDLE_FORMAT = 1,
  CLADE__BUNDLE_INTERFACE = 1, /* of fpga/interface.def */
  CLADE__BUNDLE_DIGEST = 32,
  CLADE__BUNDLE_KEY = 32,
  CLADE__BUNDLE_SIGNATURE = 64,
  CLADE__BUNDLE_MANIFEST_BYTES = 1 << 20,
  CLADE__BUNDLE_BINARY_BYTES = 1 << 30
};

/* ---- the manifest, as data; `needs` of a target are in manifest.c ---- */
typedef enum clade__target_kind {
  CLADE__TARGET_INTEL,
  CLADE__TARGET_XILINX,
  CLADE__TARGET_POCL,
  CLADE__TARGET_RTL,
  CLADE__TARGET_ICE40,
  CLADE__TARGET_ECP5,
  CLADE__TARGETS
} clade__target_kind;
extern const char *const clade__target_names[]; /* end in NULL, as the following do */

typedef enum clade__container {
  CLADE__AOCX,
  CLADE__XCLBIN,
  CLADE__POCLBIN,
  CLADE__BITSTREAM, /* of open tools: no runtime loads it, it is carried and described */
  CLADE__NOTHING    /* a target that the process itself computes */
} clade__container;
extern const char *const clade__container_names[];

typedef enum clade__access { CLADE__VALUE, CLADE__READ, CLADE__WRITE, CLADE__READ_WRITE } clade__access;
extern const char *const clade__access_names[];
typedef enum clade__source { CLADE__UNTOLD, CLADE__ROUTED, CLADE__ESTIMATE } clade__source;
extern const char *const clade__source_names[];
typedef enum clade__evidence { CLADE__NO_EVIDENCE, CLADE__SIMULATED, CLADE__HARDWARE } clade__evidence;
extern const char *const clade__evidence_names[];

typedef struct clade__bundle_argument {
  const char *type, *name; /* as in OpenCL C: "global float *" */
  int access;
} clade__bundle_argument;

typedef struct clade__figure {
  double value;
  int source;       /* CLADE__UNTOLD: there is none */
  const char *from; /* the tool's report; may be NULL */
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
    const char *vendor, *device, *board, *vbnv, *uuid, *hash; /* NULL: not told */
  } target;
  struct {
    const char *name, *version, *command;
  } tool;
  struct {
    const char *sha256;
  } source;
  struct {
    int format;
    const char *file; /* in a bundle that is a directory */
    uint64_t bytes;
  } binary;
  clade__bundle_define *defines;
  size_t n_defines;
  const clade__bundle_kernel *kernels;
  size_t n_kernels;
} clade__manifest;

/* Everything that is stated must be known, and whatever is needed there. Texts are the arena's. `where` is for
 * messages. */
clade_status clade__manifest_parse(const char *where, const void *text, size_t bytes, clade__arena *arena,
                                   clade__manifest *out);
/* A define that is a number from 1 to 999999999; *value stays where it is not told. */
clade_status clade__manifest_number(const char *where, const clade__manifest *manifest, const char *name,
                                    uint64_t *value);
/* Of the kernels for sums of products, the first that reports clock and bandwidth; NULL: none does. */
const clade__bundle_kernel *clade__manifest_array(const clade__manifest *manifest);
enum { CLADE__ARRAY_ROWS = 8, CLADE__ARRAY_COLUMNS = 8 }; /* where defines do not tell: as in fpga/prelude.cl */
bool clade__is_name(const char *text);                    /* of a kernel or an argument, in C */
/* The same bytes for the same manifest; the caller's, by clade__free. */
clade_status clade__manifest_print(const clade__manifest *manifest, char **text);

/* ---- the kernels of fpga/ by fpga/interface.def (interface.c) ---- */
const clade__bundle_kernel *clade__interface_kernels(size_t *n);

/* ---- a bundle ---- */
typedef struct clade__bundle {
  const char *path;
  clade__arena arena;  /* of all texts here */
  unsigned char *file; /* what was read; by clade__free */
  clade__manifest manifest;
  const char *manifest_text;
  size_t manifest_bytes;
  const unsigned char *binary;
  size_t binary_bytes;
  unsigned char digest[CLADE__BUNDLE_DIGEST];
  bool is_signed; /* and the signature is that key's; whether the key is trusted is another question */
  unsigned char key[CLADE__BUNDLE_KEY], signature[CLADE__BUNDLE_SIGNATURE];
} clade__bundle;

/* What its manifest tells, of which nothing was checked against a digest, and no binary: to pass over what is for
 * another device. */
clade_status clade__bundle_peek(const char *path, clade__bundle *out);
/* Of a file or a directory: sizes, digest, signature, manifest and the binary's own structure are right afterwards. */
clade_status clade__bundle_read(const char *path, clade__bundle *out);
/* The same of a file's bytes, which it takes over, also when it fails. */
clade_status clade__bundle_parse(const char *path, unsigned char *file, size_t bytes, clade__bundle *out);
void clade__bundle_free(clade__bundle *bundle); /* all zero is fine */

/* UNSUPPORTED where the manifest tells other arguments than fpga/interface.def does of a kernel. */
clade_status clade__interface_check(const clade__bundle *bundle);

/* ---- trust (trust.c) ---- */
/* The public keys of a file in PEM. */
typedef struct clade__keys {
  unsigned char (*at)[CLADE__BUNDLE_KEY];
  size_t n, capacity;
} clade__keys;
clade_status clade__keys_read(const char *path, clade__keys *out);
void clade__keys_free(clade__keys *keys);
/* PERMISSION, with the reason, where the policy refuses it. */
clade_status clade__bundle_trusted(const clade__bundle *bundle, clade_bundle_policy policy, const clade__keys *keys);
/* PERMISSION unless it and what it lies in belong to this user or to root, and nobody else may write there. */
clade_status clade__bundle_safe(const char *path);

/* ---- writing (write.c) ---- */
typedef struct clade__bundle_draft {
  clade__manifest manifest; /* binary.bytes is filled in */
  const void *binary;
  size_t binary_bytes;
  const char *key_path; /* a private key in PEM; NULL: not signed */
} clade__bundle_draft;
/* A directory where `as_directory`, else a file. It appears whole or not at all. A file in its place is replaced by a
 * file; anything else that is there is not. */
clade_status clade__bundle_write(const char *path, bool as_directory, const clade__bundle_draft *draft);
/* SHA-256 of what is stated in docs/fpga.md. */
clade_status clade__bundle_digest(const void *manifest, size_t manifest_bytes, const void *binary, size_t binary_bytes,
                                  unsigned char out[CLADE__BUNDLE_DIGEST]);

/* ---- the binaries themselves: every offset and size in them is inside (container_*.c) ---- */
typedef struct clade__connection { /* this argument of "kernel:unit" lies in a memory */
  const char *unit;
  uint64_t argument;
} clade__connection;
typedef struct clade__facts { /* what the format itself tells; NULL: it does not */
  const char *board, *vbnv, *uuid, *hash;
  const char **kernels;
  size_t n_kernels;
  clade__connection *connections; /* of xclbin */
  size_t n_connections;
} clade__facts;
clade_status clade__xclbin_check(const char *where, const unsigned char *data, size_t bytes, clade__arena *arena,
                                 clade__facts *out);
clade_status clade__aocx_check(const char *where, const unsigned char *data, size_t bytes, clade__arena *arena,
                               clade__facts *out);
clade_status clade__poclbin_check(const char *where, const unsigned char *data, size_t bytes, clade__arena *arena,
                                  clade__facts *out);
/* Leaves, of one that PoCL made and that was checked, the machine code for launches of any size: PoCL writes each file
 * to its cache and waits for the disk, and where there is nothing to compile from, it compiles nothing. How many bytes
 * are left. */
size_t clade__poclbin_trim(unsigned char *data);
/* Before PoCL gets one that was checked: leaves the machine code alone, gives it a directory of its own in PoCL's
 * cache, and puts its files there (poclbin_cache.c). */
clade_status clade__poclbin_unpack(const char *where, unsigned char *data, size_t *bytes);
/* Where PoCL keeps its cache, by its own rule; the caller's, by clade__free. NOT_FOUND: in no place of the user's. */
clade_status clade__pocl_cache(char **path);
/* Of the format that the manifest names; and what both tell must be the same. */
clade_status clade__container_check(const clade__bundle *bundle, clade__arena *arena);

#endif
