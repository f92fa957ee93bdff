/* JSON from files, whose memory is bounded, and as a text of Clade's own: a program may have given jansson an
 * allocator, and its texts are not for free(). */
#ifndef CLADE_BASE_JSON_H
#define CLADE_BASE_JSON_H

#include <jansson.h>

#include "base/base.h"

/* As json_loadb with JSON_REJECT_DUPLICATES, for a text from outside. NULL, with error->text "more values than …",
 * where jansson would take more than CLADE__JSON_BASE bytes and CLADE__JSON_RATIO for each byte of the text: it takes
 * 80 bytes for each of "{},{},…". */
enum { CLADE__JSON_BASE = 128 << 20, CLADE__JSON_RATIO = 4 };
json_t *clade__json_load(const void *text, size_t bytes, json_error_t *error);
json_t *clade__json_load_text(const char *text); /* up to its zero, by one who does not ask what is wrong with it */

/* The member of that name, or of an older one (base.h), which is told. */
json_t *clade__json_member(const json_t *object, const char *name);

/* By jansson's flags; the caller's, by clade__free. NULL for a value that there was no memory for is NO_MEMORY. */
clade_status clade__json_print(const json_t *json, size_t flags, char **out);

#endif
