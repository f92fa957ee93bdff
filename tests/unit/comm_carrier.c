/* All-reduce by the transport instead of Clade: channels, graphs, training steps, refusals, and ranks that do not
 * join. */
#include <math.h>
#include <sched.h>
#include <stddef.h>

#include <clade/ops.h>
#include <clade/optim.h>

#include "comm_world.h"

enum { N = 21 };
static float element(int rank, int i) { return ldexpf((float)(1 + (i * 7 + rank * 5) % 11), rank % 3 * 9) + 1e-3f; }

/* Sums in the order of add_up. */
static float expected(int ranks, int i) {
  float sum = element(ranks - 1, i);
  for (int r = ranks - 2; r >= 0; r--) sum += element(r, i);
  return sum;
}

/* ---- channels ---- */
static bool begin(rank *r, clade__reduction **idle, int channel, int shift, clade__reduction **out) {
  const clade__message message = {.what = CLADE__ALL_REDUCE, .n = (size_t)(N - channel), .channel = channel};
  if (clade__reduction_new(r->comm, idle, 7, &message, NULL, out) != CLADE_OK) return false;
  float *data = clade__reduction_data(*out);
  for (int i = 0; i < N - channel; i++) data[i] = element(r->member.rank, i + shift);
  return clade__reduction_begin(*out) == CLADE_OK;
}

static bool finish(const rank *r, clade__reduction *c, int channel, int shift) {
  for (bool done = false; !done; sched_yield())
    if (clade__reduction_step(c, &done) != CLADE_OK) return false;
  const float *data = clade__reduction_data(c);
  bool right = true;
  for (int i = 0; i < N - channel; i++) right &= data[i] == expected(r->size, i + shift);
  clade__reduction_end(c);
  return right;
}

/* Two channels whose sums begin in one order on even ranks and in the other on odd ranks; repeated, to test reuse. */
static void *sum_by_channels(void *user) {
  rank *r = user;
  clade__reduction *idle = NULL, *both[2];
  int channel[2];
  r->right = clade__comm_sums(r->comm) && clade__comm_open_channel(r->comm, &channel[0]) == CLADE_OK &&
             clade__comm_open_channel(r->comm, &channel[1]) == CLADE_OK && channel[0] == 1 && channel[1] == 2;
  for (int turn = 0; turn < 3 && r->right; turn++) {
    const int first = r->member.rank % 2;
    r->right = begin(r, &idle, channel[first], turn, &both[first]) &&
               begin(r, &idle, channel[!first], turn, &both[!first]) && finish(r, both[0], channel[0], turn) &&
               finish(r, both[1], channel[1], turn);
  }
  clade__reductions_free(idle);
  return NULL;
}

static void channels(void **state) {
  world w;
  (void)state;
  for (int n = 2; n <= MOST; n++) {
    run_ranks(n, &w, NULL, sum_by_channels);
    assert_int_equal(w.summed, 6);
    assert_int_equal(w.closed, 2 * n);
    assert_int_equal(w.sent, 0);
  }
}

/* ---- in graphs ---- */
/* Overlapping executions with two values in one sum, one of them empty. */
static void *sum_in_graph(void *user) {
  rank *r = user;
  clade_graph *g;
  clade_func *func = NULL;
  clade_run *run = NULL;
  clade_comm_stats stats = {.size = sizeof stats};
  float x[N], y[N];
  clade_ticket ticket[3];
  int channel;
  bool right = clade_graph_new(&g) == CLADE_OK && clade__comm_open_channel(r->comm, &channel) == CLADE_OK;
  clade_val both[] = {clade_neg(g, clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N))),
                      clade_input(g, "none", CLADE_F32, CLADE_SHAPE(0))};
  right = right && clade__all_reduce(g, r->comm, channel, CLADE_F32, 2, both) == CLADE_OK;
  clade_output(g, "y", clade_neg(g, both[0]));
  right = right && clade_compile(g, r->device, &func) == CLADE_OK && clade_run_new(func, NULL, &run) == CLADE_OK;
  for (int k = 0; k < 3 && right; k++) {
    for (int i = 0; i < N; i++) x[i] = element(r->member.rank, i + k);
    right = clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}, {"none", NULL, 0, NULL}), &ticket[k]) == CLADE_OK;
  }
  for (int k = 2; k >= 2 && right; k--) {
    right = clade_read(run, ticket[k], "y", y, sizeof y) == CLADE_OK;
    for (int i = 0; i < N; i++) right &= y[i] == expected(r->size, i + k);
  }
  const size_t ranks = (size_t)r->size, least = 2 * (ranks - 1) * sizeof x / ranks;
  right = right && clade_comm_get_stats(r->comm, &stats) == CLADE_OK;
  r->right = right && stats.sent_bytes == 3 * least && stats.received_bytes == 3 * least;
  clade_run_free(run);
  clade_func_release(func);
  clade_graph_release(g);
  return NULL;
}

