/* Reads bundles from files and directories. Content is used only after sizes, digest and signature have been
 * checked. */
#include <errno.h>
#include <sys/stat.h>

#include "base/file.h"
#include "bundle/digest.h"
#include "bundle/header.h"

/* ---- bundle as a file ---- */
/* Checks the header of a file with `bytes` bytes, of which the beginning was read. */
static clade_status check_header(const char *path, const unsigned char *file, uint64_t bytes) {
  if (bytes < CLADE__HEADER_BYTES)
    return CLADE_FAIL(CORRUPT, "%s has %llu bytes; a bundle's header alone has %d", path, (unsigned long long)bytes,
                      CLADE__HEADER_BYTES);
  if (memcmp(file, CLADE__BUNDLE_MAGIC, 8)) return CLADE_FAIL(CORRUPT, "%s is no bundle: it begins otherwise", path);
  uint64_t format = clade__little(file + CLADE__AT_FORMAT, 4), manifest = clade__little(file + CLADE__AT_MANIFEST, 8),
           at = clade__little(file + CLADE__AT_BINARY, 8), binary = clade__little(file + CLADE__AT_BINARY_BYTES, 8);
  if (format != CLADE__BUNDLE_FORMAT)
    return CLADE_FAIL(UNSUPPORTED, "%s has format %llu; this Clade reads %d", path, (unsigned long long)format,
                      CLADE__BUNDLE_FORMAT);
  if (manifest > CLADE__BUNDLE_MANIFEST_BYTES || binary > CLADE__BUNDLE_BINARY_BYTES)
    return CLADE_FAIL(CORRUPT,
                      "%s: its header tells a manifest of %llu bytes and a binary of %llu; at most %d and %d are read",
                      path, (unsigned long long)manifest, (unsigned long long)binary, CLADE__BUNDLE_MANIFEST_BYTES,
                      CLADE__BUNDLE_BINARY_BYTES);
  uint64_t end = CLADE__HEADER_BYTES + manifest;
  if (at != (end + CLADE__BINARY_ALIGNMENT - 1) / CLADE__BINARY_ALIGNMENT * CLADE__BINARY_ALIGNMENT)
    return CLADE_FAIL(
        CORRUPT, "%s: its binary is told to begin at byte %llu, not at the first multiple of %d behind the manifest",
        path, (unsigned long long)at, CLADE__BINARY_ALIGNMENT);
  if (bytes != at + binary)
    return CLADE_FAIL(CORRUPT, "%s has %llu bytes; its header tells %llu", path, (unsigned long long)bytes,
                      (unsigned long long)(at + binary));
  return CLADE_OK;
}

static clade_status take_header(clade__bundle *b, const unsigned char *file, size_t bytes) {
  CLADE_TRY(check_header(b->path, file, bytes));
  uint64_t manifest = clade__little(file + CLADE__AT_MANIFEST, 8), at = clade__little(file + CLADE__AT_BINARY, 8),
           end = CLADE__HEADER_BYTES + manifest, is_signed = clade__little(file + CLADE__AT_SIGNED, 4);
  if (!clade__are_zero(file + end, (size_t)(at - end)) || !clade__are_zero(file + CLADE__AT_FORMAT + 4, 4) ||
      !clade__are_zero(file + CLADE__AT_SIGNED + 4, 4) ||
      !clade__are_zero(file + CLADE__AT_ZEROS, CLADE__HEADER_BYTES - CLADE__AT_ZEROS))
    return CLADE_FAIL(CORRUPT, "%s: there is something between its parts, where zeros belong", b->path);
  if (is_signed > 1 ||
      (!is_signed && !clade__are_zero(file + CLADE__AT_KEY, CLADE__BUNDLE_KEY + CLADE__BUNDLE_SIGNATURE)))
    return CLADE_FAIL(CORRUPT, "%s: a signature of kind %llu is not known", b->path, (unsigned long long)is_signed);
  b->manifest_text = (const char *)file + CLADE__HEADER_BYTES;
  b->manifest_bytes = (size_t)manifest;
  b->binary = file + at;
  b->binary_bytes = bytes - (size_t)at;
  b->is_signed = is_signed;
  memcpy(b->digest, file + CLADE__AT_DIGEST, sizeof b->digest);
  memcpy(b->key, file + CLADE__AT_KEY, sizeof b->key);
  memcpy(b->signature, file + CLADE__AT_SIGNATURE, sizeof b->signature);
  return CLADE_OK;
}

