/* Tensors: values that a program holds in its hands, on the host or on a device. */
#ifndef CLADE_TENSOR_H
#define CLADE_TENSOR_H

#include <clade/device.h>

CLADE_BEGIN_DECLS

typedef struct clade_tensor clade_tensor; /* counted */

/* Dense, constant shape, contents zero. device NULL: on the host. */
CLADE_API clade_status clade_tensor_new(clade_device *device, clade_dtype dtype, clade_shape shape, clade_tensor **out);
CLADE_API clade_tensor *clade_tensor_retain(clade_tensor *tensor);
CLADE_API void clade_tensor_release(clade_tensor *tensor); /* NULL is fine */

CLADE_API clade_type clade_tensor_type(const clade_tensor *tensor);
CLADE_API size_t clade_tensor_bytes(const clade_tensor *tensor);
CLADE_API clade_device *clade_tensor_device(const clade_tensor *tensor); /* borrowed; NULL on the host */
CLADE_API void *clade_tensor_data(clade_tensor *tensor);                 /* NULL on a device */

/* Both wait. `bytes` must be the tensor's. */
CLADE_API clade_status clade_tensor_write(clade_tensor *tensor, const void *src, size_t bytes);
CLADE_API clade_status clade_tensor_read(const clade_tensor *tensor, void *dst, size_t bytes);

CLADE_END_DECLS
#endif
