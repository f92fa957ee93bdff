/* Index of the first largest element along the middle axis of (outer, n, inner), by teams of work-items
 * (prelude_group.cl). If a line is cut into parts, another launch combines their results.
 *
 * T: stored type. FIRST: reads elements; otherwise values and indices of parts. DIRECT: writes the index alone. */
typedef struct {
  COMPUTE(T) v;
  int at;
} FN(best);

KERNEL(arg_max_forward_group)
(
#if FIRST
 ARG(const STORAGE(T), x),
#else
 ARG(const COMPUTE(T), x), ARG(const int, places),
#endif
#if !DIRECT
 ARG(COMPUTE(T), tops),
#endif
 ARG(int, y), const index_t lines, const index_t n, const index_t inner, const index_t parts, const index_t part) {
  TEAM_ROOM(FN(best), room);
  if (TEAM_FIRST >= (long)lines * parts) return;
#if FIRST
  USE(const STORAGE(T), x);
#define ELEMENT(i) {LOAD(T, x, base + (i) * inner), (int)(first + (i))}
#else
  USE(const COMPUTE(T), x);
  USE(const int, places);
#define ELEMENT(i) {x[base + (i) * inner], places[base + (i) * inner]}
#endif
#if !DIRECT
  USE(COMPUTE(T), tops);
#endif
  USE(int, y);
  /* (outer, parts, inner): adjacent lines of a part are adjacent here too */
  const long all = (long)lines * parts;
  const bool own = TEAM_LINE < all;
  const index_t line = own ? (index_t)TEAM_LINE : 0, row = line / inner, outer = row / parts;
  const index_t first = (row - outer * parts) * part, base = (outer * n + first) * inner + line - row * inner;
  const index_t left = own ? min(part, n - first) : 0;
  FN(best) best = ELEMENT(0);
  TEAM_EACH(i, left) {
    const FN(best) one = ELEMENT(i);
    TEAM_FIRST_MOST(best, one)
  }
  TEAM_REDUCE(FN(best), best, room, TEAM_FIRST_MOST)
  if (TEAM_TELLS(all)) {
#if !DIRECT
    tops[line] = best.v;
#endif
    y[line] = best.at;
  }
}
