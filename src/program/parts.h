/* Internal declarations of src/program, included elsewhere by tests only. */
#ifndef CLADE_PROGRAM_PARTS_H
#define CLADE_PROGRAM_PARTS_H

#include "program/cache.h"
#include "program/store.h"
#include "program/tuning.h"

enum { CLADE__KERNEL_NAME = 96 }; /* size of clade__program_kernel.name */

/* ---- requests (request.c) ---- */
clade_status clade__request_check(const clade__request *request);
/* Adds the launch to the hash, for implementations that compile per launch configuration. */
clade__hash clade__request_launch_hash(const clade__request *request, clade__hash hash);
/* The kernel's name in a program. It depends on the request alone, so that it is the same in every program. */
void clade__request_name(const clade__request *request, clade__hash hash, char name[CLADE__KERNEL_NAME]);
clade_status clade__request_source(const clade__request *request, const char **text);
static inline const char *clade__request_options(const clade__request *request) {
  return request->options ? request->options : "";
}

/* ---- program text (text.c) ---- */
/* Options of lean programs, which declare the builtins that they call. The guard excludes clang's header of all
 * builtins. CL1.2 is stated because PoCL 6 defaults to 3.0, where pointers are generic and the declarations do not
 * match. A program that does not build so is built again with the header. */
#define CLADE__LEAN "-D_OPENCL_H_ -cl-std=CL1.2"
/* `head` comes first and describes the device to the prelude. `lean`: the text declares the builtins. */
clade_status clade__program_text(size_t n, const clade__request *const *requests, const clade__hash *hashes, bool lean,
                                 const char *head, clade__text *out);

/* ---- cache directory (cache_dir.c) ---- */
typedef struct clade__cache {
  int dir; /* descriptor; -1: no cache */
  char *path;
  uint64_t limit;
  bool writable;
} clade__cache;
/* CLADE_PERMISSION: others can write to the directory. `create` makes it if absent; otherwise CLADE_NOT_FOUND. */
clade_status clade__cache_open(const char *path, bool create, clade__cache *out);
void clade__cache_close(clade__cache *cache);
/* Opens the configured directory. */
clade_status clade__cache_open_configured(bool create, clade__cache *out);
bool clade__cache_wanted(void);    /* not disabled by clade_init or CLADE_CACHE_DIR=off */
uint64_t clade__cache_limit(void); /* in bytes: CLADE_CACHE_MIB, or 1 GiB */
/* Waits for the lock across processes. Returns -1 if nothing can be locked, which is no error. Without a cache, the
 * home directory serves as the lock file. */
int clade__cache_lock(const clade__cache *cache);
void clade__cache_unlock(int lock);

/* ---- cache files (cache_file.c): header and payload, both with checksums ---- */
typedef enum clade__cache_kind { CLADE__CACHE_BINARY = 1, CLADE__CACHE_INDEX, CLADE__CACHE_UNIT } clade__cache_kind;
enum { CLADE__CACHE_HEADER = 72 };
typedef struct clade__cache_blob {
  void *file; /* freed by clade__free */
  const void *data;
  size_t bytes;
} clade__cache_blob;
/* CLADE_CORRUPT unless all checksums match. Reads no more than `bytes`. */
clade_status clade__cache_verify(const void *file, size_t bytes, clade__cache_kind kind, clade__hash device,
                                 clade__cache_blob *out);
/* CLADE_NOT_FOUND, CLADE_PERMISSION, CLADE_IO or CLADE_CORRUPT. Names: clade__cache_address of its contents for a
 * binary, the device for an index, device and probe for the result of a unit probe. */
clade_status clade__cache_read(const clade__cache *cache, clade__cache_kind kind, clade__hash device, clade__hash name,
                               clade__cache_blob *out);
/* Atomic. */
clade_status clade__cache_write(const clade__cache *cache, clade__cache_kind kind, clade__hash device, clade__hash name,
                                const void *data, size_t bytes);
clade__hash clade__cache_address(clade__hash device, const void *data, size_t bytes);
/* For other files of the directory, with the same permission checks and atomicity; `head` may be NULL. */
clade_status clade__cache_fetch(const clade__cache *cache, const char *file, uint64_t most, clade__cache_blob *out);
clade_status clade__cache_replace(const clade__cache *cache, const char *file, const void *head, size_t head_bytes,
                                  const void *data, size_t bytes);
typedef struct clade__stamp { /* identifies a version of a file, to detect changes; all zero: no file */
  uint64_t inode, bytes;
  int64_t seconds, nanoseconds;
} clade__stamp;
void clade__cache_stamp(const clade__cache *cache, const char *file, clade__stamp *out);
enum { CLADE__CACHE_NAME = 48 };
void clade__cache_file_name(clade__cache_kind kind, clade__hash name, char text[CLADE__CACHE_NAME]);

/* ---- device index (cache_index.c) ---- */
typedef struct clade__index_record {
  clade__hash key, binary;
  char name[CLADE__KERNEL_NAME];
} clade__index_record;
typedef struct clade__index {
  clade__index_record *records;
  size_t n, capacity;
  clade__map map;
  clade__stamp stamp; /* of the file that was read */
} clade__index;
/* Rereads the file if it changed. An absent or damaged file is an empty index. */
clade_status clade__index_refresh(clade__index *index, const clade__cache *cache, clade__hash device);
const clade__index_record *clade__index_find(const clade__index *index, clade__hash key);
clade_status clade__index_put(clade__index *index, const clade__index_record *record);
/* Omits records whose binaries are gone. */
clade_status clade__index_save(clade__index *index, const clade__cache *cache, clade__hash device);
void clade__index_free(clade__index *index);

