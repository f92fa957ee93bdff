/* The table of scalars, "scalars.csv", with a row for each scalar. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/io.h"

static const char NAME[] = "scalars.csv", TITLE[] = "time,step,tag,value\n";
enum { LARGEST = 1 << 30 };

/* Step of a row, its second field; -1: not a row. */
static int64_t step_of(const char *row, const char *end) {
  const char *comma = memchr(row, ',', (size_t)(end - row));
  if (!comma || ++comma == end || *comma < '0' || *comma > '9') return -1;
  return strtoll(comma, NULL, 10); /* the row ends with a newline */
}

/* Keeps the rows before `step`; an incomplete last row is dropped. */
static clade_status rows_before(const char *path, const clade__bytes *file, int64_t step, clade__text *out) {
  const char *at = (const char *)file->data, *end = at + file->n;
  if (file->n < strlen(TITLE) || memcmp(at, TITLE, strlen(TITLE)))
    return CLADE_FAIL(CORRUPT, "%s does not begin with \"time,step,tag,value\": move it away", path);
  for (const char *next; at < end && (next = memchr(at, '\n', (size_t)(end - at))); at = next + 1) {
    int64_t have = step_of(at, next);
    if (out->length == 0 || (have >= 0 && have < step)) clade__text_add_bytes(out, at, (size_t)(next + 1 - at));
  }
  return out->failed ? CLADE_FAIL(NO_MEMORY, "no memory for %s", path) : CLADE_OK;
}

static clade_status rewrite(const char *path, const clade__text *text) {
  clade__draft draft;
  clade_status status;
  CLADE_TRY(clade__draft_open(path, &draft));
  CLADE_GOTO(clade__draft_write(&draft, text->data, text->length));
  CLADE_GOTO(clade__draft_sync(&draft));
  CLADE_GOTO(clade__draft_place(&draft));
fail:
  clade__draft_close(&draft);
  return status;
}

static clade_status open_path(const char *path, int64_t step, clade__record_file *out) {
  clade__bytes file;
  clade__text text = {0};
  clade_status status = clade__file_read(path, LARGEST, &file);
  if (status == CLADE_OK) {
    status = rows_before(path, &file, step, &text);
    clade__free(file.data);
  } else if (status == CLADE_NOT_FOUND) {
    clade__text_add(&text, "%s", TITLE);
    status = text.failed ? CLADE_NO_MEMORY : CLADE_OK;
  }
  if (status == CLADE_OK) status = rewrite(path, &text);
  clade__text_free(&text);
  CLADE_TRY(status);
  return clade__records_open(path, false, out);
}

clade_status clade__scalars_open(const char *directory, int64_t step, clade__record_file *out) {
  clade__text text = {0};
  char *path;
  *out = (clade__record_file){.fd = -1};
  clade__text_add(&text, "%s/%s", directory, NAME);
  CLADE_TRY(clade__text_take(&text, &path));
  clade_status status = open_path(path, step, out);
  clade__free(path);
  return status;
}

/* Quotes a field as in RFC 4180. */
static void add_field(clade__text *row, const char *field) {
  if (!strpbrk(field, ",\"\r\n")) {
    clade__text_add(row, "%s", field);
    return;
  }
  clade__text_add_bytes(row, "\"", 1);
  for (const char *c = field; *c; c++) clade__text_add_bytes(row, *c == '"' ? "\"\"" : c, *c == '"' ? 2 : 1);
  clade__text_add_bytes(row, "\"", 1);
}

clade_status clade__scalars_add(clade__record_file *file, double time, int64_t step, const char *tag, double value) {
  clade__text row = {0};
  clade__text_add(&row, "%.6f,%" PRId64 ",", time, step);
  add_field(&row, tag);
  clade__text_add(&row, ",%.9g\n", value);
  clade_status status = row.failed ? CLADE_FAIL(NO_MEMORY, "no memory for a row of %s", file->path)
                                   : clade__records_add(file, row.data, row.length);
  clade__text_free(&row);
  return status;
}
