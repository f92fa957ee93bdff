/* Writes variables as a safetensors file: the data, one variable at a time, and finally the header with checksums. */
#include <stdlib.h>

#include <jansson.h>

#include "io/io.h"

enum { ALIGN = 8, LENGTH = 8 };

typedef struct item {
  const char *name;
  const clade__foreign_var *foreign; /* NULL: this rank has the whole variable */
  clade_type type;
  size_t element, bytes, stored, offset; /* stored: bytes in the file */
  bool packed;                           /* zeros are omitted in the file */
  bool blocks;                           /* elements share blocks */
  char digits[CLADE__DIGITS + 1];
} item;
typedef struct plan {
  item *at;
  size_t n, largest;
} plan;

/* Order: unpacked before packed, then descending size of elements, which aligns them, then name. */
static int by_element(const void *a, const void *b) {
  const item *x = a, *y = b;
  if (x->packed != y->packed) return x->packed ? 1 : -1;
  if (x->element != y->element) return x->element > y->element ? -1 : 1;
  return strcmp(x->name, y->name);
}

/* Omits zeros if that is smaller; floats only. */
static clade_status try_packing(const clade_vars *vars, item *one) {
  if (!clade__is_float(one->type.dtype) || clade__has_blocks(one->type.dtype) || one->foreign || !one->bytes)
    return CLADE_OK;
  void *data = clade__new(one->bytes, 1);
  clade_status status = data ? clade_vars_get(vars, one->name, data, one->bytes) : CLADE_NO_MEMORY;
  const size_t least = status == CLADE_OK ? clade__zeros_bytes(data, one->bytes / one->element, one->element) : 0;
  clade__free(data);
  CLADE_TRY(status);
  one->packed = least < one->bytes;
  if (one->packed) one->stored = least;
  return CLADE_OK;
}

static clade_status add_item_of(plan *out, item one, const clade_vars *packing) {
  if (!strcmp(one.name, "__metadata__"))
    return CLADE_FAIL(INVALID,
                      "a variable with the name __metadata__ cannot be written: safetensors means another thing");
  memset(one.digits, '0', CLADE__DIGITS);
  CLADE_TRY(clade_type_bytes(&one.type, &one.bytes));
  one.blocks = clade__has_blocks(one.type.dtype);
  one.element = 1; /* blocks need no alignment */
  if (!one.blocks) CLADE_TRY(clade__dtype_element(one.type.dtype, &one.element));
  one.stored = one.bytes;
  if (packing) CLADE_TRY(try_packing(packing, &one));
  out->largest = CLADE_MAX(out->largest, one.bytes);
  out->at[out->n++] = one;
  return CLADE_OK;
}

static clade_status make_plan(const clade_vars *vars, const clade__vars_written *how, plan *out) {
  const clade__foreign *foreign = how->foreign;
  const int count = clade_vars_count(vars), others = foreign ? foreign->n : 0;
  size_t offset = 0;
  out->at = clade__new((size_t)count + (size_t)others, sizeof *out->at);
  if (!out->at) return CLADE_NO_MEMORY;
  for (int i = 0; i < count; i++) {
    clade_port_info info = {.size = sizeof info};
    CLADE_TRY(clade_vars_describe(vars, i, &info));
    if (how->weights_only && !strncmp(info.name, CLADE__OPTIMIZER, strlen(CLADE__OPTIMIZER))) continue;
    if (clade__vars_is_part(vars, info.name)) {
      if (foreign) continue;
      return CLADE_FAIL(UNSUPPORTED, "variable %s is a part of one that ranks share out: a training writes it whole",
                        info.name);
    }
    CLADE_TRY(add_item_of(out, (item){.name = info.name, .type = info.type}, how->pack_zeros ? vars : NULL));
  }
  for (int i = 0; i < others; i++) {
    const clade__foreign_var *var = &foreign->at[i];
    CLADE_TRY(add_item_of(out, (item){.name = var->name, .foreign = var, .type = var->type}, NULL));
  }
  qsort(out->at, out->n, sizeof *out->at, by_element);
  for (size_t i = 0; i < out->n; offset += out->at[i++].stored) out->at[i].offset = offset;
  return CLADE_OK;
}

/* jansson returns NULL or -1 if out of memory or if a text is not UTF-8. */
static bool set(json_t *object, const char *key, json_t *value) { return !json_object_set_new(object, key, value); }

static bool add_text_of(json_t *metadata, const char *prefix, const item *one, const char *value) {
  clade__text key = {0};
  clade__text_add(&key, "%s%s", prefix, one->name);
  const bool good = !key.failed && set(metadata, key.data, json_string(value));
  clade__text_free(&key);
  return good;
}

/* Whether the file stores the tensor as a row of bytes. */
static bool is_row(const item *one) { return one->packed || one->blocks; }

/* Adds the real type and shape to the metadata. */
static bool add_type(json_t *metadata, const item *one) {
  clade__text type = {0};
  if (!is_row(one)) return true;
  clade__text_add(&type, "%s", clade__dtype_row(one->type.dtype)->tensors);
  for (int i = 0; i < one->type.shape.rank; i++) clade__text_add(&type, " %lld", (long long)one->type.shape.dim[i]);
  const bool good =
      !type.failed && add_text_of(metadata, one->packed ? CLADE__META_ZEROS : CLADE__META_BLOCKS, one, type.data);
  clade__text_free(&type);
  return good;
}

