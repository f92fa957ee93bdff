/* Peak memory of calls, including jansson's, for the tests of memory bounds. For one file of a program: keeps state. */
#ifndef IO_BOUNDS_KIT_H
#define IO_BOUNDS_KIT_H

#include "io_kit.h"

#include <jansson.h>
#include <time.h>

/* ---- memory counting ---- */
static size_t held, peak;
enum { SIZE_AT = 64 }; /* size header before each allocation, with the library's alignment */

static inline void *allocate(void *user, size_t bytes, size_t align) {
  (void)user, (void)align;
  unsigned char *memory = aligned_alloc(SIZE_AT, (bytes + SIZE_AT - 1) / SIZE_AT * SIZE_AT + SIZE_AT);
  if (!memory) return NULL;
  memset(memory, 0, bytes + SIZE_AT);
  memcpy(memory, &bytes, sizeof bytes);
  held += bytes;
  peak = CLADE_MAX(peak, held);
  return memory + SIZE_AT;
}
static inline void release(void *user, void *memory, size_t unused) {
  (void)user, (void)unused;
  size_t bytes;
  if (!memory) return;
  memcpy(&bytes, (unsigned char *)memory - SIZE_AT, sizeof bytes);
  held -= bytes;
  free((unsigned char *)memory - SIZE_AT);
}
static inline void *resize(void *user, void *old, size_t old_bytes, size_t bytes, size_t align) {
  void *memory = allocate(user, bytes, align);
  if (!memory) return NULL;
  memcpy(memory, old, CLADE_MIN(old_bytes, bytes));
  release(user, old, old_bytes);
  return memory;
}
static inline void *json_allocate(size_t bytes) { return allocate(NULL, bytes, 0); }
static inline void json_release(void *memory) { release(NULL, memory, 0); }

static inline size_t peak_since(size_t before) { return peak - before; }
static inline size_t mark(void) {
  peak = held;
  return held;
}

/* Must precede other calls of the library. */
static inline void count_memory(void) {
  const clade_allocator counting = {sizeof counting, NULL, allocate, resize, release};
  json_set_alloc_funcs(json_allocate, json_release);
  OK(clade_init(.allocator = &counting));
}

/* REFUSED, and limits the call's memory and its time to a second. */
#define CHEAP(most, code, expression, words)                                                           \
  do {                                                                                                 \
    const size_t before_ = mark();                                                                     \
    struct timespec from_, to_;                                                                        \
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from_);                                                   \
    REFUSED(code, expression, words);                                                                  \
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to_);                                                     \
    if (peak_since(before_) > (most)) fail_msg("%s took %zu bytes", #expression, peak_since(before_)); \
    if (to_.tv_sec - from_.tv_sec > 2) fail_msg("%s took seconds", #expression);                       \
    assert_int_equal(held, before_);                                                                   \
  } while (0)

/* ---- large sparse files ---- */
#define GIB(n) ((off_t)(n) << 30)
static const size_t FEW = 1 << 20;

static inline const char *sparse(const char *name, const void *head, size_t bytes, off_t size) {
  const char *path = io_file(name, head, bytes);
  assert_int_equal(truncate(path, size), 0);
  return path;
}

#endif
