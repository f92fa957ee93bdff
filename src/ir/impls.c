/* Access to an op's implementations. Structs compiled against an older header are shorter; they are replaced by
 * copies whose missing fields are zero. All readers go through this file. */
#include "ir/ir.h"
#include "program/records.h"

/* A new last field must enlarge the struct, since its absence in older structs is detected by size. */
#define ENDS_WITH(type, field) _Static_assert(sizeof(type) == CLADE__THROUGH(type, field), #type " ends in padding")
ENDS_WITH(clade_impl, alternatives);
ENDS_WITH(clade_space, configs);
ENDS_WITH(clade_op, dims);
/* Structs used in plain arrays or within other structs cannot grow. */
#define FROZEN(type, bytes) _Static_assert(sizeof(type) == (bytes), #type " is frozen")
FROZEN(clade_attr, 2 * sizeof(void *) + 2 * sizeof(uint32_t));
FROZEN(clade_val, 2 * sizeof(uint32_t));
_Static_assert(offsetof(clade_attr, name) == 0 && offsetof(clade_attr, kind) == sizeof(void *) &&
                   offsetof(clade_attr, offset) == sizeof(void *) + 4 &&
                   offsetof(clade_attr, count) == sizeof(void *) + 8,
               "clade_attr is frozen");

static bool is_whole(const clade_impl *impl) {
  return impl->size >= sizeof *impl && (!impl->space || impl->space->size >= sizeof *impl->space);
}

static bool all_whole(const clade_op *op) {
  for (const clade_impl *const *impl = op->impls; impl && *impl; impl++)
    if (!is_whole(*impl)) return false;
  return true;
}

static clade_status complete(const clade_impl *impl, const void **out) {
  clade_impl own;
  clade_space space;
  memset(&own, 0, sizeof own);
  memcpy(&own, impl, CLADE_MIN(impl->size, sizeof own));
  own.size = sizeof own;
  if (own.space && own.space->size < sizeof space) {
    const void *kept = NULL;
    memset(&space, 0, sizeof space);
    memcpy(&space, own.space, own.space->size);
    space.size = sizeof space;
    CLADE_TRY(clade__intern_bytes(&space, sizeof space, &kept));
    own.space = kept;
  }
  return clade__intern_bytes(&own, sizeof own, out);
}

static clade_status complete_all(const clade_op *op, const void **out) {
  const clade_impl *all[CLADE_MAX_IMPLS + 1] = {NULL};
  size_t n = 0;
  for (; n < CLADE_MAX_IMPLS && op->impls[n]; n++) {
    const void *kept = op->impls[n];
    if (!is_whole(op->impls[n])) CLADE_TRY(complete(op->impls[n], &kept));
    all[n] = kept;
  }
  return clade__intern_bytes(all, (n + 1) * sizeof *all, out);
}

const clade_impl *const *clade__impls(const clade_op *op) {
  static const clade_impl *const none[] = {NULL};
  const void *kept = NULL;
  if (!op->impls) return none;
  if (all_whole(op)) return op->impls;
  /* created with the op's first node, so this is a lookup */
  return complete_all(op, &kept) == CLADE_OK ? kept : none;
}

int clade__impls_count(const clade_op *op) {
  const clade_impl *const *impl = clade__impls(op);
  int n = 0;
  while (impl[n]) n++;
  return n;
}

/* Alternatives are numbered by the space's first parameter. */
static clade_status check_alternatives(const clade_op *op, const clade_impl *impl) {
  const clade_space *space = CLADE__FIELD(impl, space, NULL);
  const size_t n = CLADE__FIELD(impl, alternatives, 0);
  const bool numbered = space && space->params[0] && !strcmp(space->params[0], CLADE__LAYOUTS_PARAM);
  if (n < 2 || (n <= CLADE_MAX_ALTERNATIVES && numbered)) return CLADE_OK;
  return CLADE_FAIL(INVALID, "%s: %s has %zu alternatives; expected at most %d, and \"%s\" as its first parameter",
                    op->name, impl->name, n, CLADE_MAX_ALTERNATIVES, CLADE__LAYOUTS_PARAM);
}

static clade_status check_size(const clade_op *op, int i, const char *what, size_t have, size_t least) {
  if (have >= least) return CLADE_OK;
  return CLADE_FAIL(INVALID, "%s: the size of %s number %d is %zu, at least %zu is expected: set .size", op->name, what,
                    i, have, least);
}

clade_status clade__impls_check(const clade_op *op) {
  const void *kept = NULL;
  int n = 0;
  for (; op->impls && op->impls[n]; n++) {
    const clade_impl *impl = op->impls[n];
    if (n == CLADE_MAX_IMPLS)
      return CLADE_FAIL(INVALID, "%s: an op has at most %d implementations, and NULL behind them", op->name,
                        CLADE_MAX_IMPLS);
    CLADE_TRY(check_size(op, n, "implementation", impl->size, CLADE__THROUGH(clade_impl, emit)));
    if (!impl->name || !*impl->name)
      return CLADE_FAIL(INVALID, "%s: implementation number %d has no name", op->name, n);
    const clade_space *space = CLADE__FIELD(impl, space, NULL);
    if (space)
      CLADE_TRY(check_size(op, n, "the space of implementation", space->size, CLADE__THROUGH(clade_space, defaults)));
    if (space && (!space->params || !space->defaults))
      return CLADE_FAIL(INVALID, "%s: the space of %s lacks .params or .start", op->name, impl->name);
    CLADE_TRY(check_alternatives(op, impl));
  }
  return all_whole(op) ? CLADE_OK : complete_all(op, &kept);
}
