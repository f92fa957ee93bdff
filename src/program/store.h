/* The program store: requests prepared together are compiled together; results are kept in memory and in the program
 * cache. Independent of ops and graphs. */
#ifndef CLADE_STORE_H
#define CLADE_STORE_H

#include "cl/cl.h"
#include "program/request.h"

typedef struct clade__program_kernel {
  cl_program program; /* borrowed from the store, valid as long as the device */
  char name[96];      /* name in the program */
  int queue;          /* bundle kernels with different numbers can run concurrently; otherwise 0 */
} clade__program_kernel;

/* One result per request; equal requests are built once. */
clade_status clade__store_prepare(clade_device *device, size_t n, const clade__request *requests,
                                  clade__program_kernel *out);

/* For devices without a compiler: finds, loads and tests the bundles once; from then on, the device info lists their
 * kernels. No effect on other devices. */
clade_status clade__store_bundle(clade_device *device);

/* Launches a kernel with a known answer from one of the device's programs and returns the duration, to measure the
 * cost of changing programs; 0 if there is no such kernel or program. */
clade_status clade__store_turn(clade_device *device, int program, double *seconds);

typedef struct clade__store_stats {
  uint64_t compiled, loaded, hits; /* kernels that were compiled, loaded from the cache, and found in memory */
  uint64_t again;                  /* programs built again after a lean or joint build failed */
} clade__store_stats;
clade_status clade__store_get_stats(clade_device *device, clade__store_stats *stats);

/* For tests: if set, requests that would need compilation fail with CLADE_NOT_FOUND. */
extern bool clade__store_closed;

/* Waits until compiled programs are written to the cache. */
void clade__store_flush(clade_device *device);

/* Embedded kernel files: "gemm.cl" has the stem "gemm". */
typedef struct clade__embedded {
  const char *stem;
  const char *text; /* zero-terminated */
  size_t bytes;
} clade__embedded;
extern const clade__embedded clade__embedded_kernels[]; /* generated; ends with a NULL stem */
/* Stems of the files that precede each program, in order; NULL-terminated. */
extern const char *const clade__preludes[];
/* Honors CLADE_KERNEL_DIR; valid for the life of the process. */
clade_status clade__kernel_source(const char *stem, const char **text);

#endif
