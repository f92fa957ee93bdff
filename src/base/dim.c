/* Symbolic dimensions: interned names that live as long as the process. */
#include "base/base.h"

#include <inttypes.h>
#include <stdio.h>

/* Symbols count up from here; CLADE_DIM_REST and CLADE_DIM_ERROR lie below. Small negative numbers stay invalid, so
 * that mistakes in sizes are detected. */
#define FIRST    (INT64_MIN / 2)
#define MAX_NAME 200

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static clade__map by_name;
static struct symbol {
  char *name;
  char op; /* operator of a derived symbol; 0: none */
  clade_dim a, b;
} * symbols;
static size_t count, capacity;

bool clade_dim_is_symbol(clade_dim dim) { return dim >= FIRST && dim < FIRST + UINT32_MAX; }

const char *clade_dim_name(clade_dim dim) {
  if (!clade_dim_is_symbol(dim)) return NULL;
  size_t index = (size_t)(dim - FIRST);
  pthread_rwlock_rdlock(&lock);
  const char *name = index < count ? symbols[index].name : NULL;
  pthread_rwlock_unlock(&lock);
  return name;
}

bool clade__dim_parts(clade_dim dim, char *op, clade_dim *a, clade_dim *b) {
  if (!clade_dim_is_symbol(dim)) return false;
  size_t index = (size_t)(dim - FIRST);
  pthread_rwlock_rdlock(&lock);
  struct symbol s = index < count ? symbols[index] : (struct symbol){0};
  pthread_rwlock_unlock(&lock);
  *op = s.op, *a = s.a, *b = s.b;
  return s.op != 0;
}

static clade_dim intern(const char *name, char op, clade_dim a, clade_dim b) {
  clade__hash key = clade__hash_bytes(name, strlen(name));
  clade_dim dim = CLADE_DIM_ERROR;
  size_t index;
  pthread_rwlock_wrlock(&lock);
  if (clade__map_get(&by_name, key, &index)) {
    dim = FIRST + (clade_dim)index;
  } else if (clade__grow(&symbols, &capacity, count + 1, sizeof *symbols) == CLADE_OK) {
    struct symbol s = {clade__copy_text(name), op, a, b};
    if (s.name && clade__map_put(&by_name, key, count) == CLADE_OK) {
      symbols[count] = s;
      dim = FIRST + (clade_dim)count++;
    } else {
      clade__free(s.name);
    }
  }
  pthread_rwlock_unlock(&lock);
  return dim;
}

clade_dim clade_dim_symbol(const char *name) {
  size_t n = name ? strlen(name) : 0;
  bool ok = n > 0 && n <= MAX_NAME && !(name[0] >= '0' && name[0] <= '9');
  for (size_t i = 0; ok && i < n; i++)
    ok = (name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z') ||
         (name[i] >= '0' && name[i] <= '9') || name[i] == '_';
  if (ok) return intern(name, 0, 0, 0);
  CLADE_FAIL(INVALID, "dimension \"%.64s\": a name has letters, digits and _, and begins with no digit",
             name ? name : "(null)");
  return CLADE_DIM_ERROR;
}

static bool broken(clade_dim d) { return d < 0 && !clade_dim_is_symbol(d); }

/* Returns the symbol "(a op b)". Equal expressions have equal names and are thus the same dimension. */
static clade_dim derived(clade_dim a, char op, clade_dim b) {
  char text[2][MAX_NAME + 32], name[2 * MAX_NAME + 80];
  clade_dim side[2] = {a, b};
  for (int i = 0; i < 2; i++) {
    const char *symbol = clade_dim_name(side[i]);
    if (symbol)
      snprintf(text[i], sizeof text[i], "%s", symbol);
    else
      snprintf(text[i], sizeof text[i], "%" PRId64, side[i]);
  }
  snprintf(name, sizeof name, "(%s%c%s)", text[0], op, text[1]);
  if (strlen(name) <= MAX_NAME) return intern(name, op, a, b);
  char digest[33]; /* long expressions are named by their hash */
  snprintf(text[0], sizeof text[0], "(%s)", clade__hash_text(clade__hash_bytes(name, strlen(name)), digest));
  return intern(text[0], op, a, b);
}

clade_dim clade_dim_add(clade_dim a, clade_dim b) {
  clade_dim sum;
  if (broken(a) || broken(b)) return CLADE_DIM_ERROR;
  if (a == 0) return b;
  if (b == 0) return a;
  if (clade_dim_is_symbol(a) || clade_dim_is_symbol(b)) return a < b ? derived(a, '+', b) : derived(b, '+', a);
  return __builtin_add_overflow(a, b, &sum) ? CLADE_DIM_ERROR : sum;
}

clade_dim clade_dim_sub(clade_dim a, clade_dim b) {
  if (broken(a) || broken(b)) return CLADE_DIM_ERROR;
  if (b == 0) return a;
  if (a == b) return 0;
  if (clade_dim_is_symbol(a) || clade_dim_is_symbol(b)) return derived(a, '-', b);
  return a < b ? CLADE_DIM_ERROR : a - b;
}

clade_dim clade_dim_mul(clade_dim a, clade_dim b) {
  clade_dim product;
  if (broken(a) || broken(b)) return CLADE_DIM_ERROR;
  if (a == 0 || b == 0) return 0;
  if (a == 1) return b;
  if (b == 1) return a;
  if (clade_dim_is_symbol(a) || clade_dim_is_symbol(b)) return a < b ? derived(a, '*', b) : derived(b, '*', a);
  return __builtin_mul_overflow(a, b, &product) ? CLADE_DIM_ERROR : product;
}

clade_dim clade_dim_div(clade_dim a, clade_dim b) {
  if (broken(a) || broken(b) || b == 0) return CLADE_DIM_ERROR;
  if (b == 1) return a;
  if (a == b) return 1;
  if (clade_dim_is_symbol(a) || clade_dim_is_symbol(b)) return derived(a, '/', b);
  return a / b;
}
