/* A kernel request as data: a kernel of a source file, with defines. */
#ifndef CLADE_REQUEST_H
#define CLADE_REQUEST_H

#include "base/base.h"

typedef struct clade__define {
  const char *name, *text;
} clade__define;

/* Kernel arguments in order, as far as a warm-up launch needs them. A tensor is two arguments: BUFFER and BYTES (its
 * offset, 4 or 8). */
typedef enum clade__launch_arg_kind {
  CLADE__LAUNCH_BUFFER,
  CLADE__LAUNCH_BYTES,
  CLADE__LAUNCH_LOCAL
} clade__launch_arg_kind;
typedef struct clade__launch_arg {
  clade__launch_arg_kind kind;
  uint32_t bytes; /* of BYTES (at most 128) and LOCAL */
} clade__launch_arg;

#define CLADE__BUNDLED_FILE "fpga" /* file name of all bundle kernels, which have no source */

typedef struct clade__request {
  const char *file;    /* stem of an embedded kernel file; shown in the build log */
  const char *source;  /* text of a user's file; NULL: embedded, or CLADE_KERNEL_DIR/<file>.cl */
  const char *kernel;  /* name in KERNEL(name) */
  const char *options; /* compiler options, usually "" */
  int n_defines;
  const clade__define *defines; /* in order */
  /* Member kernels, whose <kernel>_item functions this kernel calls. Copies of their files precede its own, with
   * SUFFIX <this kernel's>_<index>. Members have no members. */
  int n_members;
  const struct clade__request *members;
  /* The launch configuration. It is not part of the hash. It is checked against the kernel's limits, and warmed up
   * on devices that compile per configuration. */
  size_t local[3]; /* zeros for unused dimensions */
  bool large_grid; /* a global size exceeds 65,535 */
  int n_args;
  const clade__launch_arg *args; /* NULL: no check and no warm-up */
} clade__request;

/* The key of the caches: covers the whole request except the launch, and the texts of source and prelude. */
clade_status clade__request_hash(const clade__request *request, clade__hash *hash);

#endif
