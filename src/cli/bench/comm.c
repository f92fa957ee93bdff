/* clade bench comm: measures the link between the ranks of mpirun, sums over them, and a training step, compared with
 * its prediction by scale_model.c. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>

#include "cli/bench/scale.h"
#include "comm/comm.h"
#include "models/models.h"

enum { MODEL, BATCH, SIDE, ROUNDS };
static const cli_option options[] = {
    [MODEL] = {"model", "NAME", "also measure and predict a training step: " MODEL_NAMES},
    [BATCH] = {"batch", "N", "images of each rank (8; mlp, lenet5: 128)"},
    [SIDE] = {"side", "N", "height and width of images (224)"},
    [ROUNDS] = {"rounds", "N", "rounds of measurement (7)"},
    {0},
};
static const cli_args description = {
    .command = "bench comm",
    .synopsis = "",
    .about = "Measures the link between the ranks of mpirun, and sums over them.",
    .device_help = "device to compute on (unset: CLADE_DEVICE, or the best)",
    .options = options,
};

typedef struct comm_job {
  scale_job scale; /* scale.link.latency: that of a round of a sum */
  clade_comm *comm;
  clade__comm_peer *peers;
  scale_sum sums[SCALE_SUMS];
  double latency; /* of a message, without polling */
} comm_job;

static int parse(scale_job *job, int argc, char **argv) {
  cli_args *args = &job->bench.args;
  const char *value;
  for (int next; (next = cli_next(args, argc, argv, &value)) != CLI_NEXT_END;)
    if (next < 0 || scale_take(job, options[next].name, value)) return next == CLI_NEXT_HELP ? -1 : CLI_USAGE;
  if (optind < argc) return cli_wrong(args, "unexpected argument '%s'", argv[optind]);
  if (!job->model && job->bench.batch) return cli_wrong(args, "--batch: only a --model has images");
  if (!job->model && job->side) return cli_wrong(args, "--side: only a --model has images");
  return job->model ? scale_work_of(job) : CLI_DONE;
}

/* The slowest pair determines the link. */
static void summarize(comm_job *job) {
  job->scale.link.bandwidth = INFINITY;
  job->scale.link.whole = CLADE__COMM_SHORT;
  for (int i = 0; i < job->comm->size - 1; i++) {
    job->latency = fmax(job->latency, job->peers[i].latency);
    job->scale.link.bandwidth = fmin(job->scale.link.bandwidth, job->peers[i].bandwidth);
  }
  job->scale.link.latency = job->sums[0].seconds.median / scale_rounds(job->comm->size);
}

static clade_status measure(comm_job *job) {
  bench_job *bench = &job->scale.bench;
  CLADE_TRY(bench_open(bench, job->comm));
  if (!(job->peers = clade__new((size_t)job->comm->size, sizeof *job->peers))) return CLADE_NO_MEMORY;
  CLADE_TRY(clade__comm_measure(job->comm, job->peers));
  CLADE_TRY(scale_add_rate(&job->scale.link.add));
  CLADE_TRY(scale_sums(bench, job->comm, job->sums));
  summarize(job);
  if (!job->scale.model) return CLADE_OK;
  CLADE_TRY(bench_model_data(&job->scale.arena, &job->scale.work));
  return scale_measure(bench, &job->scale.work, job->comm, &job->scale.compute);
}

static scale_step step_of(const comm_job *job, double wire) {
  return scale_step_of(&job->scale.compute, &job->scale.link, job->comm->size, wire);
}

static double bus(const comm_job *job, size_t bytes, double seconds) {
  const double n = job->comm->size;
  return 2 * (n - 1) / n * (double)bytes / seconds;
}

static void show_sums(const comm_job *job) {
  FILE *to = job->scale.bench.to;
  fprintf(to, "%12s %12s %12s %12s %10s %8s", "sum of bytes", "median ms", "min", "max", "bus GB/s", "of link");
  if (clade__comm_sums(job->comm)) fprintf(to, "   by %s: median ms %8s", job->comm->impl.name, "of link");
  for (int i = 0; i < SCALE_SUMS; i++) {
    const scale_sum *s = &job->sums[i];
    const double rate = bus(job, s->bytes, s->seconds.median);
    fprintf(to, "\n%12zu %12.4f %12.4f %12.4f %10.4f %7.1f%%", s->bytes, s->seconds.median * 1e3, s->seconds.min * 1e3,
            s->seconds.max * 1e3, rate * 1e-9, 100 * rate / job->scale.link.bandwidth);
    if (s->carrier.median > 0)
      fprintf(to, " %19.4f %7.1f%%", s->carrier.median * 1e3,
              100 * bus(job, s->bytes, s->carrier.median) / job->scale.link.bandwidth);
  }
  fputc('\n', to);
}

static int fastest(const scale_compute *c) {
  int best = SCALE_AS_F32;
  for (int wire = best + 1; wire < SCALE_WIRES; wire++)
    if (c->together[wire] < c->together[best]) best = wire;
  return best;
}

static void show_model(const comm_job *job) {
  FILE *to = job->scale.bench.to;
  const scale_compute *c = &job->scale.compute;
  const scale_step step = step_of(job, 1), half = step_of(job, 0.5);
  const double together = c->together[SCALE_AS_F32];
  scale_show_model(to, &job->scale.work, c);
  fprintf(to, "\na step of %d ranks: measured %.3f ms, predicted %.3f ms, ratio %.3f\n", job->comm->size,
          together * 1e3, step.seconds * 1e3, together / step.seconds);
  fprintf(to, "sums: predicted %.3f ms, of them %.3f ms exposed (measured %.3f ms beyond the step alone)\n",
          step.reductions * 1e3, step.exposed * 1e3, (together - c->alone) * 1e3);
  fprintf(to, "with 16 bits on the wire: a step of %.3f ms predicted, %.3f ms exposed\n", half.seconds * 1e3,
          half.exposed * 1e3);
  for (int wire = SCALE_AS_F32 + 1; wire < SCALE_WIRES; wire++)
    fprintf(to, "with --compress %s: measured %.3f ms, %.2f times as fast\n", scale_wires[wire],
            c->together[wire] * 1e3, together / c->together[wire]);
  fprintf(to, "the fastest of these: %s\n", scale_wires[fastest(c)]);
}