static void graphs(void **state) {
  world w;
  for (int n = 2; n <= 4; n++) {
    run_ranks(n, &w, *state, sum_in_graph);
    assert_int_equal(w.summed, 3);
    assert_int_equal(w.sent, 0);
  }
}

/* ---- training steps ---- */
enum { STEPS = 3 };

static clade_status build(clade_comm *comm, clade_reduce_by reduce, clade_shard shard, clade_graph *g) {
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SCALAR);
  clade_val w = clade_parameter(g, "w", CLADE_F32, CLADE_SHAPE(N), (clade_initial){CLADE_INIT_FILL, 1, 0});
  clade_val b = clade_parameter(g, "b", CLADE_F32, CLADE_SCALAR, (clade_initial){CLADE_INIT_FILL, 2, 0});
  clade_val loss = clade_mul(g, clade_mul(g, clade_sum(g, clade_mul(g, w, w)), clade_mul(g, b, b)), x);
  return clade_minimize(g, loss, .optimizer = clade_adam(.lr = 0.1), .comm = comm, .reduce = reduce, .shard = shard);
}

static bool steps(const rank *r, clade_reduce_by reduce, clade_shard shard, float w[N]) {
  clade_graph *g;
  clade_func *func = NULL;
  clade_vars *vars = NULL;
  clade_run *run = NULL;
  clade_ticket ticket;
  const float x = element(r->member.rank, 3) * 1e-3f;
  bool right = clade_graph_new(&g) == CLADE_OK && build(r->comm, reduce, shard, g) == CLADE_OK &&
               clade_compile(g, r->device, &func) == CLADE_OK && clade_vars_new(func, 1, &vars) == CLADE_OK &&
               clade_run_new(func, vars, &run) == CLADE_OK;
  for (int k = 0; k < STEPS && right; k++)
    right = clade_execute(run, CLADE_FEEDS({"x", &x, sizeof x, NULL}), &ticket) == CLADE_OK;
  right = right && clade_wait(run, ticket) == CLADE_OK && clade_vars_get(vars, "w", w, N * sizeof *w) == CLADE_OK;
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
  clade_graph_release(g);
  return right;
}

static void *train(void *user) {
  rank *r = user;
  float by_clade[N], by_carrier[N], again[N], shared_out[N];
  r->right = steps(r, CLADE_REDUCE_BY_CLADE, CLADE_SHARD_NONE, by_clade) &&
             steps(r, CLADE_REDUCE_BY_CARRIER, CLADE_SHARD_NONE, by_carrier) &&
             steps(r, CLADE_REDUCE_BY_CARRIER, CLADE_SHARD_NONE, again) &&
             steps(r, CLADE_REDUCE_BY_CARRIER, CLADE_SHARD_OPTIMIZER, shared_out);
  r->right = r->right && !memcmp(by_carrier, again, sizeof again) && !memcmp(by_carrier, shared_out, sizeof again);
  /* a + b is the same in either order */
  if (r->size == 2) r->right = r->right && !memcmp(by_carrier, by_clade, sizeof again);
  for (int i = 0; i < N && r->right; i++) r->right = fabsf(by_carrier[i] - by_clade[i]) < 1e-5f;
  return NULL;
}

static void trainings(void **state) {
  world w;
  for (int n = 2; n <= 4; n++) {
    run_ranks(n, &w, *state, train);
    assert_int_equal(w.summed, 3 * STEPS); /* one bucket each */
  }
}

/* A single process has nothing to sum. */
static void alone(void **state) {
  clade_graph *g;
  OK(clade_graph_new(&g));
  OK(build(NULL, CLADE_REDUCE_BY_CARRIER, CLADE_SHARD_NONE, g));
  clade_graph_release(g);
  (void)state;
}

/* ---- refusals ---- */
static void refuses(clade_comm *comm, clade_dtype compress, clade_reduce_by reduce, clade_shard shard,
                    clade_status status, const char *part) {
  clade_graph *g;
  OK(clade_graph_new(&g));
  clade_val p = clade_parameter(g, "p", CLADE_F32, CLADE_SHAPE(4), (clade_initial){CLADE_INIT_FILL, 1, 0});
  refused(clade_minimize(g, clade_sum(g, p), .comm = comm, .compress = compress, .reduce = reduce, .shard = shard),
          status, part);
  clade_graph_release(g);
}

