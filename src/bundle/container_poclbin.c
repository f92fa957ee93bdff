/* poclbin, PoCL's format: files for its cache, written at paths from the binary, and descriptions of kernels. PoCL
 * trusts every size and path, so all of them are checked here first. */
#include "bundle/container.h"

/* Supported versions: those of PoCL 3 and PoCL 6; the latter has additional fields. */
enum { OLD = 9, NEW = 11 };
enum { AT_FLAGS = 24, AT_VARIABLES = 77, HAS_VARIABLES = 2, HAS_WORK_GROUP = 2, HAS_SUBGROUP = 4 };
enum { EXECUTABLE = 4, MOST_PATH = 512, MOST_ARGUMENTS = 64, MOST_LOCALS = 256 };

static const char MAGIC[8] = "poclbin";

static clade_status take_number(clade__cursor *c, size_t bytes, const char *what, uint64_t *out) {
  const unsigned char *data;
  CLADE_TRY(clade__take(c, bytes, what, &data));
  *out = clade__little(data, bytes);
  return CLADE_OK;
}

static clade_status take_string(clade__cursor *c, const char *what, const unsigned char **data, uint64_t *n) {
  CLADE_TRY(take_number(c, 4, what, n));
  return clade__take(c, (size_t)*n, what, data);
}

/* A path below the program's directory, such as "/program.bc" or "/kernel/64-1-1/kernel.so". */
static bool is_safe_path(const unsigned char *path, size_t n) {
  if (n < 2 || n > MOST_PATH || *path != '/' || memchr(path, 0, n)) return false;
  for (size_t at = 0; at < n;) { /* at a slash */
    size_t part = at + 1, end = part;
    while (end < n && path[end] != '/') end++;
    if (end == part || end - part > 200 || path[part] == '.') return false;
    at = end;
  }
  return true;
}

/* The program's directory in the cache: a digest in letters, "MB/CEOJ…", zero-terminated. */
static bool is_build_hash(const unsigned char *text) {
  for (int i = 0; i < CLADE__POCLBIN_NAME - 1; i++)
    if (i == 2 ? text[i] != '/' : text[i] < 'A' || text[i] > 'P') return false;
  return text[CLADE__POCLBIN_NAME - 1] == 0;
}

static clade_status take_files(clade__cursor *c, uint64_t bytes) {
  const unsigned char *data, *files;
  uint64_t n;
  CLADE_TRY(clade__take(c, (size_t)bytes, "files", &files));
  clade__cursor inside = {c->path, files, (size_t)bytes, 0};
  while (inside.at < inside.n) {
    CLADE_TRY(take_string(&inside, "file's name", &data, &n));
    if (!is_safe_path(data, (size_t)n))
      return CLADE_FAIL(CORRUPT, "%s: a file in its poclbin would be written outside of the program's directory",
                        c->path);
    CLADE_TRY(take_string(&inside, "file", &data, &n));
  }
  return CLADE_OK;
}

static clade_status take_argument(clade__cursor *c) {
  const unsigned char *data;
  uint64_t access, address, ignored, bytes, n;
  CLADE_TRY(take_number(c, 4, "argument", &access));
  CLADE_TRY(take_number(c, 4, "argument", &address));
  CLADE_TRY(take_number(c, 8, "argument", &ignored));
  CLADE_TRY(take_number(c, 4, "argument", &ignored));
  CLADE_TRY(take_number(c, 4, "argument", &bytes));
  CLADE_TRY(take_string(c, "argument's name", &data, &n));
  CLADE_TRY(take_string(c, "argument's type", &data, &n));
  /* ranges of CL_KERNEL_ARG_ACCESS_* and CL_KERNEL_ARG_ADDRESS_* */
  if (access < 0x11a0 || access > 0x11a3 || address < 0x119b || address > 0x119e || bytes > 1024)
    return CLADE_FAIL(CORRUPT, "%s: an argument in its poclbin is of no kind that there is", c->path);
  return CLADE_OK;
}

