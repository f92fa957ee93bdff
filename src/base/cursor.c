/* Bounds-checked cursor over the bytes of a file; byte orders and UTF-8. */
#include "base/file.h"

clade_status clade__take(clade__cursor *c, size_t bytes, const char *what, const unsigned char **out) {
  size_t left = c->n - c->at;
  if (bytes > left)
    return CLADE_FAIL(CORRUPT, "%s ends in its %s: %zu bytes are wanted from byte %zu on, %zu are there", c->path, what,
                      bytes, c->at, left);
  *out = c->data + c->at;
  c->at += bytes;
  return CLADE_OK;
}

clade_status clade__take_end(const clade__cursor *c) {
  if (c->at == c->n) return CLADE_OK;
  return CLADE_FAIL(CORRUPT, "%s has %zu bytes more than the %zu that its header tells", c->path, c->n - c->at, c->at);
}

uint64_t clade__little(const unsigned char *from, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = bytes; i-- > 0;) value = value << 8 | from[i];
  return value;
}

uint64_t clade__big(const unsigned char *from, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; i++) value = value << 8 | from[i];
  return value;
}

void clade__put_little(unsigned char *to, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) to[i] = (unsigned char)(value >> 8 * i);
}

bool clade__are_zero(const void *data, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    if (((const unsigned char *)data)[i]) return false;
  return true;
}

/* RFC 3629: shortest form, no surrogates, nothing above U+10FFFF. */
bool clade__is_utf8(const char *text) {
  static const uint32_t smallest[] = {0, 0x80, 0x800, 0x10000};
  for (const unsigned char *c = (const unsigned char *)text; *c;) {
    int more = *c < 0x80 ? 0 : *c >> 5 == 6 ? 1 : *c >> 4 == 14 ? 2 : *c >> 3 == 30 ? 3 : -1;
    if (more < 0) return false;
    uint32_t code = more ? *c & (0x3fu >> more) : *c;
    c++;
    for (int i = 0; i < more; i++, c++) {
      if ((*c & 0xc0) != 0x80) return false;
      code = code << 6 | (*c & 0x3f);
    }
    if (code < smallest[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
  }
  return true;
}
