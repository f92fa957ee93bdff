/* Steps of ranks that train together allocate nothing after the second one, whatever travels between them. */
#include <clade/ops.h>
#include <clade/optim.h>

#include "comm_kit.h"

enum { RANKS = 3, SIDE = 100, STEPS = 20 };

/* ---- counting ---- */
static atomic_int allocations;

static void *allocate(void *user, size_t bytes, size_t align) {
  (void)user;
  atomic_fetch_add(&allocations, 1);
  void *memory = aligned_alloc(align, (bytes + align - 1) / align * align);
  return memory ? memset(memory, 0, bytes) : NULL;
}
static void release(void *user, void *memory, size_t bytes) {
  (void)user, (void)bytes;
  free(memory);
}
static void *resize(void *user, void *old, size_t old_bytes, size_t bytes, size_t align) {
  void *memory = allocate(user, bytes, align);
  if (!memory) return NULL;
  memcpy(memory, old, CLADE_MIN(old_bytes, bytes));
  free(old);
  return memory;
}

static int open_counting(void **state) {
  static const clade_allocator counting = {sizeof counting, NULL, allocate, resize, release};
  OK(clade_init(.allocator = &counting));
  return open_device(state);
}

/* ---- training ---- */
static pthread_barrier_t all;
static struct {
  clade_shard shard;
  clade_dtype compress;
} how;

/* Several buckets, of which some are exchanged whole. */
static clade_status build(rank *r, clade_graph *g) {
  clade_val loss = clade_input(g, "x", CLADE_F32, CLADE_SCALAR);
  for (int i = 0; i < 4; i++) {
    const char name[] = {'w', (char)('0' + i), 0};
    const clade_shape shape = i % 2 ? CLADE_SHAPE(SIDE) : CLADE_SHAPE(SIDE, SIDE);
    clade_val w = clade_parameter(g, name, CLADE_F32, shape, (clade_initial){CLADE_INIT_FILL, 1, 0});
    loss = clade_add(g, loss, clade_sum(g, clade_mul(g, clade_mul(g, w, w), loss)));
  }
  return clade_minimize(g, loss, .optimizer = clade_adam(.lr = 0.01), .clip_norm = 1, .comm = r->comm,
                        .shard = how.shard, .compress = how.compress);
}

static bool steps(clade_run *run, int n) {
  const float x = 1e-6f;
  for (int i = 0; i < n; i++) {
    clade_ticket ticket;
    if (clade_execute(run, CLADE_FEEDS({"x", &x, sizeof x, NULL}), &ticket) != CLADE_OK) return false;
    if (clade_wait(run, ticket) != CLADE_OK) return false;
  }
  return true;
}

static void *train(void *user) {
  rank *r = user;
  clade_graph *g;
  clade_func *func = NULL;
  clade_vars *vars = NULL;
  clade_run *run = NULL;
  bool right = clade_graph_new(&g) == CLADE_OK && build(r, g) == CLADE_OK;
  right = right && clade_compile(g, r->device, &func) == CLADE_OK && clade_vars_new(func, 1, &vars) == CLADE_OK &&
          clade_run_new(func, vars, &run) == CLADE_OK && steps(run, 2);
  pthread_barrier_wait(&all);
  const int before = atomic_load(&allocations);
  pthread_barrier_wait(&all);
  right = right && steps(run, STEPS);
  pthread_barrier_wait(&all);
  right &= atomic_load(&allocations) == before;
  pthread_barrier_wait(&all);
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
  clade_graph_release(g);
  r->right = right;
  return NULL;
}

static void steady(void **state) {
  assert_int_equal(pthread_barrier_init(&all, NULL, RANKS), 0);
  for (how.shard = CLADE_SHARD_NONE; how.shard <= CLADE_SHARD_GRADIENTS; how.shard++) {
    how.compress = how.shard == CLADE_SHARD_OPTIMIZER ? CLADE_F32 : CLADE_BF16;
    run_ranks(RANKS, *state, train, NULL);
  }
  pthread_barrier_destroy(&all);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(steady)};
  return cmocka_run_group_tests(tests, open_counting, close_device);
}
