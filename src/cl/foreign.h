/* For rooms that speak to other libraries: opening them where the user names them, their errors, and buffers as
 * they take them. */
#ifndef CLADE_CL_FOREIGN_H
#define CLADE_CL_FOREIGN_H

#include <clade/opencl.h>

#include "cl/cl.h"

typedef struct clade__symbol {
  const char *name;
  void *to; /* the pointer to fill */
} clade__symbol;
/* Opens a library, for good (it may keep threads), and fills the pointers to its functions. NULL, or what is missing: a
 * text in `why`. */
const char *clade__symbols_open(const char *file, int n, const clade__symbol *symbols, char *why, size_t size);

typedef struct clade__foreign {
  const char *name, *file, *package; /* package: Debian's */
  const clade__symbol *symbols;
  int n_symbols;
  atomic_bool tried;
  char reason[300]; /* why not; empty: it is there */
} clade__foreign;

/* NULL, or why it is not used: a text that lasts. */
const char *clade__foreign_missing(clade__foreign *f);
/* Codes of such libraries are OpenCL's, and some of their own beside them. */
clade_status clade__foreign_check(const clade_device *device, const char *call, int code);
/* Some bytes of a buffer as a buffer, for libraries that take no offsets. */
clade_status clade__part_new(const clade_device *device, cl_mem memory, size_t offset, size_t bytes, cl_mem *out);
void clade__part_release(cl_mem part); /* NULL is fine */

#endif
