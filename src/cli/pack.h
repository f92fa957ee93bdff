/* What `clade pack` shows of a bundle. */
#ifndef CLADE_CLI_PACK_H
#define CLADE_CLI_PACK_H

#include <jansson.h>

#include "bundle/bundle.h"

int cli_pack_show(const char *path, bool json); /* reads it; an exit status */
/* ---- built here, of the kernels in fpga/ (pack_pocl.c) ---- */
extern const char cli_fpga_kernels[]; /* fpga/clade.cl with all that it includes */
typedef struct cli_pack_target {
  clade__bundle_define *defines;
  size_t n_defines;
  const char *output, *key; /* key NULL: not signed */
  bool directory;
} cli_pack_target;
clade_status cli_pack_pocl(const cli_pack_target *target);

json_t *cli_pack_hex(const unsigned char *data, size_t bytes);

#endif
