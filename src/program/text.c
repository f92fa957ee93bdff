/* The text of a program: its head, declarations where it is lean, the preludes, then a copy of its file for each
 * request, with its parameters around it. */
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

/* A copy of the request's file, for names that end in `suffix`. */
static clade_status copy(clade__text *out, const clade__request *r, const char *suffix) {
  const char *text;
  CLADE_TRY(clade__request_source(r, &text));
  for (int k = 0; k < r->n_defines; k++) define(out, &r->defines[k]);
  clade__text_add(out, "#define SUFFIX %s\n#define WANT_%s\n", suffix, r->kernel);
  file(out, r->file, text);
  for (int k = 0; k < r->n_defines; k++) clade__text_add(out, "#undef %s\n", r->defines[k].name);
  clade__text_add(out, "#undef SUFFIX\n#undef WANT_%s\n", r->kernel);
  return CLADE_OK;
}

static clade_status members(clade__text *out, const clade__request *r, uint64_t hash) {
  char suffix[40];
  if (!r->n_members) return CLADE_OK;
  clade__text_add(out, "#undef CLADE_ENTRY\n#define CLADE_ENTRY static inline\n");
  for (int i = 0; i < r->n_members; i++) {
    snprintf(suffix, sizeof suffix, "%016" PRIx64 "_%d", hash, i);
    CLADE_TRY(copy(out, &r->members[i], suffix));
  }
  clade__text_add(out, "#undef CLADE_ENTRY\n#define CLADE_ENTRY __kernel\n");
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
  for (size_t i = 0; i < n; i++) {
    char suffix[40];
    snprintf(suffix, sizeof suffix, "%016" PRIx64, hashes[i].hi);
    CLADE_TRY(members(out, requests[i], hashes[i].hi));
    CLADE_TRY(copy(out, requests[i], suffix));
  }
  return out->failed ? CLADE_FAIL(NO_MEMORY, "no memory for a program of %zu kernels", n) : CLADE_OK;
}
