/* A request for a kernel, as data: a kernel of a source file with parameters. */
#ifndef CLADE_REQUEST_H
#define CLADE_REQUEST_H

#include "base/base.h"

typedef struct clade__define {
  const char *name, *text;
} clade__define;

/* An argument of the kernel, in its order, as far as warming must know it: a tensor is two, BUFFER and BYTES (4 or 8,
 * its offset). */
typedef enum clade__launch_arg_kind {
  CLADE__LAUNCH_BUFFER,
  CLADE__LAUNCH_BYTES,
  CLADE__LAUNCH_LOCAL
} clade__launch_arg_kind;
typedef struct clade__launch_arg {
  clade__launch_arg_kind kind;
  uint32_t bytes; /* BYTES (at most 128), LOCAL */
} clade__launch_arg;

#define CLADE__BUNDLED_FILE "fpga" /* the file, with an empty source, of all kernels that come from bundles */

typedef struct clade__request {
  const char *file;    /* stem of an embedded kernel file, and the name that the compiler's log shows */
  const char *source;  /* the file's text where it is a user's; NULL: embedded, or CLADE_KERNEL_DIR/<file>.cl */
  const char *kernel;  /* as written in KERNEL(name) */
  const char *options; /* of the compiler; "" mostly */
  int n_defines;
  const clade__define *defines; /* in order */
  /* Kernels whose <kernel>_item this one calls: copies of their files stand before its own, where SUFFIX is
   * <this one's>_<index>. They have no members. */
  int n_members;
  const struct clade__request *members;
  const clade__hash *found; /* that the store told of it, with its members (store.h); nothing above is needed then */
  /* The launch that is prepared for. It is no part of the hash, but checked against the kernel's limits, and warmed
   * where a device compiles again for it. */
  size_t local[3]; /* zeros behind the last dimension */
  bool large_grid; /* some global size is above 65,535 */
  int n_args;
  const clade__launch_arg *args; /* NULL: nothing is checked or warmed */
} clade__request;

/* What everything above keys by: all of the request but its launch, and the texts of the source and the prelude. */
clade_status clade__request_hash(const clade__request *request, clade__hash *hash);

#endif
