/* aocx, the format of Intel's tools: a 32-bit ELF file whose sections contain image, board and kernel arguments. */
#include "bundle/container.h"

enum { HEADER = 52, SECTION = 40, NOTHING_IN_FILE = 8, MOST_SECTIONS = 256, MACHINE = 62 };

typedef struct elf {
  const char *where;
  const unsigned char *data, *sections, *names;
  size_t bytes, n, names_bytes;
} elf;

static uint64_t field(const elf *e, size_t section, size_t at) {
  return clade__little(e->sections + section * SECTION + at, 4);
}

static clade_status check_header(elf *e) {
  const unsigned char *d = e->data;
  if (e->bytes < HEADER || memcmp(d, "\177ELF\1\1\1", 7) || clade__little(d + 16, 2) != 0 ||
      clade__little(d + 18, 2) != MACHINE)
    return CLADE_FAIL(CORRUPT, "%s: its binary is no aocx: ELF of 32 bits, of no type, for machine %d is expected",
                      e->where, MACHINE);
  uint64_t at = clade__little(d + 32, 4), programs = clade__little(d + 44, 2);
  e->n = (size_t)clade__little(d + 48, 2);
  if (!e->n || e->n > MOST_SECTIONS || clade__little(d + 46, 2) != SECTION || programs)
    return CLADE_FAIL(CORRUPT,
                      "%s: its aocx tells %zu sections and %llu program headers; 1 to %d and none are expected",
                      e->where, e->n, (unsigned long long)programs, MOST_SECTIONS);
  CLADE_TRY(clade__container_inside(e->where, "table of sections", at, e->n * SECTION, HEADER, e->bytes));
  e->sections = d + at;
  return CLADE_OK;
}

static clade_status check_sections(elf *e) {
  size_t names = (size_t)clade__little(e->data + 50, 2);
  if (names >= e->n) return CLADE_FAIL(CORRUPT, "%s: section %zu, with the names, is not there", e->where, names);
  for (size_t i = 1; i < e->n; i++) /* section 0 is empty */
    if (field(e, i, 4) != NOTHING_IN_FILE)
      CLADE_TRY(clade__container_inside(e->where, "section", field(e, i, 16), field(e, i, 20), HEADER, e->bytes));
  if (!names || field(e, names, 4) == NOTHING_IN_FILE)
    return CLADE_FAIL(CORRUPT, "%s: its sections have no names", e->where);
  e->names = e->data + field(e, names, 16);
  e->names_bytes = (size_t)field(e, names, 20);
  for (size_t i = 1; i < e->n; i++) {
    uint64_t at = field(e, i, 0);
    if (at >= e->names_bytes || !memchr(e->names + at, 0, e->names_bytes - at))
      return CLADE_FAIL(CORRUPT, "%s: the name of section %zu has no end", e->where, i);
  }
  return CLADE_OK;
}

/* Index of a section; -1: none of this name. */
static int section_of(const elf *e, const char *name) {
  for (size_t i = 1; i < e->n; i++)
    if (field(e, i, 4) != NOTHING_IN_FILE && !strcmp((const char *)e->names + field(e, i, 0), name)) return (int)i;
  return -1;
}

/* Reads the first string of a section; strings need not be zero-terminated. */
static clade_status text_of(const elf *e, const char *name, clade__arena *arena, const char **out) {
  int i = section_of(e, name);
  if (i < 0) return CLADE_OK;
  const unsigned char *from = e->data + field(e, (size_t)i, 16);
  size_t bytes = (size_t)field(e, (size_t)i, 20), n = strnlen((const char *)from, bytes);
  while (n && (from[n - 1] == '\n' || from[n - 1] == ' ')) n--;
  char *text = clade__arena_new(arena, n + 1);
  if (!text) return CLADE_NO_MEMORY;
  memcpy(text, from, n);
  text[n] = '\0';
  *out = text;
  return CLADE_OK;
}

clade_status clade__aocx_check(const char *where, const unsigned char *data, size_t bytes, clade__arena *arena,
                               clade__facts *out) {
  elf e = {.where = where, .data = data, .bytes = bytes};
  *out = (clade__facts){0};
  CLADE_TRY(check_header(&e));
  CLADE_TRY(check_sections(&e));
  static const char *const needed[] = {".acl.board", ".acl.autodiscovery", ".acl.fpga.bin"};
  for (size_t i = 0; i < CLADE_COUNT(needed); i++)
    if (section_of(&e, needed[i]) < 0) return CLADE_FAIL(CORRUPT, "%s: its aocx has no section %s", where, needed[i]);
  CLADE_TRY(text_of(&e, ".acl.board", arena, &out->board));
  CLADE_TRY(text_of(&e, ".acl.hash", arena, &out->hash));
  int kernels = section_of(&e, ".acl.kernel_arg_info.xml");
  if (kernels < 0) return CLADE_OK;
  return clade__container_xml_kernels(where, data + field(&e, (size_t)kernels, 16),
                                      (size_t)field(&e, (size_t)kernels, 20), arena, out);
}
