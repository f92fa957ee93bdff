/* Writes the files of a poclbin to PoCL's cache. PoCL prefers a file that is already there, whatever it contains,
 * and aborts if the file is unusable. So every file is written or compared before PoCL gets the binary. The
 * directory is named by a hash of its content, so that neither PoCL's compiler nor another bundle uses it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "bundle/container.h"

typedef struct piece { /* a file, such as "/kernel/0-0-0/kernel.so" */
  const char *name;
  size_t name_bytes;
  const unsigned char *data;
  size_t bytes;
} piece;

typedef struct unpacking {
  const char *where;
  char *directory;
  piece *pieces;
  size_t n, capacity;
} unpacking;

static clade_status joined(const char *directory, const char *name, size_t name_bytes, char **path) {
  clade__text text = {0};
  clade__text_add(&text, "%s", directory);
  clade__text_add_bytes(&text, name, name_bytes);
  return clade__text_take(&text, path);
}

/* Replaces PoCL's directory name, a hash of the source, by a hash of the content: "CF/ADB…". */
static clade_status name_directory(unpacking *u, unsigned char *data, size_t bytes) {
  char digits[33], *cache, name[CLADE__POCLBIN_NAME + 1] = "/";
  clade__hash_text(clade__hash_bytes(data, bytes), digits);
  for (size_t i = 0; i < CLADE__POCLBIN_NAME - 1; i++) {
    char c = digits[i % 32];
    name[i + 1] = i == 2 ? '/' : (char)('A' + (c <= '9' ? c - '0' : c - 'a' + 10));
  }
  memcpy(data + CLADE__POCLBIN_AT_NAME, name + 1, CLADE__POCLBIN_NAME);
  CLADE_TRY(clade__pocl_cache(&cache));
  clade_status status = joined(cache, name, strlen(name), &u->directory);
  clade__free(cache);
  return status;
}

/* ---- the binary's files ---- */
static clade_status gather(unpacking *u, const unsigned char *files, size_t bytes) {
  for (const unsigned char *at = files; at < files + bytes;) {
    CLADE_TRY(clade__grow(&u->pieces, &u->capacity, u->n + 1, sizeof *u->pieces));
    piece *p = &u->pieces[u->n++];
    p->name_bytes = (size_t)clade__little(at, 4);
    p->name = (const char *)at + 4;
    at += 4 + p->name_bytes;
    p->bytes = (size_t)clade__little(at, 4);
    p->data = at + 4;
    at += 4 + p->bytes;
  }
  return CLADE_OK;
}

static clade_status gather_all(unpacking *u, const unsigned char *data) {
  uint64_t n_kernels = clade__little(data + CLADE__POCLBIN_AT_KERNELS, 4);
  const unsigned char *files = data + clade__poclbin_at_files(data), *at = files + 8;
  size_t root = (size_t)clade__little(files, 8);
  CLADE_TRY(gather(u, at, root));
  at += root;
  for (uint64_t i = 0; i < n_kernels; i++) {
    size_t whole = (size_t)clade__little(at, 8), files = (size_t)clade__little(at + 8, 8);
    if (!files)
      return CLADE_FAIL(UNSUPPORTED, "%s: kernel %.*s has no machine code for launches of any size", u->where,
                        (int)clade__little(at + 20, 4), (const char *)at + 24);
    CLADE_TRY(gather(u, at + whole - files, files));
    at += whole;
  }
  return CLADE_OK;
}

/* ---- checking for other files: PoCL would prefer a program, or machine code for a specific launch size ---- */
static bool is_known(const unpacking *u, const char *below, mode_t mode) {
  const char *slash = strrchr(below, '/');
  size_t n = strlen(below);
  /* PoCL's access time stamp, or a temporary file, which nobody reads. */
  if (S_ISREG(mode) && slash && (strcmp(below, "/last_accessed") == 0 || clade__draft_is_temporary(slash + 1)))
    return true;
  for (size_t i = 0; i < u->n; i++) {
    const piece *p = &u->pieces[i];
    if (p->name_bytes < n || memcmp(p->name, below, n) != 0) continue;
    if (S_ISREG(mode) ? p->name_bytes == n : S_ISDIR(mode) && p->name_bytes > n && p->name[n] == '/') return true;
  }
  return false;
}

