/* The text of a program: its head, declarations where it is lean, the preludes, then a copy of its file for each
 * request, with its parameters around it. Copies that differ in what becomes of a result, the parameters EPILOGUE… and
 * WIDE, are kin: what goes by no such parameter is in the first of them only (prelude.cl, COMMON). */
#include "program/parts.h"

#include <inttypes.h>
#include <stdio.h>

/* A parameter is one line, however its text was made. */
static void define(clade__text *out, const clade__define *d) {
  clade__text_add(out, "#define %s ", d->name);
  for (const char *at = d->text; *at;) {
    size_t n = strcspn(at, "\r\n");
    clade__text_add_bytes(out, at, n);
    at += n;
    if (*at) {
      clade__text_add_bytes(out, " ", 1);
      at++;
    }
  }
  clade__text_add_bytes(out, "\n", 1);
}

/* The compiler's log then shows our files' names and lines. */
static void file(clade__text *out, const char *stem, const char *text) {
  clade__text_add(out, "#line 1 \"%s.cl\"\n", stem);
  clade__text_add_bytes(out, text, strlen(text));
  clade__text_add_bytes(out, "\n", 1);
}

enum { SUFFIX = 40 };

/* The first copy of each kin. */
typedef struct first {
  clade__hash kin;
  char suffix[SUFFIX];
} first;
typedef struct firsts {
  first *at;
  size_t n, capacity;
} firsts;

static clade__hash kin_of(const clade__request *r, const char *text) {
  clade__hash h = clade__hash_more_text(clade__hash_bytes(text, strlen(text)), r->kernel);
  for (int k = 0; k < r->n_defines; k++) {
    const clade__define *d = &r->defines[k];
    if (!strncmp(d->name, "EPILOGUE", strlen("EPILOGUE")) || !strcmp(d->name, "WIDE")) continue;
    h = clade__hash_more_text(clade__hash_more_text(h, d->name), d->text);
  }
  return h;
}

/* The suffix of the first copy of this kin: `suffix`, where this is it. */
static clade_status first_of(firsts *all, clade__hash kin, const char *suffix, const char **out) {
  for (size_t i = 0; i < all->n; i++)
    if (clade__hash_equal(all->at[i].kin, kin)) {
      *out = all->at[i].suffix;
      return CLADE_OK;
    }
  CLADE_TRY(clade__grow(&all->at, &all->capacity, all->n + 1, sizeof *all->at));
  first *own = &all->at[all->n++];
  own->kin = kin;
  snprintf(own->suffix, sizeof own->suffix, "%s", suffix);
  *out = suffix;
  return CLADE_OK;
}

/* A copy of the request's file, for names that end in `suffix`. */
static clade_status copy(clade__text *out, const clade__request *r, const char *suffix, firsts *all) {
  const char *text, *common;
  CLADE_TRY(clade__request_source(r, &text));
  CLADE_TRY(first_of(all, kin_of(r, text), suffix, &common));
  for (int k = 0; k < r->n_defines; k++) define(out, &r->defines[k]);
  clade__text_add(out, "#define SUFFIX %s\n#define COMMON_SUFFIX %s\n#define COMMON_FIRST %d\n#define WANT_%s\n",
                  suffix, common, common == suffix, r->kernel);
  file(out, r->file, text);
  for (int k = 0; k < r->n_defines; k++) clade__text_add(out, "#undef %s\n", r->defines[k].name);
  clade__text_add(out, "#undef SUFFIX\n#undef COMMON_SUFFIX\n#undef COMMON_FIRST\n#undef WANT_%s\n", r->kernel);
  return CLADE_OK;
}

static clade_status members(clade__text *out, const clade__request *r, uint64_t hash, firsts *all) {
  char suffix[SUFFIX];
  if (!r->n_members) return CLADE_OK;
  clade__text_add(out, "#undef CLADE_ENTRY\n#define CLADE_ENTRY static inline\n");
  for (int i = 0; i < r->n_members; i++) {
    snprintf(suffix, sizeof suffix, "%016" PRIx64 "_%d", hash, i);
    CLADE_TRY(copy(out, &r->members[i], suffix, all));
  }
  clade__text_add(out, "#undef CLADE_ENTRY\n#define CLADE_ENTRY __kernel\n");
  return CLADE_OK;
}

static clade_status copies(size_t n, const clade__request *const *requests, const clade__hash *hashes, firsts *all,
                           clade__text *out) {
  for (size_t i = 0; i < n; i++) {
    char suffix[SUFFIX];
    snprintf(suffix, sizeof suffix, "%016" PRIx64, hashes[i].hi);
    CLADE_TRY(members(out, requests[i], hashes[i].hi, all));
    CLADE_TRY(copy(out, requests[i], suffix, all));
  }
  return CLADE_OK;
}

clade_status clade__program_text(size_t n, const clade__request *const *requests, const clade__hash *hashes, bool lean,
                                 const char *head, clade__text *out) {
  const char *text;
  clade__text_add(out, "%s", head);
  if (lean) {
    CLADE_TRY(clade__kernel_source("builtins", &text));
    file(out, "builtins", text);
  }
  for (const char *const *stem = clade__preludes; *stem; stem++) {
    CLADE_TRY(clade__kernel_source(*stem, &text));
    file(out, *stem, text);
  }
  firsts all = {0};
  clade_status status = copies(n, requests, hashes, &all, out);
  clade__free(all.at);
  CLADE_TRY(status);
  return out->failed ? CLADE_FAIL(NO_MEMORY, "no memory for a program of %zu kernels", n) : CLADE_OK;
}
