/* Collectives outside of graphs, for all kinds of sizes, lengths and owners: exact results and communication volume. */
#include <math.h>
#include <sched.h>

#include "comm_kit.h"

/* The job and its reference results. */
static struct {
  size_t n;
  bool whole;
  const size_t *ends; /* of slots; NULL: the default */
  float *given[MOST]; /* each rank's input */
  float *expected;
  clade_dtype wire;
  float *rounded[MOST]; /* each rank's result with a `wire` type, for which no exact reference exists */
} job;
enum { LONGEST = 1000003 };

/* Varying magnitudes and signs, so that a different summation order gives different bits. */
static float number(int rank, size_t i) {
  const uint32_t mixed = ((uint32_t)i * 2654435761u + (uint32_t)rank * 40503u) ^ ((uint32_t)i >> 7);
  return (float)((int32_t)(mixed % 2000003) - 1000001) * (1.f + (float)(mixed >> 29)) * 1e-3f;
}

static float numbers_in_pairs(int first, int n, size_t i) {
  int half = 1;
  if (n == 1) return job.given[first][i];
  while (2 * half < n) half *= 2;
  return numbers_in_pairs(first, half, i) + numbers_in_pairs(first + half, n - half, i);
}

static bool same(const float *found, size_t from, size_t to) {
  return from == to || memcmp(found + from, job.expected + from, (to - from) * sizeof *found) == 0;
}

static bool finish(clade__reduction *c) {
  for (bool done = false; !done; sched_yield())
    if (clade__reduction_step(c, &done) != CLADE_OK) return false;
  return true;
}

/* A reduce-scatter followed by an all-gather, or an all-reduce; twice, to test reuse. */
static bool collect(rank *r, clade__reduction **idle, clade__collective what, float *data) {
  clade__reduction *c;
  const clade__message message = {.what = what, .n = job.n, .ends = job.ends, .whole = job.whole, .wire = job.wire};
  const int slot = clade__schedule_slot(r->number, r->size);
  const size_t from = !job.ends ? 0 : slot ? job.ends[slot - 1] : 0, to = job.ends ? job.ends[slot] : job.n;
  const size_t bytes = job.n * sizeof *data;
  if (clade__reduction_new(r->comm, idle, 7, &message, NULL, &c) != CLADE_OK) return false;
  float *inside = clade__reduction_data(c);
  if (bytes) memcpy(inside, data, bytes);
  bool right = finish(c);
  if (what == CLADE__REDUCE_SCATTER) /* other ranks' slots are undefined */
    for (size_t i = 0; i < job.n; i++) data[i] = i >= from && i < to ? inside[i] : NAN;
  if (what != CLADE__REDUCE_SCATTER && bytes) memcpy(data, inside, bytes);
  if (!job.wire) right &= what == CLADE__REDUCE_SCATTER ? same(data, from, to) : same(data, 0, job.n);
  clade__reduction_end(c);
  return right;
}

static void *collect_all(void *user) {
  rank *r = user;
  float *data = calloc(job.n + 1, sizeof *data);
  assert_non_null(data);
  clade__reduction *idle = NULL;
  r->right = true;
  for (int turn = 0; turn < 2; turn++) {
    if (job.n) memcpy(data, job.given[r->number], job.n * sizeof *data);
    if (!job.ends) r->right &= collect(r, &idle, CLADE__ALL_REDUCE, data);
    if (job.ends)
      r->right &= collect(r, &idle, CLADE__REDUCE_SCATTER, data) && collect(r, &idle, CLADE__ALL_GATHER, data);
  }
  if (job.wire && job.n) memcpy(job.rounded[r->number], data, job.n * sizeof *data);
  clade__reductions_free(idle);
  free(data);
  return NULL;
}

/* Some slots are empty; those without a rank must be. */
static void cut(int size, size_t n, size_t *ends) {
  const int slots = clade__schedule_slots(size);
  bool owned[4 * MOST] = {false};
  size_t at = 0;
  int last = 0;
  for (int i = 0; i < size; i++) {
    const int slot = clade__schedule_slot(i, size);
    assert_true(slot >= 0 && slot < slots && !owned[slot]);
    owned[slot] = true;
  }
  for (int s = 0; s < slots; s++)
    if (owned[s]) last = s;
  for (int s = 0; s < slots; s++) {
    if (owned[s] && s % 3) at += (n - at) / 2 + (n - at) % 2;
    ends[s] = s >= last ? n : at;
  }
}

static void job_new(void) {
  job.expected = calloc(LONGEST, sizeof *job.expected);
  assert_non_null(job.expected);
  for (int rank = 0; rank < MOST; rank++) {
    job.given[rank] = calloc(LONGEST, sizeof *job.expected);
    assert_non_null(job.given[rank]);
    for (size_t i = 0; i < LONGEST; i++) job.given[rank][i] = number(rank, i);
  }
}

