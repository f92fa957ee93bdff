/* Reads JSON from untrusted sources into a struct, by a table of fields. */
#include <math.h>
#include <stdarg.h>

#include "bundle/schema.h"

typedef struct reader {
  const char *where;
  clade__arena *arena;
  char way[256]; /* path of the current field: "kernels[2].arguments[0].type" */
  size_t length;
} reader;

/* Appends a step to the path; returns the previous length for `pop`. */
CLADE_PRINTF(2, 3) static size_t push(reader *r, const char *format, ...) {
  size_t before = r->length;
  va_list list;
  va_start(list, format);
  int n = vsnprintf(r->way + before, sizeof r->way - before, format, list);
  va_end(list);
  r->length = CLADE_MIN(before + (size_t)CLADE_MAX(n, 0), sizeof r->way - 1);
  return before;
}

static size_t push_name(reader *r, const char *name) { return push(r, "%s%s", r->length ? "." : "", name); }

static void pop(reader *r, size_t before) { r->way[r->length = before] = '\0'; }

static clade_status wrong(const reader *r, const char *expected) {
  return CLADE_FAIL(CORRUPT, "%s: %s: %s is expected", r->where, r->length ? r->way : "the whole", expected);
}

static clade_status read_object(reader *r, const json_t *json, const clade__field *fields, char *out);

/* Refuses control characters, which could reach a terminal. */
static bool is_plain(const char *text) {
  for (; *text; text++)
    if ((unsigned char)*text < ' ' || *text == 0x7f) return false;
  return true;
}

static clade_status read_text(reader *r, const json_t *json, const clade__field *f, const char **out) {
  const char *text = json_string_value(json);
  size_t most = f->most ? f->most : CLADE__TEXT_BYTES;
  if (!text || strlen(text) != json_string_length(json) || !*text || !is_plain(text)) return wrong(r, "a text");
  if (strlen(text) > most)
    return CLADE_FAIL(CORRUPT, "%s: %s has %zu bytes; at most %zu are read", r->where, r->way, strlen(text), most);
  if (f->kind == CLADE__FIELD_HEX && (strlen(text) != most || strspn(text, "0123456789abcdef") != most))
    return CLADE_FAIL(CORRUPT, "%s: %s: %zu hexadecimal digits are expected", r->where, r->way, most);
  *out = clade__arena_text(r->arena, text);
  return *out ? CLADE_OK : CLADE_NO_MEMORY;
}

static clade_status read_count(reader *r, const json_t *json, uint64_t most, uint64_t *out) {
  json_int_t value = json_integer_value(json);
  if (!json_is_integer(json) || value < 0 || (uint64_t)value > most)
    return CLADE_FAIL(CORRUPT, "%s: %s: a whole number from 0 to %llu is expected", r->where, r->way,
                      (unsigned long long)most);
  *out = (uint64_t)value;
  return CLADE_OK;
}

static clade_status read_triple(reader *r, const json_t *json, uint64_t most, uint64_t out[3]) {
  if (json_array_size(json) != 3) return wrong(r, "a list of three numbers");
  for (size_t i = 0; i < 3; i++) CLADE_TRY(read_count(r, json_array_get(json, i), most, &out[i]));
  return CLADE_OK;
}

static clade_status read_number(reader *r, const json_t *json, double *out) {
  *out = json_number_value(json);
  return json_is_number(json) && isfinite(*out) && *out >= 0 ? CLADE_OK : wrong(r, "a number that is not negative");
}

static clade_status read_choice(reader *r, const json_t *json, const char *const *choices, int *out) {
  const char *text = json_string_value(json);
  clade__text known = {0};
  for (*out = 0; text && *text && choices[*out]; ++*out)
    if (strcmp(choices[*out], text) == 0) return CLADE_OK;
  for (int i = 0; choices[i]; i++)
    if (*choices[i]) clade__text_add(&known, "%s%s", known.length ? ", " : "", choices[i]);
  clade_status status = known.failed
                            ? CLADE_NO_MEMORY
                            : CLADE_FAIL(CORRUPT, "%s: %s: one of %s is expected", r->where, r->way, known.data);
  clade__text_free(&known);
  return status;
}

