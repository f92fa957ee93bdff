/* What `clade pack` shows of a bundle. */
#ifndef CLADE_CLI_PACK_H
#define CLADE_CLI_PACK_H

#include <jansson.h>

#include "bundle/bundle.h"

int cli_pack_show(const char *path, bool json); /* reads it; an exit status */
json_t *cli_pack_hex(const unsigned char *data, size_t bytes);

#endif
