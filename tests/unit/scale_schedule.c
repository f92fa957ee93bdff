/* The model of pipeline schedules, against cases computed by hand. */
#include "cli/plan/schedule.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "parallel/passes.h"

enum { MOST = 16 };
static schedule_played stages[MOST];
static schedule_last pieces[MOST];

static void near(double found, double expected) {
  if (!(fabs(found - expected) < 1e-9)) fail_msg("%.9f, not %.9f", found, expected);
}

/* A message takes 1 s plus 1 s per 10 bytes. */
static double play(int n, int interleave, int micro_batches, const schedule_piece *piece, int n_messages,
                   const schedule_message *messages) {
  const schedule_step step = {.stages = n,
                              .interleave = interleave,
                              .micro_batches = micro_batches,
                              .pieces = piece,
                              .n_messages = n_messages,
                              .messages = messages,
                              .stages_per_node = 1,
                              .far = {1, 10}};
  double seconds;
  assert_true(schedule_play(&step, stages, pieces, &seconds));
  return seconds;
}

/* Messages between adjacent pieces that take no time. */
static int chain(int n, schedule_message *messages) {
  int count = 0;
  for (int i = 0; i + 1 < n; i++) {
    messages[count++] = (schedule_message){i, i + 1, SCHEDULE_FORWARD, 0};
    messages[count++] = (schedule_message){i + 1, i, SCHEDULE_BACKWARD, 0};
  }
  return count;
}

static double play_at_once(int n, int interleave, int micro_batches, double forward, double backward) {
  schedule_piece piece[MOST];
  schedule_message messages[2 * MOST];
  for (int i = 0; i < n * interleave; i++) piece[i] = (schedule_piece){forward, backward};
  const schedule_step step = {.stages = n,
                              .interleave = interleave,
                              .micro_batches = micro_batches,
                              .pieces = piece,
                              .n_messages = chain(n * interleave, messages),
                              .messages = messages,
                              .stages_per_node = 1,
                              .far = {0, 1}};
  double seconds;
  assert_true(schedule_play(&step, stages, pieces, &seconds));
  return seconds;
}

/* Idle fraction of equal stages: (p - 1) / (m + p - 1); with v pieces each, (p - 1) / (v m + p - 1). */
static void test_equal_stages(void **state) {
  (void)state;
  for (int p = 1; p <= 8; p++)
    for (int m = 1; m <= 16; m++) {
      near(play_at_once(p, 1, m, 1, 2), 3 * (m + p - 1));
      for (int i = 0; i < p; i++) {
        near(1 - stages[i].busy / (3 * (m + p - 1)), (double)(p - 1) / (m + p - 1));
        assert_int_equal(pieces[i].in_flight, m < p - i ? m : p - i);
      }
    }
  for (int m = 4; m <= 16; m += 4) near(play_at_once(4, 2, m, 1, 1), 2 * (2 * m + 3));
  near(play_at_once(2, 3, 4, 1, 2), 3 * (3 * 4 + 1));
}

/* Stages of 1 and 2 s forward, 2 and 4 s backward, two micro-batches. Second stage: F 1-3, B 3-7, F 7-9, B 9-13.
 * First stage: F 0-1, F 1-2, B 7-9, B 13-15. */
static void test_uneven_stages(void **state) {
  (void)state;
  const schedule_piece piece[] = {{1, 2}, {2, 4}};
  const schedule_message messages[] = {{0, 1, SCHEDULE_FORWARD, 0}, {1, 0, SCHEDULE_BACKWARD, 0}};
  schedule_step step = {.stages = 2,
                        .interleave = 1,
                        .micro_batches = 2,
                        .pieces = piece,
                        .n_messages = 2,
                        .messages = messages,
                        .stages_per_node = 1,
                        .far = {0, 1}};
  double seconds;
  assert_true(schedule_play(&step, stages, pieces, &seconds));
  near(seconds, 15);
  near(stages[0].busy, 6);
  near(stages[1].busy, 12);
  near(stages[1].end, 13);
  near(pieces[0].begin, 13);
  near(pieces[1].begin, 9);
}

/* One micro-batch: F 0-1, 10 bytes 1-2, received at 3; F 3-4, B 4-5; 10 bytes 5-6, received at 7; B 7-8. Two of 30
 * bytes: sent 1-4 and 4-7, received at 5 and 8; F 5-6, B 6-7, F 8-9, B 9-10; sent 7-10 and 10-13, received at 11 and
 * 14; B 11-12, 14-15. */
static void test_messages(void **state) {
  (void)state;
  const schedule_piece piece[] = {{1, 1}, {1, 1}};
  const schedule_message small[] = {{0, 1, SCHEDULE_FORWARD, 10}, {1, 0, SCHEDULE_BACKWARD, 10}},
                         large[] = {{0, 1, SCHEDULE_FORWARD, 30}, {1, 0, SCHEDULE_BACKWARD, 30}};
  near(play(2, 1, 1, piece, 2, small), 8);
  near(play(2, 1, 2, piece, 2, large), 15);
}