static void show(const comm_job *job) {
  FILE *to = job->scale.bench.to;
  fprintf(to, "%d ranks by %s\n\n%6s %14s %14s\n", job->comm->size, job->comm->impl.name, "0 and", "latency us",
          "GB/s each way");
  for (int i = 0; i < job->comm->size - 1; i++)
    fprintf(to, "%6d %14.2f %14.3f\n", i + 1, job->peers[i].latency * 1e6, job->peers[i].bandwidth * 1e-9);
  fprintf(to, "a round of a sum takes at least %.1f us; the host adds %.2f GB/s\n\n", job->scale.link.latency * 1e6,
          job->scale.link.add * 1e-9);
  show_sums(job);
  if (job->scale.model) show_model(job);
  const double busy = bench_busy(&job->scale.bench.watcher);
  if (busy > 0.1) fprintf(stderr, "clade: processes other than rank 0 used %.0f %% of the processors\n", 100 * busy);
}

static json_t *link_json(const comm_job *job) {
  json_t *peers = json_array();
  for (int i = 0; i < job->comm->size - 1; i++)
    json_array_append_new(peers, json_pack("{s:i, s:f, s:f}", "rank", i + 1, "latency_seconds", job->peers[i].latency,
                                           "bandwidth_gbs", job->peers[i].bandwidth * 1e-9));
  return json_pack("{s:f, s:f, s:f, s:f, s:o}", "latency_seconds", job->latency, "bandwidth_gbs",
                   job->scale.link.bandwidth * 1e-9, "round_seconds", job->scale.link.latency, "add_gbs",
                   job->scale.link.add * 1e-9, "peers", peers);
}

static json_t *sums_json(const comm_job *job) {
  json_t *sums = json_array();
  for (int i = 0; i < SCALE_SUMS; i++) {
    const scale_sum *s = &job->sums[i];
    const double rate = bus(job, s->bytes, s->seconds.median);
    json_array_append_new(sums, json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:o}", "bytes", (json_int_t)s->bytes,
                                          "seconds", s->seconds.median, "seconds_min", s->seconds.min, "seconds_max",
                                          s->seconds.max, "bus_gbs", rate * 1e-9, "fraction_of_link",
                                          rate / job->scale.link.bandwidth, "carrier_seconds",
                                          s->carrier.median > 0 ? json_real(s->carrier.median) : json_null()));
  }
  return sums;
}

static json_t *step_json(const comm_job *job) {
  if (!job->scale.model) return json_null();
  const scale_compute *c = &job->scale.compute;
  const scale_step step = step_of(job, 1), half = step_of(job, 0.5);
  const double together = c->together[SCALE_AS_F32];
  json_t *wires = json_array();
  for (int wire = 0; wire < SCALE_WIRES; wire++)
    json_array_append_new(wires, json_pack("{s:s, s:f}", "how", scale_wires[wire], "seconds", c->together[wire]));
  return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:s}", "seconds", together, "predicted_seconds",
                   step.seconds, "ratio", together / step.seconds, "sums_seconds", step.reductions, "exposed_seconds",
                   step.exposed, "half_seconds", half.seconds, "half_exposed_seconds", half.exposed, "compress", wires,
                   "fastest", scale_wires[fastest(c)]);
}

static json_t *document(const comm_job *job) {
  return json_pack("{s:o, s:s, s:i, s:s, s:o, s:o, s:o, s:o}", "machine", bench_machine_json(&job->scale.bench.watcher),
                   "device", job->scale.bench.info.id, "ranks", job->comm->size, "carrier", job->comm->impl.name,
                   "link", link_json(job), "sums", sums_json(job), "model",
                   job->scale.model ? scale_model_json(&job->scale.work, &job->scale.compute) : json_null(), "step",
                   step_json(job));
}

/* Returns the exit status; rank 0 prints for all ranks. */
static int finish(const comm_job *job, clade_status status) {
  if (status != CLADE_OK) return cli_ranks_failed(job->comm, status);
  if (job->comm->rank) return CLI_DONE;
  show(job);
  return job->scale.bench.args.json ? cli_json_end(document(job)) : CLI_DONE;
}

int bench_comm(int argc, char **argv) {
  comm_job job = {.scale.bench = {.args = description, .dtype = CLADE_F32, .rounds = 7, .to = stdout}};
  int result = parse(&job.scale, argc, argv);
  if (result) return result < 0 ? CLI_DONE : result;
  clade_status status = cli_ranks_open(&job.comm);
  if (status != CLADE_OK) return cli_failed_status(status);
  if (!job.comm)
    return cli_wrong(&job.scale.bench.args, "there is one process; `mpirun -np 2 %s bench comm` starts two",
                     cli_program);
  if (job.scale.bench.args.json) job.scale.bench.to = stderr;
  if (job.scale.bench.args.json && !job.comm->rank && !cli_json_begin())
    result = CLI_FAILED;
  else
    result = finish(&job, measure(&job));
  clade__free(job.peers);
  scale_close(&job.scale);
  clade_comm_release(job.comm);
  return result;
}
