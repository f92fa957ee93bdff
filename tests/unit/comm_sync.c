/* Batch normalization synchronized over ranks, against one rank with the whole batch. */
#include <math.h>

#include <clade/nn.h>
#include <clade/ops.h>

#include "comm_kit.h"

enum { CHANNELS = 3, PIXELS = 5, EACH = CHANNELS * PIXELS, ROWS = 1 + 2 + 3 + 4 };

typedef struct outcome {
  float y[ROWS * EACH], dx[ROWS * EACH], dw[CHANNELS], mean[CHANNELS], var[CHANNELS];
} outcome;

static float value(int i) { return 3 + 2 * sinf(1.7f * (float)i) + 0.01f * (float)(i % 7); }

/* A loss sum(y y (i + 1)) over rows from `first` on, and its derivatives. */
static bool norm(const rank *r, clade_comm *comm, int first, int rows, outcome *out) {
  clade_graph *g;
  clade_func *func = NULL;
  clade_vars *vars = NULL;
  clade_run *run = NULL;
  clade_ticket ticket;
  float x[ROWS * EACH], factor[ROWS * EACH];
  const size_t n = (size_t)rows * EACH;
  for (size_t i = 0; i < n; i++) {
    x[i] = value(first * EACH + (int)i);
    factor[i] = 1 + 0.1f * (float)((first * EACH + (int)i) % 11);
  }
  const clade_shape shape = CLADE_SHAPE(rows, CHANNELS, PIXELS);
  bool right = clade_graph_new(&g) == CLADE_OK;
  clade_graph_train(g, true);
  clade_graph_sync(g, comm);
  clade_val in = clade_input(g, "x", CLADE_F32, shape), by = clade_input(g, "factor", CLADE_F32, shape);
  clade_val y = clade_nn_batch_norm(g, "bn", in), loss = clade_sum(g, clade_mul(g, clade_mul(g, y, y), by));
  clade_graph_share(g, 1); /* reuses the layer's weight */
  clade_val xs[] = {in, clade_parameter(g, "bn.weight", CLADE_F32, CLADE_SHAPE(CHANNELS), (clade_initial){0})}, ds[2];
  right &= clade_gradients(g, loss, (clade_val){0}, 2, xs, ds) == CLADE_OK;
  clade_output(g, "y", y);
  clade_output(g, "dx", ds[0]);
  clade_output(g, "dw", ds[1]);
  right = right && clade_compile(g, r->device, &func) == CLADE_OK && clade_vars_new(func, 1, &vars) == CLADE_OK &&
          clade_run_new(func, vars, &run) == CLADE_OK;
  right =
      right &&
      clade_execute(run, CLADE_FEEDS({"x", x, n * 4, NULL}, {"factor", factor, n * 4, NULL}), &ticket) == CLADE_OK &&
      clade_read(run, ticket, "y", out->y + first * EACH, n * 4) == CLADE_OK &&
      clade_read(run, ticket, "dx", out->dx + first * EACH, n * 4) == CLADE_OK &&
      clade_read(run, ticket, "dw", out->dw, sizeof out->dw) == CLADE_OK &&
      clade_vars_get(vars, "bn.running_mean", out->mean, sizeof out->mean) == CLADE_OK &&
      clade_vars_get(vars, "bn.running_var", out->var, sizeof out->var) == CLADE_OK;
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
  clade_graph_release(g);
  return right;
}

static bool near(const float *found, const float *want, int n) {
  for (int i = 0; i < n; i++)
    if (!(fabsf(found[i] - want[i]) <= 2e-4f * (1 + fabsf(want[i])))) return false;
  return true;
}

/* Rank r has r + 1 rows, and its part of the weight's gradient. */
static float weights[MOST][CHANNELS];
static void *part(void *user) {
  rank *r = user;
  const int first = r->number * (r->number + 1) / 2, rows = r->number + 1;
  outcome whole, own;
  memset(&whole, 0, sizeof whole);
  memset(&own, 0, sizeof own);
  r->right = norm(r, NULL, 0, r->size * (r->size + 1) / 2, &whole) && norm(r, r->comm, first, rows, &own);
  r->right &= near(own.y + first * EACH, whole.y + first * EACH, rows * EACH);
  r->right &= near(own.dx + first * EACH, whole.dx + first * EACH, rows * EACH);
  r->right &= near(own.mean, whole.mean, CHANNELS) && near(own.var, whole.var, CHANNELS);
  for (int c = 0; c < CHANNELS; c++) weights[r->number][c] = own.dw[c] - whole.dw[c] / (float)r->size;
  return NULL;
}

static void over_ranks(void **state) {
  for (int n = 2; n <= 4; n++) {
    run_ranks(n, *state, part, NULL);
    for (int c = 0; c < CHANNELS; c++) {
      float left = 0;
      for (int i = 0; i < n; i++) left += weights[i][c];
      assert_true(fabsf(left) < 1e-2f);
    }
  }
}

static void symbols(void **state) {
  clade_graph *g = graph_new();
  clade_comm *comms[2];
  (void)state;
  OK(clade_comm_new_local(2, comms));
  clade_graph_train(g, true);
  clade_graph_sync(g, comms[0]);
  clade_nn_batch_norm(g, "bn", clade_input(g, "x", CLADE_F32, CLADE_SHAPE(clade_dim_symbol("n"), 3)));
  refused(clade_graph_status(g), CLADE_BAD_SHAPE, "dimension 0 of x is the symbol \"n\"");
  clade_graph_release(g);
  release_all(2, comms);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(over_ranks), cmocka_unit_test(symbols)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}
