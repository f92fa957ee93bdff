/* Parsing JSON with bounded memory, and printing it to Clade's own memory. */
#include "base/json.h"

#include <stdio.h>

/* Upper bounds of what jansson 2.14 allocates per value, counted by punctuation. Objects and arrays include their
 * first slots. */
enum { OBJECT = 224, ARRAY = 128, STRING = 80, MEMBER = 16, NUMBER = 32, ELEMENT = 16 };

static uint64_t memory_of(const char *text, size_t bytes) {
  uint64_t sum = 0;
  bool quoted = false, begins = true; /* the next character may begin a number or a word */
  for (size_t i = 0; i < bytes; i++) {
    if (quoted && text[i] != '"') {
      sum++;
      i += text[i] == '\\';
      continue;
    }
    switch (text[i]) {
    case '"':
      quoted = !quoted;
      sum += quoted ? STRING : 0;
      begins = false;
      break;
    case '{': sum += OBJECT; break;
    case '[': sum += ARRAY, begins = true; break;
    case ':': sum += MEMBER, begins = true; break;
    case ',': sum += ELEMENT, begins = true; break;
    case '}':
    case ']':
    case ' ':
    case '\t':
    case '\r':
    case '\n': break;
    default: sum += begins ? NUMBER : 0, begins = false;
    }
  }
  return sum;
}

json_t *clade__json_load(const void *text, size_t bytes, json_error_t *error) {
  if (memory_of(text, bytes) <= CLADE__JSON_BASE + (uint64_t)CLADE__JSON_RATIO * bytes)
    return json_loadb(text, bytes, JSON_REJECT_DUPLICATES, error);
  *error = (json_error_t){.line = 1};
  snprintf(error->text, sizeof error->text, "more values than its %zu bytes may hold", bytes);
  return NULL;
}

json_t *clade__json_load_text(const char *text) {
  json_error_t error;
  return clade__json_load(text, strlen(text), &error);
}

json_t *clade__json_member(const json_t *object, const char *name) {
  json_t *value = json_object_get(object, name);
  const char *before;
  for (int i = 0; !value && (before = clade__old_name(name, i)); i++)
    if ((value = json_object_get(object, before))) clade__old_name_read(name, before);
  return value;
}

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
