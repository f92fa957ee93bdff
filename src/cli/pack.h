/* Shared by the parts of `clade pack`. */
#ifndef CLADE_CLI_PACK_H
#define CLADE_CLI_PACK_H

#include <jansson.h>

#include "bundle/bundle.h"

int cli_pack_show(const char *path, bool json); /* reads and prints a bundle; returns an exit status */
/* ---- pack_target.c: bundles of kernels ---- */
extern const char cli_fpga_kernels[]; /* fpga/clade.cl with its includes */
typedef struct cli_pack_target {
  clade__target_kind kind; /* intel, xilinx, pocl or rtl */
  const char *name;        /* board or platform; NULL for pocl and rtl */
  const char *const *sources;
  size_t n_sources;
  clade__bundle_define *defines;
  size_t n_defines;
  const char *binary, *tool, *tool_version, *tool_command; /* binary of a vendor's tool and its origin; else NULL */
  const char *output, *key;                                /* key NULL: unsigned */
  bool directory;
} cli_pack_target;
/* Whether PoCL compiles the kernels here: for the emulated accelerator, with or without the RTL simulation of
 * array_i8. */
static inline bool cli_pack_compiles(const cli_pack_target *t) {
  return t->kind == CLADE__TARGET_POCL || t->kind == CLADE__TARGET_RTL;
}
clade_status cli_pack_build_target(const cli_pack_target *target);

/* ---- pack_pocl.c: kernels as PoCL compiles them ---- */
typedef struct cli_pack_compiled {
  clade__arena arena;
  const char *version;
  clade__bundle_kernel *kernels;
  size_t n_kernels;
  void *binary;
  size_t bytes;
} cli_pack_compiled;
/* binary: also keep the machine code. Free `out` also after a failure. */
clade_status cli_pack_compile(const char *text, const char *options, bool binary, cli_pack_compiled *out);
void cli_pack_compiled_free(cli_pack_compiled *compiled);

json_t *cli_pack_hex(const unsigned char *data, size_t bytes);

#endif
