/* Products with views: slices and permutations that are absorbed, those that must not be, and random views against
 * copies. */
#include "base/base.h"
#include "op/dims.h"
#include "op/move/view.h"
#include "pass/pass.h"
#include "plan_kit.h"

enum { BATCH = 2, TOKENS = 5, HEADS = 3, WIDTH = 4, ALL = 3 * HEADS * WIDTH };

static clade_device_info devices[2] = {{.size = sizeof(clade_device_info), .name = "first"},
                                       {.size = sizeof(clade_device_info), .name = "second"}};

static clade_graph *passed(clade_graph *g) {
  clade__pass_ctx ctx = {.graph = g, .n_devices = 2, .devices = devices, .fallback = -1};
  OK(clade_graph_status(g));
  OK(clade__pass_views(&ctx));
  OK(clade__pass_dead(&ctx));
  return ctx.graph;
}

static size_t count(const clade_graph *g, const clade_op *op) {
  size_t n = 0;
  for (size_t i = 1; i < g->n_nodes; i++) n += g->nodes[i].op == op;
  return n;
}

static const clade__gemm_attrs *product(const clade_graph *g, int number) {
  for (size_t i = 1; i < g->n_nodes; i++)
    if (g->nodes[i].op == &clade__op_gemm && number-- == 0) return g->nodes[i].attrs;
  fail();
  return NULL;
}

static clade_val input(clade_graph *g, const char *name, clade_shape shape) {
  return clade_input(g, name, CLADE_F32, shape);
}

/* Queries, keys or values, concatenated in the last axis. */
static clade_val heads(clade_graph *g, clade_val all, int part) {
  const int64_t wide = HEADS * WIDTH;
  clade_val x = clade_slice(g, all, CLADE_SHAPE(0, 0, part * wide), CLADE_SHAPE(BATCH, TOKENS, wide));
  return clade_transpose(g, clade_reshape(g, x, CLADE_SHAPE(BATCH, TOKENS, HEADS, WIDTH)), 4, (int[]){0, 2, 1, 3});
}

static void assert_heads(const clade__gemm_attrs *at, int operand, int part) {
  const clade_shape shape = CLADE_SHAPE(BATCH, HEADS, TOKENS, WIDTH);
  const int64_t stride[] = {(int64_t)TOKENS * ALL, WIDTH, ALL, 1};
  assert_true(clade_shape_equal(&at->shape[operand], &shape));
  assert_memory_equal(at->stride[operand], stride, sizeof stride);
  assert_int_equal(at->offset[operand], part * HEADS * WIDTH);
}

static void test_heads(void **state) {
  (void)state;
  clade_graph *g = graph_new();
  clade_val all = input(g, "x", CLADE_SHAPE(BATCH, TOKENS, ALL));
  clade_val scores = clade_gemm(g, heads(g, all, 0), heads(g, all, 1), .trans_b = true);
  clade_output(g, "y", clade_gemm(g, clade_softmax(g, scores, -1), heads(g, all, 2)));
  g = passed(g);
  assert_int_equal(count(g, &clade__op_frame) + count(g, &clade__op_transpose) + count(g, &clade__op_reshape), 0);
  assert_heads(product(g, 0), 0, 0);
  assert_heads(product(g, 0), 1, 1);
  assert_int_equal(product(g, 1)->shape[0].rank, 0);
  assert_heads(product(g, 1), 1, 2);
  clade_graph_release(g);
}

/* The tuner changes sizes, which views do not permit. */
static void test_forgotten(void **state) {
  (void)state;
  clade_graph *g = graph_new();
  clade_val x = clade_slice(g, input(g, "x", CLADE_SHAPE(5, 8)), CLADE_SHAPE(0, 4), CLADE_SHAPE(5, 4));
  clade_output(g, "y", clade_gemm(g, x, input(g, "b", CLADE_SHAPE(4, 3)), .alpha = 2));
  g = passed(g);
  clade_type in[2] = {{.shape = CLADE_SHAPE(5, 8)}, {.shape = CLADE_SHAPE(4, 3)}};
  clade__gemm_attrs room;
  const clade__gemm_attrs *viewed = product(g, 0), *plain = clade__view_forgotten(&clade__op_gemm, viewed, in, &room);
  assert_int_equal(viewed->shape[0].rank, 2);
  assert_true(plain->shape[0].rank == 0 && plain->offset[0] == 0 && plain->alpha == 2);
  assert_true(clade_shape_equal(&in[0].shape, &viewed->shape[0]) && in[1].shape.dim[1] == 3);
  assert_ptr_equal(clade__view_forgotten(&clade__op_frame, &room, in, NULL), &room);
  clade_graph_release(g);
}

