/* IDX, the format of MNIST: a magic number with type and rank, big-endian sizes, elements. */
#include <inttypes.h>

#include "io/io.h"

enum { LARGEST_HEADER = 4 + 4 * CLADE_MAX_RANK, PACKED_HEADER = 1 << 17 };

typedef struct header {
  clade__number number;
  clade_shape shape;
  size_t bytes, whole; /* size of the header; size of the file */
} header;

static clade_status element(const char *path, unsigned char type, clade__number *out) {
  static const clade__number numbers[] = {
      [0x08] = {CLADE__UNSIGNED, 1, true}, [0x09] = {CLADE__SIGNED, 1, true}, [0x0b] = {CLADE__SIGNED, 2, true},
      [0x0c] = {CLADE__SIGNED, 4, true},   [0x0d] = {CLADE__REAL, 4, true},   [0x0e] = {CLADE__REAL, 8, true},
  };
  if (type >= CLADE_COUNT(numbers) || !numbers[type].bytes)
    return CLADE_FAIL(CORRUPT, "%s: 0x%02x is no element type of IDX", path, type);
  *out = numbers[type];
  return CLADE_OK;
}

static clade_status read_header(clade__cursor *c, uint64_t cap, header *out) {
  const unsigned char *magic, *size;
  int64_t elements;
  char text[256];
  CLADE_TRY(clade__take(c, 4, "magic number", &magic));
  if (magic[0] || magic[1])
    return CLADE_FAIL(CORRUPT, "%s is no IDX file: it begins with 0x%02x%02x, not with two zeros", c->path, magic[0],
                      magic[1]);
  CLADE_TRY(element(c->path, magic[2], &out->number));
  if (!magic[3] || magic[3] > CLADE_MAX_RANK)
    return CLADE_FAIL(CORRUPT, "%s: %u dimensions; read are 1 to %d", c->path, magic[3], CLADE_MAX_RANK);
  for (out->shape.rank = 0; out->shape.rank < magic[3]; out->shape.rank++) {
    CLADE_TRY(clade__take(c, 4, "sizes", &size));
    out->shape.dim[out->shape.rank] = (clade_dim)clade__big(size, 4);
  }
  out->bytes = c->at;
  clade_status status = clade_shape_elements(&out->shape, &elements);
  if (status != CLADE_OK) return clade__fail_in(status, "%s", c->path);
  if (!clade__mul((size_t)elements, out->number.bytes, &out->whole) || out->whole > cap ||
      !clade__add(out->whole, out->bytes, &out->whole))
    return CLADE_FAIL(OVERFLOW, "%s: %s are more than the %" PRIu64 " bytes that are read", c->path,
                      clade_shape_text(&out->shape, text, sizeof text), cap);
  return CLADE_OK;
}

static clade_status packed_header(const char *path, const clade__bytes *file, uint64_t cap, header *out) {
  clade__bytes plain;
  CLADE_TRY(clade__inflate(path, file, LARGEST_HEADER, false, &plain));
  clade_status status = read_header(&(clade__cursor){path, plain.data, plain.n, 0}, cap, out);
  clade__free(plain.data);
  return status;
}

/* Decompresses the header first: it determines the size. */
static clade_status decompress(const char *path, clade__bytes *file, uint64_t cap) {
  header h = {0};
  clade__bytes plain;
  CLADE_TRY(packed_header(path, file, cap, &h));
  CLADE_TRY(clade__inflate(path, file, h.whole, true, &plain));
  clade__free(file->data);
  *file = plain;
  return CLADE_OK;
}

clade_status clade__idx_parse(const char *path, clade__bytes *file, uint64_t cap, clade_array *out) {
  clade_status status;
  header h = {0};
  *out = (clade_array){0};
  if (clade__is_gzip(file)) CLADE_GOTO(decompress(path, file, cap));
  CLADE_GOTO(read_header(&(clade__cursor){path, file->data, file->n, 0}, cap, &h));
  return clade__array_convert(path, file, h.bytes, h.number, &h.shape, out);
fail:
  clade__free(file->data);
  *file = (clade__bytes){0};
  return status;
}

static clade_status judge_head(const clade__file *file, const clade__bytes *head, uint64_t cap) {
  header h = {0};
  if (clade__is_gzip(head)) {
    CLADE_TRY(packed_header(file->path, head, cap, &h));
    return clade__gzip_fits(file->path, file->bytes, h.whole);
  }
  CLADE_TRY(read_header(&(clade__cursor){file->path, head->data, head->n, 0}, cap, &h));
  return clade__array_fits(file->path, file->bytes, h.bytes, h.number, &h.shape);
}

static clade_status judge(const clade__file *file, const void *cap) {
  clade__bytes head;
  CLADE_TRY(clade__file_head(file, PACKED_HEADER, &head));
  clade_status status = judge_head(file, &head, *(const uint64_t *)cap);
  clade__free(head.data);
  return status;
}

clade_status clade__idx_read(const char *path, uint64_t cap, clade_array *out) {
  clade__bytes file;
  *out = (clade_array){0};
  CLADE_TRY(clade__file_read_judged(path, UINT64_MAX, judge, &cap, &file));
  return clade__idx_parse(path, &file, cap, out);
}
