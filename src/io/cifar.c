/* CIFAR's binary files: records of one or two labels and an image of 3x32x32 bytes, without a header. */
#include <inttypes.h>

#include "io/io.h"

enum { IMAGE = 3 * 32 * 32, LARGEST_FILE = 1 << 30 };

static clade_status check_size(const char *path, uint64_t bytes, int label_bytes) {
  if (bytes && bytes % (uint64_t)(label_bytes + IMAGE) == 0) return CLADE_OK;
  return CLADE_FAIL(CORRUPT, "%s: %" PRIu64 " bytes are no whole number of records of %d (%d label bytes and 3x32x32)",
                    path, bytes, label_bytes + IMAGE, label_bytes);
}

static clade_status split(const char *path, const clade__bytes *file, int label_bytes, clade_array *images,
                          clade_array *labels) {
  size_t record = (size_t)label_bytes + IMAGE;
  CLADE_TRY(check_size(path, file->n, label_bytes));
  clade_dim n = (clade_dim)(file->n / record);
  const clade_shape image = CLADE_SHAPE(n, 3, 32, 32), label = CLADE_SHAPE(n, label_bytes);
  CLADE_TRY(clade__array_new(path, CLADE_U8, &image, images));
  CLADE_TRY(clade__array_new(path, CLADE_U8, &label, labels));
  const unsigned char *from = file->data;
  for (size_t i = 0; i < (size_t)n; i++, from += record) {
    memcpy((char *)labels->data + i * (size_t)label_bytes, from, (size_t)label_bytes);
    memcpy((char *)images->data + i * IMAGE, from + label_bytes, IMAGE);
  }
  return CLADE_OK;
}

clade_status clade__cifar_parse(const char *path, clade__bytes *file, int label_bytes, clade_array *images,
                                clade_array *labels) {
  *images = *labels = (clade_array){0};
  clade_status status = split(path, file, label_bytes, images, labels);
  clade__free(file->data);
  *file = (clade__bytes){0};
  if (status == CLADE_OK) return CLADE_OK;
  clade_array_free(images);
  clade_array_free(labels);
  return status;
}

static clade_status judge(const clade__file *file, const void *label_bytes) {
  return check_size(file->path, file->bytes, *(const int *)label_bytes);
}

clade_status clade__cifar_read(const char *path, int label_bytes, clade_array *images, clade_array *labels) {
  clade__bytes file;
  *images = *labels = (clade_array){0};
  CLADE_TRY(clade__file_read_judged(path, LARGEST_FILE, judge, &label_bytes, &file));
  return clade__cifar_parse(path, &file, label_bytes, images, labels);
}
