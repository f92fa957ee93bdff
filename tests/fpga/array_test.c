/* The simulated systolic array against C: bit-exact results, exact cycle counts, stalled streams and resets during a
 * product. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

static const array_pauses flowing = {0, 0, 0, 1};

static uint64_t state = 20;

static int64_t below(int64_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((state >> 33) % (uint64_t)n);
}

typedef enum fill { RANDOM, EXTREMES, LOWEST } fill;

static int8_t value(fill f) {
  static const int8_t ends[] = {-128, -127, -1, 0, 1, 127};
  return f == LOWEST ? -128 : f == EXTREMES ? ends[below(6)] : (int8_t)(below(256) - 128);
}

static void *memory(int64_t n, size_t bytes) {
  void *p = calloc((size_t)n + 1, bytes);
  if (!p) {
    fprintf(stderr, "no memory\n");
    exit(2);
  }
  return p;
}

/* Returns the first difference, or NULL. A limit below the product's cycles stops the array in the middle. */
static const char *product(array_sim *sim, const array_work *w, fill f, const array_pauses *pauses, int64_t limit) {
  static char text[200];
  const array_shape shape = array_sim_shape();
  const array_beats n = array_count(&shape, w);
  int8_t *a = memory(w->m * w->k, 1), *b = memory(w->k * w->n, 1);
  int8_t *a_beats = memory(n.a * shape.rows, 1), *b_beats = memory(n.b * shape.cols, 1);
  int32_t *beats = memory(n.out * shape.cols, 4), *c = memory(w->m * w->n, 4), *expected = memory(w->m * w->n, 4);
  for (int64_t i = 0; i < w->m * w->k; i++) a[i] = value(f);
  for (int64_t i = 0; i < w->k * w->n; i++) b[i] = value(f);
  array_pack_a(&shape, w, a, a_beats);
  array_pack_b(&shape, w, b, b_beats);
  int64_t cycles, formula = array_cycles(&shape, w);
  bool flows = !pauses->a && !pauses->b && !pauses->out;
  const char *wrong =
      array_sim_run(sim, w, a_beats, b_beats, beats, pauses, limit ? limit : 20 * formula + 100, &cycles);
  if (!wrong) {
    array_unpack(&shape, w, beats, c);
    array_reference(w, a, b, expected);
    for (int64_t i = 0; i < w->m * w->n && !wrong; i++)
      if (c[i] != expected[i]) {
        snprintf(text, sizeof text, "element %lld is %d, expected %d", (long long)i, c[i], expected[i]);
        wrong = text;
      }
  }
  if (!wrong && (flows ? cycles != formula : cycles < formula)) {
    snprintf(text, sizeof text, "%lld cycles, the formula says %lld", (long long)cycles, (long long)formula);
    wrong = text;
  }
  free(a), free(b), free(a_beats), free(b_beats), free(beats), free(c), free(expected);
  return wrong;
}

static int products;

static void check(array_sim *sim, int64_t m, int64_t n, int64_t k, fill f, array_pauses pauses) {
  const char *wrong = product(sim, &(array_work){m, n, k}, f, &pauses, 0);
  products++;
  if (!wrong) return;
  fprintf(stderr, "%lld x %lld, k = %lld, pauses %d %d %d: %s\n", (long long)m, (long long)n, (long long)k, pauses.a,
          pauses.b, pauses.out, wrong);
  exit(1);
}

/* For each k with a different bottleneck: no products, tiles that wait for results, and the queue's depth. */
static void sizes(array_sim *sim) {
  const array_shape s = array_sim_shape();
  const int leave = 2 * s.rows + s.cols + 1, depth = 1 << s.log_depth;
  const int ks[] = {0, 1, 2, 3, leave - 1, leave, leave + 1, depth - 1, depth, depth + 1, 2 * depth + 3};
  const int ms[] = {1, s.rows - 1, s.rows, s.rows + 1, 3 * s.rows - 1};
  const int ns[] = {1, s.cols - 1, s.cols, s.cols + 1, 3 * s.cols - 1};
  for (size_t i = 0; i < sizeof ks / sizeof *ks; i++)
    for (size_t j = 0; j < sizeof ms / sizeof *ms; j++)
      for (size_t l = 0; l < sizeof ns / sizeof *ns; l++)
        check(sim, ms[j], ns[l], ks[i], (j + l) % 2 ? EXTREMES : RANDOM, flowing);
  check(sim, 0, 7, 9, RANDOM, flowing);
  check(sim, 7, 0, 9, RANDOM, flowing);
  check(sim, 0, 0, 0, RANDOM, flowing);
  check(sim, 2, 3, 65535, LOWEST, flowing); /* the largest possible sums */
}

static array_pauses some_pauses(void) {
  static const int often[] = {0, 20, 128, 240};
  return (array_pauses){often[below(4)], often[below(4)], often[below(4)], state};
}

static void pausing(array_sim *sim) {
  for (int i = 0; i < 150; i++) check(sim, below(20), below(20), below(i % 4 ? 20 : 90), RANDOM, some_pauses());
}

static void resets(array_sim *sim) {
  for (int i = 0; i < 150; i++) {
    const array_shape shape = array_sim_shape();
    const array_work w = {1 + below(20), 1 + below(20), below(60)};
    const int64_t limit = 1 + below(array_cycles(&shape, &w) - 1);
    const array_pauses pauses = i % 2 ? flowing : some_pauses();
    const char *wrong = product(sim, &w, EXTREMES, &pauses, limit);
    if (wrong != array_sim_stopped) {
      fprintf(stderr, "no stop after %lld cycles: %s\n", (long long)limit, wrong ? wrong : "it came to an end");
      exit(1);
    }
    array_sim_reset(sim);
    check(sim, 1 + below(20), 1 + below(20), below(60), RANDOM, flowing);
  }
}

int main(void) {
  array_sim *sim = array_sim_new();
  if (!sim) return 2;
  sizes(sim);
  pausing(sim);
  resets(sim);
  array_sim_free(sim);
  printf("%d products\n", products);
  return 0;
}
