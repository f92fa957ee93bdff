/* Ranks as threads of one process: message matching, and the effect of an abort on other ranks. */
#include <time.h>

#include <clade/ops.h>

#include "comm_kit.h"

enum { RANKS = 3 };
typedef void *request;

static request sent(clade_comm *comm, int to, int tag, const int *data, size_t bytes) {
  request r = NULL;
  OK(clade__comm_send(comm, to, tag, data, bytes, &r));
  return r;
}

static request wanted(clade_comm *comm, int from, int tag, int *data, size_t bytes) {
  request r = NULL;
  OK(clade__comm_receive(comm, from, tag, data, bytes, &r));
  return r;
}

static bool is_done(clade_comm *comm, request *r) {
  bool done;
  OK(clade__comm_test(comm, r, &done));
  return done;
}

/* By sender, receiver and tag, and in order of sending among equal ones, whichever side comes first. */
static void meeting(void **state) {
  enum { SENT = 4 };
  static const int tags[SENT] = {5, 6, 5, 5}, order[SENT] = {0, 2, 3, 1}; /* order: of the receives */
  (void)state;
  for (int first = 0; first < 2; first++) {
    clade_comm *comms[RANKS];
    request gives[SENT], takes[SENT], other;
    const int data[SENT] = {10, 11, 12, 13}, zero = 0;
    int got[SENT] = {0}, none = 0;
    OK(clade_comm_new_local(RANKS, comms));
    other = wanted(comms[1], 2, 5, &none, sizeof none); /* from another rank */
    for (int part = 0; part < 2; part++)
      for (int i = 0; i < SENT; i++)
        if (part == first)
          gives[i] = sent(comms[0], 1, tags[i], &data[i], sizeof *data);
        else
          takes[i] = wanted(comms[1], 0, tags[order[i]], &got[i], sizeof *got);
    for (int i = 0; i < SENT; i++) {
      assert_true(is_done(comms[0], &gives[i]));
      assert_true(is_done(comms[1], &takes[i]));
      assert_int_equal(got[i], data[order[i]]);
    }
    assert_false(is_done(comms[1], &other));
    clade__comm_cancel(comms[1], &other); /* so that a later message matches the next receive */
    request later = sent(comms[2], 1, 5, &zero, sizeof zero), last = wanted(comms[1], 2, 5, got, sizeof *got);
    assert_true(is_done(comms[2], &later) && is_done(comms[1], &last));
    assert_int_equal(got[0], 0);
    request nobody = sent(comms[0], 1, 7, &zero, 0);
    assert_false(is_done(comms[0], &nobody));
    clade__comm_cancel(comms[0], &nobody);
    release_all(RANKS, comms);
  }
}

/* More messages than preallocated. */
static void many(void **state) {
  enum { MANY = 1000 };
  static request gives[MANY], takes[MANY];
  static int data[MANY], got[MANY];
  clade_comm *comms[2];
  (void)state;
  OK(clade_comm_new_local(2, comms));
  for (int i = 0; i < MANY; i++) {
    data[i] = i + 1;
    gives[i] = sent(comms[0], 1, i % 3, &data[i], sizeof *data);
  }
  for (int i = 0; i < MANY; i++) takes[i] = wanted(comms[1], 0, i % 3, &got[i], sizeof *got);
  for (int i = 0; i < MANY; i++) assert_true(is_done(comms[0], &gives[i]) && is_done(comms[1], &takes[i]));
  assert_memory_equal(got, data, sizeof got);
  release_all(2, comms);
}

static void misfits(void **state) {
  clade_comm *comms[2];
  const int data[2] = {1, 2};
  int got = 7;
  bool done;
  (void)state;
  OK(clade_comm_new_local(2, comms));
  request give = sent(comms[0], 1, 5, data, sizeof data), take = wanted(comms[1], 0, 5, &got, sizeof got);
  refused(clade__comm_test(comms[1], &take, &done), CLADE_INVALID, "rank 0 sends 8 bytes where rank 1 expects 4");
  refused(clade__comm_test(comms[0], &give, &done), CLADE_INVALID, "rank 0 sends 8 bytes where rank 1 expects 4");
  assert_int_equal(got, 7);
  release_all(2, comms);
}

static void refusals(void **state) {
  clade_comm *comms[1];
  (void)state;
  refused(clade_comm_new_local(0, comms), CLADE_INVALID, "0 ranks");
  refused(clade_comm_new_local(1, NULL), CLADE_INVALID, "no place");
}

/* ---- abort by a rank ---- */
static void ends(void **state) {
  clade_comm *comms[RANKS];
  int data = 1, got = 0;
  bool done;
  request none;
  (void)state;
  OK(clade_comm_new_local(RANKS, comms));
  request give = sent(comms[0], 2, 5, &data, sizeof data), take = wanted(comms[2], 0, 5, &got, sizeof got);
  request waits = wanted(comms[0], 1, 5, &got, sizeof got);
  clade_comm_abort(comms[1]);
  clade_comm_abort_with(comms[2], 75);                               /* the first abort is reported */
  assert_true(is_done(comms[0], &give) && is_done(comms[2], &take)); /* completed requests stay completed */
  refused(clade__comm_test(comms[0], &waits, &done), CLADE_CANCELED, "at rank 0: rank 1 has ended all ranks");
  assert_null(waits);
  refused(clade__comm_send(comms[0], 2, 5, &data, sizeof data, &none), CLADE_CANCELED,
          "local: sending to rank 2: rank 1 has ended all ranks");
  refused(clade_comm_barrier(comms[2]), CLADE_CANCELED, "rank 1 has ended all ranks");
  release_all(RANKS, comms);
}

/* A sum in a graph that waits for an absent rank. */
static void *sum(void *user) {
  rank *r = user;
  clade_graph *g;
  clade_func *func = NULL;
  clade_run *run = NULL;
  clade_ticket ticket;
  float x = 1, y;
  if (r->number == 1) {
    nanosleep(&(struct timespec){0, 50000000}, NULL);
    clade_comm_abort(r->comm);
    r->right = true;
    return NULL;
  }
  bool right = clade_graph_new(&g) == CLADE_OK && clade_comm_set_timeout(r->comm, 0) == CLADE_OK;
  clade_val v = clade_input(g, "x", CLADE_F32, CLADE_SCALAR);
  right &= clade_all_reduce(g, r->comm, CLADE_F32, 1, &v) == CLADE_OK;
  clade_output(g, "y", v);
  right &= clade_compile(g, r->device, &func) == CLADE_OK && clade_run_new(func, NULL, &run) == CLADE_OK;
  clade_status status = clade_execute(run, CLADE_FEEDS({"x", &x, sizeof x, NULL}), &ticket);
  if (status == CLADE_OK) status = clade_read(run, ticket, "y", &y, sizeof y);
  right &= status == CLADE_CANCELED && strstr(clade_last_error(), "rank 1 has ended all ranks");
  clade_run_free(run);
  clade_func_release(func);
  clade_graph_release(g);
  r->right = right;
  return NULL;
}

static void ends_sums(void **state) { run_ranks(RANKS, *state, sum, NULL); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(meeting),  cmocka_unit_test(many), cmocka_unit_test(misfits),
                                     cmocka_unit_test(refusals), cmocka_unit_test(ends), cmocka_unit_test(ends_sums)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}
