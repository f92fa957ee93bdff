/* Parameters distributed among ranks: ownership, and training steps compared with ranks that have all parameters. */
#include <math.h>

#include <clade/ops.h>
#include <clade/optim.h>

#include "comm_kit.h"
#include "train/task.h"

/* Parameters of a residual network: many small ones, and layers that quadruple in size. */
static void owners(void **state) {
  enum { PARAMETERS = 60 };
  size_t bytes[PARAMETERS], whole = 0, largest = 0;
  int owner[PARAMETERS], again[PARAMETERS];
  (void)state;
  for (int i = 0; i < PARAMETERS; i++) {
    bytes[i] = i % 3 ? 256u << i / 15 : (size_t)147456 << 2 * (i / 15);
    whole += bytes[i];
    largest = CLADE_MAX(largest, bytes[i]);
  }
  for (int ranks = 1; ranks <= MOST; ranks++) {
    size_t load[MOST] = {0};
    OK(clade__shard_owners(PARAMETERS, bytes, ranks, owner));
    OK(clade__shard_owners(PARAMETERS, bytes, ranks, again));
    assert_memory_equal(owner, again, sizeof owner);
    for (int i = 0; i < PARAMETERS; i++) load[owner[i]] += bytes[i];
    for (int r = 0; r < ranks; r++) {
      assert_true(load[r] <= CLADE_MAX(whole / (size_t)ranks + (8 << 20), largest));
      assert_true(load[r] + largest >= whole / (size_t)ranks);
    }
  }
}

enum { WEIGHTS = 3 };
static const int weights[WEIGHTS] = {5, 2, 4};

/* Steps of Adam with an average on three parameters; returns the results and the number of moments. */
static bool steps(rank *r, clade_shard shard, double clip_norm, float out[WEIGHTS][5], int *moments) {
  clade_graph *g;
  clade_func *func = NULL;
  clade_vars *vars = NULL;
  clade_run *run = NULL;
  clade_ticket ticket;
  char name[] = "w0";
  const float x = 1.5f + (float)r->number;
  bool right = clade_graph_new(&g) == CLADE_OK;
  clade_val input = clade_input(g, "x", CLADE_F32, CLADE_SCALAR), loss = input;
  for (int i = 0; i < WEIGHTS; i++) {
    name[1] = (char)('0' + i);
    clade_val w =
        clade_parameter(g, name, CLADE_F32, CLADE_SHAPE(weights[i]), (clade_initial){CLADE_INIT_FILL, i + 1, 0});
    loss = clade_add(g, loss, clade_sum(g, clade_mul(g, clade_mul(g, w, w), input)));
  }
  right &= clade_minimize(g, loss, .optimizer = clade_adam(.lr = 0.1), .ema = 0.9, .clip_norm = clip_norm,
                          .report = true, .comm = r->comm, .shard = shard) == CLADE_OK;
  right = right && clade_compile(g, r->device, &func) == CLADE_OK && clade_vars_new(func, 1, &vars) == CLADE_OK &&
          clade_run_new(func, vars, &run) == CLADE_OK;
  for (int k = 0; k < 3 && right; k++)
    right &= clade_execute(run, CLADE_FEEDS({"x", &x, sizeof x, NULL}), &ticket) == CLADE_OK &&
             clade_wait(run, ticket) == CLADE_OK;
  for (int i = 0; i < WEIGHTS && right; i++) {
    name[1] = (char)('0' + i);
    right &= clade_vars_get(vars, name, out[i], (size_t)weights[i] * sizeof(float)) == CLADE_OK;
  }
  *moments = clade_vars_count(vars) - WEIGHTS - 2; /* without the step and the rate */
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
  clade_graph_release(g);
  return right;
}

/* Two moments and an average for each of the rank's own parameters; with more ranks than parameters, some have none. */
static void *train(void *user) {
  rank *r = user;
  const int kinds = 3, own = r->size > WEIGHTS ? r->number < WEIGHTS : 1 + r->number;
  r->right = true;
  for (int clip = 0; clip < 2; clip++) {
    float whole[WEIGHTS][5] = {{0}}, part[WEIGHTS][5] = {{0}};
    int moments;
    r->right = r->right && steps(r, CLADE_SHARD_NONE, clip, whole, &moments) && moments == kinds * WEIGHTS;
    for (clade_shard shard = CLADE_SHARD_OPTIMIZER; shard <= CLADE_SHARD_GRADIENTS && r->right; shard++) {
      r->right &= steps(r, shard, clip, part, &moments) && moments == kinds * own;
      if (!clip || shard == CLADE_SHARD_OPTIMIZER) r->right &= !memcmp(whole, part, sizeof whole);
      for (int i = 0; i < WEIGHTS; i++) r->right &= fabsf(whole[i][0] - part[i][0]) < 1e-5f;
    }
  }
  return NULL;
}

static void shared_out(void **state) {
  for (int n = 2; n <= 4; n += 2) run_ranks(n, *state, train, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(owners), cmocka_unit_test(shared_out)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}
