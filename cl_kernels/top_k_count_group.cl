/* Number of samples whose label is among the k largest logits, on GPUs (prelude_group.cl): a team per row counts the
 * classes that rank before the label; then one team counts the rows. */
#define COUNT(a, b) { (a) += (b); }

#ifdef WANT_top_k_count_forward_group_rows
KERNEL(top_k_count_forward_group_rows)
(ARG(const STORAGE(T), x), ARG(const int, labels), ARG(int, right), const index_t rows, const int classes,
 const int k) {
  TEAM_ROOM(int, room);
  if (TEAM_FIRST >= rows) return;
  USE(const STORAGE(T), x);
  USE(const int, labels);
  USE(int, right);
  const bool own = TEAM_LINE < rows, whole = TEAM_WHOLE(x, classes);
  const index_t row = own ? (index_t)TEAM_LINE : 0, base = row * classes;
  const int label = labels[row];
  const float score = label >= 0 && label < classes ? LOAD(T, x, base + label) : NAN;
  const index_t count = own ? classes : 0;
  int4 first = 0;
  TEAM_FOR(i, count) {
    const float4 v = TEAM_LOAD(T, x, base, i, count, 1, whole, -INFINITY);
    const int4 at = (int)i + (int4)(0, 1, 2, 3);
    first -= v > score || v != v || (v == score && at < label);
  }
  int before = first.s0 + first.s1 + first.s2 + first.s3;
  TEAM_REDUCE(int, before, room, COUNT)
  if (TEAM_TELLS(rows)) right[row] = score == score && before < k ? 1 : 0;
}
#endif

#ifdef WANT_top_k_count_forward_group_join
KERNEL(top_k_count_forward_group_join)
(ARG(const int, right), ARG(int, y), const index_t results, const index_t rows) {
  TEAM_ROOM(int, room);
  if (TEAM_FIRST >= results) return;
  USE(const int, right);
  USE(int, y);
  int n = 0;
  TEAM_EACH(i, rows) n += right[i];
  TEAM_REDUCE(int, n, room, COUNT)
  if (TEAM_TELLS(results)) y[0] = n;
}
#endif
