/* clade_parallelize in graphs of a program: what stays, what it refuses. Losses beside one rank's are compared by
 * examples/tensor_parallel.c. */
#include <clade/comm.h>
#include <clade/nn.h>
#include <clade/ops.h>
#include <clade/optim.h>

#include "plan_kit.h"

enum { ROWS = 64, WIDTH = 512 };

static clade_comm *comm[2];

static clade_val model(clade_graph *g) {
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(ROWS, WIDTH));
  x = clade_relu(g, clade_nn_linear(g, "first", x, .out = WIDTH));
  clade_output(g, "hidden", x);
  clade_graph_add_loss(g, clade_mean(g, x), 0.5);
  return clade_mean(g, clade_square(g, clade_nn_linear(g, "second", x, .out = 4)));
}

static clade_graph *made(clade_val *loss) {
  clade_graph *g = graph_new();
  clade_graph_train(g, true);
  clade_graph_shape(g, "later", CLADE_SHAPE(2));
  *loss = model(g);
  return g;
}

static void what_stays(void **state) {
  (void)state;
  clade_val loss, old;
  clade_type type;
  char *text;
  clade_graph *g = made(&loss);
  old = loss;
  OK(clade_parallelize(g, comm[1], .n = 1, .values = &loss, .tflops = 0.01, .explained = &text));
  assert_non_null(strstr(text, "by a link of 10 us and 80 Gbit/s, and devices of 0.01 TFLOP/s"));
  assert_non_null(strstr(text, "first.weight"));
  clade_text_free(text);
  refused(clade_val_type(g, old, &type), CLADE_INVALID, "belongs to another graph");
  OK(clade_val_type(g, loss, &type));
  assert_int_equal(g->outputs.count, 1);
  assert_string_equal(g->outputs.at[0].name, "hidden");
  OK(clade_val_type(g, clade__graph_val(g, g->outputs.at[0].value), &type));
  assert_int_equal(type.shape.dim[1], WIDTH); /* whole */
  int parts = 0;
  for (size_t i = 0; i < g->variables.count; i++) parts += g->variables.at[i].part.is_part;
  assert_int_equal(parts, 3);
  assert_true(clade_graph_trains(g));
  const clade_val more = clade_variable(g, "later", CLADE_F32, CLADE_SHAPE(3), (clade_initial){0});
  OK(clade_val_type(g, more, &type));
  assert_int_equal(type.shape.dim[0], 2); /* as prescribed */
  const clade_val added = clade_graph_added_loss(g);
  OK(clade_minimize(g, clade_add(g, loss, added), .optimizer = clade_sgd()));
  clade_graph_release(g);
}

/* One rank, or no communicator. */
static void alone(void **state) {
  (void)state;
  clade_val loss;
  clade_comm *one;
  clade_type type;
  OK(clade_comm_new_local(1, &one));
  clade_graph *g = made(&loss);
  const clade_val before = loss;
  OK(clade_parallelize(g, NULL, .n = 1, .values = &loss));
  OK(clade_parallelize(g, one, .n = 1, .values = &loss));
  assert_int_equal(loss.id, before.id);
  OK(clade_val_type(g, before, &type));
  clade_graph_release(g);
  clade_comm_release(one);
}

#define REFUSES(status, words, ...)                                         \
  do {                                                                      \
    clade_val loss;                                                         \
    clade_graph *g = made(&loss);                                           \
    refused(clade_parallelize(g, comm[0], __VA_ARGS__), status, words);     \
    refused(clade_graph_status(g), status, words); /* as in all builders */ \
    clade_graph_release(g);                                                 \
  } while (0)

static void refusals(void **state) {
  (void)state;
  clade_val other = {0};
  REFUSES(CLADE_INVALID, ".n is 2 and .values is NULL", .n = 2);
  REFUSES(CLADE_INVALID, ".n is -1", .n = -1);
  REFUSES(CLADE_INVALID, "clade_parallelize: a value: no value is given", .n = 1, .values = &other);
  REFUSES(CLADE_DTYPE, ".compress is i8", .compress = CLADE_I8);
  REFUSES(CLADE_INVALID, ".link_us is -1", .link_us = -1);
  REFUSES(CLADE_INVALID, ".tflops is -2", .tflops = -2);
  clade_val loss;
  clade_graph *g = made(&loss);
  OK(clade_minimize(g, clade_add(g, loss, clade_graph_added_loss(g)), .optimizer = clade_sgd()));
  refused(clade_parallelize(g, comm[0], .n = 1, .values = &loss), CLADE_INVALID, "the graph has an optimizer");
  clade_graph_release(g);
  g = made(&loss);
  OK(clade_parallelize(g, comm[0], .n = 1, .values = &loss, .tflops = 0.01));
  refused(clade_parallelize(g, comm[0], .n = 1, .values = &loss), CLADE_INVALID, "the graph is in parts already");
  clade_graph_release(g);
  refused(clade_parallelize(NULL, comm[0]), CLADE_INVALID, "the graph is NULL");
}

static int open_ranks(void **state) {
  (void)state;
  return clade_comm_new_local(2, comm) != CLADE_OK;
}

static int close_ranks(void **state) {
  (void)state;
  clade_comm_release(comm[0]);
  clade_comm_release(comm[1]);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_stays), cmocka_unit_test(alone), cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, open_ranks, close_ranks);
}