static void job_free(void) {
  for (int rank = 0; rank < MOST; rank++) free(job.given[rank]);
  free(job.expected);
}

static void collectives(void **state) {
  static const size_t lengths[] = {0, 1, 2, 3, 7, 1000, LONGEST};
  (void)state;
  job_new();
  for (int size = 1; size <= MOST; size++)
    for (size_t k = 0; k < CLADE_COUNT(lengths); k++) {
      size_t ends[4 * MOST];
      job.n = lengths[k];
      for (size_t i = 0; i < job.n; i++) job.expected[i] = numbers_in_pairs(0, size, i);
      cut(size, job.n, ends);
      for (int way = 0; way < 3; way++) {
        job.ends = way == 2 ? ends : NULL;
        job.whole = way == 1;
        run_ranks(size, NULL, collect_all, NULL);
      }
    }
  job_free();
}

/* With a power of two of ranks, each sends 2 (n - 1) / n of the message; otherwise at most twice the message. Short
 * messages take one round per doubling. */
static void traffic(void **state) {
  uint64_t sent[MOST];
  (void)state;
  job_new();
  job.n = 1 << 12;
  job.ends = NULL;
  const size_t twice = 2 * job.n * sizeof(float);
  for (int size = 1; size <= MOST; size++) {
    for (size_t i = 0; i < job.n; i++) job.expected[i] = numbers_in_pairs(0, size, i);
    const bool power = !(size & (size - 1));
    job.whole = false;
    run_ranks(size, NULL, collect_all, sent);
    for (int i = 0; i < size && power; i++) assert_int_equal(sent[i], twice * 2 / (size_t)size * ((size_t)size - 1));
    for (int i = 0; i < size; i++) assert_true(sent[i] <= 2 * twice);
    int rounds = 0;
    while (1 << rounds < size) rounds++;
    job.whole = true;
    run_ranks(size, NULL, collect_all, sent);
    for (int i = 0; i < size && power; i++) assert_int_equal(sent[i], twice * (size_t)rounds);
  }
  job_free();
}

/* Each round contributes half a unit of the largest possible partial sum. */
static void check_rounded(int size, double unit, int rounds) {
  for (size_t i = 0; i < job.n; i++) {
    double most = 0;
    for (int rank = 0; rank < size; rank++) most += fabs(job.given[rank][i]);
    assert_true(fabs(job.rounded[0][i] - job.expected[i]) <= (rounds + 1) * unit * most * (1 + unit));
    uint16_t code;
    float back;
    OK(clade_convert(job.wire, &code, CLADE_F32, &job.rounded[0][i], 1));
    OK(clade_convert(CLADE_F32, &back, job.wire, &code, 1));
    assert_true(size == 1 || back == job.rounded[0][i]); /* results are representable in the wire type */
  }
  for (int rank = 1; rank < size; rank++)
    if (job.n) assert_memory_equal(job.rounded[rank], job.rounded[0], job.n * sizeof(float));
}

/* All ranks get the same result with half the bytes. */
static void rounded(void **state) {
  static const clade_dtype wires[] = {CLADE_BF16, CLADE_F16};
  static const size_t lengths[] = {0, 1, 1000, 300001};
  uint64_t sent[MOST];
  (void)state;
  job_new();
  for (int rank = 0; rank < MOST; rank++) {
    job.rounded[rank] = calloc(LONGEST, sizeof(float));
    assert_non_null(job.rounded[rank]);
  }
  job.whole = false;
  for (int size = 1; size <= MOST; size++)
    for (size_t k = 0; k < CLADE_COUNT(lengths) * 2 * CLADE_COUNT(wires); k++) {
      size_t ends[4 * MOST];
      job.n = lengths[k / 4];
      job.wire = wires[k % 2];
      for (size_t i = 0; i < job.n; i++) job.expected[i] = numbers_in_pairs(0, size, i);
      cut(size, job.n, ends);
      job.ends = k / 2 % 2 ? ends : NULL;
      run_ranks(size, NULL, collect_all, sent);
      int rounds = 1;
      while (1 << rounds < size) rounds++;
      check_rounded(size, job.wire == CLADE_BF16 ? 0x1p-8 : 0x1p-11, 2 * rounds);
      const size_t twice = 2 * 2 * job.n * sizeof(uint16_t);
      for (int i = 0; i < size && !job.ends && !(size & (size - 1)); i++)
        assert_true(sent[i] <= twice / (size_t)size * ((size_t)size - 1) + 64);
    }
  job.wire = CLADE_DTYPE_NONE;
  for (int rank = 0; rank < MOST; rank++) free(job.rounded[rank]);
  job_free();
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(collectives), cmocka_unit_test(rounded),
                                     cmocka_unit_test(traffic)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
