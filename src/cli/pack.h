/* What `clade pack` shows of a bundle. */
#ifndef CLADE_CLI_PACK_H
#define CLADE_CLI_PACK_H

#include <jansson.h>

#include "bundle/bundle.h"

int cli_pack_show(const char *path, bool json); /* reads it; an exit status */
/* ---- built of kernels (pack_target.c) ---- */
extern const char cli_fpga_kernels[]; /* fpga/clade.cl with all that it includes */
typedef struct cli_pack_target {
  clade__target_kind kind; /* intel, xilinx, pocl or rtl */
  const char *name;        /* the board or the platform; NULL for pocl and rtl */
  const char *const *sources;
  size_t n_sources; /* 0: Clade's own kernels */
  clade__bundle_define *defines;
  size_t n_defines;
  const char *binary, *tool, *tool_version, *tool_command; /* what a vendor's tool made; else NULL */
  const char *output, *key;                                /* key NULL: not signed */
  bool directory;
} cli_pack_target;
/* By PoCL, here: for the emulated accelerator, and for the one whose array_i8 is in RTL. */
static inline bool cli_pack_compiles(const cli_pack_target *t) {
  return t->kind == CLADE__TARGET_POCL || t->kind == CLADE__TARGET_RTL;
}
clade_status cli_pack_build_target(const cli_pack_target *target);

/* ---- as PoCL reads them (pack_pocl.c) ---- */
typedef struct cli_pack_compiled {
  clade__arena arena;
  const char *version; /* PoCL's */
  clade__bundle_kernel *kernels;
  size_t n_kernels;
  void *binary;
  size_t bytes;
} cli_pack_compiled;
/* `binary`: machine code too. To be freed whatever comes of it. */
clade_status cli_pack_compile(const char *text, const char *options, bool binary, cli_pack_compiled *out);
void cli_pack_compiled_free(cli_pack_compiled *compiled);

json_t *cli_pack_hex(const unsigned char *data, size_t bytes);

#endif
