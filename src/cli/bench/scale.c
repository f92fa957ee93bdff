/* clade bench scale: predicts the step of a training on many ranks from a step measured here and a model of sums. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/bench/scale.h"
#include "comm/comm.h"
#include "models/models.h"

enum { MODEL, RANKS, LINK, BATCH, SIDE, ROUNDS };
static const cli_option options[] = {
    [MODEL] = {"model", "NAME", MODEL_NAMES},
    [RANKS] = {"ranks", "N[,N…]", "numbers of ranks to predict for"},
    [LINK] = {"link", "US,GBIT", "latency of a message in microseconds, Gbit/s in each direction (50,10)"},
    [BATCH] = {"batch", "N", "images of each rank (8; mlp, lenet5: 128)"},
    [SIDE] = {"side", "N", "height and width of images (224)"},
    [ROUNDS] = {"rounds", "N", "rounds of measurement (7)"},
    {0},
};
static const cli_args description = {
    .command = "bench scale",
    .synopsis = "",
    .about = "Predicts a training step on many ranks from a step measured here and a model of its sums.",
    .device_help = "device to measure (unset: CLADE_DEVICE, or the best)",
    .options = options,
};

enum { MOST_COUNTS = 16 };
typedef struct scale_job {
  bench_job bench;
  const char *model, *link_text;
  int64_t side;
  int ranks[MOST_COUNTS], n;
  scale_link link; /* as given by --link */
  scale_link used; /* with the library's polling interval */
  bench_model_work work;
  scale_compute compute;
} scale_job;

/* ---- options ---- */
static int take_ranks(scale_job *job, const char *text) {
  const cli_args *args = &job->bench.args;
  for (const char *at = text; job->n < MOST_COUNTS;) {
    char *end;
    errno = 0;
    const long ranks = strtol(at, &end, 10);
    if (errno || end == at || (*end && *end != ',') || ranks < 1 || ranks > SCALE_MOST_RANKS)
      return cli_wrong(args, "--ranks %s: expected whole numbers from 1 to %d, with commas between", text,
                       (int)SCALE_MOST_RANKS);
    job->ranks[job->n++] = (int)ranks;
    at = end + 1;
    if (!*end) return CLI_DONE;
  }
  return cli_wrong(args, "--ranks %s: more than %d numbers", text, (int)MOST_COUNTS);
}

static int take_link(scale_job *job, const char *text) {
  double us, gbits;
  if (!cli_link(&job->bench.args, "link", text, &us, &gbits)) return CLI_USAGE;
  job->link_text = text;
  job->link.latency = us * 1e-6;
  job->link.bandwidth = gbits * 1e9 / 8;
  return CLI_DONE;
}

static int parse(scale_job *job, int argc, char **argv) {
  cli_args *args = &job->bench.args;
  const char *value;
  int wrong = CLI_DONE;
  for (int next; (next = cli_next(args, argc, argv, &value)) != CLI_NEXT_END;) {
    switch (next) {
    case MODEL: job->model = value; break;
    case RANKS: wrong = take_ranks(job, value); break;
    case LINK: wrong = take_link(job, value); break;
    case BATCH: wrong = cli_number(args, "batch", value, 1, 4096, &job->bench.batch) ? CLI_DONE : CLI_USAGE; break;
    case SIDE: wrong = cli_number(args, "side", value, 1, 4096, &job->side) ? CLI_DONE : CLI_USAGE; break;
    case ROUNDS:
      wrong = cli_number(args, "rounds", value, 1, BENCH_MAX_ROUNDS / 2, &job->bench.rounds) ? CLI_DONE : CLI_USAGE;
      break;
    default: return next == CLI_NEXT_HELP ? -1 : CLI_USAGE;
    }
    if (wrong) return wrong;
  }
  if (optind < argc) return cli_wrong(args, "unexpected argument '%s'", argv[optind]);
  if (!job->model) return cli_wrong(args, "--model says of which model");
  if (!job->n) return cli_wrong(args, "--ranks says for how many ranks, as 8,64,512");
  return scale_work_of(args, job->model, job->bench.batch, job->side, &job->work);
}

/* ---- measuring ---- */
static clade_status measure(scale_job *job) {
  bench_job *bench = &job->bench;
  CLADE_TRY(bench_open(bench, NULL));
  CLADE_TRY(scale_add_rate(&job->link.add));
  CLADE_TRY(bench_model_data(&job->work));
  CLADE_TRY(scale_measure(bench, &job->work, NULL, &job->compute));
  job->used = job->link;
  job->used.look = job->compute.poll;
  job->used.latency += job->compute.poll / 2; /* a message waits half an interval on average */
  return CLADE_OK;
}

static scale_step step_of(const scale_job *job, int ranks, double wire) {
  const scale_compute *c = &job->compute;
  return scale_predict(&job->used, ranks, wire, c->n, c->buckets, c->rest);
}

