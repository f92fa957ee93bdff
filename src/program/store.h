/* Where kernels come from. A request is a kernel of a source file with parameters; requests that are prepared together
 * are compiled together; results are kept in memory and in the program cache. Knows nothing of ops or graphs. */
#ifndef CLADE_STORE_H
#define CLADE_STORE_H

#include "cl/cl.h"
#include "program/request.h"

typedef struct clade__program_kernel {
  cl_program program; /* the store's, as long as the device lives */
  char name[96];      /* in the program */
  int queue;          /* a bundle's kernels in different ones may run at the same time; else 0 */
} clade__program_kernel;

/* One result per request. Equal requests are built once. */
clade_status clade__store_prepare(clade_device *device, size_t n, const clade__request *requests,
                                  clade__program_kernel *out);

/* Of a member, and of what calls it. */
clade_status clade__member_hash(const clade__request *member, clade__hash *hash);
/* A kernel with members that is there already, in memory or in the cache: of those the one that holds most of
 * `members`, which are their hashes. number[i]: which one there members[i] is, or -1. */
typedef struct clade__holder {
  clade__hash hash; /* for a request's .found */
  size_t held;      /* of the members asked for; 0: there is no such kernel */
  uint32_t n_args;  /* of the kernel */
} clade__holder;
clade_status clade__store_holder(clade_device *device, size_t n, const clade__hash *members, int32_t *number,
                                 clade__holder *out);

/* Of a device without a compiler: finds its bundle, loads and tests it, once; from then on its info tells the bundle's
 * kernels. Nothing to do for others. */
clade_status clade__store_bundle(clade_device *device);

/* Launches a kernel of one of its bundles' programs, whose answer is known: how long that took; 0: there is none, or
 * the device has no such program. For who measures what changing programs takes. */
clade_status clade__store_turn(clade_device *device, int program, double *seconds);

typedef struct clade__store_stats {
  uint64_t compiled, loaded, hits; /* kernels: compiled now, from the cache, from memory */
  uint64_t again;                  /* programs that did not build the short way: lean, or of many kernels */
} clade__store_stats;
clade_status clade__store_get_stats(clade_device *device, clade__store_stats *stats);

/* For tests: nothing is compiled any more. Who wants a kernel that is not there is told CLADE_NOT_FOUND. */
extern bool clade__store_closed;

/* Waits until what was compiled is in the cache on disk. */
void clade__store_flush(clade_device *device);

/* The embedded files, "gemm.cl" by stem "gemm". */
typedef struct clade__embedded {
  const char *stem;
  const char *text; /* zero-terminated */
  size_t bytes;
} clade__embedded;
extern const clade__embedded clade__embedded_kernels[]; /* ends in a NULL stem; generated */
extern const char *const clade__preludes[]; /* stems of what goes before each program, in this order; ends in NULL */
clade_status clade__kernel_source(const char *stem, const char **text); /* honors CLADE_KERNEL_DIR; for the process */

#endif
