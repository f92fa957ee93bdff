/* Support for calling other OpenCL libraries: opening them if the user enabled them, error codes, and sub-buffers. */
#ifndef CLADE_CL_FOREIGN_H
#define CLADE_CL_FOREIGN_H

#include <clade/opencl.h>

#include "cl/cl.h"

typedef struct clade__symbol {
  const char *name;
  void *to; /* function pointer to set */
} clade__symbol;
/* Opens a library permanently, since it may keep threads, and resolves its functions. Returns NULL, or a description
 * of what is missing, stored in `why`. */
const char *clade__symbols_open(const char *file, int n, const clade__symbol *symbols, char *why, size_t size);

typedef struct clade__foreign {
  const char *name, *file, *package; /* package: name in Debian */
  const clade__symbol *symbols;
  int n_symbols;
  atomic_bool tried;
  char reason[300]; /* why it is unavailable; empty: available */
} clade__foreign;

/* Returns NULL if the library is available, else the reason, which stays valid. */
const char *clade__foreign_missing(clade__foreign *f);
/* Libraries return OpenCL's codes as well as their own. */
clade_status clade__foreign_check(const clade_device *device, const char *call, int code);
/* Creates a sub-buffer for libraries that take no offsets. */
clade_status clade__part_new(const clade_device *device, cl_mem memory, size_t offset, size_t bytes, cl_mem *out);
void clade__part_release(cl_mem part); /* accepts NULL */

#endif
