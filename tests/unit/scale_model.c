/* The model of training steps on many ranks, against cases computed by hand. */
#include "cli/bench/scale_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* A message takes 1 s plus 1 s per 10 bytes; the host adds 20 bytes per second, or infinitely fast. */
static const scale_link fast = {1, 10, INFINITY, .look = 0}, adds = {1, 10, 20, .look = 0};

static void near(double found, double expected) { assert_true(fabs(found - expected) < 1e-9); }

static void test_powers_of_two(void **state) {
  (void)state;
  near(scale_reduction(&adds, 1, 80, 1), 0);
  near(scale_reduction(&adds, 2, 80, 1), (1 + 4) + 2 + (1 + 4));
  near(scale_reduction(&fast, 4, 80, 1), 2 * ((1 + 4) + (1 + 2)));
  near(scale_reduction(&adds, 4, 80, 1), 16 + 40 / 20. + 20 / 20.);
  near(scale_reduction(&adds, 4, 80, 0.5), 2 * ((1 + 2) + (1 + 1)) + 3);     /* the same amount is added */
  near(scale_reduction(&fast, 1024, 1024e9, 1) / (2 * 1023e9 / 10 + 20), 1); /* the bandwidth bound plus 20 rounds */
}

/* 3 = 2 + 1: the third rank sends 80 bytes (9 s) while the others halve (5 s), and receives the sum (9 s). 7 = 4 + 2
 * + 1: sends end after 9 and 9 + 5 = 14 s, when the four have halved (8 s). They double until 22 s; the two have
 * their parts after 19 s and double until 24 s; the last rank has the sum after 28 s. */
static void test_other_numbers(void **state) {
  (void)state;
  near(scale_reduction(&fast, 3, 80, 1), 9 + 9);
  near(scale_reduction(&adds, 3, 80, 1), 9 + 40 / 20. + 9);
  near(scale_reduction(&fast, 7, 80, 1), 28);
  near(scale_reduction(&adds, 7, 80, 1), 28 + 40 / 20. + 20 / 20.); /* of both sends */
  near(scale_reduction(&fast, 5, 0, 1), 4); /* the fifth sends while the others halve in two messages */
}

/* Pieces of 10 bytes take 1 s on the link and 0.5 s to add, or 2.5 s if adding is slower. */
static void test_pieces(void **state) {
  (void)state;
  const scale_link pieces = {1, 10, 20, .piece = 10}, slow = {1, 10, 4, .piece = 10};
  near(scale_reduction(&pieces, 2, 80, 1), (1 + 4 + 0.5) + (1 + 4));
  near(scale_reduction(&pieces, 2, 80, 0.5), (1 + 0.5 + 3 * 0.5 + 0.5) + (1 + 2)); /* both take 0.5 s */
  near(scale_reduction(&slow, 2, 80, 1), (1 + 1 + 4 * 2.5) + (1 + 4));
  near(scale_reduction(&pieces, 2, 16, 1), scale_reduction(&adds, 2, 16, 1)); /* a single piece */
  near(scale_reduction(&pieces, 3, 80, 1),
       9 + 0.5 + 9); /* the third rank's 80 bytes, of which the last piece is added */
}

/* All 80 bytes in each round, 9 s plus 4 s to add; 3 = 2 + 1: sent meanwhile, and returned. */
static void test_whole(void **state) {
  (void)state;
  const scale_link whole = {1, 10, 20, .whole = 81};
  near(scale_reduction(&whole, 4, 80, 1), 2 * (9 + 4));
  near(scale_reduction(&whole, 3, 80, 1), (9 + 4) + 4 + 9);
  near(scale_reduction(&whole, 4, 81, 1), scale_reduction(&adds, 4, 81, 1));
}

/* A round of 4 bytes would take 1.2 or 1.4 s; one of 40 takes 5 s. */
static void test_looks(void **state) {
  (void)state;
  const scale_link looks = {1, 10, INFINITY, .look = 3};
  near(scale_reduction(&looks, 2, 4, 1), 3 + 3);
  near(scale_reduction(&looks, 4, 80, 1), 2 * (5 + 3));
  const scale_bucket buckets[] = {{4, 0}, {4, 0}}; /* the link is free again after 0.4 s */
  near(scale_predict(&looks, 2, 1, 2, buckets, 0).seconds, 6.4);
}

/* Rounds at distance 1 take 0.5 s plus 1 s per 40 bytes. */
static void test_nodes(void **state) {
  (void)state;
  const scale_link nodes = {1, 10, INFINITY, .near_latency = 0.5, .near_bandwidth = 40, .near_ranks = 2};
  near(scale_reduction(&nodes, 2, 80, 1), 2 * (0.5 + 1));
  near(scale_reduction(&nodes, 4, 80, 1), 2 * ((0.5 + 1) + (1 + 2)));
  near(scale_reduction(&nodes, 3, 80, 1), 9 + 9); /* the third rank is on another node */
  const scale_bucket buckets[] = {{80, 0}, {80, 0}};
  near(scale_predict(&nodes, 2, 1, 2, buckets, 0).seconds, 2 + 3);
}

/* Reduced by halving, 1 + 4 and 1 + 2 s, with additions of 2 and 1 s; gathered, the same without additions. */
static void test_halves(void **state) {
  (void)state;
  near(scale_half(&adds, 4, 80, 1, true), 5 + 2 + 3 + 1);
  near(scale_half(&adds, 4, 80, 1, false), 5 + 3);
  near(scale_half(&adds, 4, 80, 1, true) + scale_half(&adds, 4, 80, 1, false), scale_reduction(&adds, 4, 80, 1));
  near(scale_half(&adds, 1, 80, 1, true), 0);
  near(scale_half(&adds, 3, 80, 1, true), scale_reduction(&adds, 3, 80, 1) / 2);
}

static void test_rounds(void **state) {
  (void)state;
  near(scale_rounds(1), 0);
  near(scale_rounds(2), 1);
  near(scale_rounds(512), 9);
  near(scale_rounds(3), 2);
  near(scale_rounds(7), 4); /* the seventh to the two, these to the four, and back */
}

/* Two ranks: 20 bytes take 2 + 2 = 4 s, 80 bytes 2 + 8 = 10 s. During their latencies, 2 s each, the link is free. */
static void test_steps(void **state) {
  (void)state;
  const scale_bucket buckets[] = {{20, 10}, {80, 11}, {20, 40}}, both[] = {{80, 0}, {4, 0}};
  scale_step step = scale_predict(&fast, 2, 1, 2, buckets, 3); /* 10 to 14, from 12 to 22 */
  near(step.seconds, 25);
  near(step.reductions, 14);
  near(step.exposed, 11);
  near(scale_predict(&fast, 2, 1, 2, both, 0).seconds, 10.4); /* the second ends last: 8 s, plus 2.4 of its own */
  step = scale_predict(&fast, 2, 1, 3, buckets, 3);           /* the last one begins when it is ready */
  near(step.seconds, 47);
  near(step.exposed, 4);
  step = scale_predict(&fast, 1, 1, 3, buckets, 3);
  near(step.seconds, 43);
  near(step.exposed, 0);
  near(scale_predict(&fast, 8, 1, 0, NULL, 3).seconds, 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_powers_of_two), cmocka_unit_test(test_other_numbers), cmocka_unit_test(test_pieces),
      cmocka_unit_test(test_whole),         cmocka_unit_test(test_looks),         cmocka_unit_test(test_nodes),
      cmocka_unit_test(test_halves),        cmocka_unit_test(test_rounds),        cmocka_unit_test(test_steps)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
