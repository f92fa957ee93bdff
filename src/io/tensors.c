/* The safetensors format: eight bytes of length, a JSON header of names, types, shapes and offsets, and contiguous
 * data. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/json.h"
#include "io/io.h"

enum { LENGTH = 8, SMALLEST_HEADER = 2 };
static const char METADATA[] = "__metadata__";

/* Types of safetensors that Clade lacks; such tensors are skipped if no variable needs them. */
typedef struct foreign {
  const char *name;
  size_t bytes;
} foreign;
static const foreign foreigners[] = {{"F64", 8}, {"I16", 2}, {"U16", 2}, {"U32", 4}, {"U64", 8}, {"F8_E5M2", 1}};

typedef struct entry {
  const char *path, *name;
  json_t *value;
} entry;

static clade_status wrong(const entry *e, const char *what) {
  return CLADE_FAIL(CORRUPT, "%s: tensor \"%s\": %s", e->path, e->name, what);
}

/* Reads a list of `*n` sizes; if *n exceeds `most`, only `most`. */
static clade_status sizes(const entry *e, const char *key, size_t most, int64_t *out, size_t *n) {
  json_t *list = json_object_get(e->value, key);
  *n = json_array_size(list);
  if (!json_is_array(list) || *n > most)
    return CLADE_FAIL(CORRUPT, "%s: tensor \"%s\": \"%s\" is no list of at most %zu sizes", e->path, e->name, key,
                      most);
  for (size_t i = 0; i < *n; i++) {
    json_t *size = json_array_get(list, i);
    if (!json_is_integer(size) || json_integer_value(size) < 0)
      return CLADE_FAIL(CORRUPT, "%s: tensor \"%s\": number %zu of \"%s\" is no size", e->path, e->name, i, key);
    out[i] = json_integer_value(size);
  }
  return CLADE_OK;
}

/* Finds Clade's type, or CLADE_DTYPE_NONE and the size of an element. */
static clade_status find_type(const entry *e, clade__tensor *out, size_t *bytes) {
  out->type = json_string_value(json_object_get(e->value, "dtype"));
  if (!out->type) return wrong(e, "\"dtype\" is no text");
  while ((out->dtype = clade__dtype_next(out->dtype)))
    if (!strcmp(clade__dtype_row(out->dtype)->tensors, out->type) && !clade__has_blocks(out->dtype)) return CLADE_OK;
  for (size_t i = 0; i < CLADE_COUNT(foreigners); i++)
    if (!strcmp(foreigners[i].name, out->type)) {
      *bytes = foreigners[i].bytes;
      return CLADE_OK;
    }
  return CLADE_FAIL(DTYPE, "%s: tensor \"%s\": nothing is known of the type \"%.32s\"", e->path, e->name, out->type);
}

static clade_status read_entry(const entry *e, size_t bytes, clade__tensor *out) {
  int64_t place[2], elements;
  size_t n, rank, bytes_each = 0, want;
  if (!json_is_object(e->value)) return wrong(e, "it is described by no object");
  *out = (clade__tensor){.name = e->name};
  CLADE_TRY(find_type(e, out, &bytes_each));
  CLADE_TRY(sizes(e, "shape", CLADE_MAX_RANK, out->shape.dim, &rank));
  CLADE_TRY(sizes(e, "data_offsets", 2, place, &n));
  if (n != 2 || place[0] > place[1] || (uint64_t)place[1] > bytes)
    return CLADE_FAIL(CORRUPT, "%s: tensor \"%s\": \"data_offsets\" is no range of the %zu bytes of data", e->path,
                      e->name, bytes);
  out->shape.rank = (int)rank;
  out->place = (size_t)place[0];
  out->bytes = out->stored_bytes = (size_t)(place[1] - place[0]);
  clade_status status = clade_shape_elements(&out->shape, &elements);
  if (status != CLADE_OK) return clade__fail_in(status, "%s: tensor \"%s\"", e->path, e->name);
  bool counted = out->dtype ? clade_dtype_bytes(out->dtype, elements, &want) == CLADE_OK
                            : clade__mul((size_t)elements, bytes_each, &want);
  if (!counted || want != out->bytes)
    return CLADE_FAIL(CORRUPT, "%s: tensor \"%s\": %zu bytes of data, and %" PRId64 " elements of %s", e->path, e->name,
                      out->bytes, elements, out->type);
  return CLADE_OK;
}

