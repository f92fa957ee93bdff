/* Arguments and keys of the sort's steps: a key is an index with its position in the lower half. */
#define ARGS                                                                                                     \
  ARG(const int, ids), ARG(const long, from), ARG(uint, counts), ARG(long, to), const index_t n, const int part, \
  const int parts, const int rows, const int digit, const int sorted
/* Key i, as sorted by lower digits, or made from the indices. */
static inline long FN(key)(const __global int *ids, const __global long *from, index_t i, int rows, int sorted) {
  if (sorted) return from[i];
  const int id = ids[i];
  return (long)(id >= 0 && id < rows ? id : rows) * 0x100000000L + i;
}
