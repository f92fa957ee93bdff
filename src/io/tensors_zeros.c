/* Tensors of which many elements are 0, as pruned weights are, in less room: a bit for each element, the first in the
 * lowest bit of the first byte, that says whether it is there; then those that are there. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/io.h"

static bool is_zero(const unsigned char *at, size_t element) {
  for (size_t i = 0; i < element; i++)
    if (at[i]) return false;
  return true;
}

size_t clade__zeros_bytes(const void *data, size_t n, size_t element) {
  size_t bytes = (n + 7) / 8;
  for (size_t i = 0; i < n; i++) bytes += is_zero((const unsigned char *)data + i * element, element) ? 0 : element;
  return bytes;
}

void clade__zeros_pack(const void *data, size_t n, size_t element, unsigned char *out) {
  unsigned char *rest = out + (n + 7) / 8;
  memset(out, 0, (n + 7) / 8);
  for (size_t i = 0; i < n; i++) {
    const unsigned char *at = (const unsigned char *)data + i * element;
    if (is_zero(at, element)) continue;
    out[i / 8] |= (unsigned char)(1u << i % 8);
    memcpy(rest, at, element);
    rest += element;
  }
}

/* ---- what a header says of such a tensor ---- */
static clade_status find_key(const clade__tensors *t, const clade__tensor *tensor, const char **value) {
  clade__text text = {0};
  char *key;
  clade__text_add(&text, CLADE__META_ZEROS "%s", tensor->name);
  CLADE_TRY(clade__text_take(&text, &key));
  *value = clade__tensors_metadata(t, key);
  clade__free(key);
  return CLADE_OK;
}

static clade_status wrong(const char *path, const clade__tensor *tensor, const char *what) {
  return CLADE_FAIL(CORRUPT, "%s: tensor \"%s\", in which zeros are left out: %s", path, tensor->name, what);
}

/* "F32 16 6 5 5" */
static bool parse(const char *text, clade_dtype *dtype, const char **type, clade_shape *shape) {
  const size_t n = strcspn(text, " ");
  *dtype = CLADE_DTYPE_NONE;
  *shape = (clade_shape){0};
  while ((*dtype = clade__dtype_next(*dtype))) {
    *type = clade__dtype_row(*dtype)->tensors;
    if (strlen(*type) == n && !strncmp(*type, text, n)) break;
  }
  for (const char *at = text + n; *at;) {
    char *end;
    if (*at != ' ' || at[1] < '0' || at[1] > '9' || shape->rank == CLADE_MAX_RANK) return false;
    shape->dim[shape->rank++] = strtoll(at + 1, &end, 10);
    at = end;
  }
  return *dtype;
}

clade_status clade__zeros_entry(const char *path, const clade__tensors *t, clade__tensor *tensor) {
  const char *text;
  int64_t elements;
  clade_dtype dtype;
  CLADE_TRY(find_key(t, tensor, &text));
  if (!text) return CLADE_OK;
  if (tensor->dtype != CLADE_U8 || tensor->shape.rank != 1) return wrong(path, tensor, "it is no row of bytes");
  if (!parse(text, &dtype, &tensor->type, &tensor->shape)) return wrong(path, tensor, "its type and shape are none");
  tensor->dtype = dtype;
  CLADE_TRY(clade__dtype_element(dtype, &tensor->packed));
  clade_status status = clade_shape_elements(&tensor->shape, &elements);
  if (status == CLADE_OK) status = clade_dtype_bytes(dtype, elements, &tensor->bytes);
  if (status != CLADE_OK) return clade__fail_in(status, "%s: tensor \"%s\"", path, tensor->name);
  if (((size_t)elements + 7) / 8 <= tensor->stored_bytes) return CLADE_OK;
  return wrong(path, tensor, "it has fewer bits than elements");
}

clade_status clade__zeros_unpack(const char *path, clade__tensor *tensor) {
  const size_t element = tensor->packed, n = tensor->bytes / element;
  const unsigned char *at = tensor->stored + (n + 7) / 8, *end = tensor->stored + tensor->stored_bytes;
  unsigned char *out = tensor->unpacked = clade__new(CLADE_MAX(tensor->bytes, (size_t)1), 1);
  if (!out) return clade__fail_in(CLADE_NO_MEMORY, "%s", path);
  for (size_t i = 0; i < n; i++) {
    if (!(tensor->stored[i / 8] >> i % 8 & 1)) continue;
    if ((size_t)(end - at) < element) return wrong(path, tensor, "it has more bits than elements that follow");
    memcpy(out + i * element, at, element);
    at += element;
  }
  tensor->data = out;
  return at == end ? CLADE_OK : wrong(path, tensor, "more elements follow than it has bits");
}
