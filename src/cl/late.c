/* Table of late instructions, and their insertion into compiled text. */
#include "cl/late.h"

static const clade__late rows[] = {
    /* wgmma, Hopper's matrix unit, needs target sm_90a; NVIDIA's OpenCL compiler targets sm_90 */
    {"//!90a ", ".target ", "sm_90", "sm_90a", 90},
};

static const char *find(const char *text, const char *end, const char *word) {
  const size_t n = strlen(word);
  for (; (size_t)(end - text) >= n; text++) {
    text = memchr(text, *word, (size_t)(end - text) - n + 1);
    if (!text) return NULL;
    if (!memcmp(text, word, n)) return text;
  }
  return NULL;
}

const clade__late *clade__late_find(uint32_t capability, const char *source, size_t bytes) {
  for (size_t i = 0; i < CLADE_COUNT(rows); i++)
    if (rows[i].capability == capability && find(source, source + bytes, rows[i].mark)) return &rows[i];
  return NULL;
}

/* Replaces the target behind the directive if it matches exactly, not as a prefix. */
static const char *name_target(const clade__late *late, const char *at, const char *end, clade__text *out) {
  const size_t directive = strlen(late->directive), compiled = strlen(late->compiled);
  clade__text_add_bytes(out, at, directive);
  at += directive;
  if ((size_t)(end - at) <= compiled || memcmp(at, late->compiled, compiled) != 0) return at;
  if (at[compiled] != ',' && at[compiled] != '\n' && at[compiled] != '\r' && at[compiled] != ' ') return at;
  clade__text_add(out, "%s", late->target);
  return at + compiled;
}

size_t clade__late_switch_on(const clade__late *late, const char *compiled, size_t bytes, clade__text *out) {
  const char *at = compiled, *end = compiled + bytes;
  size_t marks = 0;
  for (;;) {
    const char *mark = find(at, end, late->mark), *target = find(at, end, late->directive);
    const char *next = !mark || (target && target < mark) ? target : mark;
    clade__text_add_bytes(out, at, (size_t)((next ? next : end) - at));
    if (!next) return marks;
    if (next == target) {
      at = name_target(late, next, end, out);
    } else {
      at = next + strlen(late->mark);
      marks++;
    }
  }
}