/* A single rank neither sums nor copies. */
static double seconds_of(const scale_job *job, int ranks, double wire) {
  return ranks == 1 ? job->compute.alone : fmax(step_of(job, ranks, wire).seconds, job->compute.alone);
}

/* ---- output ---- */
static void show(const scale_job *job) {
  FILE *to = job->bench.to;
  const scale_link *l = &job->link;
  fprintf(to, "device %s, %s (%s)\n", job->bench.info.id, job->bench.info.name, job->bench.info.platform);
  scale_show_model(to, &job->work, &job->compute);
  fprintf(to,
          "\nlink: %.1f us, %.2f Gbit/s in each direction, %s; the library looks for messages every %.1f us; the host "
          "adds %.2f GB/s\n",
          l->latency * 1e6, l->bandwidth * 8e-9,
          job->link_text ? "as --link says" : "assumed: --link US,GBIT says another", job->compute.poll * 1e6,
          l->add * 1e-9);
  fprintf(to, "\n%8s %12s %10s %12s %12s %12s %12s %10s\n", "ranks", "step ms", "efficiency", "images/s", "sums ms",
          "exposed ms", "16 bits: ms", "efficiency");
  for (int i = 0; i < job->n; i++) {
    const int ranks = job->ranks[i];
    const scale_step s = step_of(job, ranks, 1);
    const double whole = seconds_of(job, ranks, 1), half = seconds_of(job, ranks, 0.5);
    fprintf(to, "%8d %12.3f %9.1f%% %12.0f %12.3f %12.3f %12.3f %9.1f%%\n", ranks, whole * 1e3,
            100 * job->compute.alone / whole, ranks * (double)job->work.batch / whole, s.reductions * 1e3,
            s.exposed * 1e3, half * 1e3, 100 * job->compute.alone / half);
  }
  const double busy = bench_busy(&job->bench.watcher);
  if (busy > 0.1) fprintf(stderr, "clade: other processes used %.0f %% of the processors meanwhile\n", 100 * busy);
}

static json_t *rows_json(const scale_job *job) {
  json_t *rows = json_array();
  for (int i = 0; i < job->n; i++) {
    const int ranks = job->ranks[i];
    const scale_step s = step_of(job, ranks, 1);
    const double whole = seconds_of(job, ranks, 1), half = seconds_of(job, ranks, 0.5);
    json_array_append_new(rows, json_pack("{s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "ranks", ranks, "seconds", whole,
                                          "efficiency", job->compute.alone / whole, "images_per_s",
                                          ranks * (double)job->work.batch / whole, "sums_seconds", s.reductions,
                                          "exposed_seconds", s.exposed, "half_seconds", half, "half_efficiency",
                                          job->compute.alone / half));
  }
  return rows;
}

static json_t *document(const scale_job *job) {
  const scale_link *l = &job->link;
  json_t *link =
      json_pack("{s:f, s:f, s:b, s:f, s:f}", "latency_seconds", l->latency, "bandwidth_gbs", l->bandwidth * 1e-9,
                "assumed", job->link_text == NULL, "poll_seconds", job->compute.poll, "add_gbs", l->add * 1e-9);
  return json_pack("{s:o, s:s, s:o, s:o, s:o}", "machine", bench_machine_json(&job->bench.watcher), "device",
                   job->bench.info.id, "model", scale_model_json(&job->work, &job->compute), "link", link, "rows",
                   rows_json(job));
}

int bench_scale(int argc, char **argv) {
  scale_job job = {.bench = {.args = description, .dtype = CLADE_F32, .rounds = 7, .to = stdout},
                   .link = {50e-6, 10e9 / 8, .whole = CLADE__COMM_SHORT, .piece = CLADE__COMM_PIECE}};
  int result = parse(&job, argc, argv);
  if (result) return result < 0 ? CLI_DONE : result;
  clade_comm *comm = NULL;
  clade_status status = cli_ranks_open(&comm);
  if (comm) {
    result = clade_comm_rank(comm) ? CLI_USAGE
                                   : cli_wrong(&job.bench.args, "it predicts from one process; started by mpirun, "
                                                                "clade bench comm --model compares with its ranks");
    clade_comm_release(comm);
    return result;
  }
  if (status != CLADE_OK) return cli_failed_status(status);
  if (job.bench.args.json && !cli_json_begin()) return CLI_FAILED;
  if (job.bench.args.json) job.bench.to = stderr;
  status = measure(&job);
  if (status == CLADE_OK) show(&job);
  result = status != CLADE_OK    ? cli_failed_status(status)
           : job.bench.args.json ? cli_json_end(document(&job))
                                 : CLI_DONE;
  bench_model_free(&job.work);
  clade__free(job.compute.buckets);
  clade_device_release(job.bench.device);
  return result;
}
