/* JSON: parses files with bounded memory, and prints to strings that clade__free frees, since the program may have
 * replaced jansson's allocator. */
#ifndef CLADE_BASE_JSON_H
#define CLADE_BASE_JSON_H

#include <jansson.h>

#include "base/base.h"

/* json_loadb with JSON_REJECT_DUPLICATES for untrusted input. jansson needs 80 bytes of memory for each "{}," of its
 * input, so a text that would need more than CLADE__JSON_BASE bytes plus CLADE__JSON_RATIO times its length is
 * refused: NULL, with "more values than …" in error->text. */
enum { CLADE__JSON_BASE = 128 << 20, CLADE__JSON_RATIO = 4 };
json_t *clade__json_load(const void *text, size_t bytes, json_error_t *error);
json_t *clade__json_load_text(const char *text); /* zero-terminated, without error details */

/* Looks a member up by its name or an older name (base.h), which logs a warning. */
json_t *clade__json_member(const json_t *object, const char *name);

/* `flags` are jansson's. The caller frees the string. If `json` is NULL, its allocation failed: NO_MEMORY. */
clade_status clade__json_print(const json_t *json, size_t flags, char **out);

#endif
