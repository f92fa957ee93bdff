/* Files: reading whole files, a bounds-checked cursor over their bytes, and atomic writing by a temporary file and
 * rename. */
#ifndef CLADE_BASE_FILE_H
#define CLADE_BASE_FILE_H

#include "base/base.h"

/* Maps errno to NOT_FOUND, PERMISSION, DUPLICATE, NO_MEMORY or IO: "cannot <what> <path>: <why>". */
clade_status clade__file_fail(const char *what, const char *path);

typedef struct clade__bytes { /* contents of a file */
  unsigned char *data;        /* freed by clade__free */
  size_t n;
} clade__bytes;
/* Reads a whole file; OVERFLOW if it has more than `cap` bytes. Every file that a user names is opened here.
 * Anything but a regular file (FIFO, device, directory) is refused, since reading could block or never end. */
clade_status clade__file_read(const char *path, uint64_t cap, clade__bytes *out);
clade_status clade__file_begin(const char *path, uint64_t most, clade__bytes *out); /* first bytes only */

/* Fails with IO, "<path> cannot be written: <why>", and leaves the file system unchanged (writable.c). */
clade_status clade__file_can_write(const char *path);

/* An open file. It is read by pread and never mapped: if the file is truncated meanwhile, pread reports an error,
 * but access to a mapping would raise SIGBUS. */
typedef struct clade__file {
  const char *path;
  int fd;
  uint64_t bytes;
} clade__file;
clade_status clade__file_head(const clade__file *file, uint64_t most, clade__bytes *out); /* first bytes only */
/* Accepts or refuses a file by its header and size, before memory is allocated for its contents. */
typedef clade_status clade__file_judge(const clade__file *file, const void *what);
/* clade__file_read for a file that `judge` accepts. */
clade_status clade__file_read_judged(const char *path, uint64_t cap, clade__file_judge *judge, const void *what,
                                     clade__bytes *out);

/* Also creates missing parents. An existing directory is no error. */
clade_status clade__directory_make(const char *path, unsigned mode);
clade_status clade__directory_sync(const char *path);
/* PoCL's cache directory, by PoCL's own rule (pocl_cache.c); by clade__free. NOT_FOUND: no directory of the user. */
clade_status clade__pocl_cache(char **path);

/* A temporary file, ".clade-PROCESS-NUMBER.tmp", beside the path that it will replace (draft.c). */
typedef struct clade__draft {
  int fd; /* -1: none */
  char *path, *temporary, *directory;
} clade__draft;
clade_status clade__draft_open(const char *path, clade__draft *out);
clade_status clade__draft_write(clade__draft *draft, const void *data, size_t bytes);
clade_status clade__draft_write_at(clade__draft *draft, uint64_t offset, const void *data, size_t bytes);
clade_status clade__draft_sync(clade__draft *draft); /* flushes to disk; no writes afterwards */
/* After clade__draft_sync: gives the file a second name in the same directory, replacing a file of that name. Makes
 * a hard link, or a copy if the file system has no links. */
clade_status clade__draft_link(clade__draft *draft, const char *path);
clade_status clade__draft_place(clade__draft *draft); /* renames, then syncs the directory */
/* renames without syncing, for files that are verified when they are read */
clade_status clade__draft_rename(clade__draft *draft);
/* Removes the temporary file unless it was renamed. Needed after failures as well. */
void clade__draft_close(clade__draft *draft);
bool clade__draft_is_temporary(const char *name);

/* ---- a cursor over bytes (cursor.c) ---- */
typedef struct clade__cursor {
  const char *path; /* for error messages */
  const unsigned char *data;
  size_t n, at;
} clade__cursor;
/* Returns the next bytes; CORRUPT if fewer remain: "<path>: ends in <what>: …". */
clade_status clade__take(clade__cursor *cursor, size_t bytes, const char *what, const unsigned char **out);
/* CORRUPT if bytes remain. */
clade_status clade__take_end(const clade__cursor *cursor);
uint64_t clade__little(const unsigned char *from, size_t bytes);
uint64_t clade__big(const unsigned char *from, size_t bytes);
void clade__put_little(unsigned char *to, uint64_t value, size_t bytes);
bool clade__are_zero(const void *data, size_t bytes);
bool clade__is_utf8(const char *text);

#endif
