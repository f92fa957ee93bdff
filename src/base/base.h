/* Base utilities for all modules: status and errors, logging, allocation, checked arithmetic, hashing, growing
 * arrays and strings. */
#ifndef CLADE_BASE_H
#define CLADE_BASE_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <clade/init.h>
#include <clade/types.h>

#include "base/dtype.h"

/* ---- errors ---- */
/* CLADE_FAIL(BAD_SHAPE, "gemm: …", …) records the message of this thread and evaluates to the status. */
#define CLADE_FAIL(code, ...) clade_fail(CLADE_##code, __VA_ARGS__)
#define CLADE_TRY(expression)                  \
  do {                                         \
    clade_status clade__s = (expression);      \
    if (clade__s != CLADE_OK) return clade__s; \
  } while (0)
/* CLADE_TRY for functions that must clean up: needs a variable `clade_status status` and a label `fail`. */
#define CLADE_GOTO(expression)         \
  do {                                 \
    status = (expression);             \
    if (status != CLADE_OK) goto fail; \
  } while (0)
/* Prepends "prefix: " to this thread's message and returns `status`. */
clade_status clade__fail_in(clade_status status, const char *format, ...) CLADE_PRINTF(2, 3);
/* Records a stored message again, such as a graph's sticky error or the error of another thread. */
clade_status clade__fail_again(clade_status status, const char *message);
/* The number of failures that this thread has recorded. Compared before and after a user's callback, it tells
 * whether the callback set a message. */
unsigned clade__failures(void);

#define CLADE_COUNT(array) (sizeof(array) / sizeof *(array))
#define CLADE_MIN(a, b)    ((a) < (b) ? (a) : (b))
#define CLADE_MAX(a, b)    ((a) > (b) ? (a) : (b))

/* Copies an options struct. A caller compiled against an older header passes a shorter one: fields that it lacks are
 * set to zero. `opt` may be NULL. `function` is named in the error for an invalid size. */
clade_status clade__opt_copy(void *dst, size_t dst_size, const void *opt, const char *function);
/* clade__opt_copy for options with nonzero defaults (clade/options.h): `dst` holds the defaults, set by `macro`, and
 * keeps those of the fields that `opt` lacks. Fails if `opt` was not initialized by `macro`. */
clade_status clade__opt_over(void *dst, const void *opt, const char *function, const char *macro);
/* Fills the caller's struct, whose `size` field is set, from a struct of `size` bytes. */
clade_status clade__info_give(void *info, const void *from, size_t size, const char *function);

/* Size of a struct up to and including a field. */
#define CLADE__THROUGH(type, field) (offsetof(type, field) + sizeof(((type *)NULL)->field))
/* Reads a field of a struct that begins with `size`; `none` if the caller's struct ends before the field. */
#define CLADE__FIELD(s, field, none) \
  ((s)->size >= (size_t)((const char *)(&(s)->field + 1) - (const char *)(s)) ? (s)->field : (none))

/* ---- renamed options and keys (old_names.c) ---- */
const char *clade__old_name(const char *now, int i);                  /* NULL: no further old name */
void clade__old_name_read(const char *now, const char *before);       /* logs a warning once */
bool clade__is_old_name(const char *now, const char *text, size_t n); /* logs a warning once if so */

/* ---- time ---- */
double clade__now(void);                      /* monotonic, in seconds */
double clade__median(double *seconds, int n); /* of at least one number; sorts them */

/* ---- logging ---- */
void clade__log(clade_log_level level, const char *format, ...) CLADE_PRINTF(2, 3);

/* ---- settings of clade_init ---- */
typedef struct clade__settings {
  const char *cache_dir; /* NULL: unset */
  bool no_cache;
  const char *tuning; /* paths of record files, separated by colons */
  int cpu_threads;    /* 0: unset */
  bool no_affinity;
  const char *libraries; /* names of external libraries, separated by colons */
  clade_bundle_policy bundle_policy;
  const char *bundle_keys; /* path; NULL: unset */
} clade__settings;
/* Called by clade_init alone, before any other call: readers take no lock. Copies the strings. */
clade_status clade__settings_set(const clade__settings *settings);
const clade__settings *clade__settings_get(void);

