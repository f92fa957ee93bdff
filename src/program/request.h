/* A request for a kernel, as data: a kernel of a source file with parameters. */
#ifndef CLADE_REQUEST_H
#define CLADE_REQUEST_H

#include "base/base.h"

typedef struct clade__define {
  const char *name, *text;
} clade__define;

typedef struct clade__request {
  const char *file;    /* stem of an embedded kernel file, and the name that the compiler's log shows */
  const char *source;  /* the file's text where it is a user's; NULL: embedded, or CLADE_KERNEL_DIR/<file>.cl */
  const char *kernel;  /* as written in KERNEL(name) */
  const char *options; /* of the compiler; "" mostly */
  int n_defines;
  const clade__define *defines; /* in order */
  size_t local[3];              /* the launch to warm */
  bool large_grid;              /* some global size is above 65,535 */
} clade__request;

/* What everything above keys by: all of the request but local and grid, and the source's text. */
clade_status clade__request_hash(const clade__request *request, clade__hash *hash);

#endif
