/* Arrays on the host: allocation, extraction from a file's bytes, conversion of elements. */
#include <inttypes.h>

#include "io/io.h"

void clade_array_free(clade_array *array) {
  if (!array) return;
  clade__free(array->owner);
  *array = (clade_array){0};
}

static clade_status measure(const char *path, clade_dtype dtype, const clade_shape *shape, clade_array *out) {
  int64_t elements;
  *out = (clade_array){.dtype = dtype, .shape = *shape};
  clade_status status = clade_shape_elements(shape, &elements);
  if (status == CLADE_OK) status = clade_dtype_bytes(dtype, elements, &out->bytes);
  return status == CLADE_OK ? CLADE_OK : clade__fail_in(status, "%s", path);
}

clade_status clade__array_new(const char *path, clade_dtype dtype, const clade_shape *shape, clade_array *out) {
  CLADE_TRY(measure(path, dtype, shape, out));
  out->data = out->owner = clade__new(out->bytes, 1);
  return out->data ? CLADE_OK : clade__fail_in(CLADE_NO_MEMORY, "%s", path);
}

clade_status clade__array_fits(const char *path, uint64_t file_bytes, size_t offset, clade__number number,
                               const clade_shape *shape) {
  clade_array array;
  size_t element, bytes;
  CLADE_TRY(clade__dtype_element(clade__number_dtype(number), &element));
  CLADE_TRY(measure(path, clade__number_dtype(number), shape, &array));
  if (!clade__mul(array.bytes / element, number.bytes, &bytes))
    return CLADE_FAIL(OVERFLOW, "%s: its elements are more bytes than can be addressed", path);
  const uint64_t there = file_bytes - offset;
  if (there == bytes) return CLADE_OK;
  if (there < bytes)
    return CLADE_FAIL(CORRUPT, "%s ends in its data: %zu bytes are wanted from byte %zu on, %" PRIu64 " are there",
                      path, bytes, offset, there);
  return CLADE_FAIL(CORRUPT, "%s has %" PRIu64 " bytes more than the %" PRIu64 " that its header tells", path,
                    there - bytes, (uint64_t)offset + bytes);
}

clade_status clade__truths_check(const char *path, const unsigned char *data, size_t n, size_t offset) {
  for (size_t i = 0; i < n; i++)
    if (data[i] > 1)
      return CLADE_FAIL(CORRUPT, "%s: byte %zu is %u, which is no truth value: 0 or 1", path, offset + i, data[i]);
  return CLADE_OK;
}

/* Makes an array of the file's bytes from `offset` to the end, and takes over the bytes. */
static clade_status over(const char *path, clade__bytes *file, size_t offset, clade_dtype dtype,
                         const clade_shape *shape, clade_array *out) {
  enum { ALIGN = 16 };
  CLADE_TRY(measure(path, dtype, shape, out));
  if (dtype == CLADE_BOOL) CLADE_TRY(clade__truths_check(path, file->data + offset, out->bytes, offset));
  if (offset % ALIGN) {
    memmove(file->data, file->data + offset, out->bytes);
    offset = 0;
  }
  out->owner = file->data;
  out->data = file->data + offset;
  *file = (clade__bytes){0};
  return CLADE_OK;
}

/* The type whose elements have the same format in files and in memory. */
static clade_dtype same_dtype(clade__number number) {
  clade_dtype t = CLADE_DTYPE_NONE;
  while ((t = clade__dtype_next(t))) {
    const clade__dtype *row = clade__dtype_row(t);
    if (row->kind == number.kind && row->bytes == number.bytes && clade__npy_bytes(t) == number.bytes) break;
  }
  return t;
}

clade_dtype clade__number_dtype(clade__number number) {
  const clade_dtype same = same_dtype(number);
  if (same) return same;
  if (number.kind == CLADE__REAL && number.bytes == 8) return CLADE_F32;
  if (number.bytes == 2 && number.kind != CLADE__REAL && number.kind != CLADE__TRUTH) return CLADE_I32;
  return number.bytes == 4 && number.kind == CLADE__UNSIGNED ? CLADE_I64 : CLADE_DTYPE_NONE;
}

static void convert(clade__number number, const unsigned char *from, size_t element, unsigned char *to) {
  uint64_t bits = number.big ? clade__big(from, number.bytes) : clade__little(from, number.bytes);
  if (number.kind == CLADE__REAL && number.bytes == 8) {
    double wide;
    memcpy(&wide, &bits, sizeof wide);
    float real = (float)wide;
    memcpy(to, &real, sizeof real);
    return;
  }
  if (number.kind == CLADE__SIGNED && number.bytes < 8) {
    uint64_t sign = (uint64_t)1 << (8 * number.bytes - 1);
    bits = (bits ^ sign) - sign;
  }
  clade__put_little(to, bits, element);
}

clade_status clade__array_convert(const char *path, clade__bytes *file, size_t offset, clade__number number,
                                  const clade_shape *shape, clade_array *out) {
  clade_dtype dtype = clade__number_dtype(number);
  clade_status status;
  size_t element;
  *out = (clade_array){0};
  CLADE_GOTO(clade__array_fits(path, file->n, offset, number, shape)); /* checked before memory is allocated */
  CLADE_GOTO(clade__dtype_element(dtype, &element));
  if (element == number.bytes && (!number.big || element == 1)) {
    status = over(path, file, offset, dtype, shape, out);
    goto fail;
  }
  CLADE_GOTO(clade__array_new(path, dtype, shape, out));
  for (size_t i = 0; i < out->bytes / element; i++)
    convert(number, file->data + offset + i * number.bytes, element, (unsigned char *)out->data + i * element);
fail:
  clade__free(file->data);
  *file = (clade__bytes){0};
  if (status != CLADE_OK) clade_array_free(out);
  return status;
}
