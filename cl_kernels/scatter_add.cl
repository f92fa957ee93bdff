/* Rows added to a table. The row numbers are sorted with their positions, as keys of both; then the first of each
 * number sums up for its row, in the order of the positions. */
#ifdef WANT_scatter_add_start
/* What the sums begin with: another value, or zeros. */
#define ARGS \
  ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const int given, const index_t total, const index_t piece
BODY(piece)(const long item, ARGS) {
  const long begin = item * piece;
  if (begin >= total) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  const index_t end = (index_t)min(begin + piece, (long)total);
  for (index_t i = (index_t)begin; i < end; i++) y[i] = given ? x[i] : 0;
}

KERNEL(scatter_add_start)(ARGS) {
  FN(piece)((long)get_global_id(0), PASS(x), PASS(y), given, total, piece);
}
#undef ARGS
#endif

#ifdef WANT_scatter_add_runs
#define ARGS ARG(const int, ids), ARG(long, keys), const index_t n
BODY(run)(const long item, ARGS) {
  const long first = item * RUN;
  if (first >= n) return;
  USE(const int, ids);
  USE(long, keys);
  long own[RUN];
  const int count = (int)min((long)RUN, n - first);
  for (int i = 0; i < count; i++) {
    const long key = (long)ids[first + i] * 0x100000000L + (first + i);
    int at = i;
    for (; at > 0 && own[at - 1] > key; at--) own[at] = own[at - 1];
    own[at] = key;
  }
  for (int i = 0; i < count; i++) keys[first + i] = own[i];
}

KERNEL(scatter_add_runs)(ARGS) {
  FN(run)((long)get_global_id(0), PASS(ids), PASS(keys), n);
}
#undef ARGS
#endif

#ifdef WANT_scatter_add_merge
/* Pairs of sorted runs of `width`: a key goes as far behind its place in its own run as the other one has smaller keys.
 * No two are the same. */
#define ARGS ARG(const long, from), ARG(long, to), const index_t n, const index_t width
BODY(element)(const long i, ARGS) {
  if (i >= n) return;
  USE(const long, from);
  USE(long, to);
  const long pair = i / ((long)width * 2) * ((long)width * 2), middle = min(pair + width, (long)n);
  const bool right = i >= middle;
  const long key = from[i], other = right ? pair : middle;
  long low = other, high = right ? middle : min(pair + 2 * (long)width, (long)n);
  while (low < high) {
    const long at = (low + high) / 2;
    if (from[at] < key)
      low = at + 1;
    else
      high = at;
  }
  to[pair + (right ? i - middle : i - pair) + (low - other)] = key;
}

KERNEL(scatter_add_merge)(ARGS) {
  FN(element)((long)get_global_id(0), PASS(from), PASS(to), n, width);
}
#undef ARGS
#endif

#ifdef WANT_scatter_add_sum
#define ARGS                                                                                                   \
  ARG(const long, keys), ARG(const STORAGE(T), dy), ARG(STORAGE(T), dx), const index_t n, const index_t width, \
  const index_t blocks, const index_t outer, const int rows, const int given
BODY(line)(const long item, ARGS) {
  if (item >= (long)n * blocks * outer) return;
  USE(const long, keys);
  USE(const STORAGE(T), dy);
  USE(STORAGE(T), dx);
  const index_t line = (index_t)(item / blocks), column = (index_t)(item - line * (long)blocks) * COLUMNS;
  const index_t block = line / n, first = line - block * n;
  const long id = keys[first] >> 32;
  if (id < 0 || id >= rows || (first > 0 && keys[first - 1] >> 32 == id)) return;
  index_t end = first + 1;
  while (end < n && keys[end] >> 32 == id) end++;
  const index_t stop = min(column + COLUMNS, width), to = (block * rows + (index_t)id) * width;
  index_t i = column;
  for (; i + 16 <= stop; i += 16) {
    float16 s = given ? LOAD16(T, dx, to + i) : (float16)0, lost = 0;
    for (index_t k = first; k < end; k++) { /* Knuth's two-sum */
      const index_t row = block * n + (index_t)(keys[k] & 0xffffffff);
      const float16 v = LOAD16(T, dy, row * width + i), sum = s + v, back = sum - s;
      lost += (s - (sum - back)) + (v - back);
      s = sum;
    }
    const float16 v = s + lost;
    STORE16(T, dx, to + i, v);
  }
  for (; i < stop; i++) {
    float s = given ? LOAD(T, dx, to + i) : 0.0f, lost = 0;
    for (index_t k = first; k < end; k++) {
      const index_t row = block * n + (index_t)(keys[k] & 0xffffffff);
      const float v = LOAD(T, dy, row * width + i), sum = s + v, back = sum - s;
      lost += (s - (sum - back)) + (v - back);
      s = sum;
    }
    STORE(T, dx, to + i, s + lost);
  }
}

KERNEL(scatter_add_sum)(ARGS) {
  FN(line)((long)get_global_id(0), PASS(keys), PASS(dy), PASS(dx), n, width, blocks, outer, rows, given);
}
#undef ARGS
#endif
