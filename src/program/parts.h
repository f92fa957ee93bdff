/* What the files of this room share. Nothing above includes it but tests. */
#ifndef CLADE_PROGRAM_PARTS_H
#define CLADE_PROGRAM_PARTS_H

#include "program/cache.h"
#include "program/store.h"
#include "program/tuning.h"

enum { CLADE__KERNEL_NAME = 96 }; /* bytes of clade__program_kernel.name */

/* ---- requests (request.c) ---- */
clade_status clade__request_check(const clade__request *request);
/* The launch as well: what is compiled again where the implementation specializes. */
clade__hash clade__request_launch_hash(const clade__request *request, clade__hash hash);
/* The kernel's name in a program. It follows from the request alone, whatever it is compiled with. */
void clade__request_name(const clade__request *request, clade__hash hash, char name[CLADE__KERNEL_NAME]);
clade_status clade__request_source(const clade__request *request, const char **text);
static inline const char *clade__request_options(const clade__request *request) {
  return request->options ? request->options : "";
}

/* ---- the text of a program (text.c) ---- */
/* A lean program has declarations of its own instead of clang's header, which this guard keeps out. They are those of
 * OpenCL C 1.2: PoCL 6 compiles as 3.0 where nothing else is said, and pointers are generic there. Where that does not
 * do, the program does not build, and is built again with the header. */
#define CLADE__LEAN "-D_OPENCL_H_ -cl-std=CL1.2"
/* `head` comes first: what the prelude is told of the device. `lean`: OpenCL's functions are declared. */
clade_status clade__program_text(size_t n, const clade__request *const *requests, const clade__hash *hashes, bool lean,
                                 const char *head, clade__text *out);

/* ---- the cache's directory (cache_dir.c) ---- */
typedef struct clade__cache {
  int dir; /* -1: none */
  char *path;
  uint64_t limit;
  bool writable;
} clade__cache;
/* CLADE_PERMISSION: not the user's alone. With `create`, the directory is made; without, it may be CLADE_NOT_FOUND. */
clade_status clade__cache_open(const char *path, bool create, clade__cache *out);
void clade__cache_close(clade__cache *cache);
/* The one that is configured. */
clade_status clade__cache_open_configured(bool create, clade__cache *out);
bool clade__cache_wanted(void);    /* neither clade_init nor CLADE_CACHE_DIR=off says no */
uint64_t clade__cache_limit(void); /* bytes: CLADE_CACHE_MIB, or 1 GiB */
/* Waits for the lock across processes; -1 where there is nothing to lock by, which is not an error: work goes on.
 * A cache that is not there is stood in for by the home directory. */
int clade__cache_lock(const clade__cache *cache);
void clade__cache_unlock(int lock);

/* ---- its files (cache_file.c): a header and a payload, both with checksums ---- */
typedef enum clade__cache_kind { CLADE__CACHE_BINARY = 1, CLADE__CACHE_INDEX, CLADE__CACHE_UNIT } clade__cache_kind;
enum { CLADE__CACHE_HEADER = 72 };
typedef struct clade__cache_blob {
  void *file; /* by clade__free */
  const void *data;
  size_t bytes;
} clade__cache_blob;
/* CLADE_CORRUPT unless every bit is as it was written. Looks at nothing beyond `bytes`. */
clade_status clade__cache_verify(const void *file, size_t bytes, clade__cache_kind kind, clade__hash device,
                                 clade__cache_blob *out);
/* CLADE_NOT_FOUND, CLADE_PERMISSION, CLADE_IO, CLADE_CORRUPT. A binary's name is clade__cache_address of its contents,
 * an index' name is its device, and a unit's answer has the name of device and probe for both. */
clade_status clade__cache_read(const clade__cache *cache, clade__cache_kind kind, clade__hash device, clade__hash name,
                               clade__cache_blob *out);
/* Whole or not at all. */
clade_status clade__cache_write(const clade__cache *cache, clade__cache_kind kind, clade__hash device, clade__hash name,
                                const void *data, size_t bytes);
clade__hash clade__cache_address(clade__hash device, const void *data, size_t bytes);
/* Other files of the directory: as safe to read, as whole when written; `head` may be NULL. */
clade_status clade__cache_fetch(const clade__cache *cache, const char *file, uint64_t most, clade__cache_blob *out);
clade_status clade__cache_replace(const clade__cache *cache, const char *file, const void *head, size_t head_bytes,
                                  const void *data, size_t bytes);
typedef struct clade__stamp { /* tells whether a file is still the one that was read; all zero where there is none */
  uint64_t inode, bytes;
  int64_t seconds, nanoseconds;
} clade__stamp;
void clade__cache_stamp(const clade__cache *cache, const char *file, clade__stamp *out);
enum { CLADE__CACHE_NAME = 48 };
void clade__cache_file_name(clade__cache_kind kind, clade__hash name, char text[CLADE__CACHE_NAME]);

/* ---- the index of a device (cache_index.c) ---- */
typedef struct clade__index_record {
  clade__hash key, binary;
  char name[CLADE__KERNEL_NAME];
  uint32_t n_members; /* that the kernel has: each has a record of its own, under clade__member_key */
  uint32_t number;    /* such a member's */
} clade__index_record;
typedef struct clade__index {
  clade__index_record *records;
  size_t n, capacity;
  clade__map map;
  clade__stamp stamp; /* of the file that was read */
} clade__index;
/* As it is on disk now; read again only when the file changed. One that is absent or damaged is empty. */
clade_status clade__index_refresh(clade__index *index, const clade__cache *cache, clade__hash device);
const clade__index_record *clade__index_find(const clade__index *index, clade__hash key);
clade_status clade__index_put(clade__index *index, const clade__index_record *record);
/* Without the records whose binaries are gone. */
clade_status clade__index_save(clade__index *index, const clade__cache *cache, clade__hash device);
void clade__index_free(clade__index *index);

