/* Sums, maxima and minima of floats by teams of work-items (prelude_group.cl): each item reads its share of a part of a
 * line; sums are compensated. If a line has several parts, another launch combines them.
 *
 * Y: type of the result. KIND: 0 sum, divided by `count`; 2 maximum; 3 minimum, as the maximum of negated elements. FROM:
 * type of the input, x's or f32. DIRECT: writes the result as Y; otherwise f32. */
#if DIRECT
#define OUT Y
#else
#define OUT f32
#endif
#if KIND == 3
#define SIGN(v) (-(v))
#else
#define SIGN(v) (v)
#endif

#ifdef WANT_reduce_forward_group
KERNEL(reduce_forward_group)
(ARG(const STORAGE(FROM), x), ARG(STORAGE(OUT), y), const index_t lines, const index_t n, const index_t inner,
 const index_t parts, const index_t part, const float count) {
#if KIND < 2
  TEAM_ROOM(float2, room);
#else
  TEAM_ROOM(float, room);
#endif
  if (TEAM_FIRST >= (long)lines * parts) return;
  USE(const STORAGE(FROM), x);
  USE(STORAGE(OUT), y);
  /* (outer, parts, inner): adjacent lines of a part are adjacent here too */
  const long all = (long)lines * parts;
  const bool own = TEAM_LINE < all, whole = TEAM_WHOLE(x, n);
  const index_t line = (index_t)TEAM_LINE, row = line / inner, outer = row / parts, first = (row - outer * parts) * part;
  const index_t base = (outer * n + first) * inner + line - row * inner, left = own ? min(part, n - first) : 0;
#if KIND < 2
  TEAM_FLOAT s = 0, lost = 0;
  TEAM_FOR(i, left) TEAM_TAKE(s, lost, TEAM_LOAD(FROM, x, base, i, left, inner, whole, 0.0f))
  float2 sum;
  TEAM_PAIR(sum, s, lost);
  TEAM_REDUCE(float2, sum, room, TEAM_ADD)
  const float result = TEAM_TOTAL(sum) / count;
#else
  TEAM_FLOAT s = -INFINITY;
  TEAM_FOR(i, left) {
    const TEAM_FLOAT v = SIGN(TEAM_LOAD(FROM, x, base, i, left, inner, whole, SIGN(-INFINITY)));
    s = TEAM_LARGER(s, v);
  }
  float most = TEAM_LARGEST(s);
  TEAM_REDUCE(float, most, room, TEAM_MOST)
  const float result = SIGN(most);
#endif
  if (TEAM_TELLS(all)) STORE(OUT, y, line, result);
}
#endif
