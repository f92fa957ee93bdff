/* A transformer of 50 million parameters on two ranks, by tensor and by pipeline parallelism: the loss of one rank, and
 * the memory that each of the two has. */
#include "models/gpt.h"
#include "pipeline_kit.h"

enum { BATCH = 8, LENGTH = 128, RANKS = 2, MICRO_BATCHES = 4 };
static const gpt_sizes sizes = {.layers = 8, .width = 640, .heads = 8, .vocab = 16000, .length = LENGTH};

static clade_val language(clade_graph *g, int share, int rows) {
  const clade_val tokens = numbered_input(g, "ids", share, CLADE_I32, CLADE_SHAPE(rows, LENGTH));
  const clade_val next = numbered_input(g, "next", share, CLADE_I32, CLADE_SHAPE(rows, LENGTH));
  return clade_cross_entropy(g, gpt(g, tokens, &sizes), next);
}

static clade_val whole_batch(clade_graph *g, int share) { return language(g, share, BATCH); }
static clade_val micro_batch(clade_graph *g, int share) { return language(g, share, BATCH / MICRO_BATCHES); }

/* In a batch, and in micro-batches. */
#define WHOLE() \
  { "whole batch", whole_batch, GRID(1, 1, 1), 1, ADAM(), 0, 0 }
#define PARTS(P) \
  { "micro-batches", micro_batch, GRID(P, MICRO_BATCHES, 1), 1, ADAM(), 0, 0 }

/* ---- tensor parallelism ---- */
static clade_status tensor_graph(clade_comm *comm, clade_graph **out) {
  const clade__tensor_how how = {.comm = comm, .speeds.tflops = 0.1};
  clade_status status = clade_graph_new(out);
  clade_graph *whole = forward(whole_batch, 1);
  if (status != CLADE_OK || !whole) return CLADE_NO_MEMORY;
  clade_graph_train(*out, true);
  CLADE_GOTO(clade__tensor_append(whole, &how, *out, NULL));
  CLADE_GOTO(
      clade_minimize(*out, clade__graph_val(*out, (*out)->outputs.at[0].value), .optimizer = clade_adam(.lr = 0.01)));
fail:
  clade_graph_release(whole);
  return status;
}

static void *train_part(void *user) {
  rank *r = user;
  clade_graph *g = NULL;
  clade_status status = tensor_graph(r->comm, &g);
  if (status == CLADE_OK) status = train_graph(current, g, r->comm, r->device, &of_stage[r->number]);
  if (status != CLADE_OK) print_message("tensor rank %d: %s\n", r->number, clade_last_error());
  r->right = status == CLADE_OK;
  return NULL;
}

/* ---- what each has ---- */
static uint64_t bytes_of(const clade_vars *vars) {
  uint64_t sum = 0;
  for (int i = 0; i < clade_vars_count(vars); i++) {
    clade_port_info port = {.size = sizeof port};
    size_t bytes;
    OK(clade_vars_describe(vars, i, &port));
    OK(clade_type_bytes(&port.type, &bytes));
    sum += bytes;
  }
  return sum;
}

static void tell(const char *name, const outcome *o, const outcome *one) {
  print_message("%s: variables %.1f MB (%.3f), values that live at once %.1f MB (%.3f), loss %.7f\n", name,
                1e-6 * (double)bytes_of(o->vars), (double)bytes_of(o->vars) / (double)bytes_of(one->vars),
                1e-6 * (double)o->bytes, (double)o->bytes / (double)one->bytes, (double)o->loss[0]);
}

static void near(float have, float want) { assert_true(fabs((double)have - (double)want) <= 1e-5 * (double)want); }

static void tensor(void **state) {
  const training t = WHOLE();
  outcome one;
  OK(train(&t, NULL, *state, &one));
  tell("one rank", &one, &one);
  current = &t;
  run_ranks(RANKS, *state, train_part, NULL);
  for (int r = 0; r < RANKS; r++) {
    tell("tensor", &of_stage[r], &one);
    near(of_stage[r].loss[0], one.loss[0]);
    assert_true((double)bytes_of(of_stage[r].vars) <= 0.6 * (double)bytes_of(one.vars));
    clade_vars_release(of_stage[r].vars);
  }
  clade_vars_release(one.vars);
}

static void pipeline(void **state) {
  const training whole = WHOLE(), parts = PARTS(1), piped = PARTS(RANKS);
  outcome one, accumulated;
  OK(train(&whole, NULL, *state, &one));
  tell("one rank", &one, &one);
  clade_vars_release(one.vars);
  OK(train(&parts, NULL, *state, &accumulated));
  tell("one rank, micro-batches", &accumulated, &accumulated);
  current = &piped;
  run_ranks(RANKS, *state, train_stage, NULL);
  for (int r = 0; r < RANKS; r++) {
    tell("pipeline", &of_stage[r], &accumulated);
    near(of_stage[r].loss[0], accumulated.loss[0]);
    assert_true((double)of_stage[r].bytes <= 0.6 * (double)one.bytes);
    clade_vars_release(of_stage[r].vars);
  }
  clade_vars_release(accumulated.vars);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(tensor), cmocka_unit_test(pipeline)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}
