/* Lines of images on CPUs. Included by conv2d*.cl. */

/* Copies n elements that are `step` apart. */
static inline void FN(copy)(const __global STORAGE(T) * x, int step, int n, float *to) {
  int i = 0;
  for (; step <= 2 && n >= 8 && i < n; i += 8) { /* the last eight end with the line */
    const int at = min(i, n - 8);
    vstore8(step == 1 ? LOADN(8, T, x, at) : SECONDS8(T, x, 2 * at), 0, to + at);
  }
  ONE_BY_ONE for (; i < n; i++) to[i] = LOAD(T, x, i * step);
}
