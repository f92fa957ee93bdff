/* What everything stands on: failing, logging, allocating, checked sizes, hashing, growing arrays and texts. */
#ifndef CLADE_BASE_H
#define CLADE_BASE_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <clade/init.h>
#include <clade/types.h>

#include "base/dtype.h"

/* ---- failing ---- */
/* CLADE_FAIL(BAD_SHAPE, "gemm: …", …) records the message and is the status. */
#define CLADE_FAIL(code, ...) clade_fail(CLADE_##code, __VA_ARGS__)
#define CLADE_TRY(expression)                  \
  do {                                         \
    clade_status clade__s = (expression);      \
    if (clade__s != CLADE_OK) return clade__s; \
  } while (0)
/* As CLADE_TRY where something is held: needs `clade_status status` and a label `fail` that cleans up. */
#define CLADE_GOTO(expression)         \
  do {                                 \
    status = (expression);             \
    if (status != CLADE_OK) goto fail; \
  } while (0)
/* Puts "prefix: " before this thread's message, and returns `status`. */
clade_status clade__fail_in(clade_status status, const char *format, ...) CLADE_PRINTF(2, 3);
/* Records a message that was kept (a sticky error, another thread's). */
clade_status clade__fail_again(clade_status status, const char *message);
/* How often this thread has recorded a failure: whether a user's function that failed said why. */
unsigned clade__failures(void);

#define CLADE_COUNT(array) (sizeof(array) / sizeof *(array))
#define CLADE_MIN(a, b)    ((a) < (b) ? (a) : (b))
#define CLADE_MAX(a, b)    ((a) > (b) ? (a) : (b))

/* An options struct of a caller that was compiled against an older header is shorter: copies what is there, zeroes the
 * rest. `opt` may be NULL. Names the function in its refusal of a size that makes no sense. */
clade_status clade__opt_copy(void *dst, size_t dst_size, const void *opt, const char *function);
/* The same for options with defaults that are not zero (clade/options.h): `dst` holds them, filled in by `macro`, and
 * keeps those that `opt` is too short for. Refuses options that do not have them. */
clade_status clade__opt_over(void *dst, const void *opt, const char *function, const char *macro);
/* The other way: fills a struct of the caller's, who has set its size, from one of `size` bytes. */
clade_status clade__info_give(void *info, const void *from, size_t size, const char *function);

/* Bytes of a struct up to the end of a field. */
#define CLADE__THROUGH(type, field) (offsetof(type, field) + sizeof(((type *)NULL)->field))
/* A field of a struct that says its size; `none` where the caller's ends before it. */
#define CLADE__FIELD(s, field, none) \
  ((s)->size >= (size_t)((const char *)(&(s)->field + 1) - (const char *)(s)) ? (s)->field : (none))

/* ---- old names (old_names.c) ---- */
const char *clade__old_name(const char *now, int i);                  /* NULL: it has no more of them */
void clade__old_name_read(const char *now, const char *before);       /* warns, once */
bool clade__is_old_name(const char *now, const char *text, size_t n); /* warns, once, where it is */

/* ---- time ---- */
double clade__now(void); /* seconds, of a clock that is never set */

/* ---- logging ---- */
void clade__log(clade_log_level level, const char *format, ...) CLADE_PRINTF(2, 3);

/* ---- what clade_init was told, for the modules above ---- */
typedef struct clade__settings {
  const char *cache_dir; /* NULL: unset */
  bool no_cache;
  const char *tuning; /* files of records, with colons; NULL: unset */
  int cpu_threads;    /* 0: unset */
  bool no_affinity;
  const char *libraries; /* of others, by name, with colons; NULL: unset */
  clade_bundle_policy bundle_policy;
  const char *bundle_keys; /* a file; NULL: unset */
} clade__settings;
/* By clade_init alone, before any other call: readers do not lock. Texts are copied. */
clade_status clade__settings_set(const clade__settings *settings);
const clade__settings *clade__settings_get(void);

/* Field by field; of dense ones nothing else counts. */
bool clade__layout_equal(clade_layout a, clade_layout b);

/* ---- allocating ---- */
/* NULL when there is no memory, with the message recorded; zero bytes give a valid pointer. Zeroed. */
void *clade__new(size_t count, size_t size);
/* *array holds *capacity elements afterwards, at least `need`; grows geometrically; new elements are zeroed. */
clade_status clade__grow(void *array, size_t *capacity, size_t need, size_t size);
void clade__free(void *memory); /* NULL is fine */
char *clade__copy_text(const char *text);
/* The one copy of these bytes or this text, for the life of the process; aligned for anything. */
clade_status clade__intern_bytes(const void *bytes, size_t n, const void **out);
clade_status clade__intern(const char *text, const char **out);
/* Once, by clade_init, before the first allocation. */
clade_status clade__allocator_set(const clade_allocator *allocator);
bool clade__allocator_used(void);

/* ---- an arena: many small pieces with one life ---- */
typedef struct clade__arena {
  struct clade__chunk *last;
} clade__arena;
void *clade__arena_new(clade__arena *arena, size_t bytes); /* zeroed, aligned for anything */
char *clade__arena_text(clade__arena *arena, const char *text);
void clade__arena_free(clade__arena *arena);

/* ---- texts that grow; a failure to allocate sticks and shows in clade__text_take ---- */
typedef struct clade__text {
  char *data;
  size_t length, capacity;
  bool failed;
} clade__text;
void clade__text_add(clade__text *text, const char *format, ...) CLADE_PRINTF(2, 3);
void clade__text_add_bytes(clade__text *text, const char *bytes, size_t n);
clade_status clade__text_take(clade__text *text,
                              char **out); /* the caller's, by clade__free; the text is empty again */
void clade__text_free(clade__text *text);

/* ---- checked sizes ---- */
bool clade__mul(size_t a, size_t b, size_t *out); /* false: overflow */
bool clade__add(size_t a, size_t b, size_t *out);
bool clade__round_up(size_t value, size_t multiple, size_t *out);

/* What a derived symbol was computed from: "(a*b)". false: no symbol, or one that a user named. */
bool clade__dim_parts(clade_dim dim, char *op, clade_dim *a, clade_dim *b);

/* ---- hashing (XXH3, 128 bits) ---- */
typedef struct clade__hash {
  uint64_t lo, hi;
} clade__hash;
clade__hash clade__hash_bytes(const void *data, size_t bytes);
clade__hash clade__hash_more(clade__hash before, const void *data, size_t bytes); /* chained */
clade__hash clade__hash_more_text(clade__hash before, const char *text);          /* with its end */
bool clade__hash_equal(clade__hash a, clade__hash b);
char *clade__hash_text(clade__hash hash, char text[33]); /* 32 hexadecimal digits */

/* From hashes to numbers. All zero is empty. */
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
                      uint64_t element); /* [0, 1), 24 bits: exactly what devices make */

/* ---- counting references ---- */
typedef struct clade__ref {
  atomic_int count;
} clade__ref;
static inline void clade__ref_init(clade__ref *ref) { atomic_init(&ref->count, 1); }
static inline void clade__ref_up(clade__ref *ref) { atomic_fetch_add_explicit(&ref->count, 1, memory_order_relaxed); }
static inline bool clade__ref_down(clade__ref *ref) { /* true: the last one */
  return atomic_fetch_sub_explicit(&ref->count, 1, memory_order_acq_rel) == 1;
}

#endif
