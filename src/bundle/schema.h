/* Conversion between JSON objects and C structs by a table of fields, used for both reading and writing. Optional
 * fields are omitted if all their bytes are 0. */
#ifndef CLADE_BUNDLE_SCHEMA_H
#define CLADE_BUNDLE_SCHEMA_H

#include <jansson.h>

#include "base/base.h"

typedef enum clade__field_kind {
  CLADE__FIELD_TEXT,   /* const char *, not empty */
  CLADE__FIELD_HEX,    /* const char * of exactly `most` lower-case hexadecimal digits */
  CLADE__FIELD_COUNT,  /* uint64_t, at most `most` */
  CLADE__FIELD_TRIPLE, /* uint64_t[3], each at most `most` */
  CLADE__FIELD_NUMBER, /* double, finite and not negative */
  CLADE__FIELD_CHOICE, /* int, an index in `choices`; empty choices are invalid */
  CLADE__FIELD_OBJECT, /* a struct of `size` bytes with `fields` */
  /* A pointer, with the number of elements at `n_at`, at most `most`; strings if there are no `fields`. */
  CLADE__FIELD_LIST,
  CLADE__FIELD_PAIRS /* an object with any names: pointer to pairs of strings, otherwise as LIST */
} clade__field_kind;

typedef struct clade__field {
  const char *name; /* NULL: end of the table */
  clade__field_kind kind;
  bool needed;
  size_t at, n_at, size;
  uint64_t most; /* TEXT: maximal length; 0: CLADE__TEXT_BYTES */
  const char *const *choices;
  const struct clade__field *fields;
} clade__field;
enum { CLADE__TEXT_BYTES = 4096 };

/* CORRUPT, with `where` and the path of the field, for any deviation from the table, including unknown keys. The
 * arena owns lists and strings. */
clade_status clade__schema_read(const char *where, const json_t *json, const clade__field *fields, clade__arena *arena,
                                void *out);
json_t *clade__schema_write(const clade__field *fields, const void *from); /* NULL: out of memory */

#endif
