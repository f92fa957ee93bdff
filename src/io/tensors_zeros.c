/* Compact storage of tensors with many zeros, such as pruned weights: a bit for each element (the first is the
 * lowest bit of the first byte) that is 1 if the element is stored, followed by the stored elements. */
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

static clade_status wrong(const char *path, const clade__tensor *tensor, const char *what) {
  return CLADE_FAIL(CORRUPT, "%s: tensor \"%s\", in which zeros are left out: %s", path, tensor->name, what);
}

clade_status clade__zeros_entry(const char *path, const clade__tensors *t, clade__tensor *tensor) {
  const char *text;
  clade_type type = {0};
  CLADE_TRY(clade__tensors_key(t, CLADE__META_ZEROS, tensor->name, &text));
  if (!text) return CLADE_OK;
  if (tensor->dtype != CLADE_U8 || tensor->shape.rank != 1) return wrong(path, tensor, "it is no row of bytes");
  if (!clade__tensors_type(text, &type, &tensor->type)) return wrong(path, tensor, "its type and shape are none");
  clade_status status = clade__dtype_element(type.dtype, &tensor->packed);
  if (status == CLADE_OK) status = clade_type_bytes(&type, &tensor->bytes);
  if (status != CLADE_OK) return clade__fail_in(status, "%s: tensor \"%s\"", path, tensor->name);
  tensor->dtype = type.dtype;
  tensor->shape = type.shape;
  if ((tensor->bytes / tensor->packed + 7) / 8 <= tensor->stored_bytes) return CLADE_OK;
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