/* Compares all fields; for dense layouts, the kind alone. */
bool clade__layout_equal(clade_layout a, clade_layout b);

/* ---- allocation ---- */
/* Zeroed memory. NULL with a recorded message if there is none; a valid pointer for zero bytes. */
void *clade__new(size_t count, size_t size);
/* Ensures *capacity >= `need`. Grows geometrically and zeroes the new elements. */
clade_status clade__grow(void *array, size_t *capacity, size_t need, size_t size);
void clade__free(void *memory); /* accepts NULL */
char *clade__copy_text(const char *text);
/* Returns a canonical copy that lives as long as the process. Its alignment fits any type. */
clade_status clade__intern_bytes(const void *bytes, size_t n, const void **out);
clade_status clade__intern(const char *text, const char **out);
/* Called once by clade_init, before the first allocation. */
clade_status clade__allocator_set(const clade_allocator *allocator);
bool clade__allocator_used(void);

/* ---- arena: many small allocations that are freed together ---- */
typedef struct clade__arena {
  struct clade__chunk *last;
} clade__arena;
void *clade__arena_new(clade__arena *arena, size_t bytes); /* zeroed, aligned for any type */
char *clade__arena_text(clade__arena *arena, const char *text);
void clade__arena_free(clade__arena *arena);

/* ---- string builder: an allocation failure sticks and is reported by clade__text_take ---- */
typedef struct clade__text {
  char *data;
  size_t length, capacity;
  bool failed;
} clade__text;
void clade__text_add(clade__text *text, const char *format, ...) CLADE_PRINTF(2, 3);
void clade__text_add_bytes(clade__text *text, const char *bytes, size_t n);
clade_status clade__text_take(clade__text *text, char **out); /* caller frees; resets the builder */
void clade__text_free(clade__text *text);

/* ---- overflow-checked arithmetic ---- */
bool clade__mul(size_t a, size_t b, size_t *out); /* false: overflow */
bool clade__add(size_t a, size_t b, size_t *out);
bool clade__round_up(size_t value, size_t multiple, size_t *out);

/* Splits a derived symbol such as "(a*b)" into its operands. False for sizes and for symbols that a user named. */
bool clade__dim_parts(clade_dim dim, char *op, clade_dim *a, clade_dim *b);

/* ---- hashing (XXH3, 128 bits) ---- */
typedef struct clade__hash {
  uint64_t lo, hi;
} clade__hash;
clade__hash clade__hash_bytes(const void *data, size_t bytes);
clade__hash clade__hash_more(clade__hash before, const void *data, size_t bytes); /* continues a hash */
clade__hash clade__hash_more_text(clade__hash before, const char *text);          /* includes the terminating zero */
bool clade__hash_equal(clade__hash a, clade__hash b);
char *clade__hash_text(clade__hash hash, char text[33]); /* 32 hexadecimal digits */

/* Map from hashes to numbers. Zero initialization makes it empty. */
typedef struct clade__map {
  struct clade__map_entry *entries;
  size_t capacity, count;
} clade__map;
clade_status clade__map_put(clade__map *map, clade__hash key, size_t value); /* replaces */
bool clade__map_get(const clade__map *map, clade__hash key, size_t *value);
void clade__map_free(clade__map *map);

/* ---- random numbers: Philox4x32-10 ---- */
void clade__philox(uint64_t key, uint64_t counter, uint64_t element, uint32_t out[4]);
double clade__uniform(uint64_t key, uint64_t counter,
                      uint64_t element); /* in [0, 1) with 24 bits, the same bits as on devices */

/* ---- reference counts ---- */
typedef struct clade__ref {
  atomic_int count;
} clade__ref;
static inline void clade__ref_init(clade__ref *ref) { atomic_init(&ref->count, 1); }
static inline void clade__ref_up(clade__ref *ref) { atomic_fetch_add_explicit(&ref->count, 1, memory_order_relaxed); }
static inline bool clade__ref_down(clade__ref *ref) { /* true: that was the last reference */
  return atomic_fetch_sub_explicit(&ref->count, 1, memory_order_acq_rel) == 1;
}

#endif
