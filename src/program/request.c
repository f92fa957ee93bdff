/* Validates, hashes and names kernel requests. */
#include "program/parts.h"

#include <inttypes.h>
#include <stdio.h>

static bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

static bool identifier(const char *text) {
  if (!text || !letter(*text)) return false;
  for (; *text; text++)
    if (!letter(*text) && !(*text >= '0' && *text <= '9')) return false;
  return true;
}

clade_status clade__request_check(const clade__request *r) {
  if (!r->file || !*r->file || strpbrk(r->file, "/\\\"\r\n"))
    return CLADE_FAIL(INVALID, "a kernel request's file is '%s': the stem of a kernel file was expected",
                      r->file ? r->file : "(null)");
  if (!identifier(r->kernel) || strlen(r->kernel) + 18 > CLADE__KERNEL_NAME)
    return CLADE_FAIL(INVALID, "%s.cl: the kernel's name is '%s': an identifier of at most %d characters was expected",
                      r->file, r->kernel ? r->kernel : "(null)", CLADE__KERNEL_NAME - 18);
  if (r->n_defines < 0 || (r->n_defines && !r->defines) || r->n_args < 0)
    return CLADE_FAIL(INVALID, "%s of %s.cl: %d parameters and %d arguments", r->kernel, r->file, r->n_defines,
                      r->n_args);
  for (int i = 0; i < r->n_defines; i++)
    if (!identifier(r->defines[i].name) || !r->defines[i].text)
      return CLADE_FAIL(INVALID, "%s of %s.cl: parameter %d is named '%s': an identifier and a text were expected",
                        r->kernel, r->file, i, r->defines[i].name ? r->defines[i].name : "(null)");
  return CLADE_OK;
}

clade_status clade__request_source(const clade__request *request, const char **text) {
  *text = request->source;
  return request->source ? CLADE_OK : clade__kernel_source(request->file, text);
}

clade_status clade__request_hash(const clade__request *r, clade__hash *hash) {
  const char *source;
  CLADE_TRY(clade__request_check(r));
  CLADE_TRY(clade__request_source(r, &source));
  clade__hash h = clade__hash_bytes(source, strlen(source));
  for (const char *const *stem = clade__preludes; *stem; stem++) {
    const char *prelude;
    CLADE_TRY(clade__kernel_source(*stem, &prelude));
    h = clade__hash_more_text(h, prelude);
  }
  h = clade__hash_more_text(h, r->file);
  h = clade__hash_more_text(h, r->kernel);
  h = clade__hash_more_text(h, clade__request_options(r));
  for (int i = 0; i < r->n_defines; i++) {
    h = clade__hash_more_text(h, r->defines[i].name);
    h = clade__hash_more_text(h, r->defines[i].text);
  }
  for (int i = 0; i < r->n_members; i++) {
    clade__hash member;
    CLADE_TRY(clade__request_hash(&r->members[i], &member));
    h = clade__hash_more(h, &member, sizeof member);
  }
  *hash = h;
  return CLADE_OK;
}

/* Kernels with members have a fixed launch configuration. */
clade__hash clade__request_launch_hash(const clade__request *r, clade__hash hash) {
  if (r->n_members) return hash;
  uint64_t launch[4] = {r->local[0], r->local[1], r->local[2], r->large_grid};
  for (int i = 0; i < 3; i++)
    if (!launch[i]) launch[i] = 1;
  return clade__hash_more(hash, launch, sizeof launch);
}

void clade__request_name(const clade__request *request, clade__hash hash, char name[CLADE__KERNEL_NAME]) {
  snprintf(name, CLADE__KERNEL_NAME, "%s_%016" PRIx64, request->kernel, hash.hi);
}