/* Allocates the elements and sets the pointer and the count at `out`. */
static clade_status new_list(reader *r, size_t n, const clade__field *f, char *out, char **list) {
  if (n > f->most)
    return CLADE_FAIL(CORRUPT, "%s: %s has %zu elements; at most %llu are read", r->where, r->way, n,
                      (unsigned long long)f->most);
  size_t bytes;
  if (!clade__mul(n, f->size, &bytes)) return CLADE_FAIL(OVERFLOW, "%s: %s is too large", r->where, r->way);
  *list = clade__arena_new(r->arena, bytes);
  if (!*list) return CLADE_NO_MEMORY;
  memset(*list, 0, bytes);
  memcpy(out + f->at, list, sizeof *list);
  memcpy(out + f->n_at, &n, sizeof n);
  return CLADE_OK;
}

static clade_status read_list(reader *r, const json_t *json, const clade__field *f, char *out) {
  char *list;
  if (!json_is_array(json)) return wrong(r, "a list");
  CLADE_TRY(new_list(r, json_array_size(json), f, out, &list));
  for (size_t i = 0; i < json_array_size(json); i++) {
    const json_t *one = json_array_get(json, i);
    const clade__field text = {.kind = CLADE__FIELD_TEXT};
    size_t before = push(r, "[%zu]", i);
    CLADE_TRY(f->fields ? read_object(r, one, f->fields, list + i * f->size)
                        : read_text(r, one, &text, (const char **)(void *)(list + i * f->size)));
    pop(r, before);
  }
  return CLADE_OK;
}

static clade_status read_pairs(reader *r, json_t *json, const clade__field *f, char *out) {
  const clade__field text = {.kind = CLADE__FIELD_TEXT};
  const char *name;
  json_t *value;
  char *list;
  if (!json_is_object(json)) return wrong(r, "an object");
  CLADE_TRY(new_list(r, json_object_size(json), f, out, &list));
  const char **pair = (const char **)(void *)list;
  json_object_foreach(json, name, value) {
    size_t before = push_name(r, name);
    if (!*name || strlen(name) > 64 || !is_plain(name)) return wrong(r, "a name of 1 to 64 letters");
    pair[0] = clade__arena_text(r->arena, name);
    if (!pair[0]) return CLADE_NO_MEMORY;
    CLADE_TRY(read_text(r, value, &text, &pair[1]));
    pop(r, before);
    pair += 2;
  }
  return CLADE_OK;
}

static clade_status read_field(reader *r, json_t *json, const clade__field *f, char *out) {
  void *to = out + f->at;
  switch (f->kind) {
  case CLADE__FIELD_TEXT:
  case CLADE__FIELD_HEX: return read_text(r, json, f, to);
  case CLADE__FIELD_COUNT: return read_count(r, json, f->most, to);
  case CLADE__FIELD_TRIPLE: return read_triple(r, json, f->most, to);
  case CLADE__FIELD_NUMBER: return read_number(r, json, to);
  case CLADE__FIELD_CHOICE: return read_choice(r, json, f->choices, to);
  case CLADE__FIELD_OBJECT: return read_object(r, json, f->fields, to);
  case CLADE__FIELD_LIST: return read_list(r, json, f, out);
  case CLADE__FIELD_PAIRS: return read_pairs(r, json, f, out);
  }
  return CLADE_FAIL(INTERNAL, "a field of kind %d", (int)f->kind);
}

static clade_status read_object(reader *r, const json_t *json, const clade__field *fields, char *out) {
  size_t known = 0;
  if (!json_is_object(json)) return wrong(r, "an object");
  for (const clade__field *f = fields; f->name; f++) {
    json_t *value = json_object_get(json, f->name);
    size_t before = push_name(r, f->name);
    if (!value && f->needed) return CLADE_FAIL(CORRUPT, "%s: %s is missing", r->where, r->way);
    if (value) CLADE_TRY(read_field(r, value, f, out));
    known += value != NULL;
    pop(r, before);
  }
  if (known == json_object_size(json)) return CLADE_OK;
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)json, name, value) {
    const clade__field *f = fields;
    while (f->name && strcmp(f->name, name)) f++;
    if (f->name) continue;
    if (!is_plain(name)) name = "a name that is no text";
    push_name(r, name);
    break;
  }
  return CLADE_FAIL(CORRUPT, "%s: %s is not known to this version", r->where, r->way);
}

clade_status clade__schema_read(const char *where, const json_t *json, const clade__field *fields, clade__arena *arena,
                                void *out) {
  reader r = {.where = where, .arena = arena};
  return read_object(&r, json, fields, out);
}
