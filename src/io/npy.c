/* NPY, NumPy's format of an array: a header with a Python dictionary, then the elements. */
#include <inttypes.h>
#include <stdio.h>

#include "io/io.h"

static const char MAGIC[] = "\x93NUMPY";
enum { MAGIC_BYTES = 6, LARGEST_HEADER = 1 << 16, ALIGN = 64, SHOWN = 16 };

typedef struct header {
  char descr[SHOWN + 1];
  bool has_descr, has_order, has_shape, fortran;
  clade_shape shape;
} header;

/* ---- parsing the dictionary ---- */
typedef struct parser {
  const char *path, *at, *end;
} parser;

static clade_status bad(const parser *p, const char *wanted) {
  char shown[SHOWN + 1] = "";
  for (int i = 0; i < SHOWN && p->at + i < p->end; i++) shown[i] = p->at[i] >= ' ' && p->at[i] <= '~' ? p->at[i] : '?';
  return CLADE_FAIL(CORRUPT, "%s: its NPY header has \"%s\" where %s should be", p->path, shown, wanted);
}

static bool skip(parser *p, char c) {
  while (p->at < p->end && (*p->at == ' ' || *p->at == '\n')) p->at++;
  if (p->at == p->end || *p->at != c) return false;
  p->at++;
  return true;
}

static clade_status text(parser *p, const char *wanted, char out[SHOWN + 1]) {
  char quote = skip(p, '\'') ? '\'' : skip(p, '"') ? '"' : 0;
  if (!quote) return bad(p, wanted);
  for (size_t n = 0; n <= SHOWN && p->at < p->end; n++, p->at++) {
    out[n] = '\0';
    if (*p->at == quote) {
      p->at++;
      return CLADE_OK;
    }
    if (n < SHOWN) out[n] = *p->at;
  }
  return bad(p, wanted);
}

static clade_status truth(parser *p, bool *out) {
  static const char *const words[] = {"False", "True"};
  skip(p, '\0'); /* white space */
  for (int i = 0; i < 2; i++) {
    size_t n = strlen(words[i]);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, words[i], n)) continue;
    p->at += n;
    *out = i == 1;
    return CLADE_OK;
  }
  return bad(p, "True or False");
}

static clade_status size(parser *p, int64_t *out) {
  const char *first;
  skip(p, '\0');
  *out = 0;
  for (first = p->at; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++)
    if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, *p->at - '0', out))
      return CLADE_FAIL(OVERFLOW, "%s: a size in its NPY header has more than 63 bits", p->path);
  if (p->at == first) return bad(p, "a size");
  skip(p, 'L'); /* suffix written by Python 2 */
  return CLADE_OK;
}

static clade_status shape(parser *p, clade_shape *out) {
  if (!skip(p, '(')) return bad(p, "the shape");
  for (out->rank = 0; !skip(p, ')'); out->rank++) {
    if (out->rank == CLADE_MAX_RANK)
      return CLADE_FAIL(BAD_SHAPE, "%s: its array has more than %d dimensions", p->path, CLADE_MAX_RANK);
    CLADE_TRY(size(p, &out->dim[out->rank]));
    if (!skip(p, ',') && (p->at == p->end || *p->at != ')')) return bad(p, "',' or ')'");
  }
  return CLADE_OK;
}

static clade_status entry(parser *p, header *h) {
  char key[SHOWN + 1];
  CLADE_TRY(text(p, "a key", key));
  if (!skip(p, ':')) return bad(p, "':'");
  if (!strcmp(key, "descr") && !h->has_descr) {
    h->has_descr = true;
    if (skip(p, '[')) return CLADE_FAIL(DTYPE, "%s: its elements are structures", p->path);
    return text(p, "an element type", h->descr);
  }
  if (!strcmp(key, "fortran_order") && !h->has_order) {
    h->has_order = true;
    return truth(p, &h->fortran);
  }
  if (!strcmp(key, "shape") && !h->has_shape) {
    h->has_shape = true;
    return shape(p, &h->shape);
  }
  return CLADE_FAIL(CORRUPT, "%s: the key \"%s\" has no place in an NPY header, or is there twice", p->path, key);
}

static clade_status dictionary(parser *p, header *h) {
  if (!skip(p, '{')) return bad(p, "'{'");
  while (!skip(p, '}')) {
    CLADE_TRY(entry(p, h));
    if (!skip(p, ',') && (p->at == p->end || *p->at != '}')) return bad(p, "',' or '}'");
  }
  skip(p, '\0');
  if (p->at != p->end) return bad(p, "its end");
  if (!h->has_descr || !h->has_order || !h->has_shape)
    return CLADE_FAIL(CORRUPT, "%s: its NPY header lacks the key \"%s\"", p->path,
                      !h->has_descr   ? "descr"
                      : !h->has_order ? "fortran_order"
                                      : "shape");
  return CLADE_OK;
}

