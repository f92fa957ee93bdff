/* Softmax by teams of work-items (prelude_group.cl): maximum, sum and results of a line each read it once. Each element
 * is read and written by the same item, so y may be x. LOG: log-softmax. */
#ifdef WANT_softmax_forward_group
KERNEL(softmax_forward_group)
(ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index_t lines, const index_t n, const index_t inner) {
  TEAM_ROOM(float, tops);
  TEAM_ROOM(float2, sums);
  if (TEAM_FIRST >= lines) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  const bool own = TEAM_LINE < lines, whole = TEAM_WHOLE(x, n) && TEAM_WHOLE(y, n);
  const index_t line = (index_t)TEAM_LINE, count = own ? n : 0;
  const index_t outer = line / inner, base = outer * n * inner + line - outer * inner;
  TEAM_FLOAT most = -INFINITY, s = 0, lost = 0;
  TEAM_FOR(i, count) {
    const TEAM_FLOAT v = TEAM_LOAD(T, x, base, i, count, inner, whole, -INFINITY);
    most = TEAM_LARGER(most, v);
  }
  float top = TEAM_LARGEST(most);
  TEAM_REDUCE(float, top, tops, TEAM_MOST)
  TEAM_FOR(i, count) {
    const TEAM_FLOAT v = exp(TEAM_LOAD(T, x, base, i, count, inner, whole, -INFINITY) - top);
    TEAM_TAKE(s, lost, v)
  }
  float2 sum;
  TEAM_PAIR(sum, s, lost);
  TEAM_REDUCE(float2, sum, sums, TEAM_ADD)
#if LOG
  const float by = log(TEAM_TOTAL(sum));
#else
  const float by = TEAM_TOTAL(sum);
#endif
  TEAM_FOR(i, count) {
    const TEAM_FLOAT v = TEAM_LOAD(T, x, base, i, count, inner, whole, 0.0f) - top;
#if LOG
    TEAM_STORE(T, y, base, i, count, inner, whole, v - by);
#else
    TEAM_STORE(T, y, base, i, count, inner, whole, exp(v) / by);
#endif
  }
}
#endif

#ifdef WANT_softmax_grad_group
/* Gradient of softmax, (dy - sum(dy y)) y, or of log-softmax, dy - sum(dy) exp(y). */
KERNEL(softmax_grad_group)
(ARG(const STORAGE(T), y), ARG(const STORAGE(T), dy), ARG(STORAGE(T), dx), const index_t lines, const index_t n,
 const index_t inner) {
  TEAM_ROOM(float2, sums);
  if (TEAM_FIRST >= lines) return;
  USE(const STORAGE(T), y);
  USE(const STORAGE(T), dy);
  USE(STORAGE(T), dx);
  /* no vectors of four, for which PoCL 3.1 generates stores beyond the rows, which Oclgrind does not detect */
  const bool own = TEAM_LINE < lines, whole = false;
  const index_t line = (index_t)TEAM_LINE, count = own ? n : 0;
  const index_t outer = line / inner, base = outer * n * inner + line - outer * inner;
  TEAM_FLOAT s = 0, lost = 0;
  TEAM_FOR(i, count) {
    const TEAM_FLOAT d = TEAM_LOAD(T, dy, base, i, count, inner, whole, 0.0f);
#if LOG
    TEAM_TAKE(s, lost, d)
#else
    TEAM_TAKE(s, lost, d * TEAM_LOAD(T, y, base, i, count, inner, whole, 0.0f))
#endif
  }
  float2 pair;
  TEAM_PAIR(pair, s, lost);
  TEAM_REDUCE(float2, pair, sums, TEAM_ADD)
  const float sum = TEAM_TOTAL(pair);
  TEAM_FOR(i, count) {
    const TEAM_FLOAT v = TEAM_LOAD(T, y, base, i, count, inner, whole, 0.0f);
    const TEAM_FLOAT d = TEAM_LOAD(T, dy, base, i, count, inner, whole, 0.0f);
#if LOG
    TEAM_STORE(T, dx, base, i, count, inner, whole, d - sum * exp(v));
#else
    TEAM_STORE(T, dx, base, i, count, inner, whole, (d - sum) * v);
#endif
  }
}
#endif
