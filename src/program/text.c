/* Assembles the text of a program: head, builtin declarations if lean, preludes, then one copy of the source file
 * per request, surrounded by its defines. Copies that differ only in the defines EPILOGUE… and WIDE share code: what
 * does not depend on these is emitted in the first copy only (prelude.cl, COMMON). */
#include "program/parts.h"

#include <inttypes.h>
#include <stdio.h>

/* A define must be a single line. */
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

/* The build log then shows the kernel file's name and line numbers. */
static void file(clade__text *out, const char *stem, const char *text) {
  clade__text_add(out, "#line 1 \"%s.cl\"\n", stem);
  clade__text_add_bytes(out, text, strlen(text));
  clade__text_add_bytes(out, "\n", 1);
}

/* Undefines the macros of a kernel file, since the next copy may define them otherwise. Files may redefine
 * EPILOGUE_ELEMENT, which has a default (prelude.cl). */
static void forget(clade__text *out, const char *text) {
  static const char define_line[] = "\n#define ";
  for (const char *at = text; (at = strstr(at, define_line));) {
    at += sizeof define_line - 1;
    clade__text_add(out, "#undef %.*s\n", (int)strcspn(at, " (\n"), at);
  }
  clade__text_add(out, "#undef EPILOGUE_ELEMENT\n#define EPILOGUE_ELEMENT(s) CLADE_EPILOGUE_ELEMENT(s)\n");
}

static clade__hash kin_of(const clade__request *r, const char *text) {
  clade__hash h = clade__hash_more_text(clade__hash_bytes(text, strlen(text)), r->kernel);
  for (int k = 0; k < r->n_defines; k++) {
    const clade__define *d = &r->defines[k];
    if (!strncmp(d->name, "EPILOGUE", strlen("EPILOGUE")) || !strcmp(d->name, "WIDE")) continue;
    h = clade__hash_more_text(clade__hash_more_text(h, d->name), d->text);
  }
  return h;
}

/* Copies the request's file, with names ending in `suffix`. */
static clade_status copy(clade__text *out, const clade__request *r, const char *suffix, clade__map *kins) {
  const char *text;
  size_t at;
  CLADE_TRY(clade__request_source(r, &text));
  const clade__hash kin = kin_of(r, text);
  const bool first = !clade__map_get(kins, kin, &at);
  if (first) CLADE_TRY(clade__map_put(kins, kin, 0));
  for (int k = 0; k < r->n_defines; k++) define(out, &r->defines[k]);
  clade__text_add(out, "#define SUFFIX %s\n#define COMMON_SUFFIX %016" PRIx64 "\n#define COMMON_FIRST %d\n", suffix,
                  kin.hi, first);
  clade__text_add(out, "#define WANT_%s\n", r->kernel);
  file(out, r->file, text);
  forget(out, text);
  for (int k = 0; k < r->n_defines; k++) clade__text_add(out, "#undef %s\n", r->defines[k].name);
  clade__text_add(out, "#undef SUFFIX\n#undef COMMON_SUFFIX\n#undef COMMON_FIRST\n#undef WANT_%s\n", r->kernel);
  return CLADE_OK;
}

static clade_status members(clade__text *out, const clade__request *r, uint64_t hash, clade__map *kins) {
  char suffix[40];
  if (!r->n_members) return CLADE_OK;
  clade__text_add(out, "#undef CLADE_ENTRY\n#define CLADE_ENTRY static inline\n");
  for (int i = 0; i < r->n_members; i++) {
    snprintf(suffix, sizeof suffix, "%016" PRIx64 "_%d", hash, i);
    CLADE_TRY(copy(out, &r->members[i], suffix, kins));
  }
  clade__text_add(out, "#undef CLADE_ENTRY\n#define CLADE_ENTRY __kernel\n");
  return CLADE_OK;
}

static clade_status copies(size_t n, const clade__request *const *requests, const clade__hash *hashes, clade__map *kins,
                           clade__text *out) {
  for (size_t i = 0; i < n; i++) {
    char suffix[40];
    snprintf(suffix, sizeof suffix, "%016" PRIx64, hashes[i].hi);
    CLADE_TRY(members(out, requests[i], hashes[i].hi, kins));
    CLADE_TRY(copy(out, requests[i], suffix, kins));
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
  clade__map kins = {0};
  clade_status status = copies(n, requests, hashes, &kins, out);
  clade__map_free(&kins);
  CLADE_TRY(status);
  return out->failed ? CLADE_FAIL(NO_MEMORY, "no memory for a program of %zu kernels", n) : CLADE_OK;
}