static clade_status element(const char *path, const char *descr, clade__number *out) {
  static const struct {
    char letter;
    clade__kind kind;
  } kinds[] = {{'i', CLADE__SIGNED}, {'u', CLADE__UNSIGNED}, {'f', CLADE__REAL}, {'b', CLADE__TRUTH}};
  for (size_t i = 0; i < CLADE_COUNT(kinds); i++) {
    if (!strchr("<>|=", descr[0]) || descr[1] != kinds[i].letter || descr[2] < '1' || descr[2] > '8' || descr[3])
      continue;
    *out = (clade__number){kinds[i].kind, (size_t)(descr[2] - '0'), descr[0] == '>'};
    if (clade__number_dtype(*out)) return CLADE_OK;
  }
  return CLADE_FAIL(DTYPE, "%s: its elements are \"%s\"; read are f2 f4 f8, i1 i2 i4 i8, u1 u2 u4 and b1", path, descr);
}

static clade_status read_header(clade__cursor *c, header *h) {
  const unsigned char *head, *dict;
  CLADE_TRY(clade__take(c, MAGIC_BYTES + 2, "NPY magic number", &head));
  if (memcmp(head, MAGIC, MAGIC_BYTES))
    return CLADE_FAIL(CORRUPT, "%s is no NPY file: it begins with other bytes", c->path);
  unsigned major = head[MAGIC_BYTES], minor = head[MAGIC_BYTES + 1];
  if (major < 1 || major > 3 || minor)
    return CLADE_FAIL(UNSUPPORTED, "%s: NPY version %u.%u; 1.0, 2.0 and 3.0 are read", c->path, major, minor);
  size_t width = major == 1 ? 2 : 4;
  CLADE_TRY(clade__take(c, width, "header's length", &head));
  uint64_t bytes = clade__little(head, width);
  if (bytes > LARGEST_HEADER)
    return CLADE_FAIL(CORRUPT, "%s: an NPY header of %" PRIu64 " bytes; at most %d are read", c->path, bytes,
                      LARGEST_HEADER);
  CLADE_TRY(clade__take(c, (size_t)bytes, "header", &dict));
  return dictionary(&(parser){c->path, (const char *)dict, (const char *)dict + bytes}, h);
}

/* In Fortran order the first index is the innermost. */
static clade_status to_row_major(const char *path, clade_array *array) {
  clade_array turned;
  size_t n, element, place = 0, stride[CLADE_MAX_RANK];
  int64_t at[CLADE_MAX_RANK] = {0};
  CLADE_TRY(clade__dtype_element(array->dtype, &element));
  CLADE_TRY(clade__array_new(path, array->dtype, &array->shape, &turned));
  n = array->bytes / element;
  for (int i = 0; i < array->shape.rank; i++) {
    stride[i] = i ? stride[i - 1] * (size_t)array->shape.dim[i - 1] : 1;
    if (!n) break;
  }
  for (size_t i = 0; i < n; i++) {
    memcpy((char *)turned.data + i * element, (char *)array->data + place * element, element);
    for (int d = array->shape.rank - 1; d >= 0; d--) {
      place += stride[d];
      if (++at[d] < array->shape.dim[d]) break;
      place -= stride[d] * (size_t)at[d];
      at[d] = 0;
    }
  }
  clade_array_free(array);
  *array = turned;
  return CLADE_OK;
}

clade_status clade__npy_parse(const char *path, clade__bytes *file, clade_array *out) {
  clade_status status;
  header h = {0};
  clade__number number;
  clade__cursor c = {path, file->data, file->n, 0};
  *out = (clade_array){0};
  CLADE_GOTO(read_header(&c, &h));
  CLADE_GOTO(element(path, h.descr, &number));
  CLADE_GOTO(clade__array_convert(path, file, c.at, number, &h.shape, out));
  if (h.fortran && h.shape.rank > 1) CLADE_GOTO(to_row_major(path, out));
  return CLADE_OK;
fail:
  clade__free(file->data);
  *file = (clade__bytes){0};
  clade_array_free(out);
  return status;
}