static clade_status look(const unpacking *u, int parent, const char *name, const char *below);

static clade_status look_at(const unpacking *u, int parent, const char *name, const char *below) {
  struct stat st;
  if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW))
    return errno == ENOENT ? CLADE_OK : clade__file_fail("look at", below); /* replaced by another process */
  if (!is_known(u, below, st.st_mode))
    return CLADE_FAIL(CORRUPT, "%s: in PoCL's cache, %s%s is %s: remove %s", u->where, u->directory, below,
                      S_ISLNK(st.st_mode) ? "a link" : "nothing that belongs to it", u->directory);
  return S_ISDIR(st.st_mode) ? look(u, parent, name, below) : CLADE_OK;
}

static clade_status look_through(const unpacking *u, DIR *dir, const char *below) {
  for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
    char *path;
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    clade__text text = {0};
    clade__text_add(&text, "%s/%s", below, e->d_name);
    CLADE_TRY(clade__text_take(&text, &path));
    clade_status status = look_at(u, dirfd(dir), e->d_name, path);
    clade__free(path);
    CLADE_TRY(status);
  }
  return CLADE_OK;
}

static clade_status look(const unpacking *u, int parent, const char *name, const char *below) {
  int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return clade__file_fail("look through the directory", name);
  DIR *dir = fdopendir(fd);
  if (!dir) {
    close(fd);
    return clade__file_fail("look through the directory", name);
  }
  clade_status status = look_through(u, dir, below);
  closedir(dir);
  return status;
}

/* ---- writing files ---- */
/* Writes a file atomically; concurrent processes write the same content. Not synced: after a power failure the next
 * process compares the content and repairs the file. */
static clade_status write_piece(const char *path, const piece *p) {
  clade__draft draft = {.fd = -1};
  clade_status status;
  char *directory = clade__copy_text(path);
  if (!directory) return CLADE_NO_MEMORY;
  *strrchr(directory, '/') = '\0';
  CLADE_GOTO(clade__directory_make(directory, 0700));
  CLADE_GOTO(clade__draft_open(path, &draft));
  CLADE_GOTO(clade__draft_write(&draft, p->data, p->bytes));
  CLADE_GOTO(clade__draft_rename(&draft));
fail:
  clade__draft_close(&draft);
  clade__free(directory);
  return status;
}

static clade_status put_at(const unpacking *u, const char *path, const piece *p) {
  clade__bytes has;
  clade_status status = clade__file_read(path, p->bytes, &has);
  if (status == CLADE_OK) {
    bool same = has.n == p->bytes && (!has.n || memcmp(has.data, p->data, has.n) == 0);
    clade__free(has.data);
    if (same) return CLADE_OK;
  } else if (status != CLADE_NOT_FOUND && status != CLADE_OVERFLOW) {
    return status;
  }
  if (status != CLADE_NOT_FOUND)
    clade__log(CLADE_LOG_WARNING, "%s: in PoCL's cache, %s %s: it is replaced", u->where, path,
               status == CLADE_OK && has.n < p->bytes ? "is cut" : "holds something else than the bundle's");
  return write_piece(path, p);
}

static clade_status put(const unpacking *u) {
  for (size_t i = 0; i < u->n; i++) {
    char *path;
    CLADE_TRY(joined(u->directory, u->pieces[i].name, u->pieces[i].name_bytes, &path));
    clade_status status = put_at(u, path, &u->pieces[i]);
    clade__free(path);
    CLADE_TRY(status);
  }
  return CLADE_OK;
}

static clade_status unpack(unpacking *u, unsigned char *data, size_t *bytes) {
  *bytes = clade__poclbin_trim(data);
  CLADE_TRY(name_directory(u, data, *bytes));
  CLADE_TRY(gather_all(u, data));
  CLADE_TRY(clade__directory_make(u->directory, 0700));
  CLADE_TRY(clade__bundle_safe(u->directory));
  CLADE_TRY(look_at(u, AT_FDCWD, u->directory, ""));
  return put(u);
}

clade_status clade__poclbin_unpack(const char *where, unsigned char *data, size_t *bytes) {
  unpacking u = {.where = where};
  clade_status status = unpack(&u, data, bytes);
  clade__free(u.pieces);
  clade__free(u.directory);
  return status;
}
