/* Writes bundles atomically, as a file or a directory. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "bundle/digest.h"
#include "bundle/header.h"

/* Content of both forms. */
typedef struct parts {
  char *manifest;
  size_t manifest_bytes;
  const void *binary;
  size_t binary_bytes;
  unsigned char digest[CLADE__BUNDLE_DIGEST], key[CLADE__BUNDLE_KEY], signature[CLADE__BUNDLE_SIGNATURE];
  bool is_signed;
  const char *file;
} parts;

static clade_status prepare(const char *path, const clade__bundle_draft *draft, parts *p) {
  clade__manifest manifest = draft->manifest, again;
  clade__arena arena = {0};
  *p = (parts){.binary = draft->binary,
               .binary_bytes = draft->binary_bytes,
               .file = manifest.binary.file,
               .is_signed = draft->key_path != NULL};
  manifest.format = CLADE__BUNDLE_FORMAT;
  manifest.interface_version = CLADE__BUNDLE_INTERFACE;
  manifest.binary.bytes = draft->binary_bytes;
  CLADE_TRY(clade__manifest_print(&manifest, &p->manifest));
  p->manifest_bytes = strlen(p->manifest);
  /* checks what a reader would check */
  clade_status status = clade__manifest_parse(path, p->manifest, p->manifest_bytes, &arena, &again);
  if (status == CLADE_OK)
    status = clade__container_check(
        &(clade__bundle){.path = path, .manifest = again, .binary = p->binary, .binary_bytes = p->binary_bytes},
        &arena);
  clade__arena_free(&arena);
  CLADE_TRY(status);
  CLADE_TRY(clade__bundle_digest(p->manifest, p->manifest_bytes, p->binary, p->binary_bytes, p->digest));
  return p->is_signed ? clade__bundle_sign(draft->key_path, p->digest, p->key, p->signature) : CLADE_OK;
}

/* ---- bundle as a file ---- */
static void put_header(const parts *p, uint64_t at, unsigned char header[CLADE__HEADER_BYTES]) {
  memset(header, 0, CLADE__HEADER_BYTES);
  memcpy(header, CLADE__BUNDLE_MAGIC, 8);
  clade__put_little(header + CLADE__AT_FORMAT, CLADE__BUNDLE_FORMAT, 4);
  clade__put_little(header + CLADE__AT_MANIFEST, p->manifest_bytes, 8);
  clade__put_little(header + CLADE__AT_BINARY, at, 8);
  clade__put_little(header + CLADE__AT_BINARY_BYTES, p->binary_bytes, 8);
  memcpy(header + CLADE__AT_DIGEST, p->digest, sizeof p->digest);
  if (!p->is_signed) return;
  clade__put_little(header + CLADE__AT_SIGNED, 1, 4);
  memcpy(header + CLADE__AT_KEY, p->key, sizeof p->key);
  memcpy(header + CLADE__AT_SIGNATURE, p->signature, sizeof p->signature);
}

static clade_status write_file(const char *path, const parts *p) {
  static const unsigned char zeros[CLADE__BINARY_ALIGNMENT];
  unsigned char header[CLADE__HEADER_BYTES];
  clade__draft draft;
  clade_status status;
  size_t end = CLADE__HEADER_BYTES + p->manifest_bytes, at;
  if (!clade__round_up(end, CLADE__BINARY_ALIGNMENT, &at))
    return CLADE_FAIL(OVERFLOW, "%s: its manifest is too long", path);
  put_header(p, at, header);
  CLADE_TRY(clade__draft_open(path, &draft));
  CLADE_GOTO(clade__draft_write(&draft, header, sizeof header));
  CLADE_GOTO(clade__draft_write(&draft, p->manifest, p->manifest_bytes));
  CLADE_GOTO(clade__draft_write(&draft, zeros, at - end));
  if (p->binary_bytes) CLADE_GOTO(clade__draft_write(&draft, p->binary, p->binary_bytes));
  CLADE_GOTO(clade__draft_sync(&draft));
  status = clade__draft_place(&draft);
fail:
  clade__draft_close(&draft);
  return status;
}

/* ---- bundle as a directory ---- */
static clade_status write_part(const char *directory, const char *name, const void *data, size_t bytes) {
  clade__text text = {0};
  clade__draft draft;
  char *path;
  clade_status status;
  clade__text_add(&text, "%s/%s", directory, name);
  CLADE_TRY(clade__text_take(&text, &path));
  status = clade__draft_open(path, &draft);
  if (status == CLADE_OK && bytes) status = clade__draft_write(&draft, data, bytes);
  if (status == CLADE_OK) status = clade__draft_sync(&draft);
  if (status == CLADE_OK) status = clade__draft_place(&draft);
  clade__draft_close(&draft);
  clade__free(path);
  return status;
}

static void add_line(clade__text *text, const unsigned char *data, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) clade__text_add(text, "%02x", data[i]);
  clade__text_add(text, "\n");
}

static clade_status write_lines(const char *directory, const char *name, clade__text *text) {
  char *lines;
  CLADE_TRY(clade__text_take(text, &lines));
  clade_status status = write_part(directory, name, lines, strlen(lines));
  clade__free(lines);
  return status;
}

static clade_status write_parts(const char *directory, const parts *p) {
  clade__text digest = {0}, signature = {0};
  CLADE_TRY(write_part(directory, "manifest.json", p->manifest, p->manifest_bytes));
  if (p->binary_bytes) CLADE_TRY(write_part(directory, p->file, p->binary, p->binary_bytes));
  add_line(&digest, p->digest, sizeof p->digest);
  CLADE_TRY(write_lines(directory, "digest", &digest));
  if (!p->is_signed) return CLADE_OK;
  add_line(&signature, p->key, sizeof p->key);
  add_line(&signature, p->signature, sizeof p->signature);
  return write_lines(directory, "signature", &signature);
}

/* Removes the files of an incomplete directory. */
static void remove_parts(const char *directory, const parts *p) {
  const char *const names[] = {"manifest.json", p->file, "digest", "signature"};
  for (size_t i = 0; i < CLADE_COUNT(names); i++) {
    clade__text text = {0};
    char *path;
    clade__text_add(&text, "%s/%s", directory, names[i]);
    if (clade__text_take(&text, &path) == CLADE_OK) unlink(path);
    clade__free(path);
  }
  rmdir(directory);
}

static clade_status write_directory(const char *path, const parts *p) {
  clade__text text = {0};
  char *temporary;
  clade__text_add(&text, "%s.clade-%ld.tmp", path, (long)getpid());
  CLADE_TRY(clade__text_take(&text, &temporary));
  clade_status status = mkdir(temporary, 0777) ? clade__file_fail("make the directory", temporary) : CLADE_OK;
  if (status == CLADE_OK) {
    status = write_parts(temporary, p);
    if (status == CLADE_OK && rename(temporary, path)) status = clade__file_fail("write", path);
    if (status != CLADE_OK) remove_parts(temporary, p);
  }
  clade__free(temporary);
  return status;
}

clade_status clade__bundle_write(const char *path, bool as_directory, const clade__bundle_draft *draft) {
  struct stat st;
  parts p;
  bool there = !lstat(path, &st);
  if (there && (as_directory || !S_ISREG(st.st_mode)))
    return CLADE_FAIL(DUPLICATE, "%s is there already; it is not replaced", path);
  clade_status status = prepare(path, draft, &p);
  if (status == CLADE_OK) status = as_directory ? write_directory(path, &p) : write_file(path, &p);
  clade__free(p.manifest);
  return status;
}
