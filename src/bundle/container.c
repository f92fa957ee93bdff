/* Checks that binaries match their manifest, for every format. */
#include "bundle/container.h"

clade_status clade__container_text(const char *where, const char *what, const unsigned char *data, size_t bytes,
                                   clade__arena *arena, const char **out) {
  if (!memchr(data, 0, bytes)) return CLADE_FAIL(CORRUPT, "%s: its %s has no end", where, what);
  *out = clade__arena_text(arena, (const char *)data);
  return *out ? CLADE_OK : CLADE_NO_MEMORY;
}

clade_status clade__container_hex(const unsigned char *data, size_t bytes, clade__arena *arena, const char **out) {
  static const char digits[] = "0123456789abcdef";
  char *text = clade__arena_new(arena, 2 * bytes + 1);
  if (!text) return CLADE_NO_MEMORY;
  for (size_t i = 0; i < bytes; i++) {
    text[2 * i] = digits[data[i] >> 4];
    text[2 * i + 1] = digits[data[i] & 15];
  }
  text[2 * bytes] = '\0';
  *out = text;
  return CLADE_OK;
}

clade_status clade__container_inside(const char *where, const char *what, uint64_t offset, uint64_t bytes,
                                     uint64_t begin, uint64_t end) {
  if (offset >= begin && offset <= end && bytes <= end - offset) return CLADE_OK;
  return CLADE_FAIL(CORRUPT, "%s: its %s is told to be %llu bytes from %llu on; there is room from %llu to %llu", where,
                    what, (unsigned long long)bytes, (unsigned long long)offset, (unsigned long long)begin,
                    (unsigned long long)end);
}

clade_status clade__container_kernel(const char *where, const char *name, clade__arena *arena, clade__facts *facts) {
  if (!clade__is_name(name)) return CLADE_FAIL(CORRUPT, "%s: a kernel has a name that is none", where);
  if (facts->n_kernels == CLADE__CONTAINER_KERNELS)
    return CLADE_FAIL(CORRUPT, "%s: it has more than %d kernels", where, CLADE__CONTAINER_KERNELS);
  if (!facts->kernels) facts->kernels = clade__arena_new(arena, CLADE__CONTAINER_KERNELS * sizeof(char *));
  char *copy = clade__arena_text(arena, name);
  if (!facts->kernels || !copy) return CLADE_NO_MEMORY;
  facts->kernels[facts->n_kernels++] = copy;
  return CLADE_OK;
}

/* ---- kernels in XML: only names are needed, so a search replaces an XML parser ---- */
static const char *find(const char *from, const char *end, const char *what) {
  return from < end ? memmem(from, (size_t)(end - from), what, strlen(what)) : NULL;
}

clade_status clade__container_xml_kernels(const char *where, const unsigned char *data, size_t bytes,
                                          clade__arena *arena, clade__facts *facts) {
  const char *at = (const char *)data, *end = at + bytes;
  while ((at = find(at, end, "<kernel "))) {
    const char *close = find(at, end, ">"), *name = find(at, end, " name=\""), *quote;
    char text[65];
    if (!close || !name || name > close) return CLADE_FAIL(CORRUPT, "%s: a kernel in its XML has no name", where);
    name += strlen(" name=\"");
    quote = find(name, close, "\"");
    if (!quote || (size_t)(quote - name) >= sizeof text)
      return CLADE_FAIL(CORRUPT, "%s: the name of a kernel in its XML has no end", where);
    memcpy(text, name, (size_t)(quote - name));
    text[quote - name] = '\0';
    CLADE_TRY(clade__container_kernel(where, text, arena, facts));
    at = close;
  }
  return CLADE_OK;
}

/* ---- comparison with the manifest ---- */
static clade_status same(const char *where, const char *what, const char *manifest, const char *binary) {
  if (!manifest || !binary || strcmp(manifest, binary) == 0) return CLADE_OK;
  return CLADE_FAIL(CORRUPT, "%s: its manifest tells the %s %s, its binary %s", where, what, manifest, binary);
}

static bool has(const clade__facts *facts, const char *name) {
  for (size_t i = 0; i < facts->n_kernels; i++)
    if (strcmp(facts->kernels[i], name) == 0) return true;
  return facts->n_kernels == 0; /* the format does not declare kernels */
}

/* The runtime of xclbin aborts the process if a kernel gets a buffer for an argument without a memory. */
static bool is_connected(const clade__facts *facts, const char *kernel, size_t argument) {
  const size_t length = strlen(kernel);
  for (size_t i = 0; i < facts->n_connections; i++) {
    const clade__connection *c = &facts->connections[i];
    if (c->argument == argument && !strncmp(c->unit, kernel, length) && c->unit[length] == ':') return true;
  }
  return false;
}

static clade_status check_tensors(const clade__bundle *bundle, const clade__bundle_kernel *k,
                                  const clade__facts *facts) {
  for (size_t i = 0; i < k->n_arguments; i++)
    if (k->arguments[i].access != CLADE__VALUE && !is_connected(facts, k->name, i))
      return CLADE_FAIL(CORRUPT, "%s: argument %s of kernel %s lies in no memory of its binary", bundle->path,
                        k->arguments[i].name, k->name);
  return CLADE_OK;
}

clade_status clade__container_check(const clade__bundle *bundle, clade__arena *arena) {
  typedef clade_status check(const char *, const unsigned char *, size_t, clade__arena *, clade__facts *);
  static check *const checks[] = {[CLADE__AOCX] = clade__aocx_check,
                                  [CLADE__XCLBIN] = clade__xclbin_check,
                                  [CLADE__POCLBIN] = clade__poclbin_check,
                                  [CLADE__BITSTREAM] = NULL,
                                  [CLADE__NOTHING] = NULL};
  const clade__manifest *m = &bundle->manifest;
  clade__facts facts = {0};
  check *of_format = checks[m->binary.format];
  if (!of_format) return CLADE_OK;
  CLADE_TRY(of_format(bundle->path, bundle->binary, bundle->binary_bytes, arena, &facts));
  CLADE_TRY(same(bundle->path, "board", m->target.board, facts.board));
  CLADE_TRY(same(bundle->path, "platform", m->target.vbnv, facts.vbnv));
  CLADE_TRY(same(bundle->path, "UUID", m->target.uuid, facts.uuid));
  CLADE_TRY(same(bundle->path, "hash", m->target.hash, facts.hash));
  for (size_t i = 0; i < m->n_kernels; i++)
    if (!has(&facts, m->kernels[i].name))
      return CLADE_FAIL(CORRUPT, "%s: its manifest names the kernel %s, which its binary does not have", bundle->path,
                        m->kernels[i].name);
  for (size_t i = 0; i < m->n_kernels && m->binary.format == CLADE__XCLBIN; i++)
    CLADE_TRY(check_tensors(bundle, &m->kernels[i], &facts));
  return CLADE_OK;
}
