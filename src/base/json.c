/* JSON as a text of Clade's own. */
#include "base/json.h"

static int add(const char *bytes, size_t n, void *text) {
  clade__text_add_bytes(text, bytes, n);
  return 0;
}

clade_status clade__json_print(const json_t *json, size_t flags, char **out) {
  clade__text text = {0};
  *out = NULL;
  if (json && json_dump_callback(json, add, &text, flags) == 0) return clade__text_take(&text, out);
  clade__text_free(&text);
  return CLADE_FAIL(NO_MEMORY, "no memory to write JSON");
}
