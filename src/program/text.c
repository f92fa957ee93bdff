/* The text of a program: its head, declarations where it is lean, the prelude, then a copy of its file for each
 * request, with its parameters around it. */
#include "program/parts.h"

#include <inttypes.h>

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

clade_status clade__program_text(size_t n, const clade__request *const *requests, const clade__hash *hashes, bool lean,
                                 const char *head, clade__text *out) {
  const char *text;
  clade__text_add(out, "%s", head);
  if (lean) {
    CLADE_TRY(clade__kernel_source("builtins", &text));
    file(out, "builtins", text);
  }
  CLADE_TRY(clade__kernel_source("prelude", &text));
  file(out, "prelude", text);
  for (size_t i = 0; i < n; i++) {
    const clade__request *r = requests[i];
    CLADE_TRY(clade__request_source(r, &text));
    for (int k = 0; k < r->n_defines; k++) define(out, &r->defines[k]);
    clade__text_add(out, "#define SUFFIX %016" PRIx64 "\n#define WANT_%s\n", hashes[i].hi, r->kernel);
    file(out, r->file, text);
    for (int k = 0; k < r->n_defines; k++) clade__text_add(out, "#undef %s\n", r->defines[k].name);
    clade__text_add(out, "#undef SUFFIX\n#undef WANT_%s\n", r->kernel);
  }
  return out->failed ? CLADE_FAIL(NO_MEMORY, "no memory for a program of %zu kernels", n) : CLADE_OK;
}
