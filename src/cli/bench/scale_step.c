/* Measures the phases of a training step: when the gradients of each bucket are on the host, and what remains after
 * the last sum. The step runs with a communicator that stands in for other ranks, completes messages at once and
 * records their times. */
#include <stdlib.h>

#include "cli/bench/scale.h"
#include "comm/comm.h"
#include "ir/ir.h"
#include "models/models.h"

/* ---- the model ---- */
int scale_take(scale_job *job, const char *option, const char *value) {
  const cli_args *args = &job->bench.args;
  if (!strcmp(option, "model")) {
    job->model = value;
    return CLI_DONE;
  }
  const bool batch = !strcmp(option, "batch"), side = !strcmp(option, "side");
  int64_t *number = batch ? &job->bench.batch : side ? &job->side : &job->bench.rounds;
  return cli_number(args, option, value, 1, batch || side ? 4096 : BENCH_MAX_ROUNDS / 2, number) ? CLI_DONE : CLI_USAGE;
}

int scale_work_of(scale_job *job) {
  const cli_args *args = &job->bench.args;
  const char *model = job->model;
  const int64_t batch = job->bench.batch, side = job->side;
  if (!model_by_name(model)) return cli_wrong(args, "--model %s: expected " MODEL_NAMES, model);
  const bool digits = !strcmp(model, "mlp") || !strcmp(model, "lenet5");
  if (digits && side && side != 28) return cli_wrong(args, "--side: images of %s have 28 x 28", model);
  job->work = (bench_model_work){.batch = batch    ? batch
                                          : digits ? 128
                                                   : 8,
                                 .channels = digits ? 1 : 3,
                                 .side = side     ? side
                                         : digits ? 28
                                                  : 224,
                                 .classes = digits ? 10 : 1000,
                                 .train = true};
  snprintf(job->work.model, sizeof job->work.model, "%s", model);
  return CLI_DONE;
}

void scale_close(scale_job *job) {
  clade__arena_free(&job->arena);
  clade__free(job->compute.buckets);
  clade_device_release(job->bench.device);
}

scale_step scale_step_of(const scale_compute *c, const scale_link *link, int ranks, double wire) {
  return scale_predict(link, ranks, wire, c->n, c->buckets, c->rest);
}

/* ---- the stand-in ---- */
typedef struct sum { /* sum of a bucket in one execution */
  int tag;
  double begun, ended;
} sum;
typedef struct stand_in {
  sum *sums;
  size_t n, capacity;
  double pauses[BENCH_MAX_ROUNDS]; /* seconds between two polls of a message; the last ones */
  int looks;
} stand_in;
typedef struct message {
  size_t sum;
  double looked; /* time of the first, unsuccessful poll; 0: none */
} message;

static clade_status ask(stand_in *s, int tag, void **request) {
  size_t i = 0;
  while (i < s->n && s->sums[i].tag != tag) i++;
  if (i == s->n) {
    CLADE_TRY(clade__grow(&s->sums, &s->capacity, s->n + 1, sizeof *s->sums));
    s->sums[s->n++] = (sum){tag, clade__now(), 0};
  }
  message *m = clade__new(1, sizeof *m);
  if (!m) return CLADE_NO_MEMORY;
  m->sum = i;
  *request = m;
  return CLADE_OK;
}

static clade_status send(void *user, int to, int tag, const void *data, size_t bytes, void **request) {
  (void)to, (void)data, (void)bytes;
  return ask(user, tag, request);
}

/* A received message leaves the buffer as it is: the values do not matter. */
static clade_status receive(void *user, int from, int tag, void *data, size_t bytes, void **request) {
  (void)from, (void)data, (void)bytes;
  return ask(user, tag, request);
}

static clade_status look(void *user, void *request, bool *done) {
  stand_in *s = user;
  message *m = request;
  const double now = clade__now();
  *done = m->looked > 0;
  if (!*done) {
    m->looked = now;
    return CLADE_OK;
  }
  s->pauses[s->looks++ % BENCH_MAX_ROUNDS] = now - m->looked;
  s->sums[m->sum].ended = now;
  clade__free(m);
  return CLADE_OK;
}

static void forget(void *user, void *request) {
  (void)user;
  clade__free(request);
}

static const clade_comm_impl at_once = {.size = sizeof(clade_comm_impl),
                                        .name = "stand-in",
                                        .send = send,
                                        .receive = receive,
                                        .test = look,
                                        .cancel = forget};

/* ---- the measurement ---- */
typedef enum which { ALONE, STAGED, TOGETHER, SIDES = TOGETHER + SCALE_WIRES } which;
typedef struct measurement {
  const bench_job *job;
  clade_comm *comm; /* of the ranks; NULL: single process */
  stand_in stand_in;
  bench_side sides[SIDES];
  int n_sides;
  double *ready, *rest; /* ready: index bucket * rounds + round */
  scale_compute *out;
} measurement;

