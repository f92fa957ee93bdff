/* Files: judged by their beginning, read whole, looked at by a cursor that never leaves them, and written beside their
 * place and then renamed. */
#ifndef CLADE_BASE_FILE_H
#define CLADE_BASE_FILE_H

#include "base/base.h"

/* By errno: NOT_FOUND, PERMISSION, DUPLICATE, NO_MEMORY or IO: "cannot <what> <path>: <why>". */
clade_status clade__file_fail(const char *what, const char *path);

typedef struct clade__bytes { /* of one file */
  unsigned char *data;        /* by clade__free */
  size_t n;
} clade__bytes;
/* The whole of a file; OVERFLOW when it has more than `cap` bytes. Every file that a user names is opened here: what is
 * not a regular file (a FIFO, a device, a directory) is refused, since it could block or never end. */
clade_status clade__file_read(const char *path, uint64_t cap, clade__bytes *out);
clade_status clade__file_begin(const char *path, uint64_t most, clade__bytes *out); /* its first bytes */

/* IO: "<path> cannot be written: <why>". Nothing that is there is touched, and nothing stays (writable.c). */
clade_status clade__file_can_write(const char *path);

/* A file that is open, and of which nothing was read yet. It is read by pread and never mapped: a file that becomes
 * shorter meanwhile is an error with a message, where a mapping would end the process by SIGBUS. */
typedef struct clade__file {
  const char *path;
  int fd;
  uint64_t bytes;
} clade__file;
clade_status clade__file_head(const clade__file *file, uint64_t most, clade__bytes *out); /* its first bytes */
/* Says by a file's beginning and size whether it is worth reading: a wrong one costs no memory of its size. */
typedef clade_status clade__file_judge(const clade__file *file, const void *what);
/* As clade__file_read for a file that `judge` does not refuse. */
clade_status clade__file_read_judged(const char *path, uint64_t cap, clade__file_judge *judge, const void *what,
                                     clade__bytes *out);

/* Directories on the way as well. That it is there already is fine. */
clade_status clade__directory_make(const char *path, unsigned mode);
clade_status clade__directory_sync(const char *path);

/* A file that is not yet in its place (draft.c): it lies beside it, as ".clade-PROCESS-NUMBER.tmp". */
typedef struct clade__draft {
  int fd; /* -1: none */
  char *path, *temporary, *directory;
} clade__draft;
clade_status clade__draft_open(const char *path, clade__draft *out);
clade_status clade__draft_write(clade__draft *draft, const void *data, size_t bytes);
clade_status clade__draft_write_at(clade__draft *draft, uint64_t offset, const void *data, size_t bytes);
clade_status clade__draft_sync(clade__draft *draft); /* on disk; no writing afterwards */
/* Synced, it appears in the same directory under a name more, in place of what had that name: as a link of the same
 * file or, where there are no links, as a copy. */
clade_status clade__draft_link(clade__draft *draft, const char *path);
clade_status clade__draft_place(clade__draft *draft);  /* in its place, and the directory on disk */
clade_status clade__draft_rename(clade__draft *draft); /* in its place alone: for what is compared before it is used */
/* Removes what was not placed. After a failure as well as at the end. */
void clade__draft_close(clade__draft *draft);
bool clade__draft_is_temporary(const char *name);

/* ---- a cursor over bytes (cursor.c) ---- */
typedef struct clade__cursor {
  const char *path; /* for messages */
  const unsigned char *data;
  size_t n, at;
} clade__cursor;
/* The next bytes; CORRUPT when there are less: "<path>: ends in <what>: …". */
clade_status clade__take(clade__cursor *cursor, size_t bytes, const char *what, const unsigned char **out);
/* CORRUPT when something follows. */
clade_status clade__take_end(const clade__cursor *cursor);
uint64_t clade__little(const unsigned char *from, size_t bytes);
uint64_t clade__big(const unsigned char *from, size_t bytes);
void clade__put_little(unsigned char *to, uint64_t value, size_t bytes);
bool clade__are_zero(const void *data, size_t bytes);
bool clade__is_utf8(const char *text);

#endif
