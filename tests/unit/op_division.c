/* How products are divided among the cores of hypothetical CPUs: work-items of a launch, and the share of the cores'
 * time that the largest ones leave unused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include <clade/nn.h>
#include <clade/ops.h>

#include "op/op.h"
#include "pass/pass.h"

enum { LANES = 16, PANEL = 32 }; /* floats of a vector; columns of a panel of matrix units */
static const clade_device_info cpu = {.size = sizeof cpu,
                                      .device_class = CLADE_CPU,
                                      .clock_mhz = 2500,
                                      .vector_f32 = LANES,
                                      .max_group = 4096,
                                      .max_item = {4096, 4096, 4096},
                                      .local_bytes = 1 << 20,
                                      .l1_bytes = 32 << 10,
                                      .l2_bytes = 1 << 20,
                                      .cache_bytes = 32 << 20};

typedef struct product {
  int64_t m, n, k, batch;
} product;

/* Rows and columns of the tiles that an implementation divides; params: its configuration. */
typedef struct way {
  const char *name;
  bool words; /* for bytes and bf16 */
  int (*rows)(const int32_t *config), (*columns)(const int32_t *config);
} way;
static int first(const int32_t *config) { return config[0]; }
static int vectors(const int32_t *config) { return config[1] * LANES; }
static int six(const int32_t *config) { return (void)config, 6; }
static int four_vectors(const int32_t *config) { return (void)config, 4 * LANES; }
static int panel(const int32_t *config) { return (void)config, PANEL; }
static const way ways[] = {{"vec", false, first, vectors},          {"vec_panels", false, first, vectors},
                           {"vec_bare", false, six, four_vectors},  {"mma", true, first, panel},
                           {"mma_tile", true, first, panel},        {"mma_panels", true, first, panel},
                           {"mma_tile_panels", true, first, panel}, {"mma_panels_bare", true, six, panel}};

static void view(clade_graph *g, clade_type *in, clade_type *out, clade_node *node) {
  for (size_t i = 0; i < g->n_nodes; i++)
    if (g->nodes[i].op && !strcmp(g->nodes[i].op->name, "gemm")) clade__node_view(g, (clade__id)i, in, out, node);
}

/* The parts of a matrix among the kernel's arguments: two numbers whose product times the batch gives the items. */
static void parts_of(const clade_kernel_step *s, int64_t batch, int64_t *down, int64_t *across) {
  *down = 0, *across = 1;
  for (size_t i = 0; i < s->n_args; i++) {
    int32_t v[8];
    if (s->args[i].kind != CLADE__ARG_BYTES || s->args[i].bytes != sizeof v) continue;
    memcpy(v, s->args[i].value, sizeof v);
    const int64_t columns = v[1] ? v[1] : 1;
    if (v[0] * columns * batch != (int64_t)s->global[0]) continue;
    *down = v[0];
    *across = columns;
  }
  assert_true(*down > 0);
}

/* Work divided by the cores' time; 0: the implementation refuses the product. */
static double balance(const way *w, const product *p, clade_dtype dtype, unsigned units) {
  clade_graph *g = NULL;
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_layout lies[CLADE_MAX_OPERANDS] = {0}, gives[CLADE_MAX_OPERANDS] = {0};
  clade_node node;
  int32_t config[CLADE_MAX_PARAMS];
  clade_device_info device = cpu;
  device.compute_units = units;
  for (int i = 0; i < CLADE_UNITS; i++) device.unit[i] = (clade_unit_info){.name = "unit", .used = true};
  assert_int_equal(clade_graph_new(&g), CLADE_OK);
  clade_gemm(g, clade_input(g, "a", dtype, CLADE_SHAPE(p->batch, p->m, p->k)),
             clade_input(g, "b", dtype, CLADE_SHAPE(p->batch, p->k, p->n)));
  view(g, in, out, &node);
  const clade_impl *const *impl = node.op->impls;
  while (strcmp((*impl)->name, w->name) != 0) impl++;
  clade_query q = {sizeof q, &node, &device, config};
  clade__query_defaults(&q, *impl, config);
  double result = 0;
  if (!(*impl)->accept(&q)) {
    clade__arena arena = {0};
    clade_emit e;
    int64_t down, across;
    if ((*impl)->layouts) (*impl)->layouts(&q, lies, gives);
    for (int i = 0; i < 2; i++) in[i].layout = lies[i];
    clade__emit_begin(&e, &arena, &q);
    assert_int_equal((*impl)->emit(&e, &q), CLADE_OK);
    assert_int_equal(clade__emit_end(&e), CLADE_OK);
    parts_of(e.first, p->batch, &down, &across);
    const double tiles = ceil((double)p->m / w->rows(config)), panels = ceil((double)p->n / w->columns(config));
    const double item = ceil(tiles / (double)down) * ceil(panels / (double)across);
    const double turns = ceil((double)e.first->global[0] / units);
    result = tiles * panels * (double)p->batch / (turns * units * item);
    clade__arena_free(&arena);
  }
  clade_graph_release(g);
  return result;
}