static clade_status buckets_of(const bench_side *side, scale_compute *out) {
  const clade_graph *g = ((const bench_clade *)side->state)->graph;
  size_t capacity = 0;
  for (size_t id = 1; id < g->n_nodes; id++) {
    const clade__node *n = &g->nodes[id];
    if (strcmp(n->op->name, "comm.all_reduce")) continue;
    scale_bucket bucket = {0};
    for (int i = 0; i < n->n_out; i++) {
      size_t bytes;
      CLADE_TRY(clade_type_bytes(clade__type(g, n->first_out + (clade__id)i), &bytes));
      bucket.bytes += (double)bytes;
    }
    CLADE_TRY(clade__grow(&out->buckets, &capacity, (size_t)out->n + 1, sizeof *out->buckets));
    out->buckets[out->n++] = bucket;
    out->bytes += bucket.bytes;
  }
  return CLADE_OK;
}

const char *const scale_wires[SCALE_WIRES] = {"f32", "bf16", "powersgd:2"};

static clade_status add_side(measurement *m, const bench_model_work *work, clade_comm *comm, int wire) {
  bench_model_work w = *work;
  w.comm = comm;
  w.compress = wire == SCALE_AS_BF16 ? CLADE_BF16 : CLADE_F32;
  w.low_rank = wire == SCALE_AS_POWERSGD ? 2 : 0;
  return bench_clade_side(m->job, bench_model_build, &w, &m->sides[m->n_sides++]);
}

static int by_tag(const void *a, const void *b) { return ((const sum *)a)->tag - ((const sum *)b)->tag; }

/* Each sum of an execution has its own tag; tags ascend with the buckets. */
static clade_status note(measurement *m, int round, double start, double end) {
  stand_in *s = &m->stand_in;
  const int n = m->out->n;
  double last = start;
  if (s->n != (size_t)n) return CLADE_FAIL(INTERNAL, "a step has %zu sums of %d buckets", s->n, n);
  qsort(s->sums, s->n, sizeof *s->sums, by_tag);
  for (int i = 0; i < n; i++) {
    m->ready[i * m->job->rounds + round] = s->sums[i].begun - start;
    last = CLADE_MAX(last, s->sums[i].ended);
  }
  m->rest[round] = end - last;
  return CLADE_OK;
}

/* Round -1 compiles and starts threads; it is not counted. */
static clade_status turn(measurement *m, which which, int round) {
  bench_side *side = &m->sides[which];
  CLADE_TRY(side->refresh(side->state));
  if (m->comm) CLADE_TRY(clade_comm_barrier(m->comm));
  m->stand_in.n = 0;
  const double start = clade__now();
  CLADE_TRY(side->call(side->state));
  const double end = clade__now();
  if (round < 0) return CLADE_OK;
  side->seconds[round] = end - start;
  return which == STAGED ? note(m, round, start, end) : CLADE_OK;
}

static double median(const measurement *m, const double *seconds) {
  return bench_stat_of((int)m->job->rounds, seconds).median;
}

static clade_status measure(measurement *m, const bench_model_work *work, clade_comm *nobody) {
  const int rounds = (int)m->job->rounds;
  scale_compute *out = m->out;
  CLADE_TRY(add_side(m, work, NULL, SCALE_AS_F32));
  CLADE_TRY(add_side(m, work, nobody, SCALE_AS_F32));
  for (int wire = 0; m->comm && wire < SCALE_WIRES; wire++) CLADE_TRY(add_side(m, work, m->comm, wire));
  CLADE_TRY(buckets_of(&m->sides[STAGED], out));
  m->ready = clade__new((size_t)(out->n * rounds), sizeof *m->ready);
  m->rest = clade__new((size_t)rounds, sizeof *m->rest);
  if (!m->ready || !m->rest) return CLADE_NO_MEMORY;
  for (int round = -1; round < rounds; round++)
    for (int i = 0; i < m->n_sides; i++) CLADE_TRY(turn(m, (which)i, round));
  out->alone = median(m, m->sides[ALONE].seconds);
  out->staged = median(m, m->sides[STAGED].seconds);
  for (int wire = 0; m->comm && wire < SCALE_WIRES; wire++)
    out->together[wire] = median(m, m->sides[TOGETHER + wire].seconds);
  out->rest = median(m, m->rest);
  out->poll = bench_stat_of(CLADE_MIN(m->stand_in.looks, BENCH_MAX_ROUNDS), m->stand_in.pauses).median;
  for (int i = 0; i < out->n; i++) out->buckets[i].ready = median(m, m->ready + i * rounds);
  return CLADE_OK;
}

clade_status scale_measure(const bench_job *job, const bench_model_work *work, clade_comm *comm, scale_compute *out) {
  measurement m = {.job = job, .comm = comm, .out = out};
  clade_comm *nobody;
  *out = (scale_compute){0};
  CLADE_TRY(clade_comm_new(&at_once, &m.stand_in, 0, 2, &nobody));
  clade__comm_be_patient(comm, 0); /* ranks compile at different speeds: no timeouts meanwhile */
  clade_status status = measure(&m, work, nobody);
  clade__comm_be_patient(comm, 1);
  bench_sides_free(m.n_sides, m.sides);
  clade_comm_release(nobody);
  clade__free(m.stand_in.sums);
  clade__free(m.ready);
  clade__free(m.rest);
  return status;
}
