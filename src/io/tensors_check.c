/* Checksums in safetensors files of Clade: one of the header and one of each tensor. */
#include <stdio.h>

#include <jansson.h>

#include "io/io.h"

/* The header begins with this text, so that the digits are found without parsing JSON. */
static const char START[] = "{\"__metadata__\":{\"" CLADE__META_CHECK "\":\"";
enum { DIGITS_AT = sizeof START - 1 };

static void header_digits(unsigned char *header, size_t bytes, char text[CLADE__DIGITS + 1]) {
  memset(header + DIGITS_AT, '0', CLADE__DIGITS);
  clade__hash_text(clade__hash_bytes(header, bytes), text);
}

void clade__tensors_seal(unsigned char *header, size_t bytes) {
  char text[CLADE__DIGITS + 1];
  header_digits(header, bytes, text);
  memcpy(header + DIGITS_AT, text, CLADE__DIGITS);
}

/* The header has been parsed already. */
static clade_status verify_header(const char *path, const clade__tensors *t) {
  char have[CLADE__DIGITS + 1] = "", want[CLADE__DIGITS + 1];
  unsigned char *header = t->file.data + 8;
  size_t bytes = (size_t)clade__little(t->file.data, 8);
  memcpy(have, header + DIGITS_AT, CLADE__DIGITS);
  header_digits(header, bytes, want);
  memcpy(header + DIGITS_AT, have, CLADE__DIGITS);
  if (strcmp(have, want)) return CLADE_FAIL(CORRUPT, "%s is damaged: the checksum of its header is wrong", path);
  const char *format = clade__tensors_metadata(t, CLADE__META_FORMAT);
  if (format && !strcmp(format, CLADE__FORMAT)) return CLADE_OK;
  return CLADE_FAIL(UNSUPPORTED, "%s: its format is \"%s\"; this version of Clade reads \"%s\"", path,
                    format ? format : "", CLADE__FORMAT);
}

static clade_status verify_tensor(const char *path, const clade__tensors *t, const clade__tensor *tensor) {
  char digits[CLADE__DIGITS + 1];
  clade__text key = {0};
  char *name;
  clade__text_add(&key, CLADE__META_TENSOR "%s", tensor->name);
  CLADE_TRY(clade__text_take(&key, &name));
  const char *have = clade__tensors_metadata(t, name);
  bool same = have && !strcmp(have, clade__hash_text(clade__hash_bytes(tensor->stored, tensor->stored_bytes), digits));
  clade__free(name);
  if (same) return CLADE_OK;
  return CLADE_FAIL(CORRUPT, "%s is damaged: the checksum of tensor \"%s\" is %s", path, tensor->name,
                    have ? "wrong" : "missing");
}

clade_status clade__tensors_verify_header(const char *path, const clade__tensors *t, bool *ours) {
  const char *key;
  json_t *value;
  *ours = clade__little(t->file.data, 8) > DIGITS_AT + CLADE__DIGITS && !memcmp(t->file.data + 8, START, DIGITS_AT);
  if (*ours) return verify_header(path, t);
  json_object_foreach(json_object_get(t->header, "__metadata__"), key, value) {
    if (!strncmp(key, "clade.", strlen("clade.")))
      return CLADE_FAIL(CORRUPT,
                        "%s: its header was changed after Clade wrote it: its metadata have \"%.64s\" and no "
                        "checksum before them",
                        path, key);
  }
  return CLADE_OK;
}

clade_status clade__tensors_verify(const char *path, const clade__tensors *t, bool *ours) {
  CLADE_TRY(clade__tensors_verify_header(path, t, ours));
  for (size_t i = 0; *ours && i < t->n; i++) CLADE_TRY(verify_tensor(path, t, &t->at[i]));
  return CLADE_OK;
}