static bool add_metadata(json_t *root, const plan *p, size_t n_pairs, const clade__pair *pairs) {
  static const char zeros[] = "00000000000000000000000000000000";
  _Static_assert(sizeof zeros == CLADE__DIGITS + 1, "as many as a checksum has");
  json_t *metadata = json_object();
  bool good = set(root, "__metadata__", metadata) && set(metadata, CLADE__META_CHECK, json_string(zeros)) &&
              set(metadata, CLADE__META_FORMAT, json_string(CLADE__FORMAT));
  for (size_t i = 0; good && i < n_pairs; i++) good = set(metadata, pairs[i].key, json_string(pairs[i].value));
  for (size_t i = 0; good && i < p->n; i++)
    good = add_text_of(metadata, CLADE__META_TENSOR, &p->at[i], p->at[i].digits) && add_type(metadata, &p->at[i]);
  return good;
}

/* Adds a list of sizes; jansson frees a value that it cannot add. */
static bool add_sizes(json_t *object, const char *key, int n, const int64_t *sizes) {
  json_t *list = json_array();
  bool good = set(object, key, list);
  for (int i = 0; good && i < n; i++) good = !json_array_append_new(list, json_integer(sizes[i]));
  return good;
}

static bool add_item(json_t *root, const item *one) {
  const int64_t place[] = {(int64_t)one->offset, (int64_t)(one->offset + one->stored)};
  const clade_shape row = CLADE_SHAPE((int64_t)one->stored), *shape = is_row(one) ? &row : &one->type.shape;
  const clade_dtype dtype = is_row(one) ? CLADE_U8 : one->type.dtype;
  json_t *value = json_object();
  return set(root, one->name, value) && set(value, "dtype", json_string(clade__dtype_row(dtype)->tensors)) &&
         add_sizes(value, "shape", shape->rank, shape->dim) &&
         add_sizes(value, "data_offsets", CLADE_COUNT(place), place);
}

static int add_text(const char *bytes, size_t n, void *text) {
  clade__text_add_bytes(text, bytes, n);
  return ((clade__text *)text)->failed ? -1 : 0;
}

/* Makes the header: length, JSON, padding; not yet sealed. Its size does not depend on the checksums. */
static clade_status make_header(const plan *p, size_t n_pairs, const clade__pair *pairs, clade__text *out) {
  unsigned char length[LENGTH];
  json_t *root = json_object();
  bool good = root && add_metadata(root, p, n_pairs, pairs);
  for (size_t i = 0; good && i < p->n; i++) good = add_item(root, &p->at[i]);
  clade__text_add_bytes(out, "        ", LENGTH);
  good = good && !json_dump_callback(root, add_text, out, JSON_COMPACT);
  json_decref(root);
  if (!good) return CLADE_FAIL(NO_MEMORY, "no memory for a header of %zu tensors", p->n);
  while (out->length % ALIGN && !out->failed) clade__text_add_bytes(out, " ", 1);
  if (out->failed) return CLADE_NO_MEMORY;
  clade__put_little(length, out->length - LENGTH, LENGTH);
  memcpy(out->data, length, LENGTH);
  return CLADE_OK;
}

static clade_status check_pairs(size_t n, const clade__pair *pairs) {
  for (size_t i = 0; i < n; i++)
    if (!clade__is_utf8(pairs[i].value)) return CLADE_FAIL(INVALID, "the text of %s is no UTF-8", pairs[i].key);
  return CLADE_OK;
}

static clade_status write_item(clade__draft *draft, uint64_t start, item *one, const void *data) {
  clade__hash_text(clade__hash_bytes(data, one->stored), one->digits);
  return clade__draft_write_at(draft, start + one->offset, data, one->stored);
}

/* packed: buffer for packed tensors, if there are any. */
static clade_status write_data(const clade_vars *vars, const clade__foreign *foreign, clade__draft *draft,
                               uint64_t start, plan *p, void *room, unsigned char *packed) {
  for (size_t i = 0; i < p->n; i++) {
    item *one = &p->at[i];
    if (one->foreign)
      CLADE_TRY(foreign->read(foreign->user, one->foreign, room, one->bytes));
    else
      CLADE_TRY(clade_vars_get(vars, one->name, room, one->bytes));
    if (one->packed) clade__zeros_pack(room, one->bytes / one->element, one->element, packed);
    CLADE_TRY(write_item(draft, start, one, one->packed ? packed : room));
  }
  return CLADE_OK;
}

clade_status clade__vars_write(const clade_vars *vars, const clade__vars_written *how, clade__draft *draft,
                               size_t n_pairs, const clade__pair *pairs) {
  clade_status status;
  clade__text first = {0}, last = {0};
  plan p = {0};
  void *room = NULL, *packed = NULL;
  CLADE_GOTO(check_pairs(n_pairs, pairs));
  CLADE_GOTO(make_plan(vars, how, &p));
  CLADE_GOTO(make_header(&p, n_pairs, pairs, &first));
  room = clade__new(p.largest, 1);
  if (how->pack_zeros) packed = clade__new(p.largest, 1);
  if (!room || (how->pack_zeros && !packed)) CLADE_GOTO(CLADE_NO_MEMORY);
  CLADE_GOTO(write_data(vars, how->foreign, draft, first.length, &p, room, packed));
  CLADE_GOTO(make_header(&p, n_pairs, pairs, &last));
  clade__tensors_seal((unsigned char *)last.data + LENGTH, last.length - LENGTH);
  CLADE_GOTO(clade__draft_write_at(draft, 0, last.data, last.length));
fail:
  clade__text_free(&first);
  clade__text_free(&last);
  clade__free(p.at);
  clade__free(room);
  clade__free(packed);
  return status;
}
