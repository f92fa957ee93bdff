/* Writes a struct as JSON, by the same table of fields. */
#include "base/file.h"
#include "bundle/schema.h"

static uint64_t count_at(const char *from) {
  uint64_t value;
  memcpy(&value, from, sizeof value);
  return value;
}

static json_t *count_json(const char *from) { return json_integer((json_int_t)count_at(from)); }

static json_t *text_json(const char *from) {
  const char *text;
  memcpy(&text, from, sizeof text);
  return json_string(text ? text : "");
}

static json_t *choice_json(const clade__field *f, const char *from) {
  int index;
  memcpy(&index, from, sizeof index);
  return json_string(f->choices[index]);
}

static json_t *number_json(const char *from) {
  double value;
  memcpy(&value, from, sizeof value);
  return json_real(value);
}

/* Appends `one` and takes it over; NULL if an argument is NULL. */
static json_t *appended(json_t *list, json_t *one) {
  if (list && one && json_array_append_new(list, one) == 0) return list;
  if (!list) json_decref(one);
  json_decref(list);
  return NULL;
}

static json_t *triple_json(const char *from) {
  json_t *list = json_array();
  for (size_t i = 0; list && i < 3; i++) list = appended(list, count_json(from + i * sizeof(uint64_t)));
  return list;
}

static json_t *list_json(const clade__field *f, const char *from) {
  const char *list;
  size_t n;
  json_t *json = json_array();
  memcpy(&list, from + f->at, sizeof list);
  memcpy(&n, from + f->n_at, sizeof n);
  for (size_t i = 0; json && i < n; i++) {
    const char *one = list + i * f->size;
    json = appended(json, f->fields ? clade__schema_write(f->fields, one) : text_json(one));
  }
  return json;
}

static json_t *pairs_json(const clade__field *f, const char *from) {
  const char **pair;
  size_t n;
  json_t *json = json_object();
  memcpy(&pair, from + f->at, sizeof pair);
  memcpy(&n, from + f->n_at, sizeof n);
  for (size_t i = 0; json && i < n; i++, pair += 2)
    if (json_object_set_new(json, pair[0], json_string(pair[1]))) json_decref(json), json = NULL;
  return json;
}

static size_t bytes_of(const clade__field *f) {
  switch (f->kind) {
  case CLADE__FIELD_TEXT:
  case CLADE__FIELD_HEX: return sizeof(const char *);
  case CLADE__FIELD_COUNT: return sizeof(uint64_t);
  case CLADE__FIELD_TRIPLE: return 3 * sizeof(uint64_t);
  case CLADE__FIELD_NUMBER: return sizeof(double);
  case CLADE__FIELD_CHOICE: return sizeof(int);
  case CLADE__FIELD_OBJECT: return f->size;
  case CLADE__FIELD_LIST:
  case CLADE__FIELD_PAIRS: break;
  }
  return 0;
}

static bool is_absent(const clade__field *f, const char *from) {
  bool list = f->kind == CLADE__FIELD_LIST || f->kind == CLADE__FIELD_PAIRS;
  if (f->needed) return false;
  return list ? clade__are_zero(from + f->n_at, sizeof(size_t)) : clade__are_zero(from + f->at, bytes_of(f));
}

static json_t *field_json(const clade__field *f, const char *from) {
  switch (f->kind) {
  case CLADE__FIELD_TEXT:
  case CLADE__FIELD_HEX: return text_json(from + f->at);
  case CLADE__FIELD_COUNT: return count_json(from + f->at);
  case CLADE__FIELD_TRIPLE: return triple_json(from + f->at);
  case CLADE__FIELD_NUMBER: return number_json(from + f->at);
  case CLADE__FIELD_CHOICE: return choice_json(f, from + f->at);
  case CLADE__FIELD_OBJECT: return clade__schema_write(f->fields, from + f->at);
  case CLADE__FIELD_LIST: return list_json(f, from);
  case CLADE__FIELD_PAIRS: return pairs_json(f, from);
  }
  return NULL;
}

json_t *clade__schema_write(const clade__field *fields, const void *from) {
  json_t *json = json_object();
  for (const clade__field *f = fields; json && f->name; f++) {
    if (is_absent(f, from)) continue;
    if (json_object_set_new(json, f->name, field_json(f, from))) json_decref(json), json = NULL;
  }
  return json;
}