/* A transposed matrix needs no view: the product is transposed instead. */
static void test_turned(void **state) {
  (void)state;
  clade_graph *g = graph_new();
  clade_val turned = clade_transpose(g, input(g, "b", CLADE_SHAPE(2, 4, 6)), 3, (int[]){0, 2, 1});
  clade_output(g, "y", clade_gemm(g, input(g, "a", CLADE_SHAPE(2, 5, 6)), turned));
  g = passed(g);
  assert_int_equal(count(g, &clade__op_transpose), 0);
  assert_true(product(g, 0)->trans_b && !product(g, 0)->shape[1].rank);
  clade_graph_release(g);
}

/* A product of x, where a copy between x and its source must stay. */
static void assert_copied(clade_graph *g, clade_val x, const clade_op *op) {
  clade_output(g, "y", clade_gemm(g, x, input(g, "b", CLADE_SHAPE(4, 3))));
  g = passed(g);
  assert_int_equal(count(g, op), 1);
  clade_graph_release(g);
}

static void test_kept(void **state) {
  (void)state;
  clade_graph *g = graph_new(); /* rows of one head are not contiguous rows of the whole */
  clade_val x = clade_transpose(g, input(g, "x", CLADE_SHAPE(5, 2, 2)), 3, (int[]){1, 0, 2});
  assert_copied(g, clade_reshape(g, x, CLADE_SHAPE(5, 4)), &clade__op_transpose);
  g = graph_new(); /* neither rows nor columns are contiguous */
  x = clade_slice(g, input(g, "x", CLADE_SHAPE(5, 4, 2)), CLADE_SHAPE(0, 0, 1), CLADE_SHAPE(5, 4, 1));
  assert_copied(g, clade_reshape(g, x, CLADE_SHAPE(5, 4)), &clade__op_frame);
  g = graph_new(); /* padding has no source */
  x = clade_pad(g, input(g, "x", CLADE_SHAPE(5, 3)), CLADE_SHAPE(0, 0), CLADE_SHAPE(0, 1), 0);
  assert_copied(g, x, &clade__op_frame);
  g = graph_new(); /* overlapping rows */
  assert_copied(g, clade_broadcast(g, input(g, "x", CLADE_SHAPE(4)), CLADE_SHAPE(5, 4)), &clade__op_broadcast);
  g = graph_new(); /* the copy has another user */
  x = clade_slice(g, input(g, "x", CLADE_SHAPE(5, 8)), CLADE_SHAPE(0, 4), CLADE_SHAPE(5, 4));
  clade_output(g, "x", x);
  assert_copied(g, x, &clade__op_frame);
}

/* ---- random views ---- */
enum { ROUNDS = 100, MOVES = 4, OUTPUTS = 3, ELEMENTS = 6 * 4 * 8 };

static uint32_t dice(uint64_t key, uint64_t *at, uint32_t sides) {
  uint32_t four[4];
  clade__philox(key, (*at)++, 0, four);
  return four[0] % sides;
}

static clade_val moved(clade_graph *g, clade_val x, uint64_t key, uint64_t *at) {
  clade_type t;
  clade_shape begin = {0}, size;
  int axes[CLADE_MAX_RANK];
  OK(clade_val_type(g, x, &t));
  const int rank = t.shape.rank, i = (int)dice(key, at, (uint32_t)rank), k = (int)dice(key, at, (uint32_t)rank);
  size = t.shape;
  begin.rank = rank;
  switch (dice(key, at, 5)) {
  case 0:
    for (int j = 0; j < rank; j++) axes[j] = j == i ? k : j == k ? i : j;
    return clade_transpose(g, x, rank, axes);
  case 1:
    begin.dim[i] = dice(key, at, (uint32_t)size.dim[i]);
    size.dim[i] = 1 + dice(key, at, (uint32_t)(size.dim[i] - begin.dim[i]));
    return clade_slice(g, x, begin, size);
  case 2: /* split an axis */
    if (rank > 5 || size.dim[i] % 2) return x;
    size.rank++;
    for (int j = rank; j > i + 1; j--) size.dim[j] = size.dim[j - 1];
    size.dim[i] /= 2, size.dim[i + 1] = 2;
    return clade_reshape(g, x, size);
  case 3: /* concatenate with itself, if the results have space */
    if (rank > 5 || 2 * clade__product(&size, 0, rank) > ELEMENTS) return x;
    size.rank++;
    for (int j = rank; j > 0; j--) size.dim[j] = size.dim[j - 1];
    size.dim[0] = 2;
    return clade_broadcast(g, x, size);
  default: /* or join with the next axis */
    if (i + 1 >= rank || rank < 3) return x;
    size.dim[i] *= size.dim[i + 1];
    for (int j = i + 1; j + 1 < rank; j++) size.dim[j] = size.dim[j + 1];
    size.rank--;
    return clade_reshape(g, x, size);
  }
}