/* Work-group sizes and local memory of a kernel. */
static clade_status take_groups(clade__cursor *c, uint64_t version) {
  const unsigned char *data;
  uint64_t flags;
  CLADE_TRY(clade__take(c, 4, "kernel", &data));
  CLADE_TRY(take_number(c, 4, "kernel", &flags));
  if (version == OLD) return CLADE_OK; /* here the upper half of a 64-bit field */
  if (flags & ~(uint64_t)(HAS_WORK_GROUP | HAS_SUBGROUP))
    return CLADE_FAIL(CORRUPT, "%s: a kernel in its poclbin has a flag that is not known", c->path);
  if (flags & HAS_SUBGROUP) CLADE_TRY(clade__take(c, 2 * 4, "subgroups", &data));
  return flags & HAS_WORK_GROUP ? clade__take(c, 5 * 4, "work-groups", &data) : CLADE_OK;
}

static clade_status take_kernel(clade__cursor *c, uint64_t version, clade__arena *arena, clade__facts *facts) {
  const unsigned char *data;
  size_t begin = c->at, arguments;
  uint64_t whole, files, info, n, n_arguments, n_locals, local;
  char name[65] = {0};
  CLADE_TRY(take_number(c, 8, "kernel", &whole));
  CLADE_TRY(take_number(c, 8, "kernel", &files));
  CLADE_TRY(take_number(c, 4, "kernel", &info));
  CLADE_TRY(take_string(c, "kernel's name", &data, &n));
  if (n >= sizeof name)
    return CLADE_FAIL(CORRUPT, "%s: a kernel's name has %llu letters", c->path, (unsigned long long)n);
  memcpy(name, data, (size_t)n);
  if (strlen(name) != n) *name = '\0';
  CLADE_TRY(clade__container_kernel(c->path, name, arena, facts));
  CLADE_TRY(take_number(c, 4, "kernel", &n_arguments));
  CLADE_TRY(take_number(c, 4, "kernel", &n_locals));
  if (n_arguments > MOST_ARGUMENTS || n_locals > MOST_LOCALS)
    return CLADE_FAIL(CORRUPT, "%s: kernel %s has %llu arguments and %llu local arrays", c->path, name,
                      (unsigned long long)n_arguments, (unsigned long long)n_locals);
  CLADE_TRY(clade__take(c, 3 * 8, "work-group", &data));
  for (uint64_t i = 0; i < n_locals; i++) {
    CLADE_TRY(take_number(c, 8, "local array", &local));
    if (local > 1 << 30) return CLADE_FAIL(CORRUPT, "%s: a local array of kernel %s is too large", c->path, name);
  }
  CLADE_TRY(take_string(c, "attributes", &data, &n));
  CLADE_TRY(take_groups(c, version));
  arguments = c->at;
  for (uint64_t i = 0; i < n_arguments; i++) CLADE_TRY(take_argument(c));
  if (c->at - arguments != info)
    return CLADE_FAIL(CORRUPT, "%s: the arguments of kernel %s do not have the size that is told", c->path, name);
  CLADE_TRY(take_files(c, files));
  if (c->at - begin != whole)
    return CLADE_FAIL(CORRUPT, "%s: kernel %s does not have the size that is told", c->path, name);
  return CLADE_OK;
}

