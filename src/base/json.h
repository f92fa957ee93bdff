/* JSON as a text of Clade's own: a program may have given jansson an allocator, and its texts are not for free(). */
#ifndef CLADE_BASE_JSON_H
#define CLADE_BASE_JSON_H

#include <jansson.h>

#include "base/base.h"

/* By jansson's flags; the caller's, by clade__free. NULL for a value that there was no memory for is NO_MEMORY. */
clade_status clade__json_print(const json_t *json, size_t flags, char **out);

#endif