static int by_place(const void *a, const void *b) {
  const clade__tensor *x = a, *y = b;
  if (x->place != y->place) return x->place < y->place ? -1 : 1;
  return x->stored_bytes < y->stored_bytes ? -1 : x->stored_bytes > y->stored_bytes;
}

static clade_status check_places(const char *path, const clade__tensors *t, size_t bytes) {
  size_t at = 0;
  for (size_t i = 0; i < t->n; i++) {
    if (t->at[i].place != at)
      return CLADE_FAIL(CORRUPT, "%s: tensor \"%s\" begins at byte %zu of the data, where %zu %s", path, t->at[i].name,
                        t->at[i].place, at, t->at[i].place < at ? "are taken by those before" : "would leave no hole");
    at += t->at[i].stored_bytes;
  }
  if (at == bytes) return CLADE_OK;
  return CLADE_FAIL(CORRUPT, "%s: its tensors take %zu bytes, and %zu follow its header", path, at, bytes);
}

static clade_status check_metadata(const char *path, json_t *metadata) {
  const char *key;
  json_t *value;
  if (!json_is_object(metadata)) return CLADE_FAIL(CORRUPT, "%s: \"%s\" is no object", path, METADATA);
  json_object_foreach(metadata, key, value) {
    if (!json_is_string(value))
      return CLADE_FAIL(CORRUPT, "%s: \"%s\": the value of \"%.64s\" is no text", path, METADATA, key);
  }
  return CLADE_OK;
}

static clade_status read_entries(const char *path, clade__tensors *t, size_t bytes) {
  const char *name;
  json_t *value;
  if (json_object_size(t->header) > CLADE__TENSORS_MOST)
    return CLADE_FAIL(CORRUPT, "%s: its header has %zu tensors; at most %d are read", path, json_object_size(t->header),
                      CLADE__TENSORS_MOST);
  t->at = clade__new(json_object_size(t->header), sizeof *t->at);
  if (!t->at) return clade__fail_in(CLADE_NO_MEMORY, "%s", path);
  json_object_foreach(t->header, name, value) {
    if (!strcmp(name, METADATA)) {
      CLADE_TRY(check_metadata(path, value));
      continue;
    }
    CLADE_TRY(read_entry(&(entry){path, name, value}, bytes, &t->at[t->n]));
    t->n++;
  }
  qsort(t->at, t->n, sizeof *t->at, by_place);
  for (size_t i = 0; i < t->n; i++)
    CLADE_TRY(clade__map_put(&t->by_name, clade__hash_bytes(t->at[i].name, strlen(t->at[i].name)), i));
  CLADE_TRY(check_places(path, t, bytes));
  for (size_t i = 0; i < t->n; i++) {
    CLADE_TRY(clade__zeros_entry(path, t, &t->at[i]));
    CLADE_TRY(clade__blocks_entry(path, t, &t->at[i]));
  }
  return CLADE_OK;
}

static clade_status read_length(clade__cursor *c, uint64_t *out) {
  const unsigned char *length;
  CLADE_TRY(clade__take(c, LENGTH, "header's length", &length));
  *out = clade__little(length, LENGTH);
  if (*out >= SMALLEST_HEADER && *out <= CLADE__TENSORS_HEADER) return CLADE_OK;
  return CLADE_FAIL(CORRUPT, "%s: a header of %" PRIu64 " bytes; safetensors has %d to %d", c->path, *out,
                    SMALLEST_HEADER, CLADE__TENSORS_HEADER);
}

static clade_status read_header(clade__cursor *c, json_t **out) {
  const unsigned char *text;
  json_error_t error;
  uint64_t bytes;
  CLADE_TRY(read_length(c, &bytes));
  CLADE_TRY(clade__take(c, (size_t)bytes, "header", &text));
  if (*text != '{') return CLADE_FAIL(CORRUPT, "%s: its header does not begin with '{'", c->path);
  *out = clade__json_load(text, (size_t)bytes, &error);
  if (*out) return CLADE_OK;
  if (!*error.text || json_error_code(&error) == json_error_out_of_memory) /* jansson reports both errors alike */
    return CLADE_FAIL(NO_MEMORY, "%s: no memory for its header of %" PRIu64 " bytes", c->path, bytes);
  return CLADE_FAIL(CORRUPT, "%s: its header is no JSON: %s (byte %d)", c->path, error.text, error.position);
}

