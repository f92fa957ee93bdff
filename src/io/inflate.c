/* Decompresses gzip by zlib, limited to the expected size. */
#include <inttypes.h>

#include "io/io.h"

bool clade__is_gzip(const clade__bytes *file) { return file->n >= 2 && file->data[0] == 0x1f && file->data[1] == 0x8b; }

/* Deflate compresses at most 1032 : 1 and expands data only slightly; a gzip header may contain names and comments. */
clade_status clade__gzip_fits(const char *path, uint64_t packed, size_t bytes) {
  enum { LARGEST_RATIO = 1032, AROUND = 64, MOST_AROUND = 1 << 17 };
  if (bytes / LARGEST_RATIO > packed + AROUND || packed > bytes + bytes / 8 + (uint64_t)MOST_AROUND)
    return CLADE_FAIL(CORRUPT, "%s: %zu bytes cannot be compressed in %" PRIu64, path, bytes, packed);
  return CLADE_OK;
}

#ifdef CLADE_WITH_ZLIB
#include <limits.h>
#include <zlib.h>

static clade_status run(const char *path, z_stream *z, const clade__bytes *file, size_t bytes, bool all) {
  unsigned char beyond;
  size_t in = 0, out = 0;
  for (int code = Z_OK; code != Z_STREAM_END;) {
    if (!all && out == bytes) return CLADE_OK;
    z->next_in = file->data + in; /* zlib counts in 32 bits */
    z->avail_in = (uInt)CLADE_MIN(file->n - in, (size_t)INT_MAX);
    z->avail_out = (uInt)CLADE_MIN(bytes - out, (size_t)INT_MAX);
    if (!z->avail_out) z->next_out = &beyond, z->avail_out = 1;
    const bool full = out == bytes;
    const uInt had_in = z->avail_in, had_out = z->avail_out;
    code = inflate(z, Z_NO_FLUSH);
    in += had_in - z->avail_in;
    if (full && z->avail_out == 0)
      return CLADE_FAIL(CORRUPT, "%s: more than the %zu bytes that its header tells are compressed in it", path, bytes);
    if (!full) out += had_out - z->avail_out;
    if (code == Z_BUF_ERROR || (code == Z_OK && had_in == z->avail_in && had_out == z->avail_out))
      return CLADE_FAIL(CORRUPT, "%s: its compressed data end too early", path);
    if (code == Z_MEM_ERROR) return CLADE_FAIL(NO_MEMORY, "%s: no memory for zlib", path);
    if (code != Z_OK && code != Z_STREAM_END)
      return CLADE_FAIL(CORRUPT, "%s: its compressed data are damaged: %s", path, z->msg ? z->msg : zError(code));
  }
  if (all && out != bytes)
    return CLADE_FAIL(CORRUPT, "%s: %zu bytes are compressed in it, and its header tells %zu", path, out, bytes);
  if (all && in != file->n) return CLADE_FAIL(CORRUPT, "%s: %zu bytes follow its compressed data", path, file->n - in);
  return CLADE_OK;
}

clade_status clade__inflate(const char *path, const clade__bytes *file, size_t bytes, bool all, clade__bytes *out) {
  z_stream z = {0};
  *out = (clade__bytes){0};
  if (all) CLADE_TRY(clade__gzip_fits(path, file->n, bytes));
  out->data = clade__new(bytes, 1);
  if (!out->data) return clade__fail_in(CLADE_NO_MEMORY, "%s", path);
  clade_status status = CLADE_OK;
  if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK) status = CLADE_FAIL(NO_MEMORY, "%s: no memory for zlib", path);
  if (status == CLADE_OK) {
    z.next_out = out->data;
    status = run(path, &z, file, bytes, all);
    out->n = z.total_out;
    inflateEnd(&z);
  }
  if (status == CLADE_OK) return CLADE_OK;
  clade__free(out->data);
  *out = (clade__bytes){0};
  return status;
}

#else

clade_status clade__inflate(const char *path, const clade__bytes *file, size_t bytes, bool all, clade__bytes *out) {
  (void)file, (void)bytes, (void)all;
  *out = (clade__bytes){0};
  return CLADE_FAIL(UNSUPPORTED, "%s is compressed by gzip, and this build has no zlib (CLADE_ZLIB): decompress it",
                    path);
}

#endif
