/* Tensors: arrays that a program holds itself, on the host or on a device. */
#ifndef CLADE_TENSOR_H
#define CLADE_TENSOR_H

#include <clade/device.h>

CLADE_BEGIN_DECLS

/* An array of a constant shape. Reference-counted. */
typedef struct clade_tensor clade_tensor;

/* Makes a dense tensor of zeros, on a device or, if `device` is NULL, on the host. */
CLADE_API clade_status clade_tensor_new(clade_device *device, clade_dtype dtype, clade_shape shape, clade_tensor **out);
/* Adds and drops a reference; NULL may be released. */
CLADE_API clade_tensor *clade_tensor_retain(clade_tensor *tensor);
CLADE_API void clade_tensor_release(clade_tensor *tensor);

CLADE_API clade_type clade_tensor_type(const clade_tensor *tensor);      /* element type, layout and shape */
CLADE_API size_t clade_tensor_bytes(const clade_tensor *tensor);         /* size in memory */
CLADE_API clade_device *clade_tensor_device(const clade_tensor *tensor); /* borrowed; NULL on the host */
CLADE_API void *clade_tensor_data(clade_tensor *tensor);                 /* the elements; NULL on a device */

/* Copies the contents from or to host memory, and waits. `bytes` must be the tensor's size. */
CLADE_API clade_status clade_tensor_write(clade_tensor *tensor, const void *src, size_t bytes);
CLADE_API clade_status clade_tensor_read(const clade_tensor *tensor, void *dst, size_t bytes);

CLADE_END_DECLS
#endif