/* ---- common checks ---- */
static clade_status check(clade__bundle *b) {
  unsigned char digest[CLADE__BUNDLE_DIGEST];
  CLADE_TRY(clade__bundle_digest(b->manifest_text, b->manifest_bytes, b->binary, b->binary_bytes, digest));
  if (memcmp(digest, b->digest, sizeof digest))
    return CLADE_FAIL(CORRUPT, "%s: manifest and binary are not those that its digest was made of", b->path);
  if (b->is_signed && !clade__signature_holds(b->key, digest, b->signature))
    return CLADE_FAIL(CORRUPT, "%s: its signature is not that of the key that it names", b->path);
  CLADE_TRY(clade__manifest_parse(b->path, b->manifest_text, b->manifest_bytes, &b->arena, &b->manifest));
  if (b->manifest.binary.bytes != b->binary_bytes)
    return CLADE_FAIL(CORRUPT, "%s: its binary has %zu bytes; its manifest tells %llu", b->path, b->binary_bytes,
                      (unsigned long long)b->manifest.binary.bytes);
  return clade__container_check(b, &b->arena);
}

static clade_status begin(const char *path, clade__bundle *out) {
  *out = (clade__bundle){0};
  out->path = clade__arena_text(&out->arena, path);
  return out->path ? CLADE_OK : CLADE_NO_MEMORY;
}

static clade_status kept(clade_status status, clade__bundle *out) {
  if (status != CLADE_OK) clade__bundle_free(out);
  return status;
}

clade_status clade__bundle_parse(const char *path, unsigned char *file, size_t bytes, clade__bundle *out) {
  clade_status status = begin(path, out);
  out->file = file;
  if (status == CLADE_OK) status = take_header(out, file, bytes);
  if (status == CLADE_OK) status = check(out);
  return kept(status, out);
}

/* ---- bundle as a directory ---- */
static clade_status path_in(clade__bundle *b, const char *name, const char **out) {
  clade__text text = {0};
  char *path;
  clade__text_add(&text, "%s/%s", b->path, name);
  CLADE_TRY(clade__text_take(&text, &path));
  *out = clade__arena_text(&b->arena, path);
  clade__free(path);
  return *out ? CLADE_OK : CLADE_NO_MEMORY;
}

static clade_status read_part(clade__bundle *b, const char *name, uint64_t most, const unsigned char **data,
                              size_t *n) {
  const char *path;
  clade__bytes file;
  CLADE_TRY(path_in(b, name, &path));
  CLADE_TRY(clade__file_read(path, most, &file));
  unsigned char *copy = clade__arena_new(&b->arena, file.n + 1);
  if (copy) memcpy(copy, file.data, file.n);
  clade__free(file.data);
  *data = copy;
  *n = file.n;
  return copy ? CLADE_OK : CLADE_NO_MEMORY;
}

