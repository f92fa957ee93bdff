/* JSON objects and C structs that say the same, by a table of fields: one table reads and writes. What is optional is
 * left out where its memory is all zero. */
#ifndef CLADE_BUNDLE_SCHEMA_H
#define CLADE_BUNDLE_SCHEMA_H

#include <jansson.h>

#include "base/base.h"

typedef enum clade__field_kind {
  CLADE__FIELD_TEXT,   /* const char *; not empty */
  CLADE__FIELD_HEX,    /* the same, of exactly `most` hexadecimal digits in lower case */
  CLADE__FIELD_COUNT,  /* uint64_t, at most `most` */
  CLADE__FIELD_TRIPLE, /* uint64_t[3], the same each */
  CLADE__FIELD_NUMBER, /* double, finite and not negative */
  CLADE__FIELD_CHOICE, /* int, by `choices`; an empty one cannot be chosen */
  CLADE__FIELD_OBJECT, /* a struct of `size` bytes, by `fields` */
  CLADE__FIELD_LIST, /* at most `most` of them: a pointer, and their number at `n_at`; texts where there are no `fields`
                      */
  CLADE__FIELD_PAIRS /* an object of any names: a pointer to two texts each, the rest as LIST */
} clade__field_kind;

typedef struct clade__field {
  const char *name; /* NULL ends a table */
  clade__field_kind kind;
  bool needed;
  size_t at, n_at, size;
  uint64_t most; /* TEXT: bytes; 0: CLADE__TEXT_BYTES */
  const char *const *choices;
  const struct clade__field *fields;
} clade__field;
enum { CLADE__TEXT_BYTES = 4096 };

/* CORRUPT, with `where` and the field by its way from the root, for what is not as the table says, keys that it does
 * not have among them. Lists and texts are the arena's. */
clade_status clade__schema_read(const char *where, const json_t *json, const clade__field *fields, clade__arena *arena,
                                void *out);
json_t *clade__schema_write(const clade__field *fields, const void *from); /* NULL: no memory */

#endif