/* A parameter of the first stage is sent to the second, 0-9, followed by the first pass's result, 9-10, received at
 * 11. F 11-12, B 12-13; its result, 13-14, is received at 15, and the parameter's gradient, 14-23, at 24. */
static void test_shared_parameter(void **state) {
  (void)state;
  const schedule_piece piece[] = {{1, 1}, {1, 1}};
  const schedule_message messages[] = {{0, 1, SCHEDULE_FORWARD, 10},
                                       {1, 0, SCHEDULE_BACKWARD, 10},
                                       {0, 1, SCHEDULE_BEGIN, 90},
                                       {1, 0, SCHEDULE_END, 90}};
  near(play(2, 1, 1, piece, 4, messages), 16);
  near(pieces[0].end, 16);
  near(pieces[0].arrived, 24);
  near(pieces[1].arrived, 0);
}

/* Sums occupy the second stage's link for 5 s from the end of its backward pass at 5: its message of 2 s takes 4 and
 * arrives at 10; one of 20 s takes 25 and arrives at 31. They share the link. */
static void test_sums(void **state) {
  (void)state;
  const schedule_piece piece[] = {{1, 1}, {1, 1}};
  const double sums[] = {7, 5};
  for (int i = 0; i < 2; i++) {
    const double send = i ? 20 : 2;
    const schedule_message messages[] = {{0, 1, SCHEDULE_FORWARD, 10}, {1, 0, SCHEDULE_BACKWARD, send * 10}};
    const schedule_step step = {.stages = 2,
                                .interleave = 1,
                                .micro_batches = 1,
                                .pieces = piece,
                                .n_messages = 2,
                                .messages = messages,
                                .stages_per_node = 1,
                                .far = {1, 10},
                                .sums = sums};
    double seconds;
    assert_true(schedule_play(&step, stages, pieces, &seconds));
    near(seconds, (i ? 31 : 10) + 1);
    near(stages[1].lent, send);
    near(stages[0].lent, 0);
  }
}

/* Two nodes with two stages each: 0 to 1 and 2 to 3 use the near link, 1 to 2 the far one. */
static void test_nodes(void **state) {
  (void)state;
  const schedule_piece piece[] = {{1, 1}, {1, 1}, {1, 1}, {1, 1}};
  schedule_message messages[6];
  const int n = chain(4, messages);
  for (int i = 0; i < n; i++) messages[i].bytes = 10;
  const schedule_step step = {.stages = 4,
                              .interleave = 1,
                              .micro_batches = 1,
                              .pieces = piece,
                              .n_messages = n,
                              .messages = messages,
                              .stages_per_node = 2,
                              .near = {0.5, 20},
                              .far = {1, 10}};
  double seconds;
  assert_true(schedule_play(&step, stages, pieces, &seconds));
  near(seconds, 8 + 2 * (1 + 2 + 1));
}

/* A warm-up pass per following stage, then alternating forward and backward passes. */
static void test_order(void **state) {
  (void)state;
  const schedule_step step = {.stages = 3, .interleave = 1, .micro_batches = 4};
  schedule_item items[8];
  schedule_order(&step, 1, items);
  const schedule_item expected[] = {{1, 0, false}, {1, 1, false}, {1, 0, true}, {1, 2, false},
                                    {1, 1, true},  {1, 3, false}, {1, 2, true}, {1, 3, true}};
  for (int i = 0; i < 8; i++) {
    assert_int_equal(items[i].piece, expected[i].piece);
    assert_int_equal(items[i].micro_batch, expected[i].micro_batch);
    assert_int_equal(items[i].backward, expected[i].backward);
  }
}

/* The same order as for cutting ranks. */
static void test_order_of_trainings(void **state) {
  (void)state;
  for (int p = 1; p <= 5; p++)
    for (int v = 1; v <= 3; v++)
      for (int m = 1; m <= 12; m++) {
        const schedule_step step = {.stages = p, .interleave = v, .micro_batches = m};
        const clade__grid grid = {1, 1, p, m, v};
        clade__passes passes;
        schedule_item items[2 * 3 * 12];
        assert_int_equal(clade__passes_new(&grid, &passes), CLADE_OK);
        for (int stage = 0; stage < p; stage++) {
          schedule_order(&step, stage, items);
          for (int i = 0; i < 2 * m * v; i++) {
            const clade__pass *pass = &passes.at[stage * passes.each + i];
            assert_int_equal(items[i].piece, pass->piece);
            assert_int_equal(items[i].micro_batch, pass->share);
            assert_int_equal(items[i].backward, pass->backward);
          }
        }
        near(play_at_once(p, v, m, 1, 2), passes.end);
        clade__passes_free(&passes);
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_equal_stages), cmocka_unit_test(test_uneven_stages),
                                     cmocka_unit_test(test_messages),     cmocka_unit_test(test_shared_parameter),
                                     cmocka_unit_test(test_sums),         cmocka_unit_test(test_nodes),
                                     cmocka_unit_test(test_order),        cmocka_unit_test(test_order_of_trainings)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
