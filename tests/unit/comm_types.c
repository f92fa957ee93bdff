/* Collectives in graphs by type: sums of 16-bit floats and integers, gathers of any type, and refusals. */
#include <stdio.h>

#include <clade/ops.h>

#include "comm_kit.h"

enum { SHORT = 3, LONG = 300001 /* several pieces for all types */ };

static struct {
  clade_dtype type;
  int64_t n;
} job;

/* Integers whose sums over up to MOST ranks fit into 8 bits. */
static int value(int rank, int64_t i) { return (int)((i * 7 + rank * 5) % 13) - (job.type == CLADE_U8 ? 0 : 6); }

static int total(int size, int64_t i) {
  int sum = 0;
  for (int rank = 0; rank < size; rank++) sum += value(rank, i);
  return sum;
}

static bool fill(void *data, int rank) {
  bool right = true;
  for (int64_t i = 0; i < job.n; i++) {
    const float x = (float)value(rank, i);
    size_t bytes;
    right &= clade__dtype_element(job.type, &bytes) == CLADE_OK;
    right &= clade_convert(job.type, (char *)data + (size_t)i * bytes, CLADE_F32, &x, 1) == CLADE_OK;
  }
  return right;
}

/* An all-reduce, or a reduce-scatter to the last rank and an all-gather, of one value and an empty one. */
static clade_status build(const rank *r, clade_graph *g, bool scattered) {
  const int owners[] = {r->size - 1, 0};
  const clade_val x[] = {clade_input(g, "x", job.type, CLADE_SHAPE(job.n)),
                         clade_input(g, "none", job.type, CLADE_SHAPE(0))};
  clade_val y[] = {x[0], x[1]};
  if (!scattered) CLADE_TRY(clade_all_reduce(g, r->comm, CLADE_F32, 2, y));
  if (scattered) CLADE_TRY(clade_reduce_scatter(g, r->comm, CLADE_F32, 2, owners, y));
  for (int i = 0; i < 2; i++)
    if (!clade_val_ok(y[i])) y[i] = x[i];
  if (scattered) CLADE_TRY(clade_all_gather(g, r->comm, 2, owners, y));
  clade_output(g, "y", clade_cast(g, y[0], CLADE_F32));
  return clade_graph_status(g);
}

typedef struct result {
  const char *name;
  void *data;
  size_t bytes;
} result;

/* Compiles and executes the graph once and reads the results. */
static bool execute(const rank *r, clade_graph *g, int n, const clade_feed *feeds, int n_results,
                    const result *results) {
  clade_func *func = NULL;
  clade_run *run = NULL;
  clade_ticket ticket;
  bool right = clade_compile(g, r->device, &func) == CLADE_OK && clade_run_new(func, NULL, &run) == CLADE_OK &&
               clade_execute(run, n, feeds, &ticket) == CLADE_OK;
  for (int i = 0; right && i < n_results; i++)
    right = clade_read(run, ticket, results[i].name, results[i].data, results[i].bytes) == CLADE_OK;
  clade_run_free(run);
  clade_func_release(func);
  return right;
}

static bool sums(const rank *r, bool scattered, void *data, float *y) {
  clade_graph *g;
  size_t bytes = 0;
  bool right = clade_graph_new(&g) == CLADE_OK && build(r, g, scattered) == CLADE_OK;
  right = right && fill(data, r->number) && clade_dtype_bytes(job.type, job.n, &bytes) == CLADE_OK;
  right = right && execute(r, g, CLADE_FEEDS({"x", data, bytes, NULL}, {"none", NULL, 0, NULL}), 1,
                           &(result){"y", y, (size_t)job.n * sizeof *y});
  for (int64_t i = 0; right && i < job.n; i++) right = (int)y[i] == total(r->size, i);
  clade_graph_release(g);
  return right;
}

static void *sum_both_ways(void *user) {
  rank *r = user;
  void *data = calloc((size_t)job.n, sizeof(int64_t));
  float *y = calloc((size_t)job.n, sizeof *y);
  r->right = data && y && sums(r, false, data, y) && sums(r, true, data, y);
  free(data);
  free(y);
  return NULL;
}

