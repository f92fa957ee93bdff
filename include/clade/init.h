/* Process-wide settings, all optional: version, log, allocator, threads, cache directory. */
#ifndef CLADE_INIT_H
#define CLADE_INIT_H

#include <clade/types.h>

CLADE_BEGIN_DECLS

typedef enum clade_log_level {
  CLADE_LOG_ERROR = 1,
  CLADE_LOG_WARNING,
  CLADE_LOG_INFO,
  CLADE_LOG_DEBUG
} clade_log_level;

typedef void clade_log_fn(void *user, clade_log_level level, const char *message);

/* Every allocation of Clade's own goes through these. `align` is a power of two; `resize` may move. */
typedef struct clade_allocator {
  size_t size;
  void *user;
  void *(*allocate)(void *user, size_t bytes, size_t align);
  void *(*resize)(void *user, void *old, size_t old_bytes, size_t bytes, size_t align);
  void (*release)(void *user, void *memory, size_t bytes);
} clade_allocator;

/* Of the programs that devices without a compiler load (docs/fpga.md). */
typedef enum clade_bundle_policy {
  CLADE_BUNDLES_ANY,
  CLADE_BUNDLES_SIGNED /* only those that a trusted key signed */
} clade_bundle_policy;

typedef struct clade_init_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_init_opt));
  clade_log_fn *log CLADE_UNSET; /* unset: nothing is printed; a library does not print */
  void *log_user CLADE_UNSET;
  clade_log_level log_level CLADE_UNSET;        /* unset: warnings and worse */
  const clade_allocator *allocator CLADE_UNSET; /* copied; must outlive every object of Clade */
  int cpu_threads CLADE_UNSET;                  /* of CPU devices (PoCL); unset: the implementation's choice */
  bool no_affinity CLADE_UNSET;                 /* do not pin the threads of CPU devices */
  const char *cache_dir CLADE_UNSET; /* unset: CLADE_CACHE_DIR, $XDG_CACHE_HOME/clade, ~/.cache/clade. It keeps itself
                            below CLADE_CACHE_MIB MiB, 1024 where that is unset */
  bool no_cache CLADE_UNSET;
  const char *tuning
      CLADE_UNSET; /* files of tuning records that come with the program, with colons between: docs/tuning.md */
  const char *libraries CLADE_UNSET; /* of others, that implementations may leave work to where they were measured to be
                            faster: "clblast", "clfft", or both with a colon between. CLADE_LIBRARIES adds to them */
  clade_bundle_policy bundle_policy CLADE_UNSET; /* CLADE_BUNDLE_POLICY can make it stricter, and not weaker */
  const char *bundle_keys CLADE_UNSET; /* the trusted keys, a file of public keys in PEM; unset: CLADE_BUNDLE_KEYS */
} clade_init_opt;

/* Optional; before any other call, else CLADE_BUSY. It is the only call that sets environment variables, and only those
 * that are unset: POCL_AFFINITY=1, with cpu_threads POCL_MAX_PTHREAD_COUNT, and POCL_WORK_GROUP_SPECIALIZATION=0, with
 * which PoCL compiles each kernel once instead of two or three times. The last one holds for all OpenCL kernels of the
 * process: programs that have others, of many work-items a group, may want to set it to 1. */
#define clade_init(...) clade_init_(CLADE_OPT(clade_init_opt, __VA_ARGS__))
CLADE_API clade_status clade_init_(const clade_init_opt *opt);

/* May be called at any time, from any thread; NULL stops it. */
CLADE_API void clade_log_set(clade_log_fn *fn, void *user, clade_log_level level);

/* The directory of compiled programs, as a text that ends in a zero; it need not exist. CLADE_OVERFLOW: `size` is too
 * small. */
CLADE_API clade_status clade_cache_path(char *path, size_t size);
/* Removes what was compiled; both counts may be NULL. Other files in the directory stay. */
CLADE_API clade_status clade_cache_clear(uint64_t *files, uint64_t *bytes);

#define CLADE_VERSION_MAJOR 0
#define CLADE_VERSION_MINOR 1
#define CLADE_VERSION_PATCH 0
CLADE_API const char *clade_version(void); /* of the library that is loaded: "0.1.0" */

CLADE_END_DECLS
#endif
