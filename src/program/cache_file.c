/* Files of the program cache: fully verified before use, written atomically. */
#include "program/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint64_t LARGEST = 256u << 20;
static const char MAGIC[8] = {'C', 'L', 'A', 'D', 'E', 'P', 'C', '\n'};
enum { VERSION = 3 };

typedef struct header {
  char magic[8];
  uint32_t version, kind;
  uint64_t bytes; /* of the payload */
  clade__hash device, payload;
  clade__hash self; /* hash of the fields above */
} header;
_Static_assert(sizeof(header) == CLADE__CACHE_HEADER, "the header has no padding");

static header header_of(clade__cache_kind kind, clade__hash device, const void *data, size_t bytes) {
  header h = {.version = VERSION, .kind = (uint32_t)kind, .bytes = bytes, .device = device};
  memcpy(h.magic, MAGIC, sizeof h.magic);
  h.payload = clade__hash_bytes(data, bytes);
  h.self = clade__hash_bytes(&h, offsetof(header, self));
  return h;
}

clade_status clade__cache_verify(const void *file, size_t bytes, clade__cache_kind kind, clade__hash device,
                                 clade__cache_blob *out) {
  header h;
  const char *why = NULL;
  const char *data = (const char *)file + sizeof h;
  if (bytes < sizeof h) return CLADE_FAIL(CORRUPT, "%zu bytes are less than a header", bytes);
  memcpy(&h, file, sizeof h);
  if (memcmp(h.magic, MAGIC, sizeof MAGIC) || h.version != VERSION)
    why = "not a cache file of this format";
  else if (!clade__hash_equal(h.self, clade__hash_bytes(&h, offsetof(header, self))))
    why = "its header is damaged";
  else if (h.kind != (uint32_t)kind || !clade__hash_equal(h.device, device))
    why = "it is another kind's or device's";
  else if (h.bytes > LARGEST || h.bytes != bytes - sizeof h)
    why = "its size is wrong";
  else if (!clade__hash_equal(h.payload, clade__hash_bytes(data, bytes - sizeof h)))
    why = "its contents are damaged";
  if (why) return CLADE_FAIL(CORRUPT, "%s", why);
  out->data = data;
  out->bytes = bytes - sizeof h;
  return CLADE_OK;
}

clade__hash clade__cache_address(clade__hash device, const void *data, size_t bytes) {
  return clade__hash_more(device, data, bytes);
}

void clade__cache_file_name(clade__cache_kind kind, clade__hash name, char text[CLADE__CACHE_NAME]) {
  static const char *const suffixes[] = {
      [CLADE__CACHE_BINARY] = "bin", [CLADE__CACHE_INDEX] = "index", [CLADE__CACHE_UNIT] = "unit"};
  char hex[33];
  snprintf(text, CLADE__CACHE_NAME, "%s.%s", clade__hash_text(name, hex), suffixes[kind]);
}

/* Reads exactly `bytes`; a shorter file is an error. */
static bool read_all(int fd, char *to, size_t bytes) {
  for (size_t at = 0; at < bytes;) {
    ssize_t n = read(fd, to + at, bytes - at);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = EIO;
    if (n <= 0) return false;
    at += (size_t)n;
  }
  return true;
}

static clade_status read_open(int fd, uint64_t least, uint64_t most, clade__cache_blob *out) {
  struct stat st;
  if (fstat(fd, &st)) return CLADE_FAIL(IO, "%s", strerror(errno));
  if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)))
    return CLADE_FAIL(PERMISSION, "it is not a file that only this user can write");
  if (st.st_size < 0 || (uint64_t)st.st_size < least || (uint64_t)st.st_size > most)
    return CLADE_FAIL(CORRUPT, "its size is %lld bytes", (long long)st.st_size);
  out->file = clade__new((size_t)st.st_size, 1);
  if (!out->file) return CLADE_NO_MEMORY;
  out->data = out->file;
  out->bytes = (size_t)st.st_size;
  return read_all(fd, out->file, out->bytes) ? CLADE_OK : CLADE_FAIL(IO, "%s", strerror(errno));
}

