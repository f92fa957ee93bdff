/* Adds rows to a table by index on GPUs, as in scatter_add.cl: a stable radix sort with digits of eight bits, one part
 * per work-group; then the first key of each row is searched. A row adds what has its index in the order of positions;
 * runs of RUN keys that all name one row are summed before, in parallel. The order of sums depends on the indices and
 * on RUN, not on the device. */
#define ITEMS  256 /* work-items of a group, and values of a digit */
#define RUN    64
#define ROW(k) (((index_t)(keys[k] & 0xffffffff) + block * n) * width)

#if defined WANT_scatter_add_group_count || defined WANT_scatter_add_group_place
#include "scatter_add_keys.cl"
#define DIGIT(key) ((int)((key) >> (32 + 8 * digit)) & (ITEMS - 1))
#endif

#ifdef WANT_scatter_add_group_count
/* Counts the digits of the part: item d counts digit d. */
GROUP(ITEMS, 1, 1)
KERNEL(scatter_add_group_count)(ARGS) {
  __local int seen[ITEMS];
  const int me = (int)get_local_id(0);
  const long begin = (long)get_group_id(0) * part, end = min(begin + part, (long)n);
  if (begin >= n) return;
  USE(const int, ids);
  USE(const long, from);
  USE(uint, counts);
  uint count = 0;
  for (long first = begin; first < end; first += ITEMS) {
    barrier(CLK_LOCAL_MEM_FENCE);
    seen[me] = first + me < end ? DIGIT(FN(key)(ids, from, (index_t)(first + me), rows, sorted)) : -1;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < ITEMS; i++) count += seen[i] == me;
  }
  counts[(index_t)get_group_id(0) * ITEMS + me] = count;
}
#endif

#ifdef WANT_scatter_add_group_place
/* Item d holds the target of the part's keys with digit d; a key goes behind the earlier ones with its digit. */
GROUP(ITEMS, 1, 1)
KERNEL(scatter_add_group_place)(ARGS) {
  __local uint next[ITEMS];
  __local int seen[ITEMS];
  const int me = (int)get_local_id(0);
  const long begin = (long)get_group_id(0) * part, end = min(begin + part, (long)n);
  if (begin >= n) return;
  USE(const int, ids);
  USE(const long, from);
  USE(uint, counts);
  USE(long, to);
  uint own = 0, all = 0;
  for (int p = 0; p < parts; p++) {
    const uint count = counts[(index_t)p * ITEMS + me];
    own += p < (int)get_group_id(0) ? count : 0;
    all += count;
  }
  next[me] = all;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int d = 0; d < ITEMS; d++) own += d < me ? next[d] : 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  next[me] = own;
  for (long first = begin; first < end; first += ITEMS) {
    const bool there = first + me < end;
    const long key = there ? FN(key)(ids, from, (index_t)(first + me), rows, sorted) : 0;
    const int digit_of = there ? DIGIT(key) : -1;
    seen[me] = digit_of;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint before = 0, many = 0;
    for (int i = 0; i < ITEMS; i++) {
      before += i < me && seen[i] == digit_of;
      many += seen[i] == me;
    }
    if (there) to[next[digit_of] + before] = key;
    barrier(CLK_LOCAL_MEM_FENCE);
    next[me] += many;
  }
}
#endif
#undef ARGS

#ifdef WANT_scatter_add_group_find
/* First key of each row, and of the indices out of range: one work-item each. */
KERNEL(scatter_add_group_find)
(ARG(const long, keys), ARG(int, begins), const index_t n, const index_t total) {
  const index_t row = (index_t)get_global_id(0);
  if (row >= total) return;
  USE(const long, keys);
  USE(int, begins);
  index_t first = 0, end = n;
  while (first < end) {
    const index_t middle = first + (end - first) / 2;
    if (keys[middle] >> 32 < (long)row)
      first = middle + 1;
    else
      end = middle;
  }
  begins[row] = (int)first;
}
#endif

#if defined WANT_scatter_add_group_runs || defined WANT_scatter_add_group_sum
/* Compensated sum (Knuth's two-sum). */
#define TAKE(v)                                         \
  {                                                     \
    const float4 add = v, sum = s + add, back = sum - s; \
    lost += (s - (sum - back)) + (add - back);          \
    s = sum;                                            \
  }
/* Four columns of a row, from position `at` on, of which `left` exist. */
static inline float4 FN(four)(const __global STORAGE(T) *p, const index_t at, const int left) {
  float lane[4];
  FOUR_READ(T, lane, p, at, left)
  return (float4)(lane[0], left > 1 ? lane[1] : 0.0f, left > 2 ? lane[2] : 0.0f, left > 3 ? lane[3] : 0.0f);
}
#endif

#ifdef WANT_scatter_add_group_runs
/* If all keys of run r name one row: the sum of four columns, and its compensation. */
KERNEL(scatter_add_group_runs)
(ARG(const long, keys), ARG(const STORAGE(T), dy), ARG(float, sums), const index_t n, const index_t width,
 const index_t runs, const index_t fours, const index_t total) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= total) return;
  USE(const long, keys);
  USE(const STORAGE(T), dy);
  USE(float, sums);
  const index_t line = item / fours, column = (item - line * fours) * 4, block = line / runs;
  const index_t first = (line - block * runs) * RUN;
  if (keys[first] >> 32 != keys[first + RUN - 1] >> 32) return;
  const int left = (int)min(width - column, (index_t)4);
  float4 s = FN(four)(dy, ROW(first) + column, left), lost = 0;
#pragma unroll 4
  for (int k = 1; k < RUN; k++) TAKE(FN(four)(dy, ROW(first + k) + column, left))
  *(__global float4 *)(sums + (size_t)item * 8) = s;
  *(__global float4 *)(sums + (size_t)item * 8 + 4) = lost;
}
#endif

#ifdef WANT_scatter_add_group_sum
/* -0 is added to a given row without keys, which leaves it unchanged. An infinity makes the compensation NaN; the plain
 * sum is right then. */
KERNEL(scatter_add_group_sum)
(ARG(const long, keys), ARG(const int, begins), ARG(const float, sums), ARG(const STORAGE(T), dy),
 ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index_t n, const index_t width, const index_t rows,
 const index_t runs, const index_t fours, const index_t total, const int given) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= total) return;
  USE(const long, keys);
  USE(const int, begins);
  USE(const float, sums);
  USE(const STORAGE(T), dy);
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  const index_t line = item / fours, column = (item - line * fours) * 4, block = line / rows, row = line - block * rows;
  const int left = (int)min(width - column, (index_t)4);
  index_t k = begins[row];
  const index_t end = begins[row + 1], at = line * width + column;
  if (given && x == y && k == end) return;
  float4 s = given ? FN(four)(x, at, left) : (float4)0.0f, lost = given && k == end ? (float4)-0.0f : (float4)0.0f;
  if (!given && k < end) s = FN(four)(dy, ROW(k++) + column, left);
  while (k < end) {
    if (k % RUN || k + RUN > end) {
      TAKE(FN(four)(dy, ROW(k++) + column, left))
      continue;
    }
    const __global float *run = sums + (size_t)((block * runs + k / RUN) * fours + column / 4) * 8;
    TAKE(*(const __global float4 *)run)
    lost += *(const __global float4 *)(run + 4);
    k += RUN;
  }
  const float4 whole = s + lost, v = lost == lost ? whole : s;
  const float lane[4] = {v.s0, v.s1, v.s2, v.s3};
  FOUR_STORE(T, y, at, left, lane)
}
#endif