clade_status clade__poclbin_check(const char *where, const unsigned char *data, size_t bytes, clade__arena *arena,
                                  clade__facts *out) {
  clade__cursor c = {where, data, bytes, 0};
  const unsigned char *head;
  uint64_t device, version, n_kernels, flags, entries, variables = 0, files;
  *out = (clade__facts){0};
  CLADE_TRY(clade__take(&c, 8, "poclbin", &head));
  if (memcmp(head, MAGIC, sizeof MAGIC)) return CLADE_FAIL(CORRUPT, "%s: its binary is no poclbin", where);
  CLADE_TRY(take_number(&c, 8, "header", &device));
  CLADE_TRY(take_number(&c, 4, "header", &version));
  CLADE_TRY(take_number(&c, 4, "header", &n_kernels));
  CLADE_TRY(take_number(&c, 8, "header", &flags));
  CLADE_TRY(take_number(&c, 4, "header", &entries));
  CLADE_TRY(clade__take(&c, CLADE__POCLBIN_NAME, "header", &head));
  if (version != OLD && version != NEW)
    return CLADE_FAIL(UNSUPPORTED, "%s: its poclbin has version %llu; %d and %d are read", where,
                      (unsigned long long)version, OLD, NEW);
  if (!is_build_hash(head))
    return CLADE_FAIL(CORRUPT, "%s: its poclbin would be written outside of PoCL's cache", where);
  if (flags >> 32 != EXECUTABLE || (uint32_t)flags > (version == NEW ? 3 : 1) || entries != 1 || !n_kernels)
    return CLADE_FAIL(CORRUPT, "%s: its poclbin is no program with kernels", where);
  if (flags & HAS_VARIABLES) CLADE_TRY(take_number(&c, 8, "variables", &variables));
  if (variables) return CLADE_FAIL(UNSUPPORTED, "%s: its poclbin has variables of the program", where);
  CLADE_TRY(take_number(&c, 8, "files", &files));
  if (!files) return CLADE_FAIL(CORRUPT, "%s: its poclbin has no program in it", where);
  CLADE_TRY(take_files(&c, files));
  for (uint64_t i = 0; i < n_kernels; i++) CLADE_TRY(take_kernel(&c, version, arena, out));
  return clade__take_end(&c);
}

size_t clade__poclbin_at_files(const unsigned char *data) {
  return AT_VARIABLES + (clade__little(data + AT_FLAGS, 8) & HAS_VARIABLES ? 8 : 0);
}

/* Machine code for launches of any size, which PoCL uses for all launches if it cannot compile others. */
static bool is_general(const unsigned char *name, size_t n) { return memmem(name, n, "/0-0-0/", 7) != NULL; }

/* Moves the general machine code to `to`, which may overlap `from` but not lie after it; returns the new size. */
static size_t move_files(unsigned char *to, const unsigned char *from, size_t bytes) {
  size_t n = 0;
  for (size_t at = 0; at < bytes;) {
    size_t name = (size_t)clade__little(from + at, 4), file = (size_t)clade__little(from + at + 4 + name, 4);
    size_t all = 4 + name + 4 + file;
    if (is_general(from + at + 4, name)) memmove(to + n, from + at, all), n += all;
    at += all;
  }
  return n;
}

/* Replaces the program, which PoCL would compile again, by an empty file: PoCL expects one. */
static size_t drop_program(unsigned char *files) {
  static const char name[] = "/machine-code-only";
  enum { NAME = sizeof name - 1, FILE_BYTES = 4 + NAME + 4 };
  clade__put_little(files, FILE_BYTES, 8);
  clade__put_little(files + 8, NAME, 4);
  memcpy(files + 8 + 4, name, NAME);
  clade__put_little(files + 8 + 4 + NAME, 0, 4);
  return 8 + FILE_BYTES;
}

size_t clade__poclbin_trim(unsigned char *data) {
  const size_t start = clade__poclbin_at_files(data);
  uint64_t n_kernels = clade__little(data + CLADE__POCLBIN_AT_KERNELS, 4);
  size_t from = start + 8 + (size_t)clade__little(data + start, 8), to = start + drop_program(data + start);
  for (uint64_t i = 0; i < n_kernels; i++) {
    size_t whole = (size_t)clade__little(data + from, 8), files = (size_t)clade__little(data + from + 8, 8);
    size_t head = whole - files;
    memmove(data + to, data + from, head);
    size_t kept = move_files(data + to + head, data + from + head, files);
    clade__put_little(data + to, head + kept, 8);
    clade__put_little(data + to + 8, kept, 8);
    from += whole;
    to += head + kept;
  }
  return to;
}