static int digit(unsigned char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

/* Parses a line of `n` bytes in hexadecimal digits; advances *at. */
static bool take_line(const unsigned char *data, size_t bytes, size_t *at, unsigned char *out, size_t n) {
  if (bytes - *at < 2 * n + 1 || data[*at + 2 * n] != '\n') return false;
  for (size_t i = 0; i < n; i++) {
    int high = digit(data[*at + 2 * i]), low = digit(data[*at + 2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = (unsigned char)(high << 4 | low);
  }
  *at += 2 * n + 1;
  return true;
}

static clade_status read_digest(clade__bundle *b) {
  const unsigned char *data;
  size_t n, at = 0;
  CLADE_TRY(read_part(b, "digest", 1024, &data, &n));
  if (!take_line(data, n, &at, b->digest, sizeof b->digest) || at != n)
    return CLADE_FAIL(CORRUPT, "%s/digest: one line of %d hexadecimal digits is expected", b->path,
                      2 * CLADE__BUNDLE_DIGEST);
  clade_status status = read_part(b, "signature", 1024, &data, &n);
  if (status == CLADE_NOT_FOUND) return CLADE_OK;
  CLADE_TRY(status);
  at = 0;
  b->is_signed = true;
  if (!take_line(data, n, &at, b->key, sizeof b->key) || !take_line(data, n, &at, b->signature, sizeof b->signature) ||
      at != n)
    return CLADE_FAIL(CORRUPT, "%s/signature: a line with a key and one with a signature are expected", b->path);
  return CLADE_OK;
}

static clade_status read_directory(clade__bundle *b) {
  const unsigned char *text;
  const char *path;
  clade__arena names = {0};
  clade__manifest manifest;
  CLADE_TRY(read_part(b, "manifest.json", CLADE__BUNDLE_MANIFEST_BYTES, &text, &b->manifest_bytes));
  b->manifest_text = (const char *)text;
  CLADE_TRY(read_digest(b));
  /* the manifest names the binary's file; the manifest is checked again after the digest */
  clade_status status = clade__manifest_parse(b->path, text, b->manifest_bytes, &names, &manifest);
  if (status == CLADE_OK && manifest.binary.bytes) status = path_in(b, manifest.binary.file, &path);
  if (status == CLADE_OK && manifest.binary.bytes) {
    clade__bytes file;
    status = clade__file_read(path, CLADE__BUNDLE_BINARY_BYTES, &file);
    b->binary = b->file = file.data;
    b->binary_bytes = file.n;
  }
  clade__arena_free(&names);
  CLADE_TRY(status);
  return check(b);
}

/* ---- public functions ---- */
static clade_status peek_file(clade__bundle *b) {
  enum { MOST = CLADE__HEADER_BYTES + CLADE__BUNDLE_MANIFEST_BYTES };
  clade__bytes file;
  CLADE_TRY(clade__file_begin(b->path, MOST, &file));
  b->file = file.data;
  uint64_t bytes = file.n < CLADE__HEADER_BYTES ? 0 : clade__little(file.data + CLADE__AT_MANIFEST, 8);
  if (!bytes || bytes > file.n - CLADE__HEADER_BYTES || memcmp(file.data, CLADE__BUNDLE_MAGIC, 8))
    return CLADE_FAIL(CORRUPT, "%s: no manifest is where a bundle has it", b->path);
  return clade__manifest_parse(b->path, file.data + CLADE__HEADER_BYTES, (size_t)bytes, &b->arena, &b->manifest);
}

static clade_status peek_directory(clade__bundle *b) {
  const unsigned char *text;
  size_t n;
  CLADE_TRY(read_part(b, "manifest.json", CLADE__BUNDLE_MANIFEST_BYTES, &text, &n));
  return clade__manifest_parse(b->path, text, n, &b->arena, &b->manifest);
}

clade_status clade__bundle_peek(const char *path, clade__bundle *out) {
  struct stat st;
  clade_status status = begin(path, out);
  if (status == CLADE_OK && stat(path, &st)) status = clade__file_fail("read", path);
  if (status == CLADE_OK) status = S_ISDIR(st.st_mode) ? peek_directory(out) : peek_file(out);
  return kept(status, out);
}

static clade_status judge(const clade__file *file, const void *unused) {
  (void)unused;
  clade__bytes head;
  CLADE_TRY(clade__file_head(file, CLADE__HEADER_BYTES, &head));
  clade_status status = check_header(file->path, head.data, file->bytes);
  clade__free(head.data);
  return status;
}

clade_status clade__bundle_read(const char *path, clade__bundle *out) {
  enum { MOST = CLADE__BUNDLE_BINARY_BYTES + CLADE__BUNDLE_MANIFEST_BYTES + 2 * CLADE__BINARY_ALIGNMENT };
  struct stat st;
  clade__bytes file;
  *out = (clade__bundle){0};
  if (stat(path, &st)) return clade__file_fail("read", path);
  if (S_ISDIR(st.st_mode)) {
    clade_status status = begin(path, out);
    if (status == CLADE_OK) status = read_directory(out);
    return kept(status, out);
  }
  CLADE_TRY(clade__file_read_judged(path, MOST, judge, NULL, &file));
  return clade__bundle_parse(path, file.data, file.n, out);
}

void clade__bundle_free(clade__bundle *bundle) {
  clade__free(bundle->file);
  clade__arena_free(&bundle->arena);
  *bundle = (clade__bundle){0};
}