static clade_graph *random_graph(uint64_t key) {
  uint64_t at = 0;
  clade_type t;
  clade_graph *g = graph_new();
  clade_val x = input(g, "x", CLADE_SHAPE(6, 4, 8));
  for (int i = 0; i < MOVES; i++) x = moved(g, x, key, &at);
  OK(clade_val_type(g, x, &t));
  const int64_t rows = t.shape.dim[t.shape.rank - 2], columns = t.shape.dim[t.shape.rank - 1];
  clade_output(g, "squares", clade_gemm(g, x, x, .trans_b = true));
  clade_output(g, "left", clade_gemm(g, x, input(g, "weights", CLADE_SHAPE(columns, 3))));
  clade_output(g, "right", clade_gemm(g, clade_fill(g, CLADE_F32, CLADE_SHAPE(1, rows), 0.5), x));
  return g;
}

static const char *const outputs[OUTPUTS] = {"squares", "left", "right"};

/* Concatenated results, exact in any order of summation, and the number of steps. */
static size_t compute(clade_device *device, uint64_t key, bool copied, float *y) {
  clade_graph *g = random_graph(key);
  float x[ELEMENTS], weights[3 * ELEMENTS];
  clade_func *func;
  clade_run *run;
  clade_ticket ticket;
  size_t steps;
  OK(clade_compile(g, device, &func, .no_fusion = copied, .prefer = key % 3 ? "gemm=ref" : NULL));
  clade_type t = *clade__type(g, g->inputs.at[1].value);
  for (int i = 0; i < ELEMENTS; i++) x[i] = (float)(i % 17) - 8 + 0.25f * (float)(i % 5);
  for (int i = 0; i < 3 * ELEMENTS; i++) weights[i] = (float)(i % 7) - 3;
  OK(clade_run_new(func, NULL, &run));
  OK(clade_execute(
      run,
      CLADE_FEEDS({"x", x, sizeof x, NULL}, {"weights", weights, (size_t)t.shape.dim[0] * 3 * sizeof *weights, NULL}),
      &ticket));
  for (int i = 0; i < OUTPUTS; i++) {
    int64_t n;
    OK(clade_shape_elements(&clade__type(g, g->outputs.at[i].value)->shape, &n));
    OK(clade_read(run, ticket, outputs[i], y, (size_t)n * sizeof *y));
    y += n;
  }
  steps = func->n_steps;
  clade_run_free(run);
  clade_func_release(func);
  clade_graph_release(g);
  return steps;
}

static void test_random(void **state) {
  (void)state;
  enum { MOST = ELEMENTS * ELEMENTS + 4 * ELEMENTS };
  float *want = malloc(MOST * sizeof *want), *have = malloc(MOST * sizeof *have);
  clade_device *device;
  size_t before = 0, after = 0;
  assert_true(want && have);
  OK(clade_device_find(NULL, &device));
  for (uint64_t key = 1; key <= ROUNDS; key++) {
    memset(want, 0, MOST * sizeof *want);
    memset(have, 0, MOST * sizeof *have);
    before += compute(device, key, true, want);
    after += compute(device, key, false, have);
    assert_memory_equal(want, have, MOST * sizeof *want);
  }
  assert_true(after < before * 3 / 4); /* otherwise nothing was tested */
  clade_device_release(device);
  free(want);
  free(have);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_heads), cmocka_unit_test(test_forgotten),
                                     cmocka_unit_test(test_turned), cmocka_unit_test(test_kept),
                                     cmocka_unit_test(test_random)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