static void by_type(void **state) {
  static const clade_dtype types[] = {CLADE_F32, CLADE_F16, CLADE_BF16, CLADE_I32, CLADE_I64};
  for (size_t k = 0; k < CLADE_COUNT(types); k++)
    for (int size = 1; size <= 5; size++) {
      job.type = types[k];
      job.n = SHORT;
      run_ranks(size, *state, sum_both_ways, NULL);
      job.n = LONG;
      if (size == 2 || size == 3) run_ranks(size, *state, sum_both_ways, NULL);
    }
}

/* Integer sums wrap around in two's complement on all ranks. */
static void *overflow(void *user) {
  rank *r = user;
  clade_graph *g;
  const int64_t large = INT64_MAX;
  int64_t y = 0;
  bool right = clade_graph_new(&g) == CLADE_OK;
  clade_val x = clade_input(g, "x", CLADE_I64, CLADE_SCALAR);
  right &= clade_all_reduce(g, r->comm, CLADE_F32, 1, &x) == CLADE_OK;
  clade_output(g, "y", x);
  right = right && execute(r, g, CLADE_FEEDS({"x", &large, sizeof large, NULL}), 1, &(result){"y", &y, sizeof y});
  r->right = right && y == -2;
  clade_graph_release(g);
  return NULL;
}

static void beyond(void **state) { run_ranks(2, *state, overflow, NULL); }

/* Each rank owns one byte and one bool, and gets the other's. */
static void *gather(void *user) {
  rank *r = user;
  clade_graph *g;
  const uint8_t byte = (uint8_t)(200 + r->number), truth = r->number == 1;
  const int owners[] = {0, 1};
  uint8_t found[2] = {0};
  const result results[] = {{"byte_of_0", &found[0], 1}, {"truth_of_1", &found[1], 1}};
  bool right = clade_graph_new(&g) == CLADE_OK;
  clade_val both[] = {clade_input(g, "byte", CLADE_U8, CLADE_SHAPE(1)),
                      clade_input(g, "truth", CLADE_BOOL, CLADE_SHAPE(1))};
  right &= clade_all_gather(g, r->comm, 2, owners, both) == CLADE_OK;
  clade_output(g, "byte_of_0", both[0]);
  clade_output(g, "truth_of_1", both[1]);
  right = right && execute(r, g, CLADE_FEEDS({"byte", &byte, 1, NULL}, {"truth", &truth, 1, NULL}), 2, results);
  r->right = right && found[0] == 200 && found[1] == 1;
  clade_graph_release(g);
  return NULL;
}

static void gathered(void **state) { run_ranks(2, *state, gather, NULL); }

/* ---- refusals ---- */
static void refuse(clade_comm *comm, clade_dtype first, clade_dtype second, clade_dtype wire, const char *words) {
  clade_graph *g;
  OK(clade_graph_new(&g));
  clade_val x[] = {clade_input(g, "a", first, CLADE_SHAPE(1)), clade_input(g, "b", second, CLADE_SHAPE(1))};
  assert_int_equal(clade_all_reduce(g, comm, wire, 2, x), CLADE_DTYPE);
  assert_non_null(strstr(clade_graph_message(g), words));
  clade_graph_release(g);
}

static void refusals(void **state) {
  clade_comm *comms[2];
  (void)state;
  OK(clade_comm_new_local(2, comms));
  refuse(comms[0], CLADE_U8, CLADE_U8, CLADE_F32,
         "value 0 is of u8: sums over ranks are of f32, f16, bf16, i32 or i64");
  refuse(comms[0], CLADE_BOOL, CLADE_BOOL, CLADE_F32, "value 0 is of bool");
  refuse(comms[0], CLADE_F32, CLADE_BF16, CLADE_F32, "value 1 is of bf16, the first one of f32");
  refuse(comms[0], CLADE_I32, CLADE_I32, CLADE_BF16, "value 0 is of i32: sums of it do not travel as bf16");
  release_all(2, comms);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(by_type), cmocka_unit_test(beyond), cmocka_unit_test(gathered),
                                     cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}