static void refuses_low_rank(clade_comm *comm) {
  clade_graph *g;
  OK(clade_graph_new(&g));
  clade_val p = clade_parameter(g, "p", CLADE_F32, CLADE_SHAPE(4), (clade_initial){CLADE_INIT_FILL, 1, 0});
  refused(clade_minimize(g, clade_sum(g, p), .comm = comm, .low_rank = 2, .reduce = CLADE_REDUCE_BY_CARRIER),
          CLADE_INVALID, ".reduce by threads with .low_rank 2");
  clade_graph_release(g);
}

static void refusals(void **state) {
  (void)state;
  const clade_reduce_by by = CLADE_REDUCE_BY_CARRIER;
  world w;
  member m = {&w, 0};
  clade_comm *comm;
  clade_comm_impl other = threads;
  world_new(&w);
  OK(clade_comm_new(&threads, &m, 0, 2, &comm));
  refuses(comm, CLADE_BF16, by, CLADE_SHARD_NONE, CLADE_INVALID, ".reduce by threads with .compress bf16");
  refuses(comm, CLADE_F32, by, CLADE_SHARD_GRADIENTS, CLADE_INVALID, ".reduce by threads with .shard gradients");
  refuses(comm, CLADE_F32, (clade_reduce_by)7, CLADE_SHARD_NONE, CLADE_INVALID, ".reduce is 7");
  refuses_low_rank(comm);
  refuses(NULL, CLADE_F16, by, CLADE_SHARD_NONE, CLADE_INVALID, ".reduce by the carrier with .compress f16");
  clade_comm_release(comm);
  other.size = offsetof(clade_comm_impl, open_channel); /* an interface version without channels */
  OK(clade_comm_new(&other, &m, 0, 2, &comm));
  refuses(comm, CLADE_F32, by, CLADE_SHARD_NONE, CLADE_UNSUPPORTED, "threads has no sums of its own");
  clade_comm_release(comm);
  other = threads;
  other.close_channel = NULL;
  OK(clade_comm_new(&other, &m, 0, 2, &comm));
  refuses(comm, CLADE_F32, by, CLADE_SHARD_NONE, CLADE_UNSUPPORTED, "threads has no sums of its own");
  clade_comm_release(comm);
  world_free(&w);
}

/* ---- failures ---- */
static clade_status sum_alone(clade_device *device, clade_comm *comm, int channel) {
  clade_graph *g;
  clade_func *func = NULL;
  clade_run *run = NULL;
  clade_ticket ticket;
  float x = 1, y;
  OK(clade_graph_new(&g));
  clade_val v = clade_input(g, "x", CLADE_F32, CLADE_SCALAR);
  OK(clade__all_reduce(g, comm, channel, CLADE_F32, 1, &v));
  clade_output(g, "y", v);
  OK(clade_compile(g, device, &func));
  OK(clade_run_new(func, NULL, &run));
  clade_status status = clade_execute(run, CLADE_FEEDS({"x", &x, sizeof x, NULL}), &ticket);
  if (status == CLADE_OK) status = clade_read(run, ticket, "y", &y, sizeof y);
  clade_run_free(run);
  clade_func_release(func);
  clade_graph_release(g);
  return status;
}

/* Other ranks join long after this rank gave up: its memory must still be valid. */
static void join_late(world *w) {
  float data[1] = {1}, sum[1];
  for (int i = 1; i < w->size; i++) join(&(member){w, i}, 1, data, sum, 1);
  assert_true(sum[0] == (float)w->size);
}

static void failures(void **state) {
  world w;
  member m = {&w, 0};
  clade_comm *comm;
  int channel = 0;
  world_new(&w);
  w.size = 3;
  OK(clade_comm_new(&threads, &m, 0, 3, &comm));
  OK(clade_comm_set_timeout(comm, 0.05));
  refused(clade__comm_open_channel(comm, &channel), CLADE_LOST,
          "threads: rank 0 of 3 has waited for some other rank for");
  assert_int_equal(w.canceled, 1);
  clade_comm_release(comm);
  assert_int_equal(w.closed, 0);
  w.opened[0] = 0;
  w.at_once = true;
  OK(clade_comm_new(&threads, &m, 0, 3, &comm));
  OK(clade_comm_set_timeout(comm, 0.05));
  OK(clade__comm_open_channel(comm, &channel));
  refused(sum_alone(*state, comm, channel), CLADE_LOST, "has waited for some other rank");
  assert_int_equal(w.canceled, 2);
  join_late(&w);
  w.fails = true;
  refused(sum_alone(*state, comm, channel), CLADE_LOST, "threads: a sum of rank 0: the wire is cut");
  assert_int_equal(w.canceled, 2);
  clade_comm_release(comm);
  assert_int_equal(w.closed, 1);
  world_free(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(channels),  cmocka_unit_test(graphs),
                                     cmocka_unit_test(trainings), cmocka_unit_test(alone),
                                     cmocka_unit_test(refusals),  cmocka_unit_test(failures)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}
