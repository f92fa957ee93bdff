/* Tensors whose elements share blocks, which safetensors does not define: rows of bytes, with type and shape in the
 * metadata. */
#include "io/io.h"

static clade_status wrong(const char *path, const clade__tensor *tensor, const char *what) {
  return CLADE_FAIL(CORRUPT, "%s: tensor \"%s\", whose elements share blocks: %s", path, tensor->name, what);
}

clade_status clade__blocks_entry(const char *path, const clade__tensors *t, clade__tensor *tensor) {
  const char *text;
  clade_type type = {0};
  size_t bytes;
  CLADE_TRY(clade__tensors_key(t, CLADE__META_BLOCKS, tensor->name, &text));
  if (!text) return CLADE_OK;
  if (tensor->dtype != CLADE_U8 || tensor->shape.rank != 1) return wrong(path, tensor, "it is no row of bytes");
  if (!clade__tensors_type(text, &type, &tensor->type) || !clade__has_blocks(type.dtype))
    return wrong(path, tensor, "its type and shape are none");
  clade_status status = clade_type_bytes(&type, &bytes);
  if (status != CLADE_OK) return clade__fail_in(status, "%s: tensor \"%s\"", path, tensor->name);
  if (bytes != tensor->stored_bytes) return wrong(path, tensor, "its shape takes another number of bytes");
  tensor->dtype = type.dtype;
  tensor->shape = type.shape;
  return CLADE_OK;
}