/* Products of at least 8 million multiply-adds for each core keep four fifths of them busy. */
static void cores_are_busy(void **state) {
  (void)state;
  enum { EACH = 8 << 20 };
  static const product all[] = {
      {512, 512, 512, 1},  {768, 768, 768, 1},    {1024, 1024, 1024, 1}, {2048, 2048, 2048, 1}, {64, 4096, 4096, 1},
      {64, 1000, 2048, 1}, {64, 768, 3072, 1},    {64, 3136, 256, 1},    {256, 3136, 64, 1},    {128, 784, 512, 1},
      {1024, 196, 256, 1}, {512, 49, 2048, 1},    {2048, 49, 512, 1},    {512, 512, 64, 12},    {197, 197, 64, 12},
      {333, 555, 777, 1},  {1000, 1000, 1000, 1}, {96, 12544, 16, 1},    {1280, 49, 320, 1},    {8, 4096, 4096, 1},
      {16, 4096, 4096, 1}, {512, 3072, 768, 1},   {1536, 1536, 1536, 1}, {97, 1009, 211, 1}};
  static const unsigned units[] = {2, 8, 16, 64};
  int asked = 0;
  for (size_t w = 0; w < CLADE_COUNT(ways); w++)
    for (size_t i = 0; i < CLADE_COUNT(all); i++)
      for (size_t u = 0; u < CLADE_COUNT(units); u++)
        for (int t = 0; t < (ways[w].words ? 2 : 1); t++) {
          const product *p = &all[i];
          const clade_dtype dtype = ways[w].words ? t ? CLADE_BF16 : CLADE_I8 : CLADE_F32;
          if (p->m * p->n * p->k * p->batch < (int64_t)EACH * units[u]) continue;
          const double busy = balance(&ways[w], p, dtype, units[u]);
          asked += busy > 0;
          if (busy > 0 && busy < 0.8)
            fail_msg("%s of %lld x %lld x %lld, %lld times: %.2f of %u cores", ways[w].name, (long long)p->m,
                     (long long)p->n, (long long)p->k, (long long)p->batch, busy, units[u]);
        }
  assert_true(asked > 200);
}

/* Few rows are divided by columns; each core streams its own part of the weights. */
static void few_rows(void **state) {
  (void)state;
  for (int64_t m = 1; m <= 16; m++)
    for (unsigned units = 2; units <= 64; units *= 2) {
      const product p = {m, 4096, 4096, 1};
      for (size_t w = 0; w < CLADE_COUNT(ways); w++) {
        const double busy = balance(&ways[w], &p, ways[w].words ? CLADE_I8 : CLADE_F32, units);
        assert_true(busy == 0 || busy >= 0.8);
      }
    }
}

/* Small products of words without copies: rows are divided as well as columns. */
static void small_words(void **state) {
  (void)state;
  static const product all[] = {{256, 256, 256, 1}, {64, 256, 784, 1}, {128, 128, 128, 1}, {512, 49, 2048, 1}};
  for (size_t i = 0; i < CLADE_COUNT(all); i++)
    assert_true(balance(&ways[CLADE_COUNT(ways) - 1], &all[i], CLADE_I8, 16) >= 0.8);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(cores_are_busy), cmocka_unit_test(few_rows),
                                     cmocka_unit_test(small_words)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
