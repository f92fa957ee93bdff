/* From a spec to a set: "NAME" or "NAME:DIR". */
#include "data/data.h"

typedef struct source {
  const char *name;
  const char *directory; /* where it is when the spec names none; NULL: it must */
  bool generated;
  clade_status (*open)(const char *name, const char *directory, bool train, clade_dataset **out);
} source;

static clade_status open_digits(const char *name, const char *directory, bool train, clade_dataset **out) {
  (void)name, (void)directory;
  return clade__digits_open(train, out);
}

static const source sources[] = {
    {"digits", NULL, true, open_digits},
};

static clade_status unknown(const char *spec) {
  clade__text known = {0};
  char *list = NULL;
  for (size_t i = 0; i < CLADE_COUNT(sources); i++) {
    const source *s = &sources[i];
    clade__text_add(&known, "%s%s%s", i ? ", " : "", s->name, s->generated ? "" : s->directory ? "[:DIR]" : ":DIR");
  }
  CLADE_TRY(clade__text_take(&known, &list));
  clade_status status = CLADE_FAIL(NOT_FOUND, "no dataset is called \"%s\"; there are %s", spec, list);
  clade__free(list);
  return status;
}

clade_status clade_dataset_open(const char *spec, bool train, clade_dataset **out) {
  if (!spec || !out) return CLADE_FAIL(INVALID, "clade_dataset_open: %s is NULL", spec ? "out" : "spec");
  *out = NULL;
  const char *colon = strchr(spec, ':');
  size_t length = colon ? (size_t)(colon - spec) : strlen(spec);
  for (size_t i = 0; i < CLADE_COUNT(sources); i++) {
    const source *s = &sources[i];
    if (strlen(s->name) != length || memcmp(s->name, spec, length) != 0) continue;
    const char *directory = colon ? colon + 1 : s->directory;
    if (s->generated && colon) return CLADE_FAIL(INVALID, "dataset \"%s\": %s takes no directory", spec, s->name);
    if (!s->generated && (!directory || !directory[0]))
      return CLADE_FAIL(INVALID, "dataset \"%s\": say where it is: %s:DIR", spec, s->name);
    return s->open(s->name, directory, train, out);
  }
  return unknown(spec);
}
