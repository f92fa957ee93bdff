/* The index of the first largest element along the middle axis of (outer, n, inner). */
#define ARGS ARG(const STORAGE(T), x), ARG(int, y), const index_t outer, const int n, const index_t inner
BODY(arg_max_forward_ref_item)(const long item, ARGS) {
  if (item >= (long)outer * inner) return;
  USE(const STORAGE(T), x);
  USE(int, y);
  const index_t row = (index_t)item / inner; /* no remainder: Oclgrind lacks an instruction that the pair becomes */
  const index_t base = row * n * inner + (index_t)item - row * inner;
  COMPUTE(T) best = LOAD(T, x, base);
  int at = 0;
  for (int i = 1; i < n; i++) {
    const COMPUTE(T) v = LOAD(T, x, base + i * inner);
    if (v > best || (v != v && best == best)) {
      best = v;
      at = i;
    }
  }
  y[item] = at;
}

KERNEL(arg_max_forward_ref)(ARGS) {
  FN(arg_max_forward_ref_item)((long)get_global_id(0), PASS(x), PASS(y), outer, n, inner);
}
#undef ARGS