/* Checks the magic number, the header and the file's size. */
static clade_status judge(const clade__file *file, const void *unused) {
  enum { BEGINNING = MAGIC_BYTES + 2 + 4 + LARGEST_HEADER };
  (void)unused;
  clade__bytes head;
  header h = {0};
  clade__number number;
  CLADE_TRY(clade__file_head(file, BEGINNING, &head));
  clade__cursor c = {file->path, head.data, head.n, 0};
  clade_status status = read_header(&c, &h);
  if (status == CLADE_OK) status = element(file->path, h.descr, &number);
  if (status == CLADE_OK) status = clade__array_fits(file->path, file->bytes, c.at, number, &h.shape);
  clade__free(head.data);
  return status;
}

clade_status clade_npy_read(const char *path, clade_array *out) {
  clade__bytes file;
  if (!out) return CLADE_FAIL(INVALID, "clade_npy_read: there is no place for the array (NULL)");
  *out = (clade_array){0};
  if (!path) return CLADE_FAIL(INVALID, "clade_npy_read: the path is NULL");
  CLADE_TRY(clade__file_read_judged(path, UINT64_MAX, judge, NULL, &file));
  return clade__npy_parse(path, &file, out);
}

/* ---- writing ---- */
size_t clade__npy_bytes(clade_dtype dtype) { return (size_t)(clade__dtype_row(dtype)->npy[2] - '0'); }

static clade_status header_text(const clade_array *array, clade__text *out) {
  clade__text_add(out, "{'descr': '%s', 'fortran_order': False, 'shape': (", clade__dtype_row(array->dtype)->npy);
  for (int i = 0; i < array->shape.rank; i++)
    clade__text_add(out, "%s%" PRId64 "%s", i ? " " : "", array->shape.dim[i],
                    i + 1 < array->shape.rank || i == 0 ? "," : "");
  clade__text_add(out, "), }");
  while ((MAGIC_BYTES + 4 + out->length + 1) % ALIGN && !out->failed) clade__text_add(out, " ");
  clade__text_add(out, "\n");
  return out->failed ? CLADE_NO_MEMORY : CLADE_OK;
}

/* Writes values of a type that NPY lacks as f32. */
static clade_status write_wide(clade__draft *draft, const clade_array *array) {
  enum { PIECE = 4096 }; /* a multiple of the block sizes */
  float wide[PIECE];
  int64_t n;
  CLADE_TRY(clade_shape_elements(&array->shape, &n));
  for (int64_t at = 0; at < n; at += PIECE) {
    size_t some = (size_t)CLADE_MIN((int64_t)PIECE, n - at), skipped;
    CLADE_TRY(clade_dtype_bytes(array->dtype, at, &skipped));
    CLADE_TRY(clade_convert(CLADE_F32, wide, array->dtype, (const char *)array->data + skipped, some));
    CLADE_TRY(clade__draft_write(draft, wide, some * sizeof *wide));
  }
  return CLADE_OK;
}

static clade_status check(const char *path, const clade_array *array) {
  size_t bytes;
  if (!path || !array) return CLADE_FAIL(INVALID, "clade_npy_write: the %s is NULL", path ? "array" : "path");
  clade_type type = {.dtype = array->dtype, .shape = array->shape};
  clade_status status = clade_type_bytes(&type, &bytes);
  if (status != CLADE_OK) return clade__fail_in(status, "clade_npy_write: %s", path);
  if (bytes != array->bytes || (!array->data && bytes))
    return CLADE_FAIL(INVALID, "clade_npy_write: %s: the shape takes %zu bytes, the array has %zu%s", path, bytes,
                      array->bytes, array->data ? "" : " (data is NULL)");
  return CLADE_OK;
}

clade_status clade_npy_write(const char *path, const clade_array *array) {
  clade__draft draft;
  clade__text text = {0};
  clade_status status;
  CLADE_TRY(check(path, array));
  CLADE_TRY(clade__draft_open(path, &draft));
  CLADE_GOTO(header_text(array, &text));
  const unsigned char head[MAGIC_BYTES + 4] = {
      0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)text.length, (unsigned char)(text.length >> 8)};
  CLADE_GOTO(clade__draft_write(&draft, head, sizeof head));
  CLADE_GOTO(clade__draft_write(&draft, text.data, text.length));
  if (clade__npy_bytes(array->dtype) != clade__dtype_row(array->dtype)->bytes)
    CLADE_GOTO(write_wide(&draft, array));
  else
    CLADE_GOTO(clade__draft_write(&draft, array->data, array->bytes));
  CLADE_GOTO(clade__draft_sync(&draft));
  CLADE_GOTO(clade__draft_place(&draft));
fail:
  clade__text_free(&text);
  clade__draft_close(&draft);
  return status;
}
