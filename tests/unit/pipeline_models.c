/* Models on pipeline stages: attention with tied weights, and convolutions with batch normalization and dropout. */
#include "pipeline_kit.h"

static void perceptron(void **state) {
  for (int shares = 1; shares <= 8; shares++)
    compare(&(training){"mlp", mlp, GRID(4, shares, 1), 2, SGD(), 0, 0}, *state);
  for (int shares = 1; shares <= 8; shares += 3)
    compare(&(training){"mlp", mlp, GRID(2, shares, 2), 2, ADAM(), 0, 0}, *state);
}

static void attends(void **state) {
  compare(&(training){"transformer", transformer, GRID(2, 2, 1), 20, SGD(), 1e-3, 0}, *state);
  compare(&(training){"transformer", transformer, GRID(4, 8, 1), 20, ADAM(.clip_norm = 1), 1e-3, 0}, *state);
  compare(&(training){"transformer", transformer, GRID(2, 5, 2), 20, ADAM(), 1e-3, 0}, *state);
}

/* A stage may lay convolutions out otherwise than the whole model does. */
static void normalizes(void **state) {
  compare(&(training){"resnet", resnet, GRID(2, 3, 1), 20, ADAM(), 1e-3, 0}, *state);
  compare(&(training){"resnet", resnet, GRID(4, 4, 1), 20, SGD(.clip_norm = 1), 1e-3, 0}, *state);
}

/* ---- two pipelines of two stages with data parallelism ---- */
static clade_status train_place(const training *t, rank *r, outcome *out) {
  const clade__grid_place at = clade__place_of(&t->grid, r->number);
  training own = *t;
  clade_comm *data = NULL, *pipeline = NULL;
  clade_status status = clade_comm_split(r->comm, 2, (int[]){at.data * 2, at.data * 2 + 1}, &pipeline);
  if (status == CLADE_OK) status = clade_comm_split(r->comm, 2, (int[]){at.stage, 2 + at.stage}, &data);
  own.how.comm = data;
  first_number = at.data * t->grid.micro_batches;
  if (status == CLADE_OK) status = train(&own, pipeline, r->device, out);
  clade_comm_release(data);
  clade_comm_release(pipeline);
  return status;
}

static void *train_rank(void *user) {
  rank *r = user;
  const clade_status status = train_place(current, r, &of_stage[r->number]);
  if (status != CLADE_OK) print_message("%s, rank %d: %s\n", current->name, r->number, clade_last_error());
  r->right = status == CLADE_OK;
  return NULL;
}

static void shares_batches(void **state) {
  for (int shard = CLADE_SHARD_NONE; shard <= CLADE_SHARD_GRADIENTS; shard++) {
    const training t = {"mlp", mlp, {2, 1, 2, 2, 1}, 5, ADAM(.clip_norm = 0.5, .shard = (clade_shard)shard), 1e-5, 0};
    training whole = t;
    outcome one;
    whole.grid = (clade__grid){1, 1, 1, 4, 1};
    whole.how.shard = CLADE_SHARD_NONE;
    OK(train(&whole, NULL, *state, &one));
    current = &t;
    run_ranks(4, *state, train_rank, NULL);
    for (int i = 0; i < t.steps; i++)
      for (int s = 0; s < 2; s++) {
        const float sum = of_stage[s].loss[i] + of_stage[2 + s].loss[i];
        if (!(fabsf(sum - one.loss[i]) <= (float)t.bound * one.loss[i]))
          fail_msg("shard %d, stage %d: loss %d is %.9g instead of %.9g", shard, s, i, (double)sum,
                   (double)one.loss[i]);
      }
    for (int r = 0; r < 4; r++) clade_vars_release(of_stage[r].vars);
    clade_vars_release(one.vars);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(perceptron), cmocka_unit_test(attends),
                                     cmocka_unit_test(normalizes), cmocka_unit_test(shares_batches)};
  setenv("CLADE_PERSISTENT", "0", 1); /* compiling persistent kernels would dominate the time */
  return cmocka_run_group_tests(tests, open_device, close_device);
}