/* ---- unit probes (units.c) ---- */
/* Defines of the waiting instructions of persistent kernels; "" if the compiler cannot be given them. */
const char *clade__persistent_assembly(clade_device *device);

/* ---- separate program for unit probes (probe_program.c) ---- */
/* Its path, freed by the caller; CLADE_NOT_FOUND or CLADE_PERMISSION with the reason if it cannot be used. */
clade_status clade__probe_program(char **path);

/* ---- tuning records in the cache directory (tuning_file.c) ---- */
void clade__tuning_stamp(const clade__cache *cache, clade__hash device, clade__stamp *out);
/* Reads the device's own file, whose failure is returned, and those of other devices, whose failures are logged. */
clade_status clade__tuning_files(const clade__cache *cache, clade__hash device, clade__record_sets *own,
                                 clade__record_sets *others, size_t *bad);

/* The device's recorded speeds; CLADE_NOT_FOUND if there are none. Hold the cache's lock if they are written
 * afterwards. */
clade_status clade__tuning_profile(const clade__cache *cache, const clade_device *device, clade__profile *out);
clade_status clade__tuning_keep_profile(const clade__cache *cache, const clade__tuned_device *device);
/* Completes an unknown *profile for cost estimates of GPUs: measures the device and stores the result if there is a
 * cache (profile.c). Failures are logged. */
struct clade__store;
void clade__profile_find(struct clade__store *store, clade__profile *profile);

/* ---- maintenance (cache.c); the caller holds the lock ---- */
void clade__cache_sweep(const clade__cache *cache); /* temporary files of dead processes */
void clade__cache_evict(const clade__cache *cache); /* least recently used binaries, down to the limit */

/* ---- program store of a device (store.c) ---- */
typedef struct clade__built { /* a program */
  cl_program program;
  clade__hash binary; /* in the cache; zero: not cached */
} clade__built;
typedef struct clade__entry { /* a kernel, keyed by request */
  clade__hash key;
  size_t program;
  char name[CLADE__KERNEL_NAME];
} clade__entry;
typedef struct clade__launch { /* a kernel prepared for a launch configuration */
  clade__hash key;
  size_t entry;
} clade__launch;
typedef struct clade__store {
  pthread_mutex_t mutex; /* held during a whole prepare call */
  clade_device *device;  /* not retained: the device owns the store */
  clade__hash device_key;
  long process;                   /* process ID: a forked child must not wait for the writer thread */
  struct clade__offline *offline; /* bundles of a device without a compiler; NULL: not opened yet */
  bool warms, cached;
  bool lean;      /* until a program fails to build that way */
  char head[320]; /* begins every program */
  clade__cache cache;
  clade__index index;
  clade__built *programs;
  clade__entry *entries;
  clade__launch *launches;
  size_t n_programs, n_entries, n_launches, program_capacity, entry_capacity, launch_capacity;
  clade__map by_key, by_launch, by_binary;
  size_t passes; /* searches of the cache */
  clade__store_stats stats;
  struct clade__writer *writer; /* NULL: no write in progress */
  pthread_mutex_t tuning_mutex;
  clade__tuning *tuning; /* NULL: not read yet */
  clade__stamp tuning_stamp;
  clade__records *measured; /* records that could not be stored in a file; NULL: none */
} clade__store;
/* Device key of compiled programs. Includes whether PoCL specializes kernels, since a binary without the variants
 * that a process needs would cause compilations at run time. */
clade__hash clade__programs_key(const clade_device *device);
clade_status clade__store_of(clade_device *device, const char *function, clade__store **out);

/* A request in progress. Equal requests may occur several times. */
typedef struct clade__wanted {
  const clade__request *request;
  clade__hash key, launch;
} clade__wanted;

/* Tables of the store: programs and entries live as long as the store. */
clade_status clade__store_add_program(clade__store *store, cl_program program, clade__hash binary, size_t *at);
clade_status clade__store_add_entry(clade__store *store, clade__hash key, size_t program, const char *name);
clade__entry *clade__store_entry(const clade__store *store, clade__hash key); /* NULL: not found */
bool clade__store_ready(const clade__store *store, const clade__wanted *wanted);

/* Serves requests from memory and the cache. */
clade_status clade__store_without_compiler(clade__store *store, size_t n, const clade__wanted *wanted);
/* Loads missing kernels from the cache (load.c). */
clade_status clade__store_load(clade__store *store, size_t n, const clade__wanted *wanted);
/* Compiles requests without an entry, in as few programs as their options allow (build.c). */
clade_status clade__store_build(clade__store *store, size_t n, const clade__wanted *wanted);
/* Checks the launch configurations of entries that are not ready and, with `warm`, performs each once; they are
 * ready then (warm.c). */
clade_status clade__store_warm(clade__store *store, size_t n, const clade__wanted *wanted, bool warm);

/* Writes the programs from the given index on in the background, then always releases the lock (writer.c). */
void clade__writer_start(clade__store *store, int lock, size_t n, const size_t *programs);
void clade__writer_join(clade__store *store);
void clade__writers_hurry(void); /* writers of all devices that hold the lock and still delay writing */

#endif
