/* Allocation through the user's hook, arenas, growing arrays and string builders. */
#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { ALIGN = 64, CHUNK = 16 << 10 };

/* Precedes every allocation: the hook's free function takes the size. */
typedef struct header {
  size_t bytes;
} header;

static void *plain_allocate(void *user, size_t bytes, size_t align) {
  (void)user;
  void *memory = NULL;
  return posix_memalign(&memory, align, bytes) == 0 ? memory : NULL;
}
static void *plain_resize(void *user, void *old, size_t old_bytes, size_t bytes, size_t align) {
  void *memory = plain_allocate(user, bytes, align);
  if (!memory) return NULL;
  memcpy(memory, old, CLADE_MIN(old_bytes, bytes));
  free(old);
  return memory;
}
static void plain_release(void *user, void *memory, size_t bytes) {
  (void)user, (void)bytes;
  free(memory);
}

static clade_allocator hook = {sizeof hook, NULL, plain_allocate, plain_resize, plain_release};
static atomic_bool used;

bool clade__allocator_used(void) { return atomic_load(&used); }

clade_status clade__allocator_set(const clade_allocator *allocator) {
  if (allocator->size < sizeof *allocator || !allocator->allocate || !allocator->resize || !allocator->release)
    return CLADE_FAIL(INVALID, "clade_init: .allocator needs its size and all three functions");
  if (clade__allocator_used()) return CLADE_FAIL(BUSY, "clade_init: .allocator must be set before any other call");
  hook = *allocator;
  return CLADE_OK;
}

static void *no_memory(size_t bytes) {
  CLADE_FAIL(NO_MEMORY, "no memory for %zu bytes", bytes);
  return NULL;
}

void *clade__new(size_t count, size_t size) {
  size_t bytes, whole;
  if (!clade__mul(count, size, &bytes) || !clade__add(bytes, ALIGN, &whole)) return no_memory(SIZE_MAX);
  if (whole > PTRDIFF_MAX) return no_memory(bytes); /* no allocator can satisfy it */
  atomic_store_explicit(&used, true, memory_order_relaxed);
  char *memory = hook.allocate(hook.user, whole, ALIGN);
  if (!memory) return no_memory(bytes);
  memset(memory, 0, whole);
  ((header *)(void *)memory)->bytes = whole;
  return memory + ALIGN;
}

void clade__free(void *memory) {
  if (!memory) return;
  char *base = (char *)memory - ALIGN;
  hook.release(hook.user, base, ((header *)(void *)base)->bytes);
}

clade_status clade__grow(void *array, size_t *capacity, size_t need, size_t size) {
  void *old;
  memcpy(&old, array, sizeof old);
  if (need <= *capacity) return CLADE_OK;
  size_t want = CLADE_MAX(need, *capacity + *capacity / 2 + 8), bytes, whole;
  if (!clade__mul(want, size, &bytes) || !clade__add(bytes, ALIGN, &whole))
    return CLADE_FAIL(OVERFLOW, "an array of %zu elements of %zu bytes is too large", want, size);
  if (!old) {
    old = clade__new(want, size);
    if (!old) return CLADE_NO_MEMORY;
  } else {
    char *base = (char *)old - ALIGN;
    size_t before = ((header *)(void *)base)->bytes;
    base = hook.resize(hook.user, base, before, whole, ALIGN);
    if (!base) return CLADE_FAIL(NO_MEMORY, "no memory for %zu bytes", bytes);
    memset(base + before, 0, whole - before);
    ((header *)(void *)base)->bytes = whole;
    old = base + ALIGN;
  }
  memcpy(array, &old, sizeof old);
  *capacity = want;
  return CLADE_OK;
}

char *clade__copy_text(const char *text) {
  size_t bytes = strlen(text) + 1;
  char *copy = clade__new(bytes, 1);
  return copy ? memcpy(copy, text, bytes) : NULL;
}

/* ---- arena ---- */
typedef struct clade__chunk {
  struct clade__chunk *before;
  size_t used, capacity;
  _Alignas(ALIGN) char data[];
} chunk;

void *clade__arena_new(clade__arena *arena, size_t bytes) {
  size_t rounded, whole;
  if (!clade__round_up(bytes, 16, &rounded)) return no_memory(bytes);
  chunk *last = arena->last;
  if (!last || last->capacity - last->used < rounded) {
    size_t capacity = CLADE_MAX(rounded, (size_t)CHUNK);
    if (!clade__add(capacity, sizeof(chunk), &whole)) return no_memory(bytes);
    last = clade__new(whole, 1);
    if (!last) return NULL;
    last->before = arena->last;
    last->capacity = capacity;
    arena->last = last;
  }
  void *memory = last->data + last->used;
  last->used += rounded;
  return memory;
}

char *clade__arena_text(clade__arena *arena, const char *text) {
  size_t bytes = strlen(text) + 1;
  char *copy = clade__arena_new(arena, bytes);
  return copy ? memcpy(copy, text, bytes) : NULL;
}

void clade__arena_free(clade__arena *arena) {
  for (chunk *c = arena->last, *before; c; c = before) {
    before = c->before;
    clade__free(c);
  }
  arena->last = NULL;
}

/* ---- text ---- */
void clade__text_add_bytes(clade__text *text, const char *bytes, size_t n) {
  size_t need;
  if (text->failed || !clade__add(text->length, n, &need) || !clade__add(need, 1, &need) ||
      clade__grow(&text->data, &text->capacity, need, 1) != CLADE_OK) {
    text->failed = true;
    return;
  }
  memcpy(text->data + text->length, bytes, n);
  text->length += n;
  text->data[text->length] = '\0';
}

void clade__text_add(clade__text *text, const char *format, ...) {
  char small[512];
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int n = vsnprintf(small, sizeof small, format, args);
  va_end(args);
  if (n >= 0 && (size_t)n < sizeof small) {
    clade__text_add_bytes(text, small, (size_t)n);
  } else if (n >= 0) {
    char *large = clade__new((size_t)n + 1, 1);
    if (large) {
      vsnprintf(large, (size_t)n + 1, format, again);
      clade__text_add_bytes(text, large, (size_t)n);
      clade__free(large);
    } else {
      text->failed = true;
    }
  }
  va_end(again);
}

clade_status clade__text_take(clade__text *text, char **out) {
  clade__text_add_bytes(text, "", 0); /* make even an empty string non-NULL */
  if (text->failed) {
    clade__text_free(text);
    return CLADE_FAIL(NO_MEMORY, "no memory for a text");
  }
  *out = text->data;
  *text = (clade__text){0};
  return CLADE_OK;
}

void clade__text_free(clade__text *text) {
  clade__free(text->data);
  *text = (clade__text){0};
}