/* ---- asking for units (units.c) ---- */
/* The defines by which workers of a persistent kernel wait; "" where the device's compiler may not be given them. */
const char *clade__persistent_assembly(clade_device *device);

/* ---- the program that probes units in a process of its own (probe_program.c) ---- */
/* Its path, the caller's by clade__free; else why it is not used: CLADE_NOT_FOUND, CLADE_PERMISSION. */
clade_status clade__probe_program(char **path);

/* ---- the tuning records in it (tuning_file.c) ---- */
void clade__tuning_stamp(const clade__cache *cache, clade__hash device, clade__stamp *out);
/* The device's own file, whose failure is returned, and those of other devices, where it is only told. */
clade_status clade__tuning_files(const clade__cache *cache, clade__hash device, clade__record_sets *own,
                                 clade__record_sets *others, size_t *bad);

/* What is kept of the device's speed; CLADE_NOT_FOUND: nothing is. Under the cache's lock where it is then written. */
clade_status clade__tuning_profile(const clade__cache *cache, const clade_device *device, clade__profile *out);
clade_status clade__tuning_keep_profile(const clade__cache *cache, const clade__tuned_device *device);
/* Costs of GPUs go by it: *profile, where it is not known yet, is measured and kept if there is a cache for that
 * (profile.c). What fails is told by the log. */
struct clade__store;
void clade__profile_find(struct clade__store *store, clade__profile *profile);

/* ---- keeping house in it (cache.c); all under the lock ---- */
void clade__cache_sweep(const clade__cache *cache); /* temporary files of writers that died */
void clade__cache_evict(const clade__cache *cache); /* the least recently used binaries, down to the limit */

/* ---- the store of a device (store.c) ---- */
typedef struct clade__built { /* a program */
  cl_program program;
  clade__hash binary; /* in the cache; zero: not there */
} clade__built;
typedef struct clade__entry { /* a kernel, by request */
  clade__hash key;
  size_t program;
  char name[CLADE__KERNEL_NAME];
  clade__hash *members; /* [n_members]: of one that was compiled here */
  uint32_t n_members;
} clade__entry;
typedef struct clade__launch { /* a kernel that is ready for a launch */
  clade__hash key;
  size_t entry;
} clade__launch;
typedef struct clade__store {
  pthread_mutex_t mutex; /* held by a prepare from beginning to end */
  clade_device *device;  /* not retained: the store is the device's */
  clade__hash device_key;
  long process;                   /* a child after fork has no writer to wait for */
  struct clade__offline *offline; /* where it has its programs, if it has no compiler; NULL: not opened yet */
  bool warms, cached;
  bool lean;      /* until a program does not build so */
  char head[320]; /* of every program */
  clade__cache cache;
  clade__index index;
  clade__built *programs;
  clade__entry *entries;
  clade__launch *launches;
  size_t n_programs, n_entries, n_launches, program_capacity, entry_capacity, launch_capacity;
  clade__map by_key, by_launch, by_binary;
  size_t passes; /* over the cache */
  clade__store_stats stats;
  struct clade__writer *writer; /* NULL: none under way */
  pthread_mutex_t tuning_mutex;
  clade__tuning *tuning; /* NULL: not asked for yet */
  clade__stamp tuning_stamp;
  clade__records *measured; /* what no file could take; NULL: nothing */
} clade__store;
/* What is compiled is kept under this: a binary without the variants that a process wants would have them compiled in
 * the middle of its work. */
clade__hash clade__programs_key(const clade_device *device);
clade_status clade__store_of(clade_device *device, const char *function, clade__store **out);

/* One request on its way. Equal ones may come several times. */
typedef struct clade__wanted {
  const clade__request *request;
  clade__hash key, launch;
} clade__wanted;

/* Tables of the store: programs and entries are never removed while it lives. */
clade_status clade__store_add_program(clade__store *store, cl_program program, clade__hash binary, size_t *at);
clade_status clade__store_add_entry(clade__store *store, clade__hash key, size_t program, const char *name);
clade__entry *clade__store_entry(const clade__store *store, clade__hash key); /* NULL: none */
bool clade__store_ready(const clade__store *store, const clade__wanted *wanted);

/* Kernels with members (members.c): what an entry's are, and the key of a member's record. */
clade_status clade__store_add_members(clade__store *store, const clade__request *request, clade__hash key);
clade__hash clade__member_key(clade__hash kernel, clade__hash member);

/* Makes ready what memory and the cache have. */
clade_status clade__store_without_compiler(clade__store *store, size_t n, const clade__wanted *wanted);
/* Loads what the cache has of those that are not ready (load.c). */
clade_status clade__store_load(clade__store *store, size_t n, const clade__wanted *wanted);
/* Compiles those that have no entry, in as few programs as their options allow (build.c). */
clade_status clade__store_build(clade__store *store, size_t n, const clade__wanted *wanted);
/* Checks the launches of those that are not ready and have an entry, and with `warm` performs them; then they are
 * ready (warm.c). */
clade_status clade__store_warm(clade__store *store, size_t n, const clade__wanted *wanted, bool warm);

/* Writes the programs from here on in the background and gives up the lock afterwards, in every case (writer.c). */
void clade__writer_start(clade__store *store, int lock, size_t n, const size_t *programs);
void clade__writer_join(clade__store *store);
void clade__writers_hurry(void); /* those of all devices that hold the lock and do not write yet */

#endif