/* Reads a file of the cache's own, with a size between `least` and `most`. The caller verifies its contents. */
static clade_status fetch(const clade__cache *cache, const char *file, uint64_t least, uint64_t most,
                          clade__cache_blob *out) {
  *out = (clade__cache_blob){0};
  int fd = openat(cache->dir, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return clade_fail(errno == ENOENT ? CLADE_NOT_FOUND : CLADE_IO, "%s", strerror(errno));
  clade_status status = read_open(fd, least, most, out);
  close(fd);
  return status;
}

static clade_status let_go(clade_status status, const clade__cache *cache, const char *file, clade__cache_blob *out) {
  if (status == CLADE_OK) return CLADE_OK;
  clade__free(out->file);
  *out = (clade__cache_blob){0};
  return clade__fail_in(status, "program cache: %s/%s", cache->path, file);
}

void clade__cache_stamp(const clade__cache *cache, const char *file, clade__stamp *out) {
  struct stat st;
  memset(out, 0, sizeof *out);
  if (fstatat(cache->dir, file, &st, AT_SYMLINK_NOFOLLOW)) return;
  *out = (clade__stamp){(uint64_t)st.st_ino, (uint64_t)st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec};
}

clade_status clade__cache_fetch(const clade__cache *cache, const char *file, uint64_t most, clade__cache_blob *out) {
  return let_go(fetch(cache, file, 0, most, out), cache, file, out);
}

static clade_status read_checked(const clade__cache *cache, const char *file, clade__cache_kind kind,
                                 clade__hash device, clade__hash name, clade__cache_blob *out) {
  CLADE_TRY(fetch(cache, file, sizeof(header), LARGEST, out));
  CLADE_TRY(clade__cache_verify(out->file, out->bytes, kind, device, out));
  if (kind == CLADE__CACHE_BINARY && !clade__hash_equal(name, clade__cache_address(device, out->data, out->bytes)))
    return CLADE_FAIL(CORRUPT, "it holds what another file should");
  return CLADE_OK;
}

clade_status clade__cache_read(const clade__cache *cache, clade__cache_kind kind, clade__hash device, clade__hash name,
                               clade__cache_blob *out) {
  char file[CLADE__CACHE_NAME];
  clade__cache_file_name(kind, name, file);
  return let_go(read_checked(cache, file, kind, device, name, out), cache, file, out);
}

static bool write_all(int fd, const void *data, size_t bytes) {
  for (const char *at = data; bytes;) {
    ssize_t n = write(fd, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    at += n;
    bytes -= (size_t)n;
  }
  return true;
}

clade_status clade__cache_replace(const clade__cache *cache, const char *file, const void *head, size_t head_bytes,
                                  const void *data, size_t bytes) {
  static atomic_uint count;
  char temporary[64];
  snprintf(temporary, sizeof temporary, "tmp.%ld.%u", (long)getpid(), atomic_fetch_add(&count, 1u));
  int fd = openat(cache->dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return CLADE_FAIL(IO, "program cache: cannot write to %s: %s", cache->path, strerror(errno));
  bool ok = write_all(fd, head, head_bytes) && write_all(fd, data, bytes) && !fsync(fd);
  int error = errno;
  if (close(fd) && ok) ok = false, error = errno;
  if (ok && renameat(cache->dir, temporary, cache->dir, file)) ok = false, error = errno;
  if (!ok) {
    unlinkat(cache->dir, temporary, 0);
    return CLADE_FAIL(IO, "program cache: cannot write %s/%s: %s", cache->path, file, strerror(error));
  }
  fsync(cache->dir); /* without it, a crash can lose the name, but not the contents */
  return CLADE_OK;
}

clade_status clade__cache_write(const clade__cache *cache, clade__cache_kind kind, clade__hash device, clade__hash name,
                                const void *data, size_t bytes) {
  char file[CLADE__CACHE_NAME];
  if (bytes > LARGEST - sizeof(header)) return CLADE_FAIL(OVERFLOW, "program cache: %zu bytes are too many", bytes);
  clade__cache_file_name(kind, name, file);
  header h = header_of(kind, device, data, bytes);
  return clade__cache_replace(cache, file, &h, sizeof h, data, bytes);
}
