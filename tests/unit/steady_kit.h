/* Training steps of several ranks, with a check that they do not allocate. */
#ifndef STEADY_KIT_H
#define STEADY_KIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <clade/clade.h>
#include <clade/ops.h>
#include <clade/optim.h>

/* ---- counting ---- */
static atomic_int steady_allocations;

static inline void *steady_allocate(void *user, size_t bytes, size_t align) {
  (void)user;
  atomic_fetch_add(&steady_allocations, 1);
  void *memory = aligned_alloc(align, (bytes + align - 1) / align * align);
  return memory ? memset(memory, 0, bytes) : NULL;
}
static inline void steady_release(void *user, void *memory, size_t bytes) {
  (void)user, (void)bytes;
  free(memory);
}
static inline void *steady_resize(void *user, void *old, size_t old_bytes, size_t bytes, size_t align) {
  void *memory = steady_allocate(user, bytes, align);
  if (!memory) return NULL;
  memcpy(memory, old, old_bytes < bytes ? old_bytes : bytes);
  free(old);
  return memory;
}
static const clade_allocator steady_counting = {sizeof steady_counting, NULL, steady_allocate, steady_resize,
                                                steady_release};

/* ---- training ---- */
typedef struct steady_case {
  clade_shard shard;
  clade_dtype compress;
  int low_rank;
  clade_reduce_by reduce;
} steady_case;

static const steady_case steady_by_clade[] = {{.compress = CLADE_BF16},
                                              {.shard = CLADE_SHARD_OPTIMIZER},
                                              {.shard = CLADE_SHARD_GRADIENTS, .compress = CLADE_BF16},
                                              {.low_rank = 2},
                                              {.low_rank = 2, .shard = CLADE_SHARD_GRADIENTS}};
static const steady_case steady_by_carrier[] = {{.reduce = CLADE_REDUCE_BY_CARRIER},
                                                {.reduce = CLADE_REDUCE_BY_CARRIER, .shard = CLADE_SHARD_OPTIMIZER}};
enum { STEADY_BY_CLADE = 5, STEADY_BY_CARRIER = 2 };

typedef struct steady_rank {
  clade_comm *comm;
  clade_device *device;
  void (*gate)(struct steady_rank *); /* waits for all ranks */
} steady_rank;

/* Several buckets, some of which are exchanged whole. */
static inline clade_status steady_build(const steady_rank *r, const steady_case *how, clade_graph *g) {
  enum { SIDE = 100 };
  clade_val loss = clade_input(g, "x", CLADE_F32, CLADE_SCALAR);
  for (int i = 0; i < 4; i++) {
    const char name[] = {'w', (char)('0' + i), 0};
    const clade_shape shape = i % 2 ? CLADE_SHAPE(SIDE) : CLADE_SHAPE(SIDE, SIDE);
    clade_val w = clade_parameter(g, name, CLADE_F32, shape, (clade_initial){CLADE_INIT_FILL, 1, 0});
    loss = clade_add(g, loss, clade_sum(g, clade_mul(g, clade_mul(g, w, w), loss)));
  }
  return clade_minimize(g, loss, .optimizer = clade_adam(.lr = 0.01), .clip_norm = 1, .comm = r->comm,
                        .shard = how->shard, .compress = how->compress, .low_rank = how->low_rank,
                        .reduce = how->reduce);
}

static inline bool steady_steps(clade_run *run, int n) {
  const float x = 1e-6f;
  for (int i = 0; i < n; i++) {
    clade_ticket ticket;
    if (clade_execute(run, CLADE_FEEDS({"x", &x, sizeof x, NULL}), &ticket) != CLADE_OK) return false;
    if (clade_wait(run, ticket) != CLADE_OK) return false;
  }
  return true;
}

/* True if nothing is allocated after the second step, by any rank of the process. */
static inline bool steady_train(steady_rank *r, const steady_case *how) {
  enum { STEPS = 20 };
  clade_graph *g;
  clade_func *func = NULL;
  clade_vars *vars = NULL;
  clade_run *run = NULL;
  bool right = clade_graph_new(&g) == CLADE_OK && steady_build(r, how, g) == CLADE_OK;
  right = right && clade_compile(g, r->device, &func) == CLADE_OK && clade_vars_new(func, 1, &vars) == CLADE_OK &&
          clade_run_new(func, vars, &run) == CLADE_OK && steady_steps(run, 2);
  r->gate(r);
  const int before = atomic_load(&steady_allocations);
  r->gate(r);
  right = right && steady_steps(run, STEPS);
  r->gate(r);
  right &= atomic_load(&steady_allocations) == before;
  r->gate(r);
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
  clade_graph_release(g);
  return right;
}

#endif