static clade_status take_data(const char *path, clade__tensors *t, const unsigned char *data) {
  for (size_t i = 0; i < t->n; i++) {
    clade__tensor *tensor = &t->at[i];
    tensor->data = tensor->stored = data + tensor->place;
    if (tensor->packed) CLADE_TRY(clade__zeros_unpack(path, tensor));
    if (tensor->dtype == CLADE_BOOL) CLADE_TRY(clade__truths_check(path, tensor->data, tensor->bytes, tensor->place));
  }
  return CLADE_OK;
}

clade_status clade__tensors_parse(const char *path, clade__bytes *file, clade__tensors *out) {
  clade_status status;
  *out = (clade__tensors){.file = *file};
  clade__cursor c = {path, file->data, file->n, 0};
  *file = (clade__bytes){0};
  CLADE_GOTO(read_header(&c, &out->header));
  CLADE_GOTO(read_entries(path, out, c.n - c.at));
  CLADE_GOTO(take_data(path, out, c.data + c.at));
  return CLADE_OK;
fail:
  clade__tensors_free(out);
  return status;
}

/* Reads the header's length first: it may be any number. */
static clade_status header_bytes(const clade__file *file, uint64_t *out) {
  clade__bytes head;
  CLADE_TRY(clade__file_head(file, LENGTH, &head));
  clade_status status = read_length(&(clade__cursor){file->path, head.data, head.n, 0}, out);
  clade__free(head.data);
  CLADE_TRY(status);
  if (*out <= file->bytes - LENGTH) return CLADE_OK;
  return CLADE_FAIL(CORRUPT,
                    "%s ends in its header: %" PRIu64 " bytes are wanted from byte %d on, %" PRIu64 " are there",
                    file->path, *out, LENGTH, file->bytes - LENGTH);
}

clade_status clade__tensors_head(const clade__file *file, clade__tensors *out) {
  clade_status status;
  uint64_t bytes;
  *out = (clade__tensors){0};
  CLADE_TRY(header_bytes(file, &bytes));
  CLADE_TRY(clade__file_head(file, LENGTH + bytes, &out->file));
  CLADE_GOTO(read_header(&(clade__cursor){file->path, out->file.data, out->file.n, 0}, &out->header));
  CLADE_GOTO(read_entries(file->path, out, (size_t)(file->bytes - out->file.n)));
  return CLADE_OK;
fail:
  clade__tensors_free(out);
  return status;
}

static clade_status judge(const clade__file *file, const void *unused) {
  (void)unused;
  clade__tensors tensors;
  CLADE_TRY(clade__tensors_head(file, &tensors));
  clade__tensors_free(&tensors);
  return CLADE_OK;
}

clade_status clade__tensors_read(const char *path, clade__bytes *out) {
  return clade__file_read_judged(path, UINT64_MAX, judge, NULL, out);
}

void clade__tensors_free(clade__tensors *t) {
  for (size_t i = 0; i < t->n; i++) clade__free(t->at[i].unpacked);
  clade__free(t->at);
  clade__map_free(&t->by_name);
  json_decref(t->header);
  clade__free(t->file.data);
  *t = (clade__tensors){0};
}

const clade__tensor *clade__tensors_find(const clade__tensors *t, const char *name) {
  size_t i;
  return clade__map_get(&t->by_name, clade__hash_bytes(name, strlen(name)), &i) ? &t->at[i] : NULL;
}

const char *clade__tensors_metadata(const clade__tensors *t, const char *key) {
  return json_string_value(json_object_get(json_object_get(t->header, METADATA), key));
}

clade_status clade__tensors_key(const clade__tensors *t, const char *prefix, const char *name, const char **value) {
  clade__text text = {0};
  char *key;
  clade__text_add(&text, "%s%s", prefix, name);
  CLADE_TRY(clade__text_take(&text, &key));
  *value = clade__tensors_metadata(t, key);
  clade__free(key);
  return CLADE_OK;
}

bool clade__tensors_type(const char *text, clade_type *type, const char **name) {
  const size_t n = strcspn(text, " ");
  *type = (clade_type){0};
  while ((type->dtype = clade__dtype_next(type->dtype))) {
    *name = clade__dtype_row(type->dtype)->tensors;
    if (strlen(*name) == n && !strncmp(*name, text, n)) break;
  }
  for (const char *at = text + n; *at;) {
    char *end;
    if (*at != ' ' || at[1] < '0' || at[1] > '9' || type->shape.rank == CLADE_MAX_RANK) return false;
    type->shape.dim[type->shape.rank++] = strtoll(at + 1, &end, 10);
    at = end;
  }
  return type->dtype;
}
