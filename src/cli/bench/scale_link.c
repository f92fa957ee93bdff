/* Measures the link between ranks as the library uses it: sums in a graph, and the host's additions. */
#include "cli/bench/scale.h"
#include "comm/comm.h"

/* ---- adding ---- */
clade_status scale_add_rate(double *bytes_per_second) {
  enum { N = 1 << 20, TIMES = 9 };
  double seconds[TIMES];
  float *sum = clade__new(N, sizeof *sum), *other = clade__new(N, sizeof *other);
  for (int k = 0; sum && other && k < TIMES; k++) {
    const double start = clade__now();
    for (int i = 0; i < N; i++) sum[i] += other[i];
    seconds[k] = clade__now() - start;
    other[0] = sum[N - 1] + 1; /* keeps the compiler from dropping passes */
  }
  clade_status status = sum && other ? CLADE_OK : CLADE_NO_MEMORY;
  if (status == CLADE_OK) *bytes_per_second = N * sizeof *sum / bench_stat_of(TIMES, seconds).median;
  clade__free(sum);
  clade__free(other);
  return status;
}

/* ---- sums in a graph ---- */
typedef struct sum_work {
  clade_comm *comm;
  int channel; /* 0: the sum is Clade's */
  size_t bytes;
  const float *data;
} sum_work;

static clade_status build(const void *work, bench_clade *c) {
  const sum_work *w = work;
  const clade_shape shape = CLADE_SHAPE((int64_t)(w->bytes / sizeof(float)));
  c->out = (clade_type){.dtype = CLADE_F32, .shape = shape};
  c->out_elements = w->bytes / sizeof(float);
  clade_val x = bench_variable(c, "x", CLADE_F32, shape, w->data, BENCH_OPERAND);
  CLADE_TRY(clade__all_reduce(c->graph, w->comm, w->channel, CLADE_F32, 1, &x));
  clade_output(c->graph, "y0", x);
  return CLADE_OK;
}

static clade_status turn(clade_comm *comm, bench_side *side, int round) {
  CLADE_TRY(clade_comm_barrier(comm));
  clade__comm_be_patient(comm, 1); /* all ranks have finished compiling: timeouts count again */
  const double start = clade__now();
  CLADE_TRY(side->call(side->state));
  if (round >= 0) side->seconds[round] = clade__now() - start;
  return CLADE_OK;
}

/* Measures a sum by Clade and, with a channel, by the communicator's own all-reduce, in turns. */
static clade_status sum_of(const bench_job *job, clade_comm *comm, int channel, const float *data, scale_sum *sum) {
  enum { CLADE, CARRIER, SIDES };
  bench_side sides[SIDES] = {{0}};
  const int n = channel ? SIDES : CARRIER, rounds = (int)job->rounds;
  clade_status status = CLADE_OK;
  clade__comm_be_patient(comm, 0);
  for (int k = 0; k < n && status == CLADE_OK; k++)
    status = bench_clade_side(job, build, &(sum_work){comm, k == CARRIER ? channel : 0, sum->bytes, data}, &sides[k]);
  for (int i = -n; i < n * rounds && status == CLADE_OK; i++)
    status = turn(comm, &sides[(i + n) % n], i < 0 ? -1 : i / n);
  sum->seconds = bench_stat_of(status == CLADE_OK ? rounds : 0, sides[CLADE].seconds);
  sum->carrier = bench_stat_of(status == CLADE_OK && channel ? rounds : 0, sides[CARRIER].seconds);
  bench_sides_free(n, sides);
  return status;
}

clade_status scale_sums(const bench_job *job, clade_comm *comm, scale_sum sums[SCALE_SUMS]) {
  static const size_t sizes[SCALE_SUMS] = {4, 64 << 10, 1 << 20, 8 << 20, 64 << 20};
  float *data = clade__new(sizes[SCALE_SUMS - 1], 1);
  clade_status status = data ? CLADE_OK : CLADE_NO_MEMORY;
  int channel = 0;
  if (status == CLADE_OK && clade__comm_sums(comm)) status = clade__comm_open_channel(comm, &channel);
  for (int i = 0; i < SCALE_SUMS && status == CLADE_OK; i++) {
    sums[i].bytes = sizes[i];
    status = sum_of(job, comm, channel, data, &sums[i]);
  }
  clade__free(data);
  return status;
}
