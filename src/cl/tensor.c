/* Tensors on hosts and devices: dense memory with a type. */
#include "cl/internal.h"

#include <inttypes.h>

struct clade_tensor {
  clade__ref ref;
  clade_type type;
  size_t bytes;
  void *data;            /* host tensors */
  clade__buffer *buffer; /* device tensors */
  size_t offset;
};

static const char null_tensor[] = "the tensor is NULL";

static clade_status make(clade_dtype dtype, clade_shape shape, clade_tensor **out) {
  clade_tensor *t = clade__new(1, sizeof *t);
  if (!t) return CLADE_NO_MEMORY;
  clade__ref_init(&t->ref);
  t->type = (clade_type){.dtype = dtype, .shape = shape};
  clade_status status = clade_type_bytes(&t->type, &t->bytes);
  if (status != CLADE_OK) {
    clade__free(t);
    return status;
  }
  *out = t;
  return CLADE_OK;
}

static clade_status zero(clade__buffer *buffer) {
  static const unsigned char nothing[16];
  size_t bytes = clade__buffer_bytes(buffer), many = bytes / 16 * 16;
  clade_device *device = clade__buffer_device(buffer);
  clade__queue *queue;
  CLADE_TRY(clade__transfer(device, &queue));
  if (many) CLADE_TRY(clade__queue_fill(queue, buffer, 0, many, nothing, 16, (clade__wait){0}, NULL));
  /* Blocking even for zero bytes, so that the tensor is complete on return. */
  return clade__queue_write(queue, buffer, many, nothing, bytes - many, true, (clade__wait){0}, NULL);
}

static clade_status give_memory(clade_device *device, clade_tensor *t) {
  if (!device) {
    t->data = clade__new(CLADE_MAX(t->bytes, (size_t)1), 1);
    return t->data ? CLADE_OK : CLADE_NO_MEMORY;
  }
  CLADE_TRY(clade__buffer_new(device, t->bytes, "a tensor", &t->buffer));
  return zero(t->buffer);
}

clade_status clade_tensor_new(clade_device *device, clade_dtype dtype, clade_shape shape, clade_tensor **out) {
  const char *function = "clade_tensor_new";
  if (!out) return CLADE_FAIL(INVALID, "%s: out is NULL", function);
  *out = NULL;
  if (device) CLADE_TRY(clade__device_check(device, function));
  clade_tensor *t = NULL;
  clade_status status = make(dtype, shape, &t);
  if (status == CLADE_OK) status = give_memory(device, t);
  if (status != CLADE_OK) {
    clade_tensor_release(t);
    return clade__fail_in(status, "%s", function);
  }
  *out = t;
  return CLADE_OK;
}

static clade_status wrap(clade_device *device, cl_mem memory, size_t offset, clade_tensor *t) {
  size_t end, element;
  CLADE_TRY(clade_dtype_bytes(t->type.dtype, 1, &element)); /* bytes of a block if elements share one */
  CLADE_TRY(clade__buffer_adopt(device, memory, &t->buffer));
  size_t has = clade__buffer_bytes(t->buffer);
  if (offset % element)
    return CLADE_FAIL(INVALID, "offset %zu is no multiple of the element's %zu bytes", offset, element);
  if (!clade__add(offset, t->bytes, &end) || end > has)
    return CLADE_FAIL(INVALID, "%zu bytes from %zu on, of a buffer of %zu", t->bytes, offset, has);
  t->offset = offset;
  return CLADE_OK;
}

clade_status clade_tensor_wrap(clade_device *device, cl_mem memory, size_t offset, clade_dtype dtype, clade_shape shape,
                               clade_tensor **out) {
  const char *function = "clade_tensor_wrap";
  if (!out) return CLADE_FAIL(INVALID, "%s: out is NULL", function);
  *out = NULL;
  CLADE_TRY(clade__device_check(device, function));
  clade_tensor *t = NULL;
  clade_status status = make(dtype, shape, &t);
  if (status == CLADE_OK) status = wrap(device, memory, offset, t);
  if (status != CLADE_OK) {
    clade_tensor_release(t);
    return clade__fail_in(status, "%s", function);
  }
  *out = t;
  return CLADE_OK;
}

clade_tensor *clade_tensor_retain(clade_tensor *tensor) {
  if (tensor) clade__ref_up(&tensor->ref);
  return tensor;
}

void clade_tensor_release(clade_tensor *tensor) {
  if (!tensor || !clade__ref_down(&tensor->ref)) return;
  clade__buffer_release(tensor->buffer);
  clade__free(tensor->data);
  clade__free(tensor);
}

clade_type clade_tensor_type(const clade_tensor *tensor) { return tensor ? tensor->type : (clade_type){0}; }
size_t clade_tensor_bytes(const clade_tensor *tensor) { return tensor ? tensor->bytes : 0; }
clade_device *clade_tensor_device(const clade_tensor *tensor) {
  return tensor && tensor->buffer ? clade__buffer_device(tensor->buffer) : NULL;
}
void *clade_tensor_data(clade_tensor *tensor) { return tensor ? tensor->data : NULL; }

clade__buffer *clade__tensor_buffer(const clade_tensor *tensor, size_t *offset) {
  *offset = tensor ? tensor->offset : 0;
  return tensor ? tensor->buffer : NULL;
}

cl_mem clade_tensor_mem(const clade_tensor *tensor, size_t *offset) {
  size_t at;
  clade__buffer *buffer = clade__tensor_buffer(tensor, &at);
  if (offset) *offset = at;
  return buffer ? clade__buffer_mem(buffer) : NULL;
}

static clade_status check_host(const char *function, const clade_tensor *tensor, const void *host, size_t bytes) {
  if (!tensor) return CLADE_FAIL(INVALID, "%s: %s", function, null_tensor);
  if (bytes != tensor->bytes)
    return CLADE_FAIL(INVALID, "%s: %zu bytes given, the tensor has %zu", function, bytes, tensor->bytes);
  if (!host && bytes) return CLADE_FAIL(INVALID, "%s: the host's memory is NULL", function);
  return CLADE_OK;
}

clade_status clade_tensor_write(clade_tensor *tensor, const void *src, size_t bytes) {
  CLADE_TRY(check_host("clade_tensor_write", tensor, src, bytes));
  if (bytes == 0) return CLADE_OK;
  if (tensor->data) {
    memcpy(tensor->data, src, bytes);
    return CLADE_OK;
  }
  clade__queue *queue;
  CLADE_TRY(clade__transfer(clade__buffer_device(tensor->buffer), &queue));
  return clade__queue_write(queue, tensor->buffer, tensor->offset, src, bytes, true, (clade__wait){0}, NULL);
}

clade_status clade_tensor_read(const clade_tensor *tensor, void *dst, size_t bytes) {
  CLADE_TRY(check_host("clade_tensor_read", tensor, dst, bytes));
  if (bytes == 0) return CLADE_OK;
  if (tensor->data) {
    memcpy(dst, tensor->data, bytes);
    return CLADE_OK;
  }
  clade__queue *queue;
  CLADE_TRY(clade__transfer(clade__buffer_device(tensor->buffer), &queue));
  return clade__queue_read(queue, tensor->buffer, tensor->offset, dst, bytes, true, (clade__wait){0}, NULL);
}
