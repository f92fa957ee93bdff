/* Process-wide settings, all of them optional: log, allocator, threads, program cache, tuning records, bundles. Also
 * the library's version. */
#ifndef CLADE_INIT_H
#define CLADE_INIT_H

#include <clade/types.h>

CLADE_BEGIN_DECLS

/* ---- log ---- */
/* Severity of a log message. */
typedef enum clade_log_level {
  CLADE_LOG_ERROR = 1, /* a failure */
  CLADE_LOG_WARNING,   /* a problem that does not fail the call */
  CLADE_LOG_INFO,      /* notable events */
  CLADE_LOG_DEBUG      /* details */
} clade_log_level;

/* A log callback. Any thread may call it. */
typedef void clade_log_fn(void *user, clade_log_level level, const char *message);

/* ---- allocator ---- */
/* The functions behind every host allocation of the library. */
typedef struct clade_allocator {
  size_t size;
  void *user;                                                /* first argument of the functions */
  void *(*allocate)(void *user, size_t bytes, size_t align); /* `align` is a power of two */
  /* Resizes an allocation, which may move. */
  void *(*resize)(void *user, void *old, size_t old_bytes, size_t bytes, size_t align);
  void (*release)(void *user, void *memory, size_t bytes); /* frees an allocation */
} clade_allocator;

/* ---- settings ---- */
/* Bundles that may be loaded: programs for devices without a compiler (docs/fpga.md). */
typedef enum clade_bundle_policy {
  CLADE_BUNDLES_ANY,   /* all bundles */
  CLADE_BUNDLES_SIGNED /* bundles signed by a trusted key only */
} clade_bundle_policy;

/* Options of clade_init. */
typedef struct clade_init_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_init_opt));
  clade_log_fn *log CLADE_UNSET;                /* log callback; unset: nothing is printed */
  void *log_user CLADE_UNSET;                   /* first argument of the callback */
  clade_log_level log_level CLADE_UNSET;        /* least severe level to report; unset: warnings */
  const clade_allocator *allocator CLADE_UNSET; /* copied; its functions must outlive all objects of Clade */
  int cpu_threads CLADE_UNSET;                  /* threads of CPU devices (PoCL); unset: PoCL's choice */
  bool no_affinity CLADE_UNSET;                 /* do not pin the threads of CPU devices to cores */
  /* Directory of the program cache. Unset: CLADE_CACHE_DIR, $XDG_CACHE_HOME/clade, or ~/.cache/clade, in this order.
   * The cache is limited to CLADE_CACHE_MIB MiB, by default 1024. */
  const char *cache_dir CLADE_UNSET;
  bool no_cache CLADE_UNSET; /* do without a program cache */
  /* Files of tuning records that the program ships, separated by colons (docs/tuning.md). */
  const char *tuning CLADE_UNSET;
  /* Libraries that implementations may call where tuning found them to be faster: "clblast", "clfft", or both,
   * separated by a colon. CLADE_LIBRARIES adds to them. */
  const char *libraries CLADE_UNSET;
  clade_bundle_policy bundle_policy CLADE_UNSET; /* CLADE_BUNDLE_POLICY can only make the policy stricter */
  /* File of trusted public keys for bundles, in PEM; unset: CLADE_BUNDLE_KEYS. */
  const char *bundle_keys CLADE_UNSET;
} clade_init_opt;

/* Applies process-wide settings: clade_init(.log = log, .log_level = CLADE_LOG_INFO). Optional; must come before any
 * other call, otherwise CLADE_BUSY.
 *
 * No other call sets environment variables. Variables that are set already keep their values:
 *
 *   POCL_AFFINITY=1                   unless .no_affinity is set
 *   POCL_MAX_PTHREAD_COUNT            from .cpu_threads
 *   POCL_WORK_GROUP_SPECIALIZATION=0  PoCL compiles each kernel once instead of two or three times
 *
 * The last variable affects all OpenCL kernels of the process. Programs with kernels of their own that use large
 * work-groups may prefer to set it to 1. */
#define clade_init(...) clade_init_(CLADE_OPT(clade_init_opt, __VA_ARGS__))
CLADE_API clade_status clade_init_(const clade_init_opt *opt);

/* Replaces the log callback. May be called at any time, from any thread; NULL stops the log. */
CLADE_API void clade_log_set(clade_log_fn *fn, void *user, clade_log_level level);

/* ---- program cache ---- */
/* Stores the directory of the program cache as a text with a terminating zero. The directory need not exist.
 * CLADE_OVERFLOW: `size` is too small. */
CLADE_API clade_status clade_cache_path(char *path, size_t size);
/* Removes all compiled programs from the cache and counts them; both counts may be NULL. Other files in the directory
 * stay. */
CLADE_API clade_status clade_cache_clear(uint64_t *files, uint64_t *bytes);

/* ---- version ---- */
/* The version of these headers. */
#define CLADE_VERSION_MAJOR 0
#define CLADE_VERSION_MINOR 2
#define CLADE_VERSION_PATCH 0
CLADE_API const char *clade_version(void); /* the version of the loaded library: "0.2.0" */

CLADE_END_DECLS
#endif
